"""What is audited: the logs by name, and models by the table that says how they are fitted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import polars as pl

from recaudit.data import Interactions, datasets
from recaudit.models import (
    AffineResponse,
    BiasedMF,
    FactorModel,
    FittedModel,
    ItemKNN,
    ItemKNNModel,
    Recommender,
    Response,
)
from recaudit.plugins import FloatArray, IntArray, data_folder, resolve_items, resolve_users
from recaudit.simulate import LibFM

_TENTH = 0.1
_MIND_SAMPLE = "mind-small-sample"

_RECOMMENDERS: Mapping[str, type[Recommender]] = {"biased-mf": BiasedMF, "libfm": LibFM, "knn": ItemKNN}


@cache
def log_of(name: str) -> Interactions:
    """A data set; of Last.fm 360K a tenth of the users and a tenth of the artists, as in the paper."""
    if name == _MIND_SAMPLE:
        return datasets.load("mind-small", mind_sample())
    log = datasets.load(name)
    if name != "lastfm-360k":
        return log
    users, items = resolve_users(int(_TENTH * log.n_users), log, 0), resolve_items(int(_TENTH * log.n_items), log, 0)
    kept = np.isin(log.users, users) & np.isin(log.items, items)
    rated = pl.DataFrame(
        {
            "user": log.user_ids.gather(log.users[kept]),
            "item": log.item_ids.gather(log.items[kept]),
            "rating": log.ratings[kept],
        }
    )
    return Interactions.from_frame(rated, scale=log.scale)


def mind_sample() -> Path | None:
    """The folder with a part of MIND small, if there is one beside the data sets."""
    folder = data_folder()
    return None if folder is None else datasets.locate("mind-small", folder / _MIND_SAMPLE)


def model_of(log: str, model: Mapping[str, Any], seed: int, box: tuple[float, float]) -> FittedModel:
    """The model that a table describes, fitted to the log, for users who may rate anything inside the box."""
    wanted = dict(model)
    twice = wanted.pop("counted_twice", False)
    found = _fitted(log, json.dumps(wanted, sort_keys=True), seed)
    assert isinstance(found, FactorModel | ItemKNNModel)
    boxed = replace(found, data=replace(found.data, scale=box))
    return TwiceCountedKNN(boxed.data, boxed) if twice and isinstance(boxed, ItemKNNModel) else boxed


@cache
def _fitted(log: str, model: str, seed: int) -> FittedModel:
    return recommender_of(json.loads(model)).fit(log_of(log), rng=seed)


def recommender_of(model: Mapping[str, Any]) -> Recommender:
    """What a table describes: its kind and its fields."""
    fields = {name: value for name, value in model.items() if name != "kind"}
    return _RECOMMENDERS[model["kind"]](**fields)


@final
@dataclass(frozen=True, eq=False, repr=False)
class TwiceCountedKNN(FittedModel):
    """Item neighbours that average an edited rating beside the old one, as the authors' code does."""

    data: Interactions
    of: ItemKNNModel

    response: ClassVar[type[Response]] = AffineResponse

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return f"{self.of.rule}; what an edited rating was before counts as well"

    def scores(self, users: IntArray) -> FloatArray:
        """See `FittedModel`."""
        return self.of.scores(users)

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """The right response, and the old ratings with the weights of the new ones."""
        right = self.of.respond(viewer, editor, items)
        seen, ratings = self.data.history(viewer)
        old = np.zeros(len(items))
        _, acted, rated = np.intersect1d(items, seen, return_indices=True)
        old[acted] = ratings[rated]
        return replace(right, intercept=right.intercept + right.slope @ old)
