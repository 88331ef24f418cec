"""What does it show: how much of the catalogue, how popular, of which kind."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from recaudit.report.evidence import Evidence, Group
from recaudit.report.findings.finding import Finding
from recaudit.report.kit import effects
from recaudit.report.kit.numbers import count, percent, plural, ratio
from recaudit.report.sections.catalogue import above_average, best_hidden, shown_by_none

SMALLEST_SHARE = 0.01
"""A category with a smaller share of all ratings is not named: its ratio says little."""

_NAMED = 3


def catalogue(evidence: Evidence) -> Iterator[Finding]:
    """How much of the catalogue is in nobody's list, and what that people love is among it?"""
    coverage, items = evidence.known("coverage").get(evidence.main), evidence.items.get(evidence.main)
    if coverage is None or items is None:
        return
    hidden = items.filter(pl.col("recommended") == 0)
    if hidden.is_empty():
        return
    sentences = [f"{count(len(hidden))} of {plural(len(items), 'item')}; coverage is {coverage.full}."]
    best = best_hidden(items)
    if len(best):
        loved = len(above_average(best, items))
        if loved:
            sentences.append(f"{plural(loved, 'of these is', 'of these are')} rated higher than what is shown.")
        named = [
            f"{row['title']}, {row['mean_rating']:.2f} from {plural(row['ratings'], 'rating')}"
            for row in best.head(_NAMED).iter_rows(named=True)
        ]
        sentences.append(f"The best rated of them: {'; '.join(named)}.")
    if len(evidence.items) > 1 and (none := shown_by_none(evidence)):
        sentences.append(f"No model shows {plural(none, 'item')} of the catalogue to anybody.")
    yield Finding(
        f"{evidence.main} shows {percent(len(hidden) / len(items))} of the catalogue to nobody",
        " ".join(sentences),
        "items",
        effects.of_share(len(hidden) / len(items)),
        coverage.users,
    )


def popular_items(evidence: Evidence) -> Iterator[Finding]:
    """Do the most popular items get more places than their share of the ratings?"""
    quarters = evidence.firm_groups(evidence.main, "share", "popularity")
    if len(quarters) < 2:
        return
    least, most = quarters[0], quarters[-1]
    if not most.estimate.above(_baseline(most)):
        return
    lift = evidence.firm("popularity_lift").get(evidence.main)
    pull = "" if lift is None else f" Popularity lift over what users chose themselves: {lift.full}."
    yield Finding(
        f"{evidence.main} gives {most.estimate.text} of all places to the most popular items",
        f"{_against_ratings(most)}. {_against_ratings(least)}.{pull}",
        "shown",
        _effect(evidence, most),
        most.estimate.users,
    )


def categories(evidence: Evidence) -> Iterator[Finding]:
    """Which category is amplified most, which dampened most?"""
    for by in evidence.item_groupings:
        if by == "popularity":
            continue
        groups = [group for group in evidence.firm_groups(evidence.main, "share", by) if _is_large(group)]
        up = [group for group in groups if group.estimate.above(_baseline(group))]
        down = [group for group in groups if group.estimate.below(_baseline(group))]
        extremes = [("amplifies", max(up, key=_ratio))] if up else []
        extremes += [("dampens", min(down, key=_ratio))] if down else []
        if extremes:
            claim = " and ".join(f"{way} {group.name}" for way, group in extremes)
            detail = " ".join(f"{_against_ratings(group)}: {ratio(_ratio(group))}." for _, group in extremes)
            yield Finding(
                f"By {by}, {evidence.main} most {claim}",
                detail,
                "shown",
                max(_effect(evidence, group) for _, group in extremes),
                min(group.estimate.users for _, group in extremes),
            )


def _against_ratings(group: Group) -> str:
    things = group.things[0].upper() + group.things[1:]
    return f"{things} get {group.estimate.full} of places and have {percent(_baseline(group))} of ratings"


def _effect(evidence: Evidence, group: Group) -> float:
    return effects.against(group.estimate, _baseline(group), evidence.confidence)


def _baseline(group: Group) -> float:
    """The group's share of the ratings; without one, nothing lies above or below it."""
    baseline = group.estimate.baseline
    return float("nan") if baseline is None else baseline


def _is_large(group: Group) -> bool:
    return _baseline(group) >= SMALLEST_SHARE


def _ratio(group: Group) -> float:
    return (group.estimate.value or 0.0) / _baseline(group)
