"""What users can reach: how much say they have, who has the least, what stays out of reach, and one example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import exp
from typing import Any, final

from recaudit.metrics.numbers import TIMES, chance, percent, times
from recaudit.report.evidence import Evidence, GroupEstimate
from recaudit.report.kit.comparisons import MOST_ROWS, ByGroup, NumberTable, TableCell, TableRow, group_tables, overview
from recaudit.report.kit.numbers import NOT_AVAILABLE, Finding, count, in_logs, of_share, plural, standing
from recaudit.report.sections.reachability.pairs import (
    AUDIT,
    SMALLEST_TAIL,
    before_and_after,
    chances,
    describe_actions,
    lifts,
    reach_by_model,
)
from recaudit.report.sections.section import Section
from recaudit.status import Status

NOTABLE = 0.05
"""From this share of pairs on, it is a finding that nothing can be said of them."""
_NAMED = 3
_OPEN = (Status.BOUNDED.value, Status.FAILED.value)
"""How pairs stand whose best chance is not known exactly."""


def users_say(evidence: Evidence) -> Iterator[Finding]:
    """How much likelier can users make an item?"""
    lifts = evidence.firm("lift")
    if not lifts:
        return
    model = next(iter(lifts))
    lift, discovery = lifts[model], evidence.firm("discovery").get(model)
    if lift.above(1):
        claim = f"On average, users of {model} can make an item {lift.text.lstrip(TIMES)} times as likely at best"
    elif lift.below(1):
        claim = f"Rating with a goal in mind costs users of {model} more than it gains, on average"
    else:
        claim = f"Rating with a goal in mind gains users of {model} nothing measurable on average"
    sentences = [f"Lift: {', '.join(f'{name} {estimate.full}' for name, estimate in lifts.items())}."]
    if discovery is not None:
        sentences.append(
            f"With {model}, {discovery.full} of items can be made likelier than by chance; "
            f"{discovery.before or 'an unknown share'} are so without strategy."
        )
    if len(lifts) > 1:
        sentences.append("Between models, lift also depends on how far apart their scores lie.")
    yield Finding(claim, " ".join(sentences), "reach", *evidence.size(in_logs(lift)))


def least_discovery(evidence: Evidence) -> Iterator[Finding]:
    """Which users can reach the least, which the most?"""
    model = evidence.front("discovery")
    if model is None:
        return
    gaps = evidence.widest_gaps(model, "discovery")
    if gaps:
        least, most = gaps[0]
        numbers = [f"{_against_before(low)}, {_against_before(high)}" for low, high in gaps]
        yield Finding(
            f"With {model}, {most.people} can discover more than {least.people}",
            f"Discovery: {'; '.join(numbers)}.",
            "reach",
            *evidence.size_of_gap(least, most),
        )


def popular_within_reach(evidence: Evidence) -> Iterator[Finding]:
    """Does what a user can get, doing the best for it, still follow popularity?"""
    model = evidence.front("availability")
    groups = [] if model is None else evidence.firm_groups(model, "availability", "popularity")
    if len(groups) < 2:
        return
    least, most = groups[0], groups[-1]
    if most.estimate.exceeds(least.estimate):
        before = ""
        if most.estimate.before and least.estimate.before:
            before = f" Without strategy: {most.estimate.before} and {least.estimate.before}"
            before += f"{_times_more(most.estimate.baseline, least.estimate.baseline)}."
        yield Finding(
            f"Even at best, popular items are easier to get from {model}",
            f"Best chance: {most.estimate.full} for {most.things}, {least.estimate.full} for {least.things}"
            f"{_times_more(most.estimate.value, least.estimate.value)}.{before}",
            "reach",
            *evidence.size_of_gap(least, most),
        )


def out_of_reach(evidence: Evidence) -> Iterator[Finding]:
    """Which items can nobody who was asked make likelier than by chance?"""
    model = evidence.front("discovery")
    if model is None:
        return
    reach = reach_by_model(evidence)[model]
    unreached = reach.unreached
    if unreached.is_empty():
        return
    share = percent(len(unreached) / len(reach.items))
    named = [f"{row['title']}, {chance(row['best'])} at best" for row in unreached.head(_NAMED).iter_rows(named=True)]
    others = f"; and {plural(len(unreached) - _NAMED, 'other')}" if len(unreached) > _NAMED else ""
    yield Finding(
        f"With {model}, no user asked can make {share} of the items likelier than by chance",
        f"{count(len(unreached))} of {plural(len(reach.items), 'item')}, whatever the "
        f"{plural(len(reach.users), 'user')} asked would rate. Hardest: {'; '.join(named)}{others}.",
        "reach",
        of_share(len(unreached) / len(reach.items)),
        len(reach.users),
    )


def unsettled(evidence: Evidence) -> Iterator[Finding]:
    """For which pairs is the best chance not known?"""
    found: dict[str, float] = {}
    for model, reach in reach_by_model(evidence).items():
        parts = {name: reach.statuses[name] for name in _OPEN if reach.statuses[name]}
        if parts:
            counts = " and ".join(f"{count(number)} {name}" for name, number in parts.items())
            found[f"{model}: {counts} of {plural(reach.pairs, 'pair')}"] = of_share(sum(parts.values()) / reach.pairs)
    if found:
        yield Finding(
            "The best chance of some pairs is not known exactly",
            f"{'; '.join(found)}. A bounded pair counts with the best chance found; a failed one is left out.",
            "reach",
            max(found.values()),
        )


def not_applicable(evidence: Evidence) -> Iterator[Finding]:
    """Does reachability leave a notable part of the pairs out?"""
    for model, reach in reach_by_model(evidence).items():
        left = reach.statuses[Status.NOT_APPLICABLE.value]
        if left and left >= NOTABLE * reach.pairs:
            yield Finding(
                f"Reachability says nothing about {percent(left / reach.pairs)} of the pairs of {model}",
                f"In {count(left)} of {plural(reach.pairs, 'pair')} the user has no rating to change, or the item is "
                "not to be chosen from.",
                "reach",
                of_share(left / reach.pairs),
            )


def _against_before(group: GroupEstimate) -> str:
    before = f" ({group.estimate.before} without strategy)" if group.estimate.before else ""
    return f"{group.estimate.full} for {group.people}{before}"


def _times_more(most: float | None, least: float | None) -> str:
    return f", {times(most / least)}" if most and least else ""


@final
class ReachabilitySection(Section):
    """How much say users have."""

    audits = (AUDIT,)
    anchor, title, template, place = "reach", "Reach", "reachability.html.j2", 50
    questions = (unsettled, users_say, out_of_reach, least_discovery, popular_within_reach, not_applicable)

    def content(self) -> dict[str, Any] | None:
        """All models that can be asked, and the best at ranking of them in detail."""
        evidence = self.evidence
        if not evidence.metrics(AUDIT):
            return None
        settings, front = evidence.settings[AUDIT], evidence.front("discovery")
        return {
            "actions": describe_actions(settings.get("actions", {})),
            "overview": overview(evidence, AUDIT),
            "models": list(reach_by_model(evidence)),
            "skipped": evidence.unasked(AUDIT),
            "not_ratings": [
                model
                for model in reach_by_model(evidence)
                if evidence.overall(model, "rmse") is not None and model not in evidence.known("rmse")
            ],
            "detail": None if front is None else _detail(evidence, front),
            "lifts": lifts(evidence),
            "smallest_tail": SMALLEST_TAIL,
            "methods": "A best chance is what the model's answer to the new ratings makes possible, without training "
            "it anew; everything else stays as it is. What is called solved is proven, not sampled: it has a lower "
            f"and an upper bound, and these are at most {settings['tolerance']:g} apart in log-probability.",
        }


def _detail(evidence: Evidence, model: str) -> dict[str, Any]:
    reach, found = reach_by_model(evidence)[model], evidence.known("discovery")[model]
    groupings = {"discovery": evidence.user_groupings, "availability": evidence.item_groupings}
    users = reach.users.sort("discovery", "user").head(MOST_ROWS)
    settled = reach.statuses[Status.SOLVED.value] == reach.pairs
    return {
        "model": model,
        "asked": found.users + found.excluded,
        "pairs": f"{count(reach.pairs)}, {'all solved' if settled else f'of which {standing(reach.statuses)}'}",
        "chances": chances(evidence, model),
        "points": len(reach.points),
        "parts": [part for metric, by in groupings.items() if (part := _by_group(evidence, model, metric, by)).tables],
        "users": NumberTable(
            "Users who can discover least",
            ["User", "Discovery", "Lift"],
            [_user(row) for row in users.iter_rows(named=True)],
        ),
        "hardest": NumberTable(
            "Items that the fewest users can make likelier than by chance",
            ["Item", "Reached by", "Best chance", "Ratings"],
            [_item(row) for row in reach.hardest.head(MOST_ROWS).iter_rows(named=True)],
        ),
        "unreached": len(reach.unreached),
        "undecided": reach.undecided,
        "example": reach.example,
    }


def _by_group(evidence: Evidence, model: str, metric: str, groupings: list[str]) -> ByGroup:
    """Without strategy and at best."""
    figures = [before_and_after(evidence, model, metric, by) for by in groupings]
    drawn, tables = [figure for figure in figures if figure], group_tables(evidence, [metric], groupings)
    return ByGroup(metric, evidence.label(metric), drawn, tables)


def _user(row: Mapping[str, Any]) -> TableRow:
    lift = NOT_AVAILABLE if row["log_lift"] is None else times(exp(row["log_lift"]))
    discovery = TableCell(percent(row["discovery"]), before=percent(row["baseline_discovery"]))
    return TableRow(row["user"], [discovery, TableCell(lift)])


def _item(row: Mapping[str, Any]) -> TableRow:
    reached = f"{count(row['reached_by'])} of {count(row['users'])}"
    return TableRow(
        row["title"], [TableCell(reached), TableCell(chance(row["best"])), TableCell(count(row["ratings"]))]
    )
