"""AutoRec: the contract, known answers, the fast steps beside the readable ones, going on from a fitted model."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from recaudit.arrays import FloatArray
from recaudit.data import Interactions
from recaudit.engines import Step, listening
from recaudit.errors import InputError
from recaudit.models.baseline.popularity import TopPop
from recaudit.testing.models import ModelContract, some_ratings
from recaudit_papers.models.autorec import (
    AutoRec,
    AutoRecModel,
    AutoRecWeights,
    Columns,
    DenseLearner,
    SparseLearner,
    kept,
    train,
)
from recaudit_papers.models.numerics import Singles

EVERYBODY = np.arange(30)


class TestAutoRec(ModelContract):
    recommender = AutoRec(hidden=7, epochs=3, batch=6)


class TestAutoRecWithoutCentre(ModelContract):
    recommender = AutoRec(hidden=4, epochs=2, batch=50, dropout=0.0, center="none")


def log(rows: list[tuple[int, int, float]]) -> Interactions:
    return Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row"), scale=(1, 5))


def single(values: object) -> Singles:
    return np.array(values, dtype=np.float32)


def three_users_two_items() -> tuple[AutoRecWeights, Columns]:
    """Ratings less 3: user 0 gave +1 and -2, user 1 gave +2 to item 0, user 2 gave +1 to item 1."""
    data = log([(0, 0, 4.0), (0, 1, 1.0), (1, 0, 5.0), (2, 1, 4.0)])
    weights = AutoRecWeights(single([[1], [-0.5], [2]]), single([0]), single([[2], [4], [-2]]), single([0, 0.5, 1]))
    return weights, Columns.of(data, 3.0)


def slopes(learner: SparseLearner) -> AutoRecWeights:
    """Those of the first step, of one block: Adam's running average of slopes begins at 0 and moves by a tenth."""
    V, mu, W, b = learner.averages
    users = len(learner.learned.b)
    return AutoRecWeights(10 * V[0, 0].reshape(users, -1), 10 * mu[0, 0], 10 * W[0, 0].reshape(users, -1), 10 * b[0])


class TestKnownAnswers:
    """One hidden unit: V r + mu is 1 * 1 - 0.5 * 2 = 0 for item 0 and -2 * 1 + 1 * 2 = 0 for item 1, so g is 1/2."""

    def test_the_loss(self) -> None:
        weights, columns = three_users_two_items()
        learner = DenseLearner(weights, columns, 0.0, 0.0, torch.device("cpu"))
        # Predicted 1 and 2.5 of item 0 (given 1 and 2), 1 and 0 of item 1 (given -2 and 1): 0, 0.5^2, 3^2, 1^2.
        assert learner.squared_error(torch.tensor([0, 1]), seed=0).item() == pytest.approx(10.25)
        assert learner.squared_error(torch.tensor([0]), seed=0).item() == pytest.approx(0.25)

    def test_the_slopes(self) -> None:
        weights, columns = three_users_two_items()
        learner = SparseLearner(weights, columns, 0.0, 0.0)
        learner.step(np.array([0, 1]), share=1.0, rate=0.0, seed=0)
        # 2 x error, summed over a user's ratings; errors 0 and 3 of user 0, 0.5 of user 1, -1 of user 2.
        np.testing.assert_allclose(slopes(learner).b, [6, 1, -2])
        np.testing.assert_allclose(slopes(learner).W[:, 0], [3, 0.5, -1])
        # Into the hidden unit: g' = 1/4 times sum of 2 x error x W: item 0: 1 x 4 / 4, item 1: (6 x 2 + 2 x 2) / 4.
        np.testing.assert_allclose(slopes(learner).mu[0], 1 + 4)
        np.testing.assert_allclose(slopes(learner).V[:, 0], [1 * 1 - 2 * 4, 2 * 1, 1 * 4])

    def test_only_the_batch_counts(self) -> None:
        weights, columns = three_users_two_items()
        learner = SparseLearner(weights, columns, 0.0, 0.0)
        learner.step(np.array([0]), share=0.5, rate=0.0, seed=0)
        np.testing.assert_allclose(slopes(learner).b, [0, 1, 0])
        np.testing.assert_allclose(slopes(learner).V[:, 0], [1, 2, 0])

    def test_the_penalty_alone_pulls_the_weights_to_zero_and_not_the_biases(self) -> None:
        data = log([(0, 0, 3.0), (1, 0, 3.0)])
        weights = AutoRecWeights(single([[1], [-1]]), single([0]), single([[0], [0]]), single([0, 0]))
        learner = SparseLearner(weights, Columns.of(data, 3.0), 2.0, 0.0)
        learner.step(np.array([0]), share=1.0, rate=0.25, seed=0)
        # Nothing to learn, so that the slope is the penalty's; the first step of Adam is as long as the rate.
        np.testing.assert_allclose(learner.weights().V[:, 0], [0.75, -0.75], rtol=1e-6)
        np.testing.assert_array_equal(learner.weights().b, [0, 0])

    def test_the_scores_of_given_weights(self) -> None:
        data = log([(0, 0, 4.0), (0, 1, 1.0), (1, 0, 5.0), (2, 1, 4.0)])
        model = AutoRecModel(data, "mean", 3.0, three_users_two_items()[0])
        np.testing.assert_allclose(model.scores(np.arange(3)), np.array([[4, 4], [5.5, 5.5], [3, 3]]))


def rank_one(users: int = 24, items: int = 30) -> Interactions:
    """`3 + p_u q_i`, two thirds of the pairs rated."""
    draw = np.random.default_rng(2)
    p, q = draw.uniform(-1.4, 1.4, users), draw.uniform(-1.4, 1.4, items)
    rows = [(u, i, 3 + p[u] * q[i]) for u in range(users) for i in range(items) if draw.random() < 0.67]
    return log(rows)


def test_it_reproduces_a_matrix_of_rank_one() -> None:
    data = rank_one()
    model = AutoRec(hidden=8, epochs=300, batch=30, regularization=0.01, dropout=0.0).fit(data)
    predicted = model.predict(data.users.astype(np.int64), data.items.astype(np.int64))
    assert np.sqrt(np.mean((predicted - data.ratings) ** 2)) < 0.05 < data.ratings.std()


@pytest.mark.parametrize(("dropout", "units"), [(0.0, 37), (0.3, 37), (0.3, 290)])  # one block of units, and three
def test_the_fast_steps_are_the_readable_ones(dropout: float, units: int) -> None:
    data = some_ratings(0)
    columns = Columns.of(data, 3.0)
    start = AutoRecWeights.draw(data.n_users, units, 0.0, np.random.default_rng(1))
    fast = SparseLearner(start, columns, 2.0, dropout)
    slow = DenseLearner(start, columns, 2.0, dropout, torch.device("cpu"))
    rates = np.full(4, 0.01)
    learned = train(fast, columns, rates, 7, rng=5)
    for ours, theirs, before in zip(learned, train(slow, columns, rates, 7, rng=5), start, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-4)
        assert np.abs(ours - before).max() > 0.01


def test_a_log_whose_mean_is_zero_is_centred_too() -> None:
    rows = pl.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 0, 1], "rating": [1.0, -1.0, -1.0, 1.0]})
    data = Interactions.from_frame(rows)
    recommender = AutoRec(hidden=2, epochs=1)
    assert np.isfinite(recommender.warm_fit(recommender.fit(data), data).scores(np.arange(2))).all()


def test_the_share_of_dropped_units_is_the_dropout() -> None:
    factors = kept(torch.arange(2_000), 100, 7, 0.3)
    assert (factors == 0).double().mean().item() == pytest.approx(0.3, abs=0.005)
    assert factors.double().mean().item() == pytest.approx(1, abs=0.01)


def test_a_user_without_ratings_is_scored_as_the_average_user() -> None:
    data = some_ratings(0)
    model = AutoRec(hidden=5, epochs=5).fit(data.subset(data.users != 4))
    scores = model.scores(EVERYBODY)
    others = np.delete(scores, 4, axis=0)
    np.testing.assert_allclose(scores[4], others.mean(axis=0), atol=1e-5)


def test_centred_ratings_are_learned_better() -> None:
    data = some_ratings(0)
    test = np.random.default_rng(0).random(len(data)) < 0.2

    def error(center: str) -> float:
        recommender = AutoRec.model_validate({"hidden": 10, "center": center, "regularization": 3})
        held = data.subset(test)
        predicted = recommender.fit(data.subset(~test)).predict(
            held.users.astype(np.int64), held.items.astype(np.int64)
        )
        return float(np.sqrt(np.mean((predicted - held.ratings) ** 2)))

    assert error("mean") < error("none")


class TestGoingOn:
    recommender = AutoRec(hidden=6, epochs=40, update_epochs=3)

    @staticmethod
    def grown() -> tuple[Interactions, Interactions]:
        data = some_ratings(0)
        early = np.random.default_rng(3).random(len(data)) < 0.9
        return data.subset(early), data

    def test_it_starts_from_the_fitted_weights(self) -> None:
        before, after = self.grown()
        model = self.recommender.fit(before)
        warm = self.recommender.warm_fit(model, after)
        cold = AutoRec(hidden=6, epochs=3).fit(after)

        def loss(scores: FloatArray) -> float:
            return float(np.mean((scores[after.users, after.items] - after.ratings) ** 2))

        assert loss(warm.scores(EVERYBODY)) < loss(model.scores(EVERYBODY))
        assert loss(warm.scores(EVERYBODY)) < loss(cold.scores(EVERYBODY))
        assert warm.data is after

    def test_it_leaves_the_model_as_it_was_and_gives_the_same_numbers_again(self) -> None:
        before, after = self.grown()
        model = self.recommender.fit(before)
        scores = model.scores(EVERYBODY)
        first = self.recommender.warm_fit(model, after, rng=1).scores(EVERYBODY)
        assert np.array_equal(self.recommender.warm_fit(model, after, rng=1).scores(EVERYBODY), first)
        assert np.array_equal(model.scores(EVERYBODY), scores)
        assert not np.array_equal(self.recommender.warm_fit(model, after, rng=2).scores(EVERYBODY), first)

    def test_a_user_who_had_no_ratings_is_learned(self) -> None:
        data = some_ratings(0)
        model = self.recommender.fit(data.subset(data.users != 4))
        warm = self.recommender.warm_fit(model, data)
        seen, ratings = data.history(4)
        before, after = (np.abs(m.scores(np.array([4]))[0][seen] - ratings).mean() for m in (model, warm))
        assert after < before

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            (TopPop(), "a .*Model|a Fitted"),
            (AutoRec(hidden=5, epochs=1), "a model with 5 hidden units"),
            (AutoRec(hidden=6, epochs=1, center="none"), "a model with center='none'"),
        ],
    )
    def test_another_configurations_model_is_refused(self, other: AutoRec | TopPop, message: str) -> None:
        data = some_ratings(0)
        with pytest.raises(InputError, match=f"model: received ({message})"):
            self.recommender.warm_fit(other.fit(data), data)

    def test_a_model_of_other_users_is_refused(self) -> None:
        with pytest.raises(InputError, match="other users or items"):
            self.recommender.warm_fit(self.recommender.fit(rank_one()), some_ratings(0))


def test_training_that_diverges_says_so() -> None:
    with pytest.raises(InputError, match="learning_rate: received 1e\\+38"):
        AutoRec(hidden=3, epochs=5, learning_rate=1e38).fit(some_ratings(0))


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="device: received cuda:99"):
        AutoRec(device="cuda:99").fit(some_ratings(0))


def test_it_says_how_far_it_is() -> None:
    steps: list[Step] = []
    with listening(steps.append):
        AutoRec(hidden=2, epochs=3).fit(some_ratings(0))
    assert Step("AutoRec", 2, 3) in steps
