"""User attributes that several data sets share, under one name and with one set of labels."""

from __future__ import annotations

import polars as pl

# The age groups of MovieLens 1M by their lowest age, which is what that data set gives for a user's age.
_GROUPS = {
    1: "Under 18",
    18: "18-24",
    25: "25-34",
    35: "35-44",
    45: "45-49",
    50: "50-55",
    56: "56+",
}
_OLDEST = 120


def age_group() -> pl.Expr:
    """The age group of the column "age", in years; null where the age is missing or cannot be true."""
    age = pl.col("age")
    label = pl.lit(None, pl.String)
    for lowest, name in _GROUPS.items():
        label = pl.when(age >= lowest).then(pl.lit(name)).otherwise(label)
    return pl.when(age <= _OLDEST).then(label)
