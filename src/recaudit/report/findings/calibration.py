"""Are interests kept in proportion: whom lists fail, and what it takes to mend that."""

from __future__ import annotations

from collections.abc import Iterator

from recaudit.report.calibration import AUDIT, KL, Calibrated, Represented
from recaudit.report.evidence import Evidence
from recaudit.report.findings.finding import Finding
from recaudit.report.numbers import figure, percent, signed_percent

NOTABLE = 0.02
"""From this change of a category's share on, it is worth naming."""


def out_of_proportion(evidence: Evidence) -> Iterator[Finding]:
    """Which interests are crowded out of the lists of the users who are served worst?"""
    model = evidence.front(KL)
    if model is None:
        return
    worst = sorted(evidence.calibration[model].worst, key=lambda category: category.shown - category.history)
    if not worst or worst[0].shown - worst[0].history > -NOTABLE or worst[-1].shown - worst[-1].history < NOTABLE:
        return
    least, most = worst[0], worst[-1]
    yield Finding(
        f"{model} shows too much {most.name} and too little {least.name} to the users whom it fits worst",
        f"Among the tenth of users with the least calibrated lists, {_shares(most)}; {_shares(least)}. "
        f"{evidence.label(KL, AUDIT)} over all users: {evidence.known(KL)[model].full}{_smoothing(evidence)}.",
        AUDIT,
    )


def price_of_proportion(evidence: Evidence) -> Iterator[Finding]:
    """How much more calibrated does re-ranking make the lists, and what does that cost?"""
    model = evidence.front(KL)
    if model is None:
        return
    found = evidence.calibration[model]
    gain, cost = found.change(KL, evidence.confidence), found.change("ndcg", evidence.confidence)
    before = found.reranked["ndcg"].baseline if "ndcg" in found.reranked else None
    if gain is None or cost is None or not gain.below(0) or not before:
        return
    if cost.below(0):
        price = f"costs {signed_percent((cost.value or 0.0) / before)} of its {evidence.label('ndcg', AUDIT)}"
    else:
        price = "costs no ranking quality that could be told from chance"
    yield Finding(
        f"Keeping interests in proportion {price.replace(' −', ' ')}" if cost.below(0) else "",
        f"{_bargain(evidence, found)}",
        AUDIT,
    )


def _shares(category: Represented) -> str:
    return f"{category.name} is {percent(category.history)} of what they chose and {percent(category.shown)} of their lists"
