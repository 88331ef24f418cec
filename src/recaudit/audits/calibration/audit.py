"""Calibration: do lists keep what users like in proportion? (paper 004)"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, final

import numpy as np
import polars as pl
from pydantic import Field, NonNegativeInt

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.audit import Context, CountMetrics, ListAudit, Subject, Verb
from recaudit.audits.calibration.calibrator import Target, check_times, systems_of, with_system
from recaudit.audits.calibration.definitions import CALIBRATION
from recaudit.audits.calibration.measures import Homogeneity, hellinger, kl, representation, total_variation
from recaudit.audits.lists.accuracy import check_same_ids
from recaudit.audits.lists.definitions import EXPOSURE
from recaudit.audits.lists.exposure import by_group, incidence, of_items
from recaudit.audits.lists.recommend import lists_of
from recaudit.audits.recipe import Measured, Nothing, Recipe, RecommendedList
from recaudit.audits.result import Result
from recaudit.data.interactions import Interactions, Unknown
from recaudit.data.lists import ListColumns, given_lists
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError
from recaudit.metrics.intervals import mean
from recaudit.metrics.tables import item_table, list_table, user_table
from recaudit.policies import AnyListPolicy, Top1
from recaudit.policies.calibrated import CalibrationTarget
from recaudit.seeding import derive, keys_of, uniforms
from recaudit.solvers.lists.objective import CategoryVectors, list_distribution, rank_weights
from recaudit.status import Status

DRAWS = 199
"""Random lists a user that the test compares with."""
LEVEL = 0.05
WORST = 0.1
"""The share of users with the highest C_KL whom the paper's Figure 3 looks at."""
SHOWN = 10
"""Users with the highest C_KL whose categories are listed, as in the paper's Figure 2."""


class CalibrationAudit(ListAudit, CalibrationTarget, ABC):
    """An audit of whether lists keep users' interests in proportion."""

    k: Annotated[int, Field(ge=1)] = 50
    """How many items a list has."""
    tested: NonNegativeInt = 1000
    """How many users, drawn at random, are tested for a difference between list and history beyond chance."""

    @property
    def recipe(self) -> Recipe:
        """What is, without any intervention."""
        return Recipe(Nothing(), RecommendedList(self.k), Measured(CALIBRATION[0]))

    def check(self, data: Interactions) -> None:
        """Groupings and category systems."""
        super().check(data)
        if self.categories is not None:
            systems_of(data, self.categories)
        check_times(data, self)


@final
class Calibration(CalibrationAudit):
    """Whether lists keep users' interests in proportion.

    C_KL, Hellinger distance and total variation between the categories of each user's list and history. The lists
    are a model's, under the policy; or those that a system has shown, in a frame or a .parquet, .csv or .tsv file
    with columns user, item, and rank or score, against the histories in a log: as long as they are, or cut at k
    where it is said.

    Of several category systems a distance is the mean by importance; `groups` has each system's own. Users without
    any category in history or list are excluded, as "not_applicable". `items` says how often each is recommended
    and consumed, "categories" which are over- and under-represented (the paper's Figure 3), "worst_users" has the
    categories of the ten users with the highest C_KL (Figure 2).
    """

    metrics = (*CALIBRATION, EXPOSURE[-1])
    drawn = ("tested",)
    measures_all = True
    borrowed = frozenset({EXPOSURE[-1].name})
    second = "history"
    takes_lists = True
    not_in_loop = ("columns", "unknown")

    policy: AnyListPolicy = Top1()
    """How scores become a list."""
    columns: ListColumns = ListColumns()
    """What the columns are called, of lists that a system has shown."""
    unknown: Unknown = "error"
    """What becomes of their items that the log does not know: an error, or left out ("ignore") and counted."""

    def measure(self, subject: Subject, context: Context) -> Result:
        """Compare everybody's list with the history; held-out ratings play no part."""
        if subject.lists is not None:
            return self._of_given(subject, context)
        assert subject.model is not None
        data = subject.model.data if subject.history is None else subject.history
        remedy = "Leave data out to compare with the log that the model was fitted to."
        check_same_ids(subject.model.data, data, "data", remedy)
        with_system(self, data)  # a log without categories is refused before any list is made
        lists, facts = lists_of(subject.model, self.policy, self.k, context.rng, context.engine, "calibration")
        found = self.of_lists(data, lists, context.rng, context.engine)
        found.facts |= facts
        return found

    def of_lists(self, data: Interactions, lists: IntArray, rng: int = 0, engine: Engine | None = None) -> Result:
        """The same about given lists of the log's users (users, n): item positions, -1 where there is none."""
        return self._result(
            data, ListComparison(data, lists, with_system(self, data)), {}, Context(rng, engine or Serial())
        )

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
        wanted = with_system(self, subject.history)
        shown = ListComparison(subject.history, lists, wanted, given.user_ids, given.at)
        return self._result(subject.history, shown, facts, context)

    def _result(
        self, data: Interactions, shown: ListComparison, facts: Mapping[str, object], context: Context
    ) -> Result:
        target, at, lists = shown.target, shown.at, shown.lists
        p_value = self._p_values(data, shown, context)
        own = {name: target.mean(values) for name, values in shown.distances.items()}
        numbers = {**own, "uncalibrated_share": np.where(np.isnan(p_value), np.nan, p_value <= LEVEL)}
        recommended, everybody = incidence(lists, data.n_items), np.ones(len(lists))
        ratios = [mean(name, values, everybody) for name, values in numbers.items()]
        for place, system in enumerate(target.systems if len(target.systems) > 1 else ()):
            for name, values in shown.distances.items():
                ratios.append(mean(name, values[place], everybody, "category system", system))
        ratios += by_group(data, self.by, numbers, recommended, at)
        averages = self.aggregated(ratios, data, at, shown.user_ids)
        catalogue = item_table(data).with_columns(consumed_share=pl.Series(data.item_counts / max(1, len(data))))
        apart = of_items(*self.of_counts(catalogue), recommended, self)
        counts = recommended.sum(axis=0).astype(np.int64)
        systems = next(iter(target.systems)) if len(target.systems) == 1 else dict(target.systems)
        return Result(
            self,
            {
                **averages,
                "summary": pl.concat([averages["summary"], apart]),
                "lists": lambda: list_table(shown.user_ids, data.item_ids, lists),
                "users": user_table(shown.user_ids, {**own, "p_value": p_value}).with_columns(
                    history=pl.Series(np.where(at >= 0, data.user_counts[at], 0)),
                    list=pl.Series((lists >= 0).sum(axis=1)),
                    status=pl.Series(np.where(shown.known, Status.SOLVED.value, Status.NOT_APPLICABLE.value)),
                ),
                "items": catalogue.with_columns(
                    recommended=pl.Series(counts),
                    recommended_share=pl.Series(counts / max(1, counts.sum())),
                ),
                "categories": lambda: _categories(shown),
                "worst_users": lambda: _worst_users(shown),
            },
            rng=context.rng,
            facts={**facts, "categories": systems, "tested": int((~np.isnan(p_value)).sum()), "draws": DRAWS},
        )

    def of_counts(self, items: pl.DataFrame) -> CountMetrics:
        """How far the items that are shown are from those that were chosen."""
        return ("item_calibration_tv",), partial(_apart, consumed_share=items["consumed_share"].to_numpy())

    def _p_values(self, data: Interactions, shown: ListComparison, context: Context) -> FloatArray:
        """(users,): of the test of list against history; NaN for those not tested."""
        draws = uniforms(derive(context.rng, "tested"), keys_of(shown.user_ids), np.zeros(1, dtype=np.uint64))
        # With a prior, users without a history can be measured, but have nothing to be tested against.
        with_history = shown.known & (shown.at >= 0)
        order = np.argsort(np.where(with_history, draws, np.inf), kind="stable")
        users = np.sort(order[: min(self.tested, int(with_history.sum()))])
        p_value = np.full(len(shown.lists), np.nan)
        if len(users):
            chosen = data.csr[shown.at[users]]
            chosen.data = np.ones_like(chosen.data)
            keys = shown.user_ids.gather(users).to_list()
            vectors = CategoryVectors.of(shown.target.shares)
            work = Homogeneity(shown.lists[users], chosen, vectors, keys, DRAWS, context.rng)
            parts = context.engine.map(work, blocks(np.arange(len(users)), 64), "list and taste")
            p_value[users] = np.concatenate([part[1] for part in parts])
        return p_value


calibration = Verb(Calibration, Result)


@final
class ListComparison:
    """Lists and histories side by side, and the distances between them."""

    def __init__(
        self,
        data: Interactions,
        lists: IntArray,
        wanted: CalibrationTarget,
        user_ids: pl.Series | None = None,
        at: IntArray | None = None,
    ) -> None:
        """Lists (users, k) of item positions, -1 for none, of the log's users or of others: `at` -1 where unknown."""
        self.user_ids = data.user_ids if user_ids is None else user_ids
        self.at = np.arange(data.n_users) if at is None else at
        self.lists, self.target = lists, Target(data, wanted)
        target, ranks = self.target, rank_weights(wanted.rank_weights, lists.shape[1])
        self.p, self.q = p, q = target.interests[self.at], list_distribution(lists, target.shares, ranks)
        """p and q (users, genres)"""
        self.distances = {
            "calibration_kl": target.each(lambda p, q: kl(p, q, wanted.smoothing), p, q),
            "calibration_hellinger": target.each(hellinger, p, q),
            "calibration_tv": target.each(total_variation, p, q),
        }
        """(systems, users) each: NaN for users without interests, or a list, with categories of the system."""
        self.kl = target.mean(self.distances["calibration_kl"])
        """(users,): C_KL over all systems; NaN where one that counts has none."""
        self.known: BoolArray = ~np.isnan(self.kl)
        """(users,): who has interests and a list with categories."""

    @property
    def worst(self) -> IntArray:
        """Everybody who has a C_KL, the highest first; of equal ones the first."""
        return np.argsort(np.where(self.known, -self.kl, np.inf), kind="stable")[: self.known.sum()]

    @property
    def worst_tenth(self) -> IntArray:
        """The users whom the paper's Figure 3 looks at."""
        return self.worst[: int(np.ceil(WORST * self.known.sum()))]


# ---- tables --------------------------------------------------------------------------------------------


def _apart(counts: FloatArray, consumed_share: FloatArray) -> FloatArray:
    """(rows, 1): how far shares of counts (rows, items) are from the log's (items,); NaN where there are none."""
    with np.errstate(invalid="ignore"):
        shares = counts / counts.sum(axis=1, keepdims=True)
    return np.asarray(np.abs(shares - consumed_share).sum(axis=1, keepdims=True) / 2)


def _categories(shown: ListComparison) -> pl.DataFrame:
    """The paper's Figure 3, for all users and for the worst tenth."""
    tables = []
    for group, users in (("all", np.flatnonzero(shown.known)), ("worst", shown.worst_tenth)):
        found: dict[str, Any] = representation(shown.p[users], shown.q[users])
        found["recommended"] = shown.q[users].sum(axis=0) / max(1, len(users))
        columns = {"category": pl.Series(shown.target.labels, dtype=pl.String), **found}
        tables.append(pl.DataFrame(columns).with_columns(group=pl.lit(group), users=pl.lit(len(users), pl.Int64)))
    return pl.concat(tables).select("group", "category", "history", "recommended", "over", "under", "users")


def _worst_users(shown: ListComparison) -> pl.DataFrame:
    """Each category of the worst users: its share of the history and of the list."""
    users, labels = shown.worst[:SHOWN], shown.target.labels
    return pl.DataFrame(
        {
            "user": shown.user_ids.gather(np.repeat(users, len(labels))),
            "category": pl.Series(labels * len(users), dtype=pl.String),
            "history": shown.p[users].ravel(),
            "recommended": shown.q[users].ravel(),
        }
    )
