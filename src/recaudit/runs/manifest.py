"""What the folder of an audit says about it: configuration, versions, data, timings."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal, Self, final

from pydantic import AfterValidator, Field, ValidationError, model_validator

from recaudit import __version__, folders
from recaudit.audits.facts import check_facts
from recaudit.data import Interactions
from recaudit.folders.manifest import MANIFEST, FileRecord, Record, damaged_manifest, field_words
from recaudit.torch_extra import require_torch

Seconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0, lt=2**63)]


def _time(text: str) -> str:
    datetime.fromisoformat(text)
    return text


@final
class InputFileRecord(Record):
    """A file that the data was read from, as it was then."""

    name: str
    """Without its folder."""
    bytes: Count
    sha256: str

    @classmethod
    def of(cls, path: Path) -> InputFileRecord:
        """Of a file as it is now."""
        return cls(name=path.name, **FileRecord.of(path).model_dump())


@final
class DataRecord(Record):
    """The data that the run looked at."""

    name: str
    fingerprint: str
    """Of the log that was made of the files."""
    files: dict[str, InputFileRecord] = Field(default_factory=dict)
    """The user's own files, by what they hold: ratings, or train and test; items, users."""
    users: Count
    items: Count
    ratings: Count
    train: Count
    test: Count
    scale: tuple[float, float]
    attributes: tuple[str, ...]
    categories: tuple[str, ...]
    unrated_items: Count = 0
    """Items of the catalogue that nobody rated."""
    silent_users: Count = 0
    """Users of the catalogue without ratings."""
    period: tuple[float, float] | None = None
    """The first and the last time of a rating, as the log has times; None where it has none."""
    facts: dict[str, Count] = Field(default_factory=dict)
    """What was counted while the files were read: `skipped_rows` that could not be read, `items_left_out` and
    `users_left_out`, rows about items and users that have no ratings."""

    @classmethod
    def of(
        cls,
        name: str,
        data: Interactions,
        train: Interactions,
        test: Interactions,
        files: Mapping[str, InputFileRecord],
    ) -> DataRecord:
        """Describe a log and its split."""
        return cls(
            name=name,
            fingerprint=data.fingerprint,
            files=dict(files),
            users=data.n_users,
            items=data.n_items,
            ratings=len(data),
            train=len(train),
            test=len(test),
            scale=data.scale,
            attributes=tuple(data.attributes.columns),
            categories=tuple(data.categories),
            unrated_items=int((data.item_counts == 0).sum()),
            silent_users=int((data.user_counts == 0).sum()),
            period=None if data.times is None or not len(data) else (float(data.times.min()), float(data.times.max())),
            facts=dict(data.facts),
        )


@final
class ModelRecord(Record):
    """A recommender of the run."""

    label: str
    kind: str
    settings: dict[str, Any]
    given: bool = False
    """Whether it was made elsewhere, so that nothing shows that it has not seen the held-out ratings."""
    floor: bool = False
    """Whether the run added it, so that every number has something to be compared with."""
    fit_seconds: Seconds | None = None
    """None until it was fitted."""


@final
class StepInputs(Record):
    """What the numbers of a step depend on, as digests: a step is kept as long as they are the same."""

    data: str
    """Of the log and of its two parts."""
    model: str
    """Of the kind and the settings of its recommender."""
    audit: str
    """Of the settings of the audit, defaults included."""
    users: str = ""
    """Of the users that every model of the run is measured on; empty if no model restricts them."""
    seed: int
    device: str
    """What computes the audit, if it can be computed on another device than the CPU."""

    def differences(self, other: StepInputs | None) -> list[str]:
        """The names of the inputs that are not the same; "inputs" if the other ones are not known."""
        if other is None:
            return ["inputs"]
        return [name for name in StepInputs.model_fields if getattr(self, name) != getattr(other, name)]


@final
class StepRecord(Record):
    """One finished audit of one model: its tables are in the folder."""

    model: str
    audit: str
    settings: dict[str, Any]
    """What the numbers depend on, as the result says it: what was asked, and over it what it turned out to be."""
    asked: dict[str, Any] = Field(default_factory=dict)
    """The settings of the audit alone; empty where the version that wrote the folder did not say."""
    seconds: Seconds
    device: str = "cpu"
    """What computed it."""
    inputs: StepInputs | None = None
    """What the numbers depend on; None in a folder of an earlier version."""
    queried: bool = False
    """Whether the model is a system that was queried."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_facts(self.audit, self.asked, self.settings)
        return self


@final
class SkipRecord(Record):
    """An audit that has no result for one model, and why: nothing is missing from the folder."""

    model: str
    audit: str
    reason: str
    failed: bool = False
    """Whether the audit failed for a cause that may pass, so that it is tried again when the run is resumed. Otherwise
    the model does not support it."""
    inputs: StepInputs | None = None
    """What that depends on; None in a folder of an earlier version."""


@final
class AuditRecord(Record):
    """What manifest.json says about an audit, besides its files."""

    recaudit: str
    """The version that wrote the folder."""
    status: Literal["running", "complete"]
    """Complete once every step and the report are written."""
    seed: Annotated[int, Field(ge=0)]
    started: Annotated[str, AfterValidator(_time)]
    """ISO 8601, UTC."""
    seconds: Seconds
    """Time spent, over all sittings of an interrupted run."""
    config: dict[str, Any]
    """As in the TOML file."""
    config_hash: str
    data: DataRecord
    versions: dict[str, str]
    machine: str = ""
    """The kind of machine that began the run; empty where the version that wrote the folder did not say."""
    models: tuple[ModelRecord, ...]
    audits: tuple[str, ...] = ()
    """What every model is put to, by name."""
    device: str = "cpu"
    """What computes whatever can be computed on it."""
    steps: tuple[StepRecord, ...]
    skipped: tuple[SkipRecord, ...] = ()
    id: str = ""
    """A random id: answers of a service that this run queried are recorded under it."""
    answers_since: str | None = None
    """From when on answers of a service count (ISO 8601), if they were queried again on request."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for wrong in self._contradictions():
            raise ValueError(wrong)
        return self

    def _contradictions(self) -> Iterator[str]:
        """What in the fields together cannot be."""
        labels = [model.label for model in self.models]
        if all(model.floor for model in self.models):
            yield "models: none was audited"
        if len(set(labels)) < len(labels):
            yield "models: two have the same label"
        records: list[StepRecord | SkipRecord] = [*self.steps, *self.skipped]
        steps = Counter((step.model, step.audit) for step in records)
        if any(count > 1 for count in steps.values()):
            yield "steps: an audit of a model is there twice"
        if any(model not in labels for model, _ in steps):
            yield "steps: a model is not among the models"
        asked: dict[str, Mapping[str, Any]] = {}
        for step in self.steps:
            # A policy that follows from a model's scores differs between models.
            own = {name: value for name, value in step.asked.items() if not isinstance(value, Mapping)}
            if asked.setdefault(step.audit, own) != own:
                yield f"steps: the audit {step.audit!r} has other settings for another model"
        for name in ("data", "split", "audits", "engine"):
            if not isinstance(self.config.get(name, {}), Mapping):
                yield f"config.{name}: a table is expected"

    @classmethod
    def of(cls, kept: folders.Manifest, path: Path) -> AuditRecord:
        """Return what the manifest of the folder at `path` says about an audit."""
        try:
            return cls.model_validate({**kept.record, "recaudit": kept.recaudit, "status": kept.status})
        except ValidationError as error:
            raise damaged_manifest(path / MANIFEST, f"in which {field_words(error, 'record')}") from None

    def kept(self) -> folders.Manifest:
        """As a folder keeps it."""
        record = self.model_dump(mode="json", exclude={"recaudit", "status"})
        plan = {"settings": self.config_hash, "data": self.data.fingerprint}
        return folders.Manifest(kind="audit", recaudit=self.recaudit, status=self.status, plan=plan, record=record)

    @property
    def computed(self) -> str:
        """What was computed on which device, in a line; empty for a run on the CPU."""
        if self.device == "cpu":
            return ""
        fitted = {model.label: model.settings["device"] for model in self.models if "device" in model.settings}
        where = {f"training {label}": device for label, device in fitted.items()}
        for audit in self.audits:
            of = {step.model: step.device for step in self.steps if step.audit == audit}
            where |= (
                {audit: next(iter(of.values()))}
                if len(set(of.values())) == 1
                else {f"{audit} of {model}": device for model, device in of.items()}
            )
        used = [name for name, device in where.items() if device != "cpu"]
        idle = [name for name, device in where.items() if device == "cpu"]
        told = f"Computed on {self.device}: {', '.join(used)}" if used else f"Nothing in this run uses {self.device}"
        return f"{told}. Computed on the CPU: {', '.join(idle)}." if idle else f"{told}."

    @property
    def settled(self) -> set[tuple[str, str]]:
        """(model, audit) of every step that is finished, or known to have no answer."""
        steps: list[StepRecord | SkipRecord] = [*self.steps, *self.skipped]
        return {(step.model, step.audit) for step in steps}


_PACKAGES = ("numpy", "scipy", "numba", "polars", "pydantic")


def versions(device: str = "cpu") -> dict[str, str]:
    """Return the versions of Python, of recaudit and of everything that numbers come from.

    torch has a version only where it is installed. A run on a GPU has its name too.
    """
    packages = {name: metadata.version(name) for name in _PACKAGES}
    with suppress(metadata.PackageNotFoundError):
        packages["torch"] = metadata.version("torch")
    if device != "cpu":
        torch = require_torch("devices other than the CPU")
        if torch.cuda.is_available():
            packages["gpu"] = torch.cuda.get_device_name(device)
    return {"python": platform.python_version(), "recaudit": __version__, **packages}


def machine() -> str:
    """The kind of this machine: system, processor and cores; nothing that names it."""
    cores = os.cpu_count() or 1
    return f"{platform.system()}, {platform.machine()}, {cores} core{'s' * (cores != 1)}"
