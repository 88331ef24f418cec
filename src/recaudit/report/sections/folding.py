"""What one model folds: the tables of its folding audit, as the page shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, final

import polars as pl

from recaudit.metrics.tables import SERIES_SCHEMA
from recaudit.report.kit.reading import table_of
from recaudit.runs import Run

AUDIT = "folding"

_CASE_SCHEMA = {
    "user": pl.String,
    "title": pl.String,
    "categories": pl.String,
    "rank": pl.Int64,
    "relatedness": pl.Float64,
    "similarity": pl.Float64,
    "user_rates": pl.String,
    "in_common": pl.Float64,
    "nearest_by_model": pl.List(pl.String),
}
_FOLD_SCHEMA = {
    "users": pl.String,
    "items": pl.String,
    "overshoot": pl.Float64,
    "shown_share": pl.Float64,
    "n_users": pl.Int64,
    "examples": pl.List(pl.String),
}


@final
@dataclass(frozen=True)
class Case:
    """One spurious recommendation, and what a person needs to judge it."""

    user: str
    title: str
    categories: str | None
    """What the item is about; None where nothing is known."""
    rank: int
    """Its place in the user's list."""
    relatedness: float
    similarity: float
    user_rates: str | None
    """What the user rates most: "Drama 40%, Comedy 25%"."""
    in_common: float | None
    """The share of what the user rated that has a category in common with the item."""
    nearest: tuple[str, ...]
    """Of what the user rated, the items that the model takes to be most like this one."""


@final
@dataclass(frozen=True)
class Fold:
    """A kind of users, and a kind of items that they are placed near."""

    users: str
    items: str
    overshoot: float
    shown_share: float
    """How much of these users' lists is of that kind."""
    n_users: int
    examples: tuple[str, ...]
    """The best known of the items."""

    @property
    def apart(self) -> bool:
        """Whether users and items have no kind in common."""
        return not _kinds(self.users) & _kinds(self.items)


@final
@dataclass(frozen=True)
class Point:
    """The model with another weight of unrated pairs."""

    weight: float
    rmse: float
    folding: float
    shown_folding: float


@final
@dataclass(frozen=True, eq=False)
class Folded:
    """One model's audit."""

    cases: tuple[Case, ...]
    """The clearest first."""
    folds: tuple[Fold, ...]
    """The worst first."""
    curve: tuple[Point, ...]
    """By weight; empty where it was not asked for."""

    @classmethod
    def of(cls, run: Run, model: str) -> Folded:
        """Read a finished audit."""
        cases = table_of(run, model, AUDIT, "spurious", _CASE_SCHEMA)
        folds = table_of(run, model, AUDIT, "co_clusters", _FOLD_SCHEMA)
        series = table_of(run, model, AUDIT, "series", SERIES_SCHEMA)
        return cls(
            tuple(_case(row) for row in cases.iter_rows(named=True)),
            tuple(_fold(row) for row in folds.sort("overshoot", descending=True).iter_rows(named=True)),
            _curve(series),
        )


def category_system(label: str) -> str:
    """The category system that relatedness was taken from, from the settings of a result: `categories, genre`."""
    source, _, rest = label.partition(", ")
    return rest if source == "categories" else ""


def told_relatedness(label: str) -> str:
    """What relatedness was taken from, in words."""
    if system := category_system(label):
        return f"{system}: how much of what a user rated is of the item's kind"
    return "who rated what: how much people like the user rate items like this one"


def _kinds(name: str) -> set[str]:
    """The categories in a group's name; none in `group 1`, which has no categories to be named by."""
    numbered = re.compile(r"^group \d+$| \(\d+\)$")
    return {kind for part in name.split(", ") if (kind := numbered.sub("", part))}


def _named(kinds: str) -> str:
    """Categories as a person lists them."""
    return kinds.replace("|", ", ")


def _case(row: dict[str, Any]) -> Case:
    categories, nearest = row["categories"], row["nearest_by_model"] or []
    return Case(
        user=row["user"],
        title=row["title"],
        categories=None if categories is None else _named(categories),
        rank=row["rank"],
        relatedness=row["relatedness"],
        similarity=row["similarity"],
        user_rates=row["user_rates"],
        in_common=row["in_common"],
        nearest=tuple(map(_named, nearest)),
    )


def _fold(row: dict[str, Any]) -> Fold:
    return Fold(
        users=_named(row["users"]),
        items=_named(row["items"]),
        overshoot=row["overshoot"],
        shown_share=row["shown_share"],
        n_users=row["n_users"],
        examples=tuple(row["examples"]),
    )


def _curve(series: pl.DataFrame) -> tuple[Point, ...]:
    """The weights at which everything was measured."""
    wide = series.filter(pl.col("over") == "unobserved_weight").pivot("metric", index="at", values="value").sort("at")
    needed = ("rmse", "folding", "shown_folding")
    if not set(needed) <= set(wide.columns):
        return ()
    known = wide.drop_nulls(needed)
    return tuple(Point(row["at"], *(row[name] for name in needed)) for row in known.iter_rows(named=True))
