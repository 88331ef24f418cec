"""Does it work: against what does not personalise, against each other, by one measure and by another."""

from __future__ import annotations

from collections.abc import Iterator

from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.findings.finding import Finding
from recaudit.report.numbers import Estimate, listing, ordinal, verb


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
        claim = f"No model ranks better than {rival}, which does not personalise"
    else:
        claim = f"{listing(ahead)} {verb(ahead, 'ranks', 'rank')} better than {rival}"
        rest = [*level, *behind]
        claim += f"; {listing(rest)} {verb(rest, 'does', 'do')} not" if rest else ""
    yield Finding(
        claim,
        f"{rival} reaches {evidence.label(QUALITY)} {known[rival].full}. Difference to it on the same users: "
        f"{_each(gains, [*ahead, *level, *behind])}.",
        "accuracy",
    )


def lead(evidence: Evidence) -> Iterator[Finding]:
    """Is the lead of the best model over the next ones more than chance?"""
    known = evidence.known(QUALITY)
    first, *others = [model for model in evidence.personalised if model in known] or [""]
    gaps = {model: gap for model in others if (gap := evidence.difference(first, model, QUALITY)) is not None}
    ties = [model for model, gap in gaps.items() if not gap.above(0)]
    if ties:
        yield Finding(
            f"The lead of {first} over {listing(ties)} may be chance",
            f"{first} has {evidence.label(QUALITY)} {known[first].full}. Its lead on the same users, with an interval "
            f"that holds zero: {_each(gaps, ties)}.",
            "accuracy",
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
    if gap is None or not gap.above(0):
        return
    other = f"RMSE {error[ranks].full}" if ranks in error else "which predicts no ratings"
    yield Finding(
        "The best model at predicting ratings is not the best at ranking",
        f"{predicts} has the lowest RMSE, {error[predicts].full}, but comes "
        f"{ordinal(by_ranking.index(predicts) + 1)} of {len(by_ranking)} by {evidence.label(QUALITY)}: "
        f"{quality[predicts].full}, against {quality[ranks].full} for {ranks} ({other}).",
        "accuracy",
    )


def _each(gains: dict[str, Estimate], models: list[str]) -> str:
    return ", ".join(f"{model} {gains[model].signed}" for model in models)
