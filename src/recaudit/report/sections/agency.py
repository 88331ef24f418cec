"""Who decides what is recommended: what people can do to their own recommendations, and others to them, over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from math import floor, log10
from operator import itemgetter
from typing import Any, Literal, cast, final

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
from recaudit.report.kit.claims import LEVEL, Claim, ClaimNumber, Effect, Finding, Measure, in_logs
from recaudit.report.kit.comparisons import NumberTable, TableRow, group_tables, model_colors, overview, user_cell
from recaudit.report.kit.measures import measure
from recaudit.report.kit.notes import among, basis
from recaudit.report.kit.numbers import Estimate
from recaudit.report.sections.section import Section
from recaudit.report.significance import CONTRASTS, compute_reference_p
from recaudit.specification import written

AUDIT = "agency"

When = Literal["past", "future"]
WHEN: Mapping[When, str] = {"past": "in hindsight", "future": "from now on"}

_PAIRS = {
    **columns("when viewer editor", "value"),
    "action_items": pl.List(pl.String),
    **dict.fromkeys(["given_ratings", "action_ratings"], pl.List(pl.Float64)),
}


@final
@dataclass(frozen=True, eq=False)
class AgencyCurves:
    """One model's audit."""

    series: pl.DataFrame
    """Columns as in SERIES_SCHEMA."""
    worked: Mapping[str, Mapping[str, Any]]
    """By "past" and "future" the pair that moves furthest: viewer, editor (whose ratings move what viewers are shown),
    value, and ratings: the title of each item, the rating given, if any, and the one to give instead."""

    @classmethod
    def of(cls, evidence: Evidence, model: str) -> AgencyCurves:
        """Read a finished audit."""
        items = evidence.table(model, AUDIT, "items", columns("item title"))
        titles = dict(items.select("item", pl.coalesce("title", "item")).iter_rows())
        worked = {}
        for row in evidence.table(model, AUDIT, "pairs", _PAIRS).iter_rows(named=True):
            acted = [titles.get(item, item) for item in row["action_items"]]
            ratings = tuple(zip(acted, row["given_ratings"], row["action_ratings"], strict=True))
            worked[row["when"]] = {**row, "ratings": ratings}
        return cls(evidence.table(model, AUDIT, "series", SERIES_SCHEMA), worked)

    def curve(self, over: str, metric: str) -> pl.DataFrame:
        """The points that have a value."""
        wanted = (pl.col("over") == over) & (pl.col("metric") == metric)
        return self.series.filter(wanted & pl.col("value").is_not_null()).sort("at")

    def histogram(self, metric: str, edges: FloatArray) -> list[float]:
        """(len(edges) - 1,): the share of pairs whose instability lies between two edges."""
        starts, shares = self.curve("instability", metric).select("at", "value").to_numpy().T
        # A step belongs to the bin that starts where it does, whichever way the two were rounded.
        found: list[float] = np.histogram(starts * (1 + 1e-9), edges, weights=shares)[0].tolist()
        return found


_HEIGHT = 220
_STEPS = 25
"""Bars of the histogram, at most."""
_FINEST = 0.001
"""The narrowest bar: as narrow as the steps in which pairs were counted."""
_TAIL = 0.001
"""A histogram ends where no model has a larger share of its pairs beyond."""
_WIDE = 8
"""From this ratio on between its ends, an axis of lifts is logarithmic."""

_TITLES = {"horizon": "ratings that are free", "beta": "beta: from anything goes to the top item alone"}


def curve(evidence: Evidence, over: Literal["horizon", "beta"], metric: str) -> kit.Figure | None:
    """One metric along a sweep: a line for each model, its interval as a band."""
    rows: kit.Rows = []
    colors = model_colors(evidence)
    for model, agency in evidence.each(AUDIT, AgencyCurves.of).items():
        for row in agency.curve(over, metric).iter_rows(named=True):
            estimate = Estimate.of(evidence.definitions[metric], row)
            rows.append({**kit.in_series(colors, model), over: row["at"], **kit.drawn(estimate)})
    if len({row[over] for row in rows}) < 2:
        return None
    points = sorted({row[over] for row in rows})
    marks = points if over == "horizon" else list(range(0, floor(points[-1]) + 1, 1 + floor(points[-1]) // 8))
    ticks = kit.tick_axis(marks, format="d", grid=False)
    x = alt.X(f"{over}:Q", title=_TITLES[over], axis=ticks, scale=alt.Scale(zero=over == "beta", nice=False, padding=8))
    axis, scale = _level(rows, evidence.definitions[metric])
    value, lower = (alt.Y(f"{field}:Q", title=None, axis=axis, scale=scale) for field in ("value", "lower"))
    base, color = kit.chart(rows, colors), kit.by_series(colors)
    lines = [[*own] for _, own in groupby(rows, itemgetter("model"))]
    ends = [f"{own[0]['model']} {own[0]['told']} to {own[-1]['told']}" for own in lines]
    when, _, name = metric.partition("_")
    heading = f"{name.capitalize()} {WHEN[cast('When', when)]}"
    return kit.figure(
        heading,
        f"{heading} of each model over {over}, from {points[0]:g} to {points[-1]:g}: {'; '.join(ends)}.",
        _HEIGHT,
        base.mark_area(opacity=0.16).encode(x, lower, alt.Y2("upper:Q"), color),
        base.mark_line(strokeWidth=2).encode(x, value, color),
        base.mark_point(size=36).encode(x, value, color, tooltip=kit.tooltip("model", over)),
        title=f"{heading}, over {over}",
    )


def _level(rows: kit.Rows, metric: Metric) -> tuple[alt.Axis, alt.Scale]:
    """Distances start at 0; lifts at 1, where users have no say, on a logarithmic axis where they are far apart."""
    if metric.format != "times":
        return alt.Axis(grid=True, tickCount=4), alt.Scale(zero=True, nice=True)
    ends = [end for row in rows for end in (row["lower"], row["value"], row["upper"]) if end is not None]
    low, high = min(1.0, *ends), max(1.0, *ends)
    label = f"'{TIMES}' + format(datum.value, '~r')"
    if high < _WIDE * low:
        return alt.Axis(labelExpr=label, grid=True, tickCount=4), alt.Scale(domain=[low, high], nice=True)
    top, powers = 1.05 * high, range(floor(log10(low)), floor(log10(high)) + 1)
    ticks = [tick for power in powers for tick in (10.0**power, 2 * 10.0**power, 5 * 10.0**power) if low <= tick <= top]
    return kit.tick_axis(ticks, labelExpr=label, grid=True), alt.Scale(type="log", domain=[low, top], nice=False)


def instability_histogram(evidence: Evidence, when: When) -> kit.Figure | None:
    """How many pairs of users move each other how far: a histogram for each model, drawn as a line."""
    metric = f"{when}_instability"
    steps = {
        model: found
        for model, agency in evidence.each(AUDIT, AgencyCurves.of).items()
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
    colors = model_colors(evidence)
    for model in steps:
        shares = evidence.each(AUDIT, AgencyCurves.of)[model].histogram(metric, edges)
        for (low, high), share in zip(pairwise(edges.tolist()), shares, strict=True):
            told = f"{percent(share)} of pairs from {written(low)} to {written(high)}"
            place = {"x": (low + high) / 2, "y": round(share, 5)}
            rows.append({**kit.in_series(colors, model), **place, "told": told})
    title = f"how far another can move a user ({_distance(evidence)})"
    x = alt.X("x:Q", title=title, scale=alt.Scale(domain=[0, end]))
    y = alt.Y("y:Q", title="share of pairs", axis=alt.Axis(format="%", grid=True, tickCount=4))
    lines = kit.chart(rows, colors).mark_line(strokeWidth=2, interpolate="step")
    means = ", ".join(f"{model} {estimate.full}" for model, estimate in evidence.known(metric).items())
    about = f"Histogram of the instability of all pairs of users {WHEN[when]}, for each model. Mean: {means}."
    chart = lines.encode(x, y, kit.by_series(colors), kit.tooltip("model"))
    return kit.figure(f"How far others can move users {WHEN[when]}", about, _HEIGHT, chart)


LIFTS, INSTABILITIES = ["past_lift", "future_lift"], ["past_instability", "future_instability"]
MAIN = [*LIFTS, *INSTABILITIES]
_VERBS = {"lift": ("can lift", "could have lifted"), "instability": ("can move", "could have moved")}
"""Of the future, and of the past."""
_CONTRASTS = {
    "lift": (ITEM_CONTRAST, "Lift of popular and of intermediate items", "Popular", "Ratio"),
    "instability": (EDITOR_CONTRAST, "Instability by active and by intermediate users", "Active", "Difference"),
}
"""How each is grouped; the caption of the table, and its columns."""


def own_say(evidence: Evidence) -> Iterator[Claim]:
    """How much do the last ratings decide, and how much the next ones?"""
    model, lifts = _firm(evidence, "lift")
    strongest = max(lifts, key=lambda when: lifts[when].value or 0.0, default=None)
    if model is None or strongest is None or (lifts[strongest].value or 0.0) <= 1:
        return
    most, k = lifts[strongest], evidence.list_length(AUDIT)
    how = {"past": f"by having rated the last {k} items otherwise", "future": f"by rating the next {k}"}
    verb = "could have made" if strongest == "past" else "can make"
    said = ", ".join(f"{estimate.full} {how[when]}" for when, estimate in lifts.items())
    doubled = [f"{own.full} of items {WHEN[when]}" for when, own in _firm(evidence, "doubled", model)[1].items()]
    claim = f"With {k} ratings, users of {model} {verb} an item {most.text.lstrip(TIMES)} times as likely at best, "
    claim += "on average" + among(evidence, AUDIT, model, "targets", "users")
    detail = f"Lift: {said}." + (f" At least twice as likely: {', '.join(doubled)}." if doubled else "")
    detail += basis(evidence, AUDIT, model)
    advice = "Look at what others can do with as many ratings: a model that follows its users may follow others too."
    shown = measure(evidence, model, f"{strongest}_lift")
    number = _claim_number(evidence, model, f"{strongest}_lift", most, 1.0)
    effect = evidence.size(in_logs(most))
    yield Finding("agency.own-influence", claim, detail, AUDIT, effect, shown, advice, numbers=(number,))


def others_say(evidence: Evidence) -> Iterator[Claim]:
    """How far can others move what people are recommended?"""
    model, shares = _firm(evidence, "unstable_share")
    if model is None:
        return
    distance = _distance(evidence)
    means = [f"{own.full} {WHEN[when]}" for when, own in _firm(evidence, "instability", model)[1].items()]
    when = max(shares, key=lambda when: shares[when].value or 0.0)
    most, users = shares[when], min(own.users for own in shares.values())
    worked = evidence.each(AUDIT, AgencyCurves.of)[model].worked
    pairs = [f"{worked[when]['value']:.3f} {WHEN[when]}" for when in shares if when in worked]
    if most.value:
        claim = f"With {model}, {most.text} of users' pairs are unstable: one of them can overturn what the other sees"
        code, effect = "agency.unstable-pairs", evidence.size(most, beside=shares.values())
        advice = "Let one user's ratings count for less: more regularisation, smaller steps or a limit for each user. "
        advice += "The instability audit shows what it brings."
    else:
        k = evidence.list_length(AUDIT)
        claim = f"No user of {model} who was asked about can overturn what another is shown with {k} ratings"
        code, effect = "agency.no-unstable-pairs", Effect.within(0.0, 0.0, users)
        advice = "Audit again after a change of the update rule."
    average = f"{distance} on average: {', '.join(means)}; " if means else f"{distance}: "
    largest = f" The largest: {', '.join(pairs)}." if pairs else ""
    detail = f"{average}0.5 would be unstable.{largest}{basis(evidence, AUDIT, model)}"
    claim += among(evidence, AUDIT, model, "users", "editors")
    shown = measure(evidence, model, f"{when}_unstable_share")
    number = replace(_claim_number(evidence, model, f"{when}_unstable_share", most, None), users=users)
    yield Finding(code, claim, detail, AUDIT, effect, shown, advice, numbers=(number,), counted=True)


def popular_items_move(evidence: Evidence) -> Iterator[Claim]:
    """Can popular items be lifted further than others, or less far?"""
    for model, when, (popular, between, ratio), verb, way in _contrasts(evidence, "lift", 1.0):
        claim = f"Users of {model} {verb} popular items {way} than intermediate ones"
        claim += among(evidence, AUDIT, model, "users")
        detail = f"{WHEN[when].capitalize()}: {popular.full} against {between.full}, a ratio of "
        detail += f"{times(ratio.value or 1.0)} {ratio.interval} on the same users.{basis(evidence, AUDIT, model)}"
        label, text = "Lift of popular over intermediate items", times(ratio.value or 1.0)
        advice = "Where users are to steer towards rare items too, damp popularity in training and ask again."
        effect = evidence.size(in_logs(ratio), beside=(popular, between))
        shown = Measure(f"{when}_lift", model, label, text, ratio.interval)
        number = _contrast_number(evidence, model, f"{when}_lift", 1.0)
        yield Finding("agency.popular-items-differ", claim, detail, AUDIT, effect, shown, advice, numbers=(number,))


def active_users_move(evidence: Evidence) -> Iterator[Claim]:
    """Do the most active users move others further?"""
    for model, when, (active, between, gap), verb, way in _contrasts(evidence, "instability", 0.0):
        claim = f"The most active users of {model} {verb} others {way} than users in between"
        claim += among(evidence, AUDIT, model, "users")
        detail = f"Instability {WHEN[when]}: {active.full} against {between.full}, a difference of {gap.signed} on the "
        detail += f"same users.{basis(evidence, AUDIT, model)}"
        label, metric = "Instability by active less that by other users", f"{when}_instability"
        advice = "Let one user's ratings count for less the more of them there are, or regularise more, and ask again."
        effect = evidence.size(gap, beside=(active, between))
        shown = Measure(metric, model, label, gap.text, gap.interval)
        number = _contrast_number(evidence, model, metric, 0.0)
        yield Finding("agency.active-users-differ", claim, detail, AUDIT, effect, shown, advice, numbers=(number,))


def _distance(evidence: Evidence) -> str:
    return f"{str(evidence.settings[AUDIT]['distance']).capitalize()} distance"


def _claim_number(evidence: Evidence, model: str, metric: str, own: Estimate, reference: float | None) -> ClaimNumber:
    p = None if reference is None else compute_reference_p(evidence, AUDIT, metric, model, reference)
    return ClaimNumber(
        audit=AUDIT,
        metric=metric,
        model=model,
        value=own.value,
        lower=own.lower,
        upper=own.upper,
        reference=reference,
        p=p,
        users=own.users,
    )


def _contrast_number(evidence: Evidence, model: str, metric: str, reference: float) -> ClaimNumber:
    """The ratio, or difference, of two groups on the same users."""
    by, _ = CONTRASTS[AUDIT, metric]
    row = evidence.groups(model, metric, by, AUDIT)[2]
    p = compute_reference_p(evidence, AUDIT, metric, model, reference, by=by, group=row.name)
    number = _claim_number(evidence, model, metric, row.estimate, None)
    return replace(number, by=by, group=row.raw, reference=reference, p=p)


def _contrasts(evidence: Evidence, metric: str, level: float) -> Iterator[tuple[str, When, list[Estimate], str, str]]:
    """The contrast that is shown to differ from `level`, for the model in front; the future first."""
    model, _ = _firm(evidence, metric)
    tenses: tuple[When, ...] = ("future", "past")
    for when, verb in zip(tenses, _VERBS[metric], strict=True):
        groups = [] if model is None else evidence.groups(model, f"{when}_{metric}", _CONTRASTS[metric][0])
        if model is None or len(groups) != 3:
            continue
        number = _contrast_number(evidence, model, f"{when}_{metric}", level)
        if number.p is not None and number.p <= LEVEL:
            way = "further" if (number.value or 0.0) > level else "less far"
            yield model, when, [group.estimate for group in groups], verb, way
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
        settings, found = evidence.settings[AUDIT], evidence.each(AUDIT, AgencyCurves.of)
        others = {model for metric in INSTABILITIES for model in evidence.known(metric)}
        worked = ((model, own.worked["past"]) for model, own in found.items() if "past" in own.worked)
        contrasts = [_contrast_table(evidence, metric) for metric in _CONTRASTS]
        rules = {name: settings.get(name, "") for name in ("popular items", "active editors")}
        return {
            "k": settings["k"],
            "distance": settings["distance"],
            "policy": written(settings["policy"]) if "policy" in settings else "softmax with each model's own beta",
            "spread": "perplexity" in settings,
            "asked": {name: _number(settings[name]) for name in ("users", "targets", "editors", "followed")},
            "rules": rules,
            "main": overview(evidence, AUDIT, [metric for metric in MAIN if metric in metrics]),
            "more": overview(evidence, AUDIT, [metric for metric in metrics if metric not in MAIN]),
            "models": list(found),
            "skipped": evidence.unasked(AUDIT),
            "movers": [model for model in found if model in others],
            "own_only": [model for model in found if model not in others],
            "horizons": kit.existing(curve(evidence, "horizon", metric) for metric in MAIN),
            "betas": kit.existing(curve(evidence, "beta", metric) for metric in MAIN),
            "moved": kit.existing(instability_histogram(evidence, when) for when in WHEN),
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


def _contrast_table(evidence: Evidence, metric: str) -> NumberTable:
    """Two groups on the same users, a line for each model and tense."""
    by, caption, group, difference = _CONTRASTS[metric]
    found = {
        f"{model}, {tense}": evidence.groups(model, f"{when}_{metric}", by)
        for model in evidence.each(AUDIT, AgencyCurves.of)
        for when, tense in WHEN.items()
    }
    told = {name: [user_cell(group.estimate) for group in groups] for name, groups in found.items()}
    rows = [TableRow(name, cells) for name, cells in told.items() if len(cells) == 3]
    return NumberTable(caption, ["Model", group, "Intermediate", difference], rows)
