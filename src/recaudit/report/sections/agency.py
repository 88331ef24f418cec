"""Who decides what is recommended: what people can do to their own recommendations, and others to them, over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10
from typing import Any, Literal, final

import altair as alt
import numpy as np
import polars as pl

from recaudit.arrays import FloatArray
from recaudit.audits.agency.definitions import EDITOR_CONTRAST, ITEM_CONTRAST
from recaudit.metrics.metric import Metric
from recaudit.metrics.numbers import TIMES, percent, times
from recaudit.metrics.tables import SERIES_SCHEMA
from recaudit.report.evidence import Evidence, columns
from recaudit.report.kit import charts as kit
from recaudit.report.kit.comparisons import NumberTable, TableRow, group_tables, overview, user_cell
from recaudit.report.kit.numbers import Estimate, Finding, against, in_logs, written
from recaudit.report.sections.section import Section

AUDIT = "agency"

When = Literal["past", "future"]
WHEN: Mapping[When, str] = {"past": "in hindsight", "future": "from now on"}

_ACTIONS = {
    "action_items": pl.List(pl.String),
    "given_ratings": pl.List(pl.Float64),
    "action_ratings": pl.List(pl.Float64),
}
_PAIRS = {**columns("when viewer editor", "value"), **_ACTIONS}


@final
@dataclass(frozen=True)
class Worked:
    """The pair that moves furthest: whose recommendations, by whose ratings, and by which."""

    viewer: str
    editor: str
    value: float
    ratings: tuple[tuple[str, float | None, float], ...]
    """The title of each item, the rating that was given, if any, and the one that would be given instead."""


@final
@dataclass(frozen=True, eq=False)
class AgencyCurves:
    """One model's audit."""

    series: pl.DataFrame
    """Columns as in SERIES_SCHEMA."""
    worked: Mapping[str, Worked]
    """By "past" and "future"."""

    @classmethod
    def of(cls, evidence: Evidence, model: str) -> AgencyCurves:
        """Read a finished audit."""
        items = evidence.table(model, AUDIT, "items", columns("item title"))
        titles = dict(items.select("item", pl.coalesce("title", "item")).iter_rows())
        pairs = evidence.table(model, AUDIT, "pairs", _PAIRS)
        worked = {
            when: Worked(
                viewer,
                editor,
                value,
                tuple((titles.get(item, item), *ratings) for item, *ratings in zip(acted, given, instead, strict=True)),
            )
            for when, viewer, editor, value, acted, given, instead in pairs.iter_rows()
        }
        return cls(evidence.table(model, AUDIT, "series", SERIES_SCHEMA), worked)

    def curve(self, over: str, metric: str) -> pl.DataFrame:
        """The points that have a value."""
        wanted = (pl.col("over") == over) & (pl.col("metric") == metric)
        return self.series.filter(wanted & pl.col("value").is_not_null()).sort("at")

    def histogram(self, metric: str, edges: FloatArray) -> list[float]:
        """(len(edges) - 1,): the share of pairs whose instability lies between two edges."""
        steps = self.curve("instability", metric)
        # A step belongs to the bin that starts where it does, whichever way the two were rounded.
        starts = steps["at"].to_numpy() * (1 + 1e-9)
        return [float(share) for share in np.histogram(starts, edges, weights=steps["value"].to_numpy())[0]]


def agency_by_model(evidence: Evidence) -> Mapping[str, AgencyCurves]:
    """The curves and pairs of the models that were audited."""
    return evidence.each(AUDIT, AgencyCurves.of)


_HEIGHT = 220
_STEPS = 25
"""Bars of the histogram, at most."""
_FINEST = 0.001
"""The narrowest bar: as narrow as the steps in which pairs were counted."""
_TAIL = 0.001
"""A histogram ends where no model has a larger share of its pairs beyond."""
_WIDE = 8
"""From this ratio on between its ends, an axis of lifts is logarithmic."""

_HEADINGS = {
    "past_lift": "Lift in hindsight",
    "future_lift": "Lift from now on",
    "past_instability": "Instability in hindsight",
    "future_instability": "Instability from now on",
}
_TITLES = {"horizon": "ratings that are free", "beta": "beta: from anything goes to the top item alone"}


def curve(evidence: Evidence, over: Literal["horizon", "beta"], metric: str) -> kit.Figure | None:
    """One metric along a sweep: a line for each model, its interval as a band."""
    rows: kit.Rows = []
    for model, agency in agency_by_model(evidence).items():
        for row in agency.curve(over, metric).iter_rows(named=True):
            estimate = Estimate.of(evidence.definitions[metric], row)
            rows.append({**kit.in_series(evidence.models, model), over: row["at"], **kit.drawn(estimate)})
    if len({row[over] for row in rows}) < 2:
        return None
    points = sorted({row[over] for row in rows})
    marks = points if over == "horizon" else list(range(floor(points[-1]) + 1))
    ticks = kit.tick_axis(marks, format="d", grid=False)
    x = alt.X(f"{over}:Q", title=_TITLES[over], axis=ticks, scale=alt.Scale(zero=over == "beta", nice=False, padding=8))
    axis, scale = _level(rows, evidence.definitions[metric])
    value, lower = (alt.Y(f"{field}:Q", title=None, axis=axis, scale=scale) for field in ("value", "lower"))
    color = kit.by_series(evidence.models)
    base = kit.chart(rows)
    ends = [
        f"{model} {own[0]['told']} to {own[-1]['told']}"
        for model in agency_by_model(evidence)
        if (own := [row for row in rows if row["model"] == model])
    ]
    heading = _HEADINGS[metric]
    return kit.figure(
        heading,
        f"{heading} of each model over {over}, from {points[0]:g} to {points[-1]:g}: {'; '.join(ends)}.",
        _HEIGHT,
        base.mark_area(opacity=0.16).encode(x, lower, alt.Y2("upper:Q"), color),
        base.mark_line(strokeWidth=2).encode(x, value, color),
        base.mark_point(size=36).encode(x, value, color, tooltip=kit.tooltip("model", over)),
    )


def _level(rows: kit.Rows, metric: Metric) -> tuple[alt.Axis, alt.Scale]:
    """Distances start at 0; lifts at 1, where users have no say, on a logarithmic axis where they are far apart."""
    if metric.format != "times":
        return alt.Axis(grid=True, tickCount=4), alt.Scale(zero=True, nice=True)
    ends = [end for row in rows for end in (row["lower"], row["value"], row["upper"]) if end is not None]
    low, high = min(1.0, *ends), max(1.0, *ends)
    wide = high >= _WIDE * low
    powers = range(floor(log10(low)), floor(log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in (1, 2, 5) if low <= step * 10.0**power <= 1.05 * high]
    label = f"'{TIMES}' + format(datum.value, '~r')"
    if not wide:
        return alt.Axis(labelExpr=label, grid=True, tickCount=4), alt.Scale(domain=[low, high], nice=True)
    return kit.tick_axis(ticks, labelExpr=label, grid=True), alt.Scale(
        type="log", domain=[low, 1.05 * high], nice=False
    )


def instability_histogram(evidence: Evidence, when: When) -> kit.Figure | None:
    """How many pairs of users move each other how far: a histogram for each model, drawn as a line."""
    metric = f"{when}_instability"
    steps = {
        model: found
        for model, agency in agency_by_model(evidence).items()
        if len(found := agency.curve("instability", metric))
    }
    if not steps:
        return None
    # Where hardly any pair of any model lies beyond: the end of the last step that counts.
    beyond = pl.col("value").reverse().cum_sum().reverse()
    last = max(float(found.filter(beyond > _TAIL)["at"].to_numpy().max(initial=0.0)) for found in steps.values())
    end = _STEPS * _FINEST * (floor(last / (_STEPS * _FINEST)) + 1)
    edges = np.linspace(0.0, end, _STEPS + 1)
    written = evidence.definitions[metric].written
    rows: kit.Rows = []
    for model in steps:
        shares = agency_by_model(evidence)[model].histogram(metric, edges)
        for (low, high), share in zip(pairwise(edges.tolist()), shares, strict=True):
            told = f"{percent(share)} of pairs from {written(low)} to {written(high)}"
            middle = float((low + high) / 2)
            rows.append({**kit.in_series(evidence.models, model), "x": middle, "y": round(share, 5), "told": told})
    distance = str(evidence.settings["agency"]["distance"]).capitalize()
    x = alt.X("x:Q", title=f"how far another can move a user ({distance} distance)", scale=alt.Scale(domain=[0, end]))
    y = alt.Y("y:Q", title="share of pairs", axis=alt.Axis(format="%", grid=True, tickCount=4))
    lines = kit.chart(rows).mark_line(strokeWidth=2, interpolate="step")
    means = [f"{model} {estimate.full}" for model, estimate in evidence.known(metric).items()]
    return kit.figure(
        f"How far others can move users {WHEN[when]}",
        f"Histogram of the instability of all pairs of users {WHEN[when]}, for each model. Mean: {', '.join(means)}.",
        _HEIGHT,
        lines.encode(x, y, kit.by_series(evidence.models), kit.tooltip("model")),
    )


LIFTS, INSTABILITIES = ["past_lift", "future_lift"], ["past_instability", "future_instability"]
MAIN = [*LIFTS, *INSTABILITIES]
_VERBS = {"lift": ("can lift", "could have lifted"), "instability": ("can move", "could have moved")}
"""Of the future, and of the past."""


def own_say(evidence: Evidence) -> Iterator[Finding]:
    """How much do the last ratings decide, and how much the next ones?"""
    model, lifts = _firm(evidence, "lift")
    strongest = max(lifts, key=lambda when: lifts[when].value or 0.0, default=None)
    if strongest is None or not lifts[strongest].above(1):
        return
    most, k = lifts[strongest], evidence.list_length(AUDIT)
    how = {"past": f"by having rated the last {k} items otherwise", "future": f"by rating the next {k}"}
    verb = "could have made" if strongest == "past" else "can make"
    said = ", ".join(f"{estimate.full} {how[when]}" for when, estimate in lifts.items())
    doubled = [f"{own.full} of items {WHEN[when]}" for when, own in _firm(evidence, "doubled", model)[1].items()]
    yield Finding(
        f"With {k} ratings, users of {model} {verb} an item {most.text.lstrip(TIMES)} times as likely at best, "
        "on average",
        f"Lift: {said}." + (f" At least twice as likely: {', '.join(doubled)}." if doubled else ""),
        AUDIT,
        *evidence.size(in_logs(most)),
    )


def others_say(evidence: Evidence) -> Iterator[Finding]:
    """How far can others move what people are recommended?"""
    model, shares = _firm(evidence, "unstable_share")
    if model is None:
        return
    distance = f"{str(evidence.settings[AUDIT]['distance']).capitalize()} distance"
    means = [f"{own.full} {WHEN[when]}" for when, own in _firm(evidence, "instability", model)[1].items()]
    most = max(shares.values(), key=lambda estimate: estimate.value or 0.0)
    worked = agency_by_model(evidence)[model].worked
    pairs = [f"{worked[when].value:.3f} {WHEN[when]}" for when in shares if when in worked]
    claim = f"With {model}, {most.text} of users' pairs are unstable: one of them can overturn what the other is shown"
    if not most.value:
        claim = f"No user of {model} who was asked about can overturn what another is shown with "
        claim += f"{evidence.list_length(AUDIT)} ratings"
    average = f"{distance} on average: {', '.join(means)}; " if means else f"{distance}: "
    largest = f" The largest: {', '.join(pairs)}." if pairs else ""
    yield Finding(
        claim,
        f"{average}0.5 would be unstable.{largest}",
        AUDIT,
        against(most, 0.0, evidence.confidence),
        min(estimate.users for estimate in shares.values()),
    )


def popular_items_move(evidence: Evidence) -> Iterator[Finding]:
    """Can popular items be lifted further than others, or less far?"""
    for model, when, (popular, between, ratio), verb, way in _contrasts(evidence, "lift", ITEM_CONTRAST, 1.0):
        yield Finding(
            f"Users of {model} {verb} popular items {way} than intermediate ones",
            f"{WHEN[when].capitalize()}: {popular.full} against {between.full}, a ratio of "
            f"{times(ratio.value or 1.0)} {ratio.interval} on the same users.",
            AUDIT,
            against(in_logs(ratio), 0.0, evidence.confidence),
            min(estimate.users for estimate in (popular, between, ratio)),
        )


def active_users_move(evidence: Evidence) -> Iterator[Finding]:
    """Do the most active users move others further?"""
    for model, when, (active, between, difference), verb, way in _contrasts(
        evidence, "instability", EDITOR_CONTRAST, 0.0
    ):
        yield Finding(
            f"The most active users of {model} {verb} others {way} than users in between",
            f"Instability {WHEN[when]}: {active.full} against {between.full}, a difference of "
            f"{difference.signed} on the same users.",
            AUDIT,
            against(difference, 0.0, evidence.confidence),
            min(estimate.users for estimate in (active, between, difference)),
        )


def _contrasts(
    evidence: Evidence, metric: str, by: str, level: float
) -> Iterator[tuple[str, When, list[Estimate], str, str]]:
    """Of the model in front: the two groups and how they differ, where that is apart from `level`; the future first."""
    model, _ = _firm(evidence, metric)
    tenses: tuple[When, ...] = ("future", "past")
    for when, verb in zip(tenses, _VERBS[metric], strict=True):
        groups = [] if model is None else evidence.firm_groups(model, f"{when}_{metric}", by)
        estimates = [group.estimate for group in groups]
        if model is not None and len(groups) == 3 and (estimates[2].above(level) or estimates[2].below(level)):
            yield model, when, estimates, verb, "further" if estimates[2].above(level) else "less far"
            return


def _firm(evidence: Evidence, metric: str, model: str | None = None) -> tuple[str | None, dict[When, Estimate]]:
    """A metric in hindsight and from now on, where it rests on enough users: of the best ranking model that has it."""
    firm = {when: evidence.firm(f"{when}_{metric}") for when in WHEN}
    model = model or next((own for own in evidence.models if any(own in found for found in firm.values())), None)
    return model, {when: found[model] for when, found in firm.items() if model in found}


@final
class AgencySection(Section):
    """Who decides what is recommended: the people it is recommended to, or others?"""

    audits = (AUDIT,)
    anchor, title, template, place = "agency", "Agency", "agency.html.j2", 60
    questions = (own_say, others_say, popular_items_move, active_users_move)

    def content(self) -> dict[str, Any] | None:
        """The four numbers, everything else that was measured, sweeps, contrasts and one pair."""
        evidence = self.evidence
        metrics = evidence.metrics(AUDIT)
        if not metrics:
            return None
        settings, found = evidence.settings[AUDIT], agency_by_model(evidence)
        others = {model for metric in INSTABILITIES for model in evidence.known(metric)}
        worked = ((model, own.worked["past"]) for model, own in found.items() if "past" in own.worked)
        contrasts = [
            NumberTable(
                "Lift of popular and of intermediate items",
                ["Model", "Popular", "Intermediate", "Ratio"],
                _contrast_rows(evidence, "lift", ITEM_CONTRAST),
            ),
            NumberTable(
                "Instability by active and by intermediate users",
                ["Model", "Active", "Intermediate", "Difference"],
                _contrast_rows(evidence, "instability", EDITOR_CONTRAST),
            ),
        ]
        rules = {name: settings.get(name, "") for name in ("popular items", "active editors")}
        return {
            "k": settings["k"],
            "distance": settings["distance"],
            "policy": written(settings["policy"]),
            "asked": {name: _number(settings[name]) for name in ("users", "targets", "editors", "followed")},
            "rules": rules,
            "main": overview(evidence, AUDIT, [metric for metric in MAIN if metric in metrics]),
            "more": overview(evidence, AUDIT, [metric for metric in metrics if metric not in MAIN]),
            "models": list(found),
            "skipped": evidence.unasked(AUDIT),
            "movers": [model for model in found if model in others],
            "own_only": [model for model in found if model not in others],
            "horizons": [figure for metric in MAIN if (figure := curve(evidence, "horizon", metric)) is not None],
            "betas": [figure for metric in MAIN if (figure := curve(evidence, "beta", metric)) is not None],
            "moved": [figure for when in WHEN if (figure := instability_histogram(evidence, when)) is not None],
            "contrasts": [table for table in contrasts if table.rows],
            "groups": [
                *group_tables(evidence, MAIN, ["history"]),
                *group_tables(evidence, LIFTS, ["popularity"]),
                *group_tables(evidence, INSTABILITIES, ["editor history"]),
            ],
            "example": next(worked, None),
            "methods": f"Hindsight is asked of a model that has not seen anybody's last {settings['k']} ratings; the "
            "future of one that has seen all ratings. A user's own ratings move that user alone, another's ratings "
            "move the items that they rate, and nothing else moves: the model is not trained anew. Popular items: "
            f"{rules['popular items']}. Active users: {rules['active editors']}. Their lifts are geometric means, "
            "compared as a ratio on the same users.",
        }


def _number(some: int | list[object]) -> int:
    """How many a count, or a list of ids, stands for."""
    return len(some) if isinstance(some, list | tuple) else some


def _contrast_rows(evidence: Evidence, metric: str, by: str) -> list[TableRow]:
    """Two groups on the same users, a line for each model and tense."""
    found = {
        f"{model}, {tense}": evidence.groups(model, f"{when}_{metric}", by)
        for model in agency_by_model(evidence)
        for when, tense in WHEN.items()
    }
    return [
        TableRow(name, [user_cell(group.estimate) for group in groups])
        for name, groups in found.items()
        if len(groups) == 3
    ]
