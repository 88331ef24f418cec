"""A small run of one's own files: quick enough to be killed and resumed many times."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from recaudit import runs
from recaudit.data.synthetic import World

CONFIG = """
seed = 3
[data]
file = "ratings.csv"
user = "user"
item = "item"
rating = "rating"
time = "time"
scale = [1, 5]
items = "films.csv"
title = "title"
categories = {genre = "genres"}
users = "people.csv"
attributes = ["region"]
[split]
kind = "leave-last"
k = 2
[[model]]
kind = "top-pop"
label = "Most rated"
[[model]]
kind = "random"
[audits.accuracy]
k = 5
samples = 10
by = ["region"]
[audits.exposure]
k = 5
samples = 10
by = ["genre"]
policy = {kind = "softmax", beta = 2.0}
"""


@pytest.fixture
def folder(tmp_path: Path, world: World) -> Path:
    """A folder with data files, and run.toml beside them."""
    data = world.data
    data.frame().write_csv(tmp_path / "ratings.csv")
    pl.DataFrame(
        {
            "item": [*data.item_ids, "unknown"],
            "title": [f"Film {i}" for i in data.item_ids] + ["Never rated"],
            "genres": ["drama|war" if i % 2 else "comedy" for i in range(data.n_items)] + ["drama"],
        }
    ).write_csv(tmp_path / "films.csv")
    pl.DataFrame({"user": data.user_ids, "region": data.attributes["region"]}).write_csv(tmp_path / "people.csv")
    (tmp_path / "run.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


@pytest.fixture
def config(folder: Path) -> runs.Configuration:
    return runs.read(folder / "run.toml")
