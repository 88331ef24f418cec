"""What is promised where bits are not: a user asked alone, another block, another machine."""

from __future__ import annotations

import polars as pl
from polars.testing import assert_frame_equal


def assert_alike(one: pl.DataFrame, other: pl.DataFrame) -> None:
    """The same rows, ids, items, ranks and statuses; numbers equal to 1e-9."""
    assert_frame_equal(one, other, rel_tol=1e-9, abs_tol=1e-12)
