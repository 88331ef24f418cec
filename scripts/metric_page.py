"""docs/reference/metrics.md: every number of every audit, as its audit defines it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from recaudit.audits.audit import Audit
from recaudit.metrics.metric import Format, Metric
from recaudit.registry import AUDITS

INTRODUCTION = """# Metrics

Every number that an audit reports, as the audit defines it. `make reference` writes this page from the same \
definitions that the report and `recaudit audits NAME` show. The name in the heading is the one in tables, \
[rules](../guides/gate.md) and `result["name"]`; `@k` stands for the length of the lists. The \
[rung](../concepts/causal-ladder.md) is that of the audit with its default settings. How sure a number is: \
[intervals](../concepts/intervals.md); whether it is exact or a bound: [statuses](../concepts/statuses.md).
"""
_WRITTEN: dict[Format, str] = {
    "number": "",
    "share": "Written in percent.",
    "chance": "Written in percent.",
    "signed share": "Written in percent, with its sign.",
    "times": "Written as a multiple.",
    "bits": "In bits.",
}
_BETTER = {"higher": "Higher is better.", "lower": "Lower is better.", "neither": "Neither direction is better."}


def metric_page() -> str:
    """All of it, ending in a line break."""
    ours = {name: cls for name, cls in sorted(AUDITS.items()) if cls.__module__.startswith("recaudit.")}
    return "\n".join([INTRODUCTION, *(part for name, cls in ours.items() for part in _audit(name, cls))])


def _audit(name: str, cls: type[Audit]) -> Iterator[str]:
    own = [metric for metric in cls.metrics if metric.name not in cls.borrowed]
    question = (inspect.getdoc(cls) or "").partition("\n")[0]
    yield f"## The audit `{name}`\n\n{question}{_rung(cls)} [Its settings](configuration.md#{name}).\n"
    if borrowed := [f"[`{metric.name}`](#{metric.name})" for metric in cls.metrics if metric.name in cls.borrowed]:
        yield f"It also reports {', '.join(borrowed)}, which another audit defines.\n"
    if not cls.metrics:
        yield "What it reports follows from its [recipe](../guides/recipe.md).\n"
    for metric in own:
        yield _metric(metric)


def _rung(cls: type[Audit]) -> str:
    if any(field.is_required() for field in cls.model_fields.values()):
        return ""
    recipe = cls().recipe
    return "" if recipe is None else f" Rung: {recipe.rung}."


def _metric(metric: Metric) -> str:
    ends = " ".join(filter(None, (metric.range, _BETTER[metric.better], _WRITTEN[metric.format])))
    return f"### `{metric.name}`\n\n**{metric.label}.** {metric.definition}\n\n`{metric.formula}`\n\n*Range:* {ends}\n"
