"""Does it come from nowhere: what is shown to people who have nothing to do with it, and what that buys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from recaudit.audits.folding.fronts import knee
from recaudit.report.evidence import Evidence
from recaudit.report.findings.finding import Finding
from recaudit.report.kit import effects
from recaudit.report.kit.numbers import figure
from recaudit.report.sections.folding import Case, Point

NOTABLE = 0.01
"""From this share of the lists on, it is a finding that they hold what is spurious."""

_SECTION = "folding"


def from_nowhere(evidence: Evidence) -> Iterator[Finding]:
    """Which model shows the most that has hardly anything to do with the user?"""
    shares = evidence.firm("spurious_share")
    ranked = [model for model in evidence.ranked("spurious_share") if model in shares]
    if not ranked or not shares[ranked[-1]].above(NOTABLE):
        return
    model = ranked[-1]
    numbers = ", ".join(f"{name} {shares[name].full}" for name in reversed(ranked))
    cases = evidence.folding[model].cases
    yield Finding(
        f"{shares[model].text} of what {model} shows has hardly anything to do with the user",
        f"{evidence.label('spurious_share')}: {numbers}.{f' {_example(cases[0])}' if cases else ''}",
        _SECTION,
        effects.against(shares[model], 0.0, evidence.confidence),
        shares[model].users,
    )


def precise_but_folded(evidence: Evidence) -> Iterator[Finding]:
    """Does the model that predicts ratings best fold more than another that has vectors too?"""
    folded, error = evidence.firm("folding"), evidence.firm("rmse")
    by_error = [model for model in evidence.ranked("rmse") if model in folded and model in error]
    by_folding = [model for model in evidence.ranked("folding") if model in by_error]
    if len(by_error) < 2:
        return
    precise, least = by_error[0], by_folding[0]
    if precise == least or not evidence.predicts_better(precise, least):
        return
    if folded[precise].apart_from(folded[least]):
        yield Finding(
            f"{precise} predicts ratings better than {least}, but folds more",
            f"Folding: {folded[precise].full} against {folded[least].full}; RMSE: {error[precise].full} against "
            f"{error[least].full}.",
            _SECTION,
            effects.between(folded[precise], folded[least], evidence.confidence),
            min(estimate[model].users for estimate in (folded, error) for model in (precise, least)),
        )


def what_was_left_unrated(evidence: Evidence) -> Iterator[Finding]:
    """Would a model fold less if what users did not rate counted for something?"""
    for model, own in evidence.folding.items():
        error, now = evidence.firm("rmse").get(model), evidence.firm("folding").get(model)
        if error is None or now is None:
            continue
        less = [point for point in own.curve if now.above(point.folding)]
        free = [point for point in less if point.rmse <= (error.value or 0.0)]
        point = min(free, key=lambda point: point.folding) if free else _knee(own.curve)
        if point not in less:
            continue
        verdict = "RMSE gets no worse." if free else "Of the weights tried, it is the best bargain."
        yield Finding(
            f"{model} would fold less if what users left unrated counted for something",
            f"With a weight of {point.weight:g} on unrated pairs, folding goes from {now.text} to "
            f"{figure('folding', point.folding)} and RMSE from {error.text} to {figure('rmse', point.rmse)}. {verdict}",
            _SECTION,
            effects.against(now, point.folding, evidence.confidence),
            min(error.users, now.users),
        )


def _knee(curve: tuple[Point, ...]) -> Point | None:
    if not curve:
        return None
    place = knee(np.array([point.rmse for point in curve]), np.array([point.folding for point in curve]))
    return None if place is None else curve[place]


def _example(case: Case) -> str:
    rates = f", who rates {case.user_rates}," if case.user_rates else ""
    about = f" ({case.categories})" if case.categories else ""
    return f"For example, {case.user}{rates} is shown {case.title}{about}."
