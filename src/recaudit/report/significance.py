"""Tests of a run's report, in three families of which each is corrected by Holm's method.

- **models**: each model against each baseline and each other model, on the same users.
- **groups**: each group of users against all other users, for each attribute and model.
- **references**: numbers against a constant, or against a share of the ratings.

Families follow from the configuration of the run, never from its results. On data without any effect, at most 5% of
reports have a false statement of one family. Baselines have no findings of their own, and are not tested as groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any, final

import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray
from recaudit.audits.agency.definitions import EDITOR_CONTRAST, ITEM_CONTRAST
from recaudit.metrics.inference import (
    JACKKNIFE_BLOCKS,
    MIN_USERS,
    PairedDifference,
    adjust_by_holm,
    assign_blocks,
    compute_interval_p_value,
    compute_p_values_of_groups,
    count_permutations,
    estimate_difference,
    estimate_statistic_difference,
)
from recaudit.metrics.intervals import SCALES
from recaudit.metrics.metric import Metric
from recaudit.metrics.paired import difference_table, pair_terms
from recaudit.metrics.terms import TERM_SCHEMA
from recaudit.report.evidence import QUALITY, Evidence, columns
from recaudit.report.kit.claims import LARGEST, LEVEL, ClaimNumber, Effect, in_logs
from recaudit.report.kit.numbers import Estimate
from recaudit.runs.comparison import paired_numbers
from recaudit.status import Status

MODEL_METRICS: Mapping[str, tuple[str, ...]] = {"accuracy": (QUALITY, "rmse"), "folding": ("folding",)}
"""Metrics of each audit by which each model is compared with each baseline and each other model."""

LIST_METRICS: Mapping[str, tuple[str, ...]] = {"exposure": ("coverage",)}
"""Metrics of lists by which each model is compared with each baseline."""

GROUP_METRICS: Mapping[str, tuple[str, ...]] = {
    "accuracy": (QUALITY,),
    "exposure": ("popularity_lift",),
    "reachability": ("discovery",),
    "recourse": ("effort", "within_reach"),
}
"""Metrics of each audit by which groups of users are compared with all other users."""

REFERENCES: Mapping[tuple[str, str], tuple[float, ...]] = {
    ("reachability", "lift"): (1.0, 1.1),
    ("agency", "past_lift"): (1.0,),
    ("agency", "future_lift"): (1.0,),
    ("folding", "spurious_share"): (0.01,),
}
"""Constants that numbers of all users are compared with, by audit and metric."""

CONTRASTS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("agency", "past_lift"): (ITEM_CONTRAST, "ratio"),
    ("agency", "future_lift"): (ITEM_CONTRAST, "ratio"),
    ("agency", "past_instability"): (EDITOR_CONTRAST, "difference"),
    ("agency", "future_instability"): (EDITOR_CONTRAST, "difference"),
}
"""Two groups on the same users, by audit and metric: the grouping, of which the third row is their ratio or difference.
"""

POPULARITY_METRICS: Mapping[str, str] = {"accuracy": "recall", "reachability": "availability"}
"""Metric of each audit that is compared between the most and the least popular quarter of the items."""

RERANKED_METRICS = ("calibration_kl", QUALITY)
"""Metrics whose change by re-ranking is tested."""

MIN_SHARE_OF_RATINGS = 0.01
"""A group of items with a smaller share of the ratings is not compared with it: the ratio is of next to nothing."""

_TERMS = {**columns("user scale", "total weight")}


@final
@dataclass(frozen=True, kw_only=True)
class ModelTest:
    """Difference of two models on the same users.

    Attributes:
        audit: Name of the audit.
        metric: Name of the metric.
        model: Label of the model.
        other: Label of the model that it is compared with.
        difference: Model minus other.
        other_value: Number of the other model on the same users.
        p: P-value, adjusted for the family. None if there is a reason.
        detectable: True difference that is found in 80% of samples. None if there is a reason.
        reason: Code of the reason why there is no test.
    """

    audit: str
    metric: str
    model: str
    other: str
    difference: Estimate
    other_value: float | None
    p: float | None
    detectable: float | None
    reason: str | None

    @property
    def is_significant(self) -> bool:
        """Whether the two models are shown to differ."""
        return self.p is not None and self.p <= LEVEL

    @property
    def is_above(self) -> bool:
        """Whether the model is shown to have the higher number."""
        return self.is_significant and (self.difference.value or 0.0) > 0

    @property
    def is_below(self) -> bool:
        """Whether the model is shown to have the lower number."""
        return self.is_significant and (self.difference.value or 0.0) < 0

    @property
    def number(self) -> ClaimNumber:
        """The test as data."""
        own = self.difference
        return ClaimNumber(
            audit=self.audit,
            metric=self.metric,
            model=self.model,
            baseline=self.other,
            value=own.value,
            lower=own.lower,
            upper=own.upper,
            reference=0.0,
            p=self.p,
            users=own.users,
            reason=self.reason,
        )


@final
@dataclass(frozen=True, kw_only=True)
class GroupTest:
    """A group of users against all other users.

    Attributes:
        audit: Name of the audit.
        metric: Name of the metric.
        model: Label of the model.
        by: Name of the grouping.
        group: Name of the group, as in the tables.
        value: Number of the members that have one.
        rest: Number of all other users that have one.
        users: Number of members that have a value.
        others: Number of other users that have a value.
        effect: How far the two means are apart.
        p: P-value, adjusted for the family. None with too few users.
    """

    audit: str
    metric: str
    model: str
    by: str
    group: str
    value: float
    rest: float
    users: int
    others: int
    effect: Effect
    p: float | None

    @property
    def is_significant(self) -> bool:
        """Whether the group is shown to differ from all other users."""
        return self.p is not None and self.p <= LEVEL

    def number(self, estimate: Estimate | None) -> ClaimNumber:
        """The test as data, with the interval of the group's own number."""
        return ClaimNumber(
            audit=self.audit,
            metric=self.metric,
            model=self.model,
            by=self.by,
            group=self.group,
            value=self.value,
            lower=None if estimate is None else estimate.lower,
            upper=None if estimate is None else estimate.upper,
            reference=self.rest,
            p=self.p,
            users=self.users,
            reason=None if self.p is not None else "too_few_users",
        )


def compare_models(evidence: Evidence) -> list[ModelTest]:
    """Compare each model with each baseline and each other model."""
    return evidence.remember(_compare_models)


def compare_groups(evidence: Evidence) -> list[GroupTest]:
    """Compare each group of users with all other users, for each model that is no baseline."""
    return evidence.remember(_compare_groups)


def find_model_test(evidence: Evidence, model: str, other: str, metric: str) -> ModelTest | None:
    """Find the test of two models, whichever of them the family has first; None where they were not compared."""
    for test in compare_models(evidence):
        if test.metric != metric or {test.model, test.other} != {model, other}:
            continue
        return test if test.model == model else _reverse(test, evidence)
    return None


def compute_reference_p(
    evidence: Evidence, audit: str, metric: str, model: str, reference: float, *, by: str = "", group: str = ""
) -> float:
    """Look up the adjusted p-value of a number against its reference; 1 if it was not tested.

    Args:
        evidence: The run.
        audit: Name of the audit.
        metric: Name of the metric.
        model: Label of the model.
        reference: Constant, or share of the ratings.
        by: Name of the grouping, empty for a number of all users.
        group: Name of the group, as sentences have it.
    """
    return evidence.remember(_compare_with_references).get((audit, metric, model, by, group, reference), 1.0)


def compare_popularity(evidence: Evidence, audit: str, model: str) -> PairedDifference | None:
    """Compare the most with the least popular quarter of the items, on the same users; its p-value is adjusted.

    Returns:
        Most popular minus least popular, or None where this was not measured.
    """
    found = _read_popularity(evidence, audit, model)
    if found is None:
        return None
    p = evidence.remember(_compare_with_references).get((audit, POPULARITY_METRICS[audit], model, "popularity", "", 0))
    return replace(found, p=p)


def compare_reranked(evidence: Evidence, model: str, metric: str) -> PairedDifference:
    """Compare a metric of users' lists after re-ranking with before; the p-value is not adjusted."""
    users = evidence.table(model, "reranking", "users", columns("user", f"{metric} {metric}_reranked"))
    after, before = (users[name].fill_null(math.nan).to_numpy() for name in (f"{metric}_reranked", metric))
    return estimate_difference(after, before, confidence=evidence.confidence)


# Models


def _compare_models(evidence: Evidence) -> list[ModelTest]:
    own = evidence.personalised
    with_baselines = [(model, other) for model in own for other in evidence.references]
    pairs = {audit: [*with_baselines, *combinations(own, 2)] for audit in MODEL_METRICS}
    pairs |= dict.fromkeys(LIST_METRICS, with_baselines)
    tests = [
        test
        for audit, metrics in {**MODEL_METRICS, **LIST_METRICS}.items()
        for model, other in pairs[audit]
        if audit in evidence.run.audits(model) and audit in evidence.run.audits(other)
        for test in _compare_pair(evidence, audit, metrics, model, other)
    ]
    adjusted = adjust_by_holm([math.nan if test.p is None else test.p for test in tests]).tolist()
    return [replace(test, p=None if math.isnan(p) else p) for test, p in zip(tests, adjusted, strict=True)]


def _compare_pair(
    evidence: Evidence, audit: str, metrics: tuple[str, ...], model: str, other: str
) -> Iterator[ModelTest]:
    run, both = evidence.run, (other, model)
    if audit in MODEL_METRICS and all(run.has_table(label, audit, "terms") for label in both):
        about = (pl.col("by") == "") & pl.col("metric").is_in(metrics)
        terms = (run.scan(label, audit, "terms").filter(about) for label in both)
        kinds = [pl.col(name).cast(kind) for name, kind in TERM_SCHEMA.items()]
        pairs = [*pair_terms(*(some.select(kinds).collect() for some in terms))]
    else:
        pairs = paired_numbers(*(run.result(label, audit) for label in both))
    named = [pair for pair in pairs if pair.by == "" and pair.metric in metrics]
    for row in difference_table(named, evidence.confidence).iter_rows(named=True):
        metric = evidence.definitions[row["metric"]]
        yield ModelTest(
            audit=audit,
            metric=metric.name,
            model=model,
            other=other,
            difference=_as_difference(metric, row),
            other_value=row["before"],
            p=row["p"],
            detectable=row["detectable"],
            reason=row["reason"],
        )


def _as_difference(metric: Metric, row: Mapping[str, Any]) -> Estimate:
    cells = {"value": row["difference"], "lower": row["lower"], "upper": row["upper"], "users": row["users"]}
    return Estimate.of(metric, {**cells, "status": Status.SOLVED.value, "baseline": None, "excluded": row["left_out"]})


def _reverse(test: ModelTest, evidence: Evidence) -> ModelTest:
    own = test.difference
    value, lower, upper = (None if end is None else -end for end in (own.value, own.upper, own.lower))
    other_value = test.other_value
    if other_value is not None and own.value is not None:
        other_value += own.value
    reversed_difference = replace(own, value=value, lower=lower, upper=upper)
    return replace(test, model=test.other, other=test.model, difference=reversed_difference, other_value=other_value)


# Groups of users


@final
@dataclass(frozen=True, eq=False)
class _Column:
    """Values of one metric of one model, and who belongs to which group."""

    audit: str
    metric: str
    model: str
    scale: str
    users: pl.Series
    totals: FloatArray
    weights: FloatArray
    groups: tuple[tuple[str, str], ...]
    """By and name of each group."""
    is_member: BoolArray
    """Shape (users, groups)."""

    @property
    def values(self) -> FloatArray:
        """Mean of each user, shape (users,)."""
        return self.totals / self.weights

    def number(self, mask: BoolArray) -> float:
        """Number of some of the users; NaN without any."""
        if not mask.any():
            return math.nan
        mean = np.array([self.totals[mask].sum() / self.weights[mask].sum()])
        return float(SCALES[self.scale](mean)[0])  # type: ignore[index]  # the table has one of them


def _compare_groups(evidence: Evidence) -> list[GroupTest]:
    found = [
        column
        for audit, metrics in GROUP_METRICS.items()
        for model in (evidence.personalised or evidence.references)
        if audit in evidence.run.audits(model)
        for metric in metrics
        if (column := _read_column(evidence, audit, metric, model)) is not None
    ]
    sizes = [(column.is_member.sum(axis=0), len(column.users)) for column in found]
    n_tests = sum(int((np.minimum(members, n - members) >= MIN_USERS).sum()) for members, n in sizes)
    n_permutations = count_permutations(n_tests)
    p_values: list[FloatArray] = [np.empty(0)] * len(found)
    for places in _alike(found):
        first = found[places[0]]
        values = np.column_stack([found[place].values for place in places])
        together = _permute(
            values.tobytes(),
            len(places),
            np.packbits(first.is_member).tobytes(),
            len(first.groups),
            n_permutations,
            evidence.run.manifest.seed,
        )
        for place, own in zip(places, together.T, strict=True):
            p_values[place] = own
    adjusted = iter(adjust_by_holm(np.concatenate([*p_values, np.empty(0)])).tolist())
    return [
        _as_group_test(evidence, column, place, next(adjusted))
        for column in found
        for place in range(len(column.groups))
    ]


def _read_column(evidence: Evidence, audit: str, metric: str, model: str) -> _Column | None:
    """Values and groups of one model; None where there are none."""
    run = evidence.run
    if not (run.has_table(model, audit, "terms") and run.has_table(model, audit, "people")):
        return None
    about = (pl.col("by") == "") & (pl.col("metric") == metric) & (pl.col("weight") > 0)
    terms = (
        run.scan(model, audit, "terms").filter(about).select(pl.col(name).cast(kind) for name, kind in _TERMS.items())
    )
    people = run.scan(model, audit, "people")
    ways = [name for name in people.collect_schema().names() if name in evidence.user_groupings]
    if not ways:
        return None
    named = people.select(pl.col("user", *ways).cast(pl.String))
    rows = terms.join(named, on="user", how="left").collect().sort("user")
    if rows.is_empty():
        return None
    groups = tuple((by, name) for by in ways for name in rows[by].drop_nulls().unique().sort())
    is_member = [(rows[by] == name).fill_null(value=False).to_numpy() for by, name in groups]
    return _Column(
        audit,
        metric,
        model,
        rows["scale"][0],
        rows["user"],
        rows["total"].to_numpy(),
        rows["weight"].to_numpy(),
        groups,
        np.column_stack(is_member) if groups else np.empty((len(rows), 0), dtype=bool),
    )


def _alike(columns: list[_Column]) -> list[list[int]]:
    """Places of columns with the same users and groups, which share their relabellings."""
    found: list[list[int]] = []
    for place, column in enumerate(columns):
        for places in found:
            first = columns[places[0]]
            if first.groups == column.groups and first.users.equals(column.users):
                places.append(place)
                break
        else:
            found.append([place])
    return found


@lru_cache(maxsize=32)
def _permute(
    values: bytes, n_metrics: int, members: bytes, n_groups: int, n_permutations: int, seed: int
) -> FloatArray:
    """P-values of groups, shape (groups, metrics). The page, the terminal and the statement of a run share them."""
    table = np.frombuffer(values).reshape(-1, n_metrics)
    masks = np.unpackbits(np.frombuffer(members, np.uint8), count=len(table) * n_groups).reshape(len(table), n_groups)
    return compute_p_values_of_groups(table, masks.astype(bool), n_permutations=n_permutations, seed=seed)


def _as_group_test(evidence: Evidence, column: _Column, place: int, p: float) -> GroupTest:
    by, name = column.groups[place]
    mask = column.is_member[:, place]
    users, others = int(mask.sum()), int((~mask).sum())
    return GroupTest(
        audit=column.audit,
        metric=column.metric,
        model=column.model,
        by=by,
        group=name,
        value=column.number(mask),
        rest=column.number(~mask),
        users=users,
        others=others,
        effect=_effect_of_group(column.values, mask),
        p=None if math.isnan(p) else p,
    )


def _effect_of_group(values: FloatArray, mask: BoolArray) -> Effect:
    """Distance of the two means in standard deviations between users, with its interval by Welch's error."""
    n, n_others = int(mask.sum()), int((~mask).sum())
    if min(n, n_others) < MIN_USERS:
        return Effect(0.0, -math.inf, math.inf, n)
    members, others = values[mask], values[~mask]
    gap = abs(float(members.mean() - others.mean()))
    error = 1.96 * math.sqrt(members.var(ddof=1) / n + others.var(ddof=1) / n_others)
    deviation = math.sqrt((members.var(ddof=1) + others.var(ddof=1)) / 2)
    if deviation == 0:
        return Effect.within(LARGEST if gap else 0.0, 0.0, n)
    return Effect.within(min(LARGEST, gap / deviation), error / deviation, n)


# Numbers against references

_Key = tuple[str, str, str, str, str, float]
"""Audit, metric, model, grouping, group and reference of a test."""


def _compare_with_references(evidence: Evidence) -> dict[_Key, float]:
    """Adjusted p-values of all numbers that are compared with a reference."""
    tests = dict(_test_references(evidence))
    adjusted = adjust_by_holm(list(tests.values())).tolist()
    return {key: 1.0 if math.isnan(p) else p for key, p in zip(tests, adjusted, strict=True)}


def _test_references(evidence: Evidence) -> Iterator[tuple[_Key, float]]:
    for model in evidence.personalised or evidence.references:
        yield from _test_constants(evidence, model)
        yield from _test_shares(evidence, model)
        yield from _test_contrasts(evidence, model)
        for audit, metric in POPULARITY_METRICS.items():
            difference = _read_popularity(evidence, audit, model)
            if difference is not None and difference.p is not None:
                yield (audit, metric, model, "popularity", "", 0), difference.p
        for metric in RERANKED_METRICS if "reranking" in evidence.run.audits(model) else ():
            change = compare_reranked(evidence, model, metric)
            if change.p is not None:
                yield ("reranking", metric, model, "", "", 0), change.p


def _test_constants(evidence: Evidence, model: str) -> Iterator[tuple[_Key, float]]:
    for (audit, metric), references in REFERENCES.items():
        if (own := evidence.overall(model, metric, audit)) is not None:
            for reference in references:
                yield (audit, metric, model, "", "", reference), _p_of_interval(evidence, own, reference)


def _test_shares(evidence: Evidence, model: str) -> Iterator[tuple[_Key, float]]:
    for by in evidence.item_groupings:
        for group in evidence.groups(model, "share", by):
            share = group.estimate.baseline
            if share is not None and share >= MIN_SHARE_OF_RATINGS:
                p = _p_of_interval(evidence, group.estimate, share, JACKKNIFE_BLOCKS)
                yield ("exposure", "share", model, by, group.name, share), p


def _test_contrasts(evidence: Evidence, model: str) -> Iterator[tuple[_Key, float]]:
    for (audit, metric), (by, kind) in CONTRASTS.items():
        if len(rows := evidence.groups(model, metric, by, audit)) == 3:
            reference = 1.0 if kind == "ratio" else 0.0
            yield (
                (audit, metric, model, by, rows[2].name, reference),
                _p_of_interval(evidence, rows[2].estimate, reference),
            )


def _p_of_interval(evidence: Evidence, own: Estimate, reference: float, most_blocks: int | None = None) -> float:
    """P-value that an interval implies, NaN without one; lifts are compared as logarithms."""
    if own.value is None or own.lower is None or own.upper is None or not own.rests_on_enough:
        return math.nan
    sample = own.users if most_blocks is None else min(own.users, most_blocks)
    if own.metric.format == "times" and min(own.value, own.lower, own.upper, reference) > 0:
        own, reference = in_logs(own), math.log(reference)
    ends = (own.value or 0.0, own.lower or 0.0, own.upper or 0.0)
    return compute_interval_p_value(*ends, reference, sample - 1, confidence=evidence.confidence)


def _read_popularity(evidence: Evidence, audit: str, model: str) -> PairedDifference | None:
    if audit not in evidence.run.audits(model) or not evidence.run.has_table(model, audit, "terms"):
        return None
    metric = POPULARITY_METRICS[audit]
    about = (pl.col("by") == "popularity") & (pl.col("metric") == metric) & (pl.col("weight") > 0)
    schema = columns("user group", "total weight")
    terms = evidence.run.scan(model, audit, "terms").filter(about)
    rows = terms.select(pl.col(name).cast(kind) for name, kind in schema.items()).collect()
    groups = rows["group"].unique().sort()
    if len(groups) < 2:
        return None
    users = rows.select(pl.col("user").unique().sort())
    sides = []
    for name in (groups[-1], groups[0]):
        own = users.join(rows.filter(group=name), on="user", how="left", maintain_order="left")
        sides.append([own[part].fill_null(0.0).to_numpy() for part in ("total", "weight")])
    (high, high_weights), (low, low_weights) = sides
    if not (high_weights.any() and low_weights.any()):
        return None
    blocks = assign_blocks(len(users))
    n_blocks = int(blocks.max()) + 1

    def leave_out(totals: FloatArray, weights: FloatArray) -> FloatArray:
        parts = [part.sum() - np.bincount(blocks, part, n_blocks) for part in (totals, weights)]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(parts[0] / parts[1])

    without = leave_out(high, high_weights), leave_out(low, low_weights)
    if not np.isfinite(without).all():
        return None
    return estimate_statistic_difference(
        float(high.sum() / high_weights.sum()),
        float(low.sum() / low_weights.sum()),
        *without,
        n_users=len(users),
        n_changed=int((high * low_weights != low * high_weights).sum()),
        confidence=evidence.confidence,
    )
