"""What does it show: how much of the catalogue, how popular, of which kind."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from recaudit.report.catalogue import loved_but_hidden, shown_by_none
from recaudit.report.evidence import Evidence, Group
from recaudit.report.findings.finding import Finding
from recaudit.report.numbers import count, listing, percent, plural, times

SMALLEST_SHARE = 0.01
"""A category with a smaller share of all ratings is not named: its ratio says little."""


def catalogue(evidence: Evidence) -> Iterator[Finding]:
    """How much of the catalogue is in nobody's list, and what that people love is among it?"""
    coverage, items = evidence.known("coverage").get(evidence.main), evidence.items.get(evidence.main)
    if coverage is None or items is None:
        return
    hidden = items.filter(pl.col("recommended") == 0)
    if hidden.is_empty():
        return
    sentences = [
        f"{count(len(hidden))} of {plural(len(items), 'item')} are in no user's list (coverage {coverage.full})."
    ]
    loved = loved_but_hidden(items)
    if len(loved):
        named = [f"{row['title']} ({row['mean_rating']:.2f})" for row in loved.head(3).iter_rows(named=True)]
        sentences.append(
            f"{plural(len(loved), 'of them is', 'of them are')} rated higher than what is shown on average, by at "
            f"least {plural(int(loved['ratings'].min() or 0), 'person', 'people')}; the best rated: {listing(named)}."
        )
    if len(evidence.items) > 1 and (none := shown_by_none(evidence)):
        sentences.append(f"{plural(none, 'item is', 'items are')} shown by none of the {len(evidence.items)} models.")
    yield Finding(
        f"{evidence.main} shows {percent(len(hidden) / len(items))} of the catalogue to nobody",
        " ".join(sentences),
        "items",
    )


def popular_items(evidence: Evidence) -> Iterator[Finding]:
    """Do the most popular items get more places than their share of the ratings?"""
    quarters = evidence.groups(evidence.main, "share", "popularity")
    if len(quarters) < 2:
        return
    least, most = quarters[0], quarters[-1]
    if most.estimate.baseline is None or not most.estimate.above(most.estimate.baseline):
        return
    sentences = [f"{_against_ratings(most)}.", f"The least popular, {_against_ratings(least)}."]
    lift = evidence.known("popularity_lift").get(evidence.main)
    if lift is not None:
        sentences.append(f"Over what users chose themselves, the popularity lift is {lift.full}.")
    yield Finding(
        f"{evidence.main} gives {most.estimate.text} of all places to the most popular items",
        " ".join(sentences),
        "shown",
    )


def categories(evidence: Evidence) -> Iterator[Finding]:
    """Which category is amplified most, which dampened most?"""
    for by in evidence.item_groupings:
        if by == "popularity":
            continue
        groups = [group for group in evidence.groups(evidence.main, "share", by) if _is_large(group)]
        up = [group for group in groups if group.estimate.above(_baseline(group))]
        down = [group for group in groups if group.estimate.below(_baseline(group))]
        extremes = [("amplifies", max(up, key=_ratio))] if up else []
        extremes += [("dampens", min(down, key=_ratio))] if down else []
        if extremes:
            claim = " and ".join(f"{verb} {group.name}" for verb, group in extremes)
            numbers = [f"{_against_ratings(group)}, {times(_ratio(group))} as much." for _, group in extremes]
            yield Finding(f"By {by}, {evidence.main} most {claim}", " ".join(numbers), "shown")


def _against_ratings(group: Group) -> str:
    return f"{group.things}: {group.estimate.full} of places, {percent(_baseline(group))} of ratings"


def _baseline(group: Group) -> float:
    return group.estimate.baseline or 0.0


def _is_large(group: Group) -> bool:
    return _baseline(group) >= SMALLEST_SHARE


def _ratio(group: Group) -> float:
    return (group.estimate.value or 0.0) / _baseline(group)
