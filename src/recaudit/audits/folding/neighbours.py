"""The nearest neighbours of an item under two models, side by side (paper 002, Table 1)."""

from __future__ import annotations

import numpy as np
import polars as pl

from recaudit.arguments import check_count
from recaudit.audits.folding.about import About
from recaudit.audits.folding.vectors import MIN_RATINGS, item_at, unit_rows, vectors_of
from recaudit.errors import InputError
from recaudit.models.base import FittedModel


def neighbours(
    first: FittedModel,
    second: FittedModel,
    item: object,
    n: int = 9,
    *,
    system: str | None = None,
    min_ratings: int = MIN_RATINGS,
) -> pl.DataFrame:
    """The n items whose vectors have the largest cosine with this item's, under each of two models.

    Of the items with at least `min_ratings` in the first model's log: hardly anything holds the vectors of others.

    Columns rank (0 is the item itself), then item, title, categories and cosine of the first model as
    `first_item`, ..., and of the second as `second_item`, .... Equal cosines go by the order of the ids. Titles and
    categories are those of the first model's log; `system` names the categories, else the log's first.
    """
    check_count("n", n)
    data = first.data
    if not second.data.item_ids.equals(data.item_ids):
        raise InputError(
            "second",
            received=f"a model of {second.data.n_items:,} items",
            expected=f"a model of the same {data.n_items:,} items as the first",
            remedy="Fit both to the same log.",
        )
    position, about = item_at(data, item), About.of(data, system)
    others = np.flatnonzero((data.item_counts >= min_ratings) & (np.arange(data.n_items) != position))
    count = min(n, len(others)) + 1
    columns: dict[str, object] = {"rank": np.arange(count)}
    for name, model in (("first", first), ("second", second)):
        V = unit_rows(vectors_of(model)[1])
        cosines = V @ V[position]
        nearest = others[np.argsort(-cosines[others], kind="stable")]
        chosen = np.concatenate([[position], nearest])[:count]
        columns |= {
            f"{name}_item": data.item_ids.gather(chosen),
            f"{name}_title": data.item_labels(chosen),
            f"{name}_categories": pl.Series([about.of_item(i) for i in chosen], dtype=pl.String),
            f"{name}_cosine": cosines[chosen],
        }
    return pl.DataFrame(columns)
