"""What is measured: reachability of some users' targets, held-out errors, and the time that a pair takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from recaudit.audits import Reachability
from recaudit.data import Interactions
from recaudit.data.splits import random
from recaudit.interventions import Actions, FutureEdits, HistoryEdits, Interval, NextK
from recaudit.models import FactorModel, FittedModel
from recaudit.plugins import (
    BoolArray,
    Candidates,
    IntArray,
    Ratio,
    candidate_items,
    derive,
    estimate_ratio,
    resolve_users,
    uniforms,
)
from recaudit.policies import Softmax
from recaudit_papers.studies.reachability.aggregates import Reached, summarized
from recaudit_papers.studies.reachability.subjects import log_of, model_of, recommender_of

_ACTIONS: Mapping[str, Callable[..., Actions]] = {"next": NextK, "future": FutureEdits, "history": HistoryEdits}
_FEW, _SOME = 5, 33
"""Ratings of an item: fewer than so many, and from so many on."""


def audit(
    log: str,
    model: Mapping[str, Any],
    actions: str,
    k: int,
    beta: float,
    box: Sequence[float],
    users: int,
    seed: int,
    targets: int | None = None,
    shared_targets: bool = False,
    candidates: Candidates = "unseen",
) -> pl.DataFrame:
    """Reachability of some users' targets, brought together: see `summarized`.

    `targets` of each user are drawn and solved, their own or the same for all; without, all candidates are targets.
    """
    low, high = (float(end) for end in box)
    fitted = model_of(log, model, seed, (low, high))
    free = _ACTIONS[actions](k, ratings=Interval(low, high))
    asked = Reachability(actions=free, policy=Softmax(beta=beta), candidates=candidates, baseline="predicted", refits=0)
    people = resolve_users(users, fitted.data, seed)
    allowed = candidate_items(fitted.data, people, free.items(fitted, people, seed), candidates)
    wanted = allowed if targets is None else drawn_targets(allowed, fitted.data, people, targets, seed, shared_targets)
    pairs = _solved(asked, fitted, people, None if targets is None else wanted, seed).drop_nulls("value")
    row = np.searchsorted(people, fitted.data.users_at(pairs["user"])), fitted.data.items_at(pairs["item"])
    best, predicted = np.full((2, *allowed.shape), np.nan)
    best[row], predicted[row] = pairs["value"], pairs["baseline"]
    ties = fitted.data.tie_keys(people)
    plain = np.exp(asked.policy.log_probabilities(fitted.scores(people), allowed, ties))
    reached = Reached(
        fitted.data, people, allowed.sum(axis=1), best, predicted, np.where(np.isnan(best), np.nan, plain)
    )
    return summarized(reached, seed)


def _solved(
    audit: Reachability, model: FittedModel, users: IntArray, wanted: BoolArray | None, seed: int
) -> pl.DataFrame:
    """Return the pairs of these users with all their candidates, or with the `wanted` items of each (users, items)."""
    user_ids, item_ids = model.data.user_ids.gather(users), model.data.item_ids

    def pairs(users: object, targets: object) -> pl.DataFrame:
        named = {"users": tuple(users), "targets": targets}  # type: ignore[arg-type]
        return audit.model_copy(update=named).run(model, rng=seed).pairs

    if wanted is None:
        return pairs(user_ids, "all")
    each = zip(user_ids, wanted, strict=True)
    return pl.concat([pairs([user], tuple(item_ids.gather(np.flatnonzero(own)))) for user, own in each if own.any()])


def drawn_targets(
    allowed: BoolArray, log: Interactions, users: IntArray, count: int, seed: int, shared: bool = False
) -> BoolArray:
    """(users, items): so many of each user's `allowed` items, drawn for each user or for all at once."""
    rows = np.zeros(len(users), dtype=np.uint64) if shared else log.user_keys[users]
    draws = uniforms(derive(seed, "targets"), rows[:, None], log.item_keys[None, :])
    if not shared:
        draws = np.where(allowed, draws, np.inf)
    last = min(count, log.n_items) - 1
    drawn: BoolArray = allowed & (draws <= np.partition(draws, last, axis=1)[:, last : last + 1])
    return drawn


def held_out_error(log: str, model: Mapping[str, Any], seed: int) -> pl.DataFrame:
    """Mean squared error on a tenth of the ratings, predictions cut to the scale; the interval is over users."""
    split = random(log_of(log), 0.1, rng=seed)
    fitted: FittedModel = recommender_of(model).fit(split.train, rng=seed)
    test = split.test
    pairs = test.users.astype(np.int64), test.items.astype(np.int64)
    squares = (np.clip(fitted.pair_scores(*pairs), *_range(split.train)) - test.ratings) ** 2
    totals, weights = (
        np.bincount(test.users, each, test.n_users).astype(np.float64) for each in (squares, np.ones(len(test)))
    )
    estimate = estimate_ratio(Ratio("squared error", totals, weights, test.n_users), (0.0, None))
    numbers = (len(log_of(log).user_ids), len(log_of(log).item_ids), len(log_of(log)))
    row = {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper}
    return pl.DataFrame([row | dict(zip(("users", "items", "ratings"), numbers, strict=True))])


def vector_lengths(log: str, model: Mapping[str, Any], seed: int) -> pl.DataFrame:
    """Mean lengths of the vectors of items with few and with many ratings, and the model's offset."""
    fitted = model_of(log, model, seed, log_of(log).scale)
    assert isinstance(fitted, FactorModel)
    counts, lengths = fitted.data.item_counts, np.linalg.norm(fitted.item_factors, axis=1)
    groups = {"fewer than 5": (1, _FEW), "5 to 32": (_FEW, _SOME), "33 or more": (_SOME, np.inf)}
    rows = [
        {"ratings": name, "length": float(lengths[own].mean()), "items": int(own.sum())}
        for name, (low, high) in groups.items()
        for own in [(counts >= low) & (counts < high)]
        if own.any()
    ]
    return pl.DataFrame(rows).with_columns(offset=pl.lit(fitted.mean), mean=pl.lit(fitted.data.ratings.mean()))


def _range(log: Interactions) -> tuple[float, float]:
    return float(log.ratings.min()), float(log.ratings.max())


def seconds_a_pair(
    log: str, model: Mapping[str, Any], k: int, box: Sequence[float], users: int, seed: int, candidates: Candidates
) -> pl.DataFrame:
    """How long one pair takes on one core of this machine, all targets of some users solved together: Next-k, beta 2.

    The only number here that is another one each time.
    """
    low, high = (float(end) for end in box)
    fitted = model_of(log, model, seed, (low, high))
    asked = Reachability(actions=NextK(k, ratings=Interval(low, high)), candidates=candidates, refits=0)
    people = resolve_users(users + 1, fitted.data, seed)
    _solved(asked, fitted, people[-1:], None, seed)  # compiled, and in the cache
    since = time.process_time()
    pairs = len(_solved(asked, fitted, people[:-1], None, seed))
    return pl.DataFrame({"value": [(time.process_time() - since) / pairs], "pairs": [pairs]})
