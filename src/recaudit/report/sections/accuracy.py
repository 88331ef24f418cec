"""Does it work: against what does not personalise, against each other, by one measure and by another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.kit.comparisons import by_group, figures_by_model
from recaudit.report.kit.findings import Finding, against
from recaudit.report.kit.numbers import Estimate, listing, ordinal, verb
from recaudit.report.kit.tables import overview
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
    yield Finding(
        claim,
        f"{rival} reaches {evidence.label(QUALITY)} {known[rival].full}. Difference to it on the same users: "
        f"{_each(gains, [*ahead, *level, *behind])}.",
        "accuracy",
        _largest(evidence, gains),
        _fewest(gains),
    )


def lead(evidence: Evidence) -> Iterator[Finding]:
    """Is the lead of the best model over the next ones more than chance?"""
    known = evidence.known(QUALITY)
    first, *others = evidence.contestants or [""]
    found = {model: gap for model in others if (gap := evidence.difference(first, model, QUALITY)) is not None}
    ties = {model: gap for model, gap in found.items() if not (gap.above(0) or gap.below(0))}
    if ties:
        yield Finding(
            f"{first} and {listing(list(ties))} cannot be told apart at ranking",
            f"{first} has {evidence.label(QUALITY)} {known[first].full}. Its difference on the same users, with an "
            f"interval that holds zero: {_each(ties, list(ties), 'to ')}.",
            "accuracy",
            _largest(evidence, ties),
            _fewest(ties),
        )


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
    yield Finding(
        "The best model at predicting ratings is not the best at ranking",
        f"{predicts} has the lowest RMSE, {error[predicts].full}, but comes "
        f"{ordinal(by_ranking.index(predicts) + 1)} of {len(by_ranking)} by {evidence.label(QUALITY)}: "
        f"{quality[predicts].full}, against {quality[ranks].full} for {ranks} ({other}).",
        "accuracy",
        against(gap, 0.0, evidence.confidence),
        gap.users,
    )


def _each(gains: dict[str, Estimate], models: list[str], to: str = "") -> str:
    return ", ".join(f"{to}{model} {gains[model].signed}" for model in models)


def _largest(evidence: Evidence, gains: dict[str, Estimate]) -> float:
    return max(against(gain, 0.0, evidence.confidence) for gain in gains.values())


def _fewest(gains: dict[str, Estimate]) -> int:
    return min(gain.users for gain in gains.values())


def rare_items(evidence: Evidence) -> Iterator[Finding]:
    """Are held-out items found again less often when they are rare?"""
    groups = evidence.firm_groups(evidence.main, "recall", "popularity")
    if len(groups) < 2:
        return
    least, most = groups[0], groups[-1]
    if least.estimate.upper is not None and most.estimate.above(least.estimate.upper):
        yield Finding(
            f"{evidence.main} finds {least.things} less often than {most.things}",
            f"{evidence.label('recall')}: {least.estimate.full} against {most.estimate.full}.",
            "accuracy",
            *evidence.size_of_gap(least, most),
        )


@final
class AccuracySection(Section):
    """How well each model predicts held-out ratings, and how well its lists find held-out items."""

    audits = ("accuracy",)
    anchor, title, template, place = "accuracy", "Accuracy", "accuracy.html.j2", 10
    questions = (beats_reference, two_orders, lead, rare_items)

    def content(self) -> dict[str, Any] | None:
        """Numbers by model, and which items are found."""
        if not self.evidence.metrics("accuracy"):
            return None
        return {
            "overview": overview(self.evidence, "accuracy", everybody=True, marked=True),
            "figures": figures_by_model(self.evidence, "accuracy"),
            "found_items": by_group(self.evidence, "recall", self.evidence.item_groupings),
        }
