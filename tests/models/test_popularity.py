from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recaudit.data import Interactions
from recaudit.models.baseline.popularity import Random, TopPop
from recaudit.testing.models import ModelContract


class TestTopPopByCount(ModelContract):
    recommender = TopPop()


class TestTopPopByMean(ModelContract):
    recommender = TopPop(by="mean", damping=2.0)


class TestRandom(ModelContract):
    recommender = Random()


def test_counts_only_rank(tiny: Interactions) -> None:
    model = TopPop(by="count").fit(tiny)
    assert model.scores(np.array([1]))[0].tolist() == [2, 2, 1, 1]
    assert not model.predicts_ratings
    assert model.predict(np.array([0]), np.array([0])).tolist() == [2.0]


def test_means_predict(tiny: Interactions) -> None:
    model = TopPop(by="mean").fit(tiny)
    assert model.scores(np.array([2]))[0].tolist() == [3.5, 3.5, 1.0, 5.0]
    assert model.predicts_ratings


def test_damping_adds_ratings_at_the_global_mean(tiny: Interactions) -> None:
    model = TopPop(by="mean", damping=2.0).fit(tiny)
    mean = 20 / 6
    expected = [(7 + 2 * mean) / 4, (7 + 2 * mean) / 4, (1 + 2 * mean) / 3, (5 + 2 * mean) / 3]
    np.testing.assert_allclose(model.scores(np.array([0]))[0], expected)


@pytest.mark.parametrize(("by", "expected"), [("count", 0.0), ("mean", 3.0)])
def test_an_item_without_ratings_gets_zero_or_the_global_mean(tiny: Interactions, by: str, expected: float) -> None:
    model = TopPop.model_validate({"by": by}).fit(tiny.subset(tiny.items != 3))
    assert model.scores(np.array([0]))[0, 3] == expected


def many_users() -> Interactions:
    """More users than one block of predictions holds."""
    frame = pl.DataFrame({"user": np.arange(600), "item": np.arange(600) % 40, "rating": np.arange(600) % 5 + 1.0})
    return Interactions.from_frame(frame, scale=(1, 5))


def test_random_scores_are_uniform_on_the_scale() -> None:
    scores = Random().fit(many_users()).scores(np.arange(600))
    assert scores.min() > 1
    assert scores.max() < 5
    # 24,000 draws: the share of each tenth of the scale is within five standard errors of a tenth.
    shares = np.histogram(scores, bins=10, range=(1, 5))[0] / scores.size
    np.testing.assert_allclose(shares, 0.1, atol=5 * np.sqrt(0.09 / scores.size))


def test_random_scores_follow_the_seed_and_the_ids() -> None:
    data = many_users()
    scores = Random().fit(data, rng=1).scores(np.arange(600))
    other_seed = Random().fit(data, rng=2).scores(np.arange(600))
    assert not np.isclose(scores, other_seed).any(axis=1).all()
    without_the_first = Interactions.from_frame(data.frame().filter(pl.col("user") > 0), scale=(1, 5))
    np.testing.assert_array_equal(Random().fit(without_the_first, rng=1).scores(np.arange(599)), scores[1:])


@pytest.mark.parametrize("rating", [1.0, 0.0, -2.0])
def test_random_ranks_at_random_where_every_rating_is_the_same(rating: float) -> None:
    data = Interactions.from_frame(many_users().frame().with_columns(rating=pl.lit(rating)))
    assert data.scale == (rating, rating)
    model = Random().fit(data)
    assert not model.predicts_ratings
    scores = model.scores(np.arange(600))
    firsts = np.bincount(scores.argmax(axis=1), minlength=40)
    # 600 users, 40 items: each comes first 15 times, and six standard deviations are 23.
    assert firsts.min() >= 1
    assert firsts.max() <= 38
    np.testing.assert_array_equal(Random().fit(data).scores(np.arange(600)), scores)
    np.testing.assert_array_equal(
        model.predict(np.arange(600), np.arange(600) % 40), scores[np.arange(600), data.items]
    )


def test_predictions_cross_blocks() -> None:
    model = Random().fit(many_users())
    users = np.random.default_rng(0).permutation(600)
    items = users % 40
    np.testing.assert_array_equal(model.predict(users, items), model.scores(np.arange(600))[users, items])
