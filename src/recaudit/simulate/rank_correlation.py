"""Spearman's rank correlation of two things that were each measured several times."""

from __future__ import annotations

import numpy as np
from scipy import stats

from recaudit.seeding import generator
from recaudit.simulate.population import FloatArray

_SAMPLES = 2000


def rank_correlation(offline: FloatArray, online: FloatArray, rng: int) -> dict[str, float | int | None]:
    """Of the means over folds and trials, (recommenders, folds) and (recommenders, trials); as in `OfflineOnline`.

    A recommender of which something is not known (NaN: nobody rated anything) is left out.
    """
    known = np.isfinite(offline).all(axis=1) & np.isfinite(online).all(axis=1)
    offline, online = offline[known], online[known]
    n = len(offline)
    if n < 2:
        return {"value": None, "lower": None, "upper": None, "p_value": None, "recommenders": n}
    means = offline.mean(axis=1), online.mean(axis=1)
    value = float(_spearman(*means))
    draw = generator(rng, "spearman")
    picks = [
        (draw.integers(0, offline.shape[1], offline.shape[1]), draw.integers(0, online.shape[1], online.shape[1]))
        for _ in range(_SAMPLES)
    ]
    folds, trials = (np.stack(columns) for columns in zip(*picks, strict=True))
    drawn = _spearman(offline[:, folds].mean(axis=2).T, online[:, trials].mean(axis=2).T)
    lower, upper = np.quantile(drawn, [0.025, 0.975])
    orders = np.stack([draw.permutation(n) for _ in range(_SAMPLES)])
    extreme = int((abs(_spearman(means[0][None, :], means[1][orders])) >= abs(value) - 1e-12).sum())
    p_value = (extreme + 1) / (_SAMPLES + 1)
    return {"value": value, "lower": float(lower), "upper": float(upper), "p_value": p_value, "recommenders": n}


def _spearman(a: FloatArray, b: FloatArray) -> FloatArray:
    """(...,): of the last axis; 0 where one of the two is the same throughout."""
    x, y = (stats.rankdata(values, axis=-1) for values in (a, b))
    x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    norm = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    found: FloatArray = (x * y).sum(axis=-1) / np.where(norm > 0, norm, 1.0)
    return found
