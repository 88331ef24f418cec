"""A fitted model goes into a file and comes out of it to the last bit, and nothing else comes out of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recaudit import models
from recaudit.arrays import FloatArray, IntArray
from recaudit.data import Interactions
from recaudit.data.growth import blank, grown
from recaudit.folders.arrays import encoded
from recaudit.models import FittedModel, Recommender
from recaudit.models.stored import restored, stored

WARM: list[Recommender] = [
    models.ALS(factors=3, iterations=2),
    models.BiasedMF(factors=3, epochs=2),
]
USERS, ITEMS = 20, 15
EVERYBODY = np.arange(USERS)


def some_ratings(count: int) -> Interactions:
    """The first so many of 150 ratings."""
    draw = np.random.default_rng(0)
    pairs = draw.choice(USERS * ITEMS, 150, replace=False)[:count]
    ratings = draw.integers(1, 6, 150)[:count].astype(np.float64)
    empty = blank(USERS, ITEMS, (1.0, 5.0))
    return grown(empty, pairs // ITEMS, pairs % ITEMS, ratings, np.zeros(count, dtype=np.int64))


def kept(model: FittedModel, path: Path) -> Path:
    content = stored(model)
    assert content is not None
    path.write_bytes(content)
    return path


def test_every_recommender_that_goes_on_from_a_model_is_tried_here() -> None:
    kinds = [getattr(models, name) for name in models.__all__]
    going_on = {
        kind
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, Recommender) and kind.warm_fit is not Recommender.warm_fit
    }
    assert going_on == {type(recommender) for recommender in WARM}


@pytest.mark.parametrize("recommender", WARM, ids=repr)
def test_it_comes_back_and_goes_on_as_if_it_had_not_been_away(recommender: Recommender, tmp_path: Path) -> None:
    before, after = some_ratings(100), some_ratings(150)
    model = recommender.fit(before, rng=3)
    again = restored(kept(model, tmp_path / "model"), before)
    assert type(again) is type(model)
    assert stored(again) == stored(model)
    np.testing.assert_allclose(again.scores(EVERYBODY), model.scores(EVERYBODY), rtol=1e-9, atol=0)
    one, other = (recommender.warm_fit(each, after, rng=4).scores(EVERYBODY) for each in (model, again))
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_arrays_lie_in_memory_as_they_did(tmp_path: Path) -> None:
    model = models.ALS(factors=3, iterations=1).fit(some_ratings(100))
    turned = models.FactorModel(
        model.data,
        np.asfortranarray(model.user_factors),
        model.item_factors,
        model.user_bias,
        model.item_bias,
        model.mean,
        model.update,
    )
    again = restored(kept(turned, tmp_path / "model"), model.data)
    assert isinstance(again, models.FactorModel)
    assert again.user_factors.flags.f_contiguous
    assert np.array_equal(again.user_factors, model.user_factors)


@dataclass(frozen=True, eq=False)
class Own(FittedModel):
    """Somebody's own model."""

    data: Interactions
    how: Any

    def scores(self, users: IntArray) -> FloatArray:
        return np.zeros((len(users), self.data.n_items))


def test_a_class_that_is_not_recaudits_is_not_kept() -> None:
    assert stored(Own(some_ratings(10), how=print)) is None


@pytest.mark.parametrize(
    "about",
    [
        {"is": "os.system", "with": {"command": "touch hacked"}},
        {"is": "builtins.eval", "with": {"source": "1"}},
        {"is": f"{__name__}.Own", "with": {"how": 1}},
        {"is": "recaudit.models.factor.model.FactorModel", "with": {"data": {"is": "log"}}},
        {"is": "recaudit.models.given.lists.ShownLists", "with": {"lists": 1.0}},
        {"is": "array", "at": "nowhere", "turned": False},
        {"with": {}},
        ["FactorModel"],
        None,
    ],
)
def test_a_file_makes_nothing_but_recaudits_models(about: object, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(encoded({"a": np.zeros(3)}, about))
    with pytest.raises(ValueError, match="tells of"):
        restored(tmp_path / "model", some_ratings(10))
