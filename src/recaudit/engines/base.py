"""What an engine is: an ordered map over independent pieces of work."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

from recaudit.arrays import IntArray
from recaudit.errors import MachineError
from recaudit.registry import ENGINES
from recaudit.specification import OneOf

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")

BLOCK = 256
"""Users in a block: large enough for fast matrix products, small enough that 10^5 items fit in memory."""


class Engine(ABC):
    """Runs a function on each piece and gives the answers back in the order of the pieces.

    The function must be pure: its answer depends on its piece alone, so that no engine and no worker count can change
    a bit. Torch has one thread within a piece (`arithmetic`). For an engine that leaves the process, the function must
    be picklable; where something in it has `one_machine = True` as an attribute of its class, it stays on this machine.
    """

    @abstractmethod
    def map(self, function: Callable[[Piece], Answer], pieces: Sequence[Piece], label: str = "") -> Iterator[Answer]:
        """The answers, in the order of the pieces, as they become ready; `label` names the progress bar."""


AnyEngine = Annotated[Engine, OneOf(ENGINES)]
"""An engine, or the table that describes one."""


def with_workers(engine: Engine, workers: int, kind: str = "threads") -> Engine:
    """The same kind of engine with so many workers; one of another `kind`, where it has none."""
    if hasattr(engine, "workers"):
        changed: Engine = replace(engine, workers=workers)  # type: ignore[type-var]  # engines with workers are dataclasses
        return changed
    return engine if workers == 1 else ENGINES[kind](workers)


def far_ahead(engine: Engine, pieces: int) -> Engine:
    """The engine with workers that never wait for a slow piece: for answers that take no room until they are read."""
    if not hasattr(engine, "ahead"):
        return engine
    changed: Engine = replace(engine, ahead=max(1, pieces))  # type: ignore[type-var]  # as above
    return changed


def check_written(place: Path, machine: str = "", length: int | None = None) -> None:
    """That what a worker wrote is here too; of a file so many bytes."""
    here = place.is_file() and place.stat().st_size == length if length is not None else place.exists()
    if not here:
        raise MachineError(
            f"A worker{f' on {machine}' if machine else ''} wrote {place}, which is not there for this machine "
            f"({platform.node()}): on a cluster, the folder of a run must be one that all of its machines see under "
            "the same path. Choose such a one by --out; large tables can go to another such folder: parts = "
            "'/shared/folder' of the engine."
        )


def blocks(users: IntArray, size: int = BLOCK) -> list[IntArray]:
    """User positions cut into blocks of at most `size`."""
    return [users[start : start + size] for start in range(0, len(users), size)]
