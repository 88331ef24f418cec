"""Are interests kept in proportion: lists before and after re-ranking, whom they fail, and what re-ranking costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil, log
from typing import Any, final

import polars as pl

from recaudit.audits.calibration.audit import WORST
from recaudit.metrics.numbers import percent
from recaudit.report.evidence import Evidence
from recaudit.report.kit.findings import Finding, against, of_share
from recaudit.report.kit.tables import NumberTable, Overview, TableCell, TableRow, group_tables, overview, user_cell
from recaudit.report.sections.calibration.reranked import (
    CALIBRATION,
    DISTANCES,
    KL,
    QUALITIES,
    RERANKING,
    RerankedLists,
    divergences,
    least_calibrated,
    one_user,
    recall_against_divergence,
    reranked_by_model,
    settings_of,
)
from recaudit.report.sections.section import Section

NOTABLE = 0.02
"""From this change of a category's share on, it is worth naming."""
_SHORT = {
    KL: "C_KL",
    "calibration_hellinger": "Hellinger",
    "calibration_tv": "Total variation",
    "uncalibrated_share": "Beyond chance",
    "coverage": "Coverage",
    "gini": "Gini",
    "popularity_lift": "Popularity lift",
    "novelty": "Novelty",
    "log_folding": "Folding by the log",
}
"""Labels that are shorter than elsewhere: a cell of before and after holds three numbers."""


def out_of_proportion(evidence: Evidence) -> Iterator[Finding]:
    """Which interests are crowded out of the lists of the users who are served worst?"""
    found = _front(evidence)
    if found is None or found.worst.is_empty():
        return
    rows = found.worst.sort(pl.col("shown") - pl.col("history"), maintain_order=True).to_dicts()
    least, most = rows[0], rows[-1]
    if least["shown"] - least["history"] > -NOTABLE or most["shown"] - most["history"] < NOTABLE:
        return
    overall = evidence.known(KL).get(found.model)
    smoothing = f"(smoothing {settings_of(evidence)['smoothing']:g})"
    yield Finding(
        f"{found.model} shows too much {most['category']} and too little {least['category']} to the users whom it fits "
        "worst",
        f"Among the tenth of users with the least calibrated lists, {_shares(most)}; {_shares(least)}."
        + (f" {evidence.label(KL)} over all users: {overall.full} {smoothing}." if overall else ""),
        CALIBRATION,
        max(of_share(row["shown"], row["history"]) for row in (least, most)),
        ceil(WORST * found.people[KL].count()),
    )


def price_of_proportion(evidence: Evidence) -> Iterator[Finding]:
    """How much more calibrated would re-ranking make the lists, and what would that cost?"""
    found = _front(evidence)
    gain, cost = (found.change(KL), found.change("ndcg")) if found else (None, None)
    if found is None or gain is None or cost is None or not gain.below(0):
        return
    settings = settings_of(evidence)
    moved = {
        name: f"{evidence.label(name, RERANKING)} from {found.changes[name].compared} to {found.changes[name].full}"
        for name in (KL, *QUALITIES)
    }
    label, before = evidence.label("ndcg", RERANKING), found.changes["ndcg"].baseline
    price = f"and their {label} rises" if cost.above(0) else f"and their {label} changes by no more than chance"
    if cost.below(0) and before:
        price = f"at the price of {percent(-(cost.value or 0.0) / before)} of their {label}"
    point, bargain = found.best_bargain, ""
    if point is not None:
        parts = ", ".join(evidence.said(name, point[name], RERANKING) for name in (KL, "recall"))
        bargain = f" Of the weights tried, {point['at']:g} is the best bargain: {parts}."
    yield Finding(
        f"Re-ranked, the lists of {found.model} come closer to what users are interested in, {price}",
        f"With a weight of {settings['weight']:g} on calibration: {moved[KL]} (smoothing {settings['smoothing']:g}), "
        f"{moved['ndcg']} and {moved['recall']}.{bargain}",
        CALIBRATION,
        against(gain, 0.0, evidence.confidence),
        min(gain.users, cost.users),
    )


def _front(evidence: Evidence) -> RerankedLists | None:
    """Of the best ranking of the models whose lists were re-ranked and have a C_KL."""
    return next((own for own in reranked_by_model(evidence).values() if own.people[KL].count()), None)


def _shares(row: Mapping[str, Any]) -> str:
    history, shown = percent(row["history"]), percent(row["shown"])
    return f"{row['category']} is {history} of what they chose and {shown} of their lists"


@final
class CalibrationSection(Section):
    """Whether lists are calibrated as they are ranked, and what re-ranking them would do; either may be missing."""

    audits = (CALIBRATION, RERANKING)
    anchor, title, template, place = "calibration", "Calibration", "calibration.html.j2", 80
    questions = (out_of_proportion, price_of_proportion)

    def content(self) -> dict[str, Any] | None:
        """Lists as they are, and before and after re-ranking."""
        evidence = self.evidence
        settings = settings_of(evidence)
        if not settings:
            return None
        own = evidence.metrics(CALIBRATION)
        unranked = any(model not in reranked_by_model(evidence) for model in evidence.known(KL))
        groupings = [*evidence.user_groupings, *evidence.item_groupings]
        return {
            "kind": settings.get("categories") or next(iter(evidence.run.manifest.data.categories), "category"),
            "smoothing": settings["smoothing"],
            "highest": -log(settings["smoothing"]),
            "k": settings["k"],
            "own": overview(evidence, CALIBRATION) if own and unranked else None,
            "skipped": evidence.unasked(CALIBRATION, RERANKING),
            "groups": group_tables(evidence, [KL], groupings),
            "reranked": _reranked(evidence) if reranked_by_model(evidence) else None,
            "metrics": [KL, *own, *(name for found in reranked_by_model(evidence).values() for name in found.changes)],
        }


def _reranked(evidence: Evidence) -> dict[str, Any]:
    """Before and after, with the figures of the best at ranking of the models that have an answer."""
    found = reranked_by_model(evidence)
    front = _front(evidence) or next(iter(found.values()))
    model = front.model
    measured = list(dict.fromkeys(name for own in found.values() for name in own.changes))
    first = [name for name in (*DISTANCES, "uncalibrated_share", *QUALITIES) if name in measured]
    user = front.example["user"][0] if len(front.example) else None
    return {
        "weight": settings_of(evidence)["weight"],
        "main": _before_and_after(evidence, first),
        "others": _before_and_after(evidence, [name for name in measured if name not in first]),
        "model": model,
        "histogram": divergences(evidence, model),
        "one_user": one_user(evidence, model),
        "user": front.people.row(by_predicate=pl.col("user") == user, named=True) if user is not None else None,
        "worst": least_calibrated(evidence, model),
        "tradeoff": recall_against_divergence(evidence),
        "bargain": front.best_bargain,
        "drawn": [name for name, own in found.items() if len(own.curve)],
        "curves": [(name, _curve(evidence, own)) for name, own in found.items() if len(own.curve)],
    }


def _before_and_after(evidence: Evidence, metrics: list[str]) -> Overview:
    """Metrics by model, each as its value before re-ranking and after."""
    rows = [
        TableRow(model, [_change(own, metric) for metric in metrics], model in evidence.references)
        for model, own in reranked_by_model(evidence).items()
    ]
    return Overview(metrics, [_SHORT.get(name) or evidence.label(name, RERANKING) for name in metrics], rows)


def _change(found: RerankedLists, metric: str) -> TableCell:
    estimate = found.changes.get(metric)
    if estimate is None:
        return user_cell(None, reason="the model has no vectors of users and items")
    made = user_cell(estimate, reason="there was nothing to measure")
    return made if made.reason else replace(made, before=estimate.compared)


def _curve(evidence: Evidence, found: RerankedLists) -> NumberTable:
    """One model's numbers along the weight: paper 004, Table 2."""
    names = (KL, "recall")
    rows = [
        TableRow(
            f"{point['at']:g}",
            [
                *(TableCell(evidence.definitions[name].written(point[name])) for name in names),
                TableCell("best bargain" if point == found.best_bargain else ""),
            ],
        )
        for point in found.curve.iter_rows(named=True)
    ]
    labels = [evidence.label(name, RERANKING) for name in names]
    caption = f"Smoothing {settings_of(evidence)['smoothing']:g}"
    return NumberTable(caption, ["weight of calibration", *labels, ""], rows)
