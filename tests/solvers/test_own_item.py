from __future__ import annotations

import itertools
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, logsumexp

from recaudit.arrays import FloatArray
from recaudit.errors import InputError
from recaudit.solvers.distance.distances import Distance, distance_between
from recaudit.solvers.distance.own_item import VertexSolution, largest_distance

DISTANCES: list[Distance] = list(get_args(Distance))


def twin(
    distance: Distance,
    scores: FloatArray,
    items: np.ndarray,
    options: FloatArray,
    before: FloatArray,
    beta: float,
    target: int | None = None,
    changes: int | None = None,
) -> float:
    """The slow readable twin for one pair: the whole softmax at every combination of scores.

    `scores` (items,), `items` (actions,), `options` (actions, ratings) and `before` (actions,).
    """

    def logs(values: FloatArray) -> FloatArray:
        moved = scores.copy()
        for item, value in zip(items, values, strict=True):
            if item >= 0 and scores[item] > -np.inf:
                moved[item] = value
        found = log_softmax(beta * moved)
        if target is None:
            return found
        return np.array([found[target], logsumexp(np.delete(found, target))])

    choices = [[*row.tolist()] for row in options]
    if changes is not None:
        choices = [[*row, value] for row, value in zip(choices, before.tolist(), strict=True)]
    best = 0.0
    for values in itertools.product(*choices):
        after = np.array(values)
        if changes is not None and int((after != before).sum()) > changes:
            continue
        best = max(best, float(distance_between(distance, logs(before), logs(after))))
    return best


def random_problem(
    seed: int, viewers: int = 3, editors: int = 4, actions: int = 3, n: int = 12, ratings: int = 2
) -> tuple[FloatArray, np.ndarray, FloatArray]:
    """Scores with some items that are no candidates, edited items among the best and the worst, and their scores."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(3, 1, (viewers, n))
    scores[rng.random((viewers, n)) < 0.2] = -np.inf
    items = np.array([rng.permutation(n)[:actions] for _ in range(editors)])
    items[rng.random(items.shape) < 0.1] = -1
    edited = rng.normal(3, 1, (viewers, editors, actions, ratings + 1))
    return scores, items, edited


def by_pair(found: VertexSolution, edited: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """Values (viewers, editors) and choices (viewers, editors, actions)."""
    return found.value.reshape(edited.shape[:2]), found.choices(edited.shape[2]).reshape(edited.shape[:3])


def agrees(
    distance: Distance,
    problem: tuple[FloatArray, np.ndarray, FloatArray],
    beta: float,
    target: int | None = None,
    changes: int | None = None,
) -> None:
    scores, items, edited = problem
    found = largest_distance(distance, scores, items, edited, beta, target=target, changes=changes)
    values, _ = by_pair(found, edited)
    assert (found.status == np.where(np.isnan(found.value), "not_applicable", "solved")).all()
    for v, e in np.ndindex(values.shape):
        shown = scores[v] > -np.inf
        if not shown.any() or (target is not None and not shown[target]):
            assert np.isnan(values[v, e])
            continue
        options, before = edited[v, e, :, :-1], edited[v, e, :, -1]
        expected = twin(distance, scores[v], items[e], options, before, beta, target, changes)
        assert values[v, e] == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("beta", [0.2, 2.0, 20.0, 300.0])
@pytest.mark.parametrize("distance", DISTANCES)
def test_it_is_the_largest_over_whole_softmaxes(distance: Distance, beta: float) -> None:
    for seed in range(4):
        agrees(distance, random_problem(seed), beta)


@pytest.mark.parametrize("beta", [0.2, 2.0, 20.0, 300.0])
@pytest.mark.parametrize("distance", DISTANCES)
def test_one_item_or_not(distance: Distance, beta: float) -> None:
    for seed in range(4):
        agrees(distance, random_problem(seed), beta, target=seed)


@pytest.mark.parametrize("changes", [1, 2, 5])
@pytest.mark.parametrize("distance", DISTANCES)
def test_only_so_many_items_may_move(distance: Distance, changes: int) -> None:
    for seed in range(3):
        agrees(distance, random_problem(seed), 1.5, changes=changes)


@pytest.mark.parametrize("distance", DISTANCES)
def test_nothing_inside_the_box_is_farther_than_a_vertex(distance: Distance) -> None:
    for seed in range(4):
        scores, items, edited = random_problem(seed, viewers=1, editors=1, actions=2, n=5)
        value = largest_distance(distance, scores, items, edited, 2.0).value[0]
        low, high = edited[0, 0, :, :-1].min(axis=1), edited[0, 0, :, :-1].max(axis=1)
        grid = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 25)
        assert value == pytest.approx(twin(distance, scores[0], items[0], grid, edited[0, 0, :, -1], 2.0), abs=1e-9)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    distance=st.sampled_from(DISTANCES),
    beta=st.floats(0.05, 400),
    actions=st.integers(1, 4),
    n=st.integers(4, 9),
)
@example(seed=3, distance="hellinger", beta=354.0, actions=4, n=4)  # everything is edited, and every mass underflows
def test_any_problem_agrees_with_the_twin(seed: int, distance: Distance, beta: float, actions: int, n: int) -> None:
    agrees(distance, random_problem(seed, 1, 2, actions, n), beta)


@pytest.mark.parametrize("distance", DISTANCES)
def test_an_edited_item_that_held_everything_can_fall(distance: Distance) -> None:
    """Where a difference of total and edited masses has no digit left: the edited item outweighs all by e^450."""
    scores = np.array([[4.5, 3.0, 2.9, 2.0, 1.0]])
    edited = np.array([[[[1.0, 5.0, 4.5]]]])
    problem = (scores, np.array([[0]]), edited)
    for beta in (30.0, 300.0):
        agrees(distance, problem, beta)
    if distance in ("hellinger", "tv"):
        # Before: item 0 is certain. After: it is gone.
        assert largest_distance(distance, *problem, 300.0).value[0] == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("distance", DISTANCES)
def test_every_candidate_may_be_edited(distance: Distance) -> None:
    scores = np.array([[3.0, 2.0, -np.inf]])
    edited = np.array([[[[1.0, 5.0, 3.0], [1.0, 4.0, 2.0]]]])
    for beta in (1.0, 40.0):
        agrees(distance, (scores, np.array([[0, 1]]), edited), beta)


def test_by_hand() -> None:
    # beta = 1, masses 1, 1, 2 of which the first is edited: to 3 at its highest, to 0.5 at its lowest.
    # Highest: p = (1, 1, 2) / 4, q = (3, 1, 2) / 6. TV = 1/2 - 1/4 = 1/4. Lowest: q = (0.5, 1, 2) / 3.5, TV = 3/28.
    # L2 = sqrt((1/4)^2 + (1/12)^2 + (1/6)^2). KL = 1/2 log 2 + 1/6 log(2/3) + 1/3 log(2/3) = log(4/3) / 2.
    # H^2 = 1 - sqrt(1/8) - sqrt(1/24) - sqrt(1/6).
    scores = np.log(np.array([[1.0, 1.0, 2.0]]))
    edited = np.log(np.array([[[[0.5, 3.0, 1.0]]]]))
    expected: dict[Distance, float] = {
        "tv": 1 / 4,
        "l2": np.sqrt(1 / 16 + 1 / 144 + 1 / 36),
        "kl": np.log(4 / 3) / 2,
        "hellinger": np.sqrt(1 - np.sqrt(1 / 8) - np.sqrt(1 / 24) - np.sqrt(1 / 6)),
    }
    for distance, value in expected.items():
        found = largest_distance(distance, scores, np.array([[0]]), edited, 1.0)
        assert found.value[0] == pytest.approx(value, rel=1e-12)
        assert found.choices(1).tolist() == [[2]]
    # "The third item or not": 2/4 before, 2/6 at the highest, 2/3.5 at the lowest: the highest is farther.
    one = largest_distance("tv", scores, np.array([[0]]), edited, 1.0, target=2)
    assert one.value[0] == pytest.approx(1 / 2 - 1 / 3)
    assert one.choices(1).tolist() == [[2]]


def test_the_choices_reach_the_value() -> None:
    scores, items, edited = random_problem(11, viewers=2, editors=3, actions=4)
    low, high = edited[..., :-1].min(axis=3), edited[..., :-1].max(axis=3)
    for changes in (None, 2):
        found = largest_distance("hellinger", scores, items, edited, 2.0, changes=changes)
        values, choices = by_pair(found, edited)
        ends = np.where(choices == 1, low, np.where(choices == 2, high, edited[..., -1]))
        for v, e in np.ndindex(values.shape):
            ours = twin("hellinger", scores[v], items[e], ends[v, e][:, None], edited[v, e, :, -1], 2.0)
            assert ours == pytest.approx(values[v, e], abs=1e-9)
            if changes is not None:
                assert np.count_nonzero(choices[v, e]) <= changes


def test_items_that_are_no_candidates_change_nothing() -> None:
    scores = np.array([[1.0, -np.inf, 2.0]])
    edited = np.array([[[[1.0, 5.0, 3.0]], [[1.0, 5.0, 3.0]]]])
    found = largest_distance("kl", scores, np.array([[1], [-1]]), edited, 1.0)
    assert found.value.tolist() == [0.0, 0.0]
    assert found.vertex.tolist() == [0, 0]


@pytest.mark.parametrize("distance", DISTANCES)
def test_scores_that_cannot_move_have_distance_zero(distance: Distance) -> None:
    scores, items, edited = random_problem(5)
    still = np.broadcast_to(edited[..., -1:], edited.shape)
    for beta in (0.5, 50.0, 400.0):
        assert not np.nan_to_num(largest_distance(distance, scores, items, still, beta).value).any()


def test_rows_do_not_depend_on_each_other() -> None:
    scores, items, edited = random_problem(3, viewers=5, editors=4)
    together, _ = by_pair(largest_distance("hellinger", scores, items, edited, 3.0), edited)
    for v in range(5):
        alone = largest_distance("hellinger", scores[v : v + 1], items, edited[v : v + 1], 3.0)
        np.testing.assert_array_equal(alone.value, together[v])


def test_what_cannot_be_solved_is_an_error() -> None:
    scores, items, edited = random_problem(0)
    with pytest.raises(InputError, match=r"items: received an item twice"):
        largest_distance("tv", scores, np.zeros((4, 3), dtype=np.int64), edited, 1.0)
    with pytest.raises(InputError, match=r"edited: received shape .* expected shape \(viewers, editors, actions"):
        largest_distance("tv", scores, items[:2], edited, 1.0)
    with pytest.raises(InputError, match=r"scores: received NaN"):
        largest_distance("tv", np.full_like(scores, np.nan), items, edited, 1.0)
    with pytest.raises(InputError, match=r"edited: received NaN"):
        largest_distance("tv", scores, items, edited * np.nan, 1.0)
    with pytest.raises(InputError, match=r"changes: received 1 beside a target"):
        largest_distance("tv", scores, items, edited, 1.0, target=0, changes=1)
    with pytest.raises(InputError, match=r"beta"):
        largest_distance("tv", scores, items, edited, 0.0)
    many = np.arange(20)[None]
    with pytest.raises(InputError, match=r"20 actions, 1,048,576 vertices"):
        largest_distance("tv", np.zeros((1, 30)), many, np.zeros((1, 1, 20, 3)), 1.0)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("target", [None, 3])
def test_a_constant_added_to_all_scores_changes_nothing(distance: Distance, target: int | None) -> None:
    scores, items, edited = random_problem(5)
    scores, edited = ((part * 2**10).round() / 2**10 for part in (scores, edited))  # exact when shifted, too
    plain = largest_distance(distance, scores, items, edited, 37.3, target=target)
    moved = largest_distance(distance, scores + 2.0**32, items, edited + 2.0**32, 37.3, target=target)
    np.testing.assert_allclose(moved.value, plain.value, rtol=1e-9, atol=1e-12)
