"""Calibration: do lists keep what users like in proportion? (paper 004)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np
import polars as pl
from pydantic import Field, NonNegativeInt
from scipy import sparse

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.audit import Context, ListAudit, Subject, Verb
from recaudit.audits.calibration.definitions import CALIBRATION
from recaudit.audits.calibration.homogeneity import Homogeneity
from recaudit.audits.calibration.lists import ListColumns, given_lists
from recaudit.audits.calibration.measures import hellinger, kl, representation, total_variation
from recaudit.audits.calibration.target import Target, systems_of, with_system
from recaudit.audits.lists.accuracy import check_same_ids
from recaudit.audits.lists.definitions import EXPOSURE
from recaudit.audits.lists.exposure import incidence, shares
from recaudit.audits.lists.recommend import lists_of
from recaudit.audits.recipe import Measured, Nothing, Recipe, RecommendedList
from recaudit.audits.result import Result
from recaudit.data.interactions import Interactions, Unknown
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError
from recaudit.metrics.groupings import groupings
from recaudit.metrics.intervals import Bootstrap, aggregate, mean, row
from recaudit.metrics.tables import SUMMARY_SCHEMA, item_table, user_table
from recaudit.policies import AnyListPolicy, Top1
from recaudit.policies.calibrated import CalibrationTarget
from recaudit.seeding import derive, keys_of, uniforms
from recaudit.solvers.lists.objective import list_distribution, rank_weights
from recaudit.status import Status

DRAWS = 199
"""Random lists a user that the test compares with."""
LEVEL = 0.05
WORST = 0.1
"""The share of users with the highest C_KL whom the paper's Figure 3 looks at."""
SHOWN = 10
"""Users with the highest C_KL whose categories are listed, as in the paper's Figure 2."""


@final
class Calibration(ListAudit, CalibrationTarget):
    """Whether lists keep users' interests in proportion.

    C_KL, Hellinger distance and total variation between the categories of each user's list and history. The lists are
    a model's, under the policy; or those that a system has shown, in a frame or a .parquet, .csv or .tsv file with
    columns user, item, and rank or score: as long as they are, or cut at k where it is said, against the histories in
    a log. Beside a model, that is another log of the same users and items.

    Of several category systems a distance is the mean by importance, and each system's own stands in `groups`, by
    "category system". Users without a history, or without any category in it or in their list, are excluded, with the
    status "not_applicable". For groups of items, `groups` has their share of the places beside that of the log;
    `items` how often each is recommended and consumed; "categories" is the paper's Figure 3: over- and
    under-representation among all users and among the tenth with the highest C_KL; "worst_users" its Figure 2: the
    categories of the ten users with the highest C_KL.
    """

    metrics = (*CALIBRATION, EXPOSURE[-1])
    second = "history"
    takes_lists = True
    not_in_loop = ("columns", "unknown")

    k: Annotated[int, Field(ge=1)] = 50
    """How many items a list has."""
    policy: AnyListPolicy = Top1()
    """How scores become a list."""
    tested: NonNegativeInt = 1000
    """How many users, drawn at random, are tested for a difference between list and history beyond chance."""
    columns: ListColumns = ListColumns()
    """What the columns are called, of lists that a system has shown."""
    unknown: Unknown = "error"
    """What becomes of their items that the log does not know: an error, or left out ("ignore") and counted."""

    @property
    def recipe(self) -> Recipe:
        """What is, without any intervention."""
        return Recipe(Nothing(), RecommendedList(self.k), Measured(CALIBRATION[0]))

    def check(self, data: Interactions) -> None:
        """Groupings and category systems."""
        super().check(data)
        if self.categories is not None:
            systems_of(data, self.categories)

    def measure(self, subject: Subject, context: Context) -> Result:
        """Compare everybody's list with the history; held-out ratings play no part."""
        if subject.lists is not None:
            return self._of_given(subject, context)
        assert subject.model is not None
        data = subject.model.data if subject.history is None else subject.history
        check_same_ids(subject.model.data, data, "data")
        lists = lists_of(subject.model, self.policy, self.k, context.rng, context.engine, "calibration")
        return self.of_lists(data, lists, context.rng, context.engine)

    def of_lists(self, data: Interactions, lists: IntArray, rng: int = 0, engine: Engine | None = None) -> Result:
        """The same about given lists of the log's users (users, n): item positions, -1 where there is none."""
        return self._result(data, _Shown(data.user_ids, np.arange(data.n_users), lists), rng, engine or Serial(), {})

    def _of_given(self, subject: Subject, context: Context) -> Result:
        """About lists that a system has shown."""
        if subject.history is None:
            raise InputError(
                "data",
                received=None,
                expected="the log with the users' histories: lists alone do not say what users like",
                remedy="ra.calibration(lists, data).",
            )
        if "policy" in self.model_fields_set:
            raise InputError("policy", received=repr(self.policy), expected="no policy: these lists are made already")
        given = given_lists(subject.lists, subject.history, self.columns, self.unknown)
        lists = given.dense(self.k if "k" in self.model_fields_set else None)
        facts = {
            "k": lists.shape[1],
            "policy": "as given",
            "left_out": given.left_out,
            "emptied": given.emptied,
            "against_rank": int(given.against_rank.sum()),
        }
        shown = _Shown(given.user_ids, given.at, lists)
        return self._result(subject.history, shown, context.rng, context.engine, facts)

    def _result(
        self, data: Interactions, shown: _Shown, rng: int, engine: Engine, facts: Mapping[str, object]
    ) -> Result:
        target = Target.of(data, with_system(self, data))
        measured = _Distances.of(shown, target, self)
        p_value = self._p_values(data, shown, target, measured.known, rng, engine)
        own = {name: target.mean(values) for name, values in measured.distances.items()}
        numbers = {**own, "uncalibrated_share": np.where(np.isnan(p_value), np.nan, p_value <= LEVEL)}
        recommended, bootstrap = incidence(shown.lists, data.n_items), self.bootstrap(rng)
        everybody = np.ones(len(shown.lists))
        ratios = [mean(name, values, everybody) for name, values in numbers.items()]
        for place, system in enumerate(target.systems if len(target.systems) > 1 else ()):
            for name, values in measured.distances.items():
                ratios.append(mean(name, values[place], everybody, "category system", system))
        for grouping in groupings(data, self.by):
            if grouping.over == "users":
                members_of = np.where((shown.at >= 0)[:, None], grouping.weights[shown.at], 0.0)
                for group, members in zip(grouping.names, members_of.T, strict=True):
                    ratios += [mean(name, values, members, grouping.by, group) for name, values in numbers.items()]
            else:
                ratios += shares(recommended, grouping, data)
        averages, groups = aggregate(ratios, bootstrap)
        systems = next(iter(target.systems)) if len(target.systems) == 1 else dict(target.systems)
        return Result(
            self,
            {
                "summary": pl.concat([averages, _item_row(recommended, data, bootstrap)]),
                "groups": groups,
                "users": user_table(shown.user_ids, {**own, "p_value": p_value}).with_columns(
                    history=pl.Series(np.where(shown.at >= 0, data.user_counts[shown.at], 0)),
                    list=pl.Series((shown.lists >= 0).sum(axis=1)),
                    status=pl.Series(np.where(measured.known, Status.SOLVED.value, Status.NOT_APPLICABLE.value)),
                ),
                "items": _items(recommended, data),
                "categories": lambda: _categories(measured, target),
                "worst_users": lambda: _worst_users(shown, measured, target),
            },
            rng=rng,
            facts={**facts, "categories": systems, "tested": int((~np.isnan(p_value)).sum()), "draws": DRAWS},
        )

    def _p_values(
        self, data: Interactions, shown: _Shown, target: Target, known: BoolArray, rng: int, engine: Engine
    ) -> FloatArray:
        """(users,): of the test of list against history; NaN for those not tested."""
        draws = uniforms(derive(rng, "tested"), keys_of(shown.user_ids), np.zeros(1, dtype=np.uint64))
        # With a prior, users without a history can be measured, but have nothing to be tested against.
        with_history = known & (shown.at >= 0)
        order = np.argsort(np.where(with_history, draws, np.inf), kind="stable")
        users = np.sort(order[: min(self.tested, int(with_history.sum()))])
        p_value = np.full(len(shown.lists), np.nan)
        if len(users):
            ones = sparse.csr_array((np.ones(len(data)), data.items, data.indptr), shape=(data.n_users, data.n_items))
            keys = shown.user_ids.gather(users).to_list()
            work = Homogeneity(shown.lists[users], ones[shown.at[users]], target.shares, keys, DRAWS, rng)
            parts = engine.map(work, blocks(np.arange(len(users)), 64), "list and taste")
            p_value[users] = np.concatenate([part[1] for part in parts])
        return p_value


calibration = Verb(Calibration, Result)


@final
@dataclass(frozen=True, eq=False)
class _Shown:
    """The lists that are audited."""

    user_ids: pl.Series
    at: IntArray
    """(users,): positions in the log, -1 for users that it does not know."""
    lists: IntArray
    """(users, k): item positions, -1 where there is none."""


@final
@dataclass(frozen=True, eq=False)
class _Distances:
    p: FloatArray
    """(users, genres)"""
    q: FloatArray
    """(users, genres)"""
    distances: dict[str, FloatArray]
    """(systems, users) each: NaN for users without interests, or a list, with categories of the system."""
    kl: FloatArray
    """(users,): C_KL over all systems; NaN where one that counts has none."""

    @classmethod
    def of(cls, shown: _Shown, target: Target, wanted: CalibrationTarget) -> _Distances:
        p = target.interests[shown.at]
        q = list_distribution(shown.lists, target.shares, rank_weights(wanted.rank_weights, shown.lists.shape[1]))
        distances = {
            "calibration_kl": target.each(lambda p, q: kl(p, q, wanted.smoothing), p, q),
            "calibration_hellinger": target.each(hellinger, p, q),
            "calibration_tv": target.each(total_variation, p, q),
        }
        return cls(p, q, distances, target.mean(distances["calibration_kl"]))

    @property
    def known(self) -> BoolArray:
        """(users,): who has interests and a list with categories."""
        return ~np.isnan(self.kl)

    def worst(self, count: int) -> IntArray:
        """The users with the highest C_KL, worst first; of equal ones the first."""
        order = np.argsort(np.where(self.known, -self.kl, np.inf), kind="stable")
        return order[: min(count, int(self.known.sum()))]


# ---- tables --------------------------------------------------------------------------------------------


def _item_row(recommended: sparse.csr_array, data: Interactions, bootstrap: Bootstrap) -> pl.DataFrame:
    """How far items' shares of the places are from their shares of the log; an interval around the estimate."""
    consumed = data.item_counts / max(1, len(data))

    def distance(counts: FloatArray) -> FloatArray:
        """(rows, 1) for counts (rows, items); NaN where nothing is recommended."""
        with np.errstate(invalid="ignore"):
            shares = counts / counts.sum(axis=1, keepdims=True)
        return np.asarray(np.abs(shares - consumed).sum(axis=1, keepdims=True) / 2)

    value = distance(recommended.sum(axis=0).astype(np.float64)[None])[0]
    by_item = recommended.T.tocsr()
    drawn = [distance(np.asarray(by_item @ times.T).T) for times in bootstrap.resamples(recommended.shape[0])]
    lower, upper = np.clip(bootstrap.around(value, np.concatenate(drawn)), 0.0, 1.0)[:, 0]
    users = int((np.diff(recommended.indptr) > 0).sum())
    numbers = row(float(value[0]), lower, upper, users, recommended.shape[0])
    return pl.DataFrame([{"metric": "item_calibration_tv", **numbers}], SUMMARY_SCHEMA)


def _items(recommended: sparse.csr_array, data: Interactions) -> pl.DataFrame:
    counts = recommended.sum(axis=0).astype(np.int64)
    return item_table(data).with_columns(
        recommended=pl.Series(counts),
        recommended_share=pl.Series(counts / max(1, counts.sum())),
        consumed_share=pl.Series(data.item_counts / max(1, len(data))),
    )


def _categories(measured: _Distances, target: Target) -> pl.DataFrame:
    """The paper's Figure 3, for all users and for the worst tenth."""
    everybody = np.flatnonzero(measured.known)
    worst = measured.worst(int(np.ceil(WORST * len(everybody))))
    tables = []
    for group, users in (("all", everybody), ("worst", worst)):
        found: dict[str, Any] = representation(measured.p[users], measured.q[users])
        shown = measured.q[users].sum(axis=0) / max(1, len(users))
        columns = {"category": pl.Series(target.labels, dtype=pl.String), **found, "recommended": shown}
        tables.append(pl.DataFrame(columns).with_columns(group=pl.lit(group), users=pl.lit(len(users), pl.Int64)))
    return pl.concat(tables).select("group", "category", "history", "recommended", "over", "under", "users")


def _worst_users(shown: _Shown, measured: _Distances, target: Target) -> pl.DataFrame:
    """Each category of the worst users: its share of the history and of the list."""
    users = measured.worst(SHOWN)
    return pl.DataFrame(
        {
            "user": shown.user_ids.gather(np.repeat(users, len(target.labels))),
            "category": pl.Series(target.labels * len(users), dtype=pl.String),
            "history": measured.p[users].ravel(),
            "recommended": measured.q[users].ravel(),
        }
    )
