"""Folding against accuracy: the models of a run, and one model with other weights (paper 002, Figures 3 to 5)."""

from __future__ import annotations

from typing import Literal

import altair as alt

from recaudit.report.charts.figure import MUTED, Figure, Rows, by_series, data, finished, in_series, tooltip
from recaudit.report.evidence import Evidence
from recaudit.report.kit.numbers import figure

_HEIGHT = 320


def folding_against_error(evidence: Evidence, metric: Literal["folding", "shown_folding"]) -> Figure | None:
    """RMSE to the right, folding upwards: a dot for each model, a line along the weights of a model that has them."""
    error, folded = evidence.known("rmse"), evidence.known(metric)
    label = evidence.label(metric)
    models: Rows = [
        {
            **in_series(evidence.models, model),
            "x": error[model].value,
            "y": folded[model].value,
            "told": f"RMSE {error[model].full}, {label} {folded[model].full}",
        }
        for model in evidence.folding
        if model in error and model in folded
    ]
    steps: Rows = []
    for model, own in evidence.folding.items():
        for point in own.curve:
            height = point.folding if metric == "folding" else point.shown_folding
            told = f"RMSE {figure('rmse', point.rmse)}, {label} {figure(metric, height)}"
            row = {**in_series(evidence.models, model), "weight": f"{point.weight:g}", "order": point.weight}
            steps.append({**row, "x": point.rmse, "y": height, "told": told})
    if len(models) + len(steps) < 2:
        return None
    x = alt.X("x:Q", title="RMSE", scale=alt.Scale(zero=False, nice=True, padding=14), axis=alt.Axis(grid=True))
    y = alt.Y("y:Q", title=label, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(grid=True, tickCount=4))
    color = by_series(evidence.models)
    layers: list[alt.Chart] = []
    if steps:
        line = alt.Chart(data(steps))
        layers += [
            line.mark_line(strokeWidth=1.5, opacity=0.6).encode(x, y, color, order="order:Q"),
            line.mark_point(size=28).encode(x, y, color, tooltip=tooltip("model", "weight")),
            line.mark_text(align="left", dx=6, dy=-7, fill=MUTED).encode(x, y, text="weight:N"),
        ]
    if models:
        layers.append(alt.Chart(data(models)).mark_point(size=110).encode(x, y, color, tooltip=tooltip("model")))
    numbers = [f"{row['model']}: {row['told']}" for row in models]
    numbers += [f"{row['model']} with weight {row['weight']}: {row['told']}" for row in steps]
    return Figure(
        f"{label} against RMSE",
        finished(alt.layer(*layers), height=_HEIGHT),
        f"{label} against RMSE, lower is better for both. {'; '.join(numbers)}.",
    )
