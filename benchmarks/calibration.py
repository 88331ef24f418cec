"""Calibrated lists over a whole catalogue beside other ways to make the same lists: time a user as ratios, in one run.

    python benchmarks/calibration.py [USERS]

A catalogue of the size of MovieLens 20M's: 21,000 items, 20 genres, about 2,300 distinct sets of genres; scores of 50
factors, histories of 100 items, lists of 50, lambda 0.99. Ours on USERS users (default 512); a greedy over distinct
genre vectors in numpy, and one over all items in torch, users x items x genres at each rank, as WarpRec does it, on a
few of them. The lists must be equal, item by item. Ours also with the list as a whole in view (horizon "list", with
exchanges after the greedy). Times of a single thread are processor time: they do not count what else the machine does.
Also how far the lists may be from the best ones, and what the certificate costs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.lists.calibrated import CalibratedLists, Horizon, calibrated_lists
from recaudit.solvers.lists.objective import CategoryVectors

ITEMS, GENRES, FACTORS, HISTORY = 21_000, 20, 50, 100
SIZE, WEIGHT, ALPHA = 50, 0.99, 0.01
ROUNDS = 5
BAR, GOAL = 1.0, 0.3
"""Milliseconds a user and core."""


@dataclass(frozen=True, eq=False)
class World:
    scores: FloatArray
    allowed: NDArray[np.bool_]
    shares: sparse.csr_array
    vectors: CategoryVectors
    interests: FloatArray

    def lists(
        self, users: int, *, weight: float = WEIGHT, horizon: Horizon = "prefix", certify: bool = False
    ) -> CalibratedLists:
        return calibrated_lists(
            self.scores[:users],
            self.allowed[:users],
            self.vectors,
            self.interests[:users],
            weight=weight,
            size=SIZE,
            smoothing=ALPHA,
            horizon=horizon,
            certify=certify,
        )


def catalogue(draw: np.random.Generator) -> sparse.csr_array:
    """One to five genres an item, some far more common than others, in equal shares."""
    popularity = np.log(np.arange(1, GENRES + 1) ** -0.9)
    order = np.argsort(-(popularity + draw.gumbel(size=(ITEMS, GENRES))), axis=1)
    counts = draw.choice(np.arange(1, 6), ITEMS, p=[0.38, 0.32, 0.2, 0.07, 0.03])
    rows = np.repeat(np.arange(ITEMS), counts)
    columns = order[np.arange(GENRES) < counts[:, None]]
    return sparse.csr_array((1 / np.repeat(counts, counts), (rows, columns)), shape=(ITEMS, GENRES))


def world(users: int) -> World:
    draw = np.random.default_rng(0)
    shares = catalogue(draw)
    taste = 0.3 * (shares @ draw.standard_normal((GENRES, FACTORS)))
    items = draw.standard_normal((ITEMS, FACTORS)) / np.sqrt(FACTORS) + taste
    scores = 0.15 * draw.standard_normal((users, FACTORS)) @ items.T + 0.05 * draw.standard_normal(ITEMS) ** 2
    interests, allowed = np.empty((users, GENRES)), np.ones((users, ITEMS), dtype=bool)
    for user in range(users):
        chosen = np.argpartition(-scores[user] - 0.15 * draw.gumbel(size=ITEMS), HISTORY)[:HISTORY]
        interests[user] = shares[chosen].sum(axis=0) / HISTORY
        allowed[user, chosen] = False
    return World(scores, allowed, shares, CategoryVectors.of(shares), interests)


def by_genre_vectors(at: World, users: int) -> IntArray:
    """One user at a time, every distinct vector's gain at every rank, in numpy."""
    dense = at.vectors.shares().toarray()
    lists = np.empty((users, SIZE), dtype=np.int64)
    for user in range(users):
        p, score = at.interests[user], np.where(at.allowed[user], at.scores[user], -np.inf)
        order = np.lexsort((-score, at.vectors.vector_of))
        starts = np.searchsorted(at.vectors.vector_of[order], np.arange(len(dense) + 1))
        place, held, wanted = starts[:-1].copy(), np.zeros(GENRES), p > 0
        for rank in range(SIZE):
            before = (1 - ALPHA) * held[wanted] + ALPHA * (rank + 1) * p[wanted]
            gains = np.log1p((1 - ALPHA) * dense[:, wanted] / before) @ p[wanted]
            left = place < starts[1:]
            best = np.where(left, score[order[np.minimum(place, ITEMS - 1)]], -np.inf)
            winner = int(np.argmax((1 - WEIGHT) * best + WEIGHT * gains))
            lists[user, rank] = order[place[winner]]
            place[winner] += 1
            held += dense[winner]
    return lists


def by_batches(at: World, users: int) -> IntArray:
    """All users together, every item's list distribution at every rank, in torch."""
    shares = torch.from_numpy(at.shares.toarray())
    p = torch.from_numpy(at.interests[:users])[:, None]
    scores = torch.from_numpy(at.scores[:users]).masked_fill(~torch.from_numpy(at.allowed[:users]), -torch.inf)
    lists, held = torch.empty(users, SIZE, dtype=torch.long), torch.zeros(users, 1, GENRES, dtype=torch.double)
    for rank in range(SIZE):
        q = (held + shares) / (rank + 1)
        smoothed = (1 - ALPHA) * q + ALPHA * p
        terms = torch.where(p > 0, p * torch.log(p / smoothed), 0.0)
        chosen = ((1 - WEIGHT) * scores - WEIGHT * terms.sum(dim=2)).argmax(dim=1)
        lists[:, rank] = chosen
        held += shares[chosen][:, None]
        scores.scatter_(1, chosen[:, None], -torch.inf)
    return lists.numpy()


def best(work: Callable[[], object], clock: Callable[[], float], rounds: int = ROUNDS) -> float:
    """Milliseconds of the quickest of a few rounds: the others waited for something else."""
    found = []
    for _ in range(rounds):
        start = clock()
        work()
        found.append(clock() - start)
    return 1e3 * min(found)


def main() -> None:
    users, few, fewer = int(sys.argv[1]) if len(sys.argv) > 1 else 512, 16, 8
    at, cores = world(users), torch.get_num_threads()
    start = time.perf_counter()
    CategoryVectors.of(at.shares)
    prepared = time.perf_counter() - start
    ours = at.lists(users)  # compiles, and warms the caches
    at.lists(few, horizon="list")
    wall = best(lambda: at.lists(users), time.perf_counter) / users

    torch.set_num_threads(1)
    each = best(lambda: at.lists(users), time.process_time) / users
    whole = best(lambda: at.lists(users, horizon="list"), time.process_time) / users
    vectors = best(lambda: by_genre_vectors(at, few), time.process_time, 2) / few
    assert (by_genre_vectors(at, few) == ours.lists[:few]).all(), "lists differ from the genre-vector greedy's"
    batched = best(lambda: by_batches(at, fewer), time.process_time, 1) / fewer
    assert (by_batches(at, fewer) == ours.lists[:fewer]).all(), "lists differ from the batched greedy's"
    certified = best(lambda: at.lists(few, certify=True), time.process_time, 2) / few
    torch.set_num_threads(cores)

    title = f"{ITEMS:,} items, {at.vectors.n_vectors:,} genre vectors, top {SIZE}, lambda {WEIGHT}"
    table = Table("way", "users", "ms a user, 1 core", "times ours", title=title)
    table.add_row(f"recaudit (bar {BAR:g}, goal {GOAL:g})", f"{users}", f"{each:.3f}", "")
    table.add_row(f"the list as a whole (bar {BAR:g})", f"{users}", f"{whole:.3f}", f"{whole / each:.1f}")
    table.add_row("genre-vector greedy, numpy", f"{few}", f"{vectors:.1f}", f"{vectors / each:,.0f}")
    table.add_row("batched greedy, torch, as WarpRec", f"{fewer}", f"{batched:,.0f}", f"{batched / each:,.0f}")
    table.add_row("recaudit with a certificate", f"{few}", f"{certified:.1f}", f"{certified / each:,.0f}")
    console = Console()
    console.print(table)
    console.print(
        f"recaudit on {cores} cores: {wall:.3f} ms a user (wall); grouping the catalogue once: {prepared:.2f} s"
    )
    console.print(f"gains computed: {ours.evaluations.mean() / SIZE:,.0f} of {at.vectors.n_vectors:,} vectors a rank")
    for weight in (0.5, 0.9, WEIGHT):
        for horizon in get_args(Horizon):
            found = at.lists(few, weight=weight, horizon=horizon, certify=True).certificate
            assert found is not None
            console.print(
                f"lambda {weight}, {horizon}: the objective may miss {np.median(found.gap):.4f} (median), "
                f"{(found.gap <= 0.01).mean():.0%} of lists at most 0.01; "
                f"{(found.value < found.plain).mean():.0%} of lists are below the list by score"
            )


if __name__ == "__main__":
    main()
