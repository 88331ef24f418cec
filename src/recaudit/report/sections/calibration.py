"""Whether one model keeps interests in proportion: the tables of its calibration audit, as the page shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from statistics import NormalDist
from typing import Any, final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recaudit.audits.calibration.audit import WORST
from recaudit.audits.calibration.curve import knee
from recaudit.metrics.tables import SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.report.kit.numbers import Estimate, finite
from recaudit.report.kit.reading import table_of
from recaudit.runs import Run
from recaudit.status import Status

AUDIT = "calibration"
KL = "calibration_kl"
DISTANCES = (KL, "calibration_hellinger", "calibration_tv")
"""How far a list's categories are from the user's."""
QUALITIES = ("ndcg", "recall")
"""What re-ranking may cost."""

_GENRE_SCHEMA = {
    "category": pl.String,
    "history": pl.Float64,
    "over": pl.Float64,
    "under": pl.Float64,
    "over_reranked": pl.Float64,
    "under_reranked": pl.Float64,
}
_EXAMPLE_SCHEMA = {
    "user": pl.String,
    "category": pl.String,
    "history": pl.Float64,
    "own": pl.Float64,
    "reranked": pl.Float64,
}


@final
@dataclass(frozen=True)
class Represented:
    """One category among the users with the least calibrated lists."""

    name: str
    history: float
    """Its mean share of what they chose."""
    own: tuple[float, float]
    """How far it is below and above that in the model's lists, each averaged over users."""
    reranked: tuple[float, float]
    """The same after re-ranking."""

    @property
    def shown(self) -> float:
        """Its mean share of the model's lists."""
        return self.history - self.own[0] + self.own[1]

    @property
    def shown_reranked(self) -> float:
        """Its mean share of the re-ranked lists."""
        return self.history - self.reranked[0] + self.reranked[1]


@final
@dataclass(frozen=True)
class Share:
    """How much of one user's history, list and re-ranked list is of one category."""

    name: str
    history: float
    own: float
    reranked: float


@final
@dataclass(frozen=True)
class Example:
    """One user whose list is badly calibrated."""

    user: str
    divergence: float
    """C_KL of the model's list."""
    divergence_reranked: float
    shares: tuple[Share, ...]
    """The largest part of the history first."""


@final
@dataclass(frozen=True)
class Point:
    """All lists re-ranked with one weight of calibration."""

    weight: float
    divergence: float
    """The mean C_KL."""
    recall: float


@final
@dataclass(frozen=True, eq=False)
class Calibrated:
    """One model's audit: its own lists, and the same re-ranked."""

    reranked: Mapping[str, Estimate]
    """By metric, what it is after re-ranking; the baseline is what it was before."""
    people: pl.DataFrame
    """A row a user: each metric of the user's own list, and of the re-ranked one under `<metric>_reranked`."""
    worst: tuple[Represented, ...]
    """Among the users with the least calibrated lists; the largest share of their history first."""
    example: Example | None
    curve: tuple[Point, ...]
    """By weight, from 0: the model's own lists."""

    @classmethod
    def of(cls, run: Run, model: str) -> Calibrated:
        """Read a finished audit."""
        reranked = table_of(run, model, AUDIT, "reranked", SUMMARY_SCHEMA)
        people = table_of(run, model, AUDIT, "users", _user_schema())
        worst = table_of(run, model, AUDIT, "worst", _GENRE_SCHEMA).sort(
            "history", descending=True, maintain_order=True
        )
        example = table_of(run, model, AUDIT, "example", _EXAMPLE_SCHEMA)
        return cls(
            {row["metric"]: _estimate(row) for row in reranked.iter_rows(named=True)},
            people,
            tuple(_represented(row) for row in worst.iter_rows(named=True)),
            _example(example, people),
            _curve(table_of(run, model, AUDIT, "series", SERIES_SCHEMA)),
        )

    @property
    def worst_users(self) -> int:
        """How many users `worst` is about."""
        return ceil(WORST * self.people[KL].count())

    @property
    def best_bargain(self) -> Point | None:
        """The knee of the curve: the weight that keeps most recall for the largest fall of C_KL."""
        if not self.curve:
            return None
        recall, apart = (np.array([getattr(point, name) for point in self.curve]) for name in ("recall", "divergence"))
        return self.curve[knee(recall, apart)]

    def change(self, metric: str, confidence: float) -> Estimate | None:
        """How much re-ranking adds to a metric on average, with a paired interval over the same users."""
        gains = self.people.select(pl.col(f"{metric}_reranked") - pl.col(metric)).to_series().drop_nulls()
        mean, spread = gains.mean(), gains.std()
        if not isinstance(mean, float) or not isinstance(spread, float):
            return None
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * spread / len(gains) ** 0.5
        return Estimate(metric, mean, mean - reach, mean + reach, Status.SOLVED, None, len(gains), 0)

    def divergences(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(users,) each: C_KL before and after, of the users who have one."""
        known = self.people.select(KL, f"{KL}_reranked").drop_nulls()
        return known[KL].to_numpy(), known[f"{KL}_reranked"].to_numpy()


def _user_schema() -> dict[str, Any]:
    metrics = (*DISTANCES, *QUALITIES)
    own = dict.fromkeys(metrics, pl.Float64)
    return {"user": pl.String, **own, **dict.fromkeys((f"{metric}_reranked" for metric in metrics), pl.Float64)}


def _estimate(row: dict[str, Any]) -> Estimate:
    ends = {name: finite(row[name]) for name in ("value", "lower", "upper", "baseline")}
    return Estimate(metric=row["metric"], status=row["status"], users=row["users"], excluded=row["excluded"], **ends)


def _represented(row: dict[str, Any]) -> Represented:
    return Represented(
        row["category"], row["history"], (row["under"], row["over"]), (row["under_reranked"], row["over_reranked"])
    )


def _example(table: pl.DataFrame, people: pl.DataFrame) -> Example | None:
    if table.is_empty():
        return None
    own = people.row(by_predicate=pl.col("user") == table["user"][0], named=True)
    ordered = table.sort("history", "own", descending=True, maintain_order=True)
    shares = ordered.select("category", "history", "own", "reranked").iter_rows()
    return Example(own["user"], own[KL], own[f"{KL}_reranked"], tuple(Share(*row) for row in shares))


def _curve(series: pl.DataFrame) -> tuple[Point, ...]:
    """The weights at which everything was measured."""
    wide = series.filter(pl.col("over") == "weight").pivot("metric", index="at", values="value").sort("at")
    needed = (KL, "recall")
    if not set(needed) <= set(wide.columns):
        return ()
    return tuple(Point(*row) for row in wide.drop_nulls(needed).select("at", *needed).iter_rows())
