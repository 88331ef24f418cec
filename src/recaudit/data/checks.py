"""Checks of what comes in: each error names the column, the first offending rows and the remedy."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recaudit.errors import DataError, InputError, did_you_mean

IntArray = NDArray[np.int64]


def offending(column: pl.Series, wrong: NDArray[np.bool_], limit: int = 3) -> str:
    """The first offending rows as text: 'row 3: None, row 7: nan (2 of 10 rows)'."""
    rows = np.flatnonzero(wrong)
    shown = ", ".join(f"row {row}: {column[int(row)]!r}" for row in rows[:limit])
    return f"{shown} ({len(rows):,} of {len(column):,} rows)"


def check_ids(column: pl.Series) -> pl.Series:
    """Ids as integers or as text, none missing or empty."""
    if column.null_count():
        raise DataError(
            f"column {column.name!r}",
            received=offending(column, column.is_null().to_numpy()),
            expected="an id in every row",
            remedy="Drop those rows, or give those users or items an id.",
        )
    if column.dtype.is_integer():
        return column.cast(pl.Int64)
    if column.dtype.is_float():
        whole = column.is_finite() & (column == column.round(0))
        if whole.all():
            return column.cast(pl.Int64)
        raise DataError(
            f"column {column.name!r}",
            received=offending(column, ~whole.to_numpy()),
            expected="ids as integers or text",
            remedy="Cast the column to text if these really are ids.",
        )
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        text = column.cast(pl.String)
        empty = (text.str.strip_chars() == "").to_numpy()
        if empty.any():
            raise DataError(
                f"column {column.name!r}",
                received=offending(text, empty),
                expected="an id in every row",
                remedy="Drop those rows, or give those users or items an id.",
            )
        return text
    raise DataError(
        f"column {column.name!r}",
        received=f"values of type {column.dtype}",
        expected="ids as integers or text",
        remedy="Cast the column to text.",
    )


def check_ratings(column: pl.Series, scale: tuple[float, float] | None) -> NDArray[np.float64]:
    """Ratings as finite numbers inside the declared scale."""
    values = column.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy().astype(np.float64, copy=True)
    wrong = ~np.isfinite(values)
    if wrong.any():
        raise DataError(
            f"column {column.name!r}",
            received=offending(column, wrong),
            expected="a finite number in every row",
            remedy="Drop those rows: a missing rating is no row at all.",
        )
    if scale is not None:
        low, high = check_scale(scale, values)
        outside = (values < low) | (values > high)
        if outside.any():
            raise DataError(
                f"column {column.name!r}",
                received=offending(column, outside),
                expected=f"ratings in the declared scale [{low:g}, {high:g}]",
                remedy="Declare the true scale, or drop those rows.",
            )
    return values


def check_scale(scale: tuple[float, float] | None, values: NDArray[np.float64]) -> tuple[float, float]:
    """The declared scale, checked, or else the range of the values."""
    if scale is None:
        return float(values.min()), float(values.max())
    low, high = float(scale[0]), float(scale[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError("scale", received=scale, expected="(lowest, highest), finite, lowest below highest")
    return low, high


def check_edit(
    user: int,
    items: IntArray,
    ratings: NDArray[np.float64],
    sizes: tuple[int, int],
    scale: tuple[float, float],
) -> tuple[IntArray, NDArray[np.float64]]:
    """One user's new ratings (n,) of distinct items (n,), by position, in a log of these sizes and this scale."""
    if not 0 <= user < sizes[0]:
        raise InputError("user", received=user, expected=f"a user's position, from 0 to {sizes[0] - 1}")
    items, ratings = np.asarray(items, dtype=np.int64), np.asarray(ratings, dtype=np.float64)
    inside = (items >= 0) & (items < sizes[1])
    if items.ndim != 1 or len(np.unique(items)) != len(items) or not inside.all():
        raise InputError(
            "items",
            received=items.tolist(),
            expected=f"a list of distinct item positions from 0 to {sizes[1] - 1}",
            remedy="Turn ids into positions with data.items_at(ids).",
        )
    low, high = scale
    if ratings.shape != items.shape or not ((ratings >= low) & (ratings <= high)).all():
        raise InputError(
            "ratings",
            received=ratings.tolist(),
            expected=f"{len(items)} ratings, one for each item, in the log's scale [{low:g}, {high:g}]",
        )
    return items, ratings


def check_times(column: pl.Series) -> NDArray[np.int64] | NDArray[np.float64]:
    """Times as numbers: as given when numeric, else microseconds since 1970 for dates and date-times."""
    if column.dtype.is_temporal():
        column = column.cast(pl.Datetime("us")).cast(pl.Int64)
    elif not column.dtype.is_numeric():
        raise DataError(
            f"column {column.name!r}",
            received=f"values of type {column.dtype}",
            expected="numbers, dates or date-times",
            remedy="Parse the text first, for example with polars' str.to_datetime().",
        )
    values = column.to_numpy()
    wrong = column.is_null().to_numpy() | ~np.isfinite(np.asarray(values, dtype=np.float64))
    if wrong.any():
        raise DataError(
            f"column {column.name!r}",
            received=offending(column, wrong),
            expected="a time in every row",
            remedy="Drop those rows, or leave out time= to ignore the column.",
        )
    return values.astype(np.int64) if column.dtype.is_integer() else values.astype(np.float64)


def encode(ids: pl.Series) -> tuple[pl.Series, NDArray[np.int32]]:
    """The distinct ids in ascending order, and the position of each row's id among them."""
    name = ids.name
    if ids.dtype.is_integer():
        values = ids.to_numpy()
        low, high = int(values.min()), int(values.max())
        if high - low < max(10_000_000, 4 * len(values)):
            present = np.zeros(high - low + 1, dtype=bool)
            present[values - low] = True
            code = np.cumsum(present, dtype=np.int32) - np.int32(1)
            return pl.Series(name, np.flatnonzero(present) + low), code[values - low]
        distinct, inverse = np.unique(values, return_inverse=True)
        return pl.Series(name, distinct), inverse.astype(np.int32)
    ordered = ids.unique().sort()
    return ordered, ids.cast(pl.Enum(ordered)).to_physical().to_numpy().astype(np.int32)


def resolve_duplicates(
    key: IntArray,
    values: NDArray[np.float64],
    times: NDArray[np.int64] | NDArray[np.float64] | None,
    order: IntArray,
    table: pl.DataFrame,
    names: tuple[str, str],
    policy: Literal["error", "last", "mean"],
) -> tuple[IntArray, NDArray[np.float64]]:
    """Which of the sorted rows to keep, one a key, and their values, by the chosen policy.

    "last" keeps the row with the latest time (ties, or no times: the last row); "mean" averages the ratings
    and keeps that row's time.
    """
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    if policy == "error":
        again = np.flatnonzero(key[1:] == key[:-1])
        shown = ", ".join(
            f"rows {order[i]} and {order[i + 1]}: " + " ".join(f"{n}={table[n][int(order[i])]!r}" for n in names)
            for i in again[:3]
        )
        raise DataError(
            f"columns {names[0]!r} and {names[1]!r}",
            received=f"{shown} ({len(again):,} repeated of {len(key):,} rows)",
            expected="one row for each user and item",
            remedy="Pass duplicates='last' or duplicates='mean'.",
        )
    if policy not in ("last", "mean"):
        raise InputError(
            "duplicates",
            received=policy,
            expected="'error', 'last' or 'mean'",
            remedy=did_you_mean(str(policy), ["error", "last", "mean"]),
        )
    ends = np.append(first[1:], len(key)) - 1
    if times is not None:
        by_time = np.lexsort((np.arange(len(key)), times, key))
        ends = by_time[ends]
    if policy == "last":
        return ends, values[ends]
    return ends, np.add.reduceat(values, first) / np.diff(np.append(first, len(key)))


def positions(
    known: pl.Series,
    table: pl.DataFrame,
    column: str,
    unknown: Literal["error", "ignore"],
    argument: str,
    *,
    unique: bool = True,
) -> tuple[IntArray, pl.DataFrame]:
    """Where each row's id stands among the known ids, and the table without the rows that were ignored."""
    ids = table[column]
    if ids.dtype != known.dtype:
        ids = ids.cast(known.dtype, strict=False)
    lookup = pl.DataFrame({"id": known, "position": np.arange(len(known))})
    found = pl.DataFrame({"id": ids}).join(lookup, on="id", how="left", maintain_order="left")["position"]
    missing = found.is_null().to_numpy()
    if missing.any():
        if unknown == "error":
            first = str(table[column][int(np.flatnonzero(missing)[0])])
            near = did_you_mean(first, map(str, known.head(10_000))) if known.dtype == pl.String else ""
            near = near if near.startswith("Did") else ""
            raise DataError(
                f"{argument}, column {column!r}" if argument != column else argument,
                received=offending(table[column], missing),
                expected=f"ids that are in the log ({len(known):,} {known.name or 'ids'} known)",
                remedy=near or "Pass unknown='ignore' where that is offered, or correct the ids.",
            )
        table = table.filter(~missing)
        found = found.filter(~pl.Series(missing))
    rows = found.to_numpy().astype(np.int64)
    if unique and len(np.unique(rows)) != len(rows):
        repeated = pl.Series(table[column]).is_duplicated().to_numpy()
        raise DataError(
            f"{argument}, column {column!r}",
            received=offending(table[column], repeated),
            expected="one row for each id",
            remedy="Group the frame by id first.",
        )
    return rows, table
