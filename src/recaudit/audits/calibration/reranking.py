"""Re-ranking in the eyes of other audits: what becomes of accuracy, calibration, exposure and folding (paper 004)."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.audit import Context, Subject, Verb
from recaudit.audits.calibration.audit import WORST, Calibration, CalibrationAudit
from recaudit.audits.calibration.curve import WEIGHTS, CalibrationCurve, Lambdas
from recaudit.audits.calibration.definitions import CALIBRATION
from recaudit.audits.calibration.measures import representation
from recaudit.audits.calibration.target import Target, with_system
from recaudit.audits.folding.definitions import LOG_FOLDING
from recaudit.audits.folding.metric import FoldingSpace, JudgedLists
from recaudit.audits.folding.relatedness import HasVectors, Relatedness, unit_rows, vectors_of
from recaudit.audits.lists.accuracy import Accuracy
from recaudit.audits.lists.definitions import ACCURACY, EXPOSURE
from recaudit.audits.lists.exposure import Exposure
from recaudit.audits.lists.recommend import lists_of
from recaudit.audits.result import Result, Table
from recaudit.metrics.intervals import aggregate, mean
from recaudit.metrics.tables import SERIES_SCHEMA
from recaudit.policies import Top1
from recaudit.policies.calibrated import Calibrated, CalibrationTarget, ScoreTransform, Share
from recaudit.solvers.lists.objective import list_distribution, rank_weights

_DISTANCES = ("calibration_kl", "calibration_hellinger", "calibration_tv")
_QUALITIES = ("ndcg", "recall")
_NAMES = (
    *_DISTANCES,
    "uncalibrated_share",
    *_QUALITIES,
    "coverage",
    "gini",
    "popularity_lift",
    "novelty",
    "log_folding",
)
_KNOWN = {metric.name: metric for metric in (*CALIBRATION, *ACCURACY, *EXPOSURE, *LOG_FOLDING)}


@final
class RerankingResult(Result):
    """What re-ranking does to a model's lists."""

    @property
    def frame(self) -> pl.DataFrame:
        """Every metric after re-ranking, its value before as the baseline; columns as in SUMMARY_SCHEMA."""
        return self.table("reranked")


@final
class Reranking(CalibrationAudit):
    """What becomes of accuracy, calibration, exposure and folding when lists are re-ranked to be calibrated.

    The model's own lists beside those of the policy `Calibrated`. Tables: "reranked", every metric after re-ranking,
    its value before as the baseline; "worst", the paper's Figure 3 for the tenth of users with the highest C_KL, the
    same users before and after; "example", its Figure 2, one user of them; `series`, recall and C_KL at every weight,
    its Table 2, without rows where no user has both; `users`, each metric of the user's own list beside that of the
    re-ranked one. Folding is against who rated what alone (by the categories that lists are calibrated to it would
    fall by construction), and left out for a model without vectors.
    """

    metrics = tuple(_KNOWN[name] for name in _NAMES)
    needs = ("model", "test")
    second = "test"
    result = RerankingResult

    weight: Share = 0.99
    """Lambda of the re-ranked lists: from 0, the scores alone, to 1, calibration alone."""
    transform: ScoreTransform = "minmax"
    """What becomes of a user's scores before they are weighed: on one scale, a weight means much the same for all."""
    curve: Lambdas = WEIGHTS
    """Lambdas along which recall and calibration are measured."""
    relevant: float | None = None
    """The rating from which on a held-out item counts as relevant."""

    def measure(self, subject: Subject, context: Context) -> Result:
        """Look at everybody's list as ranked and re-ranked; held-out ratings count for accuracy alone."""
        model, rng = subject.model, context.rng
        assert model is not None
        resolved = with_system(self, model.data)
        wanted = {name: getattr(resolved, name) for name in CalibrationTarget.model_fields}
        policy = Calibrated(weight=self.weight, size=self.k, transform=self.transform, **wanted)
        own, reranked = (
            lists_of(model, chosen, self.k, rng, context.engine, "calibrated lists") for chosen in (Top1(), policy)
        )
        judge = _Judge(self, wanted, subject, context)
        (before, people), (after, changed) = judge(own), judge(reranked)
        numbers = changed.select("user", *_DISTANCES, *_QUALITIES)
        people = people.join(numbers, on="user", how="left", suffix="_reranked", maintain_order="left")
        target, ranks = Target.of(model.data, policy), rank_weights(policy.rank_weights, self.k)
        shares = {
            "history": target.interests[:-1],
            "own": list_distribution(own, target.shares, ranks),
            "reranked": list_distribution(reranked, target.shares, ranks),
        }

        def series() -> pl.DataFrame:
            if people.select("calibration_kl", "recall").drop_nulls().is_empty():
                return pl.DataFrame(schema=SERIES_SCHEMA)
            asked: dict[str, Any] = {name: getattr(self, name) for name in ("relevant", "confidence", "samples")}
            curve = CalibrationCurve(weights=self.curve, k=(self.k,), policy=policy, **asked)
            found = curve.run(subject, rng=rng, engine=context.engine).series
            return found.with_columns(pl.col("metric").str.strip_suffix(f"@{self.k}"))

        tables: dict[str, Table] = {
            "reranked": _compared(before, after),
            "worst": _represented(target.labels, shares, _worst(people)),
            "example": _example(target.labels, shares, people),
            "series": series,
            "users": people,
        }
        return RerankingResult(self, tables, rng=rng, facts={"categories": wanted["categories"]})


reranking = Verb(Reranking, RerankingResult)


@final
class _Judge:
    """What the other audits say about lists (users, k)."""

    def __init__(self, audit: Reranking, wanted: dict[str, Any], subject: Subject, context: Context) -> None:
        assert subject.model is not None
        assert subject.test is not None
        self.model, self.test, self.context = subject.model, subject.test, context
        self.bootstrap = audit.bootstrap(context.rng)
        common: dict[str, Any] = {"k": audit.k, "by": (), "confidence": audit.confidence, "samples": audit.samples}
        self.calibration = Calibration(tested=audit.tested, **wanted, **common)
        self.accuracy = Accuracy(relevant=audit.relevant, **common)
        self.exposure = Exposure(**common)
        self.space = None
        if isinstance(self.model, HasVectors):
            U, V = map(unit_rows, vectors_of(self.model))
            self.space = FoldingSpace(self.model, U, V, Relatedness.from_log(self.model.data))

    def __call__(self, lists: IntArray) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Every number, as SUMMARY_SCHEMA; and a row a user: the test for chance, lengths, status, and own numbers."""
        data, rng = self.model.data, self.context.rng
        calibrated = self.calibration.of_lists(data, lists, rng, self.context.engine)
        accurate = self.accuracy.of_lists(data, self.test, lists, rng)
        frames = [calibrated.frame, accurate.frame, self.exposure.of_lists(data, lists, rng).frame]
        if self.space is not None:
            folded = JudgedLists.of(self.space, np.arange(len(lists)), lists).folding
            frames.append(aggregate([mean("log_folding", folded, np.ones(len(lists)))], self.bootstrap)[0])
        people = calibrated.users.select(pl.exclude(_DISTANCES), *_DISTANCES)
        found = accurate.users.select("user", *_QUALITIES)
        return pl.concat(frames), people.join(found, on="user", how="left", maintain_order="left")


def _worst(people: pl.DataFrame) -> IntArray:
    """The positions of the users with the least calibrated lists, worst first."""
    ranked = people.with_row_index("at").drop_nulls("calibration_kl")
    ranked = ranked.sort("calibration_kl", descending=True, maintain_order=True)
    return ranked.head(int(np.ceil(WORST * len(ranked))))["at"].to_numpy().astype(np.int64)


def _represented(labels: tuple[str, ...], shares: dict[str, FloatArray], users: IntArray) -> pl.DataFrame:
    """How far each category is above and below its share of these users' histories on average.

    `shares` (users, categories) each: of the history, the own list and the re-ranked one.
    """
    before, after = (representation(shares["history"][users], shares[name][users]) for name in ("own", "reranked"))
    columns = {**before, "over_reranked": after["over"], "under_reranked": after["under"]}
    return pl.DataFrame({"category": pl.Series(labels, dtype=pl.String), **columns})


def _example(labels: tuple[str, ...], shares: dict[str, FloatArray], people: pl.DataFrame) -> pl.DataFrame:
    """The shares of one user, if any, by category.

    Of those with the least calibrated lists the one with the longest history: no accident of a few items.
    """
    worst = _worst(people)
    users = worst[[np.argmax(people["history"].to_numpy()[worst])]] if len(worst) else worst
    named = {
        "user": people["user"].gather(np.repeat(users, len(labels))),
        "category": pl.Series(labels * len(users), dtype=pl.String),
    }
    return pl.DataFrame(named | {name: values[users].ravel() for name, values in shares.items()})


def _compared(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """What is kept of the numbers after re-ranking, the numbers before as their baseline."""
    values = dict(before.select("metric", "value").iter_rows())
    order = {metric: place for place, metric in enumerate(_NAMES)}
    kept = after.filter(pl.col("metric").is_in(_NAMES)).sort(pl.col("metric").replace_strict(order))
    baselines = pl.Series("baseline", [values[metric] for metric in kept["metric"]], dtype=pl.Float64)
    return kept.with_columns(baselines)
