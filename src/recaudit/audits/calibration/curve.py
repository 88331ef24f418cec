"""What calibration costs: accuracy against calibration over lambda, the paper's Table 2 (paper 004)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, final

import numpy as np
import polars as pl
from pydantic import AfterValidator, Field
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.audit import Audit, Context, Subject, Verb
from recaudit.audits.calibration.calibrator import Calibrator
from recaudit.audits.calibration.definitions import CALIBRATION
from recaudit.audits.calibration.measures import kl
from recaudit.audits.folding.fronts import scaled
from recaudit.audits.lists.accuracy import check_same_ids
from recaudit.audits.lists.definitions import ACCURACY
from recaudit.audits.lists.recommend import check_length
from recaudit.audits.recipe import Measured, Nothing, Recipe, RecommendedList
from recaudit.audits.result import Result
from recaudit.engines.base import blocks
from recaudit.errors import InputError
from recaudit.metrics.intervals import aggregate, mean
from recaudit.metrics.tables import SERIES_SCHEMA, SUMMARY_SCHEMA, user_table
from recaudit.models.base import FittedModel
from recaudit.policies.calibrated import Calibrated, Share
from recaudit.solvers.lists.objective import list_distribution, rank_weights
from recaudit.specification import Count

METRICS = ("recall", "calibration_kl")


def _lambdas(weights: tuple[float, ...]) -> tuple[float, ...]:
    found = tuple(sorted(set(weights)))
    if len(found) < 2:
        raise InputError("weights", received=list(weights), expected="at least two lambdas from 0 to 1")
    return found


Lambdas = Annotated[tuple[Share, ...], AfterValidator(_lambdas)]
WEIGHTS = (0.0, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
"""The paper's."""


@final
class CalibrationCurve(Audit):
    """Recall and C_KL of lists of each length k at each lambda, on held-out ratings; the knee is marked.

    The held-out ratings are a log over the same users and items as the model's. Lists are out of all items that a user
    has not rated; only users with a relevant held-out item count, for both numbers. Lambda weighs scores against C_KL,
    so it is comparable between models only after a `transform`.

    `series` has "recall@10", "calibration_kl@10" and so on over "weight". The knee is the lambda at which the largest
    part of what can be won and lost is on the good side: with recall and the fall of C_KL at the largest k each scaled
    to 0..1 over the curve, the one with the largest sum, the point farthest above the line between the curve's ends
    (of equal ones the smallest lambda). `frame` has both numbers at the knee, beside those at the first lambda.
    """

    metrics = (*(metric for metric in ACCURACY if metric.name == "recall"), CALIBRATION[0])
    needs = ("model", "test")
    second = "test"

    weights: Lambdas = WEIGHTS
    """The lambdas."""
    k: Annotated[tuple[Count, ...], AfterValidator(lambda k: tuple(sorted(set(k)))), Field(min_length=1)] = (10, 50)
    """The lengths of the lists."""
    policy: Calibrated = Calibrated()
    """How lists are made, with each lambda in the place of its weight: scores as they are, as in the paper."""
    relevant: float | None = None
    """The rating from which on a held-out item counts as relevant; without one every held-out item does."""

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
        work = _Measure(model, Calibrator(self.policy, model.data), self.weights, self.k, wanted)
        values = np.concatenate(list(context.engine.map(work, blocks(users), "calibration curve")), axis=3)
        ratios = [
            mean(f"{name}@{length}", values[w, n, m], np.ones(len(users)))
            for w in range(len(self.weights))
            for n, length in enumerate(self.k)
            for m, name in enumerate(METRICS)
        ]
        table, _ = aggregate(ratios, self.bootstrap(context.rng))
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


calibration_curve = Verb(CalibrationCurve, Result)


def knee(recall: FloatArray, apart: FloatArray) -> int:
    """Which point of (points,) keeps most recall for the largest fall of C_KL; see `CalibrationCurve`."""
    return int(np.argmax(scaled(recall) + scaled(-apart)))


@final
@dataclass(frozen=True, eq=False)
class _Measure:
    """Block of users in, (weights, lengths, 2, users) out: recall and C_KL; scores are computed once."""

    model: FittedModel
    calibrator: Calibrator
    weights: tuple[float, ...]
    lengths: tuple[int, ...]
    relevant: sparse.csr_array
    """(users, items)"""

    def __call__(self, users: IntArray) -> FloatArray:
        policy, target = self.calibrator.policy, self.calibrator.target
        distance = partial(kl, smoothing=policy.smoothing)
        scores = self.model.scores(users).numpy()
        unseen = ~self.model.data.seen(users)
        wanted = self.relevant[users].toarray() > 0
        found = np.empty((len(self.weights), len(self.lengths), len(METRICS), len(users)))
        for place, weight in enumerate(self.weights):
            lists = self.calibrator.solve(scores, unseen, users, self.lengths[-1], weight=weight).lists
            hit = np.take_along_axis(wanted, np.maximum(lists, 0), axis=1) & (lists >= 0)
            for n, length in enumerate(self.lengths):
                found[place, n, 0] = hit[:, :length].sum(axis=1) / wanted.sum(axis=1)
                q = list_distribution(lists[:, :length], target.shares, rank_weights(policy.rank_weights, length))
                found[place, n, 1] = target.mean(target.each(distance, target.interests[users], q))
        return found
