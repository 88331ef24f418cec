"""A simulation as a configuration: TOML in, offline against online out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    PositiveInt,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from recaudit import atomic, lock
from recaudit.errors import InputError
from recaudit.folders import MANIFEST, read_manifest
from recaudit.policies import Policy, Top1
from recaudit.runs.audits import POLICIES
from recaudit.runs.configuration import EngineSettings
from recaudit.runs.contestants import Contestant, label_contestants, read_contestant
from recaudit.runs.environments import OfData, OfPaper, Staged, label_environments, read_environment
from recaudit.runs.inputs import make_engine
from recaudit.runs.loop_audits import LoopAudits
from recaudit.runs.problems import config_error, problem, together
from recaudit.runs.sections import Section, by_kind
from recaudit.runs.toml_files import parse_section, read_section
from recaudit.simulate.loop.comparison import folder_name
from recaudit.simulate.offline.comparison import OfflineOnline, offline_online
from recaudit.simulate.worlds.scenarios import Scenario


def _listed(key: str) -> BeforeValidator:
    def check(value: object) -> object:
        if isinstance(value, Mapping):
            raise problem((), value, f"a list, written with two brackets: [[{key}]]")
        if value == []:
            raise problem((), None, f"at least one [[{key}]]")
        return value

    return BeforeValidator(check)


def _check_folders(labels: list[str]) -> None:
    """Every label names a folder."""
    for place, label in enumerate(labels):
        try:
            folder_name(label)
        except InputError:
            raise problem((place, "label"), label, 'a text that can name a folder: no / \\ : * ? " < > |') from None


def _named_environments(environments: tuple[Staged, ...]) -> tuple[Staged, ...]:
    labelled = label_environments(environments)
    _check_folders([environment.label for environment in labelled])
    return labelled


def _named_contestants(contestants: tuple[Contestant, ...]) -> tuple[Contestant, ...]:
    labelled = label_contestants(contestants)
    _check_folders([contestant.model.label for contestant in labelled])
    return labelled


@final
class SimulationConfiguration(Section):
    """Everything that the numbers of a simulation follow from, and how the work is spread."""

    seed: int = Field(default=0, ge=0)
    trials: PositiveInt = 10
    """How often each loop is run, with the same people and other chance."""
    folds: int = Field(default=5, ge=2)
    """Of the cross-validation that measures and tunes offline."""
    k: PositiveInt = 20
    """Of nDCG@k."""
    ratings: PositiveInt | None = None
    """How many ratings recommenders begin with, in environments that do not say it themselves."""
    steps: PositiveInt | None = None
    """How many steps follow, likewise."""
    retrain: int = Field(default=1, ge=0)
    """Learn anew every so many steps; 0: never after the start."""
    warm: bool = False
    """Whether to learn on from the model before, rather than from scratch."""
    population_every: int = Field(default=0, ge=0)
    """Measure the error over all pairs every so many steps, and at the last."""
    policy: Annotated[Policy, PlainValidator(by_kind(POLICIES))] = Top1()
    """How scores become what is shown, for recommenders without a policy of their own."""
    environments: Annotated[
        tuple[Annotated[Staged, PlainValidator(read_environment)], ...],
        _listed("environment"),
        AfterValidator(_named_environments),
    ] = Field(alias="environment")
    recommenders: Annotated[
        tuple[Annotated[Contestant, PlainValidator(read_contestant)], ...],
        _listed("recommender"),
        AfterValidator(_named_contestants),
    ] = Field(alias="recommender")
    audits: LoopAudits = LoopAudits()
    engine: EngineSettings = EngineSettings()
    _source: str = PrivateAttr(default="configuration")

    @model_validator(mode="before")
    @classmethod
    def _none_is_an_empty_list(cls, value: object) -> object:
        return {"environment": [], "recommender": [], **value} if isinstance(value, Mapping) else value

    def model_post_init(self, context: Any, /) -> None:
        """Keep the file's name, for mistakes that only the data shows."""
        self._source = (context or {}).get("source", self._source)

    @model_validator(mode="after")
    def _can_begin(self) -> Self:
        """All that can be known before any data is read."""
        wrong: list[ValidationError] = []
        for number, environment in enumerate(self.environments):
            if isinstance(environment, OfPaper):
                try:
                    self._begun(number)
                except ValidationError as error:
                    wrong.append(error)
            elif isinstance(environment, OfData):
                missing = _BEGINNING.keys() - self._course(environment).keys()
                wrong += [problem(("environment", number, key), None, _BEGINNING[key]) for key in sorted(missing)]
        if wrong:
            raise together(wrong)
        return self

    def scenarios(self) -> list[Scenario]:
        """The environments, each with a beginning and an end; data is read, and people are fitted to it."""
        try:
            return [self._begun(number) for number in range(len(self.environments))]
        except ValidationError as error:
            raise config_error(self._source, error) from None

    def _begun(self, number: int) -> Scenario:
        environment = self.environments[number]
        return environment.begun(self._course(environment), self.seed, ("environment", number))

    def _course(self, environment: Staged) -> dict[str, Any]:
        """How an environment begins and ends: as it says itself, else as is said for all."""
        common = {"ratings": self.ratings, "steps": self.steps}
        return {key: value for key, value in common.items() if value is not None} | environment.course.said


_BEGINNING = {
    "ratings": "how many ratings recommenders begin with, here or for all environments",
    "steps": "how many steps follow, here or for all environments",
}
"""What has no default where people are fitted to data."""


def read_simulation(path: str | Path) -> SimulationConfiguration:
    """The simulation in a TOML file; paths in it start at its folder."""
    return read_section(SimulationConfiguration, Path(path))


def parse_simulation(text: str, *, source: str, folder: Path) -> SimulationConfiguration:
    """The simulation in a TOML text; `source` names it in errors, relative paths start at `folder`."""
    return parse_section(SimulationConfiguration, text, source=source, folder=folder)


def execute_simulation(config: SimulationConfiguration, out: str | Path, *, fresh: bool = False) -> OfflineOnline:
    """Measure every recommender offline and in the loop, into the folder `out`.

    A folder that holds this very simulation is gone on with, and the numbers are those of one that was never
    interrupted; there may be more trials than the last time. `fresh` starts over.
    """
    scenarios = config.scenarios()
    for scenario in scenarios:
        log = scenario.begin(config.seed)[0]
        for audit in config.audits.chosen().values():
            audit.check(log)
    if fresh:
        _clear(Path(out))
    contestants = {each.model.label: each for each in config.recommenders}
    return offline_online(
        scenarios,
        {
            label: each.model.recommender if each.policy is None else (each.model.recommender, each.policy)
            for label, each in contestants.items()
        },
        config.trials,
        tuning={label: each.tuning for label, each in contestants.items() if each.tuning is not None},
        folds=config.folds,
        k=config.k,
        policy=config.policy,
        retrain=config.retrain,
        warm=config.warm,
        audits=config.audits.observers(config.seed),
        audit_every=config.audits.every,
        population_every=config.population_every,
        out=out,
        rng=config.seed,
        engine=make_engine(config.engine),
    )


def _clear(out: Path) -> None:
    """Empty a folder that holds such a simulation; any other is left alone, and refused if it is not empty."""
    former = read_manifest(out)
    if former is None or former.kind != "study":
        return
    with lock.alone(out):
        others = [path for path in out.iterdir() if path.name not in (lock.NAME, MANIFEST)]
        # The manifest last: killed on the way, the folder is still known as a simulation's.
        for path in (*others, out / MANIFEST):
            atomic.discard(path)
