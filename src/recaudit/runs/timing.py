"""How long work takes, from parts of it: timed twice where something was compiled, the rest of a map counted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice

from numba.core import event

from recaudit.engines import Engine
from recaudit.engines.base import Answer, Piece

_SHORT = 1.0
"""Seconds from which work is timed once: beside them neither chance counts nor what is loaded the first time."""
_QUICK = 1.0
"""Seconds from which one look at pieces of a map is enough."""
_LINEAR = 1.25
"""A measured power up to this is rounding: time that grows with the slice."""


def timed(work: Callable[[], Answer]) -> tuple[float, Answer]:
    """Seconds and the answer; the second time, where the first was short, or something was compiled meanwhile."""
    with event.install_recorder("numba:compile") as compiled:
        start = time.perf_counter()
        answer = work()
        seconds = time.perf_counter() - start
    if seconds >= _SHORT and not compiled.buffer:
        return seconds, answer
    start = time.perf_counter()
    answer = work()
    return min(seconds, time.perf_counter() - start), answer


def grown(shares: Sequence[float], seconds: Sequence[float], most: float = 2.0) -> float:
    """The time at share 1, of times at smaller shares: of two, or of one, as if all of it grew.

    It grows by at most the power `most`.
    """
    large, after = shares[-1], seconds[-1]
    if large >= 1:
        return after
    if len(shares) == 1:
        return after / large
    small, before = shares[0], seconds[0]
    power = math.log(max(after, 1e-9) / max(before, 1e-9)) / math.log(large / small)
    if power > _LINEAR:
        return float(after * large ** -min(power, most))
    slope = min(max(after - before, 0.0) / (large - small), after / large)
    return after + slope * (1 - large)


class Sampled(Engine):
    """Works out the first pieces of every map, or all if `whole`; the others are counted, and get answers of those."""

    def __init__(self, engine: Engine, *, whole: bool = False) -> None:
        self.engine, self.whole = engine, whole
        self.workers: int = getattr(engine, "workers", 1) or 1
        self.left_out = 0.0
        """Seconds that the pieces would have taken that were not worked out."""
        self.inside = 0.0
        """Seconds in maps."""

    def map(self, function: Callable[[Piece], Answer], pieces: Sequence[Piece], label: str = "") -> Iterator[Answer]:
        """See `Engine`."""
        start, known = time.perf_counter(), list[Answer]()
        seconds = 0.0
        if self.whole:
            known = list(self.engine.map(function, pieces, label))
        # The first ones may make what the others find made: where that is little time, the next ones are looked at.
        while len(known) < min(len(pieces), 2 * self.workers) and seconds < _QUICK:
            timed = list(self.engine.map(partial(_with_seconds, function), pieces[len(known) :][: self.workers]))
            known += [answer for answer, _ in timed]
            seconds = sum(own for _, own in timed) / len(timed)
        self.inside += time.perf_counter() - start
        self.left_out += (len(pieces) - len(known)) * seconds / self.workers
        yield from islice(cycle(known), len(pieces))


def _with_seconds(function: Callable[[Piece], Answer], piece: Piece) -> tuple[Answer, float]:
    start = time.perf_counter()
    answer = function(piece)
    return answer, time.perf_counter() - start
