"""What calibration costs: accuracy against calibration over lambda, the paper's Table 2 (paper 004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import polars as pl
from scipy import sparse

from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.calibration.calibrator import Calibrator
from recaudit.audits.calibration.measures import kl, list_distribution, rank_weights
from recaudit.audits.lists.recommend import check_length
from recaudit.audits.result import Result
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError
from recaudit.metrics.intervals import Bootstrap, aggregate, mean
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA, user_table
from recaudit.models.base import FittedModel
from recaudit.policies.calibrated import Calibrated

WEIGHTS = (0.0, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
"""The paper's."""
METRICS = ("recall", "calibration_kl")


@checked
def calibration_curve(
    model: FittedModel,
    test: Interactions,
    *,
    weights: Sequence[float] = WEIGHTS,
    k: Sequence[int] = (10, 50),
    policy: Calibrated | None = None,
    relevant: float | None = None,
    confidence: float = 0.95,
    samples: int = 1000,
    rng: int = 0,
    engine: Engine | None = None,
) -> Result:
    """Recall and C_KL of lists of each length k at each lambda, on held-out ratings; the knee is marked.

    `test` is a log over the same users and items as the model's. Lists are those of `policy` (default `Calibrated()`:
    scores as they are, `transform="none"`, as in the paper) with each of the `weights` in turn, over all items that a
    user has not rated; only users with a relevant held-out item count, for both numbers. Lambda weighs scores against
    C_KL, so it is comparable between models only after a `transform`; the settings state which one.

    `series` has "recall@10", "calibration_kl@10" and so on over "weight". The knee is the lambda at which the largest
    part of what can be won and lost is on the good side: with recall and the fall of C_KL at the largest k each scaled
    to 0..1 over the curve, the one with the largest sum, the point farthest above the line between the curve's ends
    (of equal ones the smallest lambda). `frame` has both numbers at the knee, beside those at the first lambda.
    """
    policy, lengths, weights = policy or Calibrated(), tuple(sorted(set(k))), _checked(weights)
    if not lengths:
        raise InputError("k", received="no list length", expected="at least one")
    check_length(lengths[0], "k")
    relevant_items = _relevant(model.data, test, relevant)
    users = np.flatnonzero(np.diff(relevant_items.indptr))
    if not len(users):
        raise InputError("relevant", received=relevant, expected="a rating that some held-out item reaches")
    base = Calibrator.of(policy, model.data)
    work = _Measure(
        model,
        tuple(replace(base, policy=policy.model_copy(update={"weight": weight})) for weight in weights),
        lengths,
        relevant_items,
    )
    values = np.concatenate(list((engine or Serial()).map(work, blocks(users), "calibration curve")), axis=3)
    ratios = [
        mean(f"{name}@{length}", values[w, n, m], np.ones(len(users)))
        for w in range(len(weights))
        for n, length in enumerate(lengths)
        for m, name in enumerate(METRICS)
    ]
    table, _ = aggregate(ratios, Bootstrap(confidence, samples, rng))
    at = pl.Series(np.repeat(weights, len(METRICS) * len(lengths)))
    series = table.with_columns(over=pl.lit("weight"), at=at).select(SERIES_SCHEMA.keys())
    best = _knee(series, lengths[-1])
    return Result(
        audit="calibration_curve",
        settings={
            "k": lengths[-1],
            "knee": weights[best],
            "policy": repr(policy.model_copy(update={"weight": weights[best]})),
            "transform": policy.transform,
            "smoothing": policy.smoothing,
            "relevant": relevant,
            "confidence": confidence,
            "samples": samples,
            "rng": rng,
        },
        frame=_at_knee(series, weights[0], weights[best], lengths[-1]),
        groups=pl.DataFrame(schema=GROUP_SCHEMA),
        users=user_table(
            model.data.user_ids.gather(users),
            dict(zip(METRICS, values[best, -1], strict=True)),
        ),
        items=pl.DataFrame(),
        series=series,
    )


def knee(recall: FloatArray, apart: FloatArray) -> int:
    """Which point of (points,) keeps most recall for the largest fall of C_KL; see `calibration_curve`."""

    def scaled(values: FloatArray) -> FloatArray:
        span = values.max() - values.min()
        return np.asarray((values - values.min()) / (span if span > 0 else 1.0))

    return int(np.argmax(scaled(recall) + scaled(-apart)))


@final
@dataclass(frozen=True, eq=False)
class _Measure:
    """Block of users in, (weights, lengths, 2, users) out: recall and C_KL; scores are computed once."""

    model: FittedModel
    calibrators: tuple[Calibrator, ...]
    lengths: tuple[int, ...]
    relevant: sparse.csr_array
    """(users, items)"""

    def __call__(self, users: IntArray) -> FloatArray:
        scores = self.model.scores(users).numpy()
        unseen = ~self.model.data.seen(users)
        wanted = self.relevant[users].toarray() > 0
        found = np.empty((len(self.calibrators), len(self.lengths), len(METRICS), len(users)))
        for place, calibrator in enumerate(self.calibrators):
            lists = calibrator.lists(scores, unseen, users, self.lengths[-1])
            hit = np.take_along_axis(wanted, np.maximum(lists, 0), axis=1) & (lists >= 0)
            for n, length in enumerate(self.lengths):
                found[place, n, 0] = hit[:, :length].sum(axis=1) / wanted.sum(axis=1)
                found[place, n, 1] = _apart(calibrator, lists[:, :length], users)
        return found


def _apart(calibrator: Calibrator, lists: IntArray, users: IntArray) -> FloatArray:
    """(users,): C_KL, the mean over category systems by importance; NaN where nothing can be measured."""
    policy, target = calibrator.policy, calibrator.target
    p = target.interests[users]
    q = list_distribution(lists, target.shares, rank_weights(policy.rank_weights, lists.shape[1]))
    return target.mean(target.each(lambda p, q: kl(p, q, policy.smoothing), p, q))


def _knee(series: pl.DataFrame, k: int) -> int:
    recall, apart = (series.filter(pl.col("metric") == f"{name}@{k}")["value"] for name in METRICS)
    if apart.null_count():
        raise InputError(
            "model",
            received="lists or histories without any category",
            expected="held-out users with categories in both",
            remedy="Check the categories of the model's log.",
        )
    return knee(recall.to_numpy(), apart.to_numpy())


def _at_knee(series: pl.DataFrame, first: float, best: float, k: int) -> pl.DataFrame:
    """Both numbers at the knee; the baseline is the first lambda's."""
    rows = [
        series.filter((pl.col("metric") == f"{name}@{k}") & (pl.col("at") == weight)).with_columns(metric=pl.lit(name))
        for name in METRICS
        for weight in (best, first)
    ]
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return pl.concat([at.with_columns(baseline=start["value"]) for at, start in pairs]).select(SUMMARY_SCHEMA.keys())


def _checked(weights: Sequence[float]) -> tuple[float, ...]:
    found = tuple(sorted({float(weight) for weight in weights}))
    if len(found) < 2 or not all(0 <= weight <= 1 for weight in found):
        raise InputError("weights", received=list(weights), expected="at least two lambdas from 0 to 1")
    return found


def _relevant(train: Interactions, test: Interactions, relevant: float | None) -> sparse.csr_array:
    """(users, items): 1 where a held-out item is relevant."""
    if not (train.user_ids.equals(test.user_ids) and train.item_ids.equals(test.item_ids)):
        raise InputError(
            "test",
            received=f"{test!r}",
            expected=f"the users and items of the model's log, {train!r}",
            remedy="Make both halves with recaudit.data.splits, which keeps ids.",
        )
    kept = test if relevant is None else test.subset(test.ratings >= relevant)
    return sparse.csr_array((np.ones(len(kept)), kept.items, kept.indptr), shape=(test.n_users, test.n_items))
