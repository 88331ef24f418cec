"""A fit that leaves the finite numbers says so, by the setting that decides it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recaudit.data import Interactions
from recaudit.errors import InputError
from recaudit.models import (
    ALS,
    EASE,
    SLIM,
    WALS,
    BiasedMF,
    ItemKNN,
    Recommender,
    TopPop,
    UserKNN,
)

USERS = np.repeat(np.arange(20), 20)
ITEMS = np.tile(np.arange(40).reshape(2, 20), (10, 1)).ravel()
STARS = np.random.default_rng(0).integers(1, 6, len(USERS)).astype(np.float64)


def log(size: float = 1.0) -> Interactions:
    return Interactions.from_frame(pl.DataFrame({"user": USERS, "item": ITEMS, "rating": STARS * size}))


@pytest.mark.parametrize(
    ("recommender", "setting"),
    [
        (ALS(factors=30, regularization=1e-308, per_rating=False), "regularization: received 1e-308"),
        (ALS(factors=8, init_std=1e200), "regularization: .* init_std smaller"),
        (WALS(factors=8, init_std=1e200), "regularization: .* init_std smaller"),
        (BiasedMF(factors=8, learning_rate=1e5), "learning_rate: received 100000.0"),
        (BiasedMF(factors=8, learning_rate=1e5, init_std=0), "learning_rate: received 100000.0"),
    ],
    ids=repr,
)
def test_settings_that_cannot_be_fitted_with_are_named(recommender: Recommender, setting: str) -> None:
    with pytest.raises(InputError, match=setting):
        recommender.fit(log())


@pytest.mark.parametrize(
    "recommender",
    [
        ALS(factors=4),
        BiasedMF(factors=4),
        EASE(),
        ItemKNN(),
        SLIM(),
        TopPop(by="mean"),
        UserKNN(),
        WALS(factors=4),
    ],
    ids=lambda one: type(one).__name__,
)
def test_ratings_whose_squares_are_no_numbers_are_refused(recommender: Recommender) -> None:
    with pytest.raises(InputError, match="data: received a log with ratings of up to 5e\\+150"):
        recommender.fit(log(1e150))


def test_a_penalty_that_is_lost_beside_the_ratings_is_named() -> None:
    with pytest.raises(InputError, match="regularization: received a penalty that rounding loses"):
        EASE(center="item").fit(log(1e30))
