"""Questions about single items: which are shown most, and which good ones are shown to nobody."""

from __future__ import annotations

import numpy as np
import polars as pl

from recaudit.report.evidence import Evidence

ENOUGH_RATINGS = 10
"""An item with fewer is not called good; and a mean is pulled towards that of all ratings as if by as many more,
so that ten lucky ratings do not outrank a hundred good ones."""

_PULLED = "pulled"


def most_shown(items: pl.DataFrame, limit: int) -> pl.DataFrame:
    """The items in the most lists."""
    shown = items.filter(pl.col("recommended") > 0)
    return shown.sort(["recommended", "ratings", "item"], descending=[True, True, False]).head(limit)


def best_hidden(items: pl.DataFrame) -> pl.DataFrame:
    """Items in nobody's list with enough ratings to judge them, best first by the mean, pulled."""
    everything = _mean_rating(items, "ratings")
    pulled = (pl.col("ratings") * pl.col("mean_rating") + ENOUGH_RATINGS * everything) / (
        pl.col("ratings") + ENOUGH_RATINGS
    )
    hidden = items.filter((pl.col("recommended") == 0) & (pl.col("ratings") >= ENOUGH_RATINGS))
    ordered = hidden.with_columns(pulled.alias(_PULLED))
    return ordered.sort([_PULLED, "ratings", "item"], descending=[True, True, False])


def above_average(hidden: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """Those of `best_hidden` that are better than what is shown on average, by place: an item in ten lists
    counts ten times."""
    return hidden.filter(pl.col(_PULLED) > _mean_rating(items, "recommended"))


def _mean_rating(items: pl.DataFrame, weight: str) -> float:
    """The mean rating of items, each counted by a column; NaN without any, which nothing is above."""
    rated = items.filter(pl.col("mean_rating").is_not_null() & (pl.col(weight) > 0))
    weights = rated[weight].to_numpy()
    return float(np.average(rated["mean_rating"].to_numpy(), weights=weights)) if len(rated) else float("nan")


def shown_by_none(evidence: Evidence) -> int:
    """How many items no model shows to anybody."""
    frames = [frame.select("item", "recommended") for frame in evidence.items.values()]
    totals = pl.concat(frames).group_by("item").agg(pl.col("recommended").sum())
    return int((totals["recommended"] == 0).sum())
