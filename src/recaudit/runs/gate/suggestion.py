"""A first file of rules, from the numbers of a run: few, commented, and with margins that an unchanged model passes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from math import ceil, inf

import numpy as np
import polars as pl

from recaudit.audits.audit import definitions
from recaudit.errors import InputError
from recaudit.metrics.inference import (
    compute_gate_detectable_difference,
    compute_gate_detectable_distance,
    compute_jackknife_error,
)
from recaudit.metrics.metric import Metric
from recaudit.metrics.paired import PairedMean, PairedNumber
from recaudit.runs.comparison import paired_numbers
from recaudit.runs.folder import Run
from recaudit.runs.gate.evidence import failures, rows_of
from recaudit.runs.gate.rules import Gate, Rule
from recaudit.runs.gate.testing import compute_threshold_test
from recaudit.runs.recommenders import IMPERSONAL
from recaudit.status import Status

QUALITY = ("ndcg", "recall", "rmse")
"""The first of them that was measured is the quality of recommendations, overall and by group."""
OTHERS = ("coverage", "gini", "calibration_kl", "folding", "discovery", "instability")
"""What a release may harm although accuracy does not show it."""
SMALLEST, LARGEST = 2, 50
"""Range of a margin, in percent of the baseline. A rule that needs a larger one is left out."""
POWER = 0.8
"""Share of samples in which a model with the same true quality passes a rule."""
LEVEL = 0.05


def suggested(run: Run, baseline: Run | None = None) -> str:
    """Write the text of a TOML file with rules for runs like this one.

    The margin of a rule is the smallest at which a model with the same true quality passes in 80% of samples. With an
    earlier run, the spread of users' differences between the two is used. Otherwise it is taken to be that of the
    values themselves, as if those of two models had a correlation of one half, which is cautious: for a model that
    changes less, a smaller margin is enough.

    Args:
        run: Finished run with the numbers that the rules are about.
        baseline: Earlier run with the same models.
    """
    if run.manifest.status != "complete":
        remedy = "Its command, run again, goes on."
        raise InputError("run", received=f"{run.path}, which is interrupted", expected="a finished run", remedy=remedy)
    quality = next((metric for metric in QUALITY if _usable(run, None, _changing(metric))), None)
    rules = []
    if quality is not None:
        rules = [*_margin(run, baseline, quality), *_by_group(run, baseline, quality), *_impersonal(run, quality)]
    rules += [line for metric in OTHERS for line in _margin(run, baseline, metric)]
    if not rules:
        known = ", ".join((*QUALITY, *OTHERS))
        raise InputError("run", received=str(run.path), expected=f"a run that can be judged by one of {known}")
    confidence: float = Gate.model_fields["confidence"].default
    return "\n".join(
        [
            f"# Rules for runs like {_comment(run.path.name)}, written by 'recaudit check --suggest'. A margin is the",
            f"# smallest at which a model of the same quality passes the rule in {POWER:.0%} of samples of this size.",
            "# Which loss is too large is not a matter of statistics: choose larger margins, or measure more users to",
            "# have smaller ones. 'recaudit check --help' has every key.",
            "",
            f"# A rule that is violated passes, and satisfied rules fail, in at most {1 - confidence:.0%} of samples.",
            f"confidence = {confidence}",
            *rules,
            "",
        ]
    )


def _changing(metric: str, by: str | None = None) -> Rule:
    return Rule(metric=metric, by=by, not_worse_by=0.0)


def _usable(run: Run, baseline: Run | None, rule: Rule) -> dict[str, list[PairedNumber]]:
    """The numbers of each model if all of them can be tested: known, no bounds, enough users, no failures."""
    found = dict[str, list[PairedNumber]]()
    is_solved = (pl.col("status") == Status.SOLVED.value) & (pl.col("users") >= rule.people) & (pl.col("value") != 0)
    for model in run.models:
        if rule.measured_by not in run.audits(model) or failures(run.steps(model)[rule.measured_by]):
            continue
        rows = rows_of(run, model, rule)
        numbers = _numbers(run, baseline, model, rule)
        if len(rows) and rows.select(is_solved.all()).item() and len(numbers) == len(rows):
            found[model] = numbers
    return found


def _numbers(run: Run, baseline: Run | None, model: str, rule: Rule) -> list[PairedNumber]:
    """The numbers that a rule is about, with the values of users; with an earlier run, those of both."""
    result, audit = run.result(model, rule.measured_by), rule.measured_by
    is_known = baseline is not None and model in baseline.models and audit in baseline.audits(model)
    other = baseline.result(model, audit) if baseline is not None and is_known else result
    return [own for own in paired_numbers(other, result) if (own.metric, own.by) == (rule.metric, rule.by or "")]


def compute_margin(number: PairedNumber, metric: Metric, *, is_paired: bool = False) -> float:
    """Compute the margin that a model of the same quality passes in 80% of samples, as a share of the number.

    Args:
        number: Number with the values of users.
        metric: Definition of the metric, with its bounds.
        is_paired: If True, the spread is that of the users' differences between the two results of the number.
    """
    n, (lowest, highest) = number.n_users, metric.bounds
    width = 0.0 if lowest is None or highest is None else highest - lowest
    share_of_one_user = 1 - LEVEL ** (1 / n)
    if isinstance(number, PairedMean):
        values = number.new_values
        differences = values - (number.old_values if is_paired else values.mean())
        bounds = (-width, width) if width and not number.is_geometric else (None, None)
        margin = compute_gate_detectable_distance(differences, bounds, level=LEVEL, power=POWER)
        if number.is_geometric:
            return float(np.expm1(margin))
        unchanged = width * share_of_one_user
    else:
        baseline = number.old_without_block if is_paired else 0.0
        error = compute_jackknife_error(number.new_without_block - baseline)
        degrees_of_freedom = len(number.new_without_block) - 1
        margin = compute_gate_detectable_difference(error, degrees_of_freedom, level=LEVEL, power=POWER)
        unchanged = 2 * width * share_of_one_user
    # A model without any change has no spread, and needs the smallest margin that the number of users allows.
    margin = max(margin, 1.02 * unchanged)
    return float(margin / abs(number.new)) if np.isfinite(margin) else inf


def _margin(run: Run, baseline: Run | None, metric: str, by: str | None = None) -> Iterator[str]:
    """Not worse than the baseline, by more than a model of the same quality is in most samples."""
    rule = _changing(metric, by)
    found = _usable(run, baseline, rule)
    if not found:
        return
    numbers = [number for own in found.values() for number in own]
    definition = run.result(next(iter(found)), rule.measured_by).metrics[metric]
    n_users = min(number.n_users for number in numbers)
    if by is None:
        values = ", ".join(f"{_comment(model)} {own[0].new:.4g}" for model, own in found.items())
        yield f"\n# {definition.titled()}: {values}, of {n_users:,} users."
    else:
        n_groups = len({own.group for own in numbers})
        yield f"\n# {definition.titled()} for each of {n_groups} groups of {n_users:,} users or more."
    margins = (compute_margin(number, definition, is_paired=baseline is not None) for number in numbers)
    largest = 100 * max(margins)
    if largest > LARGEST:
        yield f"# No rule: a model of the same quality would need a margin above {LARGEST}%. Measure more users."
        return
    percent = max(SMALLEST, ceil(round(largest, 6)))
    yield from _rules(run, found, rule, f'not_worse_by = "{percent}%"')


def _by_group(run: Run, baseline: Run | None, metric: str) -> Iterator[str]:
    audit = _changing(metric).measured_by
    people = (run.table(model, audit, "people") for model in run.models if run.has_table(model, audit, "people"))
    for by in next(people, pl.DataFrame()).columns[1:]:
        yield from _margin(run, baseline, metric, by)


def _impersonal(run: Run, metric: str) -> Iterator[str]:
    """Better than the baselines that are not personalized, for models of which this is shown in most samples."""
    kinds = {model.label: model.kind for model in run.manifest.models}
    rule, is_lower_better = _changing(metric), definitions()[metric].better == "lower"
    values = {
        label: rows_of(run, label, rule)["value"].item()
        for label, kind in kinds.items()
        if kind in IMPERSONAL and rule.measured_by in run.audits(label)
    }
    known: Mapping[str, float] = {label: value for label, value in values.items() if value is not None}
    found = {model: own[0] for model, own in _usable(run, None, rule).items() if kinds[model] not in IMPERSONAL}
    if not known or not found:
        return
    best = (min if is_lower_better else max)(known, key=lambda label: known[label])
    threshold = float(f"{known[best]:.4g}")
    held_to = "at_most" if is_lower_better else "at_least"
    asked = Rule.model_validate({"metric": metric, held_to: threshold})
    better = []
    for model, number in found.items():
        bounds = run.result(model, rule.measured_by).metrics[metric].bounds
        distance = (threshold - number.new) if is_lower_better else (number.new - threshold)
        detectable = compute_threshold_test(asked, number, bounds).detectable
        if detectable is not None and distance >= detectable:
            better.append(model)
    yield f"\n# {_comment(best)}, which is not personalized, has {threshold:g}. A personalized model should be better."
    others = [model for model in found if model not in better]
    yield from (f"# {_comment(model)} has {found[model].new:.4g}, too near for a rule." for model in others)
    yield from _rules(run, better, rule, f"{held_to} = {threshold!r}")


def _rules(run: Run, models: Collection[str], rule: Rule, held_to: str) -> Iterator[str]:
    """One rule about every model of the run, or one for each of those that it can be asked of."""
    for model in (None,) if set(models) == set(run.models) else models:
        named = {"metric": rule.metric, "by": rule.by, "model": model}
        # What JSON writes as a text is one in TOML too.
        yield "[[rule]]"
        yield from (
            f"{key} = {json.dumps(text, ensure_ascii=False)}" for key, text in named.items() if text is not None
        )
        yield held_to


def _comment(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
