"""What the folder of an audit says about it: configuration, versions, data, timings."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, final

import torch
from pydantic import Field, ValidationError

from recaudit import __version__, folders
from recaudit.data import Interactions
from recaudit.errors import DamagedError
from recaudit.folders.manifest import FileRecord, Record


@final
class InputFileRecord(Record):
    """A file that the data was read from, as it was then."""

    name: str
    """Without its folder."""
    bytes: int
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
    users: int
    items: int
    ratings: int
    train: int
    test: int
    scale: tuple[float, float]
    attributes: tuple[str, ...]
    categories: tuple[str, ...]
    unrated_items: int = 0
    """Items of the catalogue that nobody rated."""
    silent_users: int = 0
    """Users of the catalogue without ratings."""
    period: tuple[float, float] | None = None
    """The first and the last time of a rating, as the log has times; None where it has none."""
    facts: dict[str, int] = Field(default_factory=dict)
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
    fit_seconds: float | None = None
    """None until it was fitted."""


@final
class StepRecord(Record):
    """One finished audit of one model: its tables are in the folder."""

    model: str
    audit: str
    settings: dict[str, Any]
    """What the numbers depend on, as the result says it: what was asked, and over it what it turned out to be."""
    asked: dict[str, Any] = Field(default_factory=dict)
    """The settings of the audit alone; empty where the version that wrote the folder did not say."""
    seconds: float
    device: str = "cpu"
    """What computed it."""


@final
class SkipRecord(Record):
    """An audit that one model cannot be put to, and why: nothing is missing from the folder."""

    model: str
    audit: str
    reason: str


@final
class AuditRecord(Record):
    """What manifest.json says about an audit, besides its files."""

    recaudit: str
    """The version that wrote the folder."""
    status: Literal["running", "complete"]
    """Complete once every step and the report are written."""
    seed: int
    started: str
    """ISO 8601, UTC."""
    seconds: float
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

    @classmethod
    def of(cls, kept: folders.Manifest) -> AuditRecord:
        """As the folder has kept it."""
        try:
            return cls.model_validate({**kept.record, "recaudit": kept.recaudit, "status": kept.status})
        except ValidationError as error:
            raise DamagedError(
                "path",
                received=f"a manifest of an audit with {error.error_count()} fields that are wrong",
                expected="one that recaudit wrote",
                remedy="Put it back from a copy, or run again in another folder.",
            ) from None

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


_PACKAGES = ("numpy", "scipy", "torch", "numba", "polars", "pydantic")


def versions(device: str = "cpu") -> dict[str, str]:
    """Of Python, of recaudit and of everything that numbers come from; a GPU with its name."""
    packages = {name: metadata.version(name) for name in _PACKAGES}
    gpu = {"gpu": torch.cuda.get_device_name(device)} if device != "cpu" and torch.cuda.is_available() else {}
    return {"python": platform.python_version(), "recaudit": __version__, **packages, **gpu}


def machine() -> str:
    """The kind of this machine: system, processor and cores; nothing that names it."""
    cores = os.cpu_count() or 1
    return f"{platform.system()}, {platform.machine()}, {cores} core{'s' * (cores != 1)}"
