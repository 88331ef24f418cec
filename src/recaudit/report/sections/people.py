"""Whom does it fail: quality and popularity of lists by group of users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from recaudit.report.evidence import QUALITY, Evidence, Group
from recaudit.report.kit.comparisons import by_group
from recaudit.report.kit.findings import Finding, between
from recaudit.report.kit.numbers import FEWEST_USERS, Estimate, listing
from recaudit.report.sections.section import Section


def best_and_worst_served(evidence: Evidence) -> Iterator[Finding]:
    """Which users get the worst lists, which the best?"""
    gaps = evidence.widest_gaps(evidence.main, QUALITY)
    if gaps:
        worst, best = gaps[0]
        yield Finding(
            f"{evidence.main} ranks better for {best.people} than for {worst.people}",
            f"{evidence.label(QUALITY)}: {_numbers(gaps)}.",
            "people",
            *evidence.size_of_gap(worst, best),
        )


def no_gain(evidence: Evidence) -> Iterator[Finding]:
    """For which users is the model no better than what does not personalise, though it is for others?"""
    rival = evidence.rival
    if rival is None:
        return
    for by in evidence.user_groupings:
        beside = {group.name: group.estimate for group in evidence.firm_groups(rival, QUALITY, by)}
        groups = [group for group in evidence.firm_groups(evidence.main, QUALITY, by) if group.name in beside]
        without = [group for group in groups if not _is_above(group.estimate, beside[group.name])]
        if without and len(without) < len(groups):
            numbers = [f"{group.name} {group.estimate.full} against {beside[group.name].full}" for group in without]
            named = listing([group.people for group in without])
            yield Finding(
                f"{evidence.main} is no clear gain over {rival} for {named}",
                f"{evidence.label(QUALITY)}: {listing(numbers)}. It is one for every other group by {by} of "
                f"{FEWEST_USERS} users or more.",
                "people",
                max(between(own.estimate, beside[own.name], evidence.confidence) for own in without),
                min(min(own.estimate.users, beside[own.name].users) for own in without),
            )


def pushed_most(evidence: Evidence) -> Iterator[Finding]:
    """Whose lists are pulled furthest from their own choices, towards the popular or away from it?"""
    gaps = evidence.widest_gaps(evidence.main, "popularity_lift")
    if gaps:
        least, most = gaps[0]
        yield Finding(
            f"{evidence.main} {_pulled(least, most)}",
            f"{evidence.label('popularity_lift')}: {_numbers(gaps)}.",
            "people",
            *evidence.size_of_gap(least, most),
        )


def _pulled(least: Group, most: Group) -> str:
    """What two groups whose intervals are apart have done to them: a lift above 0 is a pull towards the popular."""
    towards, away = f"pulls {most.people} towards the popular", f"leads {least.people} away from the popular"
    if least.estimate.above(0):
        return f"{towards} more than {least.people}"
    if most.estimate.below(0):
        return f"{away} more than {most.people}"
    if not most.estimate.above(0):
        return f"{away}, and {most.people} neither way"
    return f"{towards}, and {least.people} {'away from it' if least.estimate.below(0) else 'neither way'}"


def _numbers(gaps: list[tuple[Group, Group]]) -> str:
    return "; ".join(
        f"{low.estimate.full} for {low.people}, {high.estimate.full} for {high.people}" for low, high in gaps
    )


def _is_above(estimate: Estimate, other: Estimate) -> bool:
    return other.upper is not None and estimate.above(other.upper)


@final
class PeopleSection(Section):
    """Who is served how well, and whose lists are pulled towards the popular."""

    audits = ("accuracy", "exposure")
    anchor, title, template, place = "people", "People", "people.html.j2", 20
    questions = (no_gain, best_and_worst_served, pushed_most)

    def content(self) -> dict[str, Any] | None:
        """A part for each metric that is known by group of users."""
        groupings = self.evidence.user_groupings
        parts = [by_group(self.evidence, metric, groupings) for metric in (QUALITY, "popularity_lift")]
        return {"parts": [part for part in parts if part], "quality": QUALITY} if any(parts) else None
