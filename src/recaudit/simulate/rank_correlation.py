"""Spearman's rank correlation of two things that were each measured several times."""

from __future__ import annotations

import numpy as np
from scipy import stats

from recaudit.seeding import generator
from recaudit.simulate.population import FloatArray

_SAMPLES = 2000


def rank_correlation(offline: FloatArray, online: FloatArray, rng: int) -> dict[str, float | int | None]:
    """Of the means over folds and trials, (recommenders, folds) and (recommenders, trials); as in `OfflineOnline`."""
    n = len(offline)
    if n < 2:
        return {"value": None, "lower": None, "upper": None, "p_value": None, "recommenders": n}
    value = _spearman(offline.mean(axis=1), online.mean(axis=1))
    draw = generator(rng, "spearman")
    picks = [
        (draw.integers(0, offline.shape[1], offline.shape[1]), draw.integers(0, online.shape[1], online.shape[1]))
        for _ in range(_SAMPLES)
    ]
    drawn = [_spearman(offline[:, f].mean(axis=1), online[:, t].mean(axis=1)) for f, t in picks]
    lower, upper = np.quantile(drawn, [0.025, 0.975])
    orders = (draw.permutation(n) for _ in range(_SAMPLES))
    means = offline.mean(axis=1), online.mean(axis=1)
    extreme = sum(abs(_spearman(means[0], means[1][order])) >= abs(value) - 1e-12 for order in orders)
    p_value = (extreme + 1) / (_SAMPLES + 1)
    return {"value": value, "lower": float(lower), "upper": float(upper), "p_value": p_value, "recommenders": n}


def _spearman(a: FloatArray, b: FloatArray) -> float:
    x, y = stats.rankdata(a), stats.rankdata(b)
    x, y = x - x.mean(), y - y.mean()
    norm = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / norm) if norm > 0 else 0.0
