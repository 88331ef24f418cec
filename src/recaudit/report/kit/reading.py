"""A run's tables in the page's types: ids as text, whatever they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from recaudit.runs import Run


def table_of(run: Run, model: str, audit: str, name: str, schema: Mapping[str, Any]) -> pl.DataFrame:
    """The named columns of a table; no rows where the audit was not run."""
    if audit not in run.audits(model):
        return pl.DataFrame(schema=dict(schema))
    return scan_of(run, model, audit, name, schema).collect()


def scan_of(run: Run, model: str, audit: str, name: str, schema: Mapping[str, Any]) -> pl.LazyFrame:
    """The named columns of a table of a finished audit, read no further than they are asked for."""
    return run.scan(model, audit, name).select(pl.col(column).cast(kind) for column, kind in schema.items())
