"""Popular against intermediate items, active against intermediate users: paper 001, appendix E, Tables II and III."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray, IntArray, StatusArray
from recaudit.audits.reachability.result import ReachabilityResult, marked, matrices
from recaudit.data.checks import listed_ids, positions
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.metrics.inference import Bounds, PairedDifference, SampleEstimate, estimate_difference, estimate_mean
from recaudit.metrics.intervals import restore_quotient, row, standing, weakest
from recaudit.metrics.tables import SUMMARY_SCHEMA
from recaudit.seeding import Keys, derive, uniforms
from recaudit.status import Status

_SIZE = 30
_RANKS = (200, 300)
_LARGE = 2 * _RANKS[1]
"""From this many on, ranks 200 to 300 lie in the upper half, as in the paper's data."""


@final
class Lifts:
    """How far users can lift items, by user and over any set of items; pairs without a lift are left out.

    A user's own mean comes first, then that over users. It is geometric, the one that neither a few items with tiny
    baselines nor the choice of the reciprocal can turn; the arithmetic mean, which paper 001 reports, is beside it.
    """

    def __init__(self, found: ReachabilityResult) -> None:
        ids = found.users["user"], found.items["item"]
        known = found.pairs.filter(pl.col("lift").is_finite() & (pl.col("lift") > 0))
        self.found = found
        # (asked users, items) each: NaN where there is no lift; where it is a lower bound; where none was found
        (self.values,) = matrices(known, *ids, "lift")
        self.bounded, self.failed = marked(known, *ids, Status.BOUNDED), marked(found.pairs, *ids, Status.FAILED)

    def statuses(self, weights: FloatArray) -> StatusArray:
        """(users,): how each user's mean over the items with a weight (items,) stands."""
        chosen = weights > 0
        marks = (self.bounded, ~np.isnan(self.values), self.failed)
        return standing(*(mark[:, chosen].any(axis=1) for mark in marks))

    def logs(self, weights: FloatArray) -> FloatArray:
        """(users,): each user's mean of log lift over the items with a weight (items,); NaN without any."""
        return self._mean(np.log(self.values), weights)

    def means(self, weights: FloatArray) -> FloatArray:
        """(users,): each user's arithmetic mean."""
        return self._mean(self.values, weights)

    def shares(self, weights: FloatArray, factor: float) -> FloatArray:
        """(users,): the share of each user's items that can be lifted by this factor or more."""
        above = np.where(np.isnan(self.values), np.nan, self.values >= factor)
        return self._mean(above, weights)

    def of_items(self) -> FloatArray:
        """(items,): each item's geometric mean over users; NaN without any."""
        known = ~np.isnan(self.values)
        total = np.where(known, np.log(self.values), 0.0).sum(axis=0)
        means: FloatArray = total / np.where(known.any(axis=0), known.sum(axis=0), np.nan)
        return np.exp(means)

    def weights(self, ids: Iterable[object] | None) -> FloatArray:
        """(items,): 1 for the items with these ids, else 0; 1 for all where none are named."""
        items = self.found.items["item"]
        if ids is None:
            return np.ones(len(items))
        named = pl.DataFrame({"items": listed_ids(ids, items, "items")})
        chosen = np.zeros(len(items))
        chosen[positions(items, named, "items", "error", "items", unique=False)[0]] = 1.0
        return chosen

    @staticmethod
    def _mean(values: FloatArray, weights: FloatArray) -> FloatArray:
        known = ~np.isnan(values)
        total = known @ weights
        return np.asarray(np.where(known, values, 0.0) @ weights / np.where(total > 0, total, np.nan))


@final
@dataclass(frozen=True)
class Tiers:
    """Two groups by how many ratings they have, the same for every model."""

    first: tuple[object, ...]  # the ids of those with the most ratings
    second: tuple[object, ...]  # the ids of as many in between
    ranks: tuple[int, int]  # from which the second group is drawn, the last included; 1 for the most ratings

    @property
    def rule(self) -> str:
        """How the groups are made."""
        low, high = self.ranks
        return f"the {len(self.first)} with the most ratings against {len(self.second)} of rank {low} to {high}"


def item_tiers(data: Interactions, rng: int = 0) -> Tiers:
    """Popular and intermediate items.

    The 30 with the most ratings, against 30 drawn from ranks 200 to 300. Of fewer than 600 items, the ranks are those
    from a third to a half of the catalogue, and of fewer than 300 each group is a tenth of it.
    """
    return _tiers(data.item_ids, data.item_keys, data.item_counts, derive(rng, "item tiers"))


def user_tiers(data: Interactions, rng: int = 0) -> Tiers:
    """Active and intermediate users, by the same rule."""
    return _tiers(data.user_ids, data.user_keys, data.user_counts, derive(rng, "user tiers"))


def _tiers(ids: pl.Series, keys: Keys, counts: IntArray, rng: int) -> Tiers:
    n = len(ids)
    size = max(1, min(_SIZE, n // 10))
    low, high = _RANKS
    if n < _LARGE:
        low = max(n // 3, size + 1)
        high = max(n // 2, low + size - 1)
    order = np.argsort(-counts, kind="stable")  # of equals, the first id first
    between = order[low - 1 : high]
    draws = uniforms(rng, keys[between], np.zeros(1, dtype=np.uint64))
    drawn = np.sort(between[np.argsort(draws)[:size]])
    first, second = (tuple(ids.gather(chosen).to_list()) for chosen in (np.sort(order[:size]), drawn))
    return Tiers(first, second, (low, high))


def contrast_items(
    found: ReachabilityResult,
    first: Iterable[object],
    second: Iterable[object],
    *,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Two groups of items (ids) for the same users: the mean lift of each, and how they differ.

    Rows of metric "lift" are geometric means, and "first / second" is how many times further the first group can be
    lifted: 1 where there is no difference. Rows of "mean_lift" are arithmetic means, as in the paper's Table II, with
    "first - second". A user's own mean comes first; intervals are over the users who have pairs in both groups, and
    `excluded` counts the others. Where lifts are lower bounds a group's mean is one too, and is called
    bounded; so is the ratio or difference of two groups, which may then be off either way.
    """
    lifts = Lifts(found)
    weights = [lifts.weights(ids) for ids in (first, second)]
    logs, means = ([mean(weight) for weight in weights] for mean in (lifts.logs, lifts.means))
    both = ~np.isnan(logs[0]) & ~np.isnan(logs[1])
    if not both.any():
        expected = "items of this result, each group with pairs that have an answer"
        raise InputError("first, second", received="groups without a user in common", expected=expected)
    stand = [lifts.statuses(weight)[both] for weight in weights]
    statuses = [weakest(some).value for some in (*stand, np.concatenate(stand))]
    geometric, arithmetic = [np.exp(each[both]) for each in logs], [each[both] for each in means]
    positive: Bounds = (0.0, None)
    estimates: dict[tuple[str, str], SampleEstimate | PairedDifference] = {
        ("first", "lift"): estimate_mean(geometric[0], positive, average="geometric", confidence=confidence),
        ("second", "lift"): estimate_mean(geometric[1], positive, average="geometric", confidence=confidence),
        ("first / second", "lift"): restore_quotient(
            estimate_difference(geometric[0], geometric[1], average="geometric", confidence=confidence)
        ),
        ("first", "mean_lift"): estimate_mean(arithmetic[0], positive, confidence=confidence),
        ("second", "mean_lift"): estimate_mean(arithmetic[1], positive, confidence=confidence),
        ("first - second", "mean_lift"): estimate_difference(arithmetic[0], arithmetic[1], confidence=confidence),
    }
    rows = [
        {"group": group, "metric": metric, **row(estimate, len(both), status=Status(status))}
        for ((group, metric), estimate), status in zip(estimates.items(), statuses * 2, strict=True)
    ]
    return pl.DataFrame(rows, {"group": pl.String, **SUMMARY_SCHEMA})
