from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import numba
import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

import recaudit as ra
from recaudit import machine
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.errors import InputError, MachineError, NotSupportedError
from recaudit.models.base import Recommender
from recaudit.models.baseline.popularity import TopPop
from recaudit.models.given.arrays import from_weights
from recaudit.models.linear.model import EASE, SLIM, Center, LinearModel
from recaudit.models.linear.weights import UserKernel
from recaudit.testing.models import ITEMS, USERS, ModelContract, some_ratings

Array = NDArray[np.float64]


class TestEASE(ModelContract):
    recommender = EASE()
    rating_again_as_before_changes_nothing = True


class TestEASECentred(ModelContract):
    recommender = EASE(regularization=10.0, center="item")
    rating_again_as_before_changes_nothing = True


class TestEASEOfSomeItems(ModelContract):
    recommender = EASE(items=12)
    rating_again_as_before_changes_nothing = True


class TestEASEOfSomeItemsCentred(ModelContract):
    recommender = EASE(regularization=10.0, center="item", items=12)
    rating_again_as_before_changes_nothing = True


class ThroughUsers(Recommender):
    """EASE solved through the users, however many there are."""

    regularization: float = 5000.0
    center: Center = "none"

    def fit(self, data: Interactions, rng: int = 0) -> LinearModel:
        items = EASE(regularization=self.regularization, center=self.center).fit(data)
        X = sparse.csr_array(design(data, self.center))
        return replace(items, held=UserKernel.of(X, self.regularization))


class TestEASEThroughUsers(ModelContract):
    recommender = ThroughUsers()
    rating_again_as_before_changes_nothing = True


class TestEASEThroughUsersCentred(ModelContract):
    recommender = ThroughUsers(regularization=10.0, center="item")
    rating_again_as_before_changes_nothing = True


class TestSLIM(ModelContract):
    recommender = SLIM()
    rating_again_as_before_changes_nothing = True


class TestSLIMCentredSigned(ModelContract):
    recommender = SLIM(l1=0.5, l2=2.0, center="item", nonnegative=False)
    rating_again_as_before_changes_nothing = True


def design(data: Interactions, center: Center) -> Array:
    """(users, items): the X that the weights are fitted to."""
    X = np.zeros((data.n_users, data.n_items))
    X[data.users, data.items] = data.ratings
    if center == "item":
        X -= np.where(X != 0, X.sum(axis=0) / np.maximum((X != 0).sum(axis=0), 1), 0)
    return X


# Two items, rated (3, 4, 0) and (1, 2, 5): X^T X = [[25, 11], [11, 30]].
PAIR = Interactions.from_frame(
    pl.DataFrame({"user": [0, 0, 1, 1, 2], "item": ["a", "b", "a", "b", "b"], "rating": [3.0, 1.0, 4.0, 2.0, 5.0]})
)


def test_ease_by_hand() -> None:
    """With two items a column is one ridge regression: the product over the squares plus the penalty."""
    model = EASE(regularization=5.0).fit(PAIR)
    np.testing.assert_allclose(model.weights, [[0, 11 / 30], [11 / 35, 0]])
    np.testing.assert_allclose(model.scores(np.array([1])), [[2 * 11 / 35, 4 * 11 / 30]])


@pytest.mark.parametrize("center", ["none", "item"])
def test_ease_is_a_ridge_regression_of_each_item_on_the_others(center: Center) -> None:
    data = some_ratings(1)
    X = design(data, center)
    weights = EASE(regularization=7.0, center=center).fit(data).weights
    for i in range(ITEMS):
        others = np.delete(np.arange(ITEMS), i)
        ridge = np.linalg.solve(X[:, others].T @ X[:, others] + 7.0 * np.eye(ITEMS - 1), X[:, others].T @ X[:, i])
        np.testing.assert_allclose(weights[others, i], ridge, atol=1e-10)
        assert weights[i, i] == 0


def test_ease_of_as_many_items_as_there_are_is_ease() -> None:
    data = some_ratings(2)
    whole, same = EASE().fit(data), EASE(items=ITEMS).fit(data)
    np.testing.assert_array_equal(same.weights, whole.weights)


def test_a_catalogue_too_large_for_memory_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 1000)
    with pytest.raises(MachineError, match="items = 10"):
        EASE().fit(some_ratings(2))


def test_ease_by_hand_with_more_items_than_users() -> None:
    """One user, ratings (3, 4), penalty 5: the weights are 12 / (9 + 5) and 12 / (16 + 5)."""
    one = Interactions.from_frame(pl.DataFrame({"user": [0, 0], "item": ["a", "b"], "rating": [3.0, 4.0]}))
    model = EASE(regularization=5.0).fit(one)
    np.testing.assert_allclose(model.weights, [[0, 12 / 14], [12 / 21, 0]])
    np.testing.assert_allclose(model.scores(np.array([0])), [[4 * 12 / 21, 3 * 12 / 14]])


def wide(seed: int) -> Interactions:
    """12 users, 70 items, some of them without ratings."""
    draw = np.random.default_rng(seed)
    users, items = np.divmod(np.arange(12 * 70), 70)
    rated = (draw.random(len(users)) < 0.3) | (users == items % 12) | (items == 69)
    cells = pl.DataFrame({"user": users, "item": items, "rating": draw.integers(1, 6, len(users)).astype(float)})
    data = Interactions.from_frame(cells.filter(pl.Series(rated)), scale=(1, 5))
    return data.subset(~np.isin(data.items, [3, 40]))


@pytest.mark.parametrize("center", ["none", "item"])
@pytest.mark.parametrize("make", [some_ratings, wide], ids=["by items", "by users"])
def test_ease_of_some_items_is_ease_of_a_log_with_these_alone(
    make: Callable[[int], Interactions], center: Center
) -> None:
    data = make(1)
    counts = data.item_counts
    chosen = sorted(sorted(range(data.n_items), key=lambda item: (-counts[item], item))[:9])
    model = EASE(regularization=7.0, center=center, items=9).fit(data)
    X = design(data, center)[:, chosen]
    P = np.linalg.inv(X.T @ X + 7.0 * np.eye(9))
    W = -P / np.diag(P)
    np.fill_diagonal(W, 0)
    everybody = np.arange(data.n_users)
    scores = model.scores(everybody)
    np.testing.assert_allclose(scores[:, chosen], model.offset[chosen] + X @ W, atol=1e-9)
    np.testing.assert_allclose(model.weights[np.ix_(chosen, chosen)], W, atol=1e-9)
    others = np.setdiff1d(np.arange(data.n_items), chosen)
    assert not model.weights[others].any()
    assert not model.weights[:, others].any()
    assert np.flatnonzero(model.may_show(scores).any(axis=0)).tolist() == chosen
    listed = ra.recommend(model, n=data.n_items)["item"].unique()
    assert set(listed) <= set(data.item_ids.gather(chosen))
    response = model.respond(3, 3, np.array([chosen[0], others[0]]))
    assert not response.slope[others].any()
    assert not response.slope[:, 1].any()


@pytest.mark.parametrize("center", ["none", "item"])
@pytest.mark.parametrize("regularization", [0.01, 7.0, 5000.0])
def test_fewer_users_than_items_change_the_way_and_not_the_weights(center: Center, regularization: float) -> None:
    """The readable twin: the items' matrix, inverted as the paper writes it."""
    data = wide(3)
    X = design(data, center)
    P = np.linalg.inv(X.T @ X + regularization * np.eye(data.n_items))
    W = -P / np.diag(P)
    np.fill_diagonal(W, 0)
    model = EASE(regularization=regularization, center=center).fit(data)
    np.testing.assert_allclose(model.weights, W, atol=1e-9)
    np.testing.assert_allclose(model.scores(np.arange(12)), model.offset + X @ W, atol=1e-9)


@pytest.mark.parametrize("center", ["none", "item"])
def test_a_penalty_near_zero_gives_finite_scores(center: Center) -> None:
    """A user's only item, rated by nobody else: what the other items leave of it is nearly nothing."""
    data = wide(4)
    lonely = data.subset((data.users != 5) & (data.items != 69) | (data.users == 5) & (data.items == 69))
    model = EASE(regularization=1e-14, center=center).fit(lonely)
    assert np.isfinite(model.scores(np.arange(12))).all()
    assert np.isfinite(model.weights).all()
    assert (model.weights[69] == 0).all()


@pytest.mark.parametrize("data", [some_ratings(2), wide(5)], ids=["by items", "by users"])
def test_the_thread_count_changes_no_number(data: Interactions, one_thread_after: Callable[[], None]) -> None:
    model = EASE(regularization=10.0).fit(data)
    scores, weights = model.scores(np.arange(data.n_users)), model.weights
    one_thread_after()
    again = EASE(regularization=10.0).fit(data)
    np.testing.assert_array_equal(again.scores(np.arange(data.n_users)), scores)
    np.testing.assert_array_equal(again.weights, weights)


@pytest.fixture
def one_thread_after() -> Iterator[Callable[[], None]]:
    """A function after whose call one thread computes."""
    before = numba.get_num_threads()
    with ExitStack() as limits:

        def alone() -> None:
            limits.enter_context(threadpool_limits(limits=1))
            numba.set_num_threads(1)

        yield alone
    numba.set_num_threads(before)


@pytest.mark.parametrize(
    ("l1", "l2", "expected"),
    [
        (0.0, 0.0, [[0, 11 / 25], [11 / 30, 0]]),
        (1.0, 5.0, [[0, 10 / 30], [10 / 35, 0]]),
        (11.0, 0.0, [[0, 0], [0, 0]]),
    ],
)
def test_slim_by_hand(l1: float, l2: float, expected: list[list[float]]) -> None:
    """With two items a column is soft thresholding: (11 - l1) / (25 + l2) and (11 - l1) / (30 + l2)."""
    np.testing.assert_allclose(SLIM(l1=l1, l2=l2).fit(PAIR).weights, expected)


@pytest.mark.parametrize("center", ["none", "item"])
@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize(("l1", "l2"), [(3.0, 1.0), (0.0, 5.0), (6.0, 0.0)])
def test_slim_meets_the_optimality_conditions(l1: float, l2: float, nonnegative: bool, center: Center) -> None:
    """The objective is convex: these conditions are sufficient, and they do not ask how W was found."""
    data = some_ratings(2)
    X = design(data, center)
    W = SLIM(l1=l1, l2=l2, nonnegative=nonnegative, center=center, tolerance=1e-12, max_iter=100_000).fit(data).weights
    gradient = X.T @ (X @ W - X) + l2 * W
    off_diagonal = ~np.eye(ITEMS, dtype=bool)
    assert (np.diag(W) == 0).all()
    active = (W != 0) & off_diagonal
    assert active.any()
    np.testing.assert_allclose(gradient[active], -l1 * np.sign(W[active]), atol=1e-7)
    still = (W == 0) & off_diagonal
    if nonnegative:
        assert (W >= 0).all()
        assert (gradient[still] >= -l1 - 1e-7).all()
    else:
        assert (W < 0).any()
        assert (np.abs(gradient[still]) <= l1 + 1e-7).all()


def test_slim_without_sparsity_or_sign_is_ease() -> None:
    data = some_ratings(3)
    slim = SLIM(l1=0, l2=30.0, nonnegative=False, tolerance=1e-12, max_iter=100_000).fit(data)
    np.testing.assert_allclose(slim.weights, EASE(regularization=30.0).fit(data).weights, atol=1e-8)


def test_slim_says_when_it_has_not_settled() -> None:
    with pytest.warns(RuntimeWarning, match=r"SLIM: the weights of \d+ of 20 items did not settle in max_iter=1"):
        SLIM(l1=0, l2=0, max_iter=1).fit(some_ratings(4))


@pytest.mark.parametrize("recommender", [EASE, SLIM])
def test_only_centred_scores_predict_ratings(recommender: type[EASE | SLIM]) -> None:
    assert not recommender(center="none").fit(PAIR).predicts_ratings
    assert recommender(center="item").fit(PAIR).predicts_ratings


@pytest.mark.parametrize("recommender", [EASE(regularization=100.0, center="item"), SLIM(center="item", l1=3, l2=50)])
def test_centred_it_beats_the_item_means_on_held_out_ratings(recommender: EASE | SLIM, split: Split) -> None:
    train, test = split
    users, items = test.users.astype(np.int64), test.items.astype(np.int64)

    def rmse(fitting: EASE | SLIM | TopPop) -> float:
        return float(np.sqrt(np.mean((fitting.fit(train).predict(users, items) - test.ratings) ** 2)))

    assert rmse(recommender) < rmse(TopPop(by="mean"))


# ---- models from weights -----------------------------------------------------------------------------------------

# What a rating of the row's item adds to the score of the column's item.
WEIGHTS = np.array([[0.0, 0.5, 0.0, 1.0], [0.25, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, -1.0], [0.0, 0.0, 2.0, 0.0]])
# The ratings of ada, bob and cem in `tiny`: (5, 3, 1, -), (2, 4, -, -), (-, -, -, 5).


def test_scores_are_ratings_times_weights(tiny: Interactions) -> None:
    model = from_weights(WEIGHTS, tiny, predicts_ratings=False)
    expected = np.array([[0.75, 2.5, 0, 4], [1, 1, 0, 2], [0, 0, 10, 0]])
    np.testing.assert_allclose(model.scores(np.arange(3)), expected)
    assert model.predict(np.array([2]), np.array([2])).tolist() == [10.0]


def test_an_offset_is_taken_off_ratings_and_added_to_scores(tiny: Interactions) -> None:
    model = from_weights(WEIGHTS, tiny, offset=[1, 2, 1, 3], predicts_ratings=True)
    expected = np.array([[1 + 0.25, 2 + 2, 1, 3 + 4], [1 + 0.5, 2 + 0.5, 1, 3 + 1], [1, 2, 1 + 4, 3]])
    np.testing.assert_allclose(model.scores(np.arange(3)), expected)
    assert model.predict(np.array([0]), np.array([3])).tolist() == [5.0]  # clipped to the scale


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, np.asfortranarray, list])
def test_any_form_of_weights_will_do(tiny: Interactions, form: type) -> None:
    expected = from_weights(WEIGHTS, tiny, predicts_ratings=False).scores(np.arange(3))
    np.testing.assert_array_equal(
        from_weights(form(WEIGHTS), tiny, predicts_ratings=False).scores(np.arange(3)), expected
    )


def test_changing_your_array_later_changes_no_model(tiny: Interactions) -> None:
    mine = WEIGHTS.copy()
    model = from_weights(mine, tiny, predicts_ratings=False)
    mine[:] = 9
    np.testing.assert_array_equal(model.weights, WEIGHTS)


def test_bad_weights_are_named(tiny: Interactions) -> None:
    with pytest.raises(InputError, match=r"weights: received an array of shape \(3, 4\); expected shape \(4, 4\)"):
        from_weights(WEIGHTS[:3], tiny, predicts_ratings=False)
    with pytest.raises(InputError, match=r"weights: received 1 values that are NaN or infinite, the first at \[2, 3\]"):
        from_weights(np.where(WEIGHTS < 0, np.nan, WEIGHTS), tiny, predicts_ratings=False)
    with pytest.raises(InputError, match=r"offset: received an array of shape \(2,\)"):
        from_weights(WEIGHTS, tiny, offset=[1, 2], predicts_ratings=False)


def test_more_items_than_one_tile_agree_with_a_matrix_product() -> None:
    draw = np.random.default_rng(5)
    cells = pl.DataFrame({"user": np.repeat(np.arange(9), 200), "item": np.tile(np.arange(200), 9)})
    cells = cells.with_columns(rating=pl.Series(draw.uniform(1, 5, 1800))).filter(pl.Series(draw.random(1800) < 0.4))
    data = Interactions.from_frame(cells)
    W, offset = draw.normal(size=(data.n_items, data.n_items)), draw.normal(size=data.n_items)
    R = data.csr.toarray()
    expected = offset + np.where(R != 0, R - offset, 0) @ W
    np.testing.assert_allclose(
        from_weights(W, data, offset=offset, predicts_ratings=False).scores(np.arange(9)), expected, atol=1e-10
    )


# ---- responses -----------------------------------------------------------------------------------------------------


def rescored(model: LinearModel, ratings: dict[int, float]) -> Array:
    """Scores of all items from an edited history, item by item, with the weights held."""
    W, offset = model.weights, model.offset
    return np.array([offset[i] + sum((r - offset[j]) * W[j, i] for j, r in ratings.items()) for i in range(len(W))])


@pytest.fixture(scope="module", params=["EASE", "EASE, by users", "SLIM, centred", "weights with a diagonal"])
def model(request: pytest.FixtureRequest) -> LinearModel:
    data = some_ratings(6)
    if request.param == "EASE":
        return EASE(regularization=5.0).fit(data)
    if request.param == "EASE, by users":
        return ThroughUsers(regularization=5.0, center="item").fit(data)
    if request.param == "SLIM, centred":
        return SLIM(l1=1.0, l2=1.0, center="item").fit(data)
    draw = np.random.default_rng(7)
    return from_weights(draw.normal(size=(ITEMS, ITEMS)), data, offset=draw.normal(size=ITEMS), predicts_ratings=False)


@pytest.mark.parametrize("which", ["history", "unseen", "mixed", "all of the history", "nothing"])
def test_a_response_is_a_true_rescoring_of_the_edited_history(model: LinearModel, which: str) -> None:
    for user in (0, 5, 21):
        history, ratings = model.data.history(user)
        seen = history.astype(np.int64)
        unseen = np.setdiff1d(np.arange(ITEMS), seen)
        items = {
            "history": seen[:3],
            "unseen": unseen[:3],
            "mixed": np.array([seen[1], unseen[0], seen[3]]),
            "all of the history": seen,
            "nothing": seen[:0],
        }[which]
        factual = dict(zip(seen.tolist(), ratings.tolist(), strict=True))
        response = model.respond(user, user, items)
        action = np.random.default_rng(user).uniform(1, 5, len(items))
        edited = rescored(model, factual | dict(zip(items.tolist(), action, strict=True)))
        np.testing.assert_allclose(response.scores(action), edited, atol=1e-10)
        for column, item in enumerate(items.tolist()):
            up = rescored(model, factual | dict(zip(items.tolist(), action, strict=True)) | {item: action[column] + 1})
            np.testing.assert_allclose(response.slope[:, column], up - edited, atol=1e-10)


def test_a_user_without_history_can_act() -> None:
    data = some_ratings(8)
    model = EASE(regularization=10.0, center="item").fit(data.subset(data.users != 3))
    response = model.respond(3, 3, np.array([2, 8]))
    np.testing.assert_allclose(response.scores(np.array([1.0, 5.0])), rescored(model, {2: 1.0, 8: 5.0}), atol=1e-10)


def test_anothers_edits_have_no_affine_response() -> None:
    model = EASE().fit(some_ratings(9))
    with pytest.raises(NotSupportedError, match=r"another user's ratings move no score.*viewer == editor"):
        model.respond(0, 1, np.array([2]))


def test_scores_of_unknown_users_are_an_error() -> None:
    with pytest.raises(IndexError):
        EASE().fit(some_ratings(9)).scores(np.array([USERS]))
