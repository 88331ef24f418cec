"""Which problems are solved together within a limit of memory, and batches side by side on the cores of a machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from recaudit.arithmetic import core_count, one_thread
from recaudit.engines.steady import one_blas_thread

Part = TypeVar("Part")
Found = TypeVar("Found")

CPU_MEMORY = 1 << 29
"""Bytes that a solve may hold for each core beside its input and its solution."""
_DOUBLE = 8
# Small problems are solved together up to this many (item, target) pairs; beyond, padding costs more.
_PAIRS = 4_000_000


def run_on_cores(solve: Callable[[Part], Found], parts: Iterable[Part], cores: int | None = None) -> list[Found]:
    """Return `solve` of every part, computed side by side on the cores (all there are).

    Matrix products have one thread within a part: to split one part's products over the cores would cost more in
    waiting for each other than it wins.
    """

    def alone(part: Part) -> Found:
        with one_thread():
            return solve(part)

    with one_blas_thread(), ThreadPoolExecutor(cores or core_count()) as pool:
        return list(pool.map(alone, parts))


def split_on_cores(solve: Callable[[slice], None], rows: int) -> None:
    """`solve` of slices of so many rows, one for each core, side by side."""
    size = max(1, math.ceil(rows / core_count()))
    run_on_cores(solve, [slice(start, start + size) for start in range(0, rows, size)])


class Batch(NamedTuple):
    """Some problems and a run of their (problem, target) pairs."""

    problems: Sequence[int]
    pairs: slice


def working_memory(items: int, actions: int, targets: int, problems: int) -> int:
    """Return the bytes that a core holds at most while it solves problems of this size."""
    problem, target = _bytes_of(items, actions)
    scores = _DOUBLE * max(items * targets, min(problems * items * targets, _PAIRS))
    return min(CPU_MEMORY // 2, scores) + min(CPU_MEMORY // 2, problem + targets * target)


def plan_batches(counts: Sequence[int], items: int, actions: int) -> Iterator[Batch]:
    """Yield batches that cover all pairs in order; `counts` has the number of targets of each problem.

    Half of the memory is for the evaluations, half for what is held of each problem and target; targets that do not
    fit are split.
    """
    problem_bytes, target_bytes = _bytes_of(items, actions)
    room = CPU_MEMORY // 2
    together: list[int] = []
    start = end = 0
    for problem, count in enumerate(counts):
        if not count:
            continue
        pairs, problems = end - start + count, len(together) + 1
        full = problems * problem_bytes + pairs * target_bytes > room
        if together and (full or items * pairs > _PAIRS):
            yield Batch(tuple(together), slice(start, end))
            together, start = [], end
        together.append(problem)
        end += count
        most = max(1, (room - problem_bytes) // target_bytes)
        while len(together) == 1 and end - start > most:
            yield Batch(tuple(together), slice(start, start + most))
            start += most
    if together:
        yield Batch(tuple(together), slice(start, end))


def _bytes_of(items: int, actions: int) -> tuple[int, int]:
    """What is held of a problem (scaled and cooled copies of its scores) and of a target (a few Hessians)."""
    return _DOUBLE * items * (8 * actions + 12), _DOUBLE * (8 * actions * actions + 40 * actions + 60)
