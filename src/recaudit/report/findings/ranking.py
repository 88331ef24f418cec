"""Does it work: against what does not personalise, against each other, by one measure and by another."""

from __future__ import annotations

from collections.abc import Iterator

from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.findings.finding import Finding
from recaudit.report.numbers import Estimate, listing, ordinal, signed_percent


def beats_reference(evidence: Evidence) -> Iterator[Finding]:
    """Does each personalised model rank better than the best model that does not personalise?"""
    rival = evidence.rival
    if rival is None:
        return
    known, label = evidence.known(QUALITY), evidence.label(QUALITY)
    gains = _gains(evidence, [model for model in evidence.personalised if model in known], rival)
    ahead = [model for model, gain in gains.items() if gain.above(0)]
    behind = [model for model, gain in gains.items() if gain.below(0)]
    level = [model for model in gains if model not in ahead and model not in behind]
    if behind:
        yield Finding(
            f"{listing(behind)} {'ranks' if len(behind) == 1 else 'rank'} worse than {rival}, "
            "which shows everybody the same",
            f"{rival} reaches {label} {known[rival].full}. The difference on the same users: {_each(gains, behind)}.",
            "accuracy",
        )
    if level:
        yield Finding(
            f"{listing(level)} cannot be told from {rival} by ranking",
            f"{rival} reaches {label} {known[rival].full}. The difference on the same users: {_each(gains, level)}.",
            "accuracy",
        )
    if ahead:
        base = known[rival].value
        best = gains[ahead[0]].value
        size = f", {signed_percent(best / base)}" if best is not None and base else ""
        yield Finding(
            f"{listing(ahead)} {'ranks' if len(ahead) == 1 else 'rank'} better than {rival}",
            f"{rival} reaches {label} {known[rival].full}. The difference on the same users: "
            f"{_each(gains, ahead[:1])}{size}" + (f"; {_each(gains, ahead[1:])}." if len(ahead) > 1 else "."),
            "accuracy",
        )


def lead(evidence: Evidence) -> Iterator[Finding]:
    """Is the lead of the best model over the next ones more than chance?"""
    known, label = evidence.known(QUALITY), evidence.label(QUALITY)
    first, *others = [model for model in evidence.personalised if model in known] or [""]
    gaps = {model: gap for model in others if (gap := evidence.difference(first, model, QUALITY)) is not None}
    ties = [model for model, gap in gaps.items() if not gap.above(0)]
    if ties:
        yield Finding(
            f"The lead of {first} over {listing(ties)} may be chance",
            f"{label} is {known[first].full}. How far {first} is ahead on the same users: {_each(gaps, ties)}: "
            f"{'an interval that holds' if len(ties) == 1 else 'intervals that hold'} zero.",
            "accuracy",
        )


def two_orders(evidence: Evidence) -> Iterator[Finding]:
    """Does the model with the lowest rating error also rank best?"""
    error, quality, label = evidence.known("rmse"), evidence.known(QUALITY), evidence.label(QUALITY)
    by_error = [model for model in evidence.ranked("rmse") if model in quality]
    by_ranking = evidence.ranked(QUALITY)
    if len(by_ranking) < 2 or not by_error or by_error[0] == by_ranking[0]:
        return
    predicts, ranks = by_error[0], by_ranking[0]
    gap = evidence.difference(ranks, predicts, QUALITY)
    if gap is None or not gap.above(0):
        return
    other = f"{ranks}: {error[ranks].full}" if ranks in error else f"{ranks} does not predict ratings"
    yield Finding(
        "The best model at predicting ratings is not the best at ranking",
        f"{predicts} has the lowest RMSE ({error[predicts].full}; {other}) but comes "
        f"{ordinal(by_ranking.index(predicts) + 1)} of {len(by_ranking)} by {label}: {quality[predicts].full}, "
        f"against {quality[ranks].full} for {ranks}. Choose by the task, not by the rating error.",
        "accuracy",
    )


def _gains(evidence: Evidence, models: list[str], other: str) -> dict[str, Estimate]:
    found = {model: evidence.difference(model, other, QUALITY) for model in models}
    return {model: gain for model, gain in found.items() if gain is not None}


def _each(gains: dict[str, Estimate], models: list[str]) -> str:
    return listing([f"{model} {gains[model].signed}" for model in models])
