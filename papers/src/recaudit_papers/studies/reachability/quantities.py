"""Numbers with intervals out of the tables that the audits left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import hypot, isfinite

import numpy as np
import polars as pl

from recaudit.plugins import FloatArray, assign_blocks, estimate_mean, estimate_statistic
from recaudit_papers.studies.reading import Published, Quantity
from recaudit_papers.studies.study import Results

Z = 1.96
_FEWEST = 6
"""Repetitions that show how much a number varies."""


def correlation(results: Results, name: str, what: str) -> Quantity | None:
    """Spearman's correlation out of an audit."""
    if name not in results:
        return None
    value, error = results[name].filter(kind="correlation", name=what).select("value", "error").row(0)
    users = f"{results.settings[name]['users']} users"
    return Quantity(value) if error is None else Quantity(value, value - Z * error, value + Z * error, users)


def repeated(results: Results, model: str, what: str) -> FloatArray:
    """(repetitions,): the same correlation with another start, other users and other targets each time."""
    found = results.under(f"repeat/{model}-")
    if found.is_empty():
        return np.zeros(0)
    return found.filter(kind="correlation", name=what)["value"].to_numpy()


def on_average(repeats: FloatArray) -> Quantity | None:
    """The mean over repetitions."""
    if len(repeats) < _FEWEST:
        return None
    mean, half = float(repeats.mean()), float(2 * repeats.std(ddof=1) / len(repeats) ** 0.5)
    return Quantity(mean, mean - half, mean + half, f"{len(repeats)} repetitions")


def as_sampled(text: str, repeats: FloatArray) -> Published:
    """A printed number that its authors sampled: as exact as ours is over repetitions of their protocol.

    A handful of them says too little about a spread: then it is as exact as it is printed.
    """
    if len(repeats) < _FEWEST:
        return Published.number(text)
    return Published.number(text, error=float(2 * np.std(repeats, ddof=1)))


def difference(results: Results, first: str, second: str, column: str) -> Quantity | None:
    """How much larger a mean over users is in one audit than in another of the same users."""
    if first not in results or second not in results:
        return None
    return over_users(joined(results, {"first": first, "second": second}, column), lambda t: t[:, 0] - t[:, 1])


def joined(results: Results, names: Mapping[str, str], column: str) -> FloatArray:
    """(users, audits): a column of the same users in several audits."""
    tables = [
        results[name].filter(kind="user").select("user", pl.col(column).alias(label)) for label, name in names.items()
    ]
    both = tables[0]
    for other in tables[1:]:
        both = both.join(other, on="user", maintain_order="left")
    return both.drop("user").to_numpy()


def over_users(table: FloatArray, each: Callable[[FloatArray], FloatArray]) -> Quantity:
    """The mean of what `each` makes of (users, audits), with an interval over users."""
    values = each(table)
    values = values[np.isfinite(values)]
    estimate = estimate_mean(values)
    return Quantity(estimate.value, estimate.lower, estimate.upper, f"{len(values)} users")


def wider(results: Results, first: str, second: str, column: str) -> Quantity | None:
    """By how much the standard deviation over users is larger in one audit than in another of the same users."""
    if first not in results or second not in results:
        return None
    table = joined(results, {"first": first, "second": second}, column)
    table = table[np.isfinite(table).all(axis=1)]
    blocks = assign_blocks(len(table))
    kept = [np.ones(len(table), dtype=bool), *(blocks != block for block in range(int(blocks.max()) + 1))]
    spreads = np.array([-np.diff(table[some].std(axis=0))[0] for some in kept])
    estimate = estimate_statistic(float(spreads[0]), spreads[1:], len(table))
    return Quantity(estimate.value, estimate.lower, estimate.upper, f"{len(table)} users")


def less(first: Quantity | None, second: Quantity | None) -> Quantity | None:
    """One number less another, as if they were independent."""
    if first is None or second is None or not isfinite(first.value - second.value):
        return None
    half = hypot(*(0.5 * (high - low) for low, high in (first.ends, second.ends)))
    value = first.value - second.value
    return Quantity(value, value - half, value + half, first.over)


def known(changes: Mapping[str, Quantity | None]) -> dict[str, Quantity]:
    """The rungs that were measured."""
    return {change: found for change, found in changes.items() if found is not None}
