"""How long work takes, from parts of it: compiling is not counted, and the rest of a map is reckoned."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice

import numpy as np
from numba.core import event

from recaudit.arithmetic import core_count
from recaudit.engines import Engine
from recaudit.engines.base import Answer, Piece

_SHORT = 1.0
"""Seconds from which work is timed once: beside them neither chance counts nor what is loaded the first time."""
_COMPILED = 10.0
"""The same, where something was compiled: more than what is known of it goes by around it."""
_QUICK = 1.0
"""Seconds from which one look at pieces of a map is enough."""
_LINEAR = 1.25
"""A measured power up to this is rounding: time that grows with the slice."""


def timed(work: Callable[[], Answer], short: float = _SHORT) -> tuple[float, Answer]:
    """Seconds without those of compiling, and the answer; the less of two times, where the first was `short`."""
    compiling = event.TimingListener()  # type: ignore[no-untyped-call]
    with event.install_listener("numba:compile", compiling):
        start = time.perf_counter()
        answer = work()
        seconds = time.perf_counter() - start
    if compiling.done:
        seconds = max(seconds - compiling.duration, 0.0)
    if seconds >= (_COMPILED if compiling.done else short):
        return seconds, answer
    start = time.perf_counter()
    answer = work()
    return min(seconds, time.perf_counter() - start), answer


def grown(shares: Sequence[float], seconds: Sequence[float], most: float = 2.0, *, steeper: bool = False) -> float:
    """The time at share 1, of times at smaller shares: of two, or of one, as if all of it grew.

    It grows by at most the power `most`. Where the last part of it to grow is known to come to that power (`steeper`),
    the power between two slices is the least that follows, and the middle of both is taken.
    """
    large, after = shares[-1], seconds[-1]
    if large >= 1:
        return after
    if len(shares) == 1:
        return after / large
    small, before = shares[0], seconds[0]
    power = math.log(max(after, 1e-9) / max(before, 1e-9)) / math.log(large / small)
    if power > _LINEAR:
        power = min(power, most)
        return float(after * large ** -((power + most) / 2 if steeper else power))
    slope = min(max(after - before, 0.0) / (large - small), after / large)
    return after + slope * (1 - large)


class Sampled(Engine):
    """Works out the first pieces of every map, or all if `whole`; the others are counted, and get answers of those.

    Of a piece that is an array of people, and takes long, the first few are worked out.
    """

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
            for answer in self.engine.map(function, pieces, label):
                self.inside += time.perf_counter() - start
                yield answer
                start = time.perf_counter()
            return
        if pieces and isinstance(first := pieces[0], np.ndarray) and len(first) > (few := 2 * core_count()):
            ((answer, seconds),) = self.engine.map(partial(_with_seconds, function), [first[:few]])
            if seconds >= _QUICK:  # a few people of a piece are enough, and what they got stands for all
                self.inside += time.perf_counter() - start
                self.left_out += seconds * (max(1, len(pieces) / self.workers) * len(first) / few - 1)
                yield from [answer] * len(pieces)
                return
            seconds = 0.0
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
