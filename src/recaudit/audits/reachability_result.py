"""What reachability gives back: a row a pair, and the aggregates of paper 000 over users and items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse, stats

from recaudit.audits.groups import groupings
from recaudit.audits.intervals import Bootstrap, FloatArray, Ratio, aggregate, mean
from recaudit.audits.result import Result, user_table
from recaudit.data.interactions import Interactions
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
        pairs = self._solved()
        own = self._own(pairs, threshold)
        everybody = np.zeros(self.data.n_users)
        everybody[self.users] = 1.0
        ratios = self._ratios(own, everybody)
        for grouping in groupings(self.data, by):
            if grouping.over == "users":
                for group, members in zip(grouping.names, grouping.weights.T, strict=True):
                    ratios += self._ratios(own, members * everybody, grouping.by, group)
            else:
                sums, bases, counts = (pairs[name] @ grouping.weights for name in ("value", "baseline", "one"))
                for g, group in enumerate(grouping.names):
                    base = float(bases[:, g].sum() / counts[:, g].sum()) if counts[:, g].any() else None
                    ratios.append(
                        Ratio(
                            "availability",
                            sums[:, g],
                            counts[:, g],
                            len(self.users),
                            by=grouping.by,
                            group=group,
                            baseline=base,
                        )
                    )
        frame, groups = aggregate(ratios, Bootstrap(confidence, samples, rng))
        chosen = {"threshold": threshold or "better than uniform", "confidence": confidence, "samples": samples}
        return Result(
            audit="reachability",
            settings={**self.settings, **chosen},
            frame=frame,
            groups=groups,
            users=user_table(self.data.user_ids, own)[self.users],
            items=self._items(pairs),
            pairs=self.frame,
        )

    def correlations(self) -> pl.DataFrame:
        """Spearman correlations of Tables 4 and 5.

        Over items: of popularity (the mean rating) with prevalence (how often it was rated), baseline availability
        and best-case availability. Over users: of experience (how many ratings) with discovery, baseline and best.
        """
        items = self._items(self._solved()).drop_nulls("availability")
        own = user_table(self.data.user_ids, self._own(self._solved(), None))
        people = own.with_columns(experience=pl.Series(self.data.user_counts))[self.users].drop_nulls("discovery")
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
        known = self.frame.filter(pl.col("value").is_not_null())
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

    def _solved(self) -> dict[str, sparse.csr_array]:
        """(users, items) each: value, baseline and log lift where there is an answer, and ones there."""
        known = self.frame.filter(pl.col("value").is_not_null())
        row, column = (
            known.select(pl.col(name).replace_strict(ids, np.arange(len(ids)), return_dtype=pl.Int64))[name].to_numpy()
            for name, ids in (("user", self.data.user_ids), ("item", self.data.item_ids))
        )
        shape = (self.data.n_users, self.data.n_items)

        def matrix(values: NDArray[np.float64]) -> sparse.csr_array:
            return sparse.csr_array((values, (row, column)), shape=shape)

        with np.errstate(divide="ignore"):
            log_lift = np.log(known["lift"].to_numpy())
        # Where the baseline is 0 a ratio says nothing: such a user is excluded from the mean lift, and counted.
        log_lift = np.where(np.isfinite(log_lift), log_lift, np.nan)
        return {
            "value": matrix(known["value"].to_numpy()),
            "baseline": matrix(known["baseline"].to_numpy()),
            "log_lift": matrix(log_lift),
            "one": matrix(np.ones(len(known))),
        }

    def _own(self, pairs: dict[str, sparse.csr_array], threshold: float | None) -> dict[str, FloatArray]:
        """(users,) each: what every user can reach; NaN for users without an answer."""
        counts = np.asarray(pairs["one"].sum(axis=1), dtype=np.float64)
        counts[counts == 0] = np.nan
        cut = 1 / counts if threshold is None else np.full(len(counts), threshold)

        def share_above(matrix: sparse.csr_array) -> FloatArray:
            above = matrix.data > np.repeat(cut, np.diff(matrix.indptr))
            rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
            return np.asarray(np.bincount(rows, above, matrix.shape[0]) / counts)

        return {
            "discovery": share_above(pairs["value"]),
            "baseline_discovery": share_above(pairs["baseline"]),
            "log_lift": np.asarray(pairs["log_lift"].sum(axis=1)) / counts,
            "availability": np.asarray(pairs["value"].sum(axis=1)) / counts,
            "baseline_availability": np.asarray(pairs["baseline"].sum(axis=1)) / counts,
        }

    def _ratios(self, own: dict[str, FloatArray], members: FloatArray, by: str = "", group: str = "") -> list[Ratio]:
        """Discovery, availability and lift averaged over these users."""
        inside = members > 0

        def base(name: str) -> float | None:
            values = own[name][inside]
            return float(np.nanmean(values)) if np.isfinite(values).any() else None

        return [
            mean("discovery", own["discovery"], members, by, group, baseline=base("baseline_discovery")),
            mean("availability", own["availability"], members, by, group, baseline=base("baseline_availability")),
            mean("lift", own["log_lift"], members, by, group, transform=np.exp),
        ]

    def _items(self, pairs: dict[str, sparse.csr_array]) -> pl.DataFrame:
        """One row an item: its chance of being shown, without and with the user's help."""
        data = self.data
        users = np.asarray(pairs["one"].sum(axis=0), dtype=np.float64)
        counts = np.where(users > 0, users, np.nan)
        rated = np.where(data.item_counts > 0, data.item_counts, np.nan)
        best = np.asarray(pairs["value"].max(axis=0).todense()).ravel()
        columns = {
            "mean_rating": np.bincount(data.items, data.ratings, data.n_items) / rated,
            "availability": np.asarray(pairs["value"].sum(axis=0)) / counts,
            "baseline_availability": np.asarray(pairs["baseline"].sum(axis=0)) / counts,
            "best": np.where(users > 0, best, np.nan),
        }
        titles = pl.Series([None] * data.n_items, dtype=pl.String) if data.titles is None else data.titles
        return pl.DataFrame(
            {
                "item": data.item_ids,
                "title": titles,
                "ratings": data.item_counts,
                "users": users.astype(np.int64),
                **{name: pl.Series(values).fill_nan(None) for name, values in columns.items()},
            }
        )


def _spearman(x: pl.Series, y: pl.Series) -> float | None:
    """Spearman's rank correlation; None where one side does not vary."""
    if len(x) < 2 or x.n_unique() < 2 or y.n_unique() < 2:
        return None
    return float(stats.spearmanr(x.to_numpy(), y.to_numpy()).statistic)
