"""The environments that a simulation can name: a scenario of the paper, a kind, or people fitted to ratings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pydantic import ValidationError, ValidationInfo

from recaudit.errors import did_you_mean
from recaudit.registry import ENVIRONMENTS
from recaudit.runs.configuration import read_data
from recaudit.runs.inputs import load_data, name_of
from recaudit.runs.recommenders import own_labels, read_label
from recaudit.simulate.worlds.environment import Environment
from recaudit.simulate.worlds.scenarios import SCENARIOS, Course, Scenario
from recaudit.specification import build, missing, mistake, take_kind, together, within

_BEGINNING = {
    "ratings": "how many ratings recommenders begin with, here or for all environments",
    "steps": "how many steps follow, here or for all environments",
}
"""What has no default but in a scenario of the paper."""
Labelled = tuple[str, Scenario]


def read_environment(value: object, info: ValidationInfo) -> Labelled:
    """An `[[environment]]` table; a label that is not given is left empty for `label_environments`.

    What it does not say about its beginning and end is as for all environments, else as in the paper.
    """
    if not isinstance(value, Mapping) or ("name" in value) == bool({"kind", "data"} & value.keys()):
        expected = "either name = '...' (a scenario of the paper), kind = '...' (one of your own) or data = {...}"
        raise mistake((), value, expected, "'recaudit simulate --list' has the names.")
    table, wrong = dict(value), list[ValidationError]()
    written = {key: table.pop(key) for key in Course.model_fields if key in table}
    common = {key: info.data[key] for key in _BEGINNING if info.data.get(key) is not None}
    scenario = _named(table.pop("name")) if "name" in table else None
    with collected(wrong):
        label = read_label(table.pop("label", None))
    with collected(wrong):
        given = {key: getattr(scenario, key) for key in Course.model_fields} if scenario else {}
        course = build(Course, given | common | written, info)
    if scenario is None:
        wrong += [missing(key, expected) for key, expected in _BEGINNING.items() if key not in common | written]
    with collected(wrong):
        name, environment = _changed(scenario, table, info) if scenario else _of_kind(table, info)
    if wrong:
        raise together(wrong)
    version = scenario.version if scenario else 0
    return label, Scenario(name=name, environment=environment, version=version, **dict(course))


def label_environments(environments: tuple[Labelled, ...]) -> tuple[Scenario, ...]:
    """Each environment under a name of its own: its label, else its name, counted where it repeats."""
    labels, names = [label for label, _ in environments], [scenario.name for _, scenario in environments]
    own = own_labels(labels, names, "environment")
    return tuple(
        scenario.model_copy(update={"name": name}) for name, (_, scenario) in zip(own, environments, strict=True)
    )


def _named(name: object) -> Scenario:
    if not isinstance(name, str) or name not in SCENARIOS:
        raise mistake(("name",), name, "the name of a scenario", did_you_mean(str(name), SCENARIOS))
    return SCENARIOS[name]


def _changed(scenario: Scenario, table: dict[str, object], info: ValidationInfo) -> tuple[str, Environment]:
    """The scenario's environment with the settings that are written."""
    settings = {name: getattr(scenario.environment, name) for name in type(scenario.environment).model_fields}
    return scenario.name, build(type(scenario.environment), settings | table, info, *_KEYS)


def _of_kind(table: dict[str, object], info: ValidationInfo) -> tuple[str, Environment]:
    """An environment by its kind; with data, whose people are fitted to ratings."""
    name, wrong = "", list[ValidationError]()
    if "data" in table:
        with collected(wrong, "data"):
            source = read_data(table["data"], info)
            name, table["data"] = name_of(source), load_data(source)
        if wrong:
            del table["data"]
    kind, settings = take_kind(ENVIRONMENTS, {"kind": "from-data"} | table)
    with collected(wrong):
        environment: Environment = build(ENVIRONMENTS[kind], settings, info, *_KEYS)
    if wrong:
        raise together(wrong)
    return name or kind, environment


_KEYS = ("name", "kind", "label", *Course.model_fields)
"""The keys that every environment has."""


@contextmanager
def collected(wrong: list[ValidationError], key: str = "") -> Iterator[None]:
    """Collect the mistakes made inside, those of the part under `key` with their place, and continue."""
    try:
        yield
    except ValidationError as error:
        wrong.append(within(key, error) if key else error)
