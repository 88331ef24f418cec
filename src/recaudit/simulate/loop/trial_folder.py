"""Where a trial is kept: a stream of what was shown, and a checkpoint from which it resumes after a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, final

import polars as pl
from numpy.typing import NDArray

from recaudit.data.interactions import Interactions
from recaudit.folders import Folder, Manifest, Writer, damaged
from recaudit.folders.arrays import encoded, read
from recaudit.models.base import FittedModel
from recaudit.models.stored import restored, stored
from recaudit.version import __version__

Content = TypeVar("Content")
SLATE_SCHEMA = {
    **dict.fromkeys(("step", "user", "item", "place"), pl.Int64()),
    **dict.fromkeys(("score", "propensity", "rating", "expected"), pl.Float64()),
}
"""One row an item shown, by position. `rating` is null where it was not taken; `expected` is what it would have got
without noise when it was rated or, where it was not taken, when the slate was shown: only an auditor knows."""


def trial_name(number: int) -> str:
    """The folder of a trial."""
    return f"trial-{number:03d}"


@final
@dataclass(frozen=True)
class TrialFolder:
    """Writes and reads one trial."""

    folder: Folder

    @classmethod
    def begin(cls, path: Path, plan: Mapping[str, Any]) -> TrialFolder:
        """The trial of this plan, as far as it has come; anything else under this name is removed."""
        new = Manifest(kind="trial", recaudit=__version__, plan=dict(plan), record={"step": 0})
        folder = Folder.begin(path, new, nested=True)
        folder.sweep("")
        return cls(folder)

    @property
    def step(self) -> int:
        """How many steps are kept."""
        return int(self.folder.manifest.record["step"])

    def save(
        self,
        step: int,
        slates: pl.DataFrame,
        state: Mapping[str, NDArray[Any]],
        tables: Mapping[str, pl.DataFrame],
        model: FittedModel | None,
        *,
        done: bool,
    ) -> None:
        """Add what was shown since the last time, and a checkpoint, with the `model` if given, for the one before."""
        files: dict[str, Writer | bytes] = {
            f"parts/{self.step:08d}.parquet": slates.write_parquet,
            _checkpoint(step, "state.safetensors"): encoded(state, "state"),
            **{_checkpoint(step, f"{name}.parquet"): table.write_parquet for name, table in tables.items()},
        }
        content = None if model is None else stored(model)
        if content is not None:
            files[_checkpoint(step, "model.safetensors")] = content
        former = [name for name in self.folder.manifest.files if name.startswith("checkpoints/")]
        self.folder.put(files, without=former, record={"step": step}, status="complete" if done else "running")

    def state(self) -> dict[str, NDArray[Any]]:
        """The environment at the checkpoint."""
        return self._read(_checkpoint(self.step, "state.safetensors"), read)[0]

    def table(self, name: str) -> pl.DataFrame:
        """One of the tables of the checkpoint."""
        return self._read(_checkpoint(self.step, f"{name}.parquet"), partial(pl.read_parquet, glob=False))

    def model(self, log: Interactions) -> FittedModel | None:
        """The model that was kept with the checkpoint, which was fitted to this log; None if none was."""
        name = _checkpoint(self.step, "model.safetensors")
        return self._read(name, partial(restored, data=log)) if name in self.folder.manifest.files else None

    def slates(self) -> Iterator[pl.DataFrame]:
        """What was shown, part by part, in order."""
        return (self._read(part, partial(pl.read_parquet, glob=False)) for part in self._parts())

    def scan(self) -> pl.LazyFrame:
        """What was shown, without reading it."""
        parts = [pl.scan_parquet(self.folder.checked(part), glob=False) for part in self._parts()]
        return pl.concat(parts) if parts else pl.LazyFrame(schema=SLATE_SCHEMA)

    def _parts(self) -> list[str]:
        return sorted(name for name in self.folder.manifest.files if name.startswith("parts/"))

    def _read(self, name: str, how: Callable[[Path], Content]) -> Content:
        """A file's content. Whoever wrote the digest beside a file that is none wrote no file of ours."""
        if name not in self.folder.manifest.files:
            raise damaged(self.folder.path / name, "missing")
        path = self.folder.checked(name)
        try:
            return how(path)
        except (ValueError, OSError, LookupError, pl.exceptions.PolarsError) as error:
            raise damaged(path, "damaged") from error


def _checkpoint(step: int, file: str) -> str:
    return f"checkpoints/{step:08d}.{file}"
