"""What reachability gives back: a row a pair, and what the pairs come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import polars as pl
from scipy import stats

from recaudit.arrays import BoolArray, FloatArray, IntArray, StatusArray
from recaudit.audits.result import Result, Table
from recaudit.data.interactions import Interactions
from recaudit.machine import check_memory
from recaudit.metrics.groupings import groupings
from recaudit.metrics.intervals import Ratio, mean, standing
from recaudit.metrics.tables import item_table, user_table
from recaudit.status import Status
from recaudit.ties import TIE

if TYPE_CHECKING:
    from recaudit.audits.reachability.audit import Reachability

STATUS = pl.Enum([status.value for status in Status])


@final
class ReachabilityResult(Result):
    """Every pair's answer, and discovery, availability and lift, overall and by group.

    The columns of `pairs` after `user` and `item`: `value`, rho*, with its certified bounds `lower` and `upper` and its
    `status`; `baseline`, rho without strategy; `lift`, rho* over that; `rank_gain`, how many places the item climbs;
    `candidates`, from how many items the policy chooses for this user. With `best_actions` also `action_items` and
    `action_ratings`; where a system was asked `queries`, `fresh` and `failure` (see `Reachability`). The table
    "example" is the pair that climbs most, with its best action. All but the pairs is computed when first looked at.
    """

    @classmethod
    def of(
        cls,
        audit: Reachability,
        log: Interactions,
        users: IntArray,
        pairs: pl.DataFrame,
        *,
        rng: int,
        facts: Mapping[str, Any] | None = None,
        example: Table | None = None,
    ) -> Self:
        """From the rows of these users (positions in the log)."""
        aggregates = cache(partial(aggregate_pairs, audit, log, users, pairs, rng))
        tables: dict[str, Table] = {"pairs": pairs}
        for name in ("summary", "groups", "terms", "people", "users", "items"):
            tables[name] = partial(lambda name: aggregates()[name], name)
        if example is not None:
            tables["example"] = example
        found = cls(audit, tables, rng=rng, facts=facts)
        found.facts["statuses"] = found.counts()
        widths = bound_widths(pairs)
        if len(widths):
            # Of the bounded pairs, in log-probability.
            median, most = np.quantile(widths, [0.5, 0.9], method="higher").tolist()
            found.facts["widths"] = {"pairs": len(widths), "median": median, "90%": most}
        return found

    def counts(self) -> dict[str, int]:
        """How many pairs there are of each status."""
        found = dict(self.pairs["status"].value_counts().iter_rows())
        return {status.value: int(found.get(status.value, 0)) for status in Status}

    def correlations(self) -> pl.DataFrame:
        """Spearman correlations of Tables 4 and 5.

        Over items: of popularity (the mean rating) with prevalence (how often it was rated), baseline availability
        and best-case availability. Over users: of experience (how many ratings) with discovery, baseline and best.
        """
        items, users = self.items.drop_nulls("availability"), self.users.drop_nulls("discovery")
        asked = [
            ("popularity", "prevalence", items["mean_rating"], items["ratings"]),
            ("popularity", "baseline availability", items["mean_rating"], items["baseline_availability"]),
            ("popularity", "best availability", items["mean_rating"], items["availability"]),
            ("experience", "baseline discovery", users["ratings"], users["baseline_discovery"]),
            ("experience", "best discovery", users["ratings"], users["discovery"]),
        ]
        rows = [(a, b, _spearman(x, y), len(x)) for a, b, x, y in asked]
        schema = {"of": pl.String, "with": pl.String, "spearman": pl.Float64, "n": pl.Int64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def summary(self) -> str:
        """How many pairs there are, how they stand, and what is reached."""
        counts = ", ".join(f"{count:,} {status}" for status, count in self.counts().items() if count)
        known = answered(self.pairs)
        lines = [*self.heading(), f"  {len(self.pairs):,} pairs: {counts}"]
        if len(known):
            value, baseline = (np.median(known[name].to_numpy()) for name in ("value", "baseline"))
            lifts = known.filter(pl.col("baseline") > 0)["lift"].to_numpy()
            told = f"median {np.median(lifts):.3g}" if len(lifts) else "none: nothing is shown without strategy"
            only = f" of {len(lifts):,} pairs with a baseline above 0" if 0 < len(lifts) < len(known) else ""
            apart = known.filter(pl.col("upper") > pl.col("lower"))
            with np.errstate(divide="ignore"):  # infinite where nothing was reached
                gap = np.max(np.log(apart["upper"].to_numpy() / apart["lower"].to_numpy()), initial=0.0)
            widths = self.facts.get("widths")
            between = (
                f", of {widths['pairs']:,} bounded pairs {widths['median']:.2g} in the median and" if widths else ""
            )
            between += f" {widths['90%']:.2g} at the 90th percentile" if widths else ""
            lines += [
                f"  best probability  median {value:.3g}, without strategy {baseline:.3g}",
                f"  lift              {told}{only}",
                f"  widest bounds     {gap:.1e} in log-probability{between}",
            ]
        return "\n".join(lines)


def _spearman(x: pl.Series, y: pl.Series) -> float | None:
    """Spearman's rank correlation; None where one side does not vary."""
    if len(x) < 2 or x.n_unique() < 2 or y.n_unique() < 2:
        return None
    return float(stats.spearmanr(x.to_numpy(), y.to_numpy()).statistic)


def matrices(pairs: pl.DataFrame, users: pl.Series, items: pl.Series, *columns: str) -> list[FloatArray]:
    """(users, items) each: the columns of these pairs, NaN where there is none; `users` and `items` are ids."""
    row, column = (
        pairs[name].replace_strict(ids, np.arange(len(ids)), return_dtype=pl.Int32).to_numpy()
        for name, ids in (("user", users), ("item", items))
    )
    found = [np.full((len(users), len(items)), np.nan) for _ in columns]
    for name, matrix in zip(columns, found, strict=True):
        matrix[row, column] = pairs[name].to_numpy()
    return found


def marked(pairs: pl.DataFrame, users: pl.Series, items: pl.Series, status: Status) -> BoolArray:
    """(users, items): True at the pairs that have this status."""
    some = pairs.filter(pl.col("status") == status.value).select("user", "item", mark=1.0)
    return ~np.isnan(matrices(some, users, items, "mark")[0])


def answered(pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs that have a value; the frame itself, not a copy of its millions of rows, where all have."""
    return pairs.filter(pl.col("value").is_not_null()) if pairs["value"].null_count() else pairs


def bound_widths(pairs: pl.DataFrame) -> FloatArray:
    """(bounded pairs of which something was reached,): log(upper / lower)."""
    bounded = pairs.filter((pl.col("status") == Status.BOUNDED.value) & (pl.col("lower") > 0))
    return np.asarray(np.log(bounded["upper"].to_numpy() / bounded["lower"].to_numpy()))


def aggregate_pairs(
    audit: Reachability, log: Interactions, users: IntArray, pairs: pl.DataFrame, rng: int
) -> dict[str, Any]:
    """The tables that all audits have, "users" and "items" of these pairs; `users` are positions.

    Pairs without an answer are left out. What stands on a bounded pair is bounded: not above the truth, with an
    interval that says how far it depends on who was asked.
    """
    found = _Matrices(log, users, pairs)
    own, statuses = found.own(audit.threshold), found.statuses()
    ratios = _averages(own, statuses, np.ones(len(users)))
    for grouping in groupings(log, audit.by):
        if grouping.over == "users":
            for group, members in zip(grouping.names, grouping.weights[users].T, strict=True):
                ratios += _averages(own, statuses, members, grouping.by, group)
        else:
            best, base = (np.nan_to_num(values) @ grouping.weights for values in (found.value, found.baseline))
            counts = found.known.astype(np.float64) @ grouping.weights
            of_group = found.statuses(grouping.weights)
            for g, group in enumerate(grouping.names):
                before = float(base[:, g].sum() / counts[:, g].sum()) if counts[:, g].any() else None
                pooled = Ratio("availability", best[:, g], counts[:, g], len(users), baseline=before)
                ratios.append(replace(pooled, by=grouping.by, group=group, status=Status(of_group[g])))
    ids = log.user_ids.gather(users)
    people = user_table(ids, own).with_columns(ratings=pl.Series(log.user_counts[users]))
    return audit.aggregated(ratios, log, rng, users) | {"users": people, "items": found.items(log)}


@final
class _Matrices:
    """What pairs come to, (asked users, items) each, NaN where there is no answer."""

    def __init__(self, log: Interactions, users: IntArray, pairs: pl.DataFrame) -> None:
        check_memory(
            # Three that are kept with their marks, and one while one of them is summed.
            35 * len(users) * log.n_items,
            f"Averaging over {len(users):,} users and {log.n_items:,} items",
            "Ask about a sample of users (users=...).",
        )
        known, ids = answered(pairs), (log.user_ids.gather(users), log.item_ids)
        self.value, self.baseline, self.lift = matrices(known, *ids, "value", "baseline", "lift")
        self.known = ~np.isnan(self.value)
        self.bounded, self.failed = (marked(pairs, *ids, status) for status in (Status.BOUNDED, Status.FAILED))
        own = known.select("user", "candidates").unique("user")
        of_user = pl.DataFrame(ids[0].alias("user")).join(own, on="user", how="left", maintain_order="left")
        # (asked users,): from how many items the policy chooses
        self.candidates = of_user["candidates"].cast(pl.Float64).fill_null(np.nan).to_numpy()

    def statuses(self, weights: FloatArray | None = None) -> StatusArray:
        """(asked users,): how what each can reach stands; with `weights` (items, groups), (groups,): of everybody."""
        marks = (self.bounded, self.known, self.failed)
        if weights is None:
            return standing(*(mark.any(axis=1) for mark in marks))
        return standing(*(mark.sum(axis=0) @ weights > 0 for mark in marks))

    def own(self, threshold: float | None) -> dict[str, FloatArray]:
        """(asked users,) each: what every user can reach; NaN for users without an answer."""
        count = np.count_nonzero(self.known, axis=1)
        counts = np.where(count > 0, count, np.nan)
        lifted = ~np.isnan(self.lift)
        lifts = np.where(lifted.any(axis=1), lifted.sum(axis=1), np.nan)
        cut = (1 / self.candidates if threshold is None else np.full(len(counts), threshold))[:, None] * (1 + TIE)
        # Where the baseline is 0 a ratio says nothing: a user who can lift such an item is excluded from the mean lift,
        # and counted; an item that stays at 0 has no lift.
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(lifted, np.log(self.lift), 0.0).sum(axis=1)
        return {
            "discovery": (self.value > cut).sum(axis=1) / counts,
            "baseline_discovery": (self.baseline > cut).sum(axis=1) / counts,
            "log_lift": np.where(np.isfinite(logs), logs, np.nan) / lifts,
            "availability": np.nansum(self.value, axis=1) / counts,
            "baseline_availability": np.nansum(self.baseline, axis=1) / counts,
        }

    def items(self, log: Interactions) -> pl.DataFrame:
        """One row an item: its chance of being shown, without and with the user's help."""
        users = np.count_nonzero(self.known, axis=0)
        counts = np.where(users > 0, users, np.nan)
        columns = {
            "availability": np.nansum(self.value, axis=0) / counts,
            "baseline_availability": np.nansum(self.baseline, axis=0) / counts,
            "best": np.where(users > 0, np.nan_to_num(self.value, nan=-np.inf).max(axis=0), np.nan),
        }
        means = {name: pl.Series(values).fill_nan(None) for name, values in columns.items()}
        return item_table(log).with_columns(users=users, **means)


def _averages(
    own: dict[str, FloatArray], statuses: StatusArray, members: FloatArray, by: str = "", group: str = ""
) -> list[Ratio]:
    """Discovery, availability and lift averaged over these users; `statuses` (users,) say how their own stand."""

    def average(metric: str, values: str, **more: Any) -> Ratio:
        return mean(metric, own[values], members, by, group, statuses=statuses, **more)

    def base(name: str) -> float | None:
        values = own[name][members > 0]
        return float(np.nanmean(values)) if np.isfinite(values).any() else None

    return [
        average("discovery", "discovery", baseline=base("baseline_discovery")),
        average("availability", "availability", baseline=base("baseline_availability")),
        average("lift", "log_lift", scale="geometric"),
    ]
