"""Checks of what comes in: each error names the column, the first offending rows and the remedy."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.errors import DataError, InputError, nearest_word


def offending(column: pl.Series, wrong: BoolArray, limit: int = 3, before: int = 0) -> str:
    """The first offending rows as text: 'row 3: None, row 7: nan (2 of 10 rows)', counted from `before`."""
    rows = np.flatnonzero(wrong)
    shown = ", ".join(f"row {row + before}: {column[int(row)]!r}" for row in rows[:limit])
    return f"{shown} ({len(rows):,} of {len(column):,} rows)"


def check_rows(
    column: pl.Series, wrong: pl.Series | BoolArray, expected: str, remedy: str, *, name: str = "", before: int = 0
) -> None:
    """That no row of a column is wrong; errors call it `name`, by default the column by its own."""
    if wrong.any():
        received = offending(column, np.asarray(wrong), before=before)
        raise DataError(name or f"column {column.name!r}", received=received, expected=expected, remedy=remedy)


def _wrong_type(column: pl.Series, expected: str, remedy: str) -> DataError:
    received = f"values of type {column.dtype}"
    return DataError(f"column {column.name!r}", received=received, expected=expected, remedy=remedy)


def check_ids(column: pl.Series, before: int = 0) -> pl.Series:
    """Ids as whole numbers or as text, none missing or empty; `before` is how many rows of a file come before these."""
    as_ids = "Have the column as text if these really are ids."
    ids, lacking = column, column.is_null()
    if column.dtype in _TEXT:
        ids = column.cast(pl.String)
        lacking |= ids.str.strip_chars() == ""
    remedy = "Drop those rows, or give those users or items an id."
    check_rows(ids, lacking, "an id in every row", remedy, before=before)
    if column.dtype.is_integer() or column.dtype.is_float():
        ids = column.cast(pl.Int64, strict=False)
        wrong = ids.is_null()
        if column.dtype.is_float():
            # Above 2^53 floats leave out whole numbers: two ids may have become one already.
            wrong |= (ids != column) | (column.abs() > 2**53)
        check_rows(column, wrong, "ids as integers or text, integers of at most 64 bits", as_ids, before=before)
    elif column.dtype not in _TEXT:
        raise _wrong_type(column, "ids as integers or text", as_ids)
    return ids


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


def as_numbers(column: pl.Series) -> FloatArray:
    """(rows,): the numbers of a column, NaN where there is none; a text that is written like a number counts as one."""
    if not (column.dtype.is_numeric() or column.dtype in (pl.String, pl.Null)):
        raise _wrong_type(column, "numbers", "Say which column holds them, or turn its values into numbers.")
    return column.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy().astype(np.float64, copy=True)


def as_text(column: pl.Series) -> pl.Series:
    """Titles or names of categories: text, or what has one way to be written as text."""
    try:
        if column.dtype.is_nested() or column.dtype in (pl.Object, pl.Binary):
            raise pl.exceptions.InvalidOperationError
        return column.cast(pl.String)
    except pl.exceptions.PolarsError:
        raise _wrong_type(column, "text", "Say which column holds it, or turn its values into text.") from None


def check_ratings(column: pl.Series, scale: tuple[float, float] | None) -> FloatArray:
    """Ratings as finite numbers inside the declared scale."""
    values = as_numbers(column)
    remedy = "Drop those rows: a missing rating is no row at all."
    check_rows(column, ~np.isfinite(values), "a finite number in every row", remedy)
    if scale is not None:
        low, high = check_scale(scale, values)
        expected = f"ratings in the declared scale [{low:g}, {high:g}]"
        check_rows(column, (values < low) | (values > high), expected, "Declare the true scale, or drop those rows.")
    return values


def check_scale(scale: tuple[float, float] | None, values: FloatArray) -> tuple[float, float]:
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
    ratings: FloatArray,
    sizes: tuple[int, int],
    scale: tuple[float, float],
) -> tuple[IntArray, FloatArray]:
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


def check_times(column: pl.Series) -> IntArray | FloatArray:
    """Times as numbers: as given when numeric, else microseconds since 1970 for dates and date-times."""
    given = column
    if column.dtype in (pl.Date, pl.Datetime):
        column = column.cast(pl.Datetime("us"), strict=False).cast(pl.Int64)
    elif column.dtype.is_integer():
        column = column.cast(pl.Int64, strict=False)
    elif column.dtype.is_numeric():
        column = column.cast(pl.Float64)
    else:
        remedy = "Turn them into seconds since 1970, say, or name no time column."
        raise _wrong_type(column, "numbers, dates or date-times", remedy)
    wrong = column.is_null() if column.dtype.is_integer() else ~column.is_finite().fill_null(value=False)
    expected = "a time in every row, whole numbers of at most 64 bits"
    check_rows(given, wrong, expected, "Drop those rows, or name no time column.")
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
    values: FloatArray,
    times: IntArray | FloatArray | None,
    order: IntArray,
    table: pl.DataFrame,
    names: tuple[str, str],
    policy: Literal["error", "last", "mean"],
) -> tuple[IntArray, FloatArray]:
    """Which of the sorted rows to keep, one a key, and their values.

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
            remedy="Say {} or {}, or keep one row of each.",
            settings=[("duplicates", "last"), ("duplicates", "mean")],
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
            first = str(table[column][int(missing.argmax())])
            near = nearest_word(first, map(str, known.head(10_000))) if known.dtype == pl.String else ""
            raise DataError(
                name,
                received=offending(table[column], missing),
                expected=f"ids that are in the log ({len(known):,} known)",
                remedy=near or "Correct the ids, or say {} where that is offered.",
                settings=() if near else [("unknown", "ignore")],
            )
        table, rows = table.filter(~missing), rows[~missing]
    if unique and len(np.unique(rows)) != len(rows):
        repeated = table[column].is_duplicated()
        check_rows(table[column], repeated, "one row for each id", "Group the frame by id first.", name=name)
    return rows, table
