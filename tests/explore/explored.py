"""Runs of a few small models to explore, and the page's data read back."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recaudit.data import synthetic
from recaudit.runs import Run, execute, parse

MODELS = """
[[model]]
kind = "als"
factors = 6
[[model]]
kind = "item-knn"
[[model]]
kind = "ease"
[[model]]
kind = "python"
object = "models.nonlinear:recommender"
label = "Nonlinear"
[[model]]
kind = "top-pop"
label = "Popular"
"""
LABELS = ["ALS", "ItemKNN", "EASE", "Nonlinear", "Popular"]
ALLOWED = ["models.nonlinear"]
"""The module of the test's own model."""
ALS = '[[model]]\nkind = "als"\nfactors = 6\n'


def explored(
    folder: Path,
    *,
    users: int = 40,
    items: int = 60,
    titles: list[str] | None = None,
    models: str = MODELS,
    more: str = "",
    scale: str = "[1, 5]",
) -> Run:
    """A run on a made-up world, whose items have these titles."""
    data = synthetic.demo_world(rng=1, users=users, items=items).data
    folder.mkdir(parents=True, exist_ok=True)
    data.frame().write_parquet(folder / "ratings.parquet")
    ids, genres = data.item_ids.to_list(), data.categories["genre"]
    named = titles or [f"Film {item}" for item in range(len(ids))]
    kinds = ["|".join(genres.names[g] for g in genres.weights[[row]].indices) for row in range(len(ids))]
    films = pl.DataFrame({"item": ids, "title": (named * len(ids))[: len(ids)], "genre": kinds})
    films.write_parquet(folder / "films.parquet")
    data_table = 'file = "ratings.parquet"\ntime = "time"\nitems = "films.parquet"\ntitle = "title"\n'
    data_table += f'scale = {scale}\ncategories = {{genre = "genre"}}\n'
    text = f"[data]\n{data_table}{models}\n[audits.accuracy]\n{more}"
    return execute(parse(text, source="run.toml", folder=folder), folder / "run")


def array(text: str, dtype: Any = np.float64) -> NDArray[Any]:
    """What the page unpacks."""
    return np.frombuffer(base64.b64decode(text), dtype=dtype)
