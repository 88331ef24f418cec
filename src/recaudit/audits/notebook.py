"""How a result shows itself in a notebook: a table, and a chart of the metrics with their intervals."""

from __future__ import annotations

import html as escaping
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from recaudit.audits.result import rule_lines

if TYPE_CHECKING:
    from recaudit.audits.result import Result

_HEADINGS = ("metric", "value", "interval", "users", "excluded")


def html(result: Result) -> str:
    """The metrics, their intervals and what they stand on, as a table; a row's tooltip defines its metric."""
    rows = []
    for row in result.frame.iter_rows(named=True):
        metric = result.metrics[row["metric"]]
        cells = (
            metric.titled(result.settings.get("k")),
            row["status"] if row["value"] is None else metric.written(row["value"]),
            "" if row["lower"] is None else metric.interval(row["lower"], row["upper"]),
            f"{row['users']:,}",
            f"{row['excluded']:,}",
        )
        about = escaping.escape(f"{metric.definition} Range: {metric.range}")
        rows.append(f'<tr title="{about}">{_cells("td", cells)}</tr>')
    head = f"<caption>{escaping.escape(result.kind)}</caption><thead><tr>{_cells('th', _HEADINGS)}</tr></thead>"
    rule = "".join(f"<p>{escaping.escape(line)}</p>" for line in rule_lines(result.settings))
    return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>{rule}"


def _cells(tag: str, texts: tuple[str, ...]) -> str:
    return "".join(f"<{tag}>{escaping.escape(text)}</{tag}>" for text in texts)


def chart(result: Result) -> alt.FacetChart:
    """A line a metric: the value as a point, its interval as a bar, each on a scale of its own."""
    titles = {name: metric.titled(result.settings.get("k")) for name, metric in result.metrics.items()}
    frame = result.frame.drop_nulls("value").with_columns(label=pl.col("metric").replace_strict(titles))
    base = alt.Chart(frame, height=20)
    interval = base.mark_rule(strokeWidth=3, opacity=0.5).encode(x=alt.X("lower:Q", title=None), x2="upper:Q")
    value = base.mark_point(filled=True, size=60).encode(
        x=alt.X("value:Q", title=None, scale=alt.Scale(zero=False)),
        tooltip=["label:N", "value:Q", "lower:Q", "upper:Q", "users:Q"],
    )
    header = alt.Header(labelAngle=0, labelAlign="left")
    by_metric = alt.Row("label:N", title=None, sort=list(titles.values()), header=header)
    lines: alt.FacetChart = (interval + value).facet(row=by_metric).resolve_scale(x="independent")
    return lines
