"""Are interests kept in proportion: lists before and after re-ranking, whom they fail, and what re-ranking costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import log
from typing import Any, final

import polars as pl

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
    reranked_of,
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
    model = _front(evidence)
    if model is None or reranked_of(evidence)[model].worst.is_empty():
        return
    found = reranked_of(evidence)[model]
    rows = found.worst.sort(pl.col("shown") - pl.col("history"), maintain_order=True).to_dicts()
    least, most = rows[0], rows[-1]
    if least["shown"] - least["history"] > -NOTABLE or most["shown"] - most["history"] < NOTABLE:
        return
    yield Finding(
        f"{model} shows too much {most['category']} and too little {least['category']} to the users whom it fits worst",
        f"Among the tenth of users with the least calibrated lists, {_shares(most)}; {_shares(least)}."
        f"{_over_all(evidence, model)}",
        CALIBRATION,
        max(of_share(row["shown"], row["history"]) for row in (least, most)),
        found.worst_users,
    )


def price_of_proportion(evidence: Evidence) -> Iterator[Finding]:
    """How much more calibrated would re-ranking make the lists, and what would that cost?"""
    model = _front(evidence)
    if model is None:
        return
    found = reranked_of(evidence)[model]
    gain, cost = found.change(KL), found.change("ndcg")
    if gain is None or cost is None or not gain.below(0):
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
    yield Finding(
        f"Re-ranked, the lists of {model} come closer to what users are interested in, {price}",
        f"With a weight of {settings['weight']:g} on calibration: {moved[KL]} (smoothing {settings['smoothing']:g}), "
        f"{moved['ndcg']} and {moved['recall']}.{_bargain(evidence, found)}",
        CALIBRATION,
        against(gain, 0.0, evidence.confidence),
        min(gain.users, cost.users),
    )


def _front(evidence: Evidence) -> str | None:
    """The best ranking of the models whose lists were re-ranked and have a C_KL."""
    known = (model for model, own in reranked_of(evidence).items() if own.people[KL].count())
    return next(known, None)


def _over_all(evidence: Evidence, model: str) -> str:
    own = evidence.known(KL).get(model)
    smoothing = settings_of(evidence)["smoothing"]
    return "" if own is None else f" {evidence.label(KL)} over all users: {own.full} (smoothing {smoothing:g})."


def _bargain(evidence: Evidence, found: RerankedLists) -> str:
    point = found.best_bargain
    if point is None:
        return ""
    parts = (evidence.said(name, point[name], RERANKING) for name in (KL, "recall"))
    return f" Of the weights tried, {point['at']:g} is the best bargain: {', '.join(parts)}."


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
        unranked = any(model not in reranked_of(evidence) for model in evidence.known(KL))
        groupings = [*evidence.user_groupings, *evidence.item_groupings]
        return {
            "kind": settings.get("categories") or "category",
            "smoothing": settings["smoothing"],
            "highest": -log(settings["smoothing"]),
            "k": settings["k"],
            "own": overview(evidence, CALIBRATION) if own and unranked else None,
            "skipped": evidence.unasked(CALIBRATION, RERANKING),
            "groups": group_tables(evidence, [KL], groupings),
            "reranked": _reranked(evidence) if reranked_of(evidence) else None,
            "metrics": [KL, *own, *(name for found in reranked_of(evidence).values() for name in found.changes)],
        }


def _reranked(evidence: Evidence) -> dict[str, Any]:
    """Before and after, with the figures of the best at ranking of the models that have an answer."""
    found = reranked_of(evidence)
    model = _front(evidence) or next(iter(found))
    measured = list(dict.fromkeys(name for own in found.values() for name in own.changes))
    first = [name for name in (*DISTANCES, "uncalibrated_share", *QUALITIES) if name in measured]
    example = found[model].example
    user = example["user"][0] if len(example) else None
    return {
        "weight": settings_of(evidence)["weight"],
        "main": _before_and_after(evidence, first),
        "others": _before_and_after(evidence, [name for name in measured if name not in first]),
        "model": model,
        "histogram": divergences(evidence, model),
        "one_user": one_user(evidence, model),
        "user": found[model].people.row(by_predicate=pl.col("user") == user, named=True) if user is not None else None,
        "worst": least_calibrated(evidence, model),
        "tradeoff": recall_against_divergence(evidence),
        "bargain": found[model].best_bargain,
        "drawn": [name for name, own in found.items() if len(own.curve)],
        "curves": [(name, _curve(evidence, own)) for name, own in found.items() if len(own.curve)],
    }


def _before_and_after(evidence: Evidence, metrics: list[str]) -> Overview:
    """Metrics by model, each as its value before re-ranking and after."""
    rows = [
        TableRow(model, [_change(own, metric) for metric in metrics], model in evidence.references)
        for model, own in reranked_of(evidence).items()
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
