"""`Result.plot`: a chart of the metrics with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

if TYPE_CHECKING:
    from recaudit.audits.result import Result


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
