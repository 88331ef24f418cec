"""Reachability beside general solvers on MovieLens 1M: time a pair as ratios, in one run.

    RECAUDIT_DATA=/folder/with/ml-1m python benchmarks/reachability.py [USERS]

A 64-factor model, Next-10 actions, softmax with beta = 2, bounds 1e-6 apart: `ra.reachability` for all targets of
USERS users (default 40), with ranks, baselines and averages; its solver alone; scipy's L-BFGS-B with the analytic
gradient on a sample of the same pairs on every core, CVXPY with Clarabel on a few of them. Also the floor: one
evaluation's exponentials and matrix product for every pair, and nothing else. Needs the `bench` extra.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

import recaudit as ra
from recaudit.arrays import BoolArray, FloatArray
from recaudit.interventions import NextK
from recaudit.solvers import Solution, maximize_softmax_batch

BETA, LOW, HIGH, TOLERANCE = 2.0, 1.0, 5.0, 1e-6


@dataclass(frozen=True)
class Block:
    """The problems of a block of users."""

    slope: FloatArray
    intercept: FloatArray
    targets: BoolArray

    def solve(self, beta: float = BETA) -> Solution:
        return maximize_softmax_batch(self.slope, self.intercept, self.targets, beta, LOW, HIGH, TOLERANCE)

    def pair(self, user: int, target: int) -> tuple[FloatArray, FloatArray, int]:
        """Slope and intercept of the user's candidates, and the target's place among them."""
        inside = np.isfinite(self.intercept[user])
        place = int(inside[:target].sum())
        return self.slope[user, inside], self.intercept[user, inside], place


def people(model: ra.models.FoldInModel, count: int) -> list[int]:
    """Ids of so many users."""
    users = np.random.default_rng(0).choice(model.data.n_users, count, replace=False)
    return model.data.user_ids.gather(np.sort(users)).to_list()


def problems(model: ra.models.FoldInModel, count: int) -> Block:
    data = model.data
    users = data.users_at(people(model, count))
    items = NextK(10).items(model, users, 0)
    response = model.own_responses(users, items)
    candidates = ~data.seen(users)
    np.put_along_axis(candidates, items, False, axis=1)
    return Block(response.slope, np.where(candidates, response.intercept, -np.inf), candidates)


def by_lbfgs(slope: FloatArray, intercept: FloatArray, target: int) -> float:
    def loss(a: FloatArray) -> tuple[float, FloatArray]:
        z = BETA * (slope @ a + intercept)
        top = z.max()
        weights = np.exp(z - top)
        total = weights.sum()
        return top + np.log(total) - z[target], BETA * (weights @ slope / total - slope[target])

    start = np.full(slope.shape[1], (LOW + HIGH) / 2)
    bounds = [(LOW, HIGH)] * len(start)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-12, "gtol": 1e-7})
    return float(-found.fun)


def by_clarabel(slope: FloatArray, intercept: FloatArray, target: int) -> float:
    a = cp.Variable(slope.shape[1])
    scores = slope @ a + intercept
    problem = cp.Problem(cp.Maximize(BETA * scores[target] - cp.log_sum_exp(BETA * scores)), [a >= LOW, a <= HIGH])
    try:
        problem.solve(solver=cp.CLARABEL)
    except cp.SolverError:
        return float("nan")
    return float(problem.value)


SOLVERS: dict[str, Callable[[FloatArray, FloatArray, int], float]] = {
    "scipy L-BFGS-B": by_lbfgs,
    "CVXPY, Clarabel": by_clarabel,
}
_pairs: list[tuple[FloatArray, FloatArray, int]] = []


def start_worker(pairs: list[tuple[FloatArray, FloatArray, int]]) -> None:
    threadpool_limits(1)
    _pairs.extend(pairs)


def solve_one(name: str, pair: int) -> float:
    return SOLVERS[name](*_pairs[pair])


def peer_seconds(name: str, chosen: list[tuple[FloatArray, FloatArray, int]]) -> tuple[float, FloatArray]:
    """Seconds a pair with a process on every core, started beforehand, and the values found."""
    cores = os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, context, start_worker, (chosen,)) as pool:
        list(pool.map(solve_one, [name] * cores * 2, range(cores * 2)))
        start = time.perf_counter()
        values = list(pool.map(solve_one, [name] * len(chosen), range(len(chosen)), chunksize=5))
        return (time.perf_counter() - start) / len(chosen), np.array(values)


def seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def floor(block: Block) -> float:
    """Seconds for one matrix product and one exponential of every score of every pair."""

    def work() -> None:
        for user in range(len(block.slope)):
            inside = np.isfinite(block.intercept[user])
            slope, intercept = block.slope[user, inside].T.copy(), block.intercept[user, inside]
            for start in range(0, slope.shape[1], 256):
                points = np.full((min(256, slope.shape[1] - start), 10), 3e-2)
                scores = points @ slope
                scores += intercept
                np.exp(scores, out=scores).sum(axis=1)

    return seconds_of(work)


def main() -> None:
    console = Console()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    data = ra.datasets.load("ml-1m")
    fitted = ra.models.BiasedMF(factors=64).fit(data)
    table = Table(
        "step", "solver", "pairs", "us a pair", "times ours", "widest gap", "not solved", title="ML-1M, Next-10, beta 2"
    )
    for step in (0.1, 1.0):
        model = fitted.with_update(ra.models.SgdStep(step=step))
        block = problems(model, count)
        for _ in range(2):  # the first time compiles, and warms the caches
            start = time.perf_counter()
            found = ra.reachability(model, users=people(model, count), refits=0)
            found.frame  # noqa: B018  the averages are made when they are looked at
            pairs = len(found.pairs)
            each = (time.perf_counter() - start) / pairs
            start = time.perf_counter()
            ours = block.solve()
            alone = (time.perf_counter() - start) / pairs
        gap, left = float(np.max(ours.upper - ours.lower)), int((~ours.solved).sum())
        table.add_row(f"{step}", "ra.reachability", f"{pairs:,}", f"{each * 1e6:.1f}", "", f"{gap:.1e}", f"{left}")
        table.add_row(f"{step}", "its solver", f"{pairs:,}", f"{alone * 1e6:.1f}", f"{alone / each:.2f}", "", "")
        sample = np.random.default_rng(1).choice(pairs, 400, replace=False)
        chosen = [block.pair(user, item) for user, item in np.argwhere(block.targets)[sample].tolist()]
        for name, size in (("scipy L-BFGS-B", 400), ("CVXPY, Clarabel", 20)):
            theirs, values = peer_seconds(name, chosen[:size])
            worst = float(np.nanmax(np.abs(values - ours.value[sample[:size]])))
            cells = (
                f"{theirs * 1e6:,.1f}",
                f"{theirs / each:.1f}",
                f"differs by {worst:.0e}",
                f"{int(np.isnan(values).sum())}",
            )
            table.add_row(f"{step}", name, f"{size}", *cells)
        bound = floor(block) / pairs
        table.add_row(
            f"{step}", "floor: one product, one exp", f"{pairs:,}", f"{bound * 1e6:.1f}", f"{bound / each:.2f}", "", ""
        )
        for beta in (1.0, 4.0, 10.0, 100.0):
            start = time.perf_counter()
            other = block.solve(beta)
            each_beta = (time.perf_counter() - start) / pairs
            gap = float(np.max(other.upper - other.lower))
            cells = f"{each_beta * 1e6:.1f}", "", f"{gap:.1e}", f"{int((~other.solved).sum())}"
            table.add_row(f"{step}", f"recaudit, beta {beta:g}", f"{pairs:,}", *cells)
    console.print(table)


if __name__ == "__main__":
    main()
