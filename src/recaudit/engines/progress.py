"""How long work says how far it is: a command draws bars, a notebook a line, and in a script nobody listens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from recaudit.engines.notebook_line import notebook_line

Item = TypeVar("Item")


@dataclass(frozen=True)
class Step:
    """One report of progress: `done` of `total` pieces of the work called `label`."""

    label: str
    done: int
    total: int


Listener = Callable[[Step], None]
_listener: ContextVar[Listener | None] = ContextVar("recaudit_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send every report made inside the block to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def working(label: str) -> Iterator[None]:
    """Report the block as work of one piece: what takes long says so, even where it has no parts to count."""
    listener = _listener.get() or notebook_line()
    if listener is None:
        yield
        return
    listener(Step(label, 0, 1))
    try:
        yield
    finally:
        listener(Step(label, 1, 1))


def track(pieces: Iterable[Item], label: str, total: int) -> Iterator[Item]:
    """The pieces, unchanged, reported one by one; a report says how many are finished."""
    listener = (_listener.get() or notebook_line()) if label else None
    if listener is None:
        yield from pieces
        return
    listener(Step(label, 0, total))
    for done, piece in enumerate(pieces):
        yield piece
        listener(Step(label, done + 1, total))
    listener(Step(label, total, total))
