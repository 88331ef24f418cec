"""A popular notebook's greedy: base 2 logarithms, and distributions of genres rounded to three digits at every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from recaudit.plugins import CALIBRATION_SMOOTHING, FloatArray, IntArray, generator
from recaudit.policies import Calibrated
from recaudit.solvers import CategoryVectors
from recaudit_papers.studies.calibration.drawing import UserMeans, interval
from recaudit_papers.studies.calibration.measures import LENGTHS, history_of, in_base, reranked
from recaudit_papers.studies.calibration.plays import GENRE, fitted

_DIGITS = 3


def overlap(
    log: Mapping[str, Any], held: float, split: int, model: Mapping[str, Any], weights: Sequence[float], users: int
) -> pl.DataFrame:
    """The share of each list of 10 of some users, drawn at random, that lists made another way have too.

    "notebook": base 2 and rounded; "base 2": that alone; "rounded": that alone.
    """
    fit, test = fitted(log, held, split, model)
    known = np.flatnonzero((fit.data.user_counts > 0) & (test.user_counts > 0))
    chosen = np.sort(generator(0, "notebook").permutation(known)[:users])
    length, policy = LENGTHS[0], Calibrated(horizon="prefix")
    ours = reranked(fit, chosen, weights, policy)[length]
    others = {"base 2": reranked(fit, chosen, [in_base(weight, "2") for weight in weights], policy)[length]}
    shares = fit.data.categories[GENRE].weights
    vectors, p = CategoryVectors.of(shares), history_of(fit.data, chosen, shares)
    scores, allowed = fit.scores(chosen), ~fit.data.seen(chosen)
    for name, unit in (("notebook", np.log(2)), ("rounded", 1.0)):
        others[name] = np.stack(
            [
                np.stack(
                    [
                        _rounded_greedy(
                            np.where(allowed[at], scores[at], -np.inf), vectors, p[at], weight, unit, length
                        )
                        for at in range(len(chosen))
                    ]
                )
                for weight in weights
            ]
        )
    rows = []
    for name, lists in others.items():
        for weight, own, other in zip(weights, ours, lists, strict=True):
            same = np.array([len(np.intersect1d(*pair)) / length for pair in zip(own, other, strict=True)])
            means = UserMeans(len(chosen))
            means.add("same", np.arange(len(chosen)), same, np.ones(len(chosen)))
            rows.append(
                {
                    "lists": name,
                    "weight": weight,
                    **interval(means.leave_blocks_out()["same"], len(chosen)),
                    "users": len(chosen),
                }
            )
    return pl.DataFrame(rows)


def _rounded_greedy(
    scores: FloatArray, vectors: CategoryVectors, p: FloatArray, weight: float, unit: float, length: int
) -> IntArray:
    """The greedy of Equation 6 for one user, p and every list's q rounded; scores (items,), -inf where not allowed."""
    shares = vectors.shares().toarray()
    target = np.round(p, _DIGITS)
    wanted = target > 0
    left, held = scores.copy(), np.zeros(len(p))
    chosen = np.empty(length, dtype=np.int64)
    for rank in range(length):
        q = np.round((held + shares) / (rank + 1), _DIGITS)[:, wanted]
        smoothed = (1 - CALIBRATION_SMOOTHING) * q + CALIBRATION_SMOOTHING * target[wanted]
        apart = (target[wanted] * np.log(target[wanted] / smoothed)).sum(axis=1) / unit
        value = (1 - weight) * left - weight * apart[vectors.vector_of]
        chosen[rank] = np.argmax(value)
        held += shares[vectors.vector_of[chosen[rank]]]
        left[chosen[rank]] = -np.inf
    return chosen
