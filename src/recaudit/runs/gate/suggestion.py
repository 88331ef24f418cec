"""A first file of rules, from what a run has measured: few, commented, and kept by the run itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from math import ceil

import polars as pl

from recaudit.audits.audit import definitions
from recaudit.errors import InputError
from recaudit.runs.folder import Run
from recaudit.runs.gate.evidence import failures, rows_of, standard_error
from recaudit.runs.gate.rules import Gate, Rule
from recaudit.runs.recommenders import IMPERSONAL
from recaudit.status import Status

QUALITY = ("ndcg", "recall", "rmse")
"""The first of them that was measured is what recommendations are judged by, overall and by group."""
OTHERS = ("coverage", "gini", "calibration_kl", "folding", "discovery", "instability")
"""What a release may harm without anybody seeing it in the accuracy."""
SMALLEST, LARGEST = 2, 5
"""The margin, in percent of the baseline: the standard error of the number, within these."""


def suggested(run: Run) -> str:
    """The text of a TOML file with rules for runs like this one."""
    if run.manifest.status != "complete":
        remedy = "Its command, run again, goes on."
        raise InputError("run", received=f"{run.path}, which is interrupted", expected="a finished run", remedy=remedy)
    quality = next((metric for metric in QUALITY if _usable(run, _changing(metric))), None)
    rules = [] if quality is None else [*_margin(run, quality), *_by_group(run, quality), *_floor(run, quality)]
    rules += [line for metric in OTHERS for line in _margin(run, metric)]
    if not rules:
        known = ", ".join((*QUALITY, *OTHERS))
        raise InputError("run", received=str(run.path), expected=f"a run that can be judged by one of {known}")
    confidence: float = Gate.model_fields["confidence"].default
    return "\n".join(
        [
            f"# Rules for runs like {_comment(run.path.name)}, written by 'recaudit check --suggest'. Look through",
            "# them: which change is too large is not a matter of statistics. 'recaudit check --help' has every key.",
            "",
            f"# All rules together: where nothing has changed, at most {1 - confidence:.0%} of releases fail.",
            f"confidence = {confidence}",
            *rules,
            "",
        ]
    )


def _changing(metric: str, by: str | None = None) -> Rule:
    return Rule(metric=metric, by=by, not_worse_by=0.0)


def _usable(run: Run, rule: Rule) -> dict[str, pl.DataFrame]:
    """The rows of each model whose numbers can all be decided about: known, no bounds, enough people, no failures."""
    found = dict[str, pl.DataFrame]()
    settled = (pl.col("status") == Status.SOLVED.value) & (pl.col("users") >= rule.people) & (pl.col("value") != 0)
    for model in run.models:
        if rule.measured_by in run.audits(model) and not failures(run.steps(model)[rule.measured_by]):
            rows = rows_of(run, model, rule)
            if len(rows) and rows.select(settled.all()).item():
                found[model] = rows
    return found


def _margin(run: Run, metric: str, by: str | None = None) -> Iterator[str]:
    """No worse than the baseline, by a little more than chance moves the number anyway."""
    rule = _changing(metric, by)
    found = _usable(run, rule)
    if not found:
        return
    rows = pl.concat(found.values())
    if by is None:
        values = ", ".join(f"{_comment(model)} {own['value'][0]:.4g}" for model, own in found.items())
        yield f"\n# {definitions()[metric].titled()}: {values}."
    else:
        yield f"\n# The same for each of {rows['group'].n_unique()} groups of {min(rows['users']):,} people or more."
    errors = (
        100 * (standard_error(row, run.steps(model)[rule.measured_by].get("confidence", 0.95)) or 0) / abs(row["value"])
        for model, own in found.items()
        for row in own.iter_rows(named=True)
    )
    percent = min(LARGEST, max(SMALLEST, ceil(max(errors))))
    yield from _rules(run, found, rule, f'not_worse_by = "{percent}%"')


def _by_group(run: Run, metric: str) -> Iterator[str]:
    audit = _changing(metric).measured_by
    people = (run.table(model, audit, "people") for model in run.models if run.has_table(model, audit, "people"))
    for by in next(people, pl.DataFrame()).columns[1:]:
        yield from _margin(run, metric, by)


def _floor(run: Run, metric: str) -> Iterator[str]:
    """No worse than what personalises nothing."""
    kinds = {model.label: model.kind for model in run.manifest.models}
    rule, lower = _changing(metric), definitions()[metric].better == "lower"
    floors = {
        label: rows_of(run, label, rule)["value"].item()
        for label, kind in kinds.items()
        if kind in IMPERSONAL and rule.measured_by in run.audits(label)
    }
    known: Mapping[str, float] = {label: value for label, value in floors.items() if value is not None}
    values = {model: own["value"][0] for model, own in _usable(run, rule).items() if kinds[model] not in IMPERSONAL}
    if not known or not values:
        return
    best = (min if lower else max)(known, key=lambda label: known[label])
    bound = float(f"{known[best]:.4g}")
    better = [model for model, value in values.items() if (value <= bound if lower else value >= bound)]
    yield f"\n# {_comment(best)}, which knows nobody, has {bound:g}: a model that learns from people should do better."
    yield from (f"# {_comment(model)} has {value:.4g}." for model, value in values.items() if model not in better)
    yield from _rules(run, better, rule, f"{'at_most' if lower else 'at_least'} = {bound!r}")


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
