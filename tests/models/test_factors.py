from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.data.synthetic import World
from recaudit.errors import InputError
from recaudit.models import ALS, AlsSolve, BiasedMF, FactorModel, FittedModel, SgdStep, TopPop, from_factors
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
        scores = model.scores(np.arange(data.n_users)).numpy()
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


def refit_user(model: FactorModel, user: int, ratings: dict[int, float]) -> np.ndarray:
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
def test_als_response_is_a_true_refit_of_the_user(model: FactorModel, update: AlsSolve, which: str) -> None:
    model = model.with_update(update)
    user = 3
    seen, ratings = model.data.history(user)
    unseen = np.setdiff1d(np.arange(model.data.n_items), seen)
    items = {"history": seen[:3], "unseen": unseen[:3], "mixed": np.array([seen[1], unseen[2], seen[4]])}[which]
    action = np.array([1.0, 4.5, 2.0])
    response = model.respond(user, user, items.astype(np.int64))
    edited = dict(zip(seen.tolist(), ratings.tolist(), strict=True)) | dict(zip(items.tolist(), action, strict=True))
    np.testing.assert_allclose(response.scores(action).numpy(), refit_user(model, user, edited), atol=1e-9)


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
    expected = model.scores(np.array([viewer]))[0].numpy().copy()
    expected[item] = model.mean + model.user_bias[viewer] + model.item_bias[item] + model.user_factors[viewer] @ q
    np.testing.assert_allclose(response.scores(np.array([2.0])), expected, atol=1e-9)


def test_arrays_become_a_model(tiny: Interactions) -> None:
    P, Q = np.array([[1.0], [2.0], [0.0]]), np.array([[1.0], [0.5], [-1.0], [2.0]])
    model = from_factors(P, Q, tiny, user_bias=[0, 0, 1], item_bias=[0, 0, 0, 0.5], mean=3, predicts_ratings=True)
    expected = [[4, 3.5, 2, 5.5], [5, 4, 1, 7.5], [4, 4, 4, 4.5]]
    np.testing.assert_allclose(model.scores(np.arange(3)), expected)
    assert model.predict(np.array([1]), np.array([3])).tolist() == [5.0]  # clipped to the scale


class TestScoresThatAreRatings:
    """Where nothing is said, scores count as ratings if they beat the mean rating on the log's own pairs."""

    def test_a_fitted_factorisation_of_ratings(self, world: World) -> None:
        fitted = ALS(factors=4, iterations=4).fit(world.data)
        P, Q, f, g = fitted.user_factors, fitted.item_factors, fitted.user_bias, fitted.item_bias
        assert from_factors(P, Q, world.data, user_bias=f, item_bias=g, mean=fitted.mean).predicts_ratings

    def test_scores_of_another_scale(self, world: World) -> None:
        fitted = ALS(factors=4, iterations=4).fit(world.data)
        assert not from_factors(10 * fitted.user_factors, fitted.item_factors, world.data, mean=3.0).predicts_ratings
        assert not from_factors(fitted.user_factors, fitted.item_factors, world.data, mean=-20.0).predicts_ratings

    @pytest.mark.parametrize("constant", [0.0, 0.3])
    def test_the_mean_itself_proves_nothing(self, world: World, constant: float) -> None:
        P, Q = np.full((world.data.n_users, 2), constant), np.full((world.data.n_items, 2), constant)
        mean = float(world.data.ratings.mean()) - 2 * constant**2
        assert not from_factors(P, Q, world.data, mean=mean).predicts_ratings

    def test_a_log_of_one_rating_has_none_to_predict(self, tiny: Interactions) -> None:
        ones = replace(tiny, ratings=np.ones(len(tiny)))
        assert not from_factors(np.ones((3, 1)), np.ones((4, 1)), ones).predicts_ratings

    @pytest.mark.parametrize("said", [True, False])
    def test_what_is_said_counts(self, tiny: Interactions, said: bool) -> None:
        assert from_factors(np.ones((3, 1)), np.ones((4, 1)), tiny, predicts_ratings=said).predicts_ratings == said


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
    good: dict[str, object] = {"user_factors": np.ones((3, 2)), "item_factors": np.ones((4, 2))}
    with pytest.raises(InputError, match=message):
        from_factors(data=tiny, **{**good, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize("items", [[1, 1], [-1], [80_000]])
def test_bad_action_items(model: FactorModel, items: list[int]) -> None:
    with pytest.raises(InputError, match="distinct item positions"):
        model.respond(0, 0, np.array(items))
