"""What an item is about: a distribution p(g|i) over the categories of one system (genre, language, ...)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.checks import as_numbers, as_text, check_rows


@final
@dataclass(frozen=True, eq=False)
class Categories:
    """One category system: a row p(.|i) for each item that sums to one, or to zero for an item without any."""

    names: tuple[str, ...]
    weights: sparse.csr_array
    """(items, categories)"""

    @classmethod
    def from_column(cls, column: pl.Series, rows: IntArray, n_items: int, separator: str) -> Categories:
        """From one cell an item: a list of names, or names in one text cut at `separator`; equal shares."""
        if isinstance(column.dtype, (pl.List, pl.Array)):
            table = pl.DataFrame({"row": rows, "category": column}).explode("category", empty_as_null=True)
        else:
            table = pl.DataFrame({"row": rows, "category": as_text(column).str.split(separator)}).explode("category")
        table = table.with_columns(as_text(table["category"].alias(column.name)).str.strip_chars().alias("category"))
        table = table.filter(pl.col("category").is_not_null() & (pl.col("category") != "")).unique(maintain_order=True)
        return cls.from_pairs(table["category"], None, table["row"].to_numpy(), n_items)

    @classmethod
    def from_pairs(cls, category: pl.Series, weight: pl.Series | None, rows: IntArray, n_items: int) -> Categories:
        """From (item, category, weight) triples; weights are scaled to sum to one for each item."""
        remedy = "Drop those rows: an item without categories is allowed."
        check_rows(category, category.is_null(), "a category in every row", remedy)
        values = np.ones(len(rows))
        if weight is not None:
            values = as_numbers(weight)
            remedy = "Drop the rows of categories that an item does not have."
            check_rows(weight, ~(np.isfinite(values) & (values > 0)), "weights above 0 and finite", remedy)
        # Beside the item's largest: sums of numbers near the end of their range would leave it.
        largest = np.zeros(n_items)
        np.maximum.at(largest, rows, values)
        values = values / largest[rows]
        text = as_text(category)
        names = tuple(text.unique().sort())
        columns = text.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64)
        matrix = sparse.csr_array((values, (rows, columns)), shape=(n_items, len(names)))
        totals: FloatArray = np.asarray(matrix.sum(axis=1))
        matrix.data /= np.repeat(np.where(totals > 0, totals, 1.0), np.diff(matrix.indptr))
        return cls(names, matrix)
