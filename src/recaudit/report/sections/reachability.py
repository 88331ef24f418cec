"""What users can reach: how much say they have, who has the least, what stays out of reach, one example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import exp, log
from typing import Any, final

import altair as alt

from recaudit.metrics.numbers import TIMES, chance, percent, times
from recaudit.report.evidence import Evidence
from recaudit.report.kit import charts as kit
from recaudit.report.kit.claims import LEVEL, Caution, Claim, ClaimNumber, Effect, Finding, in_logs, of_share
from recaudit.report.kit.comparisons import (
    MOST_ROWS,
    NumberTable,
    TableCell,
    TableRow,
    by_group,
    model_colors,
    number_cell,
    overview,
)
from recaudit.report.kit.measures import measure
from recaudit.report.kit.notes import CHOSEN, among, basis
from recaudit.report.kit.numbers import count, plural, some, standing
from recaudit.report.sections.groups import as_estimate, group_findings, popularity_number
from recaudit.report.sections.reach import AUDIT, STEP, Reach
from recaudit.report.sections.section import Section
from recaudit.report.significance import compare_popularity, compute_reference_p
from recaudit.status import Status

_ACTIONS = {
    "next-k": "rate the {k} unseen items that they would be shown next",
    "history-edits": "change {k} of the ratings that they gave",
    "future-edits": "rate {k} unseen items drawn at random",
    "past": "change the last {k} ratings that they gave",
    "future": "rate the {k} items that they are shown next, one after the other",
}


def describe_actions(actions: Mapping[str, Any]) -> str:
    """What users may do, as a verb, from the audit's setting `{"kind": "next-k", "k": 10, ...}`."""
    return _ACTIONS.get(actions.get("kind", ""), "change some of their ratings").format(k=actions.get("k"))


SMALLEST_TAIL = 0.001
"""A histogram ends where each further step has a smaller share of the pairs."""
_ENOUGH = 0.5
"""The chart of chances needs both above 0 for this share of the pairs: a policy that never chooses has none."""


def chances(evidence: Evidence, model: str) -> kit.Figure | None:
    """The best chance of a pair against its chance without strategy, both logarithmic (paper 000, Figure 5)."""
    reach = evidence.each(AUDIT, Reach.of)[model]
    if reach.points.is_empty() or reach.lifts["pairs"].sum() < _ENOUGH * reach.pairs:
        return None
    rows: kit.Rows = []
    for row in reach.points.iter_rows(named=True):
        place = {"x": float(f"{row['baseline']:.3g}"), "y": float(f"{row['value']:.3g}")}
        told = f"{chance(row['baseline'])} to {chance(row['value'])}"
        rows.append({"user": row["user"], "item": row["title"], **place, "told": told})
    before, best = ([row[side] for row in rows] for side in ("x", "y"))
    left, right = min(before), max(before)
    x = kit.log_axis("x", "chance without strategy", 0.9 * left, 1.1 * right, "~%")
    y = kit.log_axis("y", "best chance", 0.9 * min(left, *best), 1.1 * max(right, *best), "~%")
    line = kit.chart([{"x": left, "y": left}, {"x": right, "y": right}])
    name = kit.chart([{"x": right, "y": right, "note": "no say"}])
    above = sum(b > a for a, b in zip(before, best, strict=True))
    return kit.figure(
        "Best chance against chance without strategy",
        f"{count(len(rows))} pairs of a user and an item with {model} as points, {percent(above / len(rows))} of them "
        f"above the line on which strategy changes nothing. Without strategy chances go from {chance(left)} to "
        f"{chance(right)}, at best from {chance(min(best))} to {chance(max(best))}.",
        320,
        kit.chart(rows).mark_point(size=14, fill=kit.ACCENT, opacity=0.4).encode(x, y, kit.tooltip("user", "item")),
        line.mark_line(stroke=kit.INK, strokeDash=[3, 3], strokeWidth=1).encode(x, y),
        name.mark_text(align="right", dy=18, fill=kit.INK).encode(x, y, alt.Text("note:N")),
    )


def lifts(evidence: Evidence) -> kit.Figure | None:
    """How many pairs can be lifted how far: a histogram for each model, drawn as a line."""
    rows: kit.Rows = []
    colors = model_colors(evidence)
    for model, reach in evidence.each(AUDIT, Reach.of).items():
        total = reach.lifts["pairs"].sum()
        shares = {step: pairs / total for step, pairs in reach.lifts.iter_rows()}
        high = [step for step, share in shares.items() if share >= SMALLEST_TAIL]
        for step in range(min(high) - 1, max(high) + 2) if high else ():  # each line comes down to its tails
            start, share = 10 ** (STEP * step), shares.get(step, 0.0)
            told = f"{percent(share)} of pairs from {times(start)} to {times(start * 10**STEP)}"
            middle = start * 10 ** (STEP / 2)
            rows.append({**kit.in_series(colors, model), "x": middle, "y": round(share, 5), "told": told})
    if not rows:
        return None
    edges = [row["x"] for row in rows]
    # The line at 1 belongs to the picture even where all lifts lie on one side of it.
    left, right = min(0.9, *edges), max(1.1, *edges)
    x = kit.log_axis("x", "lift: best chance / chance without strategy", left, right, "~r", TIMES)
    y = alt.Y("y:Q", title="share of pairs", axis=alt.Axis(format="%", grid=True, tickCount=4))
    lines = kit.chart(rows, colors).mark_line(strokeWidth=2, interpolate="monotone")
    means = [f"{model} {estimate.full}" for model, estimate in evidence.known("lift").items()]
    about = f"Histogram of the lift of all pairs for each model. On average: {', '.join(means) or 'not available'}."
    rule = kit.chart([{"x": 1}]).mark_rule(stroke=kit.INK, strokeDash=[3, 3]).encode(x=x)
    curves = lines.encode(x, y, kit.by_series(colors), kit.tooltip("model"))
    return kit.figure("How far a chance can be lifted", about, 320, rule, curves)


NOTABLE = 0.05
"""From this share of pairs on, it is a finding that nothing can be said of them."""
_NAMED = 3
_OPEN = (Status.BOUNDED.value, Status.FAILED.value)
"""How pairs stand whose best chance is not known exactly."""


def compare_lift(evidence: Evidence) -> Iterator[Claim]:
    """Find out how much likelier users can make an item: more likely, hardly, or less likely at best."""
    lifts = evidence.known("lift")
    if not lifts:
        return
    model = next(iter(lifts))
    lift, discovery = lifts[model], evidence.known("discovery").get(model)
    p_values = {reference: compute_reference_p(evidence, AUDIT, "lift", model, reference) for reference in (1.0, 1.1)}
    value, reference = lift.value or 0.0, 1.0
    if value < 1 and p_values[1.0] <= LEVEL:
        code, claim = (
            "reachability.negative-influence",
            f"Rating with a goal in mind costs users of {model} more than it gains",
        )
        advice = "Check the update rule and the policy: ratings for a goal should not make it less likely on average."
    elif value < 1.1 and p_values[1.1] <= LEVEL:
        code, claim = "reachability.little-influence", f"Rating with a goal in mind gains users of {model} little"
        reference = 1.1
        advice = "If users are to steer what they see, let new ratings count for more, or lower beta, and audit again."
    elif value > 1:
        code = "reachability.influence"
        claim = f"Users of {model} can make an item {lift.text.lstrip(TIMES)} times as likely at best"
        advice = "What users can do for themselves, others may do to them: run the instability audit as well."
    else:
        return
    sentences = [f"Lift: {some([f'{name} {estimate.full}' for name, estimate in lifts.items()])}."]
    if discovery is not None:
        sentences.append(
            f"With {model}, {discovery.full} of items can be made likelier than by chance; "
            f"{discovery.before or 'an unknown share'} are so without strategy."
        )
    if len(lifts) > 1:
        perplexity = evidence.settings[AUDIT].get("perplexity")
        scales = "Between models, lift also depends on how far apart their scores lie"
        sentences.append(f"{scales if perplexity is None else CHOSEN.format(perplexity)}.")
    yield Finding(
        code,
        f"{claim}, on average{among(evidence, AUDIT, model, 'targets', 'users')}",
        " ".join(sentences) + basis(evidence, AUDIT, model),
        "reach",
        evidence.size(in_logs(lift), value=log(reference)),
        measure(evidence, model, "lift"),
        advice,
        numbers=(
            ClaimNumber(
                audit=AUDIT,
                metric="lift",
                model=model,
                value=lift.value,
                lower=lift.lower,
                upper=lift.upper,
                reference=reference,
                p=p_values[reference],
                users=lift.users,
            ),
        ),
    )


def compare_groups_by_discovery(evidence: Evidence) -> Iterator[Claim]:
    """Name the groups of users who can discover more, or less, than all others."""
    model = evidence.front("discovery")
    if model is not None:
        yield from group_findings(
            evidence,
            model,
            "discovery",
            "reachability.group-differs",
            "reach",
            "Explore more for {}, or ask them to rate more items, and audit the same groups again.",
            about=among(evidence, AUDIT, model, "targets", "users"),
            basis=basis(evidence, AUDIT, model),
        )


def compare_popular_within_reach(evidence: Evidence) -> Iterator[Claim]:
    """Find out whether the best chance of an item still follows its popularity."""
    model = evidence.front("availability")
    groups = [] if model is None else evidence.groups(model, "availability", "popularity")
    difference = None if model is None else compare_popularity(evidence, AUDIT, model)
    if model is None or len(groups) < 2 or difference is None or difference.p is None or difference.value <= 0:
        return
    least, most = groups[0], groups[-1]
    before = ""
    if most.estimate.before and least.estimate.before:
        before = f" Without strategy: {most.estimate.before} and {least.estimate.before}"
        before += f"{_times_more(most.estimate.baseline, least.estimate.baseline)}."
    claim = f"Even at best, popular items are easier to get from {model}"
    claim += among(evidence, AUDIT, model, "targets", "users")
    detail = f"Best chance: {most.estimate.full} for {most.things}, {least.estimate.full} for {least.things}"
    detail += f"{_times_more(most.estimate.value, least.estimate.value)}.{before}{basis(evidence, AUDIT, model)}"
    yield Finding(
        "reachability.popular-items-more-available",
        claim,
        detail,
        "reach",
        evidence.size(as_estimate(evidence, "availability", difference)),
        measure(evidence, model, "availability", least, most),
        f"Ratings alone do not make {least.things} available: reduce the weight of popularity in training, or explore.",
        numbers=(popularity_number(AUDIT, "availability", model, least.raw, difference),),
    )


def out_of_reach(evidence: Evidence) -> Iterator[Claim]:
    """Which items can nobody who was asked make likelier than by chance?"""
    model = evidence.front("discovery")
    if model is None:
        return
    reach = evidence.each(AUDIT, Reach.of)[model]
    unreached = reach.unreached
    if unreached.is_empty():
        return
    share = percent(len(unreached) / len(reach.items))
    named = [f"{row['title']}, {chance(row['best'])} at best" for row in unreached.head(_NAMED).iter_rows(named=True)]
    others = f"; and {plural(len(unreached) - _NAMED, 'other')}" if len(unreached) > _NAMED else ""
    claim = f"With {model}, no user asked can make {share} of the items likelier than by chance"
    claim += among(evidence, AUDIT, model, "targets", "users")
    detail = f"{count(len(unreached))} of {plural(len(reach.items), 'item')}, whatever the "
    detail += f"{plural(len(reach.users), 'user')} asked would rate. Hardest: {'; '.join(named)}{others}."
    detail += basis(evidence, AUDIT, model)
    advice = "They need another way to people than ratings: exploring, re-ranking, search or browsing."
    share_of_items = len(unreached) / len(reach.items)
    yield Finding(
        "reachability.items-out-of-reach",
        claim,
        detail,
        "reach",
        Effect.within(of_share(share_of_items), 0.0, len(reach.users)),
        measure(evidence, model, "discovery"),
        advice,
        numbers=(
            ClaimNumber(audit=AUDIT, metric="discovery", model=model, value=share_of_items, users=len(reach.users)),
        ),
        counted=True,
    )


def unsettled(evidence: Evidence) -> Iterator[Claim]:
    """For which pairs is the best chance not known?"""
    found = []
    for model, reach in evidence.each(AUDIT, Reach.of).items():
        parts = {name: reach.statuses[name] for name in _OPEN if reach.statuses[name]}
        if parts:
            counts = " and ".join(f"{count(number)} {name}" for name, number in parts.items())
            found.append(f"{model}: {counts} of {plural(reach.pairs, 'pair')}")
    if found:
        claim = "The best chance of some pairs is not known exactly"
        detail = f"{'; '.join(found)}. A bounded pair counts with the best chance found; a failed one is left out."
        yield Caution("reachability.not-solved", claim, detail, "reach")


def not_applicable(evidence: Evidence) -> Iterator[Claim]:
    """Does reachability leave a notable part of the pairs out?"""
    for model, reach in evidence.each(AUDIT, Reach.of).items():
        left = reach.statuses[Status.NOT_APPLICABLE.value]
        if left and left >= NOTABLE * reach.pairs:
            claim = f"Reachability says nothing about {percent(left / reach.pairs)} of the pairs of {model}"
            detail = f"In {count(left)} of {plural(reach.pairs, 'pair')} the user has no rating to change, "
            detail += "or the item is not to be chosen from."
            number = ClaimNumber(audit=AUDIT, model=model, value=left / reach.pairs)
            yield Caution("reachability.pairs-left-out", claim, detail, "reach", numbers=(number,))


def _times_more(most: float | None, least: float | None) -> str:
    return f", {times(most / least)}" if most and least else ""


@final
class ReachabilitySection(Section):
    """How much say users have."""

    audits = (AUDIT,)
    anchor, title, template, place = "reach", "Reach", "reachability.html.j2", 50
    questions = (
        unsettled,
        compare_lift,
        out_of_reach,
        compare_groups_by_discovery,
        compare_popular_within_reach,
        not_applicable,
    )

    def content(self) -> dict[str, Any] | None:
        """All models that can be asked, and the best at ranking of them in detail."""
        evidence = self.evidence
        if not evidence.metrics(AUDIT):
            return None
        settings, front = evidence.settings[AUDIT], evidence.front("discovery")
        models = list(evidence.each(AUDIT, Reach.of))
        return {
            "actions": describe_actions(settings.get("actions", {})),
            "overview": overview(evidence, AUDIT),
            "spread": "perplexity" in settings,
            "models": models,
            "skipped": evidence.unasked(AUDIT),
            "not_ratings": [
                model for model in models if (own := evidence.overall(model, "rmse")) and own.value is None
            ],
            "detail": None if front is None else _detail(evidence, front),
            "lifts": lifts(evidence),
            "smallest_tail": SMALLEST_TAIL,
            "methods": "A best chance is what the model's answer to the new ratings makes possible, without training "
            "it anew; everything else stays as it is. What is called solved is proven, not sampled: it has a lower "
            f"and an upper bound, and these are at most {settings['tolerance']:g} apart in log-probability.",
        }


def _detail(evidence: Evidence, model: str) -> dict[str, Any]:
    reach, found = evidence.each(AUDIT, Reach.of)[model], evidence.known("discovery")[model]
    groupings = {"discovery": evidence.user_groupings, "availability": evidence.item_groupings}
    users = [_user(row) for row in reach.users.sort("discovery", "user").head(MOST_ROWS).iter_rows(named=True)]
    items = [_item(row) for row in reach.items.head(MOST_ROWS).iter_rows(named=True)]
    hard = "Items that the fewest users can make likelier than by chance"
    columns = ["item", "reached_by", "best_chance", "ratings"]
    settled = reach.statuses[Status.SOLVED.value] == reach.pairs
    return {
        "model": model,
        "asked": found.users + found.excluded,
        "targets": len(reach.items),
        "pairs": f"{count(reach.pairs)}, {'all solved' if settled else f'of which {standing(reach.statuses)}'}",
        "chances": chances(evidence, model),
        "points": len(reach.points),
        "parts": [part for metric, by in groupings.items() if (part := by_group(evidence, metric, by, before=model))],
        "users": NumberTable(
            "Users who can discover least", ["User", "Discovery", "Lift"], users, ["user", "discovery", "lift"]
        ),
        "hardest": NumberTable(hard, ["Item", "Reached by", "Best chance", "Ratings"], items, columns),
        "unreached": len(reach.unreached),
        "undecided": reach.undecided,
        "example": reach.example,
    }


def _user(row: Mapping[str, Any]) -> TableRow:
    lift = None if row["log_lift"] is None else exp(row["log_lift"])
    found, before = row["discovery"], row["baseline_discovery"]
    discovery = TableCell(percent(found), before=percent(before), raw={"value": found, "baseline": before})
    return TableRow(row["user"], [discovery, number_cell(lift, times)])


def _item(row: Mapping[str, Any]) -> TableRow:
    by, users = row["reached_by"], row["users"]
    reached = TableCell(f"{count(by)} of {count(users)}", raw={"value": by, "of": users})
    return TableRow(row["title"], [reached, number_cell(row["best"], chance), number_cell(row["ratings"], count)])
