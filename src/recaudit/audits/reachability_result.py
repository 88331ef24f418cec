"""What reachability gives back: a row a pair, and the aggregates of paper 000 over users and items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from recaudit.audits.groups import groupings
from recaudit.audits.intervals import Bootstrap, FloatArray, Ratio, aggregate, mean
from recaudit.audits.result import Result, item_table, user_table
from recaudit.data.interactions import Interactions
from recaudit.machine import check_memory
from recaudit.status import Status

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
}
"""The columns after `user` and `item`: rho*, its certified bounds, how it stands, rho without strategy, rho* over that,
and how many places the item climbs."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Reachability:
    """Every pair's answer."""

    data: Interactions
    settings: Mapping[str, object]
    frame: pl.DataFrame
    """One row a pair: user, item, and the columns of PAIR_SCHEMA; with the best action where it was asked for."""
    users: NDArray[np.int64]
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
        number of the user's targets, where nothing is said (paper 000, Equation 3).
        """
        pairs = self._matrices()
        own = pairs.own(threshold)
        ratios = _averages(own, np.ones(len(self.users)))
        for grouping in groupings(self.data, by):
            if grouping.over == "users":
                for group, members in zip(grouping.names, grouping.weights[self.users].T, strict=True):
                    ratios += _averages(own, members, grouping.by, group)
            else:
                best, base, counts = (pairs.summed(name) @ grouping.weights for name in ("value", "baseline", "one"))
                for g, group in enumerate(grouping.names):
                    before = float(base[:, g].sum() / counts[:, g].sum()) if counts[:, g].any() else None
                    pooled = Ratio("availability", best[:, g], counts[:, g], len(self.users), baseline=before)
                    ratios.append(replace(pooled, by=grouping.by, group=group))
        frame, groups = aggregate(ratios, Bootstrap(confidence, samples, rng))
        chosen = {"threshold": threshold or "better than uniform", "confidence": confidence, "samples": samples}
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
            value, baseline, lift = (np.median(known[name].to_numpy()) for name in ("value", "baseline", "lift"))
            gap = np.max(np.log(known["upper"].to_numpy() / known["lower"].to_numpy()))
            lines += [
                f"  best probability  median {value:.3g}, without strategy {baseline:.3g}",
                f"  lift              median {lift:.3g}",
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
        users = self.data.user_ids.gather(self.users)
        check_memory(
            # Three that are kept, and one while one of them is summed.
            4 * 8 * len(users) * self.data.n_items,
            f"Averaging over {len(users):,} users and {self.data.n_items:,} items",
            "Ask about a sample of users (users=1000).",
        )
        row, column = (
            known[name].replace_strict(ids, np.arange(len(ids)), return_dtype=pl.Int32).to_numpy()
            for name, ids in (("user", users), ("item", self.data.item_ids))
        )
        filled = {}
        for name in ("value", "baseline", "lift"):
            filled[name] = np.full((len(users), self.data.n_items), np.nan)
            filled[name][row, column] = known[name].to_numpy()
        return _Matrices(**filled)

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

    def summed(self, name: Literal["value", "baseline", "one"]) -> FloatArray:
        """The matrix with 0 where there is no answer; "one" has 1 where there is one."""
        if name == "one":
            return (~np.isnan(self.value)).astype(np.float64)
        return np.nan_to_num(self.value if name == "value" else self.baseline)

    def own(self, threshold: float | None) -> dict[str, FloatArray]:
        """(asked users,) each: what every user can reach; NaN for users without an answer."""
        count = np.count_nonzero(~np.isnan(self.value), axis=1)
        counts = np.where(count > 0, count, np.nan)
        cut = (1 / counts if threshold is None else np.full(len(counts), threshold))[:, None]
        # Where the baseline is 0 a ratio says nothing: such a user is excluded from the mean lift, and counted.
        with np.errstate(divide="ignore"):
            logs = np.where(np.isnan(self.lift), 0.0, np.log(self.lift)).sum(axis=1)
        return {
            "discovery": (self.value > cut).sum(axis=1) / counts,
            "baseline_discovery": (self.baseline > cut).sum(axis=1) / counts,
            "log_lift": np.where(np.isfinite(logs), logs, np.nan) / counts,
            "availability": np.nansum(self.value, axis=1) / counts,
            "baseline_availability": np.nansum(self.baseline, axis=1) / counts,
        }


def _averages(own: dict[str, FloatArray], members: FloatArray, by: str = "", group: str = "") -> list[Ratio]:
    """Discovery, availability and lift averaged over these users."""

    def base(name: str) -> float | None:
        values = own[name][members > 0]
        return float(np.nanmean(values)) if np.isfinite(values).any() else None

    return [
        mean("discovery", own["discovery"], members, by, group, baseline=base("baseline_discovery")),
        mean("availability", own["availability"], members, by, group, baseline=base("baseline_availability")),
        mean("lift", own["log_lift"], members, by, group, transform=np.exp),
    ]


def _spearman(x: pl.Series, y: pl.Series) -> float | None:
    """Spearman's rank correlation; None where one side does not vary."""
    if len(x) < 2 or x.n_unique() < 2 or y.n_unique() < 2:
        return None
    return float(stats.spearmanr(x.to_numpy(), y.to_numpy()).statistic)
