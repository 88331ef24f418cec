"""Where a trial is kept: a stream of what was shown, and checkpoints from which it goes on after a kill."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recaudit import atomic
from recaudit.models.base import FittedModel
from recaudit.simulate.slates import SLATE_SCHEMA


@final
@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A trial after so many steps."""

    step: int
    state: Mapping[str, NDArray[Any]]
    steps: pl.DataFrame
    audits: pl.DataFrame
    model: FittedModel | None
    """The fitted model where the next one goes on from it; else it is fitted again from the log."""


@final
@dataclass(frozen=True)
class TrialFolder:
    """Writes and reads one trial."""

    path: Path

    def save(self, first: int, slates: pl.DataFrame, checkpoint: Checkpoint) -> None:
        """Add what was shown from step `first` on, then the checkpoint, then drop the one before it.

        Killed at any moment, the folder holds a whole checkpoint and everything that led to it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with atomic.folder(self.path / "parts" / f"{first:08d}") as folder:
            slates.write_parquet(folder / "slates.parquet")
        former = self._checkpoints()
        with atomic.folder(self.path / "checkpoints" / f"{checkpoint.step:08d}") as folder:
            np.savez(folder / "state.npz", allow_pickle=False, **checkpoint.state)
            checkpoint.steps.write_parquet(folder / "steps.parquet")
            checkpoint.audits.write_parquet(folder / "audits.parquet")
            if checkpoint.model is not None:
                (folder / "model.pickle").write_bytes(pickle.dumps(checkpoint.model))
        for path in former:
            atomic.discard(path)

    def load(self) -> Checkpoint | None:
        """The latest checkpoint, if there is one; what was written after it is removed."""
        found = self._checkpoints()
        for kind in ("parts", "checkpoints"):
            if (self.path / kind).is_dir():
                atomic.sweep(self.path / kind)
        step = int(found[-1].name) if found else 0
        for part in self._parts():
            if int(part.name) >= step:
                atomic.discard(part)
        if not found:
            return None
        latest = found[-1]
        with np.load(latest / "state.npz", allow_pickle=False) as arrays:
            state = dict(arrays)
        model_file = latest / "model.pickle"
        return Checkpoint(
            step=step,
            state=state,
            steps=pl.read_parquet(latest / "steps.parquet", glob=False),
            audits=pl.read_parquet(latest / "audits.parquet", glob=False),
            model=pickle.loads(model_file.read_bytes()) if model_file.is_file() else None,
        )

    def slates(self) -> Iterator[pl.DataFrame]:
        """What was shown, part by part, in order."""
        for part in self._parts():
            yield pl.read_parquet(part / "slates.parquet", glob=False)

    def scan(self) -> pl.LazyFrame:
        """What was shown, without reading it."""
        parts = [pl.scan_parquet(part / "slates.parquet", glob=False) for part in self._parts()]
        return pl.concat(parts) if parts else pl.LazyFrame(schema=SLATE_SCHEMA)

    def _parts(self) -> list[Path]:
        return sorted((self.path / "parts").glob("[0-9]*"))

    def _checkpoints(self) -> list[Path]:
        return sorted((self.path / "checkpoints").glob("[0-9]*"))
