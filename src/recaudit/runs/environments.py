"""The environments that a simulation can name: a scenario of the paper, or people fitted to ratings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, final

from pydantic import Field, PlainValidator, PositiveInt, ValidationError, ValidationInfo

from recaudit.errors import did_you_mean
from recaudit.models import Recommender
from recaudit.runs.configuration import NamedData, OwnData, read_data
from recaudit.runs.inputs import load_data, name_of
from recaudit.runs.problems import Place, problem, together, within
from recaudit.runs.recommenders import KINDS, own_labels, read_label
from recaudit.runs.sections import Section, build, by_kind
from recaudit.simulate.worlds.choices import Choice, Logit, PicksBest, TakesAll
from recaudit.simulate.worlds.environment import Environment, Repeats
from recaudit.simulate.worlds.fitted import Exposure, OfflineLog, from_data
from recaudit.simulate.worlds.scenarios import ML_100K, SCENARIOS, Scenario, paper

CHOICES: Mapping[str, type[Choice]] = MappingProxyType({"takes-all": TakesAll, "picks-best": PicksBest, "logit": Logit})
_read_choice = by_kind(CHOICES)


@final
class Course(Section):
    """How a simulation begins and how long it lasts."""

    ratings: PositiveInt | None = None
    """How many ratings a recommender begins with; else as many as in the paper."""
    steps: PositiveInt | None = None
    """How many steps follow; else as many as in the paper."""
    lived: bool | None = None
    """Whether what people rate at the beginning changes them already; else as in the paper."""

    @property
    def said(self) -> dict[str, Any]:
        """What is said, by name."""
        return {name: value for name, value in self if value is not None}


_COMMON = ("label", *Course.model_fields)
"""The keys that every environment has."""


@final
@dataclass(frozen=True, eq=False)
class OfPaper:
    """A scenario of the paper, perhaps with other settings."""

    label: str
    course: Course
    scenario: Scenario
    """As in the paper."""
    environment: Environment
    """With the settings that are written."""

    @property
    def name(self) -> str:
        """What to call it where no label is given."""
        return self.scenario.name

    def begun(self, course: dict[str, Any], rng: int, place: Place) -> Scenario:
        """The scenario with this course, or what is wrong with it; `place` is where the environment stands."""
        settings = {name: getattr(self.scenario, name) for name in Course.model_fields} | course
        with _in_own_words(settings, place):
            return Scenario(name=self.label, environment=self.environment, version=self.scenario.version, **settings)


@final
class FittedSettings(Section):
    """What `from_data` can be told, in its own words."""

    factors: PositiveInt = 8
    recommender: Annotated[Recommender, PlainValidator(by_kind(KINDS))] | None = None
    users_per_step: PositiveInt | None = None
    noise: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    rounded: bool | None = None
    exposure: Exposure = "log"
    offline_log: OfflineLog = "made"
    slate: PositiveInt = 1
    choice: Annotated[Choice, PlainValidator(_read_choice)] | None = None
    repeats: Repeats = "never"
    affinity: float = Field(default=0.0, ge=0, le=1)
    boredom_penalty: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    boredom_threshold: float = Field(default=0.0, ge=-1, le=1)
    memory: PositiveInt = 5


@final
@dataclass(frozen=True, eq=False)
class OfData:
    """People fitted to a log."""

    label: str
    course: Course
    data: NamedData | OwnData
    settings: FittedSettings

    @property
    def name(self) -> str:
        """What to call it where no label is given."""
        return name_of(self.data)

    def begun(self, course: dict[str, Any], rng: int, place: Place) -> Scenario:
        """Read the log and fit people to it; or what is wrong, as above."""
        told = dict(self.settings)
        with _in_own_words(told | course, place):
            environment = from_data(load_data(self.data), **told, rng=rng)
            return Scenario(name=self.label, environment=environment, **course)


@final
@dataclass(frozen=True, eq=False)
class OfMovieLens:
    """The scenario of the paper whose people are fitted to MovieLens 100K, perhaps with other settings."""

    label: str
    course: Course
    settings: FittedSettings

    @property
    def name(self) -> str:
        """What to call it where no label is given."""
        return ML_100K

    def begun(self, course: dict[str, Any], rng: int, place: Place) -> Scenario:
        """Load the log and fit people to it; or what is wrong, as above."""
        told = {name: getattr(self.settings, name) for name in self.settings.model_fields_set} | course
        with _in_own_words(told, place):
            return paper(ML_100K, **told).model_copy(update={"name": self.label})


Staged = OfPaper | OfMovieLens | OfData
"""Any environment that can be named."""


def read_environment(value: object, info: ValidationInfo) -> Staged:
    """An `[[environment]]` table; a label that is not given is left empty for `label_environments`."""
    if not isinstance(value, Mapping) or ("name" in value) == ("data" in value):
        expected = "either name = '...' (a scenario of the paper) or data = {...} (people fitted to ratings)"
        raise problem((), value, expected, "'recaudit simulate --list' has the names.")
    table, wrong = dict(value), list[ValidationError]()
    with _noted(wrong):
        label = read_label(table.pop("label", None))
    with _noted(wrong):
        course = build(Course, {name: table.pop(name) for name in Course.model_fields if name in table}, info)
    with _noted(wrong):
        read = _of_paper if "name" in table else _of_data
        environment = read(table, info)
    if wrong:
        raise together(wrong)
    return replace(environment, label=label, course=course)


def label_environments(environments: tuple[Staged, ...]) -> tuple[Staged, ...]:
    """Each environment with a label of its own: as given, else its name, counted where it repeats."""
    labels = own_labels([each.label for each in environments], [each.name for each in environments], "environment")
    return tuple(replace(each, label=label) for each, label in zip(environments, labels, strict=True))


def _of_paper(table: dict[str, object], info: ValidationInfo) -> Staged:
    name = table.pop("name")
    if name == ML_100K:
        return _of_movielens(table, info)
    if not isinstance(name, str) or name not in SCENARIOS:
        raise problem(("name",), name, "the name of a scenario", did_you_mean(str(name), [*SCENARIOS, ML_100K]))
    scenario, wrong = SCENARIOS[name], list[ValidationError]()
    if "choice" in table:
        with _noted(wrong, "choice"):
            table["choice"] = _read_choice(table.pop("choice"), info)
    settings = dict(scenario.environment) | table
    with _noted(wrong), _in_own_words(settings):
        environment = build(type(scenario.environment), settings, info, "name", *_COMMON)
    if wrong:
        raise together(wrong)
    return OfPaper("", Course(), scenario, environment)


def _of_movielens(table: dict[str, object], info: ValidationInfo) -> Staged:
    settings = build(FittedSettings, table, info, "name", *_COMMON)
    for name in ("factors", "recommender"):
        if name in settings.model_fields_set:
            remedy = f"To fit other people, write data = {{name = {ML_100K!r}}} in place of name."
            raise problem((name,), table[name], "nothing: its people are the paper's", remedy)
    return OfMovieLens("", Course(), settings)


def _of_data(table: dict[str, object], info: ValidationInfo) -> Staged:
    wrong = list[ValidationError]()
    source = table.pop("data")
    with _noted(wrong, "data"):
        data = read_data(source, info)
    with _noted(wrong):
        settings = build(FittedSettings, table, info, "data", *_COMMON)
    if wrong:
        raise together(wrong)
    return OfData("", Course(), data, settings)


@contextmanager
def _noted(wrong: list[ValidationError], key: str = "") -> Iterator[None]:
    """Note the mistakes made inside, those of the part under `key` with their place, and go on."""
    try:
        yield
    except ValidationError as error:
        wrong.append(within(key, error) if key else error)


_SAID = re.compile(r"(?:Value error, )?(\w+(?:, \w+)*): received .+?; (?:expected )?(.+?)\.(?: (.+))?", re.DOTALL)
"""How environments tell what does not go together: setting, what came, what was expected, what to do."""


@contextmanager
def _in_own_words(settings: Mapping[str, object], place: Place = ()) -> Iterator[None]:
    """Put what an environment says about its settings together where it belongs in the file: at their keys."""
    try:
        yield
    except ValidationError as error:
        [first, *others] = error.errors(include_url=False)
        said = _SAID.fullmatch(first["msg"])
        if others or first["type"] != "value_error" or said is None:
            raise
        names, expected, remedy = said[1].split(", "), said[2], said[3] or ""
        if len(names) == 1:
            raise problem((*place, names[0]), settings.get(names[0]), expected, remedy) from None
        raise problem(place, {name: settings.get(name) for name in names}, expected, remedy) from None
