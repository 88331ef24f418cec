"""A first file of rules, from what a run has measured: few, commented, and kept by the run itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import ceil

import polars as pl

from recaudit.audits.audit import definitions
from recaudit.errors import InputError
from recaudit.metrics.tables import GROUP_SCHEMA
from recaudit.runs.folder import Run
from recaudit.runs.gate.evidence import failures, standard_error
from recaudit.runs.gate.rules import Gate, Rule
from recaudit.status import Status

QUALITY = ("ndcg", "recall", "rmse")
"""The first of them that was measured is what recommendations are judged by, overall and by group."""
OTHERS = ("coverage", "gini", "calibration_kl", "folding", "discovery", "instability")
"""What a release may harm without anybody seeing it in the accuracy."""
SMALLEST, LARGEST = 2, 5
"""The margin, in percent of the baseline: the standard error of the number, within these."""
IMPERSONAL = ("top-pop", "random")
"""The kinds of models that others should be better than."""


def suggested(run: Run) -> str:
    """The text of a TOML file with rules for runs like this one."""
    if run.manifest.status != "complete":
        remedy = "Its command, run again, goes on."
        raise InputError("run", received=f"{run.path}, which is interrupted", expected="a finished run", remedy=remedy)
    quality = next((metric for metric in QUALITY if _usable(run, metric)), None)
    main = [] if quality is None else [*_margin(run, quality), *_by_group(run, quality), *_floor(run, quality)]
    rules = [*main, *(line for metric in OTHERS for line in _margin(run, metric))]
    if not rules:
        known = ", ".join((*QUALITY, *OTHERS))
        raise InputError("run", received=str(run.path), expected=f"a run that has measured one of {known}")
    return "\n".join(
        [
            f"# Rules for runs like {_comment(run.path.name)}, written by 'recaudit check --suggest'. Look through",
            "# them: which change is too large is not a matter of statistics. 'recaudit check --help' has every key.",
            "",
            f"# All rules together: a release in which nothing has changed fails in at most {_chance()} of cases.",
            f"confidence = {Gate.model_fields['confidence'].default}",
            *rules,
            "",
        ]
    )


def _chance() -> str:
    return f"{1 - Gate.model_fields['confidence'].default:.0%}"


def _usable(run: Run, metric: str, by: str = "") -> dict[str, pl.DataFrame]:
    """The rows of each model whose numbers can all be decided about: known, no bounds, enough people, no failures."""
    rule, found = Rule(metric=metric, not_lower_by=0.0), dict[str, pl.DataFrame]()
    for model in run.models:
        audit = rule.measured_by
        if audit not in run.audits(model) or failures(run.steps(model)[audit]):
            continue
        result = run.result(model, audit)
        rows = result.groups if by else result.frame.with_columns(by=pl.lit(""), group=pl.lit(""))
        rows = rows.filter(pl.col("metric") == metric, pl.col("by") == by).select(*GROUP_SCHEMA)
        settled = (pl.col("status") == Status.SOLVED.value) & (pl.col("users") >= rule.people)
        if len(rows) and rows.select((settled & (pl.col("value") != 0)).all()).item():
            found[model] = rows
    return found


def _rules(run: Run, models: Sequence[str], *settings: str) -> Iterator[str]:
    """A rule about every model of the run, or one for each of those that it can be asked of."""
    for model in [None] if set(models) == set(run.models) else models:
        yield "[[rule]]"
        yield settings[0]
        if model is not None:
            yield f"model = {_text(model)}"
        yield from settings[1:]


def _margin(run: Run, metric: str) -> Iterator[str]:
    found = _usable(run, metric)
    if not found:
        return
    label = definitions()[metric].titled()
    told = ", ".join(f"{_comment(model)} {rows['value'][0]:.4g}" for model, rows in found.items())
    yield f"\n# {label}: {told}."
    margin = f'not_worse_by = "{_percent(run, metric, found)}%"'
    yield from _rules(run, list(found), f"metric = {_text(metric)}", margin)


def _by_group(run: Run, metric: str) -> Iterator[str]:
    audit = Rule(metric=metric, not_lower_by=0.0).measured_by
    holders = [model for model in run.models if audit in run.audits(model) and run.has_table(model, audit, "people")]
    names = run.table(holders[0], audit, "people").columns[1:] if holders else []
    for by in names:
        found = _usable(run, metric, by)
        if not found:
            continue
        rows = pl.concat(found.values())
        yield f"\n# The same for each of {rows['group'].n_unique()} groups of {min(rows['users']):,} people or more."
        margin = f'not_worse_by = "{_percent(run, metric, found)}%"'
        yield from _rules(run, list(found), f"metric = {_text(metric)}", f"by = {_text(by)}", margin)


def _floor(run: Run, metric: str) -> Iterator[str]:
    """No worse than what personalises nothing."""
    kinds = {model.label: model.kind for model in run.manifest.models}
    audit, lower = Rule(metric=metric, not_lower_by=0.0).measured_by, definitions()[metric].better == "lower"
    values = {
        label: run.result(label, audit).frame.filter(pl.col("metric") == metric)["value"].item()
        for label, kind in kinds.items()
        if kind in IMPERSONAL and audit in run.audits(label)
    }
    known = {label: value for label, value in values.items() if value is not None}
    if not known:
        return
    best = (min if lower else max)(known, key=lambda label: known[label])
    bound = float(f"{known[best]:.4g}")
    found = {model: rows["value"][0] for model, rows in _usable(run, metric).items() if kinds[model] not in IMPERSONAL}
    better = [model for model, value in found.items() if (value <= bound if lower else value >= bound)]
    yield f"\n# {_comment(best)}, which knows nobody, has {bound:g}: a model that learns from people should do better."
    for model, value in found.items():
        if model not in better:
            yield f"# {_comment(model)} does not: {value:.4g}."
    yield from _rules(run, better, f"metric = {_text(metric)}", f"{'at_most' if lower else 'at_least'} = {bound!r}")


def _percent(run: Run, metric: str, found: dict[str, pl.DataFrame]) -> int:
    """The margin: how far the number moves with the people who happen to be there, within limits."""
    audit = Rule(metric=metric, not_lower_by=0.0).measured_by
    shares = [
        100 * (standard_error(row, run.steps(model)[audit].get("confidence", 0.95)) or 0.0) / abs(row["value"])
        for model, rows in found.items()
        for row in rows.iter_rows(named=True)
    ]
    return int(min(LARGEST, max(SMALLEST, ceil(max(shares)))))


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _comment(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
