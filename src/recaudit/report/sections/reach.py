"""What the reachability audit of one model found, as the page needs it: without the millions of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import polars as pl

from recaudit.report.evidence import Evidence, columns
from recaudit.seeding import generator
from recaudit.status import Status
from recaudit.ties import TIE

AUDIT = "reachability"
MOST_POINTS = 1000
"""How many pairs a chart draws, chosen at random by the run's seed."""
STEP = 0.1
"""The width of a bar of the lift histogram, in powers of ten."""

_PAIRS = columns("user item status", "value upper baseline lift", "candidates")
_USERS = columns("user", "discovery baseline_discovery log_lift")
_ITEMS = columns("item title", "best", "ratings users")
_ACTIONS_TAKEN = {"action_items": pl.List(pl.String), "action_ratings": pl.List(pl.Float64)}
_EXAMPLE = {**columns("user item", "value baseline", "rank_gain"), **_ACTIONS_TAKEN}


@final
@dataclass(frozen=True, eq=False)
class Reach:
    """What one model's audit found, without the millions of pairs that it can have."""

    statuses: Mapping[str, int]
    """How many pairs there are of each status."""
    lifts: pl.DataFrame
    """step, pairs: how many pairs have a lift from 10^(STEP step) up to the next step; finite lifts only."""
    points: pl.DataFrame
    """user, title, baseline, value: some of the pairs where both chances are above 0."""
    users: pl.DataFrame
    """A row a user who was asked: user, discovery, baseline_discovery, log_lift."""
    items: pl.DataFrame
    """A row an item that was somebody's target, those that the fewest users can reach first: item, title (the id where
    there is none), ratings, users (who could have wanted it), best (anybody's best chance), reached_by (how many of
    them can make it likelier than by a uniform draw), ruled_out (whether it is certain that none of them can)."""
    example: Mapping[str, Any] | None
    """One user and one item at its best chance: user, title, baseline, value, lift (None without a chance before),
    places (how many it climbs), candidates (among how many items), ratings (by title of the items, those to give)."""

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return sum(self.statuses.values())

    @property
    def unreached(self) -> pl.DataFrame:
        """The items that none of the users can make likelier than by chance, the least likely first."""
        return self.items.filter(pl.col("ruled_out"))

    @property
    def undecided(self) -> int:
        """How many items none of the users is known to make likelier than by chance, though it is not ruled out."""
        return self.items.filter((pl.col("reached_by") == 0) & ~pl.col("ruled_out")).height

    @classmethod
    def of(cls, evidence: Evidence, model: str) -> Reach:
        """Read a finished audit."""
        pairs = evidence.scan(model, AUDIT, "pairs", _PAIRS)
        known = pairs.filter(pl.col("value").is_not_null())
        items = evidence.table(model, AUDIT, "items", _ITEMS).with_columns(pl.coalesce("title", "item"))
        titles = items.select("item", "title")
        found = dict(pairs.group_by("status").len().collect().iter_rows())
        return cls(
            statuses={status.value: int(found.get(status.value, 0)) for status in Status},
            lifts=_histogram(known),
            points=_drawn(known, evidence.run.manifest.seed).join(titles, on="item", maintain_order="left"),
            users=evidence.table(model, AUDIT, "users", _USERS).drop_nulls("discovery"),
            items=_with_reached_by(items, pairs),
            example=_example(evidence.table(model, AUDIT, "example", _EXAMPLE), known, dict(titles.iter_rows())),
        )


def _histogram(known: pl.LazyFrame) -> pl.DataFrame:
    """The pairs by lift, from the lowest step to the highest, those without any included."""
    finite = known.filter(pl.col("lift").is_finite() & (pl.col("lift") > 0))
    step = (pl.col("lift").log10() / STEP).floor().cast(pl.Int64).alias("step")
    counts = finite.group_by(step).agg(pairs=pl.len().cast(pl.Int64)).collect()
    every = pl.int_ranges(pl.col("step").min(), pl.col("step").max() + 1).explode()
    steps = counts.select(every.alias("step")).drop_nulls()
    return steps.join(counts, on="step", how="left", maintain_order="left").with_columns(pl.col("pairs").fill_null(0))


def _drawn(known: pl.LazyFrame, seed: int) -> pl.DataFrame:
    """Some of the pairs that a chart with logarithmic axes can show."""
    shown = known.filter((pl.col("value") > 0) & (pl.col("baseline") > 0)).with_row_index("row")
    count = shown.select(pl.len()).collect().item()
    if count > MOST_POINTS:
        rows = generator(seed, "pairs shown").choice(count, MOST_POINTS, replace=False)
        shown = shown.filter(pl.col("row").is_in(pl.Series(rows, dtype=pl.get_index_type()).implode()))
    return shown.select("user", "item", "baseline", "value").collect()


def _with_reached_by(items: pl.DataFrame, pairs: pl.LazyFrame) -> pl.DataFrame:
    """The items that were somebody's target, with reached_by and ruled_out."""
    asked = pairs.filter(pl.col("status") != Status.NOT_APPLICABLE.value)
    # The verdict of `Reachability.aggregate`: better than uniform by more than rounding.
    uniform = (1 + TIE) / pl.col("candidates")
    verdicts = asked.group_by("item").agg(
        reached_by=(pl.col("value") > uniform).sum(),
        # Without an upper bound, as of a failed pair, nothing is ruled out.
        ruled_out=(pl.col("upper") <= uniform).fill_null(value=False).all(),
    )
    found = items.filter(pl.col("users") > 0).join(verdicts.collect(), on="item", how="left", maintain_order="left")
    return found.sort(pl.col("reached_by") / pl.col("users"), "best", "item")


def _example(worked: pl.DataFrame, known: pl.LazyFrame, titles: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The one pair whose best action the run has kept."""
    if worked.is_empty():
        return None
    row = worked.row(0, named=True)
    acted = [titles.get(item, item) for item in row["action_items"]]
    return {
        **{name: row[name] for name in ("user", "baseline", "value")},
        "title": titles.get(row["item"], row["item"]),
        "lift": row["value"] / row["baseline"] if row["baseline"] else None,
        "places": row["rank_gain"],
        "candidates": known.filter(user=row["user"]).select(pl.len()).collect().item(),
        "ratings": tuple(zip(acted, row["action_ratings"], strict=True)),
    }
