"""Calibration: do lists keep what users like in proportion? (paper 004)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.calibration.homogeneity import homogeneity
from recaudit.audits.calibration.lists import ListColumns
from recaudit.audits.calibration.measures import (
    SMOOTHING,
    hellinger,
    kl,
    list_distribution,
    rank_weights,
    representation,
    total_variation,
)
from recaudit.audits.calibration.shown import Shown, shown_lists
from recaudit.audits.calibration.target import PriorSetting, Target, Taste
from recaudit.audits.result import Result
from recaudit.data.interactions import Interactions, Unknown
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError
from recaudit.metrics.groupings import Grouping, groupings
from recaudit.metrics.intervals import Bootstrap, Ratio, aggregate, identity, mean, row
from recaudit.metrics.tables import SUMMARY_SCHEMA, item_table, user_table
from recaudit.models.base import FittedModel
from recaudit.policies import Policy
from recaudit.policies.calibrated import HistoryWeights
from recaudit.seeding import derive, keys_of, uniforms
from recaudit.solvers.lists.objective import RankWeighting
from recaudit.status import Status

DRAWS = 199
"""Random lists a user that the test compares with."""
LEVEL = 0.05
WORST = 0.1
"""The share of users with the highest C_KL whom the paper's Figure 3 looks at."""
SHOWN = 10
"""Users with the highest C_KL whose categories are listed, as in the paper's Figure 2."""


@checked
def calibration(
    lists: FittedModel | object,
    data: Interactions | None = None,
    *,
    k: int | None = None,
    policy: Policy | None = None,
    categories: str | Mapping[str, float] | None = None,
    weights: HistoryWeights | None = None,
    half_life: float | None = None,
    prior_weight: float = 0.0,
    prior: PriorSetting = "population",
    rank_weights: RankWeighting = "none",
    smoothing: float = SMOOTHING,
    tested: int = 1000,
    columns: ListColumns | None = None,
    unknown: Unknown = "error",
    by: Sequence[str] | None = None,
    confidence: float = 0.95,
    samples: int = 1000,
    rng: int = 0,
    engine: Engine | None = None,
) -> Result:
    """C_KL, Hellinger distance and total variation between the categories of each user's list and history.

    `lists` is a fitted model, whose lists of k (50 where nothing is said) under the `policy` are audited; or a frame or
    a path of a .parquet, .csv or .tsv file with columns user, item, and rank or score: lists that a system has shown,
    as long as they are or cut at k, audited against the histories in `data`. `columns` says how they are called, and
    `unknown="ignore"` leaves out, and counts, items that the log does not know. Beside a model, `data` is another log
    of the same users and items to take histories and categories from.

    `categories` names the system (the only one where none is named), or several with their importance, as `Calibrated`
    has them: a distance is then the mean over systems by importance, and each system's own stands in `groups`, by
    "category system". The history counts by `weights`: each item the same, by its "rating", or by "recency", half after
    `half_life` before the user's latest (in the unit of the log's times: with seconds, 30 days are 30 * 86_400).
    `prior_weight` (beta) and `prior` mix in what everybody is offered (Equation 7). A place of the list counts
    by `rank_weights`. `tested` users, a sample that follows from `rng`, are tested for a difference beyond chance.

    Users without a history, or without any category in it or in their list, are excluded, with the status
    "not_applicable". Beside the summary: by group of users, and for groups of items their share of the places beside
    that of the log; `users`; `items`: how often each is recommended and consumed; and in `further`, "categories" (the
    paper's Figure 3: over- and under-representation among all users and among the tenth with the highest C_KL) and
    "worst_users" (Figure 2: the categories of the ten users with the highest C_KL).
    """
    bootstrap = Bootstrap(confidence, samples, rng)
    if tested < 0:
        raise InputError("tested", received=tested, expected="how many users to test, 0 or more")
    shown, data, policy_name = shown_lists(lists, data, k, policy, columns, unknown, rng, engine)
    target = Target.of(data, categories, Taste(weights, half_life, prior_weight, prior))
    measured = _measure(shown, target, rank_weights, smoothing)
    p_value = _p_values(shown, data, target, measured, tested, rng, engine)
    own = {name: target.mean(values) for name, values in measured.distances.items()}
    own["uncalibrated_share"] = np.where(np.isnan(p_value), np.nan, p_value <= LEVEL)
    averages, groups = _aggregated(own, measured, target, shown, data, groupings(data, by), bootstrap)
    recommended = shown.incidence(data.n_items)
    return Result(
        audit="calibration",
        settings={
            "k": shown.lists.shape[1],
            "policy": policy_name,
            "categories": next(iter(target.systems)) if len(target.systems) == 1 else dict(target.systems),
            "smoothing": smoothing,
            "rank_weights": rank_weights,
            "weights": weights,
            "half_life": half_life,
            "prior_weight": prior_weight,
            "prior": prior,
            "left_out": shown.left_out,
            "emptied": shown.emptied,
            "against_rank": shown.against_rank,
            "tested": int((~np.isnan(p_value)).sum()),
            "draws": DRAWS,
            "confidence": confidence,
            "samples": samples,
            "rng": rng,
        },
        frame=pl.concat([averages, _item_row(recommended, data, bootstrap)]),
        groups=groups,
        users=_users(shown, data, own, p_value),
        items=_items(recommended, data),
        further={"categories": _categories(measured, target), "worst_users": _worst_users(shown, measured, target)},
    )


# ---- what is measured ----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class _Measured:
    p: FloatArray
    """(users, genres)"""
    q: FloatArray
    """(users, genres)"""
    distances: dict[str, FloatArray]
    """(systems, users) each: NaN for users without interests, or a list, with categories of the system."""
    kl: FloatArray
    """(users,): C_KL over all systems; NaN where one that counts has none."""

    @property
    def known(self) -> NDArray[np.bool_]:
        """(users,): who has interests and a list with categories."""
        return ~np.isnan(self.kl)

    def worst(self, count: int) -> IntArray:
        """The users with the highest C_KL, worst first; of equal ones the first."""
        order = np.argsort(np.where(self.known, -self.kl, np.inf), kind="stable")
        return order[: min(count, int(self.known.sum()))]


def _measure(shown: Shown, target: Target, ranks: RankWeighting, smoothing: float) -> _Measured:
    p = target.interests[shown.at]
    q = list_distribution(shown.lists, target.shares, rank_weights(ranks, shown.lists.shape[1]))
    distances = {
        "calibration_kl": target.each(lambda p, q: kl(p, q, smoothing), p, q),
        "calibration_hellinger": target.each(hellinger, p, q),
        "calibration_tv": target.each(total_variation, p, q),
    }
    return _Measured(p, q, distances, target.mean(distances["calibration_kl"]))


@final
@dataclass(frozen=True, eq=False)
class _Test:
    """Block of users in, their p-values out."""

    lists: IntArray
    history: sparse.csr_array
    shares: sparse.csr_array
    user_ids: pl.Series
    rng: int

    def __call__(self, users: IntArray) -> FloatArray:
        keys = self.user_ids.gather(users).to_list()
        parts = (self.lists[users], self.history[users], self.shares, keys)
        found = homogeneity(*parts, samples=DRAWS, rng=self.rng)
        return np.where(found.tested, found.p_value, np.nan)


def _p_values(
    shown: Shown,
    data: Interactions,
    target: Target,
    measured: _Measured,
    tested: int,
    rng: int,
    engine: Engine | None,
) -> FloatArray:
    """(users,): of the test of list against history; NaN for those not tested."""
    draws = uniforms(derive(rng, "tested"), keys_of(shown.user_ids), np.zeros(1, dtype=np.uint64))
    # With a prior, users without a history can be measured, but have nothing to be tested against.
    with_history = measured.known & (shown.at >= 0)
    order = np.argsort(np.where(with_history, draws, np.inf), kind="stable")
    users = np.sort(order[: min(tested, int(with_history.sum()))])
    p_value = np.full(len(shown.lists), np.nan)
    if len(users):
        ones = sparse.csr_array((np.ones(len(data)), data.items, data.indptr), shape=(data.n_users, data.n_items))
        work = _Test(shown.lists[users], ones[shown.at[users]], target.shares, shown.user_ids.gather(users), rng)
        parts = (engine or Serial()).map(work, blocks(np.arange(len(users)), 64), "list and taste")
        p_value[users] = np.concatenate(list(parts))
    return p_value


# ---- tables --------------------------------------------------------------------------------------------


def _aggregated(
    own: dict[str, FloatArray],
    measured: _Measured,
    target: Target,
    shown: Shown,
    data: Interactions,
    chosen: list[Grouping],
    bootstrap: Bootstrap,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    everybody = np.ones(len(shown.lists))
    ratios = [mean(name, values, everybody) for name, values in own.items()]
    if len(target.systems) > 1:
        for system, part in enumerate(target.systems):
            for name, values in measured.distances.items():
                ratios.append(mean(name, values[system], everybody, "category system", part))
    recommended = shown.incidence(data.n_items)
    places = np.diff(recommended.indptr).astype(np.float64)
    for grouping in chosen:
        if grouping.over == "users":
            members_of = np.where((shown.at >= 0)[:, None], grouping.weights[shown.at], 0.0)
            for group, members in zip(grouping.names, members_of.T, strict=True):
                ratios += [mean(name, values, members, grouping.by, group) for name, values in own.items()]
        else:
            taken = recommended @ grouping.weights
            consumed = data.item_counts @ grouping.weights / max(1, len(data))
            ratios += [
                Ratio("share", taken[:, g], places, len(places), identity, grouping.by, group, float(consumed[g]))
                for g, group in enumerate(grouping.names)
            ]
    return aggregate(ratios, bootstrap)


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


def _users(shown: Shown, data: Interactions, own: dict[str, FloatArray], p_value: FloatArray) -> pl.DataFrame:
    known = np.isfinite(own["calibration_kl"])
    history = np.where(shown.at >= 0, data.user_counts[shown.at], 0)
    distances = {name: values for name, values in own.items() if name != "uncalibrated_share"}
    return user_table(shown.user_ids, {**distances, "p_value": p_value}).with_columns(
        history=pl.Series(history),
        list=pl.Series((shown.lists >= 0).sum(axis=1)),
        status=pl.Series(np.where(known, Status.SOLVED.value, Status.NOT_APPLICABLE.value)),
    )


def _items(recommended: sparse.csr_array, data: Interactions) -> pl.DataFrame:
    counts = recommended.sum(axis=0).astype(np.int64)
    return item_table(data).with_columns(
        recommended=pl.Series(counts),
        recommended_share=pl.Series(counts / max(1, counts.sum())),
        consumed_share=pl.Series(data.item_counts / max(1, len(data))),
    )


def _categories(measured: _Measured, target: Target) -> pl.DataFrame:
    """The paper's Figure 3, for all users and for the worst tenth."""
    everybody = np.flatnonzero(measured.known)
    worst = measured.worst(int(np.ceil(WORST * len(everybody))))
    tables = []
    for group, users in (("all", everybody), ("worst", worst)):
        found = representation(measured.p[users], measured.q[users])
        tables.append(
            pl.DataFrame(
                {
                    "group": pl.Series([group] * len(target.labels), dtype=pl.String),
                    "category": pl.Series(target.labels, dtype=pl.String),
                    "history": found.history,
                    "recommended": measured.q[users].sum(axis=0) / max(1, len(users)),
                    "over": found.over,
                    "under": found.under,
                    "users": pl.Series([len(users)] * len(target.labels), dtype=pl.Int64),
                }
            )
        )
    return pl.concat(tables)


def _worst_users(shown: Shown, measured: _Measured, target: Target) -> pl.DataFrame:
    """Each category of the worst users: its share of the history and of the list."""
    users = measured.worst(SHOWN)
    genres = len(target.labels)
    return pl.DataFrame(
        {
            "user": shown.user_ids.gather(np.repeat(users, genres)),
            "category": pl.Series(target.labels * len(users), dtype=pl.String),
            "history": measured.p[users].ravel(),
            "recommended": measured.q[users].ravel(),
        }
    )
