"""Exposure: what is shown, and is it only what is popular already?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import final

import numpy as np
import polars as pl
from numba import njit
from scipy import sparse

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.audit import Audit, Context, CountMetrics, ListAudit, Subject, Verb
from recaudit.audits.lists.definitions import EXPOSURE
from recaudit.audits.lists.recommend import asked_users, gives_lists, lists_of, model_of
from recaudit.audits.recipe import Measured, Nothing, Recipe, RecommendedList
from recaudit.audits.result import Result, Table
from recaudit.data.interactions import Interactions
from recaudit.metrics.groupings import groupings
from recaudit.metrics.intervals import Ratio, estimate_of_lists, mean, row
from recaudit.metrics.tables import SUMMARY_SCHEMA, item_table, list_table, user_table
from recaudit.models.base import NO_LIST
from recaudit.policies import AnyListPolicy, Top1
from recaudit.status import Status


@final
class Exposure(ListAudit):
    """Which items are shown, and how popular they are: how often they were rated in the model's training log.

    Popularity is taken as given: intervals are for other users who are shown items of the same popularity. The fact
    `recommended_unrated` counts the recommendations of items that nobody rated, which novelty takes as rated once.

    Lists hold unseen items only, but for a system's own, which are as they were shown. By group of items: the share of
    all recommended places, beside that of the ratings.
    """

    metrics = EXPOSURE
    takes_lists = True

    policy: AnyListPolicy = Top1()
    """How scores become a list."""

    @property
    def recipe(self) -> Recipe:
        """What is, without any intervention."""
        return Recipe(Nothing(), RecommendedList(self.k), Measured(EXPOSURE[1]))

    def measure(self, subject: Subject, context: Context) -> Result:
        """Look at everybody's list."""
        model = model_of(subject)
        lists, facts = lists_of(model, self.policy, self.k, context.rng, context.engine, "exposure")
        asked = asked_users(model, np.arange(model.data.n_users))
        found = self.of_lists(model.data, lists[asked], context.rng, asked, owned=gives_lists(model))
        found.facts |= facts
        return found

    def of_counts(self, items: pl.DataFrame) -> CountMetrics:
        """How recommendations are spread over the catalogue."""
        return _SPREAD, partial(_spread, popularity=items["ratings"].to_numpy().astype(np.float64))

    def of_lists(
        self, data: Interactions, lists: IntArray, rng: int = 0, at: IntArray | None = None, *, owned: bool = False
    ) -> Result:
        """The same about given lists (users, n): item positions, -1 where there is none, `NO_LIST` where none is known.

        `at` (users,) are positions in the log; all of its users, where nothing is said. An empty list is nobody's,
        save where lists are a system's own (`owned`).
        """
        at = np.arange(data.n_users) if at is None else at
        shown = incidence(lists, data.n_items)
        places = np.diff(shown.indptr).astype(np.float64)
        known = np.maximum(data.item_counts, 1) / data.n_users  # an item that nobody rated counts as rated once
        popularity = data.item_counts.astype(np.float64)
        with np.errstate(invalid="ignore"):  # NaN for an empty list or history
            before = (np.bincount(data.users, popularity[data.items], data.n_users) / data.user_counts)[at]
            lift, novelty = shown @ popularity / places / before - 1, shown @ -np.log2(known) / places
        own = {"popularity_lift": lift, "novelty": novelty}
        ratios = [mean(name, values, np.ones(len(at))) for name, values in own.items()]
        averages = self.aggregated(ratios + by_group(data, self.by, own, shown, at), data, at)
        answered = (lists != NO_LIST).all(axis=1) if owned else None
        catalogue = item_table(data)
        items = of_items(*self.of_counts(catalogue), shown, self, answered)
        if len(at) < data.n_users:  # whoever has no list here may be shown what nobody else is
            lowest = (pl.col("metric") == "coverage") & (pl.col("status") == Status.SOLVED.value)
            items = items.with_columns(status=pl.when(lowest).then(pl.lit(Status.BOUNDED.value)).otherwise("status"))
        tables: dict[str, Table] = {
            **averages,
            "summary": pl.concat([items, averages["summary"]]),
            "lists": lambda: list_table(data.user_ids.gather(at), data.item_ids, lists),
            "users": user_table(data.user_ids.gather(at), own),
            "items": catalogue.with_columns(recommended=shown.sum(axis=0).astype(np.int64)),
        }
        # Novelty of these rests on a count of 1 that nobody gave.
        return Result(
            self, tables, rng=rng, facts={"recommended_unrated": int(shown.sum(axis=0)[popularity == 0].sum())}
        )


exposure = Verb(Exposure, Result)

_HIGHEST = 1 << 20
"""Counts up to here are ranked by counting how often each occurs."""


def gini(counts: FloatArray) -> FloatArray:
    """(rows,): sum_i (2 i - n - 1) x_(i) / (n sum x) of counts (rows, items), x ascending; NaN for a row of zeros."""
    return _gini(_centred_ranks(counts), counts)


def _gini(ranks: FloatArray, counts: FloatArray) -> FloatArray:
    """As `gini`; `2 i - n - 1` is twice a centred rank, and equal counts may share the mean of theirs."""
    with np.errstate(invalid="ignore"):
        return np.asarray(2 * _summed(ranks, counts) / (counts.shape[1] * counts.sum(axis=1)))


def _summed(left: FloatArray, right: FloatArray) -> FloatArray:
    """(rows,): the sum of products of (rows, items)."""
    return np.asarray(np.einsum("ri,ri->r", left, right))


def _centred_ranks(counts: FloatArray) -> FloatArray:
    """(rows, items): the place of each count among its row's, ascending, less the mean place; ties share a mean one."""
    whole = np.ascontiguousarray(counts, dtype=np.int64)
    if counts.size and counts.min() >= 0 and counts.max() < _HIGHEST and (whole == counts).all():
        return _ranks_by_counting(whole)
    from scipy.stats import rankdata  # noqa: PLC0415  slow to import

    return np.asarray(rankdata(counts, axis=1) - (counts.shape[1] + 1) / 2)


@njit(nogil=True, cache=True)
def _ranks_by_counting(counts: IntArray) -> FloatArray:
    rows, items = counts.shape
    ranks = np.empty((rows, items))
    for r in range(rows):
        own = counts[r]
        often = np.zeros(own.max() + 1, dtype=np.int64)
        for i in range(items):
            often[own[i]] += 1
        place, before = np.empty(len(often)), 0
        for value in range(len(often)):
            place[value] = before + (often[value] - items) / 2
            before += often[value]
        for i in range(items):
            ranks[r, i] = place[own[i]]
    return ranks


def incidence(lists: IntArray, n_items: int) -> sparse.csr_array:
    """(users, items): 1 where the item is in the user's list."""
    user, place = np.nonzero(lists >= 0)
    items = lists[user, place]
    return sparse.csr_array((np.ones(len(items)), (user, items)), shape=(len(lists), n_items))


def by_group(
    data: Interactions,
    by: Sequence[str] | None,
    own: Mapping[str, FloatArray],
    shown: sparse.csr_array,
    at: IntArray | None = None,
) -> list[Ratio]:
    """By group of users the means of their `own` numbers (users,); by group of items the share of recommended places.

    Beside that, the group's share of the ratings. `shown` (users, items) is 1 where the item is in the user's list;
    `at` (users,) are positions in the log, -1 for users that it does not know, and all of its users by default.
    """
    at = np.arange(data.n_users) if at is None else at
    places, ratios = np.diff(shown.indptr).astype(np.float64), []
    for grouping in groupings(data, by):
        if grouping.over == "users":
            members_of = np.where((at >= 0)[:, None], grouping.weights[at], 0.0)
            for group, members in zip(grouping.names, members_of.T, strict=True):
                ratios += [mean(name, values, members, grouping.by, group) for name, values in own.items()]
        else:
            taken, rated = shown @ grouping.weights, data.item_counts @ grouping.weights / max(1, len(data))
            for group, own_places, baseline in zip(grouping.names, taken.T, rated.tolist(), strict=True):
                ratios.append(Ratio("share", own_places, places, len(at), "mean", grouping.by, group, baseline))
    return ratios


def of_items(
    names: Sequence[str],
    compute: Callable[[FloatArray], FloatArray],
    shown: sparse.csr_array,
    audit: Audit,
    answered: BoolArray | None = None,
) -> pl.DataFrame:
    """Compute the rows of metrics of all lists together.

    Args:
        names: Names of the metrics.
        compute: Function of counts of the items, shape (rows, items), that returns shape (rows, metrics).
        shown: 1 where an item is in a user's list, shape (users, items).
        audit: Audit whose metrics they are.
        answered: Mask of the users who count, shape (users,). By default those with items in their lists.
    """
    population = shown.shape[0]
    counted = np.diff(shown.indptr) > 0 if answered is None else answered
    bounds = [audit.metric_bounds[name] for name in names]
    estimates = estimate_of_lists(compute, shown[counted], bounds, audit.confidence)
    rows = [{"metric": name, **row(each, population)} for name, each in zip(names, estimates, strict=True)]
    return pl.DataFrame(rows, SUMMARY_SCHEMA)


_SPREAD = ("coverage", "gini", "popularity_correlation")


def _spread(counts: FloatArray, popularity: FloatArray) -> FloatArray:
    """(rows, 3): each of _SPREAD for each row of item counts."""
    ranks, other = _centred_ranks(counts), _centred_ranks(popularity[None])[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        spearman = ranks @ other / np.sqrt(_summed(ranks, ranks) * (other @ other))
    return np.column_stack([(counts > 0).mean(axis=1), _gini(ranks, counts), spearman])
