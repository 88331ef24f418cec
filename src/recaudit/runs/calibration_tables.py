"""What a run keeps of a calibration audit beside its numbers: the same lists re-ranked, in the eyes of other audits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
import polars as pl
import torch

from recaudit import audits
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.calibration.audit import WORST, calibration
from recaudit.audits.calibration.curve import calibration_curve
from recaudit.audits.calibration.measures import list_distribution, rank_weights, representation
from recaudit.audits.calibration.target import Target, Taste
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.folding.shown import shown
from recaudit.audits.folding.vectors import HasVectors, unit_rows, vectors_of
from recaudit.audits.lists.recommend import Recommend
from recaudit.audits.result import Result
from recaudit.data import Interactions
from recaudit.engines import Engine
from recaudit.engines.base import blocks
from recaudit.errors import InputError, NotSupportedError, did_you_mean
from recaudit.metrics.intervals import Bootstrap, aggregate, mean
from recaudit.metrics.tables import SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.models.base import FittedModel
from recaudit.policies import Policy, Top1
from recaudit.policies.calibrated import Calibrated

_DISTANCES = ("calibration_kl", "calibration_hellinger", "calibration_tv")
_QUALITIES = ("ndcg", "recall")
_OF_GIVEN_LISTS = ("policy", "left_out", "emptied", "against_rank")
"""Settings that say nothing about a model's lists."""
_KEPT = (
    *_DISTANCES,
    "uncalibrated_share",
    *_QUALITIES,
    "coverage",
    "gini",
    "popularity_lift",
    "novelty",
    "log_folding",
)
"""What is kept of a re-ranking, beside the same of the model's own lists; in this order."""


def category_system(name: str | None, data: Interactions) -> str:
    """The category system that is meant: the named one, or the log's first."""
    if not data.categories:
        raise NotSupportedError(
            "calibration: the log has no categories, so that interests have no proportions. Name some with items and "
            "categories under [data]."
        )
    if name is None:
        return next(iter(data.categories))
    if name not in data.categories:
        remedy = did_you_mean(name, data.categories)
        raise InputError("categories", received=name, expected="a category system of the data", remedy=remedy)
    return name


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
        """The audit of the model's own lists, with a curve over `weights` and what becomes of the lists re-ranked.

        Further tables: `reranked`, every metric after re-ranking, its value before as the baseline; `worst`, the
        paper's Figure 3, the same users before and after; `example`, its Figure 2. In `users`, each metric of the
        re-ranked list beside that of the user's own.
        """
        own, reranked = self._lists(Top1()), self._lists(self.policy)
        found = self._calibration(own, self.by, self.tested)
        before = self._measured(own, found)
        after = self._measured(reranked, self._calibration(reranked, (), self.tested))
        people = found.users.drop(_DISTANCES).join(before.people, on="user", how="left", maintain_order="left")
        people = people.join(after.people, on="user", how="left", suffix="_reranked", maintain_order="left")
        shares = _Shares.of(self.model.data, self.policy, own, reranked)
        return replace(
            found,
            settings=self._settings(found, weights),
            # Shares of groups of items are left to the exposure audit.
            groups=found.groups.filter(pl.col("metric") != "share"),
            users=people,
            series=self._curve(weights, people),
            further={
                "reranked": _compared(before.frame, after.frame),
                "worst": shares.represented(_worst(people)),
                "example": shares.of_user(_telling(people), people["user"]),
            },
        )

    def _settings(self, found: Result, weights: Sequence[float]) -> dict[str, object]:
        """Those of the audit, and of the re-ranking. A model's lists leave nothing out."""
        own = {name: value for name, value in found.settings.items() if name not in _OF_GIVEN_LISTS}
        further = {"weight": self.policy.weight, "transform": self.policy.transform, "relevant": self.relevant}
        return {**own, **further, "curve": sorted(weights)}

    def _lists(self, policy: Policy) -> IntArray:
        """(users, size): everybody's list."""
        work = _ListItems(Recommend(self.model, policy, self.policy.size, self.bootstrap.rng))
        users = np.arange(self.model.data.n_users)
        return np.concatenate(list(self.engine.map(work, blocks(users), "calibrated lists")))

    def _calibration(self, lists: IntArray, by: Sequence[str] | None, tested: int) -> Result:
        return calibration(
            ListedItems(self.model.data, lists),
            k=self.policy.size,
            categories=_system(self.policy),
            rank_weights=self.policy.rank_weights,
            smoothing=self.policy.smoothing,
            tested=tested,
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

    def _measured(self, lists: IntArray, calibrated: Result) -> _Measured:
        """What the other audits say about these lists, beside `calibrated`."""
        accurate = self._accuracy(lists)
        frames = [calibrated.frame, accurate.frame, self._exposure(lists).frame, self._folding(lists)]
        people = calibrated.users.select("user", *_DISTANCES)
        people = people.join(accurate.users.select("user", *_QUALITIES), on="user", how="left", maintain_order="left")
        return _Measured(pl.concat(frames), people)

    def _folding(self, lists: IntArray) -> pl.DataFrame:
        """How far what is shown is nearer than related, by who rated what alone: by the categories that lists are
        calibrated to it would fall by construction. No row for a model without vectors."""
        if not isinstance(self.model, HasVectors):
            return pl.DataFrame(schema=SUMMARY_SCHEMA)
        data = self.model.data
        U, V = map(unit_rows, vectors_of(self.model))
        users = np.arange(data.n_users)
        found = shown(ListedItems(data, lists), U, V, self._related, users, lists.shape[1], self.engine)
        places = (lists >= 0).sum(axis=1)
        folded = np.nansum(found.overshoot, axis=1) / np.where(places > 0, places, np.nan)
        frame, _ = aggregate([mean("log_folding", folded, np.ones(len(users)))], self.bootstrap)
        return frame

    @cached_property
    def _related(self) -> Relatedness:
        return Relatedness.from_log(self.model.data)

    def _curve(self, weights: Sequence[float], people: pl.DataFrame) -> pl.DataFrame:
        """Recall and C_KL at every weight (the paper's Table 2); no rows where no user has both."""
        if people.select("calibration_kl", "recall").drop_nulls().is_empty():
            return pl.DataFrame(schema=SERIES_SCHEMA)
        found = calibration_curve(
            self.model,
            self.test,
            weights=weights,
            k=[self.policy.size],
            policy=self.policy,
            relevant=self.relevant,
            confidence=self.bootstrap.confidence,
            samples=self.bootstrap.samples,
            rng=self.bootstrap.rng,
            engine=self.engine,
        )
        return found.series.with_columns(pl.col("metric").str.strip_suffix(f"@{self.policy.size}"))


@final
@dataclass(frozen=True, eq=False)
class _Measured:
    frame: pl.DataFrame
    """As SUMMARY_SCHEMA, of every audit."""
    people: pl.DataFrame
    """A row a user: the distances, and what is kept of accuracy."""


@final
@dataclass(frozen=True, eq=False)
class _ListItems:
    recommend: Recommend

    def __call__(self, users: IntArray) -> IntArray:
        return self.recommend(users).items


@final
@dataclass(frozen=True, eq=False)
class _Shares:
    """What part of each user's history, list and re-ranked list is of which category; (users, categories) each."""

    names: tuple[str, ...]
    history: FloatArray
    own: FloatArray
    reranked: FloatArray

    @classmethod
    def of(cls, data: Interactions, policy: Calibrated, own: IntArray, reranked: IntArray) -> _Shares:
        target = Target.of(data, policy.categories, Taste())
        ranks = rank_weights(policy.rank_weights, policy.size)
        before, after = (list_distribution(lists, target.shares, ranks) for lists in (own, reranked))
        return cls(target.names, target.interests[: data.n_users], before, after)

    def represented(self, users: IntArray) -> pl.DataFrame:
        """How far each category is above and below its share of these users' histories on average."""
        before = representation(self.history[users], self.own[users])
        after = representation(self.history[users], self.reranked[users])
        return pl.DataFrame(
            {
                "category": pl.Series(self.names, dtype=pl.String),
                "history": before.history,
                "over": before.over,
                "under": before.under,
                "over_reranked": after.over,
                "under_reranked": after.under,
            }
        )

    def of_user(self, users: IntArray, ids: pl.Series) -> pl.DataFrame:
        """The shares of one user, if any, by category."""
        return pl.DataFrame(
            {
                "user": ids.gather(np.repeat(users, len(self.names))),
                "category": pl.Series(self.names * len(users), dtype=pl.String),
                "history": self.history[users].ravel(),
                "own": self.own[users].ravel(),
                "reranked": self.reranked[users].ravel(),
            }
        )


def _worst(people: pl.DataFrame) -> IntArray:
    """The positions of the users with the least calibrated lists, worst first."""
    ranked = people.with_row_index("at").drop_nulls("calibration_kl")
    ranked = ranked.sort("calibration_kl", descending=True, maintain_order=True)
    return ranked.head(int(np.ceil(WORST * len(ranked))))["at"].to_numpy().astype(np.int64)


def _telling(people: pl.DataFrame) -> IntArray:
    """Of the users with the least calibrated lists the one with the longest history: no accident of a few items."""
    worst = _worst(people)
    histories = people["history"].to_numpy()[worst]
    return worst[np.argmax(histories)][None] if len(worst) else worst


def _compared(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """What is kept of the numbers after re-ranking, the numbers before as their baseline."""
    values = dict(before.select("metric", "value").iter_rows())
    order = {metric: place for place, metric in enumerate(_KEPT)}
    kept = after.filter(pl.col("metric").is_in(_KEPT)).sort(pl.col("metric").replace_strict(order))
    baselines = pl.Series("baseline", [values[metric] for metric in kept["metric"]], dtype=pl.Float64)
    return kept.with_columns(baselines)


def _system(policy: Calibrated) -> str:
    """The one category system that a run is calibrated to."""
    assert isinstance(policy.categories, str)
    return policy.categories
