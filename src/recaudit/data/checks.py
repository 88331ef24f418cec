"""Checks of what comes in: each error names the column, the first offending rows and the remedy."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recaudit.arrays import IntArray
from recaudit.errors import DataError, InputError, did_you_mean


def offending(column: pl.Series, wrong: NDArray[np.bool_], limit: int = 3, before: int = 0) -> str:
    """The first offending rows as text: 'row 3: None, row 7: nan (2 of 10 rows)', counted from `before`."""
    rows = np.flatnonzero(wrong)
    shown = ", ".join(f"row {row + before}: {column[int(row)]!r}" for row in rows[:limit])
    return f"{shown} ({len(rows):,} of {len(column):,} rows)"


def check_ids(column: pl.Series, before: int = 0) -> pl.Series:
    """Ids as whole numbers or as text, none missing or empty; `before` is how many rows of a file come before these."""
    if column.null_count():
        raise DataError(
            f"column {column.name!r}",
            received=offending(column, column.is_null().to_numpy(), before=before),
            expected="an id in every row",
            remedy="Drop those rows, or give those users or items an id.",
        )
    if column.dtype.is_integer() or column.dtype.is_float():
        whole = column.cast(pl.Int64, strict=False)
        wrong = whole.is_null()
        if column.dtype.is_float():
            # Above 2^53 floats leave out whole numbers: two ids may have become one already.
            wrong |= (whole != column) | (column.abs() > 2**53)
        if not wrong.any():
            return whole
        raise DataError(
            f"column {column.name!r}",
            received=offending(column, wrong.to_numpy(), before=before),
            expected="ids as integers or text, integers of at most 64 bits",
            remedy="Have the column as text if these really are ids.",
        )
    if column.dtype in _TEXT:
        text = column.cast(pl.String)
        empty = (text.str.strip_chars() == "").to_numpy()
        if empty.any():
            raise DataError(
                f"column {column.name!r}",
                received=offending(text, empty, before=before),
                expected="an id in every row",
                remedy="Drop those rows, or give those users or items an id.",
            )
        return text
    raise DataError(
        f"column {column.name!r}",
        received=f"values of type {column.dtype}",
        expected="ids as integers or text",
        remedy="Have the column as text if these really are ids.",
    )


def same_type(ids: pl.Series, known: pl.Series, argument: str) -> pl.Series:
    """Ids that are to be found among the known ones, which have the same type: none is turned into another."""
    if known.dtype.is_integer() and ids.dtype.is_integer():
        return ids.cast(pl.Int64, strict=False)
    if known.dtype == pl.String and ids.dtype in _TEXT:
        return ids.cast(pl.String)
    if ids.dtype == pl.Null or not len(ids):
        return pl.Series(ids.name, ids, dtype=known.dtype)
    example = ids[0]
    if known.dtype.is_integer() and ids.dtype in _TEXT:  # which of them is it that is no number?
        text = ids.cast(pl.String)
        example = next(iter(text.filter(plain_numbers(text).is_null())), example)
    raise _another_type(argument, f"ids of type {_type_name(ids.dtype)}, such as {example!r}", known)


def plain_numbers(text: pl.Series) -> pl.Series:
    """The ids that are written as whole numbers are; null for all others, such as "007", "1.0" and "1e5"."""
    numbers = text.cast(pl.Int64, strict=False)
    return numbers.set(~(numbers.cast(pl.String) == text).fill_null(value=False), None)


def _another_type(argument: str, received: str, known: pl.Series) -> DataError:
    return DataError(
        argument,
        received=received,
        expected=f"ids of the log's type, {_type_name(known.dtype)}, such as {known[0]!r}",
        remedy="No id is turned into another: hand them over as they are in the log.",
    )


def listed_ids(ids: Iterable[object], known: pl.Series, argument: str) -> pl.Series:
    """Ids one by one, in whatever holds them, as a series of the known ones' type."""
    if isinstance(ids, pl.Series):
        return same_type(ids, known, argument)
    values = [value.item() if isinstance(value, np.generic) else value for value in ids]
    kind = int if known.dtype.is_integer() else str
    for value in values:
        if type(value) is not kind:
            raise _another_type(argument, f"{value!r}, an id of type {type(value).__name__}", known)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise DataError(argument, received=repr(value), expected="ids that are in the log")
    return pl.Series(argument, values, dtype=known.dtype)


_TEXT = (pl.String, pl.Categorical, pl.Enum)


def _type_name(dtype: pl.DataType) -> str:
    return "whole number" if dtype.is_integer() else "text" if dtype in _TEXT else str(dtype)


def as_numbers(column: pl.Series) -> NDArray[np.float64]:
    """(rows,): the numbers of a column, NaN where there is none; a text that is written like a number counts as one."""
    if not (column.dtype.is_numeric() or column.dtype in (pl.String, pl.Null)):
        raise DataError(
            f"column {column.name!r}",
            received=f"values of type {column.dtype}",
            expected="numbers",
            remedy="Say which column holds them, or turn its values into numbers.",
        )
    return column.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy().astype(np.float64, copy=True)


def as_text(column: pl.Series) -> pl.Series:
    """Titles or names of categories: text, or what has one way to be written as text."""
    try:
        if column.dtype.is_nested() or column.dtype in (pl.Object, pl.Binary):
            raise pl.exceptions.InvalidOperationError
        return column.cast(pl.String)
    except pl.exceptions.PolarsError:
        raise DataError(
            f"column {column.name!r}",
            received=f"values of type {column.dtype}",
            expected="text",
            remedy="Say which column holds it, or turn its values into text.",
        ) from None


def check_ratings(column: pl.Series, scale: tuple[float, float] | None) -> NDArray[np.float64]:
    """Ratings as finite numbers inside the declared scale."""
    values = as_numbers(column)
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
    given = column
    if column.dtype in (pl.Date, pl.Datetime):
        column = column.cast(pl.Datetime("us"), strict=False).cast(pl.Int64)
    elif column.dtype.is_integer():
        column = column.cast(pl.Int64, strict=False)
    elif column.dtype.is_numeric():
        column = column.cast(pl.Float64)
    else:
        raise DataError(
            f"column {column.name!r}",
            received=f"values of type {column.dtype}",
            expected="numbers, dates or date-times",
            remedy="Turn them into seconds since 1970, say, or name no time column.",
        )
    wrong = column.is_null() if column.dtype.is_integer() else ~column.is_finite().fill_null(value=False)
    if wrong.any():
        raise DataError(
            f"column {column.name!r}",
            received=offending(given, wrong.to_numpy()),
            expected="a time in every row, whole numbers of at most 64 bits",
            remedy="Drop those rows, or name no time column.",
        )
    return column.to_numpy()


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
            remedy="Say duplicates = 'last' or duplicates = 'mean', or keep one row of each.",
        )
    ends = np.append(first[1:], len(key)) - 1
    if times is not None:
        by_time = np.lexsort((np.arange(len(key)), times, key))
        ends = by_time[ends]
    if policy == "last":
        return ends, values[ends]
    return ends, np.add.reduceat(values, first) / np.diff(np.append(first, len(key)))


def found(known: pl.Series, ids: pl.Series, argument: str) -> IntArray:
    """(rows,): where each id stands among the known ones, which have the same type; -1 where it does not."""
    lookup = pl.DataFrame({"id": known, "position": np.arange(len(known))})
    given = pl.DataFrame({"id": same_type(ids, known, argument)})
    place = given.join(lookup, on="id", how="left", maintain_order="left")["position"]
    return place.fill_null(-1).to_numpy().astype(np.int64)


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
    name = f"{argument}, column {column!r}" if argument != column else argument
    rows = found(known, table[column], name)
    missing = rows < 0
    if missing.any():
        if unknown == "error":
            first = str(table[column][int(np.flatnonzero(missing)[0])])
            near = did_you_mean(first, map(str, known.head(10_000))) if known.dtype == pl.String else ""
            near = near if near.startswith("Did") else ""
            raise DataError(
                name,
                received=offending(table[column], missing),
                expected=f"ids that are in the log ({len(known):,} known)",
                remedy=near or "Correct the ids, or say unknown = 'ignore' where that is offered.",
            )
        table, rows = table.filter(~missing), rows[~missing]
    if unique and len(np.unique(rows)) != len(rows):
        repeated = pl.Series(table[column]).is_duplicated().to_numpy()
        raise DataError(
            name,
            received=offending(table[column], repeated),
            expected="one row for each id",
            remedy="Group the frame by id first.",
        )
    return rows, table
