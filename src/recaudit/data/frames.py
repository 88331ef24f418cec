"""Any data frame in, polars inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import polars as pl

from recaudit.errors import DataError, InputError, did_you_mean

_POLARS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)  # a panic is no Exception


def as_polars(frame: object, columns: Sequence[str], *, argument: str) -> pl.DataFrame:
    """The named columns of a pandas, polars or pyarrow frame as a polars frame; errors name what is missing."""
    native = _eager(frame, argument)
    held = [str(name) for name in native.columns]
    check_columns(columns, held)
    check_distinct(held, argument)
    if len(native) == 0:
        raise DataError(
            argument,
            received="no rows",
            expected="at least one row",
            remedy="Check the file or the filter that made this frame.",
        )
    return pl.DataFrame([_column(native, name) for name in dict.fromkeys(columns)])


def check_columns(wanted: Sequence[str], held: Sequence[str]) -> None:
    """That the columns asked for are among those that a frame or file holds."""
    for name in wanted:
        if name not in held:
            raise DataError(
                f"column {name!r}",
                received=f"columns {', '.join(map(repr, held))}",
                expected="a column of that name",
                remedy=f"Say which column is meant, for example {{}}. {did_you_mean(name, held)}"
                + " A log without ratings has rating = None." * (name == "rating"),
                settings=[("user", "userId")],
            )


def check_distinct(names: Sequence[str], argument: str) -> None:
    """That no two columns have the same name: which one is meant could only be guessed."""
    twice = [name for name, times in Counter(names).items() if name and times > 1]
    if twice:
        raise DataError(
            argument,
            received=f"several columns named {', '.join(map(repr, twice))}",
            expected="a name of its own for each column",
            remedy="Rename or drop all but one of them.",
        )


def _eager(frame: object, argument: str) -> nw.DataFrame[Any]:
    received = f"a {type(frame).__name__}"
    try:
        if isinstance(frame, pl.LazyFrame):
            received += " that cannot be collected"
            frame = frame.collect()
        held: Any = frame
        return nw.from_native(held, eager_only=True)
    except nw.exceptions.DuplicateError:
        names = held.column_names if hasattr(held, "column_names") else held.columns  # pyarrow, pandas
        check_distinct([str(name) for name in names], argument)
        raise
    except (*_POLARS, TypeError):
        raise InputError(
            argument,
            received=received,
            expected="a pandas, polars or pyarrow data frame",
            remedy="Wrap columns as pl.DataFrame({...}) first.",
        ) from None


def _column(native: nw.DataFrame[Any], name: str) -> pl.Series:
    try:
        return native.get_column(name).to_polars().alias(name)
    # What frame libraries raise at values that they cannot hand over.
    except (*_POLARS, TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"column {name!r}",
            received=f"values that cannot be read: {reason}",
            expected="numbers, text, dates or lists of text, of one kind in a column",
            remedy="Cast the column to the type that is meant.",
        ) from None
