"""The paper's data and model: plays are ratings of 4 and more, a share of them is held out, the rest is factorised."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from recaudit.data import Interactions, datasets, splits
from recaudit.models import WALS, FactorModel
from recaudit.plugins import derive, generator

GENRE = "genre"
_PLAYED = 4.0
"""Stars that count as a play."""
_NO_GENRE = "unknown"
"""What MovieLens 100K calls the genre of films without any."""


@lru_cache(maxsize=2)
def plays(data: str, users: float = 1.0, items: float = 1.0) -> Interactions:
    """A log's plays of films with genres, or those of a share of its users and films, drawn at random.

    Who and what has no play left is not in it.
    """
    log = datasets.load(data)
    rows = (log.ratings >= _PLAYED) & _with_genre(log)[log.items]
    for name, share, at in (("users", users, log.users), ("items", items, log.items)):
        count = int(at.max()) + 1
        rows &= (generator(0, "plays", name).permutation(count) < round(share * count))[at]
    genres = log.categories[GENRE]
    pairs = genres.weights.tocoo()
    names = pl.Series(genres.names, dtype=pl.String)
    frame = pl.DataFrame({"item": log.item_ids.gather(pairs.row), "category": names.gather(pairs.col)})
    made = Interactions.from_frame(log.subset(rows).frame().select("user", "item"), rating=None)
    frame = frame.filter(pl.col("item").is_in(made.item_ids.implode()), pl.col("category") != _NO_GENRE)
    return made.with_categories(GENRE, frame)


def _with_genre(log: Interactions) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """(items,): who has a genre that says something."""
    genres = log.categories[GENRE]
    said = np.array([name != _NO_GENRE for name in genres.names])
    return np.asarray((genres.weights @ said.astype(np.float64)) > 0)


def split_of(log: Mapping[str, Any], held: float, split: int) -> splits.Split:
    """A log's plays with a share of them held out; another split for each number."""
    return splits.random(plays(**log), held, derive(0, "calibration study", split))


def fitted(
    log: Mapping[str, Any], held: float, split: int, model: Mapping[str, Any]
) -> tuple[FactorModel, Interactions]:
    """The paper's baseline, fitted to what is not held out, and what is."""
    return _fitted(tuple(log.items()), held, split, tuple(model.items()))


@lru_cache(maxsize=1)
def _fitted(
    log: tuple[tuple[str, Any], ...], held: float, split: int, model: tuple[tuple[str, Any], ...]
) -> tuple[FactorModel, Interactions]:
    train, test = split_of(dict(log), held, split)
    return WALS(values="ones", **dict(model)).fit(train, 0), test
