"""Accuracy: do predicted ratings and lists agree with what users went on to do?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import sparse

from recaudit.arguments import check_count
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.audit import Context, ListAudit, Subject, Verb
from recaudit.audits.lists.definitions import ACCURACY
from recaudit.audits.lists.memory import detect_memory
from recaudit.audits.lists.recommend import (
    Listed,
    Recommend,
    asked_users,
    asking_facts,
    check_length,
    gives_lists,
    list_facts,
    model_of,
)
from recaudit.audits.recipe import Measured, Nothing, Recipe, RecommendedList
from recaudit.audits.result import Result
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.metrics.groupings import Grouping, groupings
from recaudit.metrics.intervals import Ratio, Scale, mean
from recaudit.metrics.tables import user_table
from recaudit.models.base import NO_LIST
from recaudit.policies import AnyListPolicy, Top1
from recaudit.ties import TIE, pair_keys

_Pooled = tuple[FloatArray, FloatArray, Scale]
_ONE_RATING = "all ratings of the log are the same: there is nothing to predict"


@final
class Accuracy(ListAudit):
    """How well held-out ratings are predicted, and found again in lists.

    RMSE and MAE are not applicable to a model whose scores are no ratings, and to a log in which all ratings are
    the same; pairs that the model has no score for are left out of both, and the fact `not_predicted` says how many.
    Candidates for the lists are all items that the user has not rated in training. A system's own lists are as they
    were shown: a list that is empty finds nothing, a user whose list is not known is excluded.
    """

    metrics = ACCURACY
    needs = ("model", "test")
    second = "test"
    takes_lists = True

    relevant: float | None = None
    """The rating from which on a held-out item counts as relevant; without one every held-out item does."""
    policy: AnyListPolicy = Top1()
    """How scores become a list: the k with the highest scores, where nothing else is said."""
    refits: Annotated[int, Field(ge=0)] = 0
    """Number of times that the recommender is trained again on the training part, to detect a model that used held-out
    interactions: at least 4, 5 is usual. 0 for no such test."""

    @property
    def recipe(self) -> Recipe:
        """What is, without any intervention."""
        return Recipe(Nothing(), RecommendedList(self.k), Measured(ACCURACY[2]))

    def measure(self, subject: Subject, context: Context) -> Result:
        """Compare with the held-out ratings."""
        model, test = model_of(subject), subject.test
        assert test is not None
        whole_test = test
        check_length(self.k, "k")
        _check_held_out(model.data, test)
        if not gives_lists(model):
            _check_unseen(model.data, test)
        users = np.flatnonzero(test.user_counts)
        asked = asked_users(model, users)
        if not len(asked):
            raise NotSupportedError("None of the users whom the system is asked about has held-out ratings.")
        wanted = Recommend(model, self.policy, self.k, context.rng)
        recommend = wanted.longer
        work, pieces = partial(_found, test, recommend), recommend.pieces(asked)
        held_out = int(test.user_counts[asked].sum())
        rank, predicted = np.empty(held_out, dtype=np.int64), np.empty(held_out)
        made = Listed(np.empty((len(asked), recommend.n), dtype=np.int64), np.empty(len(asked), dtype=np.int64))
        row = rating = 0
        failed: dict[int, str] = {}
        for at, told, shown, failures in context.engine.map(work, pieces, "accuracy"):
            own, held = slice(row, row + len(shown.items)), slice(rating, rating + len(at))
            rank[held], predicted[held] = at, told
            made.items[own], made.untied[own] = shown
            row, rating = own.stop, held.stop
            failed |= failures
        if len(asked) == model.data.n_users:
            recommend.remember(made)
        made = made.cut(self.k)
        rank, lists = np.where(rank > self.k, 0, rank), made.items
        # Who has no list, or for whom the system failed, has nothing to measure: excluded, and no zero.
        answered = (lists != NO_LIST).all(axis=1)
        kept = np.repeat(answered, test.user_counts[asked])
        test = test.subset(np.isin(test.users, asked[answered]))
        rank, predicted = rank[kept], predicted[kept]
        everybody = np.arange(test.n_users)
        sample = np.isin(everybody, asked_users(model, everybody)).astype(np.float64)
        ratings = predicted if model.predicts_ratings else None
        found = self._result(model.data, test, rank, ratings, context.rng, sample, asked)
        found.facts |= asking_facts(model, everybody, failed, len(asked)) | list_facts(model, asked, lists)
        found.facts |= wanted.tie_facts(made)
        if model.foreign or self.refits:
            found.facts["memory"] = detect_memory(
                model, subject.recommender, whole_test, self.refits, context.rng, context.engine
            )
        return found

    def of_lists(self, data: Interactions, test: Interactions, lists: IntArray, rng: int = 0) -> Result:
        """The same about given lists (users, n): item positions, -1 where there is none. They predict no ratings."""
        _check_held_out(data, test)
        found = lists[test.users] == test.items[:, None]
        return self._result(data, test, np.where(found.any(axis=1), found.argmax(axis=1) + 1, 0), None, rng)

    def _result(
        self,
        data: Interactions,
        test: Interactions,
        rank: IntArray,
        predicted: FloatArray | None,
        rng: int,
        sample: FloatArray | None = None,
        whom: IntArray | None = None,
    ) -> Result:
        """`rank` and `predicted` (held-out ratings,): place in the list, 0 where it is not in it, and rating.

        `sample` (users,) is 1 for those whom the numbers are about: everybody, where nothing is said. `whom` are the
        positions of those who get a row: who has held-out ratings, where nothing is said.
        """
        sample = np.ones(test.n_users) if sample is None else sample
        is_relevant = np.ones(len(test), dtype=bool) if self.relevant is None else test.ratings >= self.relevant

        low, high = data.scale
        one_rating = predicted is not None and low == high
        given = np.full(len(test), np.nan) if predicted is None or one_rating else predicted
        # What is not predicted weighs nothing; where nothing is, the rows come out as not applicable.
        rated = np.isfinite(given).astype(np.float64)
        error = np.where(rated > 0, np.clip(given, low, high) - test.ratings, 0.0)
        counts = np.bincount(test.users, rated, test.n_users)
        squared, absolute = (np.bincount(test.users, values, test.n_users) for values in (error**2, np.abs(error)))
        per_user = _ranking_metrics(test.users, rank, is_relevant, test.n_users, self.k)

        hit = (rank > 0) & is_relevant
        pooled: dict[str, _Pooled] = {
            "rmse": (error**2, rated, "root"),
            "mae": (np.abs(error), rated, "mean"),
            "recall": (hit.astype(np.float64), is_relevant.astype(np.float64), "mean"),
        }

        def measured(members: FloatArray, by: str = "", group: str = "") -> list[Ratio]:
            """Every metric over these users."""
            whole = int((members > 0).sum())
            return [
                Ratio("rmse", squared * members, counts * members, whole, "root", by, group),
                Ratio("mae", absolute * members, counts * members, whole, by=by, group=group),
                *(mean(name, values, members, by, group) for name, values in per_user.items()),
            ]

        ratios = measured(sample)
        for grouping in groupings(data, self.by):
            if grouping.over == "users":
                for group, members in zip(grouping.names, grouping.weights.T, strict=True):
                    ratios += measured(members * sample, grouping.by, group)
            else:
                ratios += _item_groups(grouping, test, pooled, int(sample.sum()))
        held = np.where(counts > 0, counts, np.nan)
        own = {"rmse": np.sqrt(squared / held), "mae": absolute / held, **per_user}
        users = np.flatnonzero(test.user_counts) if whom is None else whom
        tables = self.aggregated(ratios, data) | {"users": user_table(test.user_ids, own)[users]}
        facts: dict[str, object] = {"left_out": {_ONE_RATING: ["rmse", "mae"]}} if one_rating else {}
        if rated.any() and not rated.all():
            facts["not_predicted"] = int((rated == 0).sum())
        return Result(self, tables, rng=rng, facts=facts)


accuracy = Verb(Accuracy, Result)


def _found(
    test: Interactions, recommend: Recommend, users: IntArray
) -> tuple[IntArray, FloatArray, Listed, dict[int, str]]:
    """(held-out ratings of these users,) each: place in the list, from 1, 0 where it is not in it; and score, or NaN.

    Then the lists, and whom the system failed for.
    """
    model, rows = recommend.model, np.repeat(np.arange(len(users)), test.user_counts[users])
    items = np.concatenate([test.history(int(user))[0] for user in users]).astype(np.int64)
    if recommend.products is not None:  # nothing but the held-out scores is needed
        lists, _, failed = recommend.listed(users)
        held = model.pair_scores(users[rows], items)
    else:
        lists, scores, failed = recommend(users)
        if not gives_lists(model):
            scores = np.where(model.may_show(scores), scores, np.nan)
        held = scores[rows, items]
    hit = lists.items[rows] == items[:, None]
    return np.where(hit.any(axis=1), hit.argmax(axis=1) + 1, 0), held, lists, failed


def _ranking_metrics(
    users: NDArray[np.int32], rank: IntArray, relevant: NDArray[np.bool_], n_users: int, k: int
) -> dict[str, FloatArray]:
    """Each ranking metric of each user (users,), NaN for users without a relevant held-out item."""
    wanted = np.bincount(users[relevant], minlength=n_users).astype(np.float64)
    hit = (rank > 0) & relevant
    order = np.lexsort((rank[hit], users[hit]))
    who, where = users[hit][order], rank[hit][order].astype(np.float64)
    hits = np.bincount(who, minlength=n_users).astype(np.float64)
    nth = np.arange(len(who)) - np.concatenate([[0], np.cumsum(hits)])[who] + 1  # the nth hit of its user
    ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, k + 2)))])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = {
            "ndcg": np.bincount(who, 1 / np.log2(where + 1), n_users) / ideal[np.minimum(wanted, k).astype(int)],
            "recall": hits / wanted,
            "precision": hits / k,
            "map": np.bincount(who, nth / where, n_users) / wanted,
            "mrr": np.bincount(who[nth == 1], 1 / where[nth == 1], n_users),
        }
    return {name: np.where(wanted > 0, values, np.nan) for name, values in found.items()}


def _item_groups(grouping: Grouping, test: Interactions, pooled: Mapping[str, _Pooled], users: int) -> list[Ratio]:
    """`pooled` totals and weights (ratings,) by group of items; an item counts by its share in the group.

    `users`: how many the numbers are about.
    """

    def spread(values: FloatArray) -> FloatArray:
        """(users, groups): the sum over a user's held-out items of value times share in the group."""
        matrix = sparse.csr_array((values, test.items, test.indptr), shape=(test.n_users, test.n_items))
        return np.asarray(matrix @ grouping.weights)

    sums = [(name, spread(totals), spread(weights), scale) for name, (totals, weights, scale) in pooled.items()]
    return [
        Ratio(name, totals[:, g], weights[:, g], users, scale, grouping.by, group)
        for g, group in enumerate(grouping.names)
        for name, totals, weights, scale in sums
    ]


_SPLIT = "Make both halves with recaudit.data.splits, which keeps ids."


def check_same_ids(fitted: Interactions, other: Interactions, argument: str = "test", remedy: str = _SPLIT) -> None:
    """That both logs have the same users and items; `argument` is what the other one is called."""
    if not (fitted.user_ids.equals(other.user_ids) and fitted.item_ids.equals(other.item_ids)):
        expected = f"the users and items of the model's log, {fitted!r}"
        raise InputError(argument, received=f"{other!r}", expected=expected, remedy=remedy)


def _check_held_out(data: Interactions, test: Interactions) -> None:
    if len(test) == 0:
        raise InputError("test", received="a log without ratings", expected="held-out ratings")
    check_same_ids(data, test)


def _check_unseen(data: Interactions, test: Interactions) -> None:
    """That not everything held out is in the model's own log: a list by score has nothing that its user has rated."""
    users = np.flatnonzero(test.user_counts).tolist()
    if all(
        np.isin(test.history(user)[0], data.history(user)[0]).all() for user in users
    ):  # as a rule the first says no
        raise InputError(
            "test",
            received=f"{len(test):,} ratings that are all in the model's own log",
            expected="ratings that the model was not trained on: lists have nothing that a user has rated",
            remedy="Fit or adapt the model with the training part alone.",
        )


def rated_ndcg(scores: FloatArray, test: Interactions, k: int = 20) -> FloatArray:
    """(users,): nDCG@k of each user's held-out items, ranked among themselves by `scores` (ratings of `test`,).

    The gain of an item is its rating. Nothing that the user did not rate plays a part, so that a random order scores
    high: it is no measure of whether good items are found among all others, as `accuracy`'s nDCG is. Ties are decided
    as everywhere (`recaudit.ties`). NaN for users without held-out items.
    """
    check_count("k", k)
    with np.errstate(invalid="ignore", divide="ignore"):
        values: FloatArray = _gain(scores, test, k) / _gain(test.ratings, test, k)
    return values


def _gain(by: FloatArray, test: Interactions, k: int) -> FloatArray:
    """(users,): the discounted sum of ratings of the first k, in descending order of `by`."""
    order = np.lexsort((-by, test.users))
    gap = np.zeros(test.n_users)
    np.maximum.at(gap, test.users, TIE * np.abs(by))
    apart = (by[order[:-1]] - by[order[1:]] > gap[test.users[1:]]) | (test.users[1:] != test.users[:-1])
    keys = test.tie_keys(np.arange(test.n_users))
    keys_of_ratings = pair_keys(keys.users[test.users], keys.items[test.items])
    order = order[np.lexsort((keys_of_ratings[order], np.concatenate([[0], np.cumsum(apart)])[: len(order)]))]
    place = np.arange(len(test)) - np.repeat(test.indptr[:-1], test.user_counts)
    weights = np.where(place < k, test.ratings[order] / np.log2(place + 2), 0.0)
    sums: FloatArray = np.bincount(test.users, weights, test.n_users).astype(np.float64)
    return sums
