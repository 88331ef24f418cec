"""A simulation as a configuration: TOML in, offline against online out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from recaudit import atomic, lock
from recaudit.audits.audit import Audit
from recaudit.errors import InputError, did_you_mean
from recaudit.folders import MANIFEST, read_manifest
from recaudit.policies import AnyPolicy, Top1
from recaudit.registry import AUDITS
from recaudit.runs.configuration import EngineSettings
from recaudit.runs.environments import collected, label_environments, read_environment
from recaudit.runs.inputs import make_engine
from recaudit.runs.loop_recommenders import LoopRecommender, label_recommenders, read_recommender
from recaudit.runs.toml_files import parse_section, read_section
from recaudit.simulate.loop.comparison import folder_name
from recaudit.simulate.loop.trial import LoopAudit
from recaudit.simulate.offline.comparison import OfflineOnline, offline_online
from recaudit.simulate.worlds.scenarios import Scenario
from recaudit.specification import Specification, build, mistake, together


def _listed(key: str) -> BeforeValidator:
    def check(value: object) -> object:
        if isinstance(value, Mapping):
            raise mistake((), value, f"a list, written with two brackets: [[{key}]]")
        if value == []:
            raise mistake((), None, f"at least one [[{key}]]")
        return value

    return BeforeValidator(check)


def _check_folders(labels: list[str]) -> None:
    """Every label names a folder."""
    for place, label in enumerate(labels):
        try:
            folder_name(label)
        except InputError:
            raise mistake((place, "label"), label, 'a text that can name a folder: no / \\ : * ? " < > |') from None


def _named_environments(environments: tuple[tuple[str, Scenario], ...]) -> tuple[Scenario, ...]:
    labelled = label_environments(environments)
    _check_folders([scenario.name for scenario in labelled])
    return labelled


def _named_recommenders(recommenders: tuple[LoopRecommender, ...]) -> tuple[LoopRecommender, ...]:
    labelled = label_recommenders(recommenders)
    _check_folders([each.model.label for each in labelled])
    return labelled


@final
class AuditSchedule(Specification):
    """The audits of every recommender while it learns, each by its own table, and when they are run."""

    every: int = Field(default=0, ge=0)
    """Every so many steps, and at the last; 0: at the last alone."""
    audits: dict[str, Audit] = Field(default_factory=dict)
    """By name."""

    @model_validator(mode="wrap")
    @classmethod
    def _by_name(cls, value: object, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        if not isinstance(value, Mapping):
            return handler(value)
        wrong, found = list[ValidationError](), {}
        for name, table in value.items():
            if name == "every":
                continue
            with collected(wrong, name):
                if name not in AUDITS:
                    raise mistake((), table, f"one of {', '.join(AUDITS)}", did_you_mean(name, AUDITS))
                audit = build(AUDITS[name], table, info) if isinstance(table, Mapping) else table
                found[name] = TypeAdapter[Audit](LoopAudit).validate_python(audit)
        with collected(wrong):
            made = handler({"audits": found, **{key: value[key] for key in ("every",) if key in value}})
        if wrong:
            raise together(wrong)
        return made


@final
class SimulationConfiguration(Specification):
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
    """Fit anew every so many steps; 0: never after the start."""
    warm: bool = False
    """Whether to start from the model before, rather than from scratch."""
    population_every: int = Field(default=0, ge=0)
    """Measure the error over all pairs every so many steps, and at the last."""
    policy: AnyPolicy = Top1()
    """How scores become what is shown, for recommenders without a policy of their own."""
    environments: Annotated[
        tuple[Annotated[Any, PlainValidator(read_environment)], ...],
        _listed("environment"),
        AfterValidator(_named_environments),
    ] = Field(alias="environment")
    recommenders: Annotated[
        tuple[Annotated[LoopRecommender, PlainValidator(read_recommender)], ...],
        _listed("recommender"),
        AfterValidator(_named_recommenders),
    ] = Field(alias="recommender")
    audits: AuditSchedule = AuditSchedule()
    engine: EngineSettings = EngineSettings()

    @model_validator(mode="before")
    @classmethod
    def _none_is_an_empty_list(cls, value: object) -> object:
        return {"environment": [], "recommender": [], **value} if isinstance(value, Mapping) else value


def read_simulation(path: str | Path) -> SimulationConfiguration:
    """The simulation in a TOML file; paths in it start at its folder."""
    return read_section(SimulationConfiguration, Path(path))


def parse_simulation(text: str, *, source: str, folder: Path) -> SimulationConfiguration:
    """The simulation in a TOML text; `source` names it in errors, relative paths start at `folder`."""
    return parse_section(SimulationConfiguration, text, source=source, folder=folder)


def execute_simulation(config: SimulationConfiguration, out: str | Path, *, fresh: bool = False) -> OfflineOnline:
    """Measure every recommender offline and in the loop, into the folder `out`.

    A folder that holds this very simulation is resumed, and the numbers are those of one that was never
    interrupted; there may be more trials than the last time. `fresh` starts over.
    """
    for scenario in config.environments:
        log = scenario.begin(config.seed)[0]
        for audit in config.audits.audits.values():
            audit.check(log)
    if fresh:
        _clear(Path(out))
    recommenders = {each.model.label: each for each in config.recommenders}
    return offline_online(
        config.environments,
        {
            label: each.model.recommender if each.policy is None else (each.model.recommender, each.policy)
            for label, each in recommenders.items()
        },
        config.trials,
        tuning={label: each.tuning for label, each in recommenders.items() if each.tuning is not None},
        folds=config.folds,
        k=config.k,
        policy=config.policy,
        retrain=config.retrain,
        warm=config.warm,
        audits=config.audits.audits,
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
