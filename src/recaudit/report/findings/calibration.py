"""Are interests kept in proportion: whom lists fail, and what it takes to mend that."""

from __future__ import annotations

from collections.abc import Iterator

from recaudit.report.evidence import Evidence
from recaudit.report.findings.finding import Finding
from recaudit.report.kit.effects import against, of_share
from recaudit.report.kit.numbers import NOT_AVAILABLE, Estimate, figure, percent
from recaudit.report.sections.calibration import AUDIT, KL, Calibrated, Represented

NOTABLE = 0.02
"""From this change of a category's share on, it is worth naming."""


def out_of_proportion(evidence: Evidence) -> Iterator[Finding]:
    """Which interests are crowded out of the lists of the users who are served worst?"""
    model = evidence.front(KL)
    if model is None:
        return
    found = evidence.calibration[model]
    worst = sorted(found.worst, key=lambda category: category.shown - category.history)
    if not worst or worst[0].shown - worst[0].history > -NOTABLE or worst[-1].shown - worst[-1].history < NOTABLE:
        return
    least, most = worst[0], worst[-1]
    yield Finding(
        f"{model} shows too much {most.name} and too little {least.name} to the users whom it fits worst",
        f"Among the tenth of users with the least calibrated lists, {_shares(most)}; {_shares(least)}. "
        f"{evidence.label(KL, AUDIT)} over all users: {evidence.known(KL)[model].full} "
        f"(smoothing {evidence.settings[AUDIT]['smoothing']:g}).",
        AUDIT,
        max(of_share(category.shown, category.history) for category in (least, most)),
        found.worst_users,
    )


def price_of_proportion(evidence: Evidence) -> Iterator[Finding]:
    """How much more calibrated would re-ranking make the lists, and what would that cost?"""
    model = evidence.front(KL)
    if model is None:
        return
    found = evidence.calibration[model]
    gain, cost = found.change(KL, evidence.confidence), found.change("ndcg", evidence.confidence)
    if gain is None or cost is None or not gain.below(0):
        return
    settings = evidence.settings[AUDIT]
    yield Finding(
        f"Re-ranked, the lists of {model} come closer to what users are interested in, {_price(evidence, found, cost)}",
        f"With a weight of {settings['weight']:g} on calibration: {_change(evidence, found, KL)} (smoothing "
        f"{settings['smoothing']:g}), {_change(evidence, found, 'ndcg')} and {_change(evidence, found, 'recall')}."
        f"{_bargain(evidence, found)}",
        AUDIT,
        against(gain, 0.0, evidence.confidence),
        min(gain.users, cost.users),
    )


def _price(evidence: Evidence, found: Calibrated, cost: Estimate) -> str:
    label, before = evidence.label("ndcg", AUDIT), found.reranked["ndcg"].baseline
    if cost.below(0) and before:
        return f"at the price of {percent(-(cost.value or 0.0) / before)} of their {label}"
    return f"and their {label} rises" if cost.above(0) else f"and their {label} changes by no more than chance"


def _change(evidence: Evidence, found: Calibrated, metric: str) -> str:
    after = found.reranked[metric]
    before = NOT_AVAILABLE if after.baseline is None else figure(metric, after.baseline)
    return f"{evidence.label(metric, AUDIT)} from {before} to {after.full}"


def _bargain(evidence: Evidence, found: Calibrated) -> str:
    point = found.best_bargain
    if point is None:
        return ""
    return (
        f" Of the weights tried, {point.weight:g} is the best bargain: {evidence.label(KL, AUDIT)} "
        f"{figure(KL, point.divergence)}, {evidence.label('recall', AUDIT)} {figure('recall', point.recall)}."
    )


def _shares(category: Represented) -> str:
    history, shown = percent(category.history), percent(category.shown)
    return f"{category.name} is {history} of what they chose and {shown} of their lists"
