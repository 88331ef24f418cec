"""What re-ranking would do to one model's lists: the tables of its audit, as the page shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, final

import polars as pl

from recaudit.arrays import FloatArray
from recaudit.audits.calibration.audit import WORST
from recaudit.audits.calibration.curve import knee
from recaudit.metrics.tables import SUMMARY_SCHEMA
from recaudit.report.evidence import Evidence
from recaudit.report.kit.numbers import Estimate

CALIBRATION, RERANKING = "calibration", "reranking"
KL = "calibration_kl"
DISTANCES = (KL, "calibration_hellinger", "calibration_tv")
"""How far a list's categories are from the user's."""
QUALITIES = ("ndcg", "recall")
"""What re-ranking may cost."""

_NUMBERS = ("history", "over", "under", "over_reranked", "under_reranked")
_WORST_SCHEMA = {"category": pl.String, **dict.fromkeys(_NUMBERS, pl.Float64)}
_EXAMPLE_SCHEMA = {
    "user": pl.String,
    "category": pl.String,
    **dict.fromkeys(("history", "own", "reranked"), pl.Float64),
}
_USER_SCHEMA = {
    "user": pl.String,
    **{f"{name}{lists}": pl.Float64 for lists in ("", "_reranked") for name in (*DISTANCES, *QUALITIES)},
}


@final
@dataclass(frozen=True, eq=False)
class Reranked:
    """One model's lists as they are ranked, and the same re-ranked."""

    evidence: Evidence
    changes: Mapping[str, Estimate]
    """By metric, what it is after re-ranking; the baseline is what it was before."""
    people: pl.DataFrame
    """A row a user: each metric of the user's own list, and of the re-ranked one under `<metric>_reranked`."""
    worst: pl.DataFrame
    """category, history (its mean share of what they chose), over, under, over_reranked, under_reranked (how far it is
    above and below that in their lists, averaged over users) and shown (its mean share of their lists), among the users
    with the least calibrated lists; the largest share of their history first."""
    example: pl.DataFrame
    """user, category, history, own, reranked: how much of one badly calibrated user's history, list and re-ranked list
    is of each category; the largest part of the history first."""
    curve: pl.DataFrame
    """at, calibration_kl, recall: all lists re-ranked with some weights of calibration, from 0, the model's own."""

    @classmethod
    def of(cls, evidence: Evidence, model: str) -> Reranked:
        """Read a finished audit."""
        changes = evidence.table(model, RERANKING, "reranked", SUMMARY_SCHEMA).iter_rows(named=True)
        worst = evidence.table(model, RERANKING, "worst", _WORST_SCHEMA)
        example = evidence.table(model, RERANKING, "example", _EXAMPLE_SCHEMA)
        return cls(
            evidence,
            {row["metric"]: Estimate.of(evidence.definitions[row["metric"]], row) for row in changes},
            evidence.table(model, RERANKING, "users", _USER_SCHEMA),
            worst.with_columns(shown=pl.col("history") - pl.col("under") + pl.col("over")).sort(
                "history", descending=True, maintain_order=True
            ),
            example.sort("history", "own", descending=True, maintain_order=True),
            evidence.curve(model, RERANKING, "weight", [KL, "recall"]),
        )

    @property
    def worst_users(self) -> int:
        """How many users `worst` is about."""
        return ceil(WORST * self.people[KL].count())

    @cached_property
    def best_bargain(self) -> dict[str, Any] | None:
        """The knee of the curve: the weight that keeps most recall for the largest fall of C_KL."""
        if self.curve.is_empty():
            return None
        return self.curve.row(knee(self.curve["recall"].to_numpy(), self.curve[KL].to_numpy()), named=True)

    def change(self, metric: str) -> Estimate | None:
        """How much re-ranking adds to a metric on average, with a paired interval over the same users."""
        gains = self.people.select(pl.col(f"{metric}_reranked") - pl.col(metric)).to_series().drop_nulls()
        return Estimate.mean(self.evidence.definitions[metric], gains.to_numpy(), self.evidence.confidence)

    def divergences(self) -> tuple[FloatArray, FloatArray]:
        """(users,) each: C_KL before and after, of the users who have one."""
        known = self.people.select(KL, f"{KL}_reranked").drop_nulls()
        return known[KL].to_numpy(), known[f"{KL}_reranked"].to_numpy()


def reranked_of(evidence: Evidence) -> Mapping[str, Reranked]:
    """What re-ranking would do, for the models that were asked."""
    return evidence.each(RERANKING, Reranked.of)


def settings_of(evidence: Evidence) -> dict[str, Any]:
    """What the numbers of both audits depend on, those of re-ranking first."""
    return {**evidence.settings.get(CALIBRATION, {}), **evidence.settings.get(RERANKING, {})}
