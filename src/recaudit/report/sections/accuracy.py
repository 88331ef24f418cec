"""Does it work, and whom does it fail: models against each other, and group by group of users."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any, final

from recaudit.report.evidence import QUALITY, Evidence, GroupEstimate
from recaudit.report.kit.comparisons import by_group, figures_by_model, overview
from recaudit.report.kit.notes import memory_of
from recaudit.report.kit.numbers import FEWEST_USERS, Estimate, Finding, between, listing, ordinal, verb
from recaudit.report.sections.section import Section


def beats_reference(evidence: Evidence) -> Iterator[Finding]:
    """Does each personalised model rank better than the best model that does not personalise?"""
    rival, known = evidence.rival, evidence.known(QUALITY)
    if rival is None:
        return
    found = {model: evidence.difference(model, rival, QUALITY) for model in evidence.personalised}
    gains = {model: gain for model, gain in found.items() if gain is not None}
    if not gains:
        return
    ahead = [model for model, gain in gains.items() if gain.above(0)]
    behind = [model for model, gain in gains.items() if gain.below(0)]
    level = [model for model in gains if model not in ahead and model not in behind]
    if not ahead:
        measured = "No model" if len(gains) == len(found) else "No model that was measured"
        claim = f"{measured} ranks clearly better than {rival}, which does not personalise"
    else:
        claim = f"{listing(ahead)} {verb(ahead, 'ranks', 'rank')} better than {rival}"
        claim += f"; {listing(behind)} {verb(behind, 'ranks', 'rank')} worse" if behind else ""
        claim += f"; for {listing(level)} it cannot be told" if level else ""
    detail = f"{rival} reaches {evidence.label(QUALITY)} {known[rival].full}. Difference to it on the same users: "
    detail += f"{_each(gains, [*ahead, *level, *behind])}."
    yield Finding(claim, detail, "accuracy", *evidence.size(*gains.values()))


def memorised(evidence: Evidence) -> Iterator[Finding]:
    """Whose accuracy is probably memory? It comes before everything that rests on it."""
    for model in evidence.models:
        if text := memory_of(evidence, model) if "accuracy" in evidence.run.audits(model) else "":
            yield Finding(f"The accuracy of {model} is probably memory", text, "accuracy", inf)


def lead(evidence: Evidence) -> Iterator[Finding]:
    """Is the lead of the best model over the next ones more than chance?"""
    known = evidence.known(QUALITY)
    first, *others = evidence.contestants or [""]
    found = {model: gap for model in others if (gap := evidence.difference(first, model, QUALITY)) is not None}
    ties = {model: gap for model, gap in found.items() if not (gap.above(0) or gap.below(0))}
    if ties:
        claim = f"{first} and {listing(list(ties))} cannot be told apart at ranking"
        detail = f"{first} has {evidence.label(QUALITY)} {known[first].full}. Its difference on the same users, with "
        detail += f"an interval that holds zero: {_each(ties, list(ties), 'to ')}."
        yield Finding(claim, detail, "accuracy", *evidence.size(*ties.values()))


def two_orders(evidence: Evidence) -> Iterator[Finding]:
    """Does the model with the lowest rating error also rank best?"""
    error, quality = evidence.known("rmse"), evidence.known(QUALITY)
    by_error = [model for model in evidence.ranked("rmse") if model in quality]
    by_ranking = evidence.ranked(QUALITY)
    if len(by_error) < 2 or by_error[0] == by_ranking[0]:
        return
    predicts, ranks = by_error[0], by_ranking[0]
    gap = evidence.difference(ranks, predicts, QUALITY)
    if gap is None or not gap.above(0) or (ranks in error and not evidence.predicts_better(predicts, ranks)):
        return
    other = f"RMSE {error[ranks].full}" if ranks in error else "which predicts no ratings"
    claim = "The best model at predicting ratings is not the best at ranking"
    detail = f"{predicts} has the lowest RMSE, {error[predicts].full}, but comes "
    detail += f"{ordinal(by_ranking.index(predicts) + 1)} of {len(by_ranking)} by {evidence.label(QUALITY)}: "
    detail += f"{quality[predicts].full}, against {quality[ranks].full} for {ranks} ({other})."
    yield Finding(claim, detail, "accuracy", *evidence.size(gap))


def _each(gains: dict[str, Estimate], models: list[str], to: str = "") -> str:
    return ", ".join(f"{to}{model} {gains[model].signed}" for model in models)


def best_and_worst_served(evidence: Evidence) -> Iterator[Finding]:
    """Which users get the worst lists, which the best?"""
    gaps = evidence.widest_gaps(evidence.main, QUALITY)
    if gaps:
        worst, best = gaps[0]
        claim = f"{evidence.main} ranks better for {best.people} than for {worst.people}"
        detail = f"{evidence.label(QUALITY)}: {_numbers(gaps)}."
        yield Finding(claim, detail, "people", *evidence.size_of_gap(worst, best))


def no_gain(evidence: Evidence) -> Iterator[Finding]:
    """For which users is the model no better than what does not personalise, though it is for others?"""
    rival = evidence.rival
    if rival is None:
        return
    for by in evidence.user_groupings:
        beside = {group.name: group.estimate for group in evidence.firm_groups(rival, QUALITY, by)}
        groups = [group for group in evidence.firm_groups(evidence.main, QUALITY, by) if group.name in beside]
        without = [group for group in groups if not group.estimate.exceeds(beside[group.name])]
        if without and len(without) < len(groups):
            numbers = [f"{group.name} {group.estimate.full} against {beside[group.name].full}" for group in without]
            named = listing([group.people for group in without])
            claim = f"{evidence.main} is no clear gain over {rival} for {named}"
            detail = f"{evidence.label(QUALITY)}: {listing(numbers)}. It is one for every other group by {by} of "
            detail += f"{FEWEST_USERS} users or more."
            effect = max(between(own.estimate, beside[own.name], evidence.confidence) for own in without)
            users = min(min(own.estimate.users, beside[own.name].users) for own in without)
            yield Finding(claim, detail, "people", effect, users)


def rare_items(evidence: Evidence) -> Iterator[Finding]:
    """Are held-out items found again less often when they are rare?"""
    groups = evidence.firm_groups(evidence.main, "recall", "popularity")
    if len(groups) < 2:
        return
    least, most = groups[0], groups[-1]
    if most.estimate.exceeds(least.estimate):
        claim = f"{evidence.main} finds {least.things} less often than {most.things}"
        detail = f"{evidence.label('recall')}: {least.estimate.full} against {most.estimate.full}."
        yield Finding(claim, detail, "accuracy", *evidence.size_of_gap(least, most))


def pushed_most(evidence: Evidence) -> Iterator[Finding]:
    """Whose lists are pulled furthest from their own choices, towards the popular or away from it?"""
    gaps = evidence.widest_gaps(evidence.main, "popularity_lift")
    if gaps:
        least, most = gaps[0]
        claim = f"{evidence.main} {_pulled(least, most)}"
        detail = f"{evidence.label('popularity_lift')}: {_numbers(gaps)}."
        yield Finding(claim, detail, "people", *evidence.size_of_gap(least, most))


def _pulled(least: GroupEstimate, most: GroupEstimate) -> str:
    """What two groups whose intervals are apart have done to them: a lift above 0 is a pull towards the popular."""
    towards, away = f"pulls {most.people} towards the popular", f"leads {least.people} away from the popular"
    if least.estimate.above(0):
        return f"{towards} more than {least.people}"
    if most.estimate.below(0):
        return f"{away} more than {most.people}"
    if not most.estimate.above(0):
        return f"{away}, and {most.people} neither way"
    return f"{towards}, and {least.people} {'away from it' if least.estimate.below(0) else 'neither way'}"


def _numbers(gaps: list[tuple[GroupEstimate, GroupEstimate]]) -> str:
    said = [(f"{own.estimate.full} for {own.people}" for own in gap) for gap in gaps]
    return "; ".join(", ".join(both) for both in said)


@final
class AccuracySection(Section):
    """How well each model predicts held-out ratings, and how well its lists find held-out items."""

    audits = ("accuracy",)
    anchor, title, template, place = "accuracy", "Accuracy", "accuracy.html.j2", 10
    questions = (memorised, beats_reference, two_orders, lead)

    def content(self) -> dict[str, Any] | None:
        """Numbers by model, and which items are found."""
        if not self.evidence.metrics("accuracy"):
            return None
        return {
            "overview": overview(self.evidence, "accuracy", everybody=True, marked=True),
            "figures": figures_by_model(self.evidence, "accuracy"),
            "found_items": by_group(self.evidence, "recall", self.evidence.item_groupings),
        }


@final
class PeopleSection(Section):
    """Who is served how well, and whose lists are pulled towards the popular."""

    audits = ("accuracy", "exposure")
    anchor, title, template, place = "people", "People", "people.html.j2", 20
    questions = (no_gain, best_and_worst_served, rare_items, pushed_most)

    def content(self) -> dict[str, Any] | None:
        """A part for each metric that is known by group of users."""
        groupings = self.evidence.user_groupings
        parts = [by_group(self.evidence, metric, groupings) for metric in (QUALITY, "popularity_lift")]
        return {"parts": [part for part in parts if part], "quality": QUALITY} if any(parts) else None
