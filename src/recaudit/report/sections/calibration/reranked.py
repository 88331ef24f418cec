"""What re-ranking would do to one model's lists: the tables of its audit, and its charts (paper 004)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, final

import altair as alt
import numpy as np
import polars as pl

from recaudit.arrays import FloatArray
from recaudit.audits.calibration.reranking import knee
from recaudit.metrics.numbers import percent
from recaudit.metrics.tables import SUMMARY_SCHEMA
from recaudit.report.evidence import Evidence, columns
from recaudit.report.kit import charts as kit
from recaudit.report.kit.numbers import Estimate

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
    """category, history (its mean share of what they chose), over, under, over_reranked, under_reranked (how far it is
    above and below that in their lists, averaged over users) and shown (its mean share of their lists), among the users
    with the least calibrated lists; the largest share of their history first."""
    example: pl.DataFrame
    """user, category, history, own, reranked: how much of one badly calibrated user's history, list and re-ranked list
    is of each category; the largest part of the history first."""
    curve: pl.DataFrame
    """at, calibration_kl, recall: all lists re-ranked with some weights of calibration, from 0, the model's own."""

    @classmethod
    def of(cls, evidence: Evidence, model: str) -> RerankedLists:
        """Read a finished audit."""
        changes = evidence.table(model, RERANKING, "reranked", SUMMARY_SCHEMA).iter_rows(named=True)
        worst = evidence.table(model, RERANKING, "worst", _WORST)
        example = evidence.table(model, RERANKING, "example", _EXAMPLE)
        return cls(
            evidence,
            model,
            {row["metric"]: Estimate.of(evidence.definitions[row["metric"]], row) for row in changes},
            evidence.table(model, RERANKING, "users", _USERS),
            worst.with_columns(shown=pl.col("history") - pl.col("under") + pl.col("over")).sort(
                "history", descending=True, maintain_order=True
            ),
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
        """How much re-ranking adds to a metric on average, with a paired interval over the same users."""
        gains = self.people.select(pl.col(f"{metric}_reranked") - pl.col(metric)).to_series().drop_nulls()
        return Estimate.mean(self.evidence.definitions[metric], gains.to_numpy(), self.evidence.confidence)

    def divergences(self) -> tuple[FloatArray, FloatArray]:
        """(users,) each: C_KL before and after, of the users who have one."""
        known = self.people.select(KL, f"{KL}_reranked").drop_nulls()
        return known[KL].to_numpy(), known[f"{KL}_reranked"].to_numpy()


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
    own, reranked = reranked_by_model(evidence)[model].divergences()
    both = np.concatenate([own, reranked])
    if not len(own) or both.max() <= _NEAREST:
        return None
    edges = np.geomspace(max(_NEAREST, both.min()), both.max(), _STEPS + 1)
    rows: kit.Rows = []
    for lists, values in ((OWN, own), (RERANKED, reranked)):
        shares = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values)
        for (low, high), share in zip(pairwise(edges.tolist()), shares.tolist(), strict=True):
            told = f"{percent(share)} of users from {low:.2g} to {high:.2g}"
            rows.append({"lists": lists, "low": low, "high": high, "y": round(share, 5), "told": told})
    ticks = [tick for tick in (0.001, 0.01, 0.1, 1.0) if edges[0] <= tick <= edges[-1]]
    axis = kit.tick_axis(ticks, format="~r", grid=False)
    scale = alt.Scale(type="log", domain=[edges[0], edges[-1]], nice=False)
    x = alt.X("low:Q", title=_title(evidence, "further left: better"), axis=axis, scale=scale)
    y = alt.Y("y:Q", title="share of users", stack=None, axis=alt.Axis(format="%", grid=True, tickCount=4))
    bars = kit.chart(rows).mark_bar(opacity=0.6, orient="vertical")
    color = alt.Color("lists:N", scale=_COLORS, legend=None)
    chart = bars.encode(x, alt.X2("high:Q"), y, alt.Y2Datum(0), color, tooltip=kit.tooltip("lists"))
    medians = [f"{lists} {np.median(values):.3f}" for lists, values in ((OWN, own), (RERANKED, reranked))]
    return kit.figure(
        "How far lists are from their users' interests",
        f"Histogram of C_KL of the lists of {model} over users, before and after re-ranking. "
        f"Median: {', '.join(medians)}.",
        _HEIGHT,
        chart,
    )


def one_user(evidence: Evidence, model: str) -> kit.Figure | None:
    """One badly calibrated user's history, list and re-ranked list by category (Figure 2)."""
    example = reranked_by_model(evidence)[model].example
    if example.is_empty():
        return None
    user, shares = example["user"][0], ("history", "own", "reranked")
    rows: kit.Rows = [
        {
            "category": row["category"],
            **{name: row[name] for name in shares},
            "told": f"{percent(row['history'])} of the history, {percent(row['own'])} of the list, "
            f"{percent(row['reranked'])} re-ranked",
        }
        for row in example.iter_rows(named=True)
        if max(row[name] for name in shares) > 0
    ][: kit.MOST_CATEGORIES]
    names = [row["category"] for row in rows]
    axis = alt.Axis(format="%", grid=True)
    y = kit.rows_of("category", names)
    history, own, reranked = (
        alt.X(f"{field}:Q", title=None, axis=axis, scale=alt.Scale(zero=True), stack=None) for field in shares
    )
    base, told = kit.chart(rows), kit.tooltip("category")
    numbers = [f"{row['category']}: {row['told']}" for row in rows]
    return kit.figure(
        f"One user: {user}",
        f"Categories of {user} with {model}. {'; '.join(numbers)}.",
        kit.ROW * len(names),
        base.mark_bar(height=14, fill=kit.LINE).encode(history, y, tooltip=told),
        base.mark_rule(strokeWidth=1, stroke=kit.MUTED).encode(own, alt.X2("reranked:Q"), y),
        base.mark_point(size=70, fill=kit.UP).encode(own, y, tooltip=told),
        base.mark_point(size=70, fill=kit.ACCENT).encode(reranked, y, tooltip=told),
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
    axis, scale = alt.Axis(format="%", grid=True), alt.Scale(zero=True)
    y = kit.rows_of("category", worst["category"].to_list(), alt.Scale(paddingInner=0.35))
    offset = alt.YOffset("lists:N", sort=[OWN, RERANKED])
    color = alt.Color("lists:N", scale=_COLORS, legend=None)
    start = alt.X("low:Q", title=None, axis=axis, scale=scale)
    own = [f"{row['category']} {row['told']}" for row in ends if row["lists"] == OWN]
    return kit.figure(
        "The users with the worst lists, by category",
        f"How far categories are below and above their share of the history in the lists of {model}: {'; '.join(own)}.",
        (kit.ROW + 6) * len(worst),
        kit.chart(ends)
        .mark_bar(opacity=0.75)
        .encode(start, alt.X2("high:Q"), y, offset, color, kit.tooltip("category", "lists")),
        alt.Chart(worst.select("category", x="history"))
        .mark_tick(thickness=2, stroke=kit.INK, fill=kit.INK, bandSize=kit.ROW - 4)
        .encode(alt.X("x:Q", title=None, axis=axis, scale=scale), y),
    )


def recall_against_divergence(evidence: Evidence) -> kit.Figure | None:
    """Recall against C_KL along the weight of calibration, the best bargain marked (Table 2)."""
    label = evidence.label("recall", RERANKING)
    rows: kit.Rows = []
    for model, found in reranked_by_model(evidence).items():
        for point in found.curve.iter_rows(named=True):
            told = ", ".join(evidence.said(name, point[name], RERANKING) for name in (KL, "recall"))
            place = {"weight": point["at"], "x": round(point[KL], 5), "y": round(point["recall"], 5)}
            knee = point == found.best_bargain
            rows.append({**kit.in_series(evidence.models, model), **place, "knee": knee, "told": told})
    if not rows:
        return None
    grid = alt.Axis(grid=True, tickCount=5)
    x = alt.X("x:Q", title=_title(evidence, "further left: better"), scale=alt.Scale(zero=True), axis=grid)
    y = alt.Y("y:Q", title=label, scale=alt.Scale(zero=False, nice=True), axis=grid)
    color = kit.by_series(evidence.models)
    base, shown = kit.chart(rows), kit.tooltip("model", "weight")
    marked = kit.chart([row for row in rows if row["knee"]])
    # One label: those of all models would lie on top of each other.
    first = rows[0]["model"]
    named = kit.chart([row for row in rows if row["knee"] and row["model"] == first])
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


def _title(evidence: Evidence, hint: str) -> str:
    """C_KL on an axis, with the smoothing that it depends on."""
    return f"C_KL@{evidence.list_length(RERANKING)}, smoothing {settings_of(evidence)['smoothing']:g} ({hint})"
