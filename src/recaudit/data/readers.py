"""Files in: CSV, TSV and Parquet."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from recaudit.data.interactions import Duplicates, Interactions
from recaudit.errors import DataError

_TEXT = {".csv": ",", ".tsv": "\t"}


def read(
    path: str | Path,
    *,
    user: str = "user",
    item: str = "item",
    rating: str | None = "rating",
    time: str | None = None,
    scale: tuple[float, float] | None = None,
    duplicates: Duplicates = "error",
) -> Interactions:
    """Build a log from a .csv, .tsv or .parquet file with a header; columns as in `Interactions.from_frame`."""
    columns = [name for name in (user, item, rating, time) if name is not None]
    frame = read_table(path, columns)
    return Interactions.from_frame(
        frame, user=user, item=item, rating=rating, time=time, scale=scale, duplicates=duplicates
    )


def read_table(path: str | Path, columns: list[str] | None = None) -> pl.DataFrame:
    """A .csv, .tsv or .parquet file as a frame: the named columns that it has, or all of them."""
    path = Path(path)
    if not path.is_file():
        raise DataError("path", received=str(path), expected="a file that exists", remedy="Check the spelling.")
    if path.stat().st_size == 0:
        raise DataError("path", received=f"{path}, an empty file", expected="a header and at least one row")
    suffix = path.suffix.lower()
    try:
        if suffix in _TEXT:
            lazy = pl.scan_csv(path, separator=_TEXT[suffix], infer_schema_length=10_000, glob=False)
        elif suffix == ".parquet":
            lazy = pl.scan_parquet(path, glob=False)
        else:
            raise DataError(
                "path",
                received=str(path),
                expected="a file that ends in .csv, .tsv or .parquet",
                remedy="Read other formats into a data frame and use Interactions.from_frame.",
            )
        if columns is not None:
            # A missing column is reported by from_frame, which knows what it was for.
            lazy = lazy.select([name for name in lazy.collect_schema().names() if name in columns] or pl.all())
        return lazy.collect()
    except (pl.exceptions.PolarsError, UnicodeDecodeError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            "path",
            received=f"{path}, which cannot be read as {suffix[1:]}: {reason}",
            expected=f"a {suffix[1:]} file with a header and a value for each column in every row",
            remedy="Open the first lines and check the separator, the quotes and the ending of its name.",
        ) from None
