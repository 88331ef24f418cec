"""Figures 1 to 3 measured: how far users' lists are from their histories, and which genres they leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from recaudit.plugins import FloatArray, IntArray, calibration_kl, list_distribution
from recaudit.policies import Calibrated
from recaudit_papers.studies.calibration.drawing import UserMeans, interval
from recaudit_papers.studies.calibration.measures import LENGTHS, history_of, reranked
from recaudit_papers.studies.calibration.plays import GENRE, fitted

WORST = 0.1
"""The share of users, those with the highest C_KL, whom Figures 2 and 3 are about."""
LESSER = 0.05
"""The share of a history up to which a genre is one of the lesser interests."""
CROWDED = 4
"""Genres of the history that are missing from the list of the user whom Figure 2 shows."""
_BINS = 40


class _Shown(NamedTuple):
    genres: tuple[str, ...]
    plays: IntArray  # (users,)
    p: FloatArray  # (users, genres)
    q: FloatArray  # (weights, users, genres)
    apart: FloatArray  # (weights, users): C_KL@50


def _shown(
    log: Mapping[str, Any],
    held: float,
    split: int,
    model: Mapping[str, Any],
    weights: Sequence[float],
    *,
    everybody: bool = False,
) -> _Shown:
    """The genres of the histories and lists of 50 of those with something held out, or of everybody."""
    fit, test = fitted(log, held, split, model)
    users = np.flatnonzero((fit.data.user_counts > 0) & ((test.user_counts > 0) | everybody))
    lists = reranked(fit, users, weights, Calibrated(horizon="prefix"))[LENGTHS[-1]]
    genres = fit.data.categories[GENRE]
    p = history_of(fit.data, users, genres.weights)
    q = np.stack([list_distribution(each, genres.weights) for each in lists])
    return _Shown(genres.names, fit.data.user_counts[users], p, q, np.stack([calibration_kl(p, each) for each in q]))


def spread(
    log: Mapping[str, Any], held: float, split: int, model: Mapping[str, Any], weights: Sequence[float]
) -> pl.DataFrame:
    """Figure 1: how C_KL@50 is spread over test users at each weight.

    "share" of users in each bin from `at` on; the "median"; the "range", the ninth decile beside the first; "nearer",
    the share of users whose list is nearer to the history than their list by score.
    """
    apart = _shown(log, held, split, model, weights).apart
    edges = np.linspace(0, np.quantile(apart[0], 0.99), _BINS + 1)
    rows: list[dict[str, object]] = []
    for weight, values in zip(weights, apart, strict=True):
        share = np.histogram(np.minimum(values, edges[-1]), edges)[0] / len(values)
        rows += [
            {"weight": weight, "what": "share", "at": float(at), "value": float(each)}
            for at, each in zip(edges, share, strict=False)
        ]
        low, median, high = np.quantile(values, (0.1, 0.5, 0.9))
        means = UserMeans(len(values))
        means.add("nearer", np.arange(len(values)), (values < apart[0]).astype(np.float64), np.ones(len(values)))
        # A jackknife does not give intervals of quantiles.
        numbers: dict[str, dict[str, float | None]] = {
            "median": {"value": median, "lower": None, "upper": None},
            "range": {"value": high / low, "lower": None, "upper": None},
            "nearer": interval(means.leave_blocks_out()["nearer"], len(values)),
        }
        rows += [{"weight": weight, "what": what, "at": None, **number} for what, number in numbers.items()]
    return pl.DataFrame(rows, schema_overrides={"at": pl.Float64}).with_columns(users=pl.lit(apart.shape[1]))


def representation(
    log: Mapping[str, Any],
    held: float,
    split: int,
    model: Mapping[str, Any],
    weight: float,
    *,
    everybody: bool = False,
) -> pl.DataFrame:
    """Figure 3: each genre in the lists of the worst tenth of test users before and after re-ranking, a row a number.

    "history" is its mean share, "over" and "under" how far lists are above and below on average, "balance" the one
    less the other, "length" both together, "missed" under beside history; "_after" where it is re-ranked. "shorter":
    how much shorter the length is after; "lead": how much longer than the longest of all other genres it is then.
    """
    shown = _shown(log, held, split, model, (0.0, weight), everybody=everybody)
    worst = _worst(shown.apart[0])
    means, rows_of = UserMeans(len(worst)), np.arange(len(worst))
    p = shown.p[worst]
    for at, genre in enumerate(shown.genres):
        numbers = {"history": p[:, at]}
        for after, q in zip(("", "_after"), shown.q[:, worst, at], strict=True):
            numbers |= {f"over{after}": np.maximum(q - p[:, at], 0), f"under{after}": np.maximum(p[:, at] - q, 0)}
            numbers |= {
                f"recommended{after}": q,
                f"balance{after}": q - p[:, at],
                f"length{after}": np.abs(q - p[:, at]),
            }
        numbers["shorter"] = numbers["length"] - numbers["length_after"]
        for what, values in numbers.items():
            means.add((genre, what), rows_of, values, np.ones(len(worst)))
    drawn = means.leave_blocks_out()
    lengths = np.stack([drawn[genre, "length_after"] for genre in shown.genres])
    for at, genre in enumerate(shown.genres):
        drawn[genre, "missed"] = drawn[genre, "under"] / np.maximum(drawn[genre, "history"], 1e-12)
        drawn[genre, "lead"] = lengths[at] - np.delete(lengths, at, axis=0).max(axis=0)
    rows = [{"genre": genre, "what": what, **interval(each, len(worst))} for (genre, what), each in drawn.items()]
    return pl.DataFrame(rows).with_columns(users=pl.lit(len(worst)))


def crowding(log: Mapping[str, Any], held: float, split: int, model: Mapping[str, Any], weight: float) -> pl.DataFrame:
    """Figure 2: what becomes of main and lesser interests in the lists of the worst tenth of test users.

    "missing": the share of a user's lesser interests that the list has nothing of; "crowded": whether it has nothing
    of four genres of the history or more; "main": how much more of the list than of the history the user's main
    interest has; "amplified": whether it has more; each "_after" re-ranking. Beside them the shares of every genre for
    one of these users, the one with the most plays: "history", "own", "reranked".
    """
    shown = _shown(log, held, split, model, (0.0, weight))
    worst = _worst(shown.apart[0])
    p, means, everybody = shown.p[worst], UserMeans(len(worst)), np.arange(len(worst))
    lesser, main = (p > 0) & (p <= LESSER), p.argmax(axis=1)
    some = np.asarray(lesser.any(axis=1), dtype=np.float64)
    for after, q in zip(("", "_after"), shown.q[:, worst], strict=True):
        missing = np.asarray((lesser & (q == 0)).sum(axis=1) / np.maximum(lesser.sum(axis=1), 1))
        means.add(f"missing{after}", everybody, missing, some)
        more = np.asarray((q - p)[everybody, main])
        crowded = ((p > 0) & (q == 0)).sum(axis=1) >= CROWDED
        for what, values in (("main", more), ("amplified", more > 0), ("crowded", crowded)):
            means.add(f"{what}{after}", everybody, values.astype(np.float64), np.ones(len(worst)))
    rows: list[dict[str, object]]
    rows = [
        {"genre": "", "what": what, **interval(each, len(worst))} for what, each in means.leave_blocks_out().items()
    ]
    example = worst[np.argmax(shown.plays[worst])]
    shares = {"history": shown.p[example], "own": shown.q[0, example], "reranked": shown.q[1, example]}
    for what, values in shares.items():
        rows += [
            {"genre": genre, "what": what, "value": value}
            for genre, value in zip(shown.genres, values.tolist(), strict=True)
        ]
    return pl.DataFrame(rows).with_columns(users=pl.lit(len(worst)))


def _worst(apart: FloatArray) -> IntArray:
    """The users with the highest C_KL (users,), the first of equal ones."""
    return np.argsort(-apart, kind="stable")[: int(np.ceil(WORST * len(apart)))]
