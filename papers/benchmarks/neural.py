"""How far the slower recommenders are from what their arithmetic and their memory must cost, on one core.

    python papers/benchmarks/neural.py [name ...]

RecLab's topics log (1000 x 1700, 100,000 ratings), the published settings. CPU seconds of `fit`, of `warm_fit` after
200 more ratings, and of all users' scores. The floors count what a fit must do, over this core's own rates, measured
here: multiplications and additions as fast as in one large matrix product, and each row of numbers once from the cache
that holds it, or from memory and back. None reaches the first: its operands are rows picked by ratings, used once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numba
import numpy as np
import torch

from recaudit import models, simulate
from recaudit.data import Interactions
from recaudit_papers.models import CFNADE, LLORMA, AutoRec, BayesMF
from recaudit_papers.recommenders import paper_recommenders

Result = TypeVar("Result")


class Floor(NamedTuple):
    """What one fit must do."""

    flops: float
    """Multiplications and additions."""
    cached: float = 0.0
    """Bytes read or written where a cache holds them."""
    uncached: float = 0.0
    """Bytes read and written in memory."""
    double: bool = False


def autorec(model: AutoRec, data: Interactions) -> Floor:
    """Reading, predicting, tracing back, and the slopes of V and W: five rows a rating; and Adam on V and W."""
    rows = 5 * len(data) * model.epochs
    adam = 2 * data.n_users * model.hidden * model.epochs * -(-data.n_items // model.batch)
    return Floor(2 * rows * model.hidden + 12 * adam, 4 * rows * model.hidden + 24 * adam)


def cfnade(model: CFNADE, data: Interactions) -> Floor:
    """Half of the ratings are read, up to their level; half are predicted, at each level; and Adam on W and V."""
    levels, seen = 5, len(data) / 2 * model.epochs
    reached = float(np.mean(np.clip(np.round(data.ratings), 1, 5)))
    adam = 2 * levels * data.n_users * model.hidden * model.epochs * -(-data.n_items // model.batch)
    return Floor((2 * reached + 6 * levels) * seen * model.hidden + 12 * adam, uncached=24 * adam)


def llorma(model: LLORMA, data: Interactions) -> Floor:
    """A rating reads two rows, keeps two moves, and brings them into the rows once its batch is through."""
    numbers = len(data) * model.epochs * model.anchors * model.rank
    return Floor(8 * numbers, cached=4 * 10 * numbers)


def bayes(model: BayesMF, data: Interactions) -> Floor:
    """The lower triangle of each row's normal equations, for users and for items, and its Cholesky factor."""
    size = model.factors
    factorise = (data.n_users + data.n_items) * size**3 / 3
    return Floor(model.iterations * (2 * len(data) * size * (size + 1) + factorise), double=True)


def sgd(model: models.BiasedMF, data: Interactions) -> Floor:
    """A prediction and two moves; one rating after the other."""
    return Floor(8 * len(data) * model.epochs * (model.factors + 2), double=True)


FLOORS: dict[str, Callable[..., Floor]] = {
    "AutoRec": autorec, "CF-NADE": cfnade, "LLORMA": llorma, "Bayes MF": bayes, "SGD MF": sgd,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *FLOORS])
    names = parser.parse_args().names or list(FLOORS)
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    single, double, cached, uncached = rates()
    print(f"one core: {single:.0f} GFLOP/s, in double precision {double:.0f}; ", end="")
    print(f"{cached:.0f} GB/s within a cache of 1 MB, {uncached:.0f} in memory")
    log = simulate.Topics().offline(100_200)
    data = log.subset(np.arange(len(log)) % 501 != 0)
    print(
        f"{'':10} {'fit, s':>8} {'arithmetic':>11} {'memory':>8} {'fit / larger':>13} {'warm, s':>8} {'scores, s':>10}"
    )
    for name in names:
        recommender = paper_recommenders("topics-static")[name]
        fit, warm, scores = seconds(recommender, data, log)
        floor = FLOORS[name](recommender, data)
        arithmetic = floor.flops / 1e9 / (double if floor.double else single)
        memory = floor.cached / 1e9 / cached + floor.uncached / 1e9 / uncached
        ratio = fit / max(arithmetic, memory)
        print(
            f"{name:10} {fit:8.2f} {arithmetic:11.2f} {memory:8.2f} {ratio:13.1f} {warm:8.2f} {scores:10.2f}",
            flush=True,
        )


def seconds(recommender: models.Recommender, data: Interactions, grown: Interactions) -> tuple[float, float, float]:
    """Of `fit`, of `warm_fit` and of all scores, once all is compiled."""
    fields = type(recommender).model_fields
    quick: dict[str, int] = {key: 1 for key in ("epochs", "update_epochs") if key in fields}
    compiled = recommender.model_copy(update=quick)
    compiled.warm_fit(compiled.fit(data), grown)
    fit, model = timed(lambda: recommender.fit(data))
    warm, _ = timed(lambda: recommender.warm_fit(model, grown))
    scores, _ = timed(lambda: model.scores(np.arange(data.n_users)))
    return fit, warm, scores


def rates() -> tuple[float, float, float, float]:
    """GFLOP/s of a product of 2000 x 2000 in single and double precision, GB/s within 1 MB and in 256 MB."""

    def product(dtype: torch.dtype) -> float:
        left, right = torch.rand(2, 2000, 2000, dtype=dtype)
        return 16 / min(timed(lambda: left @ right)[0] for _ in range(5))

    def read_and_written(count: int) -> float:
        numbers, times = torch.ones(count), 2**27 // count
        seconds = min(timed(lambda: [numbers.add_(1.0) for _ in range(times)])[0] for _ in range(3))
        return 8 * count * times / 1e9 / seconds

    return product(torch.float32), product(torch.float64), read_and_written(2**18), read_and_written(2**26)


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """CPU seconds, and what comes of them."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


if __name__ == "__main__":
    main()
