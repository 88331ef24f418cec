"""Whose lists changed, and how: the same users' lists in two runs."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from recaudit.runs.folder import Run

LIST_SCHEMA: dict[str, Any] = {
    "model": pl.String,
    "user": pl.String,
    "replaced": pl.Float64,
    "moved": pl.Float64,
    "before": pl.List(pl.String),
    "after": pl.List(pl.String),
}


def list_changes(before: Run, after: Run, name: str, labels: tuple[str, str]) -> pl.DataFrame:
    """One row a user who has a list in both runs, most changed first; none where an audit kept lists in one run alone.

    Average overlap looks at the first d places of both lists, for each d up to the longer list's length k: the mean of
    the shares that are in both. An item at places r and s is in both from d = max(r, s) on, which adds
    (1/d + ... + 1/k) / k.
    """
    audit = next((audit for audit in before.audits(labels[0]) if _kept(before, after, labels, audit)), None)
    if audit is None:
        return pl.DataFrame(schema=LIST_SCHEMA)
    first, second = (
        run.table(label, audit, "lists")
        .select(pl.col("user", "item").cast(pl.String), "rank")
        .unique(["user", "item"], keep="first", maintain_order=True)
        .join(_titles(run, label, audit), on="item", how="left", maintain_order="left")
        for run, label in zip((before, after), labels, strict=True)
    )
    k = int(max(first["rank"].max() or 1, second["rank"].max() or 1))  # type: ignore[arg-type]  # ranks are numbers
    # tails[d - 1] = 1/d + ... + 1/k
    tails = np.cumsum((1 / np.arange(1, k + 1))[::-1])[::-1]
    shared = first.join(second, on=["user", "item"]).with_columns(depth=pl.max_horizontal("rank", "rank_right"))
    overlap = shared.group_by("user").agg(
        shared=pl.len(), overlap=pl.col("depth").replace_strict(dict(enumerate(tails, start=1))).sum() / k
    )
    whole = [
        rows.group_by("user", maintain_order=True).agg(pl.col("title").sort_by("rank").alias(side))
        for side, rows in (("before", first), ("after", second))
    ]
    joined = reduce(lambda one, other: one.join(other, on="user", maintain_order="left"), whole)
    found = joined.join(overlap, on="user", how="left", maintain_order="left").with_columns(
        pl.lit(name).alias("model"),
        replaced=1 - pl.col("shared").fill_null(0) / pl.col("before").list.len(),
        moved=1 - pl.col("overlap").fill_null(0.0),
    )
    # Lists that are shorter than k overlap less than wholly with themselves.
    same = pl.col("before") == pl.col("after")
    found = found.with_columns(moved=pl.when(same).then(0.0).otherwise("moved"))
    ordered = found.sort(pl.col("moved").round(9), "user", descending=[True, False])
    return ordered.select(pl.col(column).cast(kind) for column, kind in LIST_SCHEMA.items())


def _kept(before: Run, after: Run, labels: tuple[str, str], audit: str) -> bool:
    """Whether both runs kept the lists of this audit."""
    return all(run.has_table(label, audit, "lists") for run, label in zip((before, after), labels, strict=True))


def _titles(run: Run, label: str, audit: str) -> pl.DataFrame:
    """item, title: the id where there is none."""
    items = (
        run.table(label, audit, "items").select(pl.col("item").cast(pl.String), "title").unique("item", keep="first")
    )
    return items.with_columns(pl.col("title").fill_null(pl.col("item")))
