"""What is promised where bits are not: a user asked alone, another block, another machine."""

from __future__ import annotations

import numpy as np
import polars as pl


def assert_alike(one: pl.DataFrame, other: pl.DataFrame, rtol: float = 1e-9) -> None:
    """The same rows, ids, items, ranks and statuses; numbers equal to 1e-9."""
    assert one.schema == other.schema
    assert len(one) == len(other)
    for name in one.columns:
        if one[name].dtype.is_float():
            a, b = (frame[name].fill_null(np.nan).to_numpy() for frame in (one, other))
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * 1e-3, err_msg=name)
        else:
            assert one[name].equals(other[name]), name
