"""What the pairs of an audit come to: correlations with intervals over users, groups, and a row a user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
from scipy import stats

from recaudit.data import Interactions
from recaudit.plugins import FloatArray, IntArray, assign_blocks, compute_jackknife_error, generator

_ABOVE = 0.05
_QUARTERS = 4
_BINS = np.arange(-12.0, 0.25, 0.25)
_POINTS = 150


@final
@dataclass(frozen=True, eq=False)
class Reached:
    """Probabilities of targets, (users, items) each, NaN where a pair was not asked about."""

    log: Interactions
    users: IntArray
    candidates: IntArray
    """(users,): from how many items the policy chooses."""
    best: FloatArray
    predicted: FloatArray
    """Without strategy: after the acted-on items were rated as predicted."""
    plain: FloatArray
    """Without strategy: at the model's scores."""

    def discovery(self, probabilities: FloatArray) -> FloatArray:
        """(users,): the share of targets that are shown with a better probability than by an even draw."""
        better: FloatArray = (probabilities > 1 / self.candidates[:, None]).sum(axis=1) / self.targets
        return better

    @property
    def targets(self) -> FloatArray:
        """(users,): how many targets each has; NaN for none."""
        count = np.count_nonzero(~np.isnan(self.best), axis=1)
        return np.where(count > 0, count, np.nan)

    @property
    def popularity(self) -> FloatArray:
        """(items,): the mean rating, which is what the paper calls popularity."""
        totals = np.bincount(self.log.items, weights=self.log.ratings, minlength=self.log.n_items)
        with np.errstate(invalid="ignore"):
            means: FloatArray = totals / self.log.item_counts
        return means

    def correlations(self) -> pl.DataFrame:
        """Spearman's, of popularity with availability over items, and of experience with discovery over users.

        The standard error is that of a jackknife over blocks of users.
        """
        blocks = assign_blocks(len(self.users))
        is_kept = blocks != np.arange(int(blocks.max()) + 1)[:, None]
        weights = is_kept.astype(np.float64)
        experience = self.log.user_counts[self.users].astype(np.float64)
        rated = self.log.item_counts > 0
        prevalence = _spearman(self.popularity[rated], self.log.item_counts[rated].astype(np.float64))
        rows: list[tuple[str, float, float | None]] = [("prevalence", float(prevalence[0]), None)]
        for name, values in self._kinds.items():
            discovery = self.discovery(values)
            error = _error(np.array([_spearman(experience[kept], discovery[kept])[0] for kept in is_kept]))
            rows.append((f"{name} availability", *self._of_items(values, weights)))
            rows.append((f"{name} discovery", float(_spearman(experience, discovery)[0]), error))
        schema = {"name": pl.String, "value": pl.Float64, "error": pl.Float64}
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        return frame.select(pl.all(), kind=pl.lit("correlation"))

    @property
    def _kinds(self) -> dict[str, FloatArray]:
        return {"plain": self.plain, "predicted": self.predicted, "best": self.best}

    def _of_items(self, values: FloatArray, weights: FloatArray) -> tuple[float, float]:
        """The correlation of popularity with availability, and its standard error."""
        known, filled = (~np.isnan(values)).astype(np.float64), np.nan_to_num(values)
        asked = known.any(axis=0) & np.isfinite(self.popularity)
        known, filled = known[:, asked], filled[:, asked]
        availability = filled.sum(axis=0) / known.sum(axis=0)
        with np.errstate(invalid="ignore"):
            again = (weights @ filled) / (weights @ known)
        # An item whose users are all in one block stays as it is without it.
        return _correlated(self.popularity[asked], availability, np.where(np.isnan(again), availability, again))

    def by_popularity(self) -> pl.DataFrame:
        """Availability of the quarters of the items by their mean rating."""
        quarter = _quarters(self.popularity)
        rows = [
            {"kind": "popularity", "name": name, "group": group, "value": np.nanmean(values[:, quarter == group])}
            for name, values in self._kinds.items()
            for group in range(_QUARTERS)
            if not np.isnan(values[:, quarter == group]).all()
        ]
        return pl.DataFrame(rows)

    def people(self) -> pl.DataFrame:
        """A row a user: discovery, how large the best probabilities are, and by how much they are lifted."""
        with np.errstate(divide="ignore", invalid="ignore"):
            lift = self.best / self.predicted
            columns = {
                "best_discovery": self.discovery(self.best),
                "predicted_discovery": self.discovery(self.predicted),
                "plain_discovery": self.discovery(self.plain),
                "above": (self.best > _ABOVE).sum(axis=1) / self.targets,
                "log_best": np.nanmean(np.log10(self.best), axis=1),
                "log_lift": np.nanmean(np.log10(lift), axis=1),
                "average_lift": np.log10(np.nanmean(lift, axis=1)),
            }
        return pl.DataFrame(
            {
                "kind": ["user"] * len(self.users),
                "user": self.log.user_ids.gather(self.users).cast(pl.String),
                "quarter": _quarters(self.log.user_counts.astype(np.float64))[self.users],
                **columns,
            }
        )

    def histograms(self) -> pl.DataFrame:
        """Shares of targets by the logarithms (base 10) of the best probability and of the lift."""
        known = ~np.isnan(self.best)
        with np.errstate(divide="ignore"):
            values = {"best": np.log10(self.best[known]), "lift": np.log10(self.best[known] / self.predicted[known])}
        frames = []
        for name, logs in values.items():
            edges = _BINS if name == "best" else _BINS + 12.0
            counts, _ = np.histogram(np.clip(logs, edges[0], edges[-1]), edges)
            centres = (edges[1:] + edges[:-1]) / 2
            frames.append(pl.DataFrame({"name": [name] * len(counts), "x": centres, "value": counts / known.sum()}))
        return pl.concat(frames).select(kind=pl.lit("histogram"), name="name", x="x", value="value")

    def one_user(self, seed: int) -> pl.DataFrame:
        """Some targets of the user with most in common with the middle: baseline and best probability."""
        own = int(np.argsort(self.log.user_counts[self.users], kind="stable")[len(self.users) // 2])
        items = np.flatnonzero(~np.isnan(self.best[own]))
        some = np.sort(generator(seed, "points").permutation(items)[:_POINTS])
        points = {"x": self.predicted[own, some], "value": self.best[own, some]}
        return pl.DataFrame({"kind": ["point"] * len(some), **points})


def summarized(reached: Reached, seed: int) -> pl.DataFrame:
    """One table: rows of the kinds "correlation", "popularity", "user", "histogram" and "point"."""
    parts = [
        reached.correlations(),
        reached.by_popularity(),
        reached.people(),
        reached.histograms(),
        reached.one_user(seed),
    ]
    return pl.concat(parts, how="diagonal")


def _quarters(values: FloatArray) -> IntArray:
    """Which quarter each value lies in, 0 to 3."""
    ends = np.nanquantile(values, [0.25, 0.5, 0.75])
    return np.searchsorted(ends, values).astype(np.int64)


def _spearman(x: FloatArray, y: FloatArray) -> FloatArray:
    """(rows,): of the rows of `y` (rows, n) with those of `x`, (n,) or (rows, n); NaN where one does not vary."""
    first, second = (stats.rankdata(np.atleast_2d(values), axis=1) for values in (x, y))
    first, second = (ranks - ranks.mean(axis=1, keepdims=True) for ranks in (first, second))
    with np.errstate(invalid="ignore"):
        scaled: FloatArray = (first * second).sum(axis=1) / np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    return scaled


def _correlated(x: FloatArray, y: FloatArray, again: FloatArray) -> tuple[float, float]:
    """The correlation of x and y (n,), and its standard error from y without each block, `again` (blocks, n)."""
    return float(_spearman(x, y)[0]), _error(_spearman(x, again))


def _error(without_block: FloatArray) -> float:
    """Standard error by the jackknife; NaN if a correlation is not defined without some block."""
    return compute_jackknife_error(without_block) if np.isfinite(without_block).all() else float("nan")
