"""Questions about single items: which are shown most, and which good ones are shown to nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np
import polars as pl

from recaudit.metrics.numbers import percent
from recaudit.report.evidence import Evidence
from recaudit.report.kit.findings import Finding, of_share
from recaudit.report.kit.numbers import NOT_AVAILABLE, count, plural
from recaudit.report.kit.tables import MOST_ROWS, Cell, Row, Table
from recaudit.report.sections.section import Section

ENOUGH_RATINGS = 10
"""An item with fewer is not called good; and a mean is pulled towards that of all ratings as if by as many more,
so that ten lucky ratings do not outrank a hundred good ones."""
_NAMED = 3
_SCHEMA = {
    "item": pl.String,
    "title": pl.String,
    "ratings": pl.Int64,
    "mean_rating": pl.Float64,
    "recommended": pl.Int64,
}


def shown_items(evidence: Evidence) -> Mapping[str, pl.DataFrame]:
    """For each model that was audited for exposure a row an item; the title is the id where there is none."""
    return {model: items for model, items in evidence.each("exposure", _items).items() if len(items)}


def _items(evidence: Evidence, model: str) -> pl.DataFrame:
    return evidence.table(model, "exposure", "items", _SCHEMA).with_columns(title=pl.coalesce("title", "item"))


def best_hidden(items: pl.DataFrame) -> pl.DataFrame:
    """Items in nobody's list with enough ratings to judge them, best first by the `pulled` mean."""
    pulled = (pl.col("ratings") * pl.col("mean_rating") + ENOUGH_RATINGS * _mean_rating(items, "ratings")) / (
        pl.col("ratings") + ENOUGH_RATINGS
    )
    hidden = items.filter((pl.col("recommended") == 0) & (pl.col("ratings") >= ENOUGH_RATINGS))
    return hidden.with_columns(pulled=pulled).sort("pulled", "ratings", "item", descending=[True, True, False])


def above_average(hidden: pl.DataFrame, items: pl.DataFrame) -> int:
    """How many of `best_hidden` are better than what is shown on average; an item in ten lists counts ten times."""
    return hidden.filter(pl.col("pulled") > _mean_rating(items, "recommended")).height


def _mean_rating(items: pl.DataFrame, weight: str) -> float:
    """The mean rating of items, each counted by a column; NaN without any, which nothing is above."""
    rated = items.filter(pl.col("mean_rating").is_not_null() & (pl.col(weight) > 0))
    return float(np.average(rated["mean_rating"], weights=rated[weight])) if len(rated) else float("nan")


def catalogue(evidence: Evidence) -> Iterator[Finding]:
    """How much of the catalogue is in nobody's list, and what that people love is among it?"""
    shown = shown_items(evidence)
    coverage, items = evidence.known("coverage").get(evidence.main), shown.get(evidence.main)
    if coverage is None or items is None:
        return
    hidden = items.filter(pl.col("recommended") == 0)
    if hidden.is_empty():
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
    totals = pl.concat(shown.values()).group_by("item").agg(pl.col("recommended").sum())
    none = totals.filter(pl.col("recommended") == 0).height
    if len(shown) > 1 and none:
        sentences.append(f"No model shows {plural(none, 'item')} of the catalogue to anybody.")
    yield Finding(
        f"{evidence.main} shows {percent(len(hidden) / len(items))} of the catalogue to nobody",
        " ".join(sentences),
        "items",
        of_share(len(hidden) / len(items)),
        coverage.users,
    )


@final
class ItemsSection(Section):
    """What each model shows most, and the best rated of what it shows nobody."""

    audits = ("exposure",)
    anchor, title, template, place = "items", "Items", "items.html.j2", 40
    questions = (catalogue,)

    def content(self) -> dict[str, Any] | None:
        """Items by title, of the main model first."""
        models = [self._model(model, items) for model, items in shown_items(self.evidence).items()]
        return {"models": models, "enough_ratings": ENOUGH_RATINGS} if models else None

    def _model(self, model: str, items: pl.DataFrame) -> dict[str, Any]:
        users = self.evidence.run.manifest.data.users
        shown = items.filter(pl.col("recommended") > 0)
        most = shown.sort("recommended", "ratings", "item", descending=[True, True, False])
        best = best_hidden(items)
        rows = [
            Row(
                row["title"],
                [
                    Cell(count(row["recommended"])),
                    Cell(percent(row["recommended"] / users) if users else NOT_AVAILABLE),
                    *_rated(row),
                ],
            )
            for row in most.head(MOST_ROWS).iter_rows(named=True)
        ]
        hidden = [Row(row["title"], _rated(row)) for row in best.head(MOST_ROWS).iter_rows(named=True)]
        columns = ["Ratings", "Mean rating"]
        return {
            "model": model,
            "shown": Table("Shown most", ["Item", "In lists", "Of users", *columns], rows),
            "hidden": Table("Rated best of what nobody is shown", ["Item", *columns], hidden),
            "n_shown": len(shown),
            "n_hidden": len(items) - len(shown),
            "n_loved": above_average(best, items),
        }


def _rated(row: Mapping[str, Any]) -> list[Cell]:
    mean = row["mean_rating"]
    return [Cell(count(row["ratings"])), Cell(NOT_AVAILABLE if mean is None else f"{mean:.2f}")]
