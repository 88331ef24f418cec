"""What reachability gives back: a row a pair, and the aggregates of paper 000 over users and items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
import polars as pl
from scipy import stats

from recaudit.arrays import BoolArray, FloatArray, IntArray, StatusArray
from recaudit.audits.result import Result
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.machine import check_memory
from recaudit.metrics.groupings import groupings
from recaudit.metrics.intervals import Bootstrap, Ratio, aggregate, mean, standing
from recaudit.metrics.tables import item_table, user_table
from recaudit.status import Status
from recaudit.ties import TIE

if TYPE_CHECKING:
    import pandas as pd


STATUS = pl.Enum([status.value for status in Status])
PAIR_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "value": pl.Float64,
    "lower": pl.Float64,
    "upper": pl.Float64,
    "status": STATUS,
    "baseline": pl.Float64,
    "lift": pl.Float64,
    "rank_gain": pl.Int32,
    "candidates": pl.Int32,
}
"""The columns after `user` and `item`: rho*, its certified bounds, how it stands, rho without strategy, rho* over that,
how many places the item climbs, and from how many items the policy chooses for this user."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Reachability:
    """Every pair's answer."""

    data: Interactions
    settings: Mapping[str, object]
    frame: pl.DataFrame
    """One row a pair: user, item, and the columns of PAIR_SCHEMA; with the best action where it was asked for, and with
    `queries`, `fresh` and `failure` where a system was asked (see `reachability`)."""
    users: IntArray
    """The positions of the users who were asked about."""

    def to_pandas(self) -> pd.DataFrame:
        """The `frame` as a pandas frame (needs the `pandas` extra)."""
        return self.frame.to_pandas()

    def counts(self) -> dict[str, int]:
        """How many pairs there are of each status."""
        found = dict(self.frame["status"].value_counts().iter_rows())
        return {status.value: int(found.get(status.value, 0)) for status in Status}

    def aggregate(
        self,
        *,
        threshold: float | None = None,
        by: Sequence[str] | None = None,
        confidence: float = 0.95,
        samples: int = 1000,
        rng: int = 0,
    ) -> Result:
        """Discovery, availability and lift, overall and by group, with bootstrap intervals over users.

        `threshold` is the probability above which an item counts as discovered: better than uniform, 1 over the
        number of items that the policy chooses from, whichever of them are targets, where nothing is said (paper 000,
        Equation 3). Pairs without an answer are left out, and counted by status in the settings. What stands on a
        bounded pair is bounded: not above the truth, with an interval that says how far it depends on who was asked.
        """
        if threshold is not None and not (np.isfinite(threshold) and threshold >= 0):
            raise InputError("threshold", received=threshold, expected="a probability of 0 or more, or None")
        pairs = self._matrices()
        own, statuses = pairs.own(threshold), pairs.statuses()
        ratios = _averages(own, statuses, np.ones(len(self.users)))
        for grouping in groupings(self.data, by):
            if grouping.over == "users":
                for group, members in zip(grouping.names, grouping.weights[self.users].T, strict=True):
                    ratios += _averages(own, statuses, members, grouping.by, group)
            else:
                best, base, counts = (pairs.summed(name) @ grouping.weights for name in ("value", "baseline", "one"))
                of_group = pairs.statuses(grouping.weights)
                for g, group in enumerate(grouping.names):
                    before = float(base[:, g].sum() / counts[:, g].sum()) if counts[:, g].any() else None
                    pooled = Ratio("availability", best[:, g], counts[:, g], len(self.users), baseline=before)
                    ratios.append(replace(pooled, by=grouping.by, group=group, status=Status(of_group[g])))
        frame, groups = aggregate(ratios, Bootstrap(confidence, samples, rng))
        chosen = {
            "threshold": "better than uniform" if threshold is None else threshold,
            "confidence": confidence,
            "samples": samples,
            "statuses": self.counts(),
        }
        return Result(
            audit="reachability",
            settings={**self.settings, **chosen},
            frame=frame,
            groups=groups,
            users=user_table(self.data.user_ids.gather(self.users), own),
            items=self._items(pairs),
            pairs=self.frame,
        )

    def correlations(self) -> pl.DataFrame:
        """Spearman correlations of Tables 4 and 5.

        Over items: of popularity (the mean rating) with prevalence (how often it was rated), baseline availability
        and best-case availability. Over users: of experience (how many ratings) with discovery, baseline and best.
        """
        pairs = self._matrices()
        items = self._items(pairs).drop_nulls("availability")
        people = user_table(self.data.user_ids.gather(self.users), pairs.own(None))
        people = people.with_columns(experience=pl.Series(self.data.user_counts[self.users])).drop_nulls("discovery")
        asked = [
            ("popularity", "prevalence", items["mean_rating"], items["ratings"]),
            ("popularity", "baseline availability", items["mean_rating"], items["baseline_availability"]),
            ("popularity", "best availability", items["mean_rating"], items["availability"]),
            ("experience", "baseline discovery", people["experience"], people["baseline_discovery"]),
            ("experience", "best discovery", people["experience"], people["discovery"]),
        ]
        rows = [(a, b, _spearman(x, y), len(x)) for a, b, x, y in asked]
        return pl.DataFrame(
            rows, schema={"of": pl.String, "with": pl.String, "spearman": pl.Float64, "n": pl.Int64}, orient="row"
        )

    def summary(self) -> str:
        """How many pairs there are, how they stand, and what is reached."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        counts = ", ".join(f"{count:,} {status}" for status, count in self.counts().items() if count)
        known = self._answered()
        lines = [f"reachability ({settings})", f"  {len(self.frame):,} pairs: {counts}"]
        if len(known):
            value, baseline = (np.median(known[name].to_numpy()) for name in ("value", "baseline"))
            lifts = known.filter(pl.col("baseline") > 0)["lift"].to_numpy()
            told = f"median {np.median(lifts):.3g}" if len(lifts) else "none: nothing is shown without strategy"
            only = f" of {len(lifts):,} pairs with a baseline above 0" if 0 < len(lifts) < len(known) else ""
            apart = known.filter(pl.col("upper") > pl.col("lower"))
            with np.errstate(divide="ignore"):  # infinite where nothing was reached
                gap = np.max(np.log(apart["upper"].to_numpy() / apart["lower"].to_numpy()), initial=0.0)
            lines += [
                f"  best probability  median {value:.3g}, without strategy {baseline:.3g}",
                f"  lift              {told}{only}",
                f"  widest bounds     {gap:.1e} in log-probability",
            ]
        return "\n".join(lines)

    __repr__ = summary

    def _answered(self) -> pl.DataFrame:
        """The pairs that have a value; the frame itself, not a copy of its millions of rows, where all have."""
        if not self.frame["value"].null_count():
            return self.frame
        return self.frame.filter(pl.col("value").is_not_null())

    def _matrices(self) -> _Matrices:
        known = self._answered()
        check_memory(
            # Three that are kept with their marks, and one while one of them is summed.
            34 * len(self.users) * self.data.n_items,
            f"Averaging over {len(self.users):,} users and {self.data.n_items:,} items",
            "Ask about a sample of users (users=...).",
        )
        row, column = self.places(known)
        filled = {}
        for name in ("value", "baseline", "lift"):
            filled[name] = np.full((len(self.users), self.data.n_items), np.nan)
            filled[name][row, column] = known[name].to_numpy()
        candidates = np.full(len(self.users), np.nan)
        candidates[row] = known["candidates"].to_numpy()
        bounded, failed = (
            self.marked(self.frame.filter(pl.col("status") == status.value))
            for status in (Status.BOUNDED, Status.FAILED)
        )
        return _Matrices(**filled, bounded=bounded, failed=failed, candidates=candidates)

    def marked(self, pairs: pl.DataFrame) -> BoolArray:
        """(asked users, items): True at the pairs of these rows."""
        marks = np.zeros((len(self.users), self.data.n_items), dtype=bool)
        marks[self.places(pairs)] = True
        return marks

    def places(self, pairs: pl.DataFrame) -> tuple[IntArray, IntArray]:
        """Where the pairs of these rows stand among the asked users, and among the items."""
        users = self.data.user_ids.gather(self.users)
        row, column = (
            pairs[name].replace_strict(ids, np.arange(len(ids)), return_dtype=pl.Int32).to_numpy()
            for name, ids in (("user", users), ("item", self.data.item_ids))
        )
        return row, column

    def _items(self, pairs: _Matrices) -> pl.DataFrame:
        """One row an item: its chance of being shown, without and with the user's help."""
        users = pairs.summed("one").sum(axis=0)
        counts = np.where(users > 0, users, np.nan)
        best = np.nan_to_num(pairs.value, nan=-np.inf).max(axis=0)
        columns = {
            "availability": pairs.summed("value").sum(axis=0) / counts,
            "baseline_availability": pairs.summed("baseline").sum(axis=0) / counts,
            "best": np.where(users > 0, best, np.nan),
        }
        return item_table(self.data).with_columns(
            users=users.astype(np.int64), **{name: pl.Series(values).fill_nan(None) for name, values in columns.items()}
        )


@final
@dataclass(frozen=True, eq=False)
class _Matrices:
    """(asked users, items) each, NaN where there is no answer."""

    value: FloatArray
    baseline: FloatArray
    lift: FloatArray
    bounded: BoolArray
    failed: BoolArray
    candidates: FloatArray
    """(asked users,): from how many items the policy chooses."""

    def statuses(self, weights: FloatArray | None = None) -> StatusArray:
        """(asked users,): how what each can reach stands; with `weights` (items, groups), (groups,): of everybody."""
        marks = (self.bounded, ~np.isnan(self.value), self.failed)
        if weights is None:
            return standing(*(mark.any(axis=1) for mark in marks))
        return standing(*(mark.sum(axis=0) @ weights > 0 for mark in marks))

    def summed(self, name: Literal["value", "baseline", "one"]) -> FloatArray:
        """The matrix with 0 where there is no answer; "one" has 1 where there is one."""
        if name == "one":
            return (~np.isnan(self.value)).astype(np.float64)
        return np.nan_to_num(self.value if name == "value" else self.baseline)

    def own(self, threshold: float | None) -> dict[str, FloatArray]:
        """(asked users,) each: what every user can reach; NaN for users without an answer."""
        count = np.count_nonzero(~np.isnan(self.value), axis=1)
        counts = np.where(count > 0, count, np.nan)
        lifted = ~np.isnan(self.lift)
        lifts = np.where(lifted.any(axis=1), lifted.sum(axis=1), np.nan)
        cut = (1 / self.candidates if threshold is None else np.full(len(counts), threshold))[:, None] * (1 + TIE)
        # Where the baseline is 0 a ratio says nothing: a user who can lift such an item is excluded from the mean lift,
        # and counted; an item that stays at 0 has no lift.
        with np.errstate(divide="ignore"):
            logs = np.where(lifted, np.log(self.lift), 0.0).sum(axis=1)
        return {
            "discovery": (self.value > cut).sum(axis=1) / counts,
            "baseline_discovery": (self.baseline > cut).sum(axis=1) / counts,
            "log_lift": np.where(np.isfinite(logs), logs, np.nan) / lifts,
            "availability": np.nansum(self.value, axis=1) / counts,
            "baseline_availability": np.nansum(self.baseline, axis=1) / counts,
        }


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
        average("lift", "log_lift", transform=np.exp),
    ]


def _spearman(x: pl.Series, y: pl.Series) -> float | None:
    """Spearman's rank correlation; None where one side does not vary."""
    if len(x) < 2 or x.n_unique() < 2 or y.n_unique() < 2:
        return None
    return float(stats.spearmanr(x.to_numpy(), y.to_numpy()).statistic)
