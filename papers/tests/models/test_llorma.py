"""LLORMA: the contract, kernels and predictions by hand, the fast loops beside the readable ones, going on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recaudit.arrays import FloatArray
from recaudit.data import Interactions
from recaudit.engines import Step, listening
from recaudit.errors import InputError
from recaudit.models.base import Recommender
from recaudit.models.baseline.popularity import TopPop
from recaudit.testing.models import ModelContract, some_ratings
from recaudit_papers.models.llorma import (
    LLORMA,
    Descent,
    FactorPair,
    LLORMAModel,
    Nearness,
    epanechnikov,
    exponential,
    pretrain,
    pretrain_dense,
    train,
    train_dense,
)

EVERYBODY = np.arange(30)
CPU = torch.device("cpu")


class TestLLORMA(ModelContract):
    recommender = LLORMA(anchors=3, rank=4, epochs=3, batch=50, pre_rank=3, pre_steps=5)


class TestLLORMAWithGaps(ModelContract):
    """A narrow kernel leaves pairs that are near no anchor."""

    recommender = LLORMA(anchors=2, rank=2, epochs=2, pre_rank=2, pre_steps=5, kernel="epanechnikov", width=0.05)


def log(rows: list[tuple[int, int, float]]) -> Interactions:
    return Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row"), scale=(1, 5))


class TestKernels:
    def test_epanechnikov_by_hand(self) -> None:
        vectors = np.array([[2.0, 0], [1, 1], [0, 3], [-1, 0]])
        # Angles from the first: 0, pi/4, pi/2, pi; from the third: pi/2, pi/4, 0, pi/2.
        expected = np.array([[1, 0], [0.75, 0.75], [0, 1], [0, 0]])
        np.testing.assert_allclose(epanechnikov(vectors, np.array([0, 2]), np.pi / 2), expected, atol=1e-12)

    def test_epanechnikov_of_great_width_is_one_everywhere(self) -> None:
        vectors = np.random.default_rng(0).standard_normal((9, 3))
        np.testing.assert_allclose(epanechnikov(vectors, np.array([4]), 1e9), 1)

    def test_exponential_by_hand(self) -> None:
        # Lengths 1 and 2, at a right angle: k = [[1, 2e], [2e, 4]] with e = exp(-sqrt 2); row means 1/2 + e and e + 2,
        # mean of all 5/4 + e. Centred: c_11 = 1 - 1 - 2e + 5/2 + 2e = 5/2, c_22 = 4 - 2e - 4 + 5/2 + 2e = 5/2,
        # c_12 = 2e - (1/2 + e) - (e + 2) + 5/2 + 2e = 2e.
        near = exponential(np.array([[1.0, 0], [0, 2]]), np.array([0, 1]))
        share = 2 * np.exp(-(2**0.5)) / 2.5
        np.testing.assert_allclose(near, [[1, share], [share, 1]], atol=1e-12)

    def test_exponential_does_not_depend_on_how_rows_are_blocked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        vectors, centres = np.random.default_rng(0).uniform(0, 1, (40, 3)), np.array([3, 17])
        whole = exponential(vectors, centres)
        monkeypatch.setattr("recaudit_papers.models.llorma._ROWS_AT_ONCE", 7)
        np.testing.assert_allclose(exponential(vectors, centres), whole)

    @given(st.integers(0, 2**32 - 1), st.sampled_from(["epanechnikov", "exponential"]))
    def test_nearness_is_between_0_and_1_and_1_at_the_anchor(self, seed: int, kernel: str) -> None:
        vectors = np.random.default_rng(seed).uniform(0.1, 1.0, (12, 4))
        near = (
            epanechnikov(vectors, np.array([5]), 0.8)
            if kernel == "epanechnikov"
            else exponential(vectors, np.array([5]))
        )
        assert ((near >= 0) & (near <= 1)).all()
        assert near[5, 0] == pytest.approx(1)

    def test_shares_add_up_to_one_where_an_anchor_is_near(self) -> None:
        nearness = Nearness(np.array([[1.0, 0.5], [0, 1]]), np.array([[0.5, 1.0], [1, 0]]))
        ratings = log([(0, 0, 3), (0, 1, 3), (1, 0, 3), (1, 1, 3)])
        # Weights (0.5, 0.5), (1, 0), (0, 1), (0, 0).
        np.testing.assert_allclose(nearness.shares(ratings), np.array([[0.5, 0.5], [1, 0], [0, 1], [0, 0]]))


def test_scores_by_hand() -> None:
    data = log([(0, 0, 3), (1, 1, 4)])
    nearness = Nearness(np.array([[1.0, 0.5], [0, 1]]), np.array([[0.5, 1.0], [1, 0]]))
    whole = FactorPair(np.array([[1], [2]], np.float32), np.array([[3], [4]], np.float32))
    local = FactorPair(np.array([[[1], [2]], [[3], [4]]], np.float32), np.array([[[1], [3]], [[5], [2]]], np.float32))
    model = LLORMAModel(data, np.array([[0, 0], [1, 1]]), whole, local, nearness)
    # (0, 0): the mean of 1 x 1 and 2 x 3; (0, 1): the first alone, 1 x 5; (1, 0): the second, 4 x 3; (1, 1): none is
    # near, so that the global 2 x 4 stands.
    np.testing.assert_allclose(model.scores(np.array([0, 1])), np.array([[3.5, 5], [12, 8]]))


class TestOneAnchorOfGreatWidth:
    """It is near everything: what is left is one factorisation."""

    def test_the_scores_are_those_of_one_factorisation(self) -> None:
        data = some_ratings(0)
        model = LLORMA(anchors=1, rank=3, epochs=6, kernel="epanechnikov", width=1e9).fit(data, rng=4)
        P, Q = (vectors[:, 0].astype(np.float64) for vectors in (model.local.P, model.local.Q))
        np.testing.assert_allclose(model.scores(EVERYBODY), P @ Q.T)

    def test_training_is_plain_gradient_descent(self) -> None:
        data, rate, penalty = some_ratings(0), 0.003, 0.5
        start = FactorPair.draw(data, (1, 3), np.random.default_rng(0))
        given, R = data.csr.toarray() > 0, data.csr.toarray()
        P, Q = start.P[:, 0].astype(np.float64), start.Q[:, 0].astype(np.float64)
        for _ in range(8):
            errors = np.where(given, P @ Q.T - R, 0)
            P, Q = P - 2 * rate * (errors @ Q + penalty * P), Q - 2 * rate * (errors.T @ P + penalty * Q)
        shares = np.ones((len(data), 1), np.float32)
        found = train(start, (data), shares, Descent(rate, penalty, 8), batch=len(data), rng=0)
        np.testing.assert_allclose(found.P[:, 0], P, rtol=1e-4)
        np.testing.assert_allclose(found.Q[:, 0], Q, rtol=1e-4)
        assert np.abs(P - start.P[:, 0]).max() > 0.1


def test_pretraining_by_hand() -> None:
    start = FactorPair(np.array([[1]], np.float32), np.array([[2]], np.float32))
    ratings = log([(0, 0, 3)])
    # Slope of (3 - pq)^2 + p^2: -2 q (3 - pq) + 2p = -2 at (1, 2), so p = 1.2; then in q: -2.4 x 0.6 + 4 = 2.56.
    found = pretrain(start, ratings, Descent(rate=0.1, regularization=1.0, passes=1))
    np.testing.assert_allclose([found.P[0, 0], found.Q[0, 0]], [1.2, 1.744], rtol=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_fast_loops_are_the_readable_ones(seed: int) -> None:
    data = some_ratings(seed)
    ratings, draw = (data), np.random.default_rng(seed)
    start = FactorPair.draw(data, (5,), draw)
    descent = Descent(0.004, 0.3, 12)
    fast, slow = pretrain(start, ratings, descent), pretrain_dense(start, ratings, descent, device=CPU)
    np.testing.assert_allclose(fast.P, slow.P, atol=1e-4)
    np.testing.assert_allclose(fast.Q, slow.Q, atol=1e-4)

    # Shares that are zero for one rating in ten.
    start = FactorPair.draw(data, (4, 37), draw)
    shares = (draw.dirichlet(np.ones(4), len(data)) * (draw.random((len(data), 1)) > 0.1)).astype(np.float32)
    for penalty in (0.02, 20.0):
        descent = Descent(0.01, penalty, 5)
        fast = train(start, ratings, shares, descent, 64, rng=3)
        slow = train_dense(start, ratings, shares, descent, 64, rng=3, device=CPU)
        np.testing.assert_allclose(fast.P, slow.P, atol=1e-4)
        np.testing.assert_allclose(fast.Q, slow.Q, atol=1e-4)
        assert np.abs(fast.P - start.P).max() > 0.05


def test_the_start_has_the_mean_and_the_spread_of_the_ratings() -> None:
    data = some_ratings(0)
    start = FactorPair.draw(data, (20,), np.random.default_rng(0))
    products = start.P.astype(np.float64) @ start.Q.T
    assert products.mean() == pytest.approx(data.ratings.mean(), rel=0.05)
    assert 0 < products.std() < data.ratings.std()


def test_more_epochs_fit_the_log_better() -> None:
    data = some_ratings(0)

    def error(epochs: int) -> float:
        model = LLORMA(anchors=4, rank=5, epochs=epochs, batch=30, learning_rate=0.005).fit(data)
        return float(np.mean((model.scores(EVERYBODY)[data.users, data.items] - data.ratings) ** 2))

    errors = [error(epochs) for epochs in (1, 10, 60)]
    assert all(after < before for before, after in pairwise(errors))
    assert errors[-1] < 0.5 * data.ratings.var()


def test_pairs_near_no_anchor_are_predicted_by_the_global_factorisation() -> None:
    data = some_ratings(0)
    model = LLORMA(anchors=1, rank=2, epochs=1, pre_rank=4, kernel="epanechnikov", width=0.02).fit(data)
    (user, item), scores = model.anchors[0], model.scores(EVERYBODY)
    common = model.whole.P.astype(np.float64) @ model.whole.Q.T.astype(np.float64)
    near = np.outer(model.nearness.users[:, 0], model.nearness.items[:, 0]) > 0
    assert near[user, item]
    assert near.mean() < 0.5
    np.testing.assert_allclose(scores[~near], common[~near])
    assert scores[user, item].item() != pytest.approx(common[user, item])


def test_who_has_no_ratings_has_the_average_vectors() -> None:
    data = some_ratings(0)
    model = LLORMA(anchors=2, rank=3, epochs=2).fit(data.subset((data.users != 4) & (data.items != 7)))
    for vectors, silent in ((model.local.P, 4), (model.local.Q, 7), (model.whole.P, 4), (model.whole.Q, 7)):
        np.testing.assert_allclose(vectors[silent], np.delete(vectors, silent, axis=0).mean(axis=0), rtol=1e-5)


def test_a_log_with_fewer_ratings_than_anchors_has_one_model_for_each() -> None:
    data = some_ratings(0)
    model = LLORMA(anchors=10, rank=2, epochs=1).fit(data.subset(np.arange(len(data)) < 3))
    assert len(model.anchors) == 3


class TestGoingOn:
    recommender = LLORMA(anchors=3, rank=3, epochs=20, batch=40, learning_rate=0.005, update_epochs=4)

    @staticmethod
    def grown() -> tuple[Interactions, Interactions]:
        data = some_ratings(0)
        early = np.random.default_rng(3).random(len(data)) < 0.9
        return data.subset(early), data

    def test_it_starts_from_the_fitted_vectors_and_keeps_the_anchors(self) -> None:
        before, after = self.grown()
        model = self.recommender.fit(before)
        warm = self.recommender.warm_fit(model, after)
        cold = self.recommender.model_copy(update={"epochs": 4}).fit(after)

        def loss(scores: FloatArray) -> float:
            return float(np.mean((scores[after.users, after.items] - after.ratings) ** 2))

        assert loss(warm.scores(EVERYBODY)) < loss(model.scores(EVERYBODY))
        assert loss(warm.scores(EVERYBODY)) < loss(cold.scores(EVERYBODY))
        np.testing.assert_array_equal(warm.anchors, model.anchors)
        assert warm.data is after

    def test_it_leaves_the_model_as_it_was_and_gives_the_same_numbers_again(self) -> None:
        before, after = self.grown()
        model = self.recommender.fit(before)
        scores = model.scores(EVERYBODY)
        first = self.recommender.warm_fit(model, after, rng=1).scores(EVERYBODY)
        assert np.array_equal(self.recommender.warm_fit(model, after, rng=1).scores(EVERYBODY), first)
        assert np.array_equal(model.scores(EVERYBODY), scores)
        assert not np.array_equal(self.recommender.warm_fit(model, after, rng=2).scores(EVERYBODY), first)

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            (TopPop(), "a "),
            (LLORMA(anchors=3, rank=2, epochs=1), "a model with ranks 2 and, global, 10"),
            (LLORMA(anchors=3, rank=3, pre_rank=4, epochs=1), "a model with ranks 3 and, global, 4"),
            (LLORMA(anchors=4, rank=3, epochs=1), "a model with 4 anchors"),
        ],
    )
    def test_another_configurations_model_is_refused(self, other: Recommender, message: str) -> None:
        data = some_ratings(0)
        with pytest.raises(InputError, match=f"model: received {message}"):
            self.recommender.warm_fit(other.fit(data), data)

    def test_a_model_of_other_users_is_refused(self) -> None:
        with pytest.raises(InputError, match="other users or items"):
            self.recommender.warm_fit(self.recommender.fit(log([(0, 0, 3), (1, 1, 4)])), some_ratings(0))


@pytest.mark.parametrize("argument", ["learning_rate", "pre_learning_rate"])
def test_training_that_diverges_says_so(argument: str) -> None:
    with pytest.raises(InputError, match=f"^{argument}: received 10.0; .* diverged"):
        LLORMA.model_validate({argument: 10.0}).fit(some_ratings(0))


def test_a_penalty_that_overshoots_zero_is_refused() -> None:
    with pytest.raises(InputError, match="taking off 1 times; expected less than once each vector"):
        LLORMA(learning_rate=0.5, regularization=1.0)


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="device: received cuda:99"):
        LLORMA(device="cuda:99").fit(some_ratings(0))


def test_it_says_how_far_it_is() -> None:
    steps: list[Step] = []
    with listening(steps.append):
        LLORMA(epochs=3).fit(some_ratings(0))
    assert Step("LLORMA", 2, 3) in steps
