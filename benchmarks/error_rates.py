"""Measure how often reports, comparisons and gates state something false, and how often they find what is there.

    python benchmarks/error_rates.py [--samples 400] [--end-to-end 300] [--seed 32] [--only TEXT] [--quick]

Errors: samples without any effect. Models are exchangeable for each user, or differ by exactly the margin of a gate;
membership in groups is random, with groups from about two users to a third of all. A sample counts if any statement of
a family is made, by the codes of findings, verdicts and outcomes. The share of such samples may be at most 5% (0.1% for
a memorized test set) plus two standard errors.

Power: samples with a difference as large as the stated detectable difference, which at least 70% of the samples must
find. Honest models and models that were trained on the test set: none of the first and all of the second are reported.

"End to end" are real results of the audits: lists of 5 of 200 items, with sexes, 7 ages and 15 cities. Exit code 1 if a
bound is exceeded. `--quick` runs every part with a few samples, which are too few for the bounds to be judged.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from math import sqrt
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import stats
from threadpoolctl import threadpool_limits

import recaudit as ra
from recaudit.arrays import FloatArray
from recaudit.audits.lists.accuracy import Accuracy
from recaudit.audits.lists.exposure import Exposure
from recaudit.audits.result import Result
from recaudit.data import Interactions, splits, synthetic
from recaudit.metrics.inference import (
    MIN_REFITS,
    adjust_by_holm,
    compute_detectable_difference,
    compute_memory_limit,
    compute_refits_p_value,
)
from recaudit.metrics.intervals import Ratio, aggregate, mean
from recaudit.metrics.tables import GROUP_SCHEMA
from recaudit.metrics.terms import term_table
from recaudit.models.base import FittedModel, Recommender
from recaudit.report.evidence import Evidence
from recaudit.report.findings import claims_of, headlines_of
from recaudit.report.significance import compare_groups, compare_models
from recaudit.runs import Run
from recaudit.runs.comparison import decide, differences, paired_numbers
from recaudit.runs.folder import Journal
from recaudit.runs.gate import Gate, GateQuestion
from recaudit.runs.gate.evidence import apply_margin_test, apply_threshold_test
from recaudit.runs.gate.judging import judged
from recaudit.runs.manifest import AuditRecord, DataRecord, ModelRecord
from recaudit.seeding import derive, generator

SEED = 32
SAMPLES, SAMPLES_END_TO_END, SAMPLES_QUICK = 400, 300, 2
MEMORY_SAMPLES = 10
"""Samples of the interval for memorized test sets, as a multiple of the others: its level is 0.1%."""
WORLDS = 8
"""Datasets, on each of which one honest model of five kinds is tested, and one that was trained on the test set."""
REFITS = 5
POWER_SHARE = 0.5
"""Samples of a study of power, as a share of the others: its bound is far from the expected share."""

LEVEL, MEMORY_LEVEL, MIN_POWER = 0.05, 0.001, 0.70

ITEMS, LENGTH, HISTORY = 200, 5, 10
AGES = np.array([0.04, 0.18, 0.34, 0.2, 0.1, 0.08, 0.06])
CITIES = 1.0 / np.arange(1, 16) ** 1.6
RANKING_METRICS = ("ndcg", "recall", "precision", "map", "mrr")

MODEL_CODES = frozenset(
    {
        "accuracy.above-baseline",
        "accuracy.below-baseline",
        "accuracy.above-other-model",
        "accuracy.rating-error-and-ranking-disagree",
    }
)
GROUP_CODES = frozenset({"accuracy.group-differs", "exposure.group-differs", "headline.group-differs"})
DIFFERENT = ("better", "worse", "changed")
"""Verdicts of a comparison that state a difference."""


class Part(NamedTuple):
    """One row of the table: a family of statements and the samples that it is measured on."""

    family: str
    setting: str
    is_power: bool = False
    level: float = LEVEL
    """Share of samples that may have a false statement; with power, of samples that must have the true one."""
    is_exact: bool = False
    """If True, the bound is the level itself, without standard errors."""


class Sampled(NamedTuple):
    """Result of one sample of one part."""

    is_stated: bool
    n_tests: int


Samples = dict[Part, Sampled]
Sampler = Callable[[np.random.Generator], Samples]


# Results


def sample_groups(rng: np.random.Generator, n_users: int) -> dict[str, NDArray[np.str_]]:
    """Assign users to groups at random: sex (2), age (7, from 4%) and city (15, from about 0.7%)."""
    return {
        "sex": rng.integers(0, 2, n_users).astype(np.str_),
        "age": rng.choice(len(AGES), n_users, p=AGES / AGES.sum()).astype(np.str_),
        "city": rng.choice(len(CITIES), n_users, p=CITIES / CITIES.sum()).astype(np.str_),
    }


def make_result(
    values: Mapping[str, FloatArray], groups: Mapping[str, NDArray[np.str_]], *, has_group_table: bool = False
) -> Result:
    """Make an accuracy result of users' own values.

    Args:
        values: Values of the users by metric, shape (users,); squared errors for "rmse".
        groups: Group of each user by grouping, shape (users,).
        has_group_table: If True, the result has the values of groups with their intervals, which a report shows.
    """
    n_users = len(next(iter(values.values())))
    ids = pl.Series([f"u{place:05}" for place in range(n_users)])

    def pool(is_member: NDArray[np.bool_], by: str = "", group: str = "") -> Iterator[Ratio]:
        for metric, own in values.items():
            scale: Any = "root" if metric == "rmse" else "mean"
            yield mean(metric, own, is_member.astype(np.float64), by, group, scale=scale)

    everybody = list(pool(np.ones(n_users, dtype=bool)))
    by_group = [
        ratio
        for by, own in (groups if has_group_table else {}).items()
        for group in np.unique(own)
        for ratio in pool(own == group, by, str(group))
    ]
    summary, grouped = aggregate([*everybody, *by_group], {})
    people = {"user": ids, **{by: pl.Series(own.tolist()) for by, own in groups.items()}}
    tables = {
        "summary": summary,
        "groups": grouped if len(grouped) else pl.DataFrame(schema=GROUP_SCHEMA),
        "users": pl.DataFrame({"user": ids, **values}),
        "terms": term_table(everybody, ids),
        "people": pl.DataFrame(people),
    }
    return Result(Accuracy(k=LENGTH, by=tuple(groups)), tables, rng=0)


def write_run(folder: Path, models: Mapping[str, tuple[str, Sequence[Result]]], data: DataRecord, seed: int) -> Run:
    """Write a run folder of results.

    Args:
        folder: Folder that does not exist yet.
        models: Kind and results of each model by label.
        data: Description of the data.
        seed: Seed of the run.
    """
    manifest = AuditRecord(
        recaudit=ra.__version__,
        status="running",
        seed=seed,
        started="2026-01-01T00:00:00+00:00",
        seconds=0.0,
        config={},
        config_hash="",
        data=data,
        versions={},
        models=tuple(ModelRecord(label=label, kind=kind, settings={}) for label, (kind, _) in models.items()),
        audits=tuple(dict.fromkeys(result.kind for _, results in models.values() for result in results)),
        steps=(),
    )
    folder.mkdir()
    journal = Journal.begin(folder, manifest, fresh=True)
    for label, (_, results) in models.items():
        for result in results:
            journal.add_step(label, result.kind, result, 0.0)
    journal.complete()
    return Run.open(folder)


def describe(n_users: int, attributes: Sequence[str]) -> DataRecord:
    return DataRecord(
        name="sample",
        fingerprint="0",
        users=n_users,
        items=ITEMS,
        ratings=0,
        train=0,
        test=0,
        scale=(1.0, 5.0),
        attributes=tuple(attributes),
        categories=(),
    )


# Statements of the families


def report_families(
    models: Mapping[str, tuple[str, Sequence[Result]]], data: DataRecord, seed: int
) -> tuple[Sampled, Sampled]:
    """Return whether the report of a run states a difference of models, and of groups: findings and marked tests."""
    with tempfile.TemporaryDirectory() as folder:
        evidence = Evidence(write_run(Path(folder) / "run", models, data, seed))
        codes = {claim.code for claim in claims_of(evidence)[0]} | {claim.code for claim in headlines_of(evidence)}
        of_models, of_groups = compare_models(evidence), compare_groups(evidence)
    return (
        Sampled(
            bool(codes & MODEL_CODES) or any(test.is_significant for test in of_models),
            sum(test.p is not None for test in of_models),
        ),
        Sampled(
            bool(codes & GROUP_CODES) or any(test.is_significant for test in of_groups),
            sum(test.p is not None for test in of_groups),
        ),
    )


def comparison_families(before: Sequence[Result], after: Sequence[Result]) -> tuple[Sampled, Sampled]:
    """Return whether a comparison of two runs states a difference for all users, and for groups."""
    tables = [differences(old, new) for old, new in zip(before, after, strict=True)]
    found = decide(pl.concat(tables))
    families = (found.filter(pl.col("by") == ""), found.filter(pl.col("by") != ""))
    all_users, groups = (
        Sampled(bool(rows["verdict"].is_in(DIFFERENT).any()), rows["adjusted"].count()) for rows in families
    )
    return all_users, groups


def decide_gate(before: Sequence[Result], after: Sequence[Result], gate: Gate) -> tuple[str, int]:
    """Return the outcome of a gate for two runs: passed, failed or undecided, and the number of tested rules."""
    numbers: dict[tuple[str, str, str], Any] = {}
    rows: dict[tuple[str, str, str], Any] = {}
    for old, new in zip(before, after, strict=True):
        numbers |= {(own.metric, own.by, own.group): own for own in paired_numbers(old, new)}
        rows |= {(row["metric"], row["by"], row["group"]): row for row in differences(old, new).to_dicts()}
        rows |= {(row["metric"], "thresholds", ""): row | {"group": ""} for row in new.frame.to_dicts()}
    metrics = {name: metric for result in after for name, metric in result.metrics.items()}
    questions = []
    for place, rule in enumerate(gate.rules, start=1):
        key = (rule.metric, rule.by or "", rule.group or "")
        question = GateQuestion(rule, place, "model", rule.measured_by, rule.by or "", rule.group or "")
        if rule.has_margin:
            questions.append(apply_margin_test(question, rows[key], numbers[key], metrics[rule.metric]))
        else:
            row = rows[rule.metric, "thresholds", ""]
            questions.append(apply_threshold_test(question, row, numbers[key], metrics[rule.metric]))
    answers = judged(questions)
    outcomes = {answer.outcome for answer in answers}
    n_tests = sum(question.test is not None and question.test.p_fail is not None for question in questions)
    return next(outcome for outcome in ("failed", "undecided", "passed") if outcome in outcomes), n_tests


def gate_of(*rules: Mapping[str, object]) -> Gate:
    return Gate.model_validate({"rule": rules})


# Distributions of users' values


def ndcg_values(rng: np.random.Generator, n_users: int) -> FloatArray:
    """Return values of which 60% are 0."""
    return (rng.random(n_users) < 0.4) * rng.beta(1.5, 3, n_users)


def hit_values(rng: np.random.Generator, n_users: int) -> FloatArray:
    """Return values of which 95% are 0, and the others 1."""
    return (rng.random(n_users) < 0.05).astype(np.float64)


def middle_values(rng: np.random.Generator, n_users: int) -> FloatArray:
    """Return values from 0.3 to 0.7, with mean 0.5, which margins do not move beyond the bounds of a metric."""
    return 0.3 + 0.4 * rng.beta(2, 2, n_users)


DISTRIBUTIONS = {"nDCG, 60% zeros": ndcg_values, "hits, 95% zeros": hit_values, "symmetric": middle_values}


def sample_values(rng: np.random.Generator, n_users: int, name: str) -> dict[str, FloatArray]:
    """Sample five metrics of a model: three that depend on each other as metrics of lists do, and two on their own."""
    distribution = DISTRIBUTIONS[name]
    first = distribution(rng, n_users)
    values = [first, first * (0.5 + 0.5 * rng.random(n_users)), np.minimum(1.0, first * 1.2)]
    values += [distribution(rng, n_users) for _ in range(2)]
    return dict(zip(RANKING_METRICS, values, strict=True))


# Errors


def report_models(rng: np.random.Generator, n_users: int, name: str) -> Samples:
    """Three models and two baselines that are exchangeable for each user."""
    kinds = {"A": "ease", "B": "ease", "C": "als", "Popular": "top-pop", "Random": "random"}
    models = {
        label: (
            kind,
            [make_result({"ndcg": DISTRIBUTIONS[name](rng, n_users), "rmse": rng.lognormal(0, 1, n_users)}, {})],
        )
        for label, kind in kinds.items()
    }
    found, _ = report_families(models, describe(n_users, ()), int(rng.integers(2**31)))
    return {Part("report, models", f"{name}, {n_users} users"): found}


def report_groups(rng: np.random.Generator, n_users: int, name: str) -> Samples:
    """Groups to which users belong at random, of two models."""
    groups = sample_groups(rng, n_users)
    models = {
        label: ("ease", [make_result({"ndcg": DISTRIBUTIONS[name](rng, n_users)}, groups, has_group_table=True)])
        for label in "AB"
    }
    _, found = report_families(models, describe(n_users, tuple(groups)), int(rng.integers(2**31)))
    return {Part("report, groups", f"{name}, {n_users} users"): found}


def comparison(rng: np.random.Generator, n_users: int, name: str) -> Samples:
    """Two exchangeable models, compared for all users and for each group."""
    groups = sample_groups(rng, n_users)
    before, after = (make_result(sample_values(rng, n_users, name), groups) for _ in range(2))
    all_users, by_group = comparison_families([before], [after])
    setting = f"{name}, {n_users} users"
    return {Part("comparison, all users", setting): all_users, Part("comparison, groups", setting): by_group}


MARGIN, SHARE = 0.02, 0.05
GATE = gate_of(
    {"metric": "ndcg", "not_worse_by": MARGIN},
    {"metric": "recall", "not_worse_by": f"{SHARE:.0%}"},
    {"metric": "precision", "at_least": 0.5},
    {"metric": "map", "not_lower_by": MARGIN},
    {"metric": "mrr", "not_worse_by": MARGIN},
    {"metric": "mrr", "not_worse_by": MARGIN, "by": "half", "group": "0"},
)


def gate_at_margins(rng: np.random.Generator, n_users: int) -> Samples:
    """Six rules, each exactly at its margin or threshold, which is allowed; and one, with the others satisfied by far.

    In the second sample the rule at its margin must not pass, whichever it is.
    """
    before = {metric: middle_values(rng, n_users) for metric in RANKING_METRICS}
    again = {metric: middle_values(rng, n_users) for metric in RANKING_METRICS}
    at_margin = {metric: own - MARGIN for metric, own in again.items()}
    at_margin |= {"recall": (1 - SHARE) * again["recall"], "precision": again["precision"]}
    groups = {"half": rng.integers(0, 2, n_users).astype(np.str_)}
    old = make_result(before, groups)
    failed, n_tests = decide_gate([old], [make_result(at_margin, groups)], GATE)
    violated = rng.choice(RANKING_METRICS)
    one_at_margin = {metric: own + 0.25 for metric, own in again.items()} | {violated: at_margin[violated]}
    passed, _ = decide_gate([old], [make_result(one_at_margin, groups)], GATE)
    setting = f"6 rules, {n_users} users"
    return {
        Part("gate fails", f"{setting}, all at the margin"): Sampled(failed == "failed", n_tests),
        Part("gate passes", f"{setting}, one at the margin"): Sampled(passed == "passed", n_tests),
    }


def gate_with_rare_losses(rng: np.random.Generator, n_users: int, share: float) -> Samples:
    """A share of the users loses everything, and the margin is this share."""
    before = np.ones(n_users)
    after = (rng.random(n_users) >= share).astype(np.float64)
    old, new = (make_result({"ndcg": own}, {}) for own in (before, after))
    outcome, n_tests = decide_gate([old], [new], gate_of({"metric": "ndcg", "not_worse_by": share}))
    setting = f"{share:.0%} of users lose all, {n_users} users"
    return {
        Part("gate passes", setting): Sampled(outcome == "passed", n_tests),
        Part("gate fails", setting): Sampled(outcome == "failed", n_tests),
    }


def refits(rng: np.random.Generator, n_refits: int) -> Samples:
    """Three recommenders, one with half the spread over its refits, in two metrics."""
    spreads = np.array([1.0, 1.0, 0.5])
    values = rng.standard_normal((2, 3, n_refits)) * spreads[:, None]
    p_values = [
        compute_refits_p_value(own[one], own[other]) for own in values for one, other in combinations(range(3), 2)
    ]
    adjusted = adjust_by_holm([np.nan if p is None else p for p in p_values])
    found = Sampled(bool((adjusted <= LEVEL).any()), int(np.isfinite(adjusted).sum()))
    return {Part("refits", f"3 recommenders, {n_refits} refits"): found}


def memory_interval(rng: np.random.Generator) -> Samples:
    """One more honest refit of a recommender that varies so much that the smallest effect does not matter."""
    *values, own = rng.normal(0.5, 0.1, REFITS + 1)
    limit = compute_memory_limit(np.array(values))
    assert limit is not None
    return {Part("memory", f"normal, {REFITS} refits", level=MEMORY_LEVEL): Sampled(own > limit, 1)}


# End to end


def sample_dataset(rng: np.random.Generator, n_users: int) -> tuple[Interactions, Interactions, FloatArray]:
    """Sample training interactions with groups of users, held-out interactions, and mean scores (users, items)."""
    appeal, taste = rng.standard_normal(ITEMS), rng.standard_normal((n_users, ITEMS))
    scores = appeal + taste
    rated = np.argsort(-(appeal + rng.gumbel(size=scores.shape)), axis=1)[:, :HISTORY]
    is_rated = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(is_rated, rated, True, axis=1)
    is_relevant = (rng.random(scores.shape) < np.minimum(0.5, 0.05 * np.exp(taste))) & ~is_rated
    ids = np.array([f"u{place:05}" for place in range(n_users)])
    users, items = np.nonzero(is_rated | is_relevant)
    frame = pl.DataFrame({"user": ids[users], "item": items, "rating": 1.0})
    data = Interactions.from_frame(frame, items=pl.Series(np.arange(ITEMS)))
    people = pl.DataFrame({"user": ids, **{by: own.tolist() for by, own in sample_groups(rng, n_users).items()}})
    data = data.with_users(people, attributes=["sex", "age", "city"])
    is_held_out = is_relevant[data.users, data.items]
    return data.subset(~is_held_out), data.subset(is_held_out), np.where(is_rated, -np.inf, scores)


def end_to_end(rng: np.random.Generator, n_users: int) -> Samples:
    """Two models and a baseline whose lists have one distribution for each user, audited, compared and gated."""
    train, test, scores = sample_dataset(rng, n_users)
    by = ("sex", "age", "city")
    audits = Accuracy(k=LENGTH, by=by), Exposure(k=LENGTH, by=by)
    results = []
    for _ in range(3):
        lists = np.argsort(-(scores + rng.gumbel(size=scores.shape)), axis=1)[:, :LENGTH]
        results.append([audits[0].of_lists(train, test, lists), audits[1].of_lists(train, lists)])
    kinds = {"A": "ease", "B": "ease", "Popular": "top-pop"}
    models = {label: (kind, own) for (label, kind), own in zip(kinds.items(), results, strict=True)}
    data = DataRecord.of("sample", train, train, test, {})
    of_models, of_groups = report_families(models, data, int(rng.integers(2**31)))
    all_users, by_group = comparison_families(results[0], results[1])
    metrics = ("ndcg", "precision", "recall", "coverage", "gini", "popularity_correlation")
    margins = {"gini": "not_higher_by", "popularity_correlation": "not_higher_by"}
    gate = gate_of(*({"metric": metric, margins.get(metric, "not_lower_by"): 0} for metric in metrics))
    outcome, n_rules = decide_gate(results[0], results[1], gate)
    setting = f"end to end, {n_users} users"
    return {
        Part("report, models", setting): of_models,
        Part("report, groups", setting): of_groups,
        Part("comparison, all users", setting): all_users,
        Part("comparison, groups", setting): by_group,
        Part("gate fails", f"{setting}, margins 0"): Sampled(outcome == "failed", n_rules),
    }


# Power


def power_part(family: str, setting: str) -> Part:
    return Part(family, setting, is_power=True, level=MIN_POWER)


def sample_pair(rng: np.random.Generator, n_users: int, name: str, gain: float = 0.0) -> list[Result]:
    """Two models of the same users, of which the second is better by `gain`."""
    taste = DISTRIBUTIONS[name](rng, n_users)
    sides = [0.5 * taste + 0.5 * DISTRIBUTIONS[name](rng, n_users) for _ in range(2)]
    return [make_result({"ndcg": own}, {}) for own in (sides[0], sides[1] + gain)]


@cache
def detectable_difference(n_users: int, name: str) -> float:
    """Return the median of the detectable difference that comparisons of such models state."""
    rng = generator(SEED, "pilot", n_users, name)
    return float(np.median([differences(*sample_pair(rng, n_users, name))["detectable"][0] for _ in range(60)]))


def comparison_power(rng: np.random.Generator, n_users: int, name: str) -> Samples:
    before, after = sample_pair(rng, n_users, name, detectable_difference(n_users, name))
    verdict = decide(differences(before, after))["verdict"][0]
    return {power_part("comparison, all users", f"{name}, {n_users} users"): Sampled(verdict == "better", 1)}


def report_models_power(rng: np.random.Generator, n_users: int, name: str) -> Samples:
    baseline, model = sample_pair(rng, n_users, name, detectable_difference(n_users, name))
    with tempfile.TemporaryDirectory() as folder:
        models = {"A": ("ease", [model]), "Popular": ("top-pop", [baseline])}
        evidence = Evidence(write_run(Path(folder) / "run", models, describe(n_users, ()), 0))
        codes = {claim.code for claim in claims_of(evidence)[0]}
    found = Sampled("accuracy.above-baseline" in codes, 1)
    return {power_part("report, models", f"{name}, {n_users} users"): found}


def report_groups_power(rng: np.random.Generator, n_users: int) -> Samples:
    """A sixth of the users differs by what Welch's test detects at half the level: two groups are two tests."""
    values, is_member = ndcg_values(rng, n_users), np.arange(n_users) < n_users // 6
    sizes = np.array([is_member.sum(), (~is_member).sum()])
    deviation = sqrt(0.4 * stats.beta(1.5, 3).moment(2) - (0.4 * stats.beta(1.5, 3).mean()) ** 2)
    error = deviation * sqrt((1 / sizes).sum())
    values = values + is_member * compute_detectable_difference(error, int(sizes.min()) - 1, level=LEVEL / 2)
    groups = {"group": np.where(is_member, "few", "others")}
    result = make_result({"ndcg": values}, groups, has_group_table=True)
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder) / "run", {"A": ("ease", [result])}, describe(n_users, tuple(groups)), 0)
        codes = {claim.code for claim in claims_of(Evidence(run))[0]}
    found = Sampled("accuracy.group-differs" in codes, 2)
    return {power_part("report, groups", f"a sixth of {n_users} users"): found}


@cache
def gate_detectable_difference(n_users: int, name: str) -> float:
    """Return the median of the distance from the margin at which gates state that a rule is decided."""
    rng = generator(SEED, "gate pilot", n_users, name)
    gate, distances = gate_of({"metric": "ndcg", "not_worse_by": MARGIN}), []
    for _ in range(60):
        before, after = sample_pair(rng, n_users, name)
        (number,) = paired_numbers(before, after)
        (row,) = differences(before, after).to_dicts()
        question = GateQuestion(gate.rules[0], 1, "model", "accuracy")
        test = apply_margin_test(question, row, number, after.metrics["ndcg"]).test
        distances.append(np.nan if test is None or test.detectable is None else test.detectable)
    return float(np.median(distances))


def gate_power(rng: np.random.Generator, n_users: int, name: str) -> Samples:
    """An unchanged model and a margin as large as the detectable distance; and a model that is worse by twice that."""
    distance = gate_detectable_difference(n_users, name)
    gate = gate_of({"metric": "ndcg", "not_worse_by": distance})
    before, after = sample_pair(rng, n_users, name)
    passed, _ = decide_gate([before], [after], gate)
    before, after = sample_pair(rng, n_users, name, -2 * distance)
    failed, _ = decide_gate([before], [after], gate)
    setting = f"{name}, {n_users} users"
    return {
        power_part("gate passes", setting): Sampled(passed == "passed", 1),
        power_part("gate fails", setting): Sampled(failed == "failed", 1),
    }


def refits_power(rng: np.random.Generator, n_refits: int) -> Samples:
    """Two recommenders that differ by what Student's t of two samples of refits detects."""
    difference = compute_detectable_difference(sqrt(2 / n_refits), 2 * n_refits - 2)
    p = compute_refits_p_value(rng.standard_normal(n_refits) + difference, rng.standard_normal(n_refits))
    found = Sampled(p is not None and p <= LEVEL, 1)
    return {power_part("refits", f"2 recommenders, {n_refits} refits"): found}


# Memorized test sets


@final
class TwoTower(Recommender):
    """A user tower that averages embeddings of the history, an item tower, and a softmax over all items."""

    factors: int = 16
    epochs: int = 40
    learning_rate: float = 0.03

    def fit(self, data: Interactions, rng: int = 0) -> FittedModel:
        """Train with Adam on a random 30% of each history, given the rest."""
        random = np.random.default_rng(rng)
        seen = (data.matrix("float64").toarray() > 0).astype(np.float64)
        history, items = (0.1 * random.standard_normal((data.n_items, self.factors)) for _ in range(2))
        bias = np.log(seen.sum(axis=0) + 1)
        parameters = [history, items]
        first, second = ([np.zeros_like(own) for own in parameters] for _ in range(2))
        for step in range(1, self.epochs + 1):
            given = seen * (random.random(seen.shape) < 0.7)
            target = seen - given
            given /= np.maximum(given.sum(axis=1, keepdims=True), 1)
            users = given @ history
            logits = users @ items.T + bias
            probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
            probabilities /= probabilities.sum(axis=1, keepdims=True)
            slope = (probabilities * target.sum(axis=1, keepdims=True) - target) / max(1.0, target.sum())
            gradients = given.T @ (slope @ items), slope.T @ users
            for place, (own, gradient) in enumerate(zip(parameters, gradients, strict=True)):
                first[place] = 0.9 * first[place] + 0.1 * gradient
                second[place] = 0.99 * second[place] + 0.01 * gradient**2
                change = first[place] / (1 - 0.9**step) / (np.sqrt(second[place] / (1 - 0.99**step)) + 1e-8)
                np.subtract(own, self.learning_rate * change, out=own)
        users = seen / np.maximum(seen.sum(axis=1, keepdims=True), 1) @ history
        return ra.models.from_factors(users, items, data, item_bias=bias, predicts_ratings=False)


def find_recommender(kind: str, train: Interactions) -> Recommender:
    """Return a recommender of this kind; those of implicit as `adapt` returns them with a trained model."""
    if kind == "EASE":
        return ra.models.EASE(regularization=100.0)
    if kind == "implicit ALS":
        return ra.models.WALS(factors=32, values="ones", unobserved_weight=0.1, regularization=1.0, center="none")
    if kind == "two-tower":
        return TwoTower()
    from implicit.cpu.bpr import BayesianPersonalizedRanking  # noqa: PLC0415  an extra of the benchmarks
    from implicit.nearest_neighbours import CosineRecommender  # noqa: PLC0415

    model: Any = CosineRecommender(K=50, num_threads=1)
    if kind == "BPR":
        model = BayesianPersonalizedRanking(factors=32, iterations=100, learning_rate=0.05, num_threads=1)
    model.fit(train.matrix(), show_progress=False)
    recommender = ra.models.adapt(model, train).recommender
    assert recommender is not None
    return recommender


KINDS = ("item-kNN cosine", "EASE", "implicit ALS", "two-tower", "BPR")


def memory(rng: np.random.Generator, kind: str) -> Samples:
    """An honest model, and one of the same kind that was trained on the whole test set.

    Users rate about a twentieth of the catalogue. If they rate a sixth of it, a two-tower network that was trained on
    the test set is not recognized: it learns to rank the items of a history low.
    """
    seed = int(rng.integers(2**31))
    data = synthetic.demo_world(seed, users=400, items=800).data
    train, test = splits.random(data, 0.2, seed)
    recommender = find_recommender(kind, train)
    found = {}
    for label, interactions in (("honest models", train), ("trained on the test set", data)):
        scores = recommender.fit(interactions, derive(seed, label)).scores(np.arange(data.n_users))
        model = ra.models.from_factors(scores, np.eye(data.n_items), train, predicts_ratings=False)
        model = model.from_elsewhere().with_recommender(recommender)
        fact = ra.accuracy(model, test, refits=REFITS, rng=seed).facts["memory"]
        if fact["status"] not in ("memory", "no_sign"):
            raise RuntimeError(f"{kind}: the test for memorized interactions returned {fact['status']!r}")
        is_leak = label != "honest models"
        part = Part("memory", label, is_power=is_leak, level=float(is_leak), is_exact=True)
        found[part] = Sampled(fact["status"] == "memory", 1)
    return found


# Measuring


@final
@dataclass(frozen=True)
class Study:
    """A sampler, and the number of its samples.

    Attributes:
        name: Name, which the seeds of the samples are derived from.
        sample: Function that makes one sample of one or several parts.
        samples: Number of samples.
        together: Number of samples that one task makes.
    """

    name: str
    sample: Sampler
    samples: int
    together: int = 10


def studies(samples: int, end_to_end_samples: int, worlds: int) -> Iterator[Study]:
    """List everything that is measured, the slowest first."""
    power_samples = max(2, round(POWER_SHARE * samples))
    for kind in KINDS:
        yield Study(f"memory {kind}", partial(memory, kind=kind), worlds, 1)
    for n_users in (300, 60):
        yield Study(f"end to end {n_users}", partial(end_to_end, n_users=n_users), end_to_end_samples, 5)
    for name, n_users in (("hits, 95% zeros", 300), ("nDCG, 60% zeros", 60)):
        settings: dict[str, Any] = {"n_users": n_users, "name": name}
        yield Study(f"groups {settings}", partial(report_groups, **settings), samples)
        yield Study(f"comparison {settings}", partial(comparison, **settings), samples)
        yield Study(f"models {settings}", partial(report_models, **settings), samples)
    for n_users in (60, 300):
        yield Study(f"gate {n_users}", partial(gate_at_margins, n_users=n_users), samples, 40)
    yield Study("rare losses", partial(gate_with_rare_losses, n_users=300, share=0.01), samples, 100)
    for n_refits in (MIN_REFITS, 5):
        yield Study(f"refits {n_refits}", partial(refits, n_refits=n_refits), samples, 40)
    yield Study("memory", memory_interval, MEMORY_SAMPLES * samples, 10_000)
    for name, n_users in (("symmetric", 10), ("symmetric", 30), ("nDCG, 60% zeros", 300)):
        settings = {"n_users": n_users, "name": name}
        yield Study(f"comparison power {settings}", partial(comparison_power, **settings), power_samples, 40)
    yield Study("models power", partial(report_models_power, n_users=100, name="nDCG, 60% zeros"), power_samples)
    yield Study("groups power", partial(report_groups_power, n_users=300), power_samples)
    for name, n_users in (("symmetric", 100), ("nDCG, 60% zeros", 300)):
        settings = {"n_users": n_users, "name": name}
        yield Study(f"gate power {settings}", partial(gate_power, **settings), power_samples, 40)
    yield Study("refits power", partial(refits_power, n_refits=5), power_samples, 100)


Task = tuple[Study, int, range]
"""A study, the seed, and the numbers of the samples."""


def run_task(task: Task) -> list[Samples]:
    """Make the samples of one task. Each depends on the seed, the study and its number only."""
    warnings.simplefilter("ignore")
    study, seed, numbers = task
    with threadpool_limits(1):  # the processes share the cores
        return [study.sample(generator(seed, study.name, number)) for number in numbers]


@final
@dataclass(frozen=True)
class Rate:
    """Share of the samples of a part with its statement.

    Attributes:
        part: The part.
        stated: Number of samples with the statement.
        samples: Number of samples.
        tests: Mean number of tests in the family.
    """

    part: Part
    stated: int
    samples: int
    tests: float

    @property
    def bound(self) -> float:
        """Largest share of false statements, or smallest share of true ones."""
        if self.part.is_power or self.part.is_exact:
            return self.part.level
        return self.part.level + 2 * sqrt(self.part.level * (1 - self.part.level) / self.samples)

    @property
    def is_within(self) -> bool:
        """Whether the bound holds."""
        share = self.stated / self.samples
        return share >= self.bound if self.part.is_power else share <= self.bound


def measure(all_studies: Sequence[Study], seed: int, workers: int) -> list[Rate]:
    """Make all samples, in several processes, and count."""
    tasks: list[Task] = [
        (study, seed, range(first, min(first + study.together, study.samples)))
        for study in all_studies
        for first in range(0, study.samples, study.together)
    ]
    found: dict[Part, list[Sampled]] = {}
    for samples in _run_all(tasks, workers):
        for sample in samples:
            for part, own in sample.items():
                found.setdefault(part, []).append(own)
    return [
        Rate(part, sum(own.is_stated for own in rows), len(rows), float(np.mean([own.n_tests for own in rows])))
        for part, rows in sorted(found.items(), key=lambda item: (item[0].is_power, item[0].family))
    ]


def _run_all(tasks: Sequence[Task], workers: int) -> Iterator[list[Samples]]:
    if workers == 1:
        yield from track(map(run_task, tasks), "samples", total=len(tasks))
        return
    # numba has started threads, for which a forked process would wait.
    with ProcessPoolExecutor(workers, get_context("spawn")) as executor:
        yield from track(executor.map(run_task, tasks), "samples", total=len(tasks))


def make_table(rates: Sequence[Rate], *, is_judged: bool) -> Table:
    """Make the table of all rates, with Wilson's intervals."""
    table = Table("", "family", "samples of", "samples", "tests", "share", "95% interval", "bound", "")
    for rate in rates:
        low, high = stats.binomtest(rate.stated, rate.samples).proportion_ci(method="wilson")
        sign = "at least" if rate.part.is_power else "at most"
        table.add_row(
            "power" if rate.part.is_power else "error",
            rate.part.family,
            rate.part.setting,
            f"{rate.samples:,}",
            f"{rate.tests:.0f}",
            f"{rate.stated / rate.samples:.2%}",
            f"{low:.1%} to {high:.1%}",
            f"{sign} {rate.bound:.2%}",
            "" if not is_judged else "yes" if rate.is_within else "EXCEEDED",
        )
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--end-to-end", type=int, default=SAMPLES_END_TO_END)
    parser.add_argument("--worlds", type=int, default=WORLDS, help="datasets for memorized test sets")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="run only studies whose name contains this text")
    parser.add_argument("--quick", action="store_true", help="run every part with a few samples, and judge nothing")
    options = parser.parse_args(arguments)
    counts = (options.samples, options.end_to_end, options.worlds)
    if options.quick:
        counts = (SAMPLES_QUICK, SAMPLES_QUICK, 1)
    chosen = [study for study in studies(*counts) if options.only in study.name]
    rates = measure(chosen, options.seed, 1 if options.quick else options.workers)
    console = Console(width=150)
    console.print(make_table(rates, is_judged=not options.quick))
    if options.quick:
        console.print("Too few samples to judge the bounds.")
        return 0
    exceeded = [rate for rate in rates if not rate.is_within]
    console.print(f"{len(exceeded)} of {len(rates)} bounds are exceeded (seed {options.seed}).")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
