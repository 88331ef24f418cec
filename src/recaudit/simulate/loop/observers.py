"""Audits inside a loop: anything that takes a fitted model and says something about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from typing import Any

import polars as pl

from recaudit.audits.result import Result
from recaudit.errors import InputError, NotSupportedError
from recaudit.models.base import FittedModel
from recaudit.status import Status

Observer = Callable[[FittedModel], Any]
"""A model in; out a `Result`, something that has or can be made one (`.result`, `.aggregate()`), or numbers by name.

`ra.folding`, `partial(ra.calibration, k=20)`, `partial(ra.reachability, users=[...])` are observers. With an engine
that leaves the process it must be picklable: a function of a module or a `functools.partial` of one, no lambda.
"""

AUDIT_SCHEMA = {
    "trial": pl.Int64,
    "step": pl.Int64,
    "audit": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "lower": pl.Float64,
    "upper": pl.Float64,
    "status": pl.String,
}


def observe(name: str, observer: Observer, model: FittedModel) -> list[dict[str, object]]:
    """A row a metric; one that says not applicable where the model cannot be asked.

    A value that is no finite number is none: its row has failed.
    """
    try:
        found = observer(model)
    except NotSupportedError:
        nothing = dict.fromkeys(("metric", "value", "lower", "upper"))
        return [{"audit": name, **nothing, "status": Status.NOT_APPLICABLE.value}]
    rows: list[dict[str, Any]]
    if isinstance(found, Mapping):
        known = {"lower": None, "upper": None, "status": Status.SOLVED.value}
        rows = [{"metric": str(key), "value": float(value), **known} for key, value in found.items()]
    else:
        rows = _result(name, found).frame.select("metric", "value", "lower", "upper", "status").to_dicts()
    return [{"audit": name, **row, **_failure(row["value"])} for row in rows]


def _failure(value: float | None) -> dict[str, object]:
    """What a row says instead where its value is NaN or infinite."""
    if value is None or isfinite(value):
        return {}
    return {"value": None, "lower": None, "upper": None, "status": Status.FAILED.value}


def _result(name: str, found: Any) -> Result:
    if isinstance(found, Result):
        return found
    if isinstance(getattr(found, "result", None), Result):
        return found.result  # type: ignore[no-any-return]  # just seen to be one
    if callable(getattr(found, "aggregate", None)):
        return _result(name, found.aggregate())
    raise InputError(
        f"audits[{name!r}]",
        received=f"a function that returns {type(found).__name__}",
        expected="one that returns a Result, or numbers by name",
        remedy="Wrap it: def mine(model): return {'metric': number}.",
    )


def describe(observer: Observer) -> str:
    """What an observer is, in words that are the same in the next process."""
    if isinstance(observer, partial):
        settings = ", ".join([*map(repr, observer.args), *(f"{k}={v!r}" for k, v in sorted(observer.keywords.items()))])
        return f"{describe(observer.func)}({settings})"
    name = getattr(observer, "__qualname__", None)
    return f"{observer.__module__}.{name}" if name else repr(observer)
