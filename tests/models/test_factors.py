from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import NextK
from recaudit.models import (
    ALS,
    AlsSolve,
    BiasedMF,
    FactorModel,
    FactorVectors,
    FittedModel,
    FoldInModel,
    SgdStep,
    TopPop,
    from_factors,
)
from recaudit.models.factor import sgd
from recaudit.seeding import derive, generator
from recaudit.testing.models import ModelContract, some_ratings


class TestBiasedMF(ModelContract):
    recommender = BiasedMF(factors=4, epochs=5)


class TestALS(ModelContract):
    recommender = ALS(factors=4, iterations=4)
    rating_again_as_before_changes_nothing = True


class TestALSPlainPenalty(ModelContract):
    recommender = ALS(factors=4, iterations=4, regularization=2.0, per_rating=False)


def rmse(model: FactorModel, test: Interactions) -> float:
    predicted = model.predict(test.users.astype(np.int64), test.items.astype(np.int64))
    return float(np.sqrt(np.mean((predicted - test.ratings) ** 2)))


def checkerboard() -> Interactions:
    """Users like what has their own parity: rank one, so one factor predicts every held-out cell."""
    rows = [(u, i, 5.0 if (u + i) % 2 == 0 else 1.0) for u in range(20) for i in range(20) if (3 * u + 7 * i) % 5]
    return Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row"), scale=(1, 5))


@pytest.mark.parametrize(
    "recommender",
    [
        BiasedMF(factors=2, epochs=300, learning_rate=0.05, regularization=0.001),
        ALS(factors=2, iterations=30, regularization=0.001),
    ],
)
def test_a_checkerboard_is_completed(recommender: ALS | BiasedMF) -> None:
    data = checkerboard()
    model = recommender.fit(data)
    users, items = np.divmod(np.arange(400), 20)
    expected = np.where((users + items) % 2 == 0, 5.0, 1.0)
    np.testing.assert_allclose(model.predict(users, items), expected, atol=0.1)


@pytest.mark.parametrize("recommender", [BiasedMF(factors=8), ALS(factors=8, regularization=0.1)])
def test_it_beats_the_item_means_on_held_out_ratings(recommender: ALS | BiasedMF, split: Split) -> None:
    train, test = split
    count = np.maximum(train.item_counts, 1)
    means = np.bincount(train.items, train.ratings, train.n_items) / count
    baseline = float(np.sqrt(np.mean((means[test.items] - test.ratings) ** 2)))
    assert rmse(recommender.fit(train), test) < 0.95 * baseline


@pytest.mark.parametrize("per_rating", [True, False])
def test_the_objective_of_als_never_rises(split: Split, per_rating: bool) -> None:
    data = split.train
    weight = 0.1 if per_rating else 3.0
    by_user = data.user_counts if per_rating else (data.user_counts > 0)
    by_item = data.item_counts if per_rating else (data.item_counts > 0)

    def objective(model: FactorModel) -> float:
        scores = model.scores(np.arange(data.n_users))
        error = scores[data.users, data.items] - data.ratings
        norms = by_user @ ((model.user_factors**2).sum(1) + model.user_bias**2)
        norms += by_item @ ((model.item_factors**2).sum(1) + model.item_bias**2)
        return float(error @ error + weight * norms)

    values = [
        objective(ALS(factors=5, iterations=n, regularization=weight, per_rating=per_rating).fit(data))
        for n in range(1, 8)
    ]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(values))


def test_each_als_solve_is_the_exact_minimum(split: Split) -> None:
    """The slow readable twin: the users' vectors solve their normal equations."""
    data = split.train
    model = ALS(factors=5, iterations=3, regularization=0.1).fit(data)
    for user in range(0, data.n_users, 17):
        items, ratings = data.history(user)
        Q = model.item_factors[items]
        target = ratings - model.mean - model.user_bias[user] - model.item_bias[items]
        exact = np.linalg.solve(Q.T @ Q + 0.1 * len(items) * np.eye(5), Q.T @ target)
        np.testing.assert_allclose(model.user_factors[user], exact, atol=1e-9)


def slow_epochs(data: Interactions, recommender: BiasedMF, rng: int) -> FactorModel:
    """The slow readable twin of BiasedMF: the same draws, one rating after the other."""
    draw = generator(rng, "biased-mf")
    P = recommender.init_std * draw.standard_normal((data.n_users, recommender.factors))
    Q = recommender.init_std * draw.standard_normal((data.n_items, recommender.factors))
    f, g, mean = np.zeros(data.n_users), np.zeros(data.n_items), float(data.ratings.mean())
    groups = [draw.permutation(count) % 8 for count in (data.n_users, data.n_items)]
    ratings = list(zip(data.users, data.items, data.ratings - mean, strict=True))
    blocks = {(a, b): [row for row in ratings if (groups[0][row[0]], groups[1][row[1]]) == (a, b)] for a, b in BLOCKS}
    for epoch in range(recommender.epochs):
        share = 1 - (1 - recommender.final_rate) * epoch / max(1, recommender.epochs - 1)
        rate, penalty = recommender.learning_rate * share, recommender.regularization
        for turn in draw.permutation(8).tolist():
            for a in range(8):
                block = blocks[a, (a + turn) % 8]
                shuffle(block, derive(rng, "epoch", epoch) + (8 * a + (a + turn) % 8) * 0xD1B54A32D192ED03)
                for u, i, r in reversed(block):
                    error = r - f[u] - g[i] - P[u] @ Q[i]
                    f[u] += rate * (error - penalty * f[u])
                    g[i] += rate * (error - penalty * g[i])
                    P[u], Q[i] = (
                        P[u] + rate * (error * Q[i] - penalty * P[u]),
                        Q[i] + rate * (error * P[u] - penalty * Q[i]),
                    )
    return FactorModel(data, P, Q, f, g, mean, recommender.update)


BLOCKS = [(a, b) for a in range(8) for b in range(8)]


def shuffle(block: list[tuple[int, int, float]], state: int) -> None:
    """Fisher-Yates from the back, with splitmix64."""
    for at in range(len(block) - 1, -1, -1):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        bits = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
        pick = ((bits ^ bits >> 31) >> 11) % (at + 1)
        block[at], block[pick] = block[pick], block[at]


@pytest.mark.parametrize("factors", [1, 6, 7, 20])
@pytest.mark.parametrize("final_rate", [0.1, 1.0])
def test_biased_mf_agrees_with_the_slow_twin(factors: int, final_rate: float) -> None:
    data = some_ratings(1)
    recommender = BiasedMF(factors=factors, epochs=4, learning_rate=0.05, final_rate=final_rate)
    model, slow = recommender.fit(data, rng=5), slow_epochs(data, recommender, 5)
    for name in ("user_factors", "item_factors", "user_bias", "item_bias"):
        np.testing.assert_allclose(getattr(model, name), getattr(slow, name), atol=1e-12)


def test_on_all_cores_or_on_one_biased_mf_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    data, recommender = some_ratings(1), BiasedMF(factors=6, epochs=4)
    alone = recommender.fit(data)
    monkeypatch.setattr(sgd, "_WORTH_SHARING", 0)
    shared = recommender.fit(data)
    np.testing.assert_array_equal(shared.user_factors, alone.user_factors)
    np.testing.assert_array_equal(shared.item_bias, alone.item_bias)


# ---- going on when the log has grown -------------------------------------------------------------------------------

GOING_ON = [
    BiasedMF(factors=6, epochs=40, learning_rate=0.03, final_rate=0.5, update_epochs=15),
    ALS(factors=6, iterations=15, regularization=0.1),
]


@pytest.mark.parametrize("recommender", GOING_ON)
def test_going_on_is_deterministic_and_leaves_the_old_model_alone(recommender: ALS | BiasedMF, split: Split) -> None:
    old = recommender.fit(split.train)
    before = old.scores(np.arange(split.train.n_users))
    grown = recommender.warm_fit(old, split.train, rng=2)
    again = recommender.warm_fit(old, split.train, rng=2)
    assert grown.data is split.train
    np.testing.assert_array_equal(grown.user_factors, again.user_factors)
    np.testing.assert_array_equal(old.scores(np.arange(split.train.n_users)), before)


@pytest.mark.parametrize("recommender", GOING_ON)
def test_new_ratings_are_learned_from_in_a_few_rounds(recommender: ALS | BiasedMF, split: Split) -> None:
    """A model of half the ratings, gone on with all of them, predicts nearly as well as one fitted to all."""
    everything, test = split
    half = everything.subset(np.random.default_rng(0).random(len(everything)) < 0.5)
    old = recommender.fit(half)
    grown, fresh = recommender.warm_fit(old, everything), recommender.fit(everything)
    assert rmse(grown, test) < rmse(old, test) - 0.5 * (rmse(old, test) - rmse(fresh, test))


@pytest.mark.parametrize("recommender", GOING_ON)
def test_who_had_no_ratings_gets_a_vector_when_they_have(recommender: ALS | BiasedMF, split: Split) -> None:
    data = split.train
    old = recommender.fit(data.subset((data.users != 3) & (data.items != 7)))
    assert not old.user_factors[3].any()
    assert not old.item_factors[7].any()
    grown = recommender.warm_fit(old, data)
    assert grown.user_factors[3].any()
    assert grown.item_factors[7].any()


def test_going_on_with_als_over_the_same_log_is_doing_more_rounds(split: Split) -> None:
    data = split.train
    short = ALS(factors=5, iterations=4, regularization=0.1, update_iterations=3)
    grown = short.warm_fit(short.fit(data), data)
    long = short.model_copy(update={"iterations": 7}).fit(data)
    np.testing.assert_allclose(grown.user_factors, long.user_factors, atol=1e-12)


@pytest.mark.parametrize("recommender", GOING_ON)
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda data: TopPop().fit(data), "a PopularityModel"),
        (lambda data: ALS(factors=3, iterations=1).fit(data), "a model with 3 factors; expected.*6 factors"),
        (lambda data: ALS(factors=6, iterations=1).fit(checkerboard()), "a model of other users or items"),
    ],
)
def test_a_model_of_another_kind_is_refused(
    recommender: ALS | BiasedMF, other: Callable[[Interactions], FittedModel], message: str
) -> None:
    data = some_ratings(0)
    with pytest.raises(InputError, match=f"model: received {message}"):
        recommender.warm_fit(other(data), data)


def test_a_step_that_diverges_is_an_error_not_a_model(split: Split) -> None:
    with pytest.raises(InputError, match=r"learning_rate.*diverged"):
        BiasedMF(factors=4, learning_rate=5.0, epochs=10).fit(split.train)


@pytest.fixture(scope="module")
def model(split: Split) -> FactorModel:
    return ALS(factors=5, iterations=5, regularization=0.1).fit(split.train)


def refit_user(model: FoldInModel, user: int, ratings: dict[int, float]) -> np.ndarray:
    """Scores after truly solving the user's vector for an edited history, everything else held."""
    items = np.array(sorted(ratings))
    Q, level = model.item_factors, model.mean + model.user_bias[user]
    target = np.array([ratings[item] for item in items]) - level - model.item_bias[items]
    assert isinstance(model.update, AlsSolve)
    penalty = model.update.regularization * (len(items) if model.update.per_rating else 1)
    stacked = np.vstack([Q[items], np.sqrt(penalty) * np.eye(Q.shape[1])])
    p = np.linalg.lstsq(stacked, np.concatenate([target, np.zeros(Q.shape[1])]), rcond=None)[0]
    return np.asarray(Q @ p + level + model.item_bias)


@pytest.mark.parametrize("update", [AlsSolve(regularization=0.1, per_rating=True), AlsSolve(regularization=2.0)])
@pytest.mark.parametrize("which", ["history", "unseen", "mixed"])
def test_als_response_is_a_true_refit_of_the_user(model: FoldInModel, update: AlsSolve, which: str) -> None:
    model = model.with_update(update)
    user = 3
    seen, ratings = model.data.history(user)
    unseen = np.setdiff1d(np.arange(model.data.n_items), seen)
    items = {"history": seen[:3], "unseen": unseen[:3], "mixed": np.array([seen[1], unseen[2], seen[4]])}[which]
    action = np.array([1.0, 4.5, 2.0])
    response = model.respond(user, user, items.astype(np.int64))
    edited = dict(zip(seen.tolist(), ratings.tolist(), strict=True)) | dict(zip(items.tolist(), action, strict=True))
    np.testing.assert_allclose(response.scores(action), refit_user(model, user, edited), atol=1e-9)


def test_sgd_response_is_the_negative_gradient(model: FactorModel) -> None:
    """The step equals -step times the numerical gradient of half the squared error plus penalty at p_u."""
    user, items, action = 2, np.array([1, 5, 9]), np.array([2.0, 5.0, 3.0])
    update = SgdStep(step=0.05, regularization=0.3)
    level = model.mean + model.user_bias[user] + model.item_bias[items]

    def loss(p: np.ndarray) -> float:
        error = action - level - model.item_factors[items] @ p
        return float(0.5 * error @ error + 0.5 * 0.3 * p @ p)

    p = model.user_factors[user]
    gradient = np.array([(loss(p + h) - loss(p - h)) / 2e-6 for h in 1e-6 * np.eye(len(p))])
    moved = replace(model, user_factors=np.tile(p - 0.05 * gradient, (model.data.n_users, 1)))
    response = model.with_update(update).respond(user, user, items)
    np.testing.assert_allclose(response.scores(action), moved.scores(np.array([user]))[0], atol=1e-7)


@pytest.mark.parametrize("update", [SgdStep(), AlsSolve(regularization=0.5)])
@pytest.mark.parametrize(("viewer", "editor"), [(4, 4), (4, 9)])
def test_slope_is_the_finite_difference(
    model: FactorModel, update: SgdStep | AlsSolve, viewer: int, editor: int
) -> None:
    items = np.array([0, 3, 11])
    response = model.with_update(update).respond(viewer, editor, items)
    base = np.array([3.0, 2.0, 4.0])
    for column in range(3):
        up, down = base.copy(), base.copy()
        up[column] += 0.5
        down[column] -= 0.5
        difference = response.scores(up) - response.scores(down)
        np.testing.assert_allclose(response.slope[:, column], difference, atol=1e-12)


def test_anothers_edits_resolve_the_item_and_move_nothing_else(model: FactorModel) -> None:
    viewer, editor, update = 4, 9, AlsSolve(regularization=0.5)
    data = model.data
    item = int(data.history(editor)[0][2])
    response = model.with_update(update).respond(viewer, editor, np.array([item]))
    assert model.others_move == "rated items"
    raters = [u for u in range(data.n_users) if item in data.history(u)[0]]
    ratings = [2.0 if u == editor else float(data.csr[u, item]) for u in raters]
    P = model.user_factors[raters]
    target = np.array(ratings) - model.mean - model.user_bias[raters] - model.item_bias[item]
    q = np.linalg.solve(P.T @ P + 0.5 * np.eye(5), P.T @ target)
    expected = model.scores(np.array([viewer]))[0].copy()
    expected[item] = model.mean + model.user_bias[viewer] + model.item_bias[item] + model.user_factors[viewer] @ q
    np.testing.assert_allclose(response.scores(np.array([2.0])), expected, atol=1e-9)


def test_arrays_become_a_model(tiny: Interactions) -> None:
    P, Q = np.array([[1.0], [2.0], [0.0]]), np.array([[1.0], [0.5], [-1.0], [2.0]])
    model = from_factors(P, Q, tiny, user_bias=[0, 0, 1], item_bias=[0, 0, 0, 0.5], mean=3, predicts_ratings=True)
    expected = [[4, 3.5, 2, 5.5], [5, 4, 1, 7.5], [4, 4, 4, 4.5]]
    np.testing.assert_allclose(model.scores(np.arange(3)), expected)
    assert model.predict(np.array([1]), np.array([3])).tolist() == [5.0]  # clipped to the scale


class TestArraysWithIds:
    """Rows in the library's own order, and the ids that say which is whose."""

    P, Q = np.arange(6.0).reshape(3, 2), np.arange(8.0).reshape(4, 2)

    def test_rows_in_any_order_are_the_same_model(self, tiny: Interactions) -> None:
        users, items = [2, 0, 1], [3, 1, 0, 2]
        straight = from_factors(
            self.P, self.Q, tiny, item_bias=[1, 2, 3, 4], user_bias=[5, 6, 7], predicts_ratings=False
        )
        shuffled = from_factors(
            self.P[users],
            self.Q[items],
            tiny,
            user_bias=np.array([5, 6, 7])[users],
            item_bias=np.array([1, 2, 3, 4])[items],
            user_ids=tiny.user_ids.gather(users),
            item_ids=tiny.item_ids.gather(items).to_numpy(),
            predicts_ratings=False,
        )
        np.testing.assert_array_equal(shuffled.scores(np.arange(3)), straight.scores(np.arange(3)))

    def test_rows_that_the_log_does_not_know_are_left_out(self, tiny: Interactions) -> None:
        ids = [*tiny.user_ids.to_list(), "somebody else"]
        more = from_factors(np.vstack([self.P, [9, 9]]), self.Q, tiny, user_ids=ids, predicts_ratings=False)
        np.testing.assert_array_equal(more.user_factors, self.P)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda ids: ids[:2], "user_ids: received no row for .* \\(1 of 3 ids"),
            (lambda ids: [*ids[:2], ids[0]], "user_ids: received .* more than once"),
            (lambda ids: [1, 2, 3], "user_ids: received 1, an id of type int"),
        ],
    )
    def test_ids_that_do_not_fit_are_named(
        self, tiny: Interactions, change: Callable[[list[str]], list[object]], message: str
    ) -> None:
        ids = change(tiny.user_ids.to_list())
        with pytest.raises(InputError, match=message):
            from_factors(self.P[: len(ids)], self.Q, tiny, user_ids=ids, predicts_ratings=False)


class TestNoRule:
    """Vectors alone do not say how new ratings move them."""

    @pytest.fixture
    @classmethod
    def vectors(cls, tiny: Interactions) -> FactorVectors:
        return from_factors(np.ones((3, 1)), np.arange(4.0)[:, None], tiny, predicts_ratings=False)

    def test_what_needs_a_rule_is_refused_and_the_choices_are_named(self, vectors: FactorVectors) -> None:
        told = r"SgdStep\(step=\.\.\.\).*AlsSolve\(regularization"
        with pytest.raises(NotSupportedError, match=told):
            ra.reachability(vectors, actions=NextK(1))
        with pytest.raises(NotSupportedError, match=told):
            ra.instability(vectors, edits=NextK(1))

    def test_what_needs_none_is_answered(self, vectors: FactorVectors) -> None:
        assert ra.exposure(vectors, k=1).frame["value"].is_not_null().any()

    def test_a_rule_can_be_given_later_and_is_named(self, vectors: FactorVectors) -> None:
        result = ra.reachability(vectors.with_update(SgdStep(step=0.25)), actions=NextK(1))
        assert "gradient step" in result.settings["rule"]
        assert "0.25" in result.settings["rule"]
        assert "hand in model.with_recommender(recommender)" in result.summary()


class TestRulesThatMoveBiases:
    """Against plain loops, one user and one item at a time."""

    @pytest.fixture
    @classmethod
    def arrays(cls) -> tuple[np.ndarray, ...]:
        draw = np.random.default_rng(0)
        return draw.normal(size=(30, 3)), draw.normal(size=(20, 3)), 0.1 * draw.normal(size=30), draw.normal(size=20)

    items, given = np.array([3, 7, 1]), np.array([5.0, 1.0, 4.0])

    def model(self, arrays: tuple[np.ndarray, ...], update: SgdStep | AlsSolve) -> FactorVectors:
        P, Q, f, g = arrays
        known = {"user_bias": f, "item_bias": g, "mean": 3.0, "update": update, "predicts_ratings": True}
        return from_factors(P, Q, some_ratings(0), **known)  # type: ignore[arg-type]

    @pytest.mark.parametrize("in_turn", [True, False])
    def test_gradient_steps(self, arrays: tuple[np.ndarray, ...], in_turn: bool) -> None:
        rule = SgdStep(step=0.05, regularization=0.1, bias_step=0.03, bias_regularization=0.2, in_turn=in_turn)
        P, Q, f, g = arrays
        p, b = P[4].copy(), f[4]
        before = [r - (3 + b + g[i] + p @ Q[i]) for i, r in zip(self.items, self.given, strict=True)]
        moved = (1 - 0.05 * 0.1) * p + 0.05 * sum(e * Q[i] for e, i in zip(before, self.items, strict=True))
        level = (1 - 0.03 * 0.2) * b + 0.03 * sum(before)
        if in_turn:
            for i, r in zip(self.items, self.given, strict=True):
                error = r - (3 + b + g[i] + p @ Q[i])
                p, b = p + 0.05 * (error * Q[i] - 0.1 * p), b + 0.03 * (error - 0.2 * b)
            moved, level = p, b
        response = self.model(arrays, rule).respond(4, 4, self.items)
        np.testing.assert_allclose(response.scores(self.given), 3 + level + g + Q @ moved, atol=1e-12)
        if in_turn:
            followed = self.model(arrays, rule).rollout(4)
            for item in self.items:
                followed = followed.then(int(item))
            slope, intercept = followed.affine()
            np.testing.assert_allclose(slope @ self.given + intercept, 3 + level + g + Q @ moved, atol=1e-12)

    def test_another_users_gradient_step_moves_the_items_bias(self, arrays: tuple[np.ndarray, ...]) -> None:
        rule = SgdStep(step=0.05, regularization=0.1, bias_step=0.03, bias_regularization=0.2)
        P, Q, f, g = arrays
        error = 4.0 - (3 + f[9] + g[5] + P[9] @ Q[5])
        q, b = Q[5] + 0.05 * (error * P[9] - 0.1 * Q[5]), g[5] + 0.03 * (error - 0.2 * g[5])
        expected, model = 3 + f[2] + b + P[2] @ q, self.model(arrays, rule)
        edited = model.edited_items(np.array([9]), np.array([[5]]), np.array([[[4.0]]]))
        assert edited.scores(np.array([2])).item() == pytest.approx(expected, abs=1e-12)
        response = model.respond(2, 9, np.array([5]))
        assert response.scores(np.array([4.0]))[5] == pytest.approx(expected, abs=1e-12)

    def test_a_solve_that_estimates_the_bias_anew(self, arrays: tuple[np.ndarray, ...]) -> None:
        _, Q, _, g = arrays
        model = self.model(arrays, AlsSolve(regularization=0.5, bias_damping=5.0))
        seen, ratings = model.data.history(4)
        kept = ~np.isin(seen, self.items)
        rated, values = np.append(seen[kept], self.items), np.append(ratings[kept], self.given)
        bias = (values - 3 - g[rated]).sum() / (len(rated) + 5)
        X = Q[rated]
        p = np.linalg.solve(X.T @ X + 0.5 * np.eye(3), X.T @ (values - 3 - g[rated] - bias))
        response = model.respond(4, 4, self.items)
        np.testing.assert_allclose(response.scores(self.given), 3 + bias + g + Q @ p, atol=1e-12)
        with pytest.raises(NotSupportedError, match="items stay until the next training"):
            model.respond(4, 5, self.items)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"user_factors": np.ones((2, 2))},
            r"user_factors: received an array of shape \(2, 2\); expected shape \(3",
        ),
        ({"item_factors": np.ones((4, 3))}, r"item_factors.*expected shape \(4, 2\)"),
        ({"item_factors": np.full((4, 2), np.nan)}, r"item_factors.*8 values.*first at \[0, 0\]"),
        ({"user_bias": np.ones(4)}, r"user_bias.*expected shape \(3,\)"),
        ({"mean": float("inf")}, "mean"),
    ],
)
def test_bad_arrays_are_named(tiny: Interactions, change: dict[str, object], message: str) -> None:
    good: dict[str, object] = {
        "user_factors": np.ones((3, 2)),
        "item_factors": np.ones((4, 2)),
        "predicts_ratings": False,
    }
    with pytest.raises(InputError, match=message):
        from_factors(data=tiny, **{**good, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize("items", [[1, 1], [-1], [80_000]])
def test_bad_action_items(model: FactorModel, items: list[int]) -> None:
    with pytest.raises(InputError, match="distinct item positions"):
        model.respond(0, 0, np.array(items))
