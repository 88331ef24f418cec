"""What is shown: how much of the catalogue, how evenly, how popular, of which kind; and which items to nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from math import log2
from typing import Any, final

import altair as alt
import numpy as np
import polars as pl

from recaudit.metrics.numbers import TIMES, percent
from recaudit.report.evidence import QUALITY, Evidence, GroupEstimate, columns
from recaudit.report.kit import charts as kit
from recaudit.report.kit.claims import LEVEL, Caution, Claim, ClaimNumber, Effect, Finding, of_share
from recaudit.report.kit.comparisons import (
    MOST_ROWS,
    NumberTable,
    TableCell,
    TableRow,
    figures_by_model,
    group_tables,
    main_stands_out,
    model_colors,
    number_cell,
    overview,
)
from recaudit.report.kit.measures import measure
from recaudit.report.kit.numbers import count, plural, some
from recaudit.report.sections.section import Section
from recaudit.report.significance import MIN_SHARE_OF_RATINGS, compute_reference_p, find_model_test

ENOUGH_RATINGS = 10
"""An item with fewer is not called good; and a mean is pulled towards that of all ratings as if by as many more,
so that ten lucky ratings do not outrank a hundred good ones."""
_NAMED = 3
_ITEMS = columns("item title", "mean_rating", "ratings recommended")


def shown_items(evidence: Evidence) -> Mapping[str, pl.DataFrame]:
    """For each model that was audited for exposure a row an item; the title is the id where there is none."""
    return {model: items for model, items in evidence.each("exposure", _items).items() if len(items)}


def _items(evidence: Evidence, model: str) -> pl.DataFrame:
    return evidence.table(model, "exposure", "items", _ITEMS).with_columns(title=pl.coalesce("title", "item"))


def best_hidden(items: pl.DataFrame) -> pl.DataFrame:
    """Items in nobody's list with enough ratings to judge them, best first by the `pulled` mean."""
    rated, average = pl.col("ratings"), _mean_rating(items, "ratings")
    pulled = (rated * pl.col("mean_rating") + ENOUGH_RATINGS * average) / (rated + ENOUGH_RATINGS)
    hidden = items.filter((pl.col("recommended") == 0) & (pl.col("ratings") >= ENOUGH_RATINGS))
    return hidden.with_columns(pulled=pulled).sort("pulled", "ratings", "item", descending=[True, True, False])


def above_average(hidden: pl.DataFrame, items: pl.DataFrame) -> int:
    """How many of `best_hidden` are better than what is shown on average; an item in ten lists counts ten times."""
    return hidden.filter(pl.col("pulled") > _mean_rating(items, "recommended")).height


def _mean_rating(items: pl.DataFrame, weight: str) -> float:
    """The mean rating of items, each counted by a column; NaN without any, which nothing is above."""
    rated = items.filter(pl.col("mean_rating").is_not_null() & (pl.col(weight) > 0))
    return float(np.average(rated["mean_rating"], weights=rated[weight])) if len(rated) else float("nan")


def compute_coverage_ceiling(evidence: Evidence, model: str) -> float:
    """Compute the largest coverage that the lists of the measured users can have: users * k / items, at most 1."""
    coverage, k = evidence.known("coverage").get(model), evidence.list_length("exposure")
    items = evidence.run.manifest.data.items
    return 1.0 if coverage is None or k is None or not items else min(1.0, coverage.users * k / items)


def find_catalogue(evidence: Evidence) -> Iterator[Claim]:
    """Find out how much of the catalogue is in nobody's list, unless the number of users alone explains it.

    If the lists of the measured users cannot hold the catalogue, their coverage says little about the model. The same
    holds if coverage is not shown to be below that of random lists for the same users.
    """
    main = evidence.main
    coverage, items = evidence.known("coverage").get(main), shown_items(evidence).get(main)
    if coverage is None or items is None:
        return
    ceiling, k = compute_coverage_ceiling(evidence, main), evidence.list_length("exposure")
    number = ClaimNumber(
        audit="exposure",
        metric="coverage",
        model=main,
        value=coverage.value,
        lower=coverage.lower,
        upper=coverage.upper,
        reference=ceiling,
        users=coverage.users,
    )
    if ceiling < 1:
        yield Caution(
            "exposure.coverage-limited-by-users",
            f"Coverage is limited by the number of users: their lists hold at most {percent(ceiling)} of the catalogue",
            f"There are {plural(coverage.users, 'list')} of {k} items and {plural(len(items), 'item')} in the "
            "catalogue. Compare coverage only between models that are measured on the same users.",
            "items",
            numbers=(number,),
        )
        return
    hidden = items.filter(pl.col("recommended") == 0)
    random = [model.label for model in evidence.run.manifest.models if model.kind == "random" and model.label != main]
    tests = [test for label in random if (test := find_model_test(evidence, main, label, "coverage")) is not None]
    if hidden.is_empty() or not all(test.is_below for test in tests):
        return
    sentences = [f"{count(len(hidden))} of {plural(len(items), 'item')}; coverage is {coverage.full}."]
    best = best_hidden(items)
    if len(best):
        if loved := above_average(best, items):
            sentences.append(f"{plural(loved, 'of these is', 'of these are')} rated higher than what is shown.")
        named = [
            f"{row['title']}, {row['mean_rating']:.2f} from {plural(row['ratings'], 'rating')}"
            for row in best.head(_NAMED).iter_rows(named=True)
        ]
        sentences.append(f"The best rated of them: {'; '.join(named)}.")
    totals = pl.concat(shown_items(evidence).values()).group_by("item").agg(pl.col("recommended").sum())
    none = totals.filter(pl.col("recommended") == 0).height
    if len(shown_items(evidence)) > 1 and none:
        sentences.append(f"No model shows {plural(none, 'item')} of the catalogue to anybody.")
    asked = evidence.facts(main, "exposure").get("asked")
    whom = "nobody" if asked is None else f"none of the {plural(asked['users'], 'user')} it was queried for"
    yield Finding(
        "exposure.items-never-shown",
        f"{main} shows {percent(len(hidden) / len(items))} of the catalogue to {whom}",
        " ".join(sentences),
        "items",
        Effect.within(of_share(len(hidden) / len(items)), 0.0, coverage.users),
        measure(evidence, main, "coverage"),
        "Explore, or re-rank for the catalogue: with policy = {kind = 'softmax'} the accuracy and exposure audits "
        "show how much more is shown, and what that costs.",
        numbers=(number, *(test.number for test in tests)),
        counted=True,
    )


@final
class ItemsSection(Section):
    """What each model shows most, and the best rated of what it shows nobody."""

    audits = ("exposure",)
    anchor, title, template, place = "items", "Items", "items.html.j2", 40
    questions = (find_catalogue,)

    def content(self) -> dict[str, Any] | None:
        """Items by title, of the main model first."""
        models = [self._model(model, items) for model, items in shown_items(self.evidence).items()]
        return {"models": models, "enough_ratings": ENOUGH_RATINGS} if models else None

    def _model(self, model: str, items: pl.DataFrame) -> dict[str, Any]:
        coverage = self.evidence.known("coverage").get(model)
        users = 0 if coverage is None else coverage.users
        shown = items.filter(pl.col("recommended") > 0)
        most = shown.sort("recommended", "ratings", "item", descending=[True, True, False])
        best = best_hidden(items)
        rows = []
        for row in most.head(MOST_ROWS).iter_rows(named=True):
            share = number_cell(row["recommended"] / users if users else None, percent)
            rows.append(TableRow(row["title"], [number_cell(row["recommended"], count), share, *_rated(row)]))
        hidden = [TableRow(row["title"], _rated(row)) for row in best.head(MOST_ROWS).iter_rows(named=True)]
        rated, named = ["Ratings", "Mean rating"], ["ratings", "mean_rating"]
        first = ["item", "lists", "share_of_users"]
        return {
            "model": model,
            "shown": NumberTable("Shown most", ["Item", "In lists", "Of users", *rated], rows, [*first, *named]),
            "hidden": NumberTable("Rated best of what nobody is shown", ["Item", *rated], hidden, ["item", *named]),
            "n_shown": len(shown),
            "n_hidden": len(items) - len(shown),
            "n_loved": above_average(best, items),
        }


def _rated(row: Mapping[str, Any]) -> list[TableCell]:
    return [number_cell(row["ratings"], count), number_cell(row["mean_rating"], "{:.2f}".format)]


_LARGEST_RATIO = 8
_DATA_BAR = "ratings in the data"


def compare_popular_items(evidence: Evidence) -> Iterator[Claim]:
    """Find out whether the most popular items get more places than their share of the ratings."""
    quarters = evidence.groups(evidence.main, "share", "popularity")
    if len(quarters) < 2:
        return
    least, most = quarters[0], quarters[-1]
    if not (most.estimate.value or 0.0) > _baseline(most):
        return
    lift = evidence.known("popularity_lift").get(evidence.main)
    pull = "" if lift is None else f" Popularity lift over what users chose themselves: {lift.full}."
    yield Finding(
        "exposure.popular-items-amplified",
        f"{evidence.main} gives {most.estimate.text} of all places to the most popular items",
        f"{_against_ratings(most)}. {_against_ratings(least)}.{pull}",
        "shown",
        evidence.size(most.estimate, value=_baseline(most)),
        measure(evidence, evidence.main, "share", most),
        "Reduce the weight of popularity in training, or re-rank, and compare the same shares again: ratings of what "
        "is shown are what the next model learns from.",
        numbers=(_number(evidence, most),),
    )


def compare_categories(evidence: Evidence) -> Iterator[Claim]:
    """Name the categories that get more, or fewer, places than their share of the ratings."""
    for by in evidence.item_groupings:
        groups = [] if by == "popularity" else evidence.groups(evidence.main, "share", by)
        numbers = {group.name: _number(evidence, group) for group in groups}
        tested = [group for group in groups if _is_compared(group) and (numbers[group.name].p or 0.0) <= LEVEL]
        up = sorted((group for group in tested if _ratio(group) > 1), key=_ratio, reverse=True)
        down = sorted((group for group in tested if _ratio(group) < 1), key=_ratio)
        parts = {"amplifies": up, "dampens": down}
        if not tested:
            continue
        named = " and ".join(f"{way} {some([group.name for group in own])}" for way, own in parts.items() if own)
        effects = {group.name: evidence.size(group.estimate, value=_baseline(group)) for group in tested}
        largest = max(tested, key=lambda group: effects[group.name].sure)
        extremes = [own[0] for own in parts.values() if own]
        yield Finding(
            "exposure.categories-differ-from-ratings",
            f"By {by}, {evidence.main} {named}",
            " ".join(f"{_against_ratings(group)}: {_times(_ratio(group))}." for group in extremes),
            "shown",
            effects[largest.name],
            measure(evidence, evidence.main, "share", largest),
            f"If that is not wanted, re-rank by {by}: the reranking audit shows what each user's own proportions "
            "would cost.",
            numbers=tuple(numbers[group.name] for group in (*up, *down)),
        )


def _is_compared(group: GroupEstimate) -> bool:
    return _baseline(group) >= MIN_SHARE_OF_RATINGS


def _number(evidence: Evidence, group: GroupEstimate) -> ClaimNumber:
    """The share of places of a group of items, against its share of the ratings."""
    own, share = group.estimate, _baseline(group)
    return ClaimNumber(
        audit="exposure",
        metric="share",
        model=evidence.main,
        by=group.by,
        group=group.raw,
        value=own.value,
        lower=own.lower,
        upper=own.upper,
        reference=share,
        p=compute_reference_p(evidence, "exposure", "share", evidence.main, share, by=group.by, group=group.name),
        users=own.users,
    )


def _against_ratings(group: GroupEstimate) -> str:
    things = group.things[0].upper() + group.things[1:]
    return f"{things} get {group.estimate.full} of places and have {percent(_baseline(group))} of ratings"


def _baseline(group: GroupEstimate) -> float:
    """The group's share of the ratings; without one, nothing lies above or below it."""
    baseline = group.estimate.baseline
    return float("nan") if baseline is None else baseline


def _ratio(group: GroupEstimate) -> float:
    return (group.estimate.value or 0.0) / _baseline(group)


def _times(ratio: float) -> str:
    return f"{TIMES}{ratio:.2g}" if ratio < 100 else f"{TIMES}{ratio:,.0f}"


def tradeoff(evidence: Evidence) -> kit.Figure | None:
    """Ranking quality against coverage, a labelled point for each model."""
    quality, coverage = evidence.known(QUALITY), evidence.known("coverage")
    both = [model for model in quality if model in coverage]
    points = {model: (coverage[model].value or 0.0, quality[model].value or 0.0) for model in both}
    if len(points) < 2:
        return None
    top = max(height for _, height in points.values()) or 1.0
    sides = kit.label_sides({model: (x, y / (1.08 * top)) for model, (x, y) in points.items()})
    rows: kit.Rows = []
    for model, (x, y) in reversed(points.items()):  # the best on top
        told = f"{evidence.label(QUALITY)} {quality[model].full}, coverage {coverage[model].full}"
        main = model == evidence.main
        rows.append({"model": model, "main": main, "x": x, "y": y, "side": sides[model], "told": told})
    base = kit.chart(rows).encode(
        x=alt.X("x:Q", title=evidence.label("coverage"), scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
        y=alt.Y("y:Q", title=evidence.label(QUALITY), scale=alt.Scale(domain=[0, top * 1.08], nice=False)),
        color=main_stands_out(),
    )
    numbers = [f"{row['model']}: {row['told']}" for row in rows]
    return kit.figure(
        "Ranking quality against coverage",
        f"Each model as a point. {'; '.join(numbers)}.",
        320,
        base.mark_point(size=80).encode(kit.tooltip("model")),
        *kit.labels(base, "model"),
        note=kit.unnamed(sides, "model"),
    )


def lorenz(evidence: Evidence) -> kit.Figure | None:
    """The share of all places that goes to the least shown items, for each model."""
    # Points lie closer towards the most shown items, where the curve bends.
    shares = 1 - np.linspace(1, 0, 51) ** 2
    rows: kit.Rows = []
    colors = model_colors(evidence)
    for model, items in shown_items(evidence).items():
        shown = np.sort(items["recommended"].to_numpy())
        if shown.sum():
            curve = np.concatenate([[0.0], np.cumsum(shown) / shown.sum()])
            taken = np.interp(shares * len(shown), np.arange(len(shown) + 1), curve)
            rows += [
                {**kit.in_series(colors, model), "x": round(float(x), 4), "y": round(float(y), 4)}
                for x, y in zip(shares, taken, strict=True)
            ]
    if not rows:
        return None
    axis, ends = alt.Axis(format="%", grid=True, tickCount=5), alt.Scale(domain=[0, 1])
    x = alt.X("x:Q", title="items, least shown first", axis=axis, scale=ends)
    y = alt.Y("y:Q", title="share of all places", axis=axis, scale=ends)
    lines = kit.chart(rows, colors).mark_line(strokeWidth=2)
    curves = lines.encode(x, y, kit.by_series(colors), tooltip=alt.Tooltip("model:N"))
    equal = kit.chart([{"x": 0, "y": 0}, {"x": 1, "y": 1}])
    diagonal = equal.mark_line(stroke=kit.MUTED, strokeDash=[3, 3], strokeWidth=1).encode(x=x, y=y)
    told = [f"{model} {estimate.text}" for model, estimate in evidence.known("gini").items()]
    about = "Lorenz curve of exposure for each model: the further below the diagonal, the fewer items take all "
    about += f"places. {evidence.label('gini')}: {', '.join(told)}."
    return kit.figure("How places are spread over items", about, 320, diagonal, curves)


def amplification(evidence: Evidence, by: str) -> kit.Figure | None:
    """Share of recommended places over share of ratings, for the categories with the most ratings."""
    groups = [group for group in evidence.groups(evidence.main, "share", by) if group.estimate.baseline]
    groups = sorted(groups, key=lambda group: -(group.estimate.baseline or 0.0))[: kit.MOST_CATEGORIES]
    if not groups:
        return None
    names = [group.name for group in sorted(groups, key=_ratio, reverse=True)]
    rows = [
        {"model": model, **_compared(group)}
        for model in reversed(evidence.models)
        for group in evidence.groups(model, "share", by)
        if group.name in names and group.estimate.baseline
    ]
    steps = [abs(log2(max(row["value"], 1 / _LARGEST_RATIO))) for row in rows]
    edge = 2 ** min(max(1.0, *steps), log2(_LARGEST_RATIO))
    for row in rows:
        ends = {end: row[end] for end in ("value", "lower", "upper") if row[end] is not None}
        row |= {end: min(max(at, 1 / edge), edge) for end, at in ends.items()}
    scale = alt.Scale(type="log", base=2, domain=[1 / edge, edge], nice=False)
    ticks = [tick for tick in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8) if 1 / edge <= tick <= edge]
    axis = kit.tick_axis(ticks, labelExpr=f"'{TIMES}' + datum.value")
    x = alt.X("value:Q", scale=scale, axis=axis, title="share of recommendations / share of ratings")
    y = kit.rows_of("group", names)
    ways = alt.Scale(domain=["up", "down", "level"], range=[kit.UP, kit.DOWN, kit.MUTED])
    color = alt.Color("way:N", scale=ways, legend=None)
    main = kit.chart([row for row in rows if row["model"] == evidence.main])
    others = kit.chart([row for row in rows if row["model"] != evidence.main])
    told = kit.tooltip("group", "model")
    numbers = [f"{row['group']}: {row['told']}" for row in rows if row["model"] == evidence.main]
    return kit.figure(
        f"By {by}",
        f"Share of recommendations of {evidence.main} against share of ratings, by {by}. {'; '.join(numbers)}.",
        kit.height_of(len(names)),
        kit.chart([{"value": 1}]).mark_rule(stroke=kit.INK).encode(x=x),
        main.mark_bar(height=3).encode(x, alt.X2Datum(1), y, color),
        main.mark_rule(strokeWidth=1.5, opacity=0.6).encode(
            alt.X("lower:Q", scale=scale, axis=axis), alt.X2("upper:Q"), y, color
        ),
        others.mark_point(size=18, fill=kit.MUTED, opacity=0.5).encode(x, y, tooltip=told),
        main.mark_point(size=80).encode(x, y, color, tooltip=told),
        title=f"{evidence.label('share')} of {evidence.main} by {by}",
    )


def _compared(group: GroupEstimate) -> dict[str, Any]:
    """A group's share as a ratio to its baseline, and on which side of it the interval lies."""
    estimate, baseline = group.estimate, group.estimate.baseline or 1.0
    ends = {"value": estimate.value or 0.0, "lower": estimate.lower, "upper": estimate.upper}
    return {
        "group": group.name,
        "way": "up" if estimate.above(baseline) else "down" if estimate.below(baseline) else "level",
        **{name: None if end is None else end / baseline for name, end in ends.items()},
        "told": f"{estimate.full} of places, {percent(baseline)} of ratings",
    }


def popularity_shares(evidence: Evidence) -> kit.Figure | None:
    """How places are divided over the items by popularity: a bar for the data, and one for each model."""
    quarters = {model: evidence.groups(model, "share", "popularity") for model in evidence.models}
    quarters = {model: groups for model, groups in quarters.items() if groups}
    if not quarters:
        return None
    first = next(iter(quarters.values()))
    names = [group.name for group in first]
    bars = {_DATA_BAR: [(group, group.estimate.baseline or 0.0) for group in first]}
    for model, groups in quarters.items():
        bars[model] = [(group, group.estimate.value or 0.0) for group in groups if group.name in names]
    rows: kit.Rows = []
    for bar, parts in bars.items():
        ends = pairwise(accumulate((share for _, share in parts), initial=0.0))
        for (group, share), (start, end) in zip(parts, ends, strict=True):
            own = {"bar": bar, "place": names.index(group.name), "group": group.things}
            rows.append({**own, "start": start, "end": end, "told": percent(share)})
    places = list(range(len(names)))
    steps = alt.Scale(domain=places, range=[kit.step_color(place, len(names)) for place in places])
    chart = kit.chart(rows).mark_bar(height=14, stroke=kit.PAPER, strokeWidth=1)
    chart = chart.encode(
        x=alt.X("start:Q", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]), title=None),
        x2=alt.X2("end:Q"),
        y=kit.rows_of("bar", [_DATA_BAR, *quarters]),
        color=alt.Color("place:O", scale=steps, legend=None),
        tooltip=kit.tooltip("bar", "group"),
    )
    most = [f"{row['bar']} {row['told']}" for row in rows if row["place"] == places[-1]]
    about = f"How places are divided over items by popularity. Places of {first[-1].things}: {', '.join(most)}."
    title = f"{evidence.label('share')} by popularity"
    return kit.figure("By popularity", about, kit.height_of(1 + len(quarters)), chart, title=title)


@final
class ExposureSection(Section):
    """Who gets a place in the lists."""

    audits = ("exposure",)
    anchor, title, template, place = "shown", "What is shown", "exposure.html.j2", 30
    questions = (compare_popular_items, compare_categories)

    def content(self) -> dict[str, Any] | None:
        """Numbers by model, how places are spread, and who gets them."""
        evidence = self.evidence
        if not evidence.metrics("exposure"):
            return None
        by_popularity = (evidence.groups(model, "share", "popularity") for model in evidence.models)
        quarters = [group.name for group in next(filter(None, by_popularity), [])]
        kinds = [by for by in evidence.item_groupings if by != "popularity"]
        return {
            "overview": overview(evidence, "exposure", everybody=True),
            "figures": figures_by_model(evidence, "exposure"),
            "lorenz": lorenz(evidence),
            "models": list(shown_items(evidence)),
            "tradeoff": tradeoff(evidence),
            "popularity": popularity_shares(evidence),
            "quarters": {name: kit.step_color(place, len(quarters)) for place, name in enumerate(quarters)},
            "amplification": kit.existing(amplification(evidence, by) for by in kinds),
            "most_categories": kit.MOST_CATEGORIES,
            "shares": group_tables(evidence, ["share"], evidence.item_groupings),
        }
