"""Certificates against 80-bit arithmetic, on instances made to break them.

    python scripts/hard_instances.py [--instances 10000] [--seed 0]

Offsets shared by all scores to 1e12, slopes to 1e9, beta to 1e4; one item or hundreds; boxes that are points, lines,
slivers or far from 0; items twice in the list, and items far below all others. Every answer is checked:

- value: the probability at the returned action, in long double, lies between `lower` and `upper`;
- beaten: no other action found (random ones, vertices, neighbours uphill of the best, every action of a grid) has more
  than `upper`;
- gap: `solved` means that the bounds are within the tolerance.

The long double value has an error bound of its own, which counts in favour of the solver. Exit status 1 on any
violation. Needs a long double of 64 bits or more: on platforms where it is a double (Windows, macOS on ARM) it says so
and exits with status 2.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations, product
from typing import final

import numpy as np
from numpy.typing import NDArray

from recaudit.solvers import bound_slate, maximize_power, maximize_softmax, maximize_softmax_discrete

Floats = NDArray[np.float64]
Longs = NDArray[np.longdouble]
Logs = Callable[[int, Longs], tuple[Longs, Longs]]
"""A target and actions (n, K) to the lowest and the highest that its log-probability (n,) at each can be."""

TOLERANCE = 1e-6
UNIT = np.finfo(np.longdouble).eps
VIOLATIONS = ("value", "beaten", "gap")
SOLVERS = ("softmax", "discrete", "softmax", "power", "slate")
"""In turn; the main solver twice."""


def long_double_is_wider() -> bool:
    """Whether long double has at least the 64 bits of x87."""
    return bool(UNIT <= 2.0**-63)


@final
@dataclass(frozen=True, eq=False)
class Instance:
    """Scores, a box and targets."""

    slope: Floats
    """(items, K)"""
    intercept: Floats
    """(items,)"""
    targets: list[int]
    beta: float
    lower: Floats
    """(K,)"""
    upper: Floats
    """(K,)"""

    @classmethod
    def drawn(cls, rng: np.random.Generator, most_items: int, most_actions: int) -> Instance:
        """A hard one."""
        items = int(min(most_items, rng.choice([1, 2, 3, 5, 12, 40, 150])))
        actions = int(rng.integers(1, most_actions + 1))
        slope = rng.normal(0, 10 ** rng.uniform(-3, 9), (items, actions))
        intercept = rng.normal(0, 10 ** rng.uniform(-3, 9), items)
        if rng.random() < 0.5:
            slope *= 10 ** rng.uniform(-6, 0, (items, 1))
        if rng.random() < 0.5:  # what all scores share
            slope += rng.normal(0, 10 ** rng.uniform(-3, 9), actions)
        intercept += rng.choice([0.0, 1.0, -1.0]) * 10 ** rng.uniform(0, 12)
        if items > 1 and rng.random() < 0.3:  # some items twice
            twins = rng.integers(0, items, (2, max(1, items // 3)))
            slope[twins[0]], intercept[twins[0]] = slope[twins[1]], intercept[twins[1]]
        if items > 1 and rng.random() < 0.2:  # some far below
            intercept[rng.random(items) < 0.3] -= 1e12
        lower = rng.choice([1.0, -1.0, 0.0, rng.normal(0, 10 ** rng.uniform(-3, 5))]) * np.ones(actions)
        width = 10 ** rng.uniform(-8, 2) if rng.random() < 0.4 else 4.0
        upper = lower + np.where(rng.random(actions) < rng.choice([0.0, 0.3, 1.0], p=[0.7, 0.2, 0.1]), 0.0, width)
        targets = rng.permutation(items)[:2].tolist()
        return cls(slope, intercept, targets, 10 ** rng.uniform(-2, 4), lower, upper)

    def differences(self, target: int, actions: Longs) -> tuple[Longs, Longs]:
        """(n, items): beta times how far every item is above the target, and the error of it at most."""
        slope = self.slope.astype(np.longdouble) - self.slope[target]
        ahead = self.intercept.astype(np.longdouble) - self.intercept[target]
        above = self.beta * (ahead + actions @ slope.T)
        sizes = self.beta * (np.abs(ahead) + np.abs(actions) @ np.abs(slope).T)
        return above, UNIT * (slope.shape[1] + 4) * sizes

    def softmax(self, target: int, actions: Longs) -> tuple[Longs, Longs]:
        """`Logs` of the softmax."""
        above, error = self.differences(target, actions)
        value = -_log_sum(above)
        # Items far below all others do not count, however badly their scores are known.
        top = above.max(axis=1, keepdims=True)
        counts = above + 2 * error >= top - 2 * error.max(axis=1, keepdims=True, where=above == top, initial=0) - 100
        slack = error.max(axis=1, where=counts, initial=0) + UNIT * (above.shape[1] + 16 + np.abs(value))
        return value - slack, np.minimum(value + slack, 0)

    def power(self, exponent: float) -> Logs:
        """`Logs` of power sampling; NaN where rounding decides whether any score is positive."""
        slope, intercept = self.slope.astype(np.longdouble), self.intercept.astype(np.longdouble)

        def logs(target: int, actions: Longs) -> tuple[Longs, Longs]:
            scores = actions @ slope.T + intercept
            error = UNIT * (slope.shape[1] + 4) * (np.abs(actions) @ np.abs(slope).T + np.abs(intercept))
            found = []
            for sign in (-1, 1):
                moved = scores - sign * error
                moved[:, target] = scores[:, target] + sign * error[:, target]
                with np.errstate(divide="ignore"):
                    parts = exponent * np.log(np.maximum(moved, 0))
                with np.errstate(invalid="ignore"):  # where no score is positive, which is told apart below
                    value = parts[:, target] - _log_sum(parts)
                slack = UNIT * (len(intercept) + 16 + 4 * exponent * (1 + np.abs(np.where(parts > -np.inf, parts, 0))))
                found.append(value + sign * slack.max(axis=1))
            nobody, perhaps = (scores + error).max(axis=1) <= 0, (scores - error).max(axis=1) <= 0
            even = np.where(nobody, -np.log(np.longdouble(len(intercept))), np.nan)
            return np.where(perhaps, even - UNIT, found[0]), np.where(perhaps, even + UNIT, found[1])

        return logs

    def slate(self, length: int) -> Logs:
        """`Logs` of being among the first `length` draws without replacement, over all beginnings."""

        def logs(target: int, actions: Longs) -> tuple[Longs, Longs]:
            above, error = self.differences(target, actions)
            others = [item for item in range(above.shape[1]) if item != target]
            beginnings = []
            for drawn in range(length):
                for before in permutations(others, drawn):
                    order, value = [*before, target], np.zeros(len(actions), dtype=np.longdouble)
                    for place, item in enumerate(order):
                        left = [other for other in range(above.shape[1]) if other not in order[:place]]
                        value = value + above[:, item] - _log_sum(above[:, left])
                    beginnings.append(value)
            value = _log_sum(np.stack(beginnings, axis=1))
            slack = 2 * length * error.max(axis=1) + 64 * UNIT * (length + np.abs(value))
            return value - slack, np.minimum(value + slack, 0)

        return logs

    def vertices(self, rng: np.random.Generator) -> Floats:
        """(16 at most, K): all vertices of the box, or some."""
        actions = len(self.lower)
        high = (
            np.array(list(product([False, True], repeat=actions))) if actions <= 4 else rng.random((16, actions)) < 0.5
        )
        return np.where(high, self.upper, self.lower)


def _log_sum(logs: Longs) -> Longs:
    """(n,): log sum exp of (n, terms); -inf terms do not count."""
    top = logs.max(axis=1)
    shift = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        total: Longs = shift + np.log(np.exp(logs - shift[:, None]).sum(axis=1))
    return total


@final
@dataclass(frozen=True, eq=False)
class Answer:
    """What a solver says of the targets of an instance, and what it should be checked against."""

    lower: Floats
    upper: Floats
    status: list[str]
    actions: Floats
    logs: Logs
    grid: Floats | None = None
    """(n, K): every allowed action, where there are finitely many."""


def solved(instance: Instance, solver: str, rng: np.random.Generator) -> Answer:
    """The answer of one solver."""
    p, ends = instance, (instance.lower, instance.upper)
    if solver == "softmax":
        found = maximize_softmax(p.slope, p.intercept, p.targets, p.beta, *ends, TOLERANCE, max_steps=60)
        return Answer(found.lower, found.upper, found.status.tolist(), found.actions, p.softmax)
    if solver == "discrete":
        values = np.unique(np.linspace(p.lower[0], p.upper.max(), int(rng.integers(2, 6))))
        listed = int(rng.choice([0, 1000]))
        found = maximize_softmax_discrete(
            *(p.slope, p.intercept, p.targets, p.beta, values, TOLERANCE),
            enumerate_up_to=listed,
            node_limit=100,
        )
        grid = np.array(list(product(values, repeat=len(p.lower))))
        return Answer(found.lower, found.upper, found.status.tolist(), found.actions, p.softmax, grid)
    if solver == "power":
        exponent = 10 ** rng.uniform(-0.5, 1.3)
        powered = maximize_power(p.slope, p.intercept, p.targets, exponent, *ends, TOLERANCE)
        bounds = powered.lower, powered.upper
        return Answer(*bounds, powered.status.tolist(), powered.actions, p.power(exponent))
    length = int(rng.integers(1, min(3, len(p.intercept)) + 1))
    slate = bound_slate(p.slope, p.intercept, p.targets, p.beta, length, *ends, TOLERANCE)
    return Answer(slate.lower, slate.upper, slate.status.tolist(), slate.actions, p.slate(length))


def violations(instance: Instance, answer: Answer, rng: np.random.Generator) -> Iterator[str]:
    """What is wrong with the answer."""
    p = instance
    for row, target in enumerate(p.targets):
        low, high = answer.lower[row], answer.upper[row]
        if not low <= high:
            yield "value"
        if answer.status[row] == "solved" and high > low + TOLERANCE:
            yield "gap"
        if answer.status[row] == "failed":
            continue
        least, most = (bound[0] for bound in answer.logs(target, answer.actions[row : row + 1].astype(np.longdouble)))
        if least > high or most < low:
            yield "value"
        others = answer.grid
        if others is None:
            others = np.concatenate([p.vertices(rng), rng.uniform(p.lower, p.upper, (8, len(p.lower)))])
            others = np.concatenate([others, answer.actions[row : row + 1]])
        points = others.astype(np.longdouble)
        best = answer.logs(target, points)[0]
        if answer.grid is None:
            highest = (
                _uphill(answer.logs, target, points[np.nanargmax(best)], p) if not np.isnan(best).all() else -np.inf
            )
            best = np.append(best, highest)
        if (best > high).any():
            yield "beaten"


def _uphill(logs: Logs, target: int, point: Longs, p: Instance) -> float:
    """The highest log-probability in long double on a way uphill: single coordinates, steps of every length."""
    lower, upper = p.lower.astype(np.longdouble), p.upper.astype(np.longdouble)
    steps = np.concatenate([[sign * np.longdouble(8) ** -k for k in range(16)] for sign in (-1, 1)])
    best = logs(target, point[None])[0][0]
    for _ in range(6):
        tried = np.tile(point, (len(point), len(steps), 1))
        for k in range(len(point)):
            tried[k, :, k] += steps * (upper[k] - lower[k])
        tried = np.clip(tried.reshape(-1, len(point)), lower, upper)
        found = np.nan_to_num(logs(target, tried)[0], nan=-np.inf)
        if not found.max() > best:
            break
        best, point = found.max(), tried[found.argmax()]
    return float(best)


def examine(instances: int, seed: int) -> Counter[tuple[str, str]]:
    """(solver, outcome) counts: statuses of targets, kinds of violations, and instances."""
    counts: Counter[tuple[str, str]] = Counter()
    for number in range(instances):
        rng = np.random.default_rng([seed, number])
        solver = SOLVERS[number % len(SOLVERS)]
        instance = Instance.drawn(rng, 5 if solver == "slate" else 150, 3 if solver == "discrete" else 5)
        answer = solved(instance, solver, rng)
        counts.update((solver, outcome) for outcome in ["instances", *answer.status])
        counts.update((solver, kind) for kind in violations(instance, answer, rng))
    return counts


def main() -> int:
    """Print the table; the exit status."""
    parser = argparse.ArgumentParser(description="Check certificates against 80-bit arithmetic on hard instances.")
    parser.add_argument("--instances", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if not long_double_is_wider():
        print(f"long double here has a unit of {UNIT}: nothing wider than a double to check against", file=sys.stderr)
        return 2
    counts = examine(asked.instances, asked.seed)
    columns = ("instances", "solved", "bounded", "failed", *VIOLATIONS)
    print(f"{'solver':10}" + "".join(f"{column:>11}" for column in columns))
    for solver in dict.fromkeys(SOLVERS):
        print(f"{solver:10}" + "".join(f"{counts[solver, column]:>11}" for column in columns))
    wrong = sum(counts[solver, kind] for solver in dict.fromkeys(SOLVERS) for kind in VIOLATIONS)
    print(f"{wrong} violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
