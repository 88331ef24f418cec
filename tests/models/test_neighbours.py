from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numba
import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import sparse

from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.errors import NotSupportedError
from recaudit.models.baseline.popularity import TopPop
from recaudit.models.neighbour import similarity
from recaudit.models.neighbour.knn import Center, ItemKNN, ItemKNNModel, UserKNN
from recaudit.models.neighbour.similarity import Similarity, nearest
from recaudit.testing.models import EVERYBODY, ITEMS, ModelContract, some_ratings

CENTERS: tuple[Center, ...] = ("biases", "item", "user", "none")
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "pearson")
Array = NDArray[np.float64]


class TestItemKNN(ModelContract):
    recommender = ItemKNN()
    rating_again_as_before_changes_nothing = True


class TestItemKNNPearsonUncentred(ModelContract):
    recommender = ItemKNN(neighbours=3, similarity="pearson", shrinkage=2.0, center="none", minimum_similarity=-1)
    rating_again_as_before_changes_nothing = True


class TestItemKNNOfRatings(ModelContract):
    recommender = ItemKNN(neighbours=6, shrinkage=0, center="item", damping=0, compared="ratings")
    rating_again_as_before_changes_nothing = True


class TestUserKNN(ModelContract):
    recommender = UserKNN()


class TestUserKNNPearsonByUser(ModelContract):
    recommender = UserKNN(neighbours=5, similarity="pearson", shrinkage=2.0, center="user", damping=0)


def log(table: list[list[float | None]]) -> Interactions:
    """A log from rows of users and columns of items; None where there is no rating."""
    cells = [(u, i, float(r)) for u, row in enumerate(table) for i, r in enumerate(row) if r is not None]
    return Interactions.from_frame(pl.DataFrame(cells, schema=["user", "item", "rating"], orient="row"))


# ---- known answers -------------------------------------------------------------------------------------------

# a = (3, 4), b = (4, 3, 12), c = (3, 4) of the users who rated them: norms 5, 13 and 5.
TRIANGLES = log([[3, 4, None], [4, 3, 3], [None, 12, 4]])


def test_cosine_by_hand() -> None:
    weights = ItemKNN(center="none", shrinkage=0).fit(TRIANGLES).weights.toarray()
    ab, ac, bc = 24 / 65, 12 / 25, 57 / 65
    np.testing.assert_allclose(weights, [[0, ab, ac], [ab, 0, bc], [ac, bc, 0]])


def test_cosine_shrinkage_is_added_to_the_norms() -> None:
    weights = ItemKNN(center="none", shrinkage=15).fit(TRIANGLES).weights.toarray()
    assert weights[0, 1] == pytest.approx(24 / 80)


def test_a_score_is_the_weighted_average_of_the_rated_neighbours() -> None:
    scores = ItemKNN(center="none", shrinkage=0).fit(TRIANGLES).scores(np.array([2]))[0]
    ab, ac = 24 / 65, 12 / 25
    assert scores[0] == pytest.approx((12 * ab + 4 * ac) / (ab + ac))
    assert scores[1] == pytest.approx(4)


def test_a_user_score_is_the_weighted_average_of_the_neighbours_who_rated() -> None:
    # The first user shares a and b with the second (24 / (5 sqrt(34))), and b with the third.
    scores = UserKNN(center="none", shrinkage=0).fit(TRIANGLES).scores(np.array([0]))[0]
    second, third = 24 / (5 * np.sqrt(34)), 48 / (5 * np.sqrt(160))
    assert scores[0] == pytest.approx(4)
    assert scores[2] == pytest.approx((3 * second + 4 * third) / (second + third))


def test_ratings_may_be_compared_as_they_are_and_averaged_centred() -> None:
    """Means 3.5, 19 / 3 and 3.5; of the third user b deviates by 17 / 3, c by 1 / 2."""
    model = ItemKNN(center="item", shrinkage=0, damping=0, compared="ratings").fit(TRIANGLES)
    ab, ac, bc = 24 / 65, 12 / 25, 57 / 65
    np.testing.assert_allclose(model.weights.toarray(), [[0, ab, ac], [ab, 0, bc], [ac, bc, 0]])
    expected = 3.5 + (ab * 17 / 3 + ac / 2) / (ab + ac)
    assert model.scores(np.array([2]))[0, 0] == pytest.approx(expected)
    by_users = UserKNN(center="user", shrinkage=0, damping=0, compared="ratings").fit(TRIANGLES)
    # The second user's mean is 10 / 3 and the third's 8, who rated c -1 / 3 and -4 from it; the first's is 3.5.
    second, third = 24 / (5 * np.sqrt(34)), 48 / (5 * np.sqrt(160))
    expected = 3.5 - (second / 3 + 4 * third) / (second + third)
    assert by_users.scores(np.array([0]))[0, 2] == pytest.approx(expected)


# Over the first three users a = (1, 2, 3), b = (1, 3, 2), c = (2, 2, 2): the correlation of a and b is 1/2.
CORRELATED = log([[1, 1, 2], [2, 3, 2], [3, 2, 2], [9, None, 2], [None, 7, 2]])


@pytest.mark.parametrize(("shrinkage", "expected"), [(0.0, 0.5), (3.0, 0.25)])
def test_pearson_by_hand_over_the_shared_ratings_alone(shrinkage: float, expected: float) -> None:
    model = ItemKNN(similarity="pearson", center="none", shrinkage=shrinkage).fit(CORRELATED)
    by_hand = np.array([[0, expected, 0], [expected, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(model.weights.toarray(), by_hand)


@pytest.mark.parametrize(("shared", "constant", "other"), [(5, 0.1, 5.0), (7, 0.1, 0.9), (8, 0.3, 5.0), (11, 0.7, 0.4)])
def test_a_constant_row_correlates_with_nothing_however_its_values_round(
    shared: int, constant: float, other: float
) -> None:
    table: list[list[float | None]] = [[constant, float(user)] for user in range(shared)]
    model = ItemKNN(similarity="pearson", shrinkage=0, center="none", minimum_similarity=-1).fit(
        log([*table, [other, None]])
    )
    assert model.weights.toarray().tolist() == [[0, 0], [0, 0]]


def test_large_ratings_that_differ_little_keep_their_correlation() -> None:
    far = log([[1e8 + 1, 1e8 + 1], [1e8 + 2, 1e8 + 3], [1e8 + 3, 1e8 + 2], [1e8 + 9, None]])
    model = ItemKNN(similarity="pearson", shrinkage=0, center="none").fit(far)
    assert model.weights[0, 1] == pytest.approx(0.5, abs=1e-6)


def test_ratings_at_their_baseline_have_no_taste() -> None:
    """Items that everybody rates alike deviate from their mean by rounding alone: no similarity."""
    model = ItemKNN(center="item", shrinkage=0, damping=0).fit(log([[0.1, 0.2], [0.1, 0.2], [0.1, 0.2]]))
    assert model.weights.nnz == 0


def test_the_baseline_by_hand() -> None:
    data = log([[5, 3], [1, None], [3, 3]])
    # mu = 3; b has one pseudo-rating of 3; users deviate from the item means 3 and 3 by (2, 0), (-2), (0, 0).
    baseline = ItemKNN(center="biases", damping=1).fit(data).baseline
    np.testing.assert_allclose(baseline.item, [3, 3])
    np.testing.assert_allclose(baseline.user, [2 / 3, -2 / 2, 0])
    by_user = ItemKNN(center="user", damping=1).fit(data).baseline
    np.testing.assert_allclose(by_user.user, [(5 + 3 + 3) / 3, (1 + 3) / 2, 3])
    assert by_user.item.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("center", "expected"),
    [("biases", 3 + 2 + 0), ("item", 3), ("user", 5), ("none", 3)],
)
def test_without_a_rated_neighbour_the_baseline_stands(center: Center, expected: float) -> None:
    # Nobody rated both items, so they cannot be neighbours.
    data = log([[5, None], [1, None], [None, 3]])
    score = ItemKNN(center=center, damping=0).fit(data).scores(np.array([0]))[0, 1]
    assert score == pytest.approx(expected)


# ---- the slow, readable twin -----------------------------------------------------------------------------------


def slow_baseline(R: Array, center: Center, damping: float) -> tuple[Array, Array]:
    """(users, items) each: b_ui, and what stands where there is no neighbour."""
    mu = np.nanmean(R)
    g = np.array([(np.nansum(x) + damping * mu) / (np.sum(~np.isnan(x)) + damping) for x in R.T])
    f = np.array([np.nansum(x - g) / (np.sum(~np.isnan(x)) + damping) for x in R])
    means = np.array([(np.nansum(x) + damping * mu) / (np.sum(~np.isnan(x)) + damping) for x in R])
    zeros = np.zeros_like(R)
    by_center = {"biases": f[:, None] + g, "item": g + zeros, "user": means[:, None] + zeros, "none": zeros}
    return by_center[center], g + zeros if center == "none" else by_center[center]


def slow_similarity(X: Array, similarity: Similarity, shrinkage: float) -> Array:
    """(rows, rows) between the rows of X, which is NaN where there is no rating; NaN without a shared column."""
    S = np.full((len(X), len(X)), np.nan)
    for i, j in product(range(len(X)), repeat=2):
        both = ~np.isnan(X[i]) & ~np.isnan(X[j])
        n = both.sum()
        if i == j or n == 0:
            continue
        x, y = X[i][both], X[j][both]
        if similarity == "cosine":
            S[i, j] = x @ y / (np.sqrt(np.nansum(X[i] ** 2) * np.nansum(X[j] ** 2)) + shrinkage)
        elif np.ptp(x) < 1e-9 or np.ptp(y) < 1e-9:
            S[i, j] = 0
        else:
            S[i, j] = np.corrcoef(x, y)[0, 1] * n / (n + shrinkage)
    return S


def dense(data: Interactions) -> Array:
    R = np.full((data.n_users, data.n_items), np.nan)
    R[data.users, data.items] = data.ratings
    return R


@pytest.mark.parametrize("minimum", [-1.0, 0.0, 0.05])
@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("kind", [ItemKNN, UserKNN])
def test_scores_agree_with_the_slow_twin(
    kind: type[ItemKNN | UserKNN], center: Center, similarity: Similarity, minimum: float
) -> None:
    data = some_ratings(2)
    R = dense(data)
    expected, alone = slow_baseline(R, center, damping=3.0)
    X = R - expected
    W = slow_similarity(X.T if kind is ItemKNN else X, similarity, shrinkage=4.0)
    W = np.where(minimum < W, W, 0)
    for u, i in product(range(R.shape[0]), range(R.shape[1])):
        weights, deviations = (W[i], X[u]) if kind is ItemKNN else (W[u], X[:, i])
        known = ~np.isnan(deviations)
        total = np.abs(weights[known]).sum()
        if total > 0:
            expected[u, i] += weights[known] @ deviations[known] / total
        else:
            expected[u, i] = alone[u, i]
    model = kind(
        neighbours=99, similarity=similarity, center=center, shrinkage=4.0, damping=3.0, minimum_similarity=minimum
    ).fit(data)
    np.testing.assert_allclose(model.scores(EVERYBODY), expected, atol=1e-10)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("k", [1, 4, 11, 19])
def test_only_the_most_similar_are_kept(similarity: Similarity, k: int) -> None:
    data = some_ratings(3)
    everything = ItemKNN(neighbours=ITEMS, similarity=similarity, minimum_similarity=-1).fit(data).weights.toarray()
    kept = ItemKNN(neighbours=k, similarity=similarity, minimum_similarity=-1).fit(data).weights.toarray()
    np.fill_diagonal(everything, -np.inf)
    for i in range(ITEMS):
        best = np.argsort(-everything[i], kind="stable")[:k]
        assert sorted(np.flatnonzero(kept[i])) == sorted(best)
        assert (kept[i, best] == everything[i, best]).all()


def test_of_equally_similar_items_those_that_come_first_are_kept() -> None:
    alike = log([[2.0] * 6, [3.0] * 6])
    weights = ItemKNN(neighbours=2, center="none", shrinkage=0).fit(alike).weights.toarray()
    assert [np.flatnonzero(row).tolist() for row in weights] == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1], [0, 1]]


def test_more_rows_than_one_block_agree_with_a_matrix_product() -> None:
    draw = np.random.default_rng(4)
    X = draw.normal(size=(1500, 40)) * (draw.random((1500, 40)) < 0.2)
    X[0] = 0
    norms = np.linalg.norm(X, axis=1)
    expected = X @ X.T / (np.outer(norms, norms) + 0.5)
    np.fill_diagonal(expected, 0)
    found = nearest(sparse.csr_array(X), k=1500, similarity="cosine", shrinkage=0.5, minimum=-1.0)
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-12)


@pytest.mark.parametrize("shrinkage", [0.0, 3.0])
@pytest.mark.parametrize("k", [1, 7, 60, 299])
def test_held_at_once_or_row_by_row_the_neighbours_are_the_same(
    k: int, shrinkage: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(6)
    # Few distinct values, and rows that are twice the same: many similarities are equal to the last digit.
    X = draw.integers(-2, 3, (150, 25)) * (draw.random((150, 25)) < 0.5)
    vectors = sparse.csr_array(np.vstack([X, X]).astype(float))
    at_once = nearest(vectors, k=k, similarity="cosine", shrinkage=shrinkage)
    monkeypatch.setattr(similarity, "_DENSE", 0)
    in_turn = nearest(vectors, k=k, similarity="cosine", shrinkage=shrinkage)
    np.testing.assert_array_equal(at_once.indptr, in_turn.indptr)
    np.testing.assert_array_equal(at_once.indices, in_turn.indices)
    np.testing.assert_array_equal(at_once.data, in_turn.data)


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)


@pytest.fixture(params=SIMILARITIES)
def fitted_on_all_threads(request: pytest.FixtureRequest) -> ItemKNNModel:
    return ItemKNN(neighbours=5, similarity=request.param).fit(some_ratings(5))


def test_the_thread_count_changes_no_number(
    request: pytest.FixtureRequest, fitted_on_all_threads: ItemKNNModel, one_thread: None
) -> None:
    again = ItemKNN(neighbours=5, similarity=request.node.callspec.params["fitted_on_all_threads"]).fit(some_ratings(5))
    np.testing.assert_array_equal(again.weights.toarray(), fitted_on_all_threads.weights.toarray())
    np.testing.assert_array_equal(again.scores(EVERYBODY), fitted_on_all_threads.scores(EVERYBODY))


@pytest.mark.parametrize("recommender", [ItemKNN(), UserKNN(), ItemKNN(similarity="pearson", center="item")])
def test_it_beats_the_item_means_on_held_out_ratings(recommender: ItemKNN | UserKNN, split: Split) -> None:
    train, test = split
    users, items = test.users.astype(np.int64), test.items.astype(np.int64)

    def rmse(fitting: ItemKNN | UserKNN | TopPop) -> float:
        return float(np.sqrt(np.mean((fitting.fit(train).predict(users, items) - test.ratings) ** 2)))

    assert rmse(recommender) < 0.95 * rmse(TopPop(by="mean"))


# ---- responses ---------------------------------------------------------------------------------------------------


def rescored(model: ItemKNNModel, user: int, ratings: dict[int, float]) -> Array:
    """Scores of all items from an edited history, item by item, with similarities and baseline held."""
    W, b = model.weights.toarray(), model.baseline.user[user] + model.baseline.item
    scores = np.empty(len(b))
    for i in range(len(b)):
        total = sum(abs(W[i, j]) for j in ratings)
        pull = sum(W[i, j] * (rating - b[j]) for j, rating in ratings.items())
        scores[i] = b[i] + (pull / total if total > 0 else model.baseline.alone[i])
    return scores


ACTIONS = {"history": [0, 1, 2], "unseen": [-1, -2, -3], "mixed": [1, -1, 3], "all of the history": None, "nothing": []}


def acted_on(data: Interactions, user: int, which: str) -> NDArray[np.int64]:
    """Items by their place in the history, or in what is unseen where the place is negative."""
    seen = data.history(user)[0].astype(np.int64)
    unseen = np.setdiff1d(np.arange(data.n_items), seen)
    places = ACTIONS[which]
    if places is None:
        return seen
    return np.array([seen[p] if p >= 0 else unseen[-p] for p in places], dtype=np.int64)


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("which", list(ACTIONS))
@pytest.mark.parametrize("neighbours", [2, 8])
def test_a_response_is_a_true_rescoring_of_the_edited_history(center: Center, which: str, neighbours: int) -> None:
    data = some_ratings(6)
    # With two neighbours an item some scores rest on no rated neighbour at all.
    model = ItemKNN(neighbours=neighbours, center=center, minimum_similarity=-1).fit(data)
    for user in (0, 5, 21):
        items = acted_on(data, user, which)
        response = model.respond(user, user, items)
        seen, ratings = data.history(user)
        factual = dict(zip(seen.tolist(), ratings.tolist(), strict=True))

        def edited(
            action: Array, user: int = user, items: NDArray[np.int64] = items, factual: dict[int, float] = factual
        ) -> Array:
            return rescored(model, user, factual | dict(zip(items.tolist(), action.tolist(), strict=True)))

        action = np.random.default_rng(user).uniform(1, 5, len(items))
        np.testing.assert_allclose(response.scores(action), edited(action), atol=1e-12)
        for column, step in enumerate(0.5 * np.eye(len(items))):
            difference = edited(action + step) - edited(action - step)
            np.testing.assert_allclose(response.slope[:, column], difference, atol=1e-12)


def test_a_response_without_any_neighbour_is_the_baseline() -> None:
    model = ItemKNN(center="none", damping=0).fit(log([[5, None], [1, None], [None, 3]]))
    response = model.respond(0, 0, np.array([1]))
    assert response.scores(np.array([4.0])).tolist() == [3, 3]
    assert response.slope.tolist() == [[0], [0]]


def test_a_user_without_history_can_act() -> None:
    data = some_ratings(7)
    model = ItemKNN(neighbours=4).fit(data.subset(data.users != 3))
    response = model.respond(3, 3, np.array([2, 8]))
    np.testing.assert_allclose(response.scores(np.array([1.0, 5.0])), rescored(model, 3, {2: 1.0, 8: 5.0}), atol=1e-12)


def test_rating_an_unseen_neighbour_enters_the_normaliser() -> None:
    """The case that makes W's row depend on the action: before, the average rests on b alone; then on b and c."""
    model = ItemKNN(center="none", shrinkage=0).fit(TRIANGLES)
    ab, ac = 24 / 65, 12 / 25
    response = model.respond(0, 0, np.array([2]))
    assert model.scores(np.array([0]))[0, 0] == pytest.approx(4)
    assert response.scores(np.array([10.0]))[0] == pytest.approx((4 * ab + 10 * ac) / (ab + ac))


def test_anothers_edits_have_no_affine_response() -> None:
    model = ItemKNN().fit(some_ratings(8))
    with pytest.raises(NotSupportedError, match=r"another user's ratings move the similarities.*viewer == editor"):
        model.respond(0, 1, np.array([2]))


def test_scores_of_unknown_users_are_an_error() -> None:
    model = ItemKNN().fit(some_ratings(8))
    with pytest.raises(IndexError):
        model.scores(np.array([30]))
