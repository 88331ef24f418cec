"""Our BayesMF beside myfm's MCMC on topics-static (paper 003): accuracy, and CPU seconds as ratios, in one run.

    python papers/benchmarks/bayes.py

Needs the `bench` extra. Accuracy is on one of five folds of 100,000 ratings; time is fitting all of them and scoring
every item for 200 users, which is one step of the simulator, on one thread (a second one that waits counts as busy).
Ours is fitted once beforehand, so that compilation is not counted. Ratings and settings as in RecLab: 20 factors, start
at standard deviation 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO

import myfm
import numpy as np
import polars as pl
import torch
from numba import set_num_threads
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import sparse

import recaudit as ra
from recaudit.data import Interactions
from recaudit_papers.models.bayes import BayesMF

USERS, ITEMS, TOPICS, RATINGS, STEP = 1000, 1700, 19, 100_000, 200
Scores = NDArray[np.float64]


def topics_static(rng: int = 0) -> Interactions:
    draw = np.random.default_rng(rng)
    tastes = draw.uniform(0.5, 5.5, (USERS, TOPICS))
    topics = draw.integers(0, TOPICS, ITEMS)
    users, items = np.divmod(draw.choice(USERS * ITEMS, RATINGS, replace=False), ITEMS)
    ratings = np.clip(tastes[users, topics[items]] + draw.normal(0, 0.5, RATINGS), 1, 5)
    return Interactions.from_frame(pl.DataFrame({"user": users, "item": items, "rating": ratings}), scale=(1, 5))


def ours(iterations: int) -> Callable[[Interactions, int], Scores]:
    def scores(data: Interactions, users: int) -> Scores:
        result: Scores = BayesMF(iterations=iterations).fit(data).scores(np.arange(users))
        return result

    return scores


def one_hot(users: NDArray[np.int64], items: NDArray[np.int64]) -> sparse.csr_matrix:
    columns = np.column_stack([users, USERS + items]).ravel()
    starts = np.arange(0, len(columns) + 1, 2)
    return sparse.csr_matrix((np.ones(len(columns)), columns, starts), shape=(len(users), USERS + ITEMS))


def theirs(iterations: int) -> Callable[[Interactions, int], Scores]:
    def scores(data: Interactions, users: int) -> Scores:
        model = myfm.MyFMRegressor(rank=20, init_stdev=1.0, random_seed=0)
        rated = one_hot(data.users.astype(np.int64), data.items.astype(np.int64))
        kept = iterations - 20
        with redirect_stderr(StringIO()):  # its progress bar
            model.fit(rated, data.ratings, n_iter=iterations, n_kept_samples=kept, group_shapes=[USERS, ITEMS])
        pairs = one_hot(*np.divmod(np.arange(users * ITEMS), ITEMS))
        result: Scores = model.predict(pairs).reshape(users, ITEMS)
        return result

    return scores


def rmse(scores: Scores, test: Interactions) -> float:
    predicted = np.clip(scores[test.users, test.items], *test.scale)
    return float(np.sqrt(np.mean((predicted - test.ratings) ** 2)))


def ndcg(scores: Scores, test: Interactions) -> float:
    """RecLab's nDCG@20: each user's held-out items only, gains linear in the raw ratings."""
    discounts = 1 / np.log2(np.arange(2, 22))
    values = []
    for user in np.flatnonzero(test.user_counts):
        items, ratings = test.history(int(user))
        shown = ratings[np.argsort(-scores[user, items], kind="stable")][:20]
        best = np.sort(ratings)[::-1][:20]
        values.append(shown @ discounts[: len(shown)] / (best @ discounts[: len(best)]))
    return float(np.mean(values))


def cpu_seconds(scores: Callable[[Interactions, int], Scores], data: Interactions) -> float:
    start = time.process_time()
    scores(data, STEP)
    return time.process_time() - start


def main() -> None:
    set_num_threads(1)
    torch.set_num_threads(1)
    data = topics_static()
    train, test = ra.splits.folds(data, 5)[0]
    ours(21)(data, STEP)
    candidates = [
        ("myfm, 200 iterations", theirs(200)),
        ("recaudit, 200 iterations", ours(200)),
        ("recaudit, 100 iterations", ours(100)),
    ]
    table = Table("model", "RMSE", "nDCG@20", "CPU s, fit + 200 users", "of myfm's", title="topics-static")
    baseline = 0.0
    for label, scores in candidates:
        predicted = scores(train, USERS)
        seconds = cpu_seconds(scores, data)
        baseline = baseline or seconds
        numbers = (f"{rmse(predicted, test):.4f}", f"{ndcg(predicted, test):.4f}", f"{seconds:.2f}")
        table.add_row(label, *numbers, f"{seconds / baseline:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
