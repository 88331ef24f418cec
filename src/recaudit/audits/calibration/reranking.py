"""What calibrated lists cost and bring, by held-out ratings and in the eyes of other audits (paper 004)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, final

import numpy as np
import polars as pl
from pydantic import AfterValidator, Field
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.audit import Audit, Context, CountMetrics, Subject, Verb
from recaudit.audits.calibration.audit import Calibration, CalibrationAudit, ListComparison
from recaudit.audits.calibration.calibrator import Calibrator, with_system
from recaudit.audits.calibration.definitions import CALIBRATION
from recaudit.audits.calibration.measures import kl, representation
from recaudit.audits.folding.definitions import LOG_FOLDING
from recaudit.audits.folding.metric import FoldingSpace, JudgedLists
from recaudit.audits.folding.relatedness import HasVectors, Relatedness, unit_rows, vectors_of
from recaudit.audits.folding.tradeoff import scaled
from recaudit.audits.lists.accuracy import Accuracy, check_same_ids
from recaudit.audits.lists.definitions import ACCURACY, EXPOSURE
from recaudit.audits.lists.exposure import Exposure
from recaudit.audits.lists.recommend import check_length, lists_of
from recaudit.audits.recipe import Measured, Nothing, Recipe, RecommendedList
from recaudit.audits.result import Result, Table
from recaudit.engines.base import blocks
from recaudit.errors import InputError
from recaudit.metrics.intervals import aggregate, mean
from recaudit.metrics.tables import SERIES_SCHEMA, SUMMARY_SCHEMA, item_table, list_table, user_table
from recaudit.metrics.terms import term_table
from recaudit.models.base import FittedModel
from recaudit.policies import Top1
from recaudit.policies.calibrated import Calibrated, CalibrationTarget, ScoreTransform, Share
from recaudit.solvers.lists.objective import list_distribution, rank_weights
from recaudit.specification import Count

METRICS = ("recall", "calibration_kl")


def _lambdas(weights: tuple[float, ...]) -> tuple[float, ...]:
    found = tuple(sorted(set(weights)))
    if len(found) < 2:
        raise InputError("", received=list(weights), expected="at least two lambdas from 0 to 1")
    return found


Lambdas = Annotated[tuple[Share, ...], AfterValidator(_lambdas)]
WEIGHTS = (0.0, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
"""The paper's."""


@final
class CalibrationCurve(Audit):
    """Recall and C_KL of lists of each length k at each lambda, on held-out ratings; the knee is marked.

    Lists are out of all items that a user has not rated; only users with a relevant held-out item count. Lambda
    weighs scores against C_KL, so it is comparable between models only after a `transform`.

    `series` has "recall@10", "calibration_kl@10" and so on over "weight". The knee is the lambda with the largest
    sum of recall and the fall of C_KL at the largest k, each scaled to 0..1 over the curve: the point farthest
    above the line between its ends. `frame` has both numbers there, beside those at the first lambda.
    """

    metrics = (*(metric for metric in ACCURACY if metric.name == "recall"), CALIBRATION[0])
    borrowed = frozenset({"recall", CALIBRATION[0].name})
    needs = ("model", "test")
    has_floor = False
    split_by = ()
    second = "test"

    weights: Lambdas = WEIGHTS
    """The lambdas."""
    k: Annotated[tuple[Count, ...], AfterValidator(lambda k: tuple(sorted(set(k)))), Field(min_length=1)] = (10, 50)
    """The lengths of the lists."""
    policy: Calibrated = Calibrated()
    """How lists are made, with each lambda in the place of its weight: scores as they are, as in the paper."""
    relevant: float | None = None
    """The rating from which on a held-out item counts as relevant; without one every held-out item does."""

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        # Of the policy, whose own weight plays no part, what else differs from the default.
        own = {name: value for name, value in self.policy.__repr_args__() if name != "weight"}
        told = dict(super().__repr_args__()) | {"weights": self.weights, "policy": own}
        return [(name, value) for name, value in told.items() if name != "policy" or own]

    @property
    def recipe(self) -> Recipe:
        """What is, without any intervention."""
        return Recipe(Nothing(), RecommendedList(self.k[-1]), Measured(CALIBRATION[0]))

    def measure(self, subject: Subject, context: Context) -> Result:
        """Make everybody's lists at every lambda."""
        model, test = subject.model, subject.test
        assert model is not None
        assert test is not None
        check_length(self.k[-1], "k")
        check_same_ids(model.data, test)
        kept = test if self.relevant is None else test.subset(test.ratings >= self.relevant)
        wanted = sparse.csr_array((np.ones(len(kept)), kept.items, kept.indptr), shape=(test.n_users, test.n_items))
        users = np.flatnonzero(kept.user_counts)
        if not len(users):
            raise InputError("relevant", received=self.relevant, expected="a rating that some held-out item reaches")
        work = partial(self._of_block, model, Calibrator(self.policy, model.data), wanted)
        values = np.concatenate(list(context.engine.map(work, blocks(users), "calibration curve")), axis=3)
        ratios = [
            mean(f"{name}@{length}", values[w, n, m], np.ones(len(users)))
            for w in range(len(self.weights))
            for n, length in enumerate(self.k)
            for m, name in enumerate(METRICS)
        ]
        bounds = {ratio.metric: self.metric_bounds[ratio.metric.partition("@")[0]] for ratio in ratios}
        table, _ = aggregate(ratios, bounds, self.confidence)
        at = pl.Series(np.repeat(self.weights, len(METRICS) * len(self.k)))
        series = table.with_columns(over=pl.lit("weight"), at=at).select(SERIES_SCHEMA.keys())
        longest = [series.filter(metric=f"{name}@{self.k[-1]}") for name in METRICS]
        if longest[1]["value"].null_count():
            raise InputError(
                "model",
                received="lists or histories without any category",
                expected="held-out users with categories in both",
                remedy="Check the categories of the model's log.",
            )
        best = knee(*(rows["value"].to_numpy() for rows in longest))
        at_knee = [
            rows[best].with_columns(metric=pl.lit(name), baseline=rows["value"][0])
            for name, rows in zip(METRICS, longest, strict=True)
        ]
        tables = {
            "summary": pl.concat(at_knee).select(SUMMARY_SCHEMA.keys()),
            "users": user_table(model.data.user_ids.gather(users), dict(zip(METRICS, values[best, -1], strict=True))),
            "series": series,
        }
        return Result(self, tables, rng=context.rng, facts={"k": self.k[-1], "knee": self.weights[best]})

    def _of_block(
        self, model: FittedModel, calibrator: Calibrator, relevant: sparse.csr_array, users: IntArray
    ) -> FloatArray:
        """(weights, lengths, 2, users): recall and C_KL; `relevant` (users, items). Scores are computed once."""
        policy, target = calibrator.policy, calibrator.target
        distance = partial(kl, smoothing=policy.smoothing)
        scores = model.scores(users)
        allowed = ~model.data.seen(users) & model.may_show(scores)
        wanted = relevant[users].toarray() > 0
        found = np.empty((len(self.weights), len(self.k), len(METRICS), len(users)))
        for place, weight in enumerate(self.weights):
            lists = calibrator.solve(scores, allowed, users, self.k[-1], weight=weight).lists
            hit = np.take_along_axis(wanted, np.maximum(lists, 0), axis=1) & (lists >= 0)
            for n, length in enumerate(self.k):
                found[place, n, 0] = hit[:, :length].sum(axis=1) / wanted.sum(axis=1)
                q = list_distribution(lists[:, :length], target.shares, rank_weights(policy.rank_weights, length))
                found[place, n, 1] = target.mean(target.each(distance, target.interests[users], q))
        return found


calibration_curve = Verb(CalibrationCurve, Result)


def knee(recall: FloatArray, apart: FloatArray) -> int:
    """Which point of (points,) keeps most recall for the largest fall of C_KL; see `CalibrationCurve`."""
    return int(np.argmax(scaled(recall) + scaled(-apart)))


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

    Tables: "reranked", every metric after re-ranking, its value before as the baseline; "worst", the paper's Figure 3
    for the tenth of users with the highest C_KL before; "example", its Figure 2, one user of them; `series`, its Table
    2, recall and C_KL at every weight; `users`, each metric of the own list beside that of the re-ranked one. Folding
    is by who rated what alone (by categories it would fall by construction), and left out for a model without vectors.
    """

    metrics = tuple(_KNOWN[name] for name in _NAMES)
    borrowed = frozenset(_NAMES) - {metric.name for metric in LOG_FOLDING}
    needs = ("model", "test")
    has_floor = False
    split_by = ()
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
        data = model.data
        resolved = with_system(self, data)
        wanted = {name: getattr(resolved, name) for name in CalibrationTarget.model_fields}
        policy = Calibrated(weight=self.weight, size=self.k, transform=self.transform, **wanted)
        lists = [
            lists_of(model, chosen, self.k, rng, context.engine, "calibrated lists")[0] for chosen in (Top1(), policy)
        ]
        space = None
        if isinstance(model, HasVectors):
            U, V = map(unit_rows, vectors_of(model))
            space = FoldingSpace(model, (U, V), Relatedness.from_log(data))
        judged = [self._judged(each, wanted, space, subject, context) for each in lists]
        (before, people, _), (after, changed, terms) = judged
        numbers = changed.select("user", *_DISTANCES, *_QUALITIES)
        people = people.join(numbers, on="user", how="left", suffix="_reranked", maintain_order="left")
        own, reranked = (ListComparison(data, each, policy) for each in lists)

        def series() -> pl.DataFrame:
            if people.select("calibration_kl", "recall").drop_nulls().is_empty():
                return pl.DataFrame(schema=SERIES_SCHEMA)
            asked: dict[str, Any] = {name: getattr(self, name) for name in ("relevant", "confidence")}
            curve = CalibrationCurve(weights=self.curve, k=(self.k,), policy=policy, **asked)
            found = curve.run(subject, rng=rng, engine=context.engine).series
            return found.with_columns(pl.col("metric").str.strip_suffix(f"@{self.k}"))

        tables: dict[str, Table] = {
            "reranked": _compared(before, after),
            "worst": _worst(own, reranked),
            "example": _example(own, reranked, data.user_counts),
            "series": series,
            "terms": terms,
            "lists": list_table(data.user_ids, data.item_ids, lists[1]),
            "users": people,
            "items": item_table(data),
        }
        return RerankingResult(self, tables, rng=rng, facts={"categories": wanted["categories"]})

    def of_counts(self, items: pl.DataFrame) -> CountMetrics:
        """As exposure has them, as far as they are reported here."""
        names, made = Exposure().of_counts(items)
        kept = [place for place, name in enumerate(names) if name in _NAMES]
        return [names[place] for place in kept], lambda counts: made(counts)[:, kept]

    def _judged(
        self, lists: IntArray, wanted: dict[str, Any], space: FoldingSpace | None, subject: Subject, context: Context
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """What other audits say about lists (users, k): every number, as SUMMARY_SCHEMA, a row a user, and terms."""
        assert subject.model is not None
        assert subject.test is not None
        data, rng = subject.model.data, context.rng
        common: dict[str, Any] = {"k": self.k, "by": (), "confidence": self.confidence}
        calibrated = Calibration(tested=self.tested, **wanted, **common).of_lists(data, lists, rng, context.engine)
        accurate = Accuracy(relevant=self.relevant, **common).of_lists(data, subject.test, lists, rng)
        results = [calibrated, accurate, Exposure(**common).of_lists(data, lists, rng)]
        frames, terms = [each.frame for each in results], [each.table("terms") for each in results]
        if space is not None:
            own = JudgedLists(space, np.arange(len(lists)), lists).folding
            folded = [mean("log_folding", own, np.ones(len(lists)))]
            frames.append(aggregate(folded, self.metric_bounds, self.confidence)[0])
            terms.append(term_table(folded, data.user_ids))
        people = calibrated.users.select(pl.exclude(_DISTANCES), *_DISTANCES)
        found = accurate.users.select("user", *_QUALITIES)
        people = people.join(found, on="user", how="left", maintain_order="left")
        return pl.concat(frames), people, pl.concat(terms).filter(pl.col("metric").is_in(_NAMES))


reranking = Verb(Reranking, RerankingResult)


def _worst(own: ListComparison, reranked: ListComparison) -> pl.DataFrame:
    """How far each category is above and below its share of the worst users' histories on average."""
    users = own.worst_tenth
    before, after = (representation(own.p[users], each.q[users]) for each in (own, reranked))
    columns = {**before, "over_reranked": after["over"], "under_reranked": after["under"]}
    return pl.DataFrame({"category": pl.Series(own.target.labels, dtype=pl.String), **columns})


def _example(own: ListComparison, reranked: ListComparison, history: IntArray) -> pl.DataFrame:
    """The shares of one user by category: of the worst the one with the longest `history` (users,), no accident."""
    worst, labels = own.worst_tenth, own.target.labels
    users = worst[[np.argmax(history[worst])]] if len(worst) else worst
    named = {
        "user": own.user_ids.gather(np.repeat(users, len(labels))),
        "category": pl.Series(labels * len(users), dtype=pl.String),
    }
    shares = {"history": own.p, "own": own.q, "reranked": reranked.q}
    return pl.DataFrame(named | {name: values[users].ravel() for name, values in shares.items()})


def _compared(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """What is kept of the numbers after re-ranking, the numbers before as their baseline."""
    kept = pl.DataFrame({"metric": _NAMES}).join(after.drop("baseline"), on="metric", maintain_order="left")
    baselines = before.select("metric", baseline="value")
    return kept.join(baselines, on="metric", how="left", maintain_order="left").select(SUMMARY_SCHEMA.keys())
