"""The configuration of a run: TOML in, a frozen and validated object out."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from recaudit.audits.audit import Audit
from recaudit.audits.lists.accuracy import Accuracy
from recaudit.audits.lists.exposure import Exposure
from recaudit.data.sources import AnyData
from recaudit.data.splits import AnySplitter, RandomSplit, Splitter
from recaudit.engines import AnyEngine, Serial
from recaudit.errors import did_you_mean
from recaudit.registry import AUDITS
from recaudit.runs.recommenders import Device, Model, floors, label_models, on_device, read_model
from recaudit.runs.toml_files import parse_toml, read_toml
from recaudit.specification import Specification, as_data, build, mistake, together, within


def read_audits(value: object, info: ValidationInfo) -> dict[str, Audit]:
    """The audits that have a table, each under its name; of several models all with policies that compare them."""
    if not isinstance(value, Mapping):
        raise mistake((), value, "a table for each audit: [audits.exposure]")
    read, wrong = dict[str, Audit](), list[ValidationError]()
    for name, table in value.items():
        try:
            read[name] = read_audit(name, table, info)
        except ValidationError as error:
            wrong.append(within(name, error))
    if wrong:
        raise together(wrong)
    if not read:
        raise mistake((), {}, f"at least one of {', '.join(f'[audits.{name}]' for name in AUDITS)}")
    return read


def read_audit(name: str, table: object, info: ValidationInfo) -> Audit:
    """The audit of this name with the settings of its table."""
    if name not in AUDITS:
        raise mistake((), table, f"one of {', '.join(AUDITS)}", did_you_mean(name, AUDITS))
    if isinstance(table, Audit):
        return table
    if not isinstance(table, Mapping):
        raise mistake((), table, "a table")
    audit: Audit = build(AUDITS[name], table, info)
    return audit


def _with_files(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tables of a file; where [split] names files, they are the data, and [data] says how they are written."""
    split, data = value.get("split"), value.get("data", {})
    if not (isinstance(split, Mapping) and "train" in split and isinstance(data, Mapping)):
        return value
    for key in ("name", "file"):
        if key in data:
            raise mistake(("data", key), data[key], "nothing: the files of [split] are the data")
    return {**value, "data": {"file": split["train"], **data}}


def _listed(models: object) -> object:
    if isinstance(models, Mapping):
        raise mistake((), models, "a list, written with two brackets: [[model]]")
    return models


def _labelled(models: tuple[Model, ...]) -> tuple[Model, ...]:
    if not models:
        raise mistake((), None, "at least one [[model]]")
    return label_models(models)


@final
class Configuration(Specification):
    """Everything that a run's numbers follow from, and how the work is spread."""

    seed: int = Field(default=0, ge=0)
    """What everything random follows from: the split, training, samples and intervals."""
    data: AnyData
    """The ratings, and what is known about users and items."""
    split: AnySplitter = RandomSplit()
    """Which ratings are held out, for the audits that test a model on what it has not seen."""
    models: Annotated[
        tuple[Annotated[Model, PlainValidator(read_model)], ...],
        BeforeValidator(_listed),
        AfterValidator(_labelled),
    ] = Field(alias="model")
    """What is audited, one or several side by side."""
    floors: bool = True
    """Whether a random and a most-popular recommender are measured too, so that every number has something to be
    compared with; where a model is one of them, it is that one."""
    audits: Annotated[dict[str, Audit], PlainValidator(read_audits)] = Field(
        default_factory=lambda: dict[str, Audit](accuracy=Accuracy(), exposure=Exposure())
    )
    """What every model is put to; accuracy and exposure where nothing is said."""
    engine: AnyEngine = Serial()
    """How the work is spread; it never changes a number."""
    device: Device = "cpu"
    """What computes: "cpu", "cuda" or "cuda:1". Whatever does not use a GPU is computed on the CPU, and the run says
    what that is; a model with a `device` of its own stays there. A GPU's numbers differ in their last digits, so that
    steps are computed again on another device if they use it."""
    _written: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _keep_written(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, Mapping):
            return handler(value)
        made = handler({"model": [], **_with_files(value)})  # none at all is told like an empty list
        made._written = copy.deepcopy(dict(value))
        return made

    @property
    def written(self) -> dict[str, Any]:
        """The configuration as it stands in the file."""
        return copy.deepcopy(self._written)

    @property
    def measured(self) -> tuple[Model, ...]:
        """Every model of the run, on its device: those that were asked for, and the floors."""
        models = (*self.models, *(floors(self.models) if self.floors else ()))
        return tuple(on_device(model, self.device) for model in models)

    def steps(self, model: Model) -> dict[str, Audit]:
        """What this model is put to, by name."""
        return {name: audit for name, audit in self.audits.items() if audit.has_floor or not model.floor}

    @property
    def hash(self) -> str:
        """A digest of the resolved settings of every step: with the same digest and data, the numbers are the same.

        Defaults are included, whoever has set them. The engine and `Recommender.execution_settings` are not.
        """
        steps = [
            (model.label, name, model_digest(model), audit_digest(name, audit))
            for model in self.measured
            for name, audit in self.steps(model).items()
        ]
        return digest([self.seed, self.device, _plain_split(self.split), steps])


def digest(value: object) -> str:
    """The SHA-256 digest of plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def model_digest(model: Model) -> str:
    """A digest of the settings of a recommender that its numbers depend on."""
    settings = as_data(model.recommender)
    needed = {name: value for name, value in settings.items() if name not in model.recommender.execution_settings}
    return digest([model.kind, needed])


def audit_digest(name: str, audit: Audit) -> str:
    """A digest of the settings of an audit."""
    return digest([name, as_data(audit)])


def _plain_split(split: Splitter) -> list[object]:
    """The settings of a split; of files their names alone, since the data have a digest of their own."""
    settings = split.model_dump(mode="python")
    plain = {name: value.name if isinstance(value, Path) else value for name, value in settings.items()}
    return [type(split).__name__, plain]


def read(path: str | Path) -> Configuration:
    """The configuration in a TOML file; paths in it start at its folder."""
    return read_toml(Configuration, Path(path))


def parse(text: str, *, source: str, folder: Path) -> Configuration:
    """The configuration in a TOML text; `source` names it in errors, relative paths start at `folder`."""
    return parse_toml(Configuration, text, source=source, folder=folder)
