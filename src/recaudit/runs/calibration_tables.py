"""What a run keeps of a calibration audit beside its numbers: the same lists re-ranked, in the eyes of other audits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from recaudit import audits
from recaudit.audits.calibration.audit import WORST, calibration
from recaudit.audits.calibration.measures import list_distribution, rank_weights, representation
from recaudit.audits.calibration.target import Target, Taste
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.folding.shown import shown
from recaudit.audits.folding.vectors import HasVectors, unit_rows, vectors_of
from recaudit.audits.intervals import Bootstrap, aggregate, mean
from recaudit.audits.lists import Recommend
from recaudit.audits.result import SERIES_SCHEMA, SUMMARY_SCHEMA, Result
from recaudit.data import Interactions
from recaudit.engines import Engine
from recaudit.engines.base import blocks
from recaudit.models.base import FittedModel
from recaudit.policies import Policy, Top1
from recaudit.policies.calibrated import Calibrated

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_DISTANCES = ("calibration_kl", "calibration_hellinger", "calibration_tv")
_QUALITIES = ("ndcg", "recall")
_KEPT = (
    *_DISTANCES,
    "uncalibrated_share",
    *_QUALITIES,
    "coverage",
    "gini",
    "popularity_correlation",
    "popularity_lift",
    "novelty",
    "shown_folding",
)
"""What is kept of a re-ranking, beside the same of the model's own lists; in this order."""


@final
@dataclass(frozen=True, eq=False)
class ListedItems(FittedModel):
    """Lists in the place of a model, for audits that ask one for lists: an item scores by its place, the others 0."""

    data: Interactions
    lists: IntArray
    """(users, n): item positions, best first; -1 where there is none."""
    predicts_ratings: bool = False

    def scores(self, users: IntArray) -> torch.Tensor:
        """(len(users), items)"""
        lists = self.lists[users]
        scores = np.zeros((len(users), self.data.n_items))
        row, place = np.nonzero(lists >= 0)
        scores[row, lists[row, place]] = lists.shape[1] - place
        return torch.from_numpy(scores)


@final
@dataclass(frozen=True, eq=False)
class Reranking:
    """What is asked about a model's lists and the same lists re-ranked."""

    model: FittedModel
    test: Interactions
    """What was held out."""
    policy: Calibrated
    """How lists are re-ranked; its size is the length of both."""
    relevant: float | None
    """The rating from which on a held-out item counts as relevant."""
    tested: int
    """How many users are tested for a difference beyond chance."""
    by: Sequence[str] | None
    bootstrap: Bootstrap
    engine: Engine

    def result(self, weights: Sequence[float]) -> Result:
        """The audit of the model's own lists, with four further tables and a curve over `weights`.

        `reranked`: every metric after re-ranking, before it as the baseline. `worst`: the paper's Figure 3, the same
        users before and after. `example`: its Figure 2. In `users`, a column for the re-ranked list beside each metric
        of the user's own list.
        """
        own, reranked = self._lists(Top1()), self._lists(self.policy)
        found = self._calibration(own, self.by)
        before, after = self._numbers(own), self._numbers(reranked)
        people = _side_by_side(found.users.drop(*_QUALITIES, strict=False), before.people, after.people)
        tables = _Proportions.of(self.model.data, self.policy, own, reranked, people)
        return replace(
            found,
            settings=self._settings(found, weights),
            # The share of each group of items is the exposure audit's.
            groups=found.groups.filter(pl.col("metric") != "share"),
            users=people,
            series=self._curve(weights),
            further={
                "reranked": _compared(before.frame, after.frame),
                "worst": tables.worst(),
                "example": tables.example(),
                **found.further,
            },
        )

    def _lists(self, policy: Policy) -> IntArray:
        """(users, size): everybody's list."""
        work = _ListItems(Recommend(self.model, policy, self.policy.size, self.bootstrap.rng))
        users = np.arange(self.model.data.n_users)
        return np.concatenate(list(self.engine.map(work, blocks(users), "calibrated lists")))

    def _calibration(self, lists: IntArray, by: Sequence[str] | None) -> Result:
        return calibration(
            ListedItems(self.model.data, lists),
            k=self.policy.size,
            categories=_system(self.policy),
            rank_weights=self.policy.rank_weights,
            smoothing=self.policy.smoothing,
            tested=self.tested,
            by=by,
            confidence=self.bootstrap.confidence,
            samples=self.bootstrap.samples,
            rng=self.bootstrap.rng,
            engine=self.engine,
        )

    def _accuracy(self, lists: IntArray) -> Result:
        return audits.accuracy(
            ListedItems(self.model.data, lists),
            self.test,
            k=self.policy.size,
            relevant=self.relevant,
            by=(),
            confidence=self.bootstrap.confidence,
            samples=self.bootstrap.samples,
            rng=self.bootstrap.rng,
            engine=self.engine,
        )

    def _exposure(self, lists: IntArray) -> Result:
        return audits.exposure(
            ListedItems(self.model.data, lists),
            k=self.policy.size,
            by=(),
            confidence=self.bootstrap.confidence,
            samples=self.bootstrap.samples,
            rng=self.bootstrap.rng,
            engine=self.engine,
        )

    def _numbers(self, lists: IntArray) -> _Numbers:
        """What the audits say about these lists."""
        calibrated, accurate = self._calibration(lists, ()), self._accuracy(lists)
        frames = [calibrated.frame, accurate.frame, self._exposure(lists).frame, self._folding(lists)]
        people = calibrated.users.select("user", *_DISTANCES).join(
            accurate.users.select("user", *_QUALITIES), on="user", how="left", maintain_order="left"
        )
        return _Numbers(pl.concat(frames), people)

    def _folding(self, lists: IntArray) -> pl.DataFrame:
        """How far what is shown is nearer than related, by the same categories; no row for a model without vectors."""
        if not isinstance(self.model, HasVectors):
            return pl.DataFrame(schema=SUMMARY_SCHEMA)
        data = self.model.data
        U, V = map(unit_rows, vectors_of(self.model))
        related = Relatedness.from_categories(data, _system(self.policy))
        users = np.arange(data.n_users)
        found = shown(ListedItems(data, lists), U, V, related, users, lists.shape[1], self.engine)
        places = (lists >= 0).sum(axis=1)
        folded = np.nansum(found.overshoot, axis=1) / np.where(places > 0, places, np.nan)
        frame, _ = aggregate([mean("shown_folding", folded, np.ones(len(users)))], self.bootstrap)
        return frame

    def _curve(self, weights: Sequence[float]) -> pl.DataFrame:
        """C_KL and accuracy with every weight (the paper's Table 2)."""
        tables = []
        for weight in sorted(weights):
            lists = self._lists(self.policy.model_copy(update={"weight": weight}))
            parts = pl.concat([self._calibration(lists, ()).frame, self._accuracy(lists).frame])
            kept = parts.filter(pl.col("metric").is_in(["calibration_kl", *_QUALITIES]))
            tables.append(kept.select(pl.lit("weight").alias("over"), pl.lit(weight).alias("at"), pl.all()))
        return pl.concat([pl.DataFrame(schema=SERIES_SCHEMA), *tables])
