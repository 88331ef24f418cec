"""Runs that differ in a known way: everybody's own numbers, groups and lists are written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from recaudit.runs import Run
from report.crafted_runs import Crafted, Data, Model, accuracy, write_run

PEOPLE = 60


def ids(n: int = PEOPLE) -> list[str]:
    """Names of people, as many as are measured."""
    return [f"u{i}" for i in range(n)]


def spread(mean: float, rng: int = 0, n: int = PEOPLE) -> list[float]:
    """Numbers around a mean, the same for the same seed."""
    draws = np.random.default_rng(rng).normal(size=n)
    return list(mean + 0.05 * (draws - draws.mean()))


def measured(
    values: Sequence[float],
    groups: Mapping[str, Sequence[str]] | None = None,
    lists: Mapping[str, Sequence[str]] | None = None,
    *,
    k: int = 10,
) -> Crafted:
    """Accuracy of which each metric is the mean of these; `groups` names everybody's, `lists` are titles by user."""
    mean = float(np.mean(values))
    number = (mean, mean - 0.01, mean + 0.01)
    made = accuracy(number, number, per_user=values, users=len(values), facts={"k": k})
    tables = dict(made.tables)
    if groups is not None:
        tables["people"] = pl.DataFrame({"user": ids(len(values)), **groups})
    if lists is not None:
        places = [(user, rank, title) for user, own in lists.items() for rank, title in enumerate(own, start=1)]
        titles = sorted({title for _, _, title in places})
        tables["lists"] = pl.DataFrame(places, {"user": pl.String, "rank": pl.Int64, "item": pl.String}, orient="row")
        tables["items"] = pl.DataFrame({"item": titles, "title": titles})
    return replace(made, tables=tables)


def write(path: Path, models: Mapping[str, Crafted], data: Data | None = None) -> Run:
    """A run of these models."""
    return write_run(path, [Model(label, [result]) for label, result in models.items()], data)
