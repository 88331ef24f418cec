"""Rules for the tables that several audits have, by which they are checked when a run folder is read."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import polars as pl

from recaudit.audits.audit import definitions
from recaudit.folders.tables import TableRules
from recaudit.metrics.intervals import SCALES
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.metrics.terms import TERM_SCHEMA
from recaudit.registry import AUDITS
from recaudit.status import Status

_MAX_METRICS = 2**14
"""Rows of a table with a row a metric."""
_MAX_NUMBERS = 2**18
"""Rows of a table with a row a metric for each group, or each point of a curve."""
_MAX_COUNT = 2**53
_MAX_VALUE = 1e100
"""Size of a number: what is computed from numbers of this size is finite."""
_LARGEST_RANK = 10**6
_KNOWN_METRIC = "a known metric"


def rules_of(name: str, audit: str | None = None) -> TableRules:
    """Return the rules for a table.

    Args:
        name: Name of the table.
        audit: Kind of the audit that the table belongs to. If another package has this audit, tables that only it has
            may hold dates and numbers that are not finite; if this package is not installed, its metrics are not
            known. None for a table of the run.
    """
    rules = _known_rules().get(name)
    if audit is None or (audit in AUDITS and AUDITS.is_own(audit)):
        return rules or TableRules()
    if rules is None:
        return TableRules(has_any_values=True)
    if audit in AUDITS:
        return rules
    return replace(rules, conditions={key: own for key, own in rules.conditions.items() if key != _KNOWN_METRIC})


@cache
def _known_rules() -> dict[str, TableRules]:
    numbers, points = _numbers(SUMMARY_SCHEMA, _MAX_METRICS), _numbers(SERIES_SCHEMA, _MAX_NUMBERS, "over", "at")
    changes = {"over": pl.String, "at": pl.Float64, **GROUP_SCHEMA}
    scales = {"a known scale": pl.col("scale").is_in([*SCALES]), "weights above 0": pl.col("weight") > 0}
    sizes = {f"{column} of at most {_MAX_VALUE:g}": _small(column) for column in ("total", "weight")}
    ranks = {f"ranks from 1 to {_LARGEST_RANK:,}": pl.col("rank").is_between(1, _LARGEST_RANK)}
    counts = dict.fromkeys(("ratings", "recommended", "users"), pl.Int64)
    own = {**dict.fromkeys((*definitions(), "mean_rating"), pl.Float64), **counts}
    return {
        "summary": numbers,
        "reranked": numbers,
        "series": points,
        "changes": points,
        "groups": _numbers(GROUP_SCHEMA, _MAX_NUMBERS, "by", "group"),
        "group_changes": _numbers(changes, _MAX_NUMBERS, *("over", "at", "by", "group")),
        "terms": _rules(TERM_SCHEMA, scales | sizes, *TERM_SCHEMA),
        "data/users.parquet": _rules({"user": pl.String, "signature": pl.UInt64}, {}, "user"),
        "data/items.parquet": _rules({"item": pl.String, "count": pl.Int64}, {}, "item"),
        "lists": _rules({"user": pl.String, "rank": pl.Int64, "item": pl.String}, ranks, "user", "item"),
        "people": replace(_rules({"user": pl.String}, {}, "user"), others=pl.String),
        "users": replace(_rules({"user": pl.String}, {}, "user"), optional=own),
        "items": replace(_rules({"item": pl.String, "title": pl.String}, {}, "item"), optional=own),
    }


def _numbers(schema: dict[str, Any], max_rows: int, *keys: str) -> TableRules:
    """Of a table with numbers, their intervals and how they stand."""
    value, lower, upper, status = (pl.col(name) for name in ("value", "lower", "upper", "status"))
    has_value = status.is_in([Status.SOLVED.value, Status.BOUNDED.value])
    conditions = {
        # Points of a curve name the length of the list: "recall@10".
        _KNOWN_METRIC: pl.col("metric").str.replace(r"@\d+$", "").is_in([*definitions()]),
        "a known status": status.is_in([own.value for own in Status]),
        "a value if it is solved or bounded, and no other": value.is_not_null() == has_value,
        "both ends of an interval or none": lower.is_null() == upper.is_null(),
        "no interval without a value": value.is_not_null() | lower.is_null(),
        "intervals from the lower to the upper end": lower.is_null() | (lower <= upper),
        **{f"{name} of at most {_MAX_VALUE:g}": _small(name) for name in ("value", "lower", "upper", "baseline")},
        **{f"{name} of 0 or more": pl.col(name).is_between(0, _MAX_COUNT) for name in ("users", "excluded")},
    }
    return _rules(schema, conditions, *keys, max_rows=max_rows)


def _small(name: str) -> pl.Expr:
    return pl.col(name).is_null() | (pl.col(name).abs() <= _MAX_VALUE)


def _rules(
    schema: dict[str, Any], conditions: dict[str, pl.Expr], *keys: str, max_rows: int | None = None
) -> TableRules:
    """Rules where columns are `keys` that every row has."""
    present = {f"a value in the column {name!r}": pl.col(name).is_not_null() for name in keys}
    return TableRules(schema, conditions=present | conditions, max_rows=max_rows)
