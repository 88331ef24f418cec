"""Are interests kept in proportion: lists before and after re-ranking, whom they fail, what it costs (paper 004)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import log
from typing import Any, final

import altair as alt
import numpy as np
import polars as pl

from recaudit.audits.calibration.reranking import knee
from recaudit.metrics.numbers import percent
from recaudit.metrics.tables import SUMMARY_SCHEMA
from recaudit.report.evidence import Evidence, columns
from recaudit.report.kit import charts as kit
from recaudit.report.kit.claims import LEVEL, Claim, ClaimNumber, Finding, Measure
from recaudit.report.kit.comparisons import (
    NumberTable,
    Overview,
    TableCell,
    TableRow,
    group_tables,
    model_colors,
    number_cell,
    overview,
    user_cell,
)
from recaudit.report.kit.measures import measure
from recaudit.report.kit.numbers import Estimate
from recaudit.report.sections.groups import as_estimate
from recaudit.report.sections.section import Section
from recaudit.report.significance import compare_reranked, compute_reference_p

CALIBRATION, RERANKING = "calibration", "reranking"
KL = "calibration_kl"
DISTANCES = (KL, "calibration_hellinger", "calibration_tv")
"""How far a list's categories are from the user's."""
QUALITIES = ("ndcg", "recall")
"""What re-ranking may cost."""

_WORST = columns("category", "history over under over_reranked under_reranked")
_EXAMPLE = columns("user category", "history own reranked")
_USERS = columns("user", " ".join(f"{name} {name}_reranked" for name in (*DISTANCES, *QUALITIES)))


@final
@dataclass(frozen=True, eq=False)
class RerankedLists:
    """One model's lists as they are ranked, and the same re-ranked."""

    evidence: Evidence
    model: str
    changes: Mapping[str, Estimate]
    """By metric, what it is after re-ranking; the baseline is what it was before."""
    people: pl.DataFrame
    """A row a user: each metric of the user's own list, and of the re-ranked one under `<metric>_reranked`."""
    worst: pl.DataFrame
    """Among the users with the least calibrated lists, by category: its mean share of what they chose (history) and of
    their lists (shown), how far it is above and below (over, under); the largest share of their history first."""
    example: pl.DataFrame
    """The same of one badly calibrated user: shares of history, own and reranked list, by category."""
    curve: pl.DataFrame
    """at, calibration_kl, recall: all lists re-ranked with some weights of calibration, from 0, the model's own."""

    @classmethod
    def of(cls, evidence: Evidence, model: str) -> RerankedLists:
        """Read a finished audit."""
        changes = evidence.table(model, RERANKING, "reranked", SUMMARY_SCHEMA).iter_rows(named=True)
        users, worst, example = (
            evidence.table(model, RERANKING, name, schema)
            for name, schema in (("users", _USERS), ("worst", _WORST), ("example", _EXAMPLE))
        )
        shown = pl.col("history") - pl.col("under") + pl.col("over")
        return cls(
            evidence,
            model,
            {row["metric"]: Estimate.of(evidence.definitions[row["metric"]], row) for row in changes},
            users,
            worst.with_columns(shown=shown).sort("history", descending=True, maintain_order=True),
            example.sort("history", "own", descending=True, maintain_order=True),
            evidence.curve(model, RERANKING, "weight", [KL, "recall"]),
        )

    @cached_property
    def best_bargain(self) -> dict[str, Any] | None:
        """The knee of the curve: the weight that keeps most recall for the largest fall of C_KL."""
        if self.curve.is_empty():
            return None
        return self.curve.row(knee(self.curve["recall"].to_numpy(), self.curve[KL].to_numpy()), named=True)

    def change(self, metric: str) -> Estimate | None:
        """How much re-ranking adds to a metric on average, over the same users."""
        found = compare_reranked(self.evidence, self.model, metric)
        return None if found.lower is None else as_estimate(self.evidence, metric, found)


def reranked_by_model(evidence: Evidence) -> Mapping[str, RerankedLists]:
    """What re-ranking would do, for the models that were asked."""
    return evidence.each(RERANKING, RerankedLists.of)


def settings_of(evidence: Evidence) -> dict[str, Any]:
    """What the numbers of both audits depend on, those of re-ranking first."""
    return {**evidence.settings.get(CALIBRATION, {}), **evidence.settings.get(RERANKING, {})}


OWN, RERANKED = "as ranked", "re-ranked"
_COLORS = alt.Scale(domain=[OWN, RERANKED], range=[kit.UP, kit.ACCENT])
_STEPS = 30
"""Bars of the histogram."""
_NEAREST = 0.001
"""Where the histogram's axis starts: lists that are nearer are as good as calibrated."""
_HEIGHT = 260


def divergences(evidence: Evidence, model: str) -> kit.Figure | None:
    """How many users have lists how far from their interests, before and after re-ranking (Figure 1).

    The steps are even on a logarithmic axis: re-ranked lists are nearer by orders of magnitude, and on a plain axis
    would all lie in the first bar.
    """
    both = reranked_by_model(evidence)[model].people.select(KL, f"{KL}_reranked").drop_nulls().to_numpy()
    if both.max(initial=0.0) <= _NEAREST:
        return None
    edges = np.geomspace(max(_NEAREST, both.min()), both.max(), _STEPS + 1)
    rows: kit.Rows = []
    for lists, values in zip((OWN, RERANKED), both.T, strict=True):
        shares = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values)
        for (low, high), share in zip(pairwise(edges.tolist()), shares.tolist(), strict=True):
            told = f"{percent(share)} of users from {low:.2g} to {high:.2g}"
            rows.append({"lists": lists, "low": low, "high": high, "y": round(share, 5), "told": told})
    ticks = [tick for tick in (0.001, 0.01, 0.1, 1.0) if edges[0] <= tick <= edges[-1]]
    axis = kit.tick_axis(ticks, format="~r", grid=False)
    scale = alt.Scale(type="log", domain=[edges[0], edges[-1]], nice=False)
    x = alt.X("low:Q", title=_title(evidence), axis=axis, scale=scale)
    y = alt.Y("y:Q", title="share of users", stack=None, axis=alt.Axis(format="%", grid=True, tickCount=4))
    bars = kit.chart(rows).mark_bar(opacity=0.6, orient="vertical")
    color = alt.Color("lists:N", scale=_COLORS, legend=None)
    chart = bars.encode(x, alt.X2("high:Q"), y, alt.Y2Datum(0), color, tooltip=kit.tooltip("lists"))
    own, reranked = np.median(both, axis=0)
    about = f"Histogram of C_KL of the lists of {model} over users, before and after re-ranking. "
    about += f"Median: {OWN} {own:.3f}, {RERANKED} {reranked:.3f}."
    return kit.figure("How far lists are from their users' interests", about, _HEIGHT, chart)


def one_user(evidence: Evidence, model: str) -> kit.Figure | None:
    """One badly calibrated user's history, list and re-ranked list by category (Figure 2)."""
    example = reranked_by_model(evidence)[model].example
    if example.is_empty():
        return None
    user, shares = example["user"][0], ("history", "own", "reranked")
    rows: kit.Rows = example.filter(pl.max_horizontal(shares) > 0).drop("user").head(kit.MOST_CATEGORIES).to_dicts()
    for row in rows:
        row["told"] = "{} of the history, {} of the list, {} re-ranked".format(*(percent(row[name]) for name in shares))
    names = [row["category"] for row in rows]
    axis, scale = alt.Axis(format="%", grid=True), alt.Scale(zero=True)
    y = kit.rows_of("category", names)
    history, own, reranked = kit.across(*shares, axis=axis, scale=scale, stack=None)
    base, told = kit.chart(rows), kit.tooltip("category")
    numbers = [f"{row['category']}: {row['told']}" for row in rows]
    return kit.figure(
        f"One user: {user}",
        f"Categories of {user} with {model}. {'; '.join(numbers)}.",
        kit.height_of(len(names)),
        base.mark_bar(height=14, fill=kit.LINE).encode(history, y, tooltip=told),
        base.mark_rule(strokeWidth=1, stroke=kit.MUTED).encode(own, alt.X2("reranked:Q"), y),
        base.mark_point(size=70, fill=kit.UP).encode(own, y, tooltip=told),
        base.mark_point(size=70, fill=kit.ACCENT).encode(reranked, y, tooltip=told),
        title=f"Categories of {user} with {model}",
    )


def least_calibrated(evidence: Evidence, model: str) -> kit.Figure | None:
    """How far each category is above and below its share among the users with the worst lists (Figure 3)."""
    worst = reranked_by_model(evidence)[model].worst.head(kit.MOST_CATEGORIES)
    if worst.is_empty():
        return None
    ends: kit.Rows = []
    for row in worst.iter_rows(named=True):
        for lists, ending in ((OWN, ""), (RERANKED, "_reranked")):
            below, above, history = row[f"under{ending}"], row[f"over{ending}"], row["history"]
            told = f"{percent(below)} below to {percent(above)} above {percent(history)}"
            place = {"low": history - below, "high": history + above}
            ends.append({"category": row["category"], "lists": lists, **place, "told": told})
    y = kit.rows_of("category", worst["category"].to_list(), paddingInner=0.35)
    offset = alt.YOffset("lists:N", sort=[OWN, RERANKED])
    color = alt.Color("lists:N", scale=_COLORS, legend=None)
    start, share = kit.across("low", "x", axis=alt.Axis(format="%", grid=True), scale=alt.Scale(zero=True))
    own = [f"{row['category']} {row['told']}" for row in ends if row["lists"] == OWN]
    return kit.figure(
        "The users with the worst lists, by category",
        f"How far categories are below and above their share of the history in the lists of {model}: {'; '.join(own)}.",
        kit.height_of(len(worst), 6),
        kit.chart(ends)
        .mark_bar(opacity=0.75)
        .encode(start, alt.X2("high:Q"), y, offset, color, kit.tooltip("category", "lists")),
        alt.Chart(worst.select("category", x="history"))
        .mark_tick(thickness=2, stroke=kit.INK, fill=kit.INK, bandSize=kit.CLOSE_ROW)
        .encode(share, y),
    )


def recall_against_divergence(evidence: Evidence) -> kit.Figure | None:
    """Recall against C_KL along the weight of calibration, the best bargain marked (Table 2)."""
    label, colors = evidence.label("recall", RERANKING), model_colors(evidence)
    rows: kit.Rows = []
    for model, found in reranked_by_model(evidence).items():
        for point in found.curve.iter_rows(named=True):
            told = ", ".join(evidence.said(name, point[name], RERANKING) for name in (KL, "recall"))
            place = {"weight": point["at"], "x": round(point[KL], 5), "y": round(point["recall"], 5)}
            knee = point == found.best_bargain
            rows.append({**kit.in_series(colors, model), **place, "knee": knee, "told": told})
    if not rows:
        return None
    grid = alt.Axis(grid=True, tickCount=5)
    x = alt.X("x:Q", title=_title(evidence), scale=alt.Scale(zero=True), axis=grid)
    y = alt.Y("y:Q", title=label, scale=alt.Scale(zero=False, nice=True), axis=grid)
    color = kit.by_series(colors)
    base, shown = kit.chart(rows, colors), kit.tooltip("model", "weight")
    marked = kit.chart([row for row in rows if row["knee"]], colors)
    # One label: those of all models would lie on top of each other.
    named = kit.chart([row for row in rows if row["knee"] and row["model"] == rows[0]["model"]])
    bargains = [f"{row['model']} at {row['weight']:g}: {row['told']}" for row in rows if row["knee"]]
    return kit.figure(
        f"{label} against calibration",
        f"{label} against C_KL for each model, a point for each weight. Best bargains: {'; '.join(bargains)}.",
        _HEIGHT,
        base.mark_line(strokeWidth=1.5, opacity=0.7).encode(x, y, color, order="weight:Q"),
        base.mark_point(size=24).encode(x, y, color, tooltip=shown),
        marked.mark_point(size=150, filled=False, strokeWidth=2).encode(x, y, color, tooltip=shown),
        named.mark_text(align="left", dx=8, dy=16).encode(x, y, text="weight:N"),
    )


def _title(evidence: Evidence) -> str:
    """C_KL on an axis, with the smoothing that it depends on."""
    smoothing = f"smoothing {settings_of(evidence)['smoothing']:g}"
    return f"C_KL@{evidence.list_length(RERANKING)}, {smoothing} (further left: better)"


_SHORT = {
    KL: "C_KL",
    "calibration_hellinger": "Hellinger",
    "calibration_tv": "Total variation",
    "uncalibrated_share": "Beyond chance",
    "coverage": "Coverage",
    "gini": "Gini",
    "popularity_lift": "Popularity lift",
    "novelty": "Novelty",
    "log_folding": "Folding by the log",
}
"""Labels that are shorter than elsewhere: a cell of before and after holds three numbers."""


def compare_reranked_lists(evidence: Evidence) -> Iterator[Claim]:
    """Find out how much more calibrated re-ranking makes the lists, and what it costs."""
    found = _front(evidence)
    gain, cost = (found.change(KL), found.change("ndcg")) if found else (None, None)
    if found is None or gain is None or cost is None or gain.value is None or gain.value >= 0:
        return
    settings = settings_of(evidence)
    moved = {
        name: f"{evidence.label(name, RERANKING)} from {found.changes[name].compared} to {found.changes[name].full}"
        for name in (KL, *QUALITIES)
    }
    label, before = evidence.label("ndcg", RERANKING), found.changes["ndcg"].baseline
    p, cost_p = (compute_reference_p(evidence, RERANKING, name, found.model, 0) for name in (KL, "ndcg"))
    numbers, price = [_change_number(found.model, KL, gain, p)], f"; a change of their {label} is not shown"
    if cost_p <= LEVEL and cost.value is not None:
        numbers.append(_change_number(found.model, "ndcg", cost, cost_p))
        price = f", and their {label} rises"
        if cost.value < 0:
            price = f", and their {label} falls" + (f" by {percent(-cost.value / before)}" if before else "")
    point, bargain = found.best_bargain, ""
    if point is not None:
        parts = ", ".join(evidence.said(name, point[name], RERANKING) for name in (KL, "recall"))
        bargain = f" Of the weights tried, {point['at']:g} is the best bargain: {parts}."
    claim = f"Re-ranked, the lists of {found.model} come closer to what users are interested in{price}"
    detail = f"With a weight of {settings['weight']:g} on calibration: {moved[KL]} "
    detail += f"(smoothing {settings['smoothing']:g}), {moved['ndcg']} and {moved['recall']}.{bargain}"
    advice = f"Show lists with policy = {{kind = 'calibrated', weight = {settings['weight']:g}}} if that is worth its "
    advice += "price; the curve has those of other weights."
    effect = evidence.size(gain, beside=[cost])
    code = "reranking.calibration-improves"
    yield Finding(code, claim, detail, CALIBRATION, effect, _measure(evidence, found), advice, numbers=tuple(numbers))


def _change_number(model: str, metric: str, change: Estimate, p: float | None) -> ClaimNumber:
    return ClaimNumber(
        audit=RERANKING,
        metric=metric,
        model=model,
        value=change.value,
        lower=change.lower,
        upper=change.upper,
        reference=0.0,
        p=p,
        users=change.users,
    )


def _measure(evidence: Evidence, found: RerankedLists) -> Measure:
    """How far the lists are from what users are interested in as they are ranked."""
    label = f"{evidence.label(KL, RERANKING)} of {found.model}"
    return measure(evidence, found.model, KL) or Measure(KL, found.model, label, found.changes[KL].compared)


def _front(evidence: Evidence) -> RerankedLists | None:
    """Of the best ranking of the models whose lists were re-ranked and have a C_KL."""
    return next((own for own in reranked_by_model(evidence).values() if own.people[KL].count()), None)


def _shares(row: Mapping[str, Any]) -> str:
    history, shown = percent(row["history"]), percent(row["shown"])
    return f"{row['category']} is {history} of what they chose and {shown} of their lists"


@final
class CalibrationSection(Section):
    """Whether lists are calibrated as they are ranked, and what re-ranking them would do; either may be missing."""

    audits = (CALIBRATION, RERANKING)
    anchor, title, template, place = "calibration", "Calibration", "calibration.html.j2", 80
    questions = (compare_reranked_lists,)

    def content(self) -> dict[str, Any] | None:
        """Lists as they are, and before and after re-ranking."""
        evidence = self.evidence
        settings = settings_of(evidence)
        if not settings:
            return None
        own = evidence.metrics(CALIBRATION)
        unranked = any(model not in reranked_by_model(evidence) for model in evidence.known(KL))
        groupings = [*evidence.user_groupings, *evidence.item_groupings]
        return {
            "kind": settings.get("categories") or next(iter(evidence.run.manifest.data.categories), "category"),
            "smoothing": settings["smoothing"],
            "highest": -log(settings["smoothing"]),
            "k": settings["k"],
            "own": overview(evidence, CALIBRATION) if own and unranked else None,
            "skipped": evidence.unasked(CALIBRATION, RERANKING),
            "groups": group_tables(evidence, [KL], groupings),
            "reranked": _reranked(evidence) if reranked_by_model(evidence) else None,
            "metrics": [KL, *own, *(name for found in reranked_by_model(evidence).values() for name in found.changes)],
        }


def _reranked(evidence: Evidence) -> dict[str, Any]:
    """Before and after, with the figures of the best at ranking of the models that have an answer."""
    found = reranked_by_model(evidence)
    front = _front(evidence) or next(iter(found.values()))
    model = front.model
    measured = list(dict.fromkeys(name for own in found.values() for name in own.changes))
    first = [name for name in (*DISTANCES, "uncalibrated_share", *QUALITIES) if name in measured]
    users = front.people.join(front.example, on="user", how="semi")
    return {
        "weight": settings_of(evidence)["weight"],
        "main": _before_and_after(evidence, first),
        "others": _before_and_after(evidence, [name for name in measured if name not in first]),
        "model": model,
        "histogram": divergences(evidence, model),
        "one_user": one_user(evidence, model),
        "user": next(users.iter_rows(named=True), None),
        "worst": least_calibrated(evidence, model),
        "tradeoff": recall_against_divergence(evidence),
        "bargain": front.best_bargain,
        "drawn": [name for name, own in found.items() if len(own.curve)],
        "curves": [(name, _curve(evidence, own)) for name, own in found.items() if len(own.curve)],
    }


def _before_and_after(evidence: Evidence, metrics: list[str]) -> Overview:
    """Metrics by model, each as its value before re-ranking and after."""
    rows = [
        TableRow(model, [_change(own, metric) for metric in metrics], model in evidence.references)
        for model, own in reranked_by_model(evidence).items()
    ]
    return Overview(metrics, [_SHORT.get(name) or evidence.label(name, RERANKING) for name in metrics], rows)


def _change(found: RerankedLists, metric: str) -> TableCell:
    estimate = found.changes.get(metric)
    if estimate is None:
        return user_cell(None, reason="the model has no vectors of users and items")
    made = user_cell(estimate, reason="there was nothing to measure")
    return made if made.reason else replace(made, before=estimate.compared)


def _curve(evidence: Evidence, found: RerankedLists) -> NumberTable:
    """One model's numbers along the weight: paper 004, Table 2."""
    names, rows = (KL, "recall"), []
    for point in found.curve.iter_rows(named=True):
        cells = [number_cell(point[name], evidence.definitions[name].written) for name in names]
        cells.append(TableCell("best bargain" if point == found.best_bargain else ""))
        rows.append(TableRow(f"{point['at']:g}", cells))
    labels = [evidence.label(name, RERANKING) for name in names]
    caption = f"Smoothing {settings_of(evidence)['smoothing']:g}"
    return NumberTable(caption, ["weight of calibration", *labels, ""], rows, ["weight", *names, "note"])
