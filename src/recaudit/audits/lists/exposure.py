"""Exposure: what is shown, and is it only what is popular already?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
from scipy import sparse, stats

from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.lists.recommend import Recommend, check_length
from recaudit.audits.result import SUMMARY_SCHEMA, Result, item_table, user_table
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.metrics.groups import groupings
from recaudit.metrics.intervals import Bootstrap, Ratio, aggregate, identity, mean, row
from recaudit.models.base import FittedModel
from recaudit.policies import Policy, Top1


@checked
def exposure(
    model: FittedModel,
    *,
    k: int = 10,
    policy: Policy | None = None,
    by: Sequence[str] | None = None,
    confidence: float = 0.95,
    samples: int = 1000,
    rng: int = 0,
    engine: Engine | None = None,
) -> Result:
    """Item coverage, Gini, popularity correlation, popularity lift and novelty of every user's list of k.

    Lists hold unseen items only; with a stochastic policy they are drawn without replacement. Popularity is the
    number of ratings in the model's training log. By group of items: the share of all recommended places, beside
    the group's share of the ratings.
    """
    check_length(k, "k")
    data = model.data
    policy = policy or Top1()
    work = _ListItems(Recommend(model, policy, k, rng))
    parts = (engine or Serial()).map(work, blocks(np.arange(data.n_users)), "exposure")
    shown = _incidence(np.concatenate(list(parts)), data.n_items)

    bootstrap = Bootstrap(confidence, samples, rng)
    places = np.diff(shown.indptr).astype(np.float64)
    known = np.maximum(data.item_counts, 1) / data.n_users  # an item that nobody rated counts as rated once
    own = {
        "popularity_lift": _popularity_lift(shown, data),
        "novelty": _mean_over(shown, -np.log2(known), places),
    }

    everybody = np.ones(data.n_users)
    ratios = [mean(name, values, everybody) for name, values in own.items()]
    for grouping in groupings(data, by):
        if grouping.over == "users":
            for group, members in zip(grouping.names, grouping.weights.T, strict=True):
                ratios += [mean(name, values, members, grouping.by, group) for name, values in own.items()]
        else:
            taken = shown @ grouping.weights
            rated = data.item_counts @ grouping.weights / len(data)
            ratios += [
                Ratio("share", taken[:, g], places, data.n_users, identity, grouping.by, group, float(rated[g]))
                for g, group in enumerate(grouping.names)
            ]
    averages, groups = aggregate(ratios, bootstrap)
    return Result(
        audit="exposure",
        settings={"k": k, "policy": repr(policy), "confidence": confidence, "samples": samples, "rng": rng},
        frame=pl.concat([_spread_rows(shown, data, bootstrap), averages]),
        groups=groups,
        users=user_table(data.user_ids, own),
        items=item_table(data).with_columns(recommended=shown.sum(axis=0).astype(np.int64)),
    )


@final
@dataclass(frozen=True, eq=False)
class _ListItems:
    recommend: Recommend

    def __call__(self, users: IntArray) -> IntArray:
        return self.recommend(users).items


def gini(counts: FloatArray) -> FloatArray:
    """The Gini coefficient of each row of counts (rows, items): 0 equal, towards 1 all on one item.

    `sum_i (2 i - n - 1) x_(i) / (n sum x)` with x sorted ascending; NaN for a row of zeros.
    """
    n = counts.shape[1]
    ordered = np.sort(counts, axis=1)
    total = ordered.sum(axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(ordered @ (2 * np.arange(1, n + 1) - n - 1) / (n * total))


def _incidence(lists: IntArray, n_items: int) -> sparse.csr_array:
    """(users, items): 1 where the item is in the user's list."""
    user, place = np.nonzero(lists >= 0)
    items = lists[user, place]
    return sparse.csr_array((np.ones(len(items)), (user, items)), shape=(len(lists), n_items))


def _spread(counts: FloatArray, popularity: FloatArray) -> FloatArray:
    """(rows, 3): coverage, Gini and Spearman correlation with popularity of each row of item counts."""
    ranks = stats.rankdata(counts, axis=1)
    ranks = ranks - ranks.mean(axis=1, keepdims=True)
    other = stats.rankdata(popularity)
    other = other - other.mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        spearman = ranks @ other / np.sqrt((ranks**2).sum(axis=1) * (other**2).sum())
    return np.column_stack([(counts > 0).mean(axis=1), gini(counts), spearman])


def _spread_rows(shown: sparse.csr_array, data: Interactions, bootstrap: Bootstrap) -> pl.DataFrame:
    """Rows for the numbers that are not averages over users, with intervals around the estimate."""
    popularity = data.item_counts.astype(np.float64)
    values = _spread(shown.sum(axis=0).astype(np.float64)[None, :], popularity)[0]
    transposed = shown.T.tocsr()
    replicates = np.concatenate(
        [_spread(np.asarray(transposed @ drawn.T).T, popularity) for drawn in bootstrap.resamples(data.n_users)]
    )
    bounds = np.array([[0.0, 0.0, -1.0], [1.0, 1.0, 1.0]])
    lower, upper = np.clip(bootstrap.around(values, replicates), bounds[0], bounds[1])
    users = int((np.diff(shown.indptr) > 0).sum())
    rows = [
        {"metric": name, **row(values[i], lower[i], upper[i], users, data.n_users)}
        for i, name in enumerate(("coverage", "gini", "popularity_correlation"))
    ]
    return pl.DataFrame(rows, SUMMARY_SCHEMA)


def _mean_over(lists: sparse.csr_array, values: FloatArray, places: FloatArray) -> FloatArray:
    """(users,): the mean of an item value over each user's list; NaN for an empty one."""
    with np.errstate(invalid="ignore"):
        return np.asarray(lists @ values) / places


def _popularity_lift(shown: sparse.csr_array, data: Interactions) -> FloatArray:
    """(users,): mean popularity of the list over mean popularity of the history, minus 1."""
    popularity = data.item_counts.astype(np.float64)
    history = np.bincount(data.users, popularity[data.items], data.n_users)
    with np.errstate(invalid="ignore"):
        before = history / data.user_counts
        return _mean_over(shown, popularity, np.diff(shown.indptr).astype(np.float64)) / before - 1
