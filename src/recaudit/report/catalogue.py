"""Questions about single items: which are shown most, and which are loved but shown to nobody."""

from __future__ import annotations

import polars as pl

from recaudit.report.evidence import Evidence

FEWEST_RATINGS = 5
"""A mean of fewer ratings is never called a good one."""


def most_shown(items: pl.DataFrame, limit: int) -> pl.DataFrame:
    """The items in the most lists."""
    shown = items.filter(pl.col("recommended") > 0)
    return shown.sort(["recommended", "ratings", "item"], descending=[True, True, False]).head(limit)


def loved_but_hidden(items: pl.DataFrame) -> pl.DataFrame:
    """Items in nobody's list that people rate higher than what is shown, best first.

    With enough ratings to say so: at least as many as the median item, and never fewer than five. What is
    shown counts by place: an item in ten lists counts ten times.
    """
    places = items["recommended"].sum()
    rated = items.filter(pl.col("ratings") > 0)
    if not places or rated.is_empty():
        return items.clear()
    enough = max(FEWEST_RATINGS, float(rated["ratings"].median()))  # type: ignore[arg-type]
    average = (items["mean_rating"] * items["recommended"]).sum() / places
    loved = (pl.col("recommended") == 0) & (pl.col("ratings") >= enough) & (pl.col("mean_rating") > average)
    return items.filter(loved).sort(["mean_rating", "ratings", "item"], descending=[True, True, False])


def shown_by_none(evidence: Evidence) -> int:
    """How many items no model shows to anybody."""
    frames = [frame.select("item", "recommended") for frame in evidence.items.values()]
    totals = pl.concat(frames).group_by("item").agg(pl.col("recommended").sum())
    return int((totals["recommended"] == 0).sum())
