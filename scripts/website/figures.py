"""The figures of the guides, docs/figures/NAME.svg: charts of the demo's report, and a few small computations.

docs/figures/explore.png is no chart but a picture of the explorer, taken in a browser at 1180 x 900.

They keep the style sheet's colours by name, with its light and its dark ones, so that a figure follows the page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import altair as alt
import polars as pl
import vl_convert

import recaudit as ra
from recaudit.report.evidence import Evidence
from recaudit.report.kit import charts as kit
from recaudit.report.kit.comparisons import model_colors
from recaudit.report.sections.section import sections_of
from recaudit.runs import Run, execute, parse

WIDTH = 680
"""Pixels: as wide as the text of a page."""
_LARGER = {"labelFontSize": 12.5, "titleFontSize": 12.5}
_STROKE: dict[str, Any] = {"symbolType": "stroke", "symbolStrokeWidth": 3, "symbolOpacity": 1}
_OF_THE_REPORT = {
    "accuracy": ("accuracy", "nDCG@10"),
    "exposure": ("shown", "How places are spread over items"),
    "reachability": ("reach", "How far a chance can be lifted"),
    "agency": ("agency", "Lift in hindsight"),
    "instability": ("agency", "How far others can move users from now on"),
    "folding": ("folding", "Folding against RMSE"),
    "calibration": ("calibration", "Recall@20 against calibration"),
    "recourse": ("recourse", "Within reach of each effort"),
    "mitigation": ("mitigation", "Calibrated re-ranking"),
}
"""The section and the heading of a chart of the report."""
_GATE = """
seed = 0
data = {name = "demo"}
split = {kind = "leave-last", k = 3}
model = [{kind = "%s", label = "ours"}]
audits.accuracy = {k = 10}
"""


def made(demo: Path, folder: Path) -> list[Path]:
    """The files of all figures, drawn where they are older than the demo's run or this file."""
    folder.mkdir(parents=True, exist_ok=True)
    newest = max(file.stat().st_mtime for file in (demo / "manifest.json", Path(__file__)))
    files = [folder / f"{name}.svg" for name in NAMES]
    if not all(file.exists() and file.stat().st_mtime > newest for file in files):
        run = Run.open(demo)
        report = _of_the_report(run)
        for name, file in zip(NAMES, files, strict=True):
            drawn = report[name] if name in report else _COMPUTED[name](run)
            file.write_text(svg(drawn), encoding="utf-8")
    return files


def svg(spec: dict[str, Any]) -> str:
    """A chart that has its own paper, and both sets of colours."""
    config = {key: {**own, **_LARGER} if key == "axis" else own for key, own in kit.THEME.items()}
    config |= {"legend": {"labelFontSize": 12.5, "labelColor": kit.INK, "titleColor": kit.MUTED}, "padding": 16}
    config |= {"text": {**kit.THEME["text"], "fontSize": 12.5}, "background": kit.PAPER}
    config |= {"title": {"anchor": "start", "color": kit.INK, "fontSize": 14, "fontWeight": 600, "offset": 12}}
    drawn = str(vl_convert.vegalite_to_svg({**spec, "width": WIDTH}, config=config))
    head, _, rest = drawn.partition(">")
    return f"{head}><style>{_colors()}</style>{rest}"


@cache
def _colors() -> str:
    """The custom properties of the report's style sheet, for light and for dark."""
    sheet = (resources.files("recaudit.report") / "templates" / "style.css").read_text(encoding="utf-8")
    light, dark = (block.partition("}")[0] for block in sheet.split(":root {")[1:3])
    return f":root {{{light}}} @media (prefers-color-scheme: dark) {{ :root {{{dark}}} }}"


def _of_the_report(run: Run) -> dict[str, dict[str, Any]]:
    """Charts as the report has them, with a legend where there the page itself has it."""
    evidence = Evidence(run)
    found = {
        (section.anchor, figure.heading): {**figure.spec, "title": figure.title or figure.heading}
        for section in reversed(sections_of(evidence))
        for figure in reversed(list(_figures(section.content())))
    }
    names = list(model_colors(evidence))
    return {name: _with_legend(found[where], names) for name, where in _OF_THE_REPORT.items()}


def _figures(content: object) -> Iterator[kit.Figure]:
    """Every chart in what a section shows, in its order."""
    if isinstance(content, kit.Figure):
        yield content
    elif isinstance(content, dict | list | tuple):
        for own in content.values() if isinstance(content, dict) else content:
            yield from _figures(own)


def _with_legend(spec: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The chart with the names of its series above it, if it has series."""
    copied: dict[str, Any] = json.loads(json.dumps(spec))
    rows = [row for rows in copied["datasets"].values() for row in rows]
    legend = {
        **{"title": None, "orient": "top", "columns": 4, **_STROKE},
        "values": sorted({row["series"] for row in rows if "series" in row}),
        "labelExpr": f"{json.dumps(list(names))}[datum.value]",
    }
    for layer in copied.get("layer", [copied]):
        color = layer.get("encoding", {}).get("color", {})
        if color.get("field") == "series":
            color["legend"] = legend
    return copied


def _simulation(_: Run) -> dict[str, Any]:
    """What people think of what they are shown, step by step, with three recommenders that learn from them."""
    recommenders = {"ItemKNN": ra.models.ItemKNN(), "most popular": ra.models.TopPop(), "random": ra.models.Random()}
    scenario = ra.simulate.paper("topics-dynamic", users=200, items=300, ratings=2000)
    found = ra.simulate.compare(scenario, recommenders, steps=30, trials=5)
    rows = [
        {"recommender": name, **row}
        for name, simulation in found.simulations.items()
        for row in simulation.curve("mean_rating").iter_rows(named=True)
    ]
    x = alt.X("step:Q", title="step", axis=alt.Axis(grid=False, tickCount=6))
    scale = alt.Scale(zero=False)
    value, lower = (alt.Y(f"{end}:Q", title="mean rating", scale=scale) for end in ("value", "lower"))
    color = _color("recommender", list(recommenders))
    base = kit.chart(rows)
    band = base.mark_area(opacity=0.16).encode(x, lower, alt.Y2("upper:Q"), color)
    return kit.figure("", "", 260, band, base.mark_line(strokeWidth=2).encode(x, value, color)).spec


def _compare(run: Run) -> dict[str, Any]:
    """How two models of the demo differ, group by group of users."""
    found = ra.compare(run, models=("ALS", "EASE"))
    same = pl.col("audit").eq("accuracy") & pl.col("metric").eq("ndcg")
    return _differences(
        [
            {"who": row["group"] or "everybody", "outcome": row["verdict"], **row}
            for row in found.frame.filter(same).iter_rows(named=True)
        ],
        "difference",
        "nDCG@10 of EASE minus that of ALS, on the same users",
        {"better": kit.ACCENT, "worse": kit.UP, "not shown": kit.MUTED},
        0,
    )


def _gate(_: Run) -> dict[str, Any]:
    """A release in which another model takes the place of the old one, held to a rule about nDCG by group."""
    with TemporaryDirectory() as folder:
        runs = [
            execute(parse(_GATE % kind, source="gate", folder=Path(folder)), Path(folder) / kind)
            for kind in ("wals", "als")
        ]
        rules = [ra.Rule(metric="ndcg", not_worse_by=_MARGIN, by=by) for by in (None, "region")]
        asked = ra.check(runs[1], ra.Gate(rule=tuple(rules)), baseline=runs[0]).frame
    rows = [
        {"who": row["group"] or "everybody", **row, "lower": row["change"] - reach, "upper": row["change"] + reach}
        for row in asked.iter_rows(named=True)
        for reach in [1.645 * row["error"]]
    ]
    colors = {"passed": kit.ACCENT, "failed": kit.UP, "undecided": kit.MUTED}
    return _differences(rows, "change", f"nDCG@10 lost; the rule allows {_MARGIN}", colors, _MARGIN)


_MARGIN = 0.02


def _differences(rows: kit.Rows, field: str, title: str, colors: dict[str, str], reference: float) -> dict[str, Any]:
    """A dot and an interval for each group, and a line at what it is held against."""
    names = list(dict.fromkeys(row["who"] for row in rows))
    y = kit.rows_of("who", names)
    used = {name: color for name, color in colors.items() if name in {row["outcome"] for row in rows}}
    color = _color("outcome", list(used), list(used.values()))
    base = kit.chart([{key: row[key] for key in ("who", "outcome", "lower", "upper", field)} for row in rows])
    x, ends = (alt.X(f"{end}:Q", title=title, scale=alt.Scale(zero=True)) for end in (field, "lower"))
    line = kit.chart([{"at": reference}]).mark_rule(stroke=kit.INK, strokeDash=[4, 3]).encode(alt.X("at:Q"))
    spread = base.mark_rule(strokeWidth=2).encode(ends, alt.X2("upper:Q"), y, color)
    dots = base.mark_point(size=70).encode(x, y, color)
    return kit.figure("", "", kit.height_of(len(names)), line, spread, dots).spec


def _color(field: str, names: Sequence[str], colors: Sequence[str] | None = None) -> alt.Color:
    chosen = list(colors or (kit.series_color(place) for place in range(len(names))))
    legend = alt.Legend(title=None, orient="top", **_STROKE)
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=list(names), range=chosen), legend=legend)


_COMPUTED: dict[str, Callable[[Run], dict[str, Any]]] = {
    "simulation": _simulation,
    "compare": _compare,
    "gate": _gate,
}
NAMES = (*_OF_THE_REPORT, *_COMPUTED)
"""All figures."""
