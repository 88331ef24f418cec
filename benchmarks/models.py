"""Our models beside Surprise and implicit on MovieLens 1M: accuracy and time as ratios, in one run.

    RECAUDIT_DATA=/folder/with/ml-1m python benchmarks/models.py

Needs the `bench` extra. Ours are fitted once beforehand on a few ratings, so that compilation is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import surprise
from implicit.cpu.als import AlternatingLeastSquares
from rich.console import Console
from rich.table import Table
from scipy import sparse
from surprise import Dataset, KNNWithMeans, Reader
from threadpoolctl import threadpool_limits

import recaudit as ra
from recaudit.data import Interactions, synthetic

OURS: list[tuple[str, ra.models.Recommender]] = [
    ("BiasedMF, 64 factors", ra.models.BiasedMF(factors=64)),
    ("ALS, 64 factors, 10 iterations", ra.models.ALS(factors=64, iterations=10)),
    ("ItemKNN", ra.models.ItemKNN()),
    ("UserKNN", ra.models.UserKNN()),
]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def rmse(predicted: Any, test: Interactions) -> float:
    return float(np.sqrt(np.mean((np.asarray(predicted) - test.ratings) ** 2)))


def of_surprise(algorithm: Any, train: Interactions, test: Interactions) -> tuple[float, float, float]:
    frame = train.frame().select("user", "item", "rating").to_pandas()
    built = Dataset.load_from_df(frame, Reader(rating_scale=train.scale)).build_full_trainset()
    _, fit = timed(lambda: algorithm.fit(built))
    rows = list(test.frame().select("user", "item", "rating").iter_rows())
    answers, predict = timed(lambda: algorithm.test(rows))
    return fit, predict, rmse([answer.est for answer in answers], test)


def of_ours(recommender: ra.models.Recommender, train: Interactions, test: Interactions) -> tuple[float, float, float]:
    model, fit = timed(lambda: recommender.fit(train))
    answers, predict = timed(lambda: model.predict(test.users.astype(np.int64), test.items.astype(np.int64)))
    return fit, predict, rmse(answers, test)


def implicit_seconds(train: Interactions, *, use_cg: bool, iterations: int = 5) -> float:
    model = AlternatingLeastSquares(factors=64, iterations=iterations, use_cg=use_cg, dtype=np.float64)
    counts = sparse.csr_matrix(train.csr)
    with threadpool_limits(1, "blas"):  # as implicit asks for: its own threads are enough
        return timed(lambda: model.fit(counts, show_progress=False))[1] / iterations


def main() -> None:
    console = Console()
    data = ra.datasets.load("ml-1m")
    train, test = ra.splits.random(data, 0.1, rng=0)
    warm = synthetic.demo()
    for _, recommender in OURS:
        of_ours(recommender, warm, warm)

    rows = [(f"recaudit {label}", *of_ours(recommender, train, test)) for label, recommender in OURS]
    peers = [
        ("Surprise SVD, 64 factors, 20 epochs (its default)", surprise.SVD(n_factors=64, random_state=0)),
        ("Surprise SVD, 64 factors, 32 epochs, lr and reg as ours",
         surprise.SVD(n_factors=64, n_epochs=32, lr_all=0.01, reg_all=0.06, random_state=0)),
        ("Surprise KNNWithMeans, item-based",
         KNNWithMeans(k=40, sim_options={"user_based": False, "name": "pearson"}, verbose=False)),
        ("Surprise KNNWithMeans, user-based (its default)", KNNWithMeans(k=40, verbose=False)),
    ]  # fmt: skip
    rows += [(label, *of_surprise(algorithm, train, test)) for label, algorithm in peers]
    frame = pl.DataFrame(rows, schema=["model", "fit", "predict", "rmse"], orient="row")

    table = Table("model", "fit s", "predict s", "RMSE", title=f"MovieLens 1M, random 10% held out ({len(test):,})")
    for model, fit, predict, error in frame.iter_rows():
        table.add_row(model, f"{fit:.2f}", f"{predict:.2f}", f"{error:.4f}")
    console.print(table)

    als = frame.filter(pl.col("model").str.starts_with("recaudit ALS"))["fit"][0] / 10
    rounds = ra.models.WALS(factors=64, iterations=5)
    rounds.fit(warm)
    wals = timed(lambda: rounds.fit(train))[1] / rounds.iterations
    iteration = Table("one iteration at 64 factors", "s", "our ALS / theirs", "our WALS / theirs")
    iteration.add_row("recaudit ALS (exact, explicit, biased)", f"{als:.2f}", "", "")
    iteration.add_row("recaudit WALS (exact, every pair)", f"{wals:.2f}", "", "")
    for name, use_cg in (("implicit ALS, exact", False), ("implicit ALS, conjugate gradient", True)):
        seconds = implicit_seconds(train, use_cg=use_cg)
        iteration.add_row(name, f"{seconds:.2f}", f"{als / seconds:.2f}", f"{wals / seconds:.2f}")
    console.print(iteration)


if __name__ == "__main__":
    main()
