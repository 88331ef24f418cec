"""Future-5 reachability on MovieLens 1M: exact, beside the paper's projected gradient on some of the same pairs.

    RECAUDIT_DATA=/folder/with/ml-1m python benchmarks/agency_future.py [USERS]

A 100-factor model, softmax with beta = 2, the top unseen item shown at each of 5 steps: every target of USERS users
(default 40), how many sequences of items each user can be shown, and the share of pairs proved optimal; then the
gradient solver on a few pairs of each of some users.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import recaudit as ra
from recaudit.audits import Reachability
from recaudit.interventions import Future
from recaudit.models import FactorModel
from recaudit.policies import Softmax
from recaudit.solvers.trajectories import RollOutProblem
from recaudit.solvers.trajectories.polytope import enumerate_cells

BETA, STEPS, TOLERANCE = 2.0, 5, 1e-6
GRADIENT_USERS, GRADIENT_TARGETS = 8, 6


@dataclass(frozen=True)
class Figures:
    """What one run says."""

    pairs: int
    seconds: float
    proved: float
    cells: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    gradient_pairs: int
    gradient_seconds: float
    highest: float
    """The largest log-probability of the gradient above the exact one: rounding, or a bug."""
    ratios: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    """What the gradient reaches, as a part of what can be reached."""


def future_reachability(model: FactorModel, count: int) -> Figures:
    """All targets of `count` users, exactly; some of them by the gradient."""
    data = model.data
    users = np.random.default_rng(0).choice(data.n_users, count, replace=False)
    asked = Reachability(actions=Future(STEPS), policy=Softmax(beta=BETA), tolerance=TOLERANCE)
    exact = asked.method(model, data, rng=0)
    exact(users[:2])  # compiles
    start = time.perf_counter()
    frame = exact(users)
    seconds = time.perf_counter() - start
    known = frame.filter(pl.col("status") != "not_applicable")
    low, high = data.scale
    unseen = ~data.seen(users)
    problems = [
        RollOutProblem(
            model.rollout(int(user)), unseen[row], unseen[row], np.flatnonzero(unseen[row]), STEPS, low, high
        )
        for row, user in enumerate(users)
    ]
    cells = [len(enumerate_cells(problem, 10_000)[0]) for problem in problems]

    by_hand, spent = [], 0.0
    for user in users[:GRADIENT_USERS]:
        own = known.filter(pl.col("user") == data.user_ids[int(user)])
        targets = tuple(own.sample(GRADIENT_TARGETS, seed=0)["item"])
        work = asked.model_copy(update={"targets": targets, "solver": "gradient"}).method(model, data, rng=0)
        start = time.perf_counter()
        by_hand.append(work(np.array([user])))
        spent += time.perf_counter() - start
    both = pl.concat(by_hand).drop_nulls("value").join(known, on=["user", "item"], suffix="_exact")
    ratios = (both["value"] / both["value_exact"]).to_numpy()
    return Figures(
        len(known),
        seconds,
        float(np.mean(known["status"].to_numpy() == "solved")),
        np.array(cells),
        len(both),
        spent,
        float(np.log(ratios).max()),
        ratios,
    )


def main() -> None:
    console = Console()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    model = ra.models.ALS(factors=100, iterations=5).fit(ra.datasets.load("ml-1m"))
    found = future_reachability(model, count)
    each, theirs = found.seconds / found.pairs, found.gradient_seconds / found.gradient_pairs
    table = Table("", "exact", "gradient", title=f"ML-1M, future-{STEPS}, top-1, beta {BETA:g}, {count} users")
    table.add_row("pairs", f"{found.pairs:,}", f"{found.gradient_pairs}")
    table.add_row("pairs a second", f"{1 / each:,.0f}", f"{1 / theirs:.2f}")
    table.add_row("times ours", "", f"{theirs / each:,.0f}")
    table.add_row("proved optimal", f"{found.proved:.2%}", "none")
    quartiles = np.quantile(found.cells, [0.5, 0.9, 1.0])
    table.add_row("sequences a user: median, 90%, most", " ".join(f"{q:,.0f}" for q in quartiles), "")
    table.add_row(
        "value as a part of the exact one: median, worst", "", f"{np.median(found.ratios):.3f} {found.ratios.min():.3f}"
    )
    table.add_row("highest log-probability above the exact one", "", f"{found.highest:.1e}")
    console.print(table)


if __name__ == "__main__":
    main()
