"""The configuration of a run: TOML in, a frozen and validated object out."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)

from recaudit.data import datasets
from recaudit.errors import did_you_mean
from recaudit.runs.audits import Accuracy, Audits, Exposure
from recaudit.runs.problems import problem
from recaudit.runs.recommenders import Model, label_models, read_model
from recaudit.runs.sections import Section, build, by_kind
from recaudit.runs.toml_files import parse_section, read_section
from recaudit.specification import InputFile, InputFolder

# ---- data ----------------------------------------------------------------------------------------------


def _known_data_set(name: str) -> str:
    if name not in datasets.names():
        raise problem((), name, "the name of a data set", did_you_mean(name, datasets.names()))
    return name


@final
class NamedData(Section):
    """A data set that recaudit knows by name."""

    name: Annotated[str, AfterValidator(_known_data_set)]
    path: InputFolder | None = None
    """The folder that holds its files; without it they are looked for, or downloaded."""


def _ascending(scale: tuple[float, float]) -> tuple[float, float]:
    if not scale[0] < scale[1]:
        raise problem((), list(scale), "[lowest, highest], lowest below highest")
    return scale


@final
class OwnData(Section):
    """The user's own files: .csv, .tsv or .parquet, each with a header."""

    file: InputFile
    """The ratings."""
    user: str = "user"
    item: str = "item"
    rating: str | Literal[False] = "rating"
    """The rating's column; false takes every row as a rating of 1."""
    time: str | None = None
    scale: Annotated[tuple[float, float], AfterValidator(_ascending)] | None = None
    """The lowest and highest rating that can be given; without it, those that were."""
    duplicates: Literal["error", "last", "mean"] = "error"
    """What to do with several rows for one user and item."""
    items: InputFile | None = None
    """A row an item, under the same id column as in `file`; items that nobody rated are left out."""
    title: str | None = None
    categories: dict[str, str] = Field(default_factory=dict)
    """The columns of `items` that hold categories: {genre = "genres"}."""
    separator: str = Field(default="|", min_length=1)
    """What stands between two categories in one cell."""
    users: InputFile | None = None
    """A row a user, under the same id column as in `file`; users without ratings are left out."""
    attributes: tuple[str, ...] = ()
    """The columns of `users` to group by."""

    @model_validator(mode="after")
    def _columns_have_files(self) -> Self:
        if self.items is None and (self.title is not None or self.categories):
            raise problem(("items",), None, "the file that holds 'title' and 'categories'")
        if self.users is None and self.attributes:
            raise problem(("users",), None, "the file that holds 'attributes'")
        return self


def read_data(value: object, info: ValidationInfo) -> NamedData | OwnData:
    """Data by name, or the user's own."""
    if isinstance(value, NamedData | OwnData):
        return value
    if not isinstance(value, Mapping) or ("name" in value) == ("file" in value):
        raise problem((), value, "either name = '...' (a data set by name) or file = '...' (your own)")
    return build(NamedData, value, info) if "name" in value else build(OwnData, value, info)


# ---- split and engine ----------------------------------------------------------------------------------

Share = Annotated[float, Field(gt=0, lt=1)]


@final
class RandomSplit(Section):
    """Hold out a share of all ratings at random."""

    fraction: Share = 0.1


@final
class LeaveLast(Section):
    """Hold out the last k ratings of each user by time."""

    k: int = Field(default=1, ge=1)


@final
class ByTime(Section):
    """Hold out the latest share of all ratings."""

    fraction: Share = 0.1


SPLITS: Mapping[str, type[RandomSplit | LeaveLast | ByTime]] = MappingProxyType(
    {"random": RandomSplit, "leave-last": LeaveLast, "by-time": ByTime}
)


@final
class EngineSettings(Section):
    """How work is spread; never changes a number."""

    kind: Literal["serial", "threads", "processes"] = "serial"
    workers: int = Field(default=2, ge=1)

    def with_workers(self, workers: int) -> EngineSettings:
        """As many workers, in the same kind of engine; in threads where there was only one."""
        kind = "threads" if self.kind == "serial" and workers > 1 else self.kind
        return EngineSettings(kind=kind, workers=workers)


# ---- the whole -----------------------------------------------------------------------------------------


def _listed(models: object) -> object:
    if isinstance(models, Mapping):
        raise problem((), models, "a list, written with two brackets: [[model]]")
    return models


def _labelled(models: tuple[Model, ...]) -> tuple[Model, ...]:
    if not models:
        raise problem((), None, "at least one [[model]]")
    return label_models(models)


def _some_audit(audits: Audits) -> Audits:
    if not audits.chosen():
        raise problem((), {}, f"at least one of {', '.join(f'[audits.{name}]' for name in Audits.model_fields)}")
    return audits


@final
class Configuration(Section):
    """Everything that a run's numbers follow from, and how the work is spread."""

    seed: int = Field(default=0, ge=0)
    data: Annotated[NamedData | OwnData, PlainValidator(read_data)]
    split: Annotated[RandomSplit | LeaveLast | ByTime, PlainValidator(by_kind(SPLITS))] = RandomSplit()
    models: Annotated[
        tuple[Annotated[Model, PlainValidator(read_model)], ...],
        BeforeValidator(_listed),
        AfterValidator(_labelled),
    ] = Field(alias="model")
    audits: Annotated[Audits, AfterValidator(_some_audit)] = Audits(accuracy=Accuracy(), exposure=Exposure())
    engine: EngineSettings = EngineSettings()
    _written: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _keep_written(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, Mapping):
            return handler(value)
        made = handler({"model": [], **value})  # none at all is told like an empty list
        made._written = copy.deepcopy(dict(value))
        return made

    @property
    def written(self) -> dict[str, Any]:
        """The configuration as it stands in the file."""
        return copy.deepcopy(self._written)

    @property
    def hash(self) -> str:
        """The same hash, the same numbers on the same data, by the same version: the engine is left out."""
        written = {key: value for key, value in self._written.items() if key != "engine"}
        settings = [(m.label, m.kind, m.recommender.model_dump(mode="json")) for m in self.models]
        text = json.dumps([written, settings], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def read(path: str | Path) -> Configuration:
    """The configuration in a TOML file; paths in it start at its folder."""
    return read_section(Configuration, Path(path))


def parse(text: str, *, source: str, folder: Path) -> Configuration:
    """The configuration in a TOML text; `source` names it in errors, relative paths start at `folder`."""
    return parse_section(Configuration, text, source=source, folder=folder)
