"""What one model lets people do over time: the tables of its agency audit, as the page shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray
from recaudit.metrics.tables import SERIES_SCHEMA
from recaudit.report.kit.reading import scan_of, table_of
from recaudit.runs import Run

AUDIT = "agency"

When = Literal["past", "future"]
WHEN: Mapping[When, str] = {"past": "in hindsight", "future": "from now on"}

_PAIR_SCHEMA = {
    "when": pl.String,
    "viewer": pl.String,
    "editor": pl.String,
    "value": pl.Float64,
    "action_items": pl.List(pl.String),
    "action_ratings": pl.List(pl.Float64),
    "given_ratings": pl.List(pl.Float64),
}
_ITEM_SCHEMA = {"item": pl.String, "title": pl.String}


@final
@dataclass(frozen=True)
class Rating:
    """A rating of a worked pair: what it was, where it was given at all, and what it would be."""

    title: str
    given: float | None
    instead: float


@final
@dataclass(frozen=True)
class Worked:
    """The pair that moves furthest: whose recommendations, by whose ratings, and by which."""

    viewer: str
    editor: str
    value: float
    ratings: tuple[Rating, ...]


@final
@dataclass(frozen=True, eq=False)
class Agency:
    """One model's audit."""

    series: pl.DataFrame
    """Columns as in SERIES_SCHEMA."""
    worked: Mapping[str, Worked]
    """By "past" and "future"."""

    @classmethod
    def of(cls, run: Run, model: str) -> Agency:
        """Read a finished audit."""
        items = table_of(run, model, AUDIT, "items", _ITEM_SCHEMA)
        titles = dict(items.select("item", pl.coalesce("title", "item")).iter_rows())
        pairs = scan_of(run, model, AUDIT, "pairs", _PAIR_SCHEMA).collect()
        return cls(
            series=table_of(run, model, AUDIT, "series", SERIES_SCHEMA),
            worked={
                row["when"]: Worked(
                    row["viewer"],
                    row["editor"],
                    row["value"],
                    tuple(
                        Rating(titles.get(item, item), given, instead)
                        for item, given, instead in zip(
                            row["action_items"], row["given_ratings"], row["action_ratings"], strict=True
                        )
                    ),
                )
                for row in pairs.iter_rows(named=True)
            },
        )

    def curve(self, over: str, metric: str) -> pl.DataFrame:
        """The points that have a value."""
        wanted = (pl.col("over") == over) & (pl.col("metric") == metric)
        return self.series.filter(wanted & pl.col("value").is_not_null()).sort("at")

    def histogram(self, metric: str, edges: FloatArray) -> list[float]:
        """(len(edges) - 1,): the share of pairs whose instability lies between two edges."""
        steps = self.curve("instability", metric)
        # A step belongs to the bin that starts where it does, whichever way the two were rounded.
        starts = steps["at"].to_numpy() * (1 + 1e-9)
        return [float(share) for share in np.histogram(starts, edges, weights=steps["value"].to_numpy())[0]]
