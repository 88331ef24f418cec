"""Spearman's rank correlation over a few recommenders, and how much so few can say."""

from __future__ import annotations

import numpy as np
from scipy import stats

from recaudit.arrays import FloatArray
from recaudit.seeding import generator

LEAST = 4
"""From so many recommenders on there is an interval."""
_SAMPLES = 2000


def rank_correlation(offline: FloatArray, online: FloatArray, rng: int) -> dict[str, float | int | None]:
    """Of the means over folds and trials, (recommenders, folds) and (recommenders, trials); as in `OfflineOnline`.

    A recommender of which something is not known (NaN: nobody rated anything) is left out. Where all that are left have
    the same number there is no order, and no value.
    """
    known = np.isfinite(offline).all(axis=1) & np.isfinite(online).all(axis=1)
    offline, online = offline[known], online[known]
    n = len(offline)
    means = offline.mean(axis=1), online.mean(axis=1)
    if n < 2 or any(np.ptp(values) == 0 for values in means):
        return {"value": None, "lower": None, "upper": None, "p_value": None, "recommenders": n}
    value = float(_spearman(*means))
    draw = generator(rng, "spearman")
    lower, upper = _interval(value, n)
    orders = np.stack([draw.permutation(n) for _ in range(_SAMPLES)])
    extreme = int((abs(_spearman(means[0][None, :], means[1][orders])) >= abs(value) - 1e-12).sum())
    p_value = (extreme + 1) / (_SAMPLES + 1)
    return {"value": value, "lower": lower, "upper": upper, "p_value": p_value, "recommenders": n}


def _interval(value: float, n: int) -> tuple[float | None, float | None]:
    """The 95% interval of Bonett and Wright (2000); none for fewer than four, of which nothing can be said.

    On Fisher's scale, where an end of the range lies at infinity: there the value is taken half a step inside, steps
    being those in which the correlation of n ranks can change.
    """
    if n < LEAST:
        return None, None
    end = 1 - 6 / (n * (n**2 - 1))
    middle = np.arctanh(np.clip(value, -end, end))
    half = stats.norm.ppf(0.975) * np.sqrt((1 + value**2 / 2) / (n - 3))
    lower, upper = np.tanh([middle - half, middle + half])
    return min(float(lower), value), max(float(upper), value)


def _spearman(a: FloatArray, b: FloatArray) -> FloatArray:
    """(...,): of the last axis; 0 where one of the two is the same throughout."""
    x, y = (stats.rankdata(values, axis=-1) for values in (a, b))
    x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    norm = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    found: FloatArray = (x * y).sum(axis=-1) / np.where(norm > 0, norm, 1.0)
    return found
