"""Table 2 measured: recall and C_KL of lists re-ranked at each lambda, and what another reading of them gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from scipy import sparse

from recaudit.data import Interactions
from recaudit.data.splits import random
from recaudit.models import WALS, FittedModel
from recaudit.plugins import (
    Calibrator,
    FloatArray,
    IntArray,
    blocks,
    calibration_hellinger,
    calibration_kl,
    generator,
    list_distribution,
)
from recaudit.policies import Calibrated
from recaudit_papers.studies.calibration.drawing import UserMeans, interval
from recaudit_papers.studies.calibration.plays import GENRE, fitted, split_of

Horizon = Literal["prefix", "list"]
ScoreTransform = Literal["none", "rank", "zscore", "minmax"]
LENGTHS = (10, 50)
ALPHAS = (0.001, 0.1)
"""Smoothings other than the paper's 0.01, of the metric alone."""
_TINY = 1e-300
Lists = dict[int, IntArray]
"""By length, (weights, users, length): item positions."""


def tradeoff(
    log: Mapping[str, Any],
    held: float,
    splits: Sequence[int],
    model: Mapping[str, Any],
    weights: Sequence[float],
    *,
    horizon: Horizon = "prefix",
    transform: ScoreTransform = "none",
    pool: int | None = None,
    base: Literal["e", "2"] = "e",
    everybody: bool = False,
) -> pl.DataFrame:
    """Every number of Table 2 over some splits, with intervals from drawing users: a row a metric, length and weight.

    `pool`: re-ranked are as many items as this, the best by score, instead of all. `base`: of the logarithm, in what
    lists are made for and in C_KL. `everybody`: users without anything held out count too, for C_KL. "kept" and
    "left" are recall and C_KL beside those at the first weight, "step" is C_KL less that at the weight before,
    "shorter" C_KL@10 less that of the length, "slower" what is left of C_KL less what is left of C_KL@10.
    """
    means = None
    for split in splits:
        fit, test = fitted(log, held, split, model)
        means = means or UserMeans(test.n_users)
        users = np.arange(test.n_users) if everybody else np.flatnonzero(test.user_counts)
        policy = Calibrated(horizon=horizon, transform=transform)
        lists = reranked(fit, users, [in_base(weight, base) for weight in weights], policy, pool)
        unit = np.log(2) if base == "2" else 1.0
        for length, made in lists.items():
            for weight, each in zip(weights, made, strict=True):
                for name, (totals, counts) in _numbers(fit.data, test, users, each, unit).items():
                    means.add((name, length, weight), users, totals, counts)
    assert means is not None
    drawn, first = means.leave_blocks_out(), weights[0]
    counted = {key: means.counts(key) for key in drawn}
    for length, weight in [(length, weight) for length in LENGTHS for weight in weights]:
        for name, of in (("kept", "recall"), ("left", "kl")):
            drawn[name, length, weight] = drawn[of, length, weight] / drawn[of, length, first]
        before = weights[max(0, weights.index(weight) - 1)]
        drawn["step", length, weight] = drawn["kl", length, weight] - drawn["kl", length, before]
        drawn["shorter", length, weight] = drawn["kl", LENGTHS[0], weight] - drawn["kl", length, weight]
        drawn["slower", length, weight] = drawn["left", length, weight] - drawn["left", LENGTHS[0], weight]
    rows = [
        {"metric": name, "length": length, "weight": weight, **interval(values, users), "users": users}
        for (name, length, weight), values in drawn.items()
        for users in [counted.get((name, length, weight), counted["recall", length, weight])]
    ]
    return pl.DataFrame(rows)


def in_base(weight: float, base: Literal["e", "2"]) -> float:
    """The lambda that weighs a C_KL in nats as this one weighs it in the unit of the base."""
    scaled = weight / (np.log(2) if base == "2" else 1.0)
    return float(scaled / (1 - weight + scaled))


def reranked(
    model: FittedModel, users: IntArray, weights: Sequence[float], policy: Calibrated, pool: int | None = None
) -> Lists:
    """Lists of each length at each weight: the beginnings of one list, or made for the length (horizon "list")."""
    calibrator = Calibrator(policy, model.data)
    made_for = LENGTHS if policy.horizon == "list" else LENGTHS[-1:]
    found: Lists = {length: np.empty((len(weights), len(users), length), dtype=np.int64) for length in made_for}
    for rows in blocks(np.arange(len(users))):
        scores, allowed = model.scores(users[rows]), ~model.data.seen(users[rows])
        if pool is not None and pool < scores.shape[1]:
            candidates = np.where(allowed, scores, -np.inf)
            allowed &= candidates >= -np.partition(-candidates, pool - 1, axis=1)[:, pool - 1 : pool]
        for length in made_for:
            for place, weight in enumerate(weights):
                found[length][place, rows] = calibrator.solve(scores, allowed, users[rows], length, weight=weight).lists
    return {length: found.get(length, found[LENGTHS[-1]])[:, :, :length] for length in LENGTHS}


def _numbers(
    data: Interactions, test: Interactions, users: IntArray, lists: IntArray, unit: float
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """By metric, totals and weights (users,) whose sums' ratio is the number; C_KL in a unit of so many nats."""
    relevant, hits = test.user_counts[users].astype(np.float64), _hits(test, users, lists)
    shares = data.categories[GENRE].weights
    p, q = history_of(data, users, shares), list_distribution(lists, shares)
    # Where each genre of a film counts one, a film with three counts three.
    tags = sparse.csr_array((np.ones_like(shares.data), shares.indices, shares.indptr), shares.shape)
    tagged = list_distribution(lists, tags)
    one = (data.user_counts[users] > 0).astype(np.float64)
    return {
        "recall": (hits / np.maximum(relevant, 1), (relevant > 0).astype(np.float64)),
        "recall_pooled": (hits, relevant),
        "kl": (calibration_kl(p, q) / unit, one),
        "kl_tags": (calibration_kl(history_of(data, users, tags), tagged / tagged.sum(axis=1, keepdims=True)), one),
        "hellinger": (calibration_hellinger(p, q), one),
        **{f"kl_{alpha:g}": (calibration_kl(p, q, alpha), one) for alpha in ALPHAS},
    }


def _hits(test: Interactions, users: IntArray, lists: IntArray) -> FloatArray:
    """(users,): how many items of each list (users, n) are held out."""
    listed = users[:, None] * test.n_items + lists
    held = test.users.astype(np.int64) * test.n_items + test.items
    return np.asarray((np.isin(listed, held) & (lists >= 0)).sum(axis=1), dtype=np.float64)


def history_of(data: Interactions, users: IntArray, shares: sparse.csr_array) -> FloatArray:
    """(users, genres): p(g|u) of these users with these shares of genres (items, genres); zeros without any plays."""
    held: FloatArray = (data.csr[users] @ shares).toarray()
    return np.asarray(held / np.maximum(held.sum(axis=1, keepdims=True), _TINY))


def grid(
    log: Mapping[str, Any],
    held: float,
    split: int,
    unobserved_weight: float,
    regularizations: Sequence[float],
    iterations: Sequence[int],
    factors: int = 50,
) -> pl.DataFrame:
    """Recall@50 on a validation split, which is made of a split's training plays as that one was made of all."""
    train = split_of(log, held, split).train
    inner = random(train, held / (1 - held), split)
    users = np.flatnonzero((inner.test.user_counts > 0) & (inner.train.user_counts > 0))
    relevant, rows = inner.test.user_counts[users], []
    for regularization in regularizations:
        for count in iterations:
            settings: dict[str, Any] = {
                "factors": factors,
                "unobserved_weight": unobserved_weight,
                "regularization": regularization,
            }
            model = WALS(values="ones", iterations=count, **settings).fit(inner.train, 0)
            lists = reranked(model, users, [0.0], Calibrated(horizon="prefix"))[LENGTHS[-1]][0]
            means = UserMeans(len(users))
            means.add("recall", np.arange(len(users)), _hits(inner.test, users, lists) / relevant, np.ones(len(users)))
            rows.append(
                {
                    **settings,
                    "iterations": count,
                    **interval(means.leave_blocks_out()["recall"], len(users)),
                    "users": len(users),
                }
            )
    return pl.DataFrame(rows)


def optimality(
    log: Mapping[str, Any], held: float, split: int, model: Mapping[str, Any], weights: Sequence[float], users: int
) -> pl.DataFrame:
    """How good lists of 50 are by Equation 6, as a whole, for some users: made by the paper's greedy and by ours.

    "below": the share of lists that are worse than the list by score; "gap": by how much the best may be better.
    """
    fit, test = fitted(log, held, split, model)
    chosen = np.flatnonzero((fit.data.user_counts > 0) & (test.user_counts > 0))
    chosen = np.sort(generator(0, "optimality").permutation(chosen)[:users])
    scores, allowed = fit.scores(chosen), ~fit.data.seen(chosen)
    means = UserMeans(len(chosen))
    for horizon in get_args(Horizon):
        calibrator = Calibrator(Calibrated(horizon=horizon), fit.data)
        for weight in weights:
            solved = calibrator.solve(scores, allowed, chosen, LENGTHS[-1], weight=weight, certify=True).certificate
            assert solved is not None
            for what, values in (("below", (solved.value < solved.plain).astype(np.float64)), ("gap", solved.gap)):
                means.add((horizon, weight, what), np.arange(len(chosen)), values, np.ones(len(chosen)))
    rows = [
        {"horizon": horizon, "weight": weight, "what": what, **interval(each, len(chosen)), "users": len(chosen)}
        for (horizon, weight, what), each in means.leave_blocks_out().items()
    ]
    return pl.DataFrame(rows)
