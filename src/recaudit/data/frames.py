"""Any data frame in, polars inside."""

from __future__ import annotations

from collections.abc import Sequence

import narwhals as nw
import polars as pl

from recaudit.errors import DataError, InputError, did_you_mean


def as_polars(frame: object, columns: Sequence[str], *, argument: str) -> pl.DataFrame:
    """The named columns of a pandas, polars or pyarrow frame as a polars frame; errors name what is missing."""
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    try:
        native = nw.from_native(frame, eager_only=True)  # type: ignore[call-overload]
    except TypeError:
        raise InputError(
            argument,
            received=f"a {type(frame).__name__}",
            expected="a pandas, polars or pyarrow data frame",
            remedy="Wrap columns as pl.DataFrame({...}) first.",
        ) from None
    for name in columns:
        if name not in native.columns:
            raise DataError(
                f"column {name!r}",
                received=f"a frame with columns {', '.join(map(repr, native.columns))}",
                expected="a column of that name",
                remedy=f"Name the column you mean, for example user='userId'. {did_you_mean(name, native.columns)}",
            )
    if len(native) == 0:
        raise DataError(
            argument,
            received="no rows",
            expected="at least one row",
            remedy="Check the file or the filter that made this frame.",
        )
    table: pl.DataFrame = native.select(*dict.fromkeys(columns)).to_polars()
    return table
