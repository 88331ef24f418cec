"""A simulation as a configuration: TOML in, offline against online out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from recaudit import atomic, lock
from recaudit.audits.audit import Audit
from recaudit.data.sources import read_data
from recaudit.engines import AnyEngine, Serial
from recaudit.errors import InputError, did_you_mean
from recaudit.folders import MANIFEST, read_manifest
from recaudit.models import Recommender
from recaudit.models.checks import check_device
from recaudit.policies import ListPolicy, ShowingPolicy, Top1
from recaudit.registry import ENVIRONMENTS, SIMULATED_MODELS
from recaudit.runs.configuration import read_audit
from recaudit.runs.recommenders import Device, Model, on_device, own_labels, read_label, read_model
from recaudit.runs.toml_files import parse_toml, read_toml
from recaudit.simulate.loop.run import folder_name
from recaudit.simulate.loop.trial import Every, LoopAudit
from recaudit.simulate.offline.comparison import OfflineOnline, offline_online
from recaudit.simulate.offline.cross_validation import GridSearch
from recaudit.simulate.worlds.environment import Environment
from recaudit.simulate.worlds.scenarios import SCENARIOS, Course, Scenario
from recaudit.specification import Specification, build, missing, mistake, take_kind, together, within


@contextmanager
def _collected(wrong: list[ValidationError], key: str = "") -> Iterator[None]:
    """Collect the mistakes made inside, those of the part under `key` with their place, and continue."""
    try:
        yield
    except ValidationError as error:
        wrong.append(within(key, error) if key else error)


def _labelled(given: list[str], names: list[str], what: str) -> list[str]:
    """Each under a label of its own, which names a folder: as given, else its name, counted where it repeats."""
    labels = own_labels(given, names, what)
    for place, label in enumerate(labels):
        try:
            folder_name(label)
        except InputError:
            raise mistake((place, "label"), label, 'a text that can name a folder: no / \\ : * ? " < > |') from None
    return labels


_BEGINNING = {
    "ratings": "how many ratings recommenders begin with, here or for all environments",
    "steps": "how many steps follow, here or for all environments",
}
"""What has no default but in a scenario of the paper."""
_KEYS = ("name", "kind", "label", *Course.model_fields)
"""The keys that every environment has."""


def _read_environment(value: object, info: ValidationInfo) -> tuple[str, Scenario]:
    """The label, perhaps empty, and the scenario of an `[[environment]]` table."""
    if not isinstance(value, Mapping) or ("name" in value) == bool({"kind", "data"} & value.keys()):
        expected = "either name = '...' (a scenario of the paper), kind = '...' (one of your own) or data = {...}"
        raise mistake((), value, expected, "'recaudit simulate --list' has the names.")
    table, wrong = dict(value), list[ValidationError]()
    written = {key: table.pop(key) for key in Course.model_fields if key in table}
    common = {key: info.data[key] for key in _BEGINNING if info.data.get(key) is not None}
    scenario = None
    if "name" in table:
        name = table.pop("name")
        if not isinstance(name, str) or name not in SCENARIOS:
            raise mistake(("name",), name, "the name of a scenario", did_you_mean(str(name), SCENARIOS))
        scenario = SCENARIOS[name]
    with _collected(wrong):
        label = read_label(table.pop("label", None))
    with _collected(wrong):
        given = {key: getattr(scenario, key) for key in Course.model_fields} if scenario else {}
        course = build(Course, given | common | written, info)
    if scenario is None:
        wrong += [missing(key, expected) for key, expected in _BEGINNING.items() if key not in common | written]
    with _collected(wrong):
        name, environment = _environment(scenario, table, info)
    if wrong:
        raise together(wrong)
    version = scenario.version if scenario else 0
    return label, Scenario(name=name, environment=environment, version=version, **dict(course))


def _environment(scenario: Scenario | None, table: dict[str, object], info: ValidationInfo) -> tuple[str, Environment]:
    """The scenario's environment with the settings that are written, or one by its kind; with data, fitted to it."""
    if scenario:
        kind = type(scenario.environment)
        settings = {key: getattr(scenario.environment, key) for key in kind.model_fields}
        return scenario.name, build(kind, settings | table, info, *_KEYS)
    name, table = take_kind(ENVIRONMENTS, {"kind": "from-data"} | table)
    kind = ENVIRONMENTS[name]
    if isinstance(table.get("data"), Mapping):
        try:
            source = read_data(table["data"], info)
        except ValidationError as error:
            raise within("data", error) from None
        name, table["data"] = source.label, source.load()
    return name, build(kind, table, info, *_KEYS)


def _label_environments(environments: tuple[tuple[str, Scenario], ...]) -> tuple[Scenario, ...]:
    names = _labelled([label for label, _ in environments], [one.name for _, one in environments], "environment")
    return tuple(one.model_copy(update={"name": name}) for name, (_, one) in zip(names, environments, strict=True))


@final
@dataclass(frozen=True)
class LoopRecommender:
    """A recommender under its label."""

    model: Model
    policy: ListPolicy | None = None
    """Its own; else the simulation's."""
    tuning: GridSearch | None = None
    """How its settings are chosen; else they are as written."""


def _read_recommender(value: object, info: ValidationInfo) -> LoopRecommender:
    """A `[[recommender]]` table; a label that is not given is left empty for `_label_recommenders`."""
    if not isinstance(value, Mapping):
        return LoopRecommender(read_model(value, info, SIMULATED_MODELS))
    table, wrong = dict(value), list[ValidationError]()
    how, policy, tuning = table.pop("tune", None), None, None
    if "policy" in table:
        with _collected(wrong, "policy"):
            policy = TypeAdapter[ListPolicy](ShowingPolicy).validate_python(table.pop("policy"), context=info.context)
    with _collected(wrong):
        model = read_model(table, info, SIMULATED_MODELS, "policy", "tune")
    if how is not None and not wrong:
        with _collected(wrong, "tune"):
            tuning = _read_tuning(how, model.recommender)
    if wrong:
        raise together(wrong)
    return LoopRecommender(model, policy, tuning)


def _label_recommenders(recommenders: tuple[LoopRecommender, ...]) -> tuple[LoopRecommender, ...]:
    models = [each.model for each in recommenders]
    names = _labelled([one.label for one in models], [type(one.recommender).__name__ for one in models], "recommender")
    labelled = [replace(one, label=name) for one, name in zip(models, names, strict=True)]
    return tuple(replace(each, model=model) for each, model in zip(recommenders, labelled, strict=True))


def _read_tuning(how: object, recommender: Recommender) -> GridSearch:
    """Read a grid such as `{factors = [10, 20]}`."""
    if not isinstance(how, Mapping) or not how:
        raise mistake((), how, "lists of values to try, {factors = [10, 20]}")
    for name, values in how.items():
        if not isinstance(values, list) or not values:
            remedy = "List the values of each setting, as in tune = {factors = [10, 20]}."
            raise mistake((name,), values, "a list of the values to try", remedy)
    tuning = GridSearch(values={name: tuple(values) for name, values in how.items()})
    if wrong := list(_refused(tuning.values, recommender)):
        raise together(wrong)
    return tuning


def _refused(tried: Mapping[str, tuple[object, ...]], recommender: Recommender) -> Iterator[ValidationError]:
    """What the recommender would not take, one setting at a time."""
    kind, known = type(recommender), type(recommender).model_fields
    for name, values in tried.items():
        if name not in known:
            expected = f"a setting of {kind.__name__}" if known else f"nothing: {kind.__name__} has no settings"
            yield mistake((name,), list(values), expected, did_you_mean(name, known) if known else "")
            continue
        for value in values:
            try:
                kind.model_validate(dict(recommender) | {name: value})
            except ValidationError as error:
                # Settings that do not go together may do so once others of them are tried as well.
                if any(line["loc"][:1] == (name,) for line in error.errors()):
                    yield error
                    break


def _listed(key: str) -> BeforeValidator:
    def check(value: object) -> object:
        if isinstance(value, Mapping):
            raise mistake((), value, f"a list, written with two brackets: [[{key}]]")
        if value == []:
            raise mistake((), None, f"at least one [[{key}]]")
        return value

    return BeforeValidator(check)


@final
@dataclass(frozen=True)
class AuditSchedule:
    """The audits of every recommender while it learns, and when they are run."""

    every: int = 0
    """Every so many steps, and at the last; 0: at the last alone."""
    audits: Mapping[str, Audit] = field(default_factory=dict)


def _read_audits(value: object, info: ValidationInfo) -> AuditSchedule:
    """The table `[audits]`, which has a table for each audit under its name."""
    if not isinstance(value, Mapping):
        raise mistake((), value, "a table")
    table, wrong, found = dict(value), list[ValidationError](), dict[str, Audit]()
    with _collected(wrong, "every"):
        every = TypeAdapter[int](Every).validate_python(table.pop("every", 0))
    for name, settings in table.items():
        with _collected(wrong, name):
            found[name] = TypeAdapter[Audit](LoopAudit).validate_python(read_audit(name, settings, info))
    if wrong:
        raise together(wrong)
    return AuditSchedule(every, found)


@final
class SimulationConfiguration(Specification):
    """Everything that the numbers of a simulation follow from, and how the work is spread."""

    seed: int = Field(default=0, ge=0)
    """What everything random follows from."""
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
    """Fit anew every so many steps; 0: never after the start."""
    warm: bool = False
    """Whether to start from the model before, rather than from scratch."""
    population_every: int = Field(default=0, ge=0)
    """Measure the error over all pairs every so many steps, and at the last."""
    policy: ShowingPolicy = Top1()
    """How scores become what is shown, for recommenders without a policy of their own."""
    environments: Annotated[
        tuple[Annotated[Any, PlainValidator(_read_environment)], ...],
        _listed("environment"),
        AfterValidator(_label_environments),
    ] = Field(alias="environment")
    """The people and items that recommenders meet."""
    recommenders: Annotated[
        tuple[Annotated[LoopRecommender, PlainValidator(_read_recommender)], ...],
        _listed("recommender"),
        AfterValidator(_label_recommenders),
    ] = Field(alias="recommender")
    """What learns from them."""
    audits: Annotated[AuditSchedule, PlainValidator(_read_audits)] = AuditSchedule()
    """What every recommender is put to while it learns; nothing where nothing is said."""
    engine: AnyEngine = Serial()
    """How the work is spread; it never changes a number."""
    device: Device = "cpu"
    """What recommenders that can train on a GPU train on: "cpu", "cuda" or "cuda:1"; one with a `device` of its own
    stays there. Everything else is computed on the CPU."""

    @model_validator(mode="before")
    @classmethod
    def _none_is_an_empty_list(cls, value: object) -> object:
        return {"environment": [], "recommender": [], **value} if isinstance(value, Mapping) else value


def read_simulation(path: str | Path) -> SimulationConfiguration:
    """The simulation in a TOML file; paths in it start at its folder."""
    return read_toml(SimulationConfiguration, Path(path))


def parse_simulation(text: str, *, source: str, folder: Path) -> SimulationConfiguration:
    """The simulation in a TOML text; `source` names it in errors, relative paths start at `folder`."""
    return parse_toml(SimulationConfiguration, text, source=source, folder=folder)


def execute_simulation(config: SimulationConfiguration, out: str | Path, *, fresh: bool = False) -> OfflineOnline:
    """Measure every recommender offline and in the loop, into `out`, resuming what is there; `fresh` starts over."""
    check_device(config.device)
    for scenario in config.environments:
        log = scenario.begin(config.seed)[0]
        for audit in config.audits.audits.values():
            audit.check(log)
    if fresh:
        _clear(Path(out))
    recommenders = [replace(each, model=on_device(each.model, config.device)) for each in config.recommenders]
    return offline_online(
        config.environments,
        {each.model.label: (each.model.recommender, each.policy or config.policy) for each in recommenders},
        config.trials,
        tuning={each.model.label: each.tuning for each in recommenders if each.tuning is not None},
        folds=config.folds,
        k=config.k,
        retrain=config.retrain,
        warm=config.warm,
        audits=config.audits.audits,
        audit_every=config.audits.every,
        population_every=config.population_every,
        out=out,
        rng=config.seed,
        engine=config.engine,
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
