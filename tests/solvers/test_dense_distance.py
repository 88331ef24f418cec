from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recaudit.errors import InputError
from recaudit.solvers.distance.bounds import bound_boxes
from recaudit.solvers.distance.distances import LARGEST, Distance, Family, distance_between
from recaudit.solvers.distance.maximize import maximize_distance
from recaudit.status import Status

DISTANCES: list[Distance] = ["hellinger", "tv", "l2", "kl"]
TOL = 1e-6


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    """Problems this small only wait for the other cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


Problem = tuple[np.ndarray, np.ndarray, torch.Tensor, float]


def dense(seed: int, items: int, columns: int, beta: float, related: bool = True) -> Problem:
    """A response in which every action moves every item, and a baseline: at some action of [-1, 1]^K, or anywhere."""
    draw = np.random.default_rng(seed)
    slope, intercept = draw.standard_normal((items, columns)), draw.standard_normal(items)
    scores = slope @ draw.uniform(-1, 1, columns) + intercept if related else draw.standard_normal(items)
    return slope, intercept, torch.tensor(beta * scores).log_softmax(dim=0), beta


def distances_at(problem: Problem, distance: Distance, actions: np.ndarray) -> np.ndarray:
    """(n,): the slow, readable twin."""
    slope, intercept, before, beta = problem
    after = torch.tensor(beta * (actions @ slope.T + intercept)).log_softmax(dim=-1)
    return np.asarray(distance_between(distance, before, after).numpy())


def grid(values: np.ndarray, columns: int) -> np.ndarray:
    return np.array(list(itertools.product(values, repeat=columns)))


def test_two_items_and_one_action_by_hand() -> None:
    """q_0 = sigmoid(2 a) on [-1, 2], from p = (1/2, 1/2): the farther end is a = 2, q_0 = sigmoid(4)."""
    q = 1 / (1 + math.exp(-4))
    expected = {
        "hellinger": math.sqrt(1 - math.sqrt(q / 2) - math.sqrt((1 - q) / 2)),
        "tv": q - 0.5,
        "l2": math.sqrt(2) * (q - 0.5),
        "kl": q * math.log(2 * q) + (1 - q) * math.log(2 * (1 - q)),
    }
    for distance, value in expected.items():
        found = maximize_distance([[1.0], [0.0]], [0.0, 0.0], np.log([0.5, 0.5]), 2.0, -1.0, 2.0, distance)
        assert found.value == pytest.approx(value)
        assert found.upper == pytest.approx(value)
        assert found.actions[0].tolist() == [2.0]
        assert found.status[0] == Status.SOLVED


def test_the_middle_by_hand() -> None:
    """Scores a, -a, 3, and p on the first two items only, half and half: the distance is q_2, and more where q_0 or
    q_1 is above 1/2, which it never is. q_2 = e^3 / (e^a + e^-a + e^3) is largest at a = 0.
    """
    before = np.log([0.5 - 1e-9, 0.5 - 1e-9, 2e-9])
    slope, intercept = np.array([[1.0], [-1.0], [0.0]]), np.array([0.0, 0.0, 3.0])
    third = math.exp(3) / (2 + math.exp(3))
    found = maximize_distance(slope, intercept, before, 1.0, -2.0, 2.0, "tv")
    assert found.value == pytest.approx(third, abs=1e-6)
    assert found.actions[0] == pytest.approx([0.0], abs=1e-2)
    assert found.status[0] == Status.SOLVED
    vertex = distances_at((slope, intercept, torch.tensor(before), 1.0), "tv", np.array([[-2.0], [2.0]])).max()
    assert vertex < third - 0.1


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize(
    ("items", "columns", "beta", "points"), [(4, 1, 20.0, 2001), (6, 2, 0.5, 61), (9, 2, 5.0, 61), (7, 3, 2.0, 15)]
)
@pytest.mark.parametrize("related", [True, False])
def test_no_point_of_a_fine_grid_is_farther(
    items: int, columns: int, beta: float, points: int, related: bool, distance: Distance
) -> None:
    problem = dense(items, items, columns, beta, related)
    tried = distances_at(problem, distance, grid(np.linspace(-1, 1, points), columns)).max()
    found = maximize_distance(*problem, -1.0, 1.0, distance)
    assert found.status[0] == Status.SOLVED
    assert found.value >= tried - TOL
    assert found.upper >= tried - 1e-12
    assert found.value <= found.upper <= found.value + 2 * TOL
    assert (np.abs(found.actions[0]) <= 1).all()
    assert found.value == pytest.approx(distances_at(problem, distance, found.actions[0][None])[0], abs=1e-12)


def test_the_vertex_property_fails_for_13_of_100_dense_responses_and_the_solver_finds_the_inside() -> None:
    inside = 0
    for distance, seed in itertools.product(DISTANCES, range(25)):
        problem = dense(seed, 6, 2, 2.0)
        found = maximize_distance(*problem, -1.0, 1.0, distance)
        vertex = distances_at(problem, distance, grid(np.array([-1.0, 1.0]), 2)).max()
        assert found.status[0] == Status.SOLVED
        assert found.value >= vertex - 1e-12
        if found.value > vertex + 1e-4:
            inside += 1
            assert (np.abs(found.actions[0]) < 1).any()
    assert inside == 13


@pytest.mark.parametrize("distance", DISTANCES)
def test_own_item_responses_are_solved_by_their_vertices_and_the_general_route_agrees(distance: Distance) -> None:
    draw = np.random.default_rng(3)
    slope, intercept = np.zeros((8, 3)), draw.standard_normal(8)
    slope[[1, 4, 6], [0, 1, 2]] = [1.0, -0.7, 1.5]
    before = torch.tensor(2 * (slope @ draw.uniform(-1, 1, 3) + intercept)).log_softmax(dim=0)
    straight = maximize_distance(slope, intercept, before, 2.0, -1.0, 1.0, distance)
    assert straight.status[0] == Status.SOLVED
    assert straight.evaluations[0] == 0
    # A third slope that matters to nobody: the property cannot be read off any more.
    slope[7] = 1e-13
    general = maximize_distance(slope, intercept, before, 2.0, -1.0, 1.0, distance)
    assert general.evaluations[0] > 0
    assert general.value == pytest.approx(straight.value, abs=TOL)
    assert general.upper == pytest.approx(straight.value, abs=2 * TOL)


@pytest.mark.parametrize("distance", DISTANCES)
def test_an_action_that_lifts_several_items_alike_is_solved_by_its_vertices(distance: Distance) -> None:
    slope, intercept = np.array([[1.0, 0.0], [1.0, 2.0], [0.0, 2.0], [0.0, 0.0]]), np.array([0.3, -0.2, 0.0, 0.5])
    problem = (slope, intercept, torch.tensor(slope @ [0.2, -0.4] + intercept).log_softmax(dim=0), 1.0)
    found = maximize_distance(*problem, -1.0, 1.0, distance)
    assert found.evaluations[0] == 0
    assert found.value >= distances_at(problem, distance, grid(np.linspace(-1, 1, 41), 2)).max() - 1e-12


@pytest.mark.parametrize("distance", DISTANCES)
def test_one_box_gives_a_bound_that_holds_and_does_not_pretend(distance: Distance) -> None:
    problem = dense(11, 9, 2, 3.0)
    found = maximize_distance(*problem, -1.0, 1.0, distance, max_boxes=1)
    tried = distances_at(problem, distance, grid(np.linspace(-1, 1, 61), 2)).max()
    assert found.status[0] == Status.BOUNDED
    assert found.evaluations[0] == 1
    assert tried <= found.upper <= LARGEST[distance]
    assert found.value >= tried - 1e-3
    assert found.upper > found.value + TOL


@pytest.mark.parametrize("max_boxes", [1, 2, 3, 10, 11])
def test_boxes_are_never_more_than_allowed_and_more_of_them_never_loosen_the_bound(max_boxes: int) -> None:
    problem = dense(5, 9, 3, 5.0)
    few, more = (maximize_distance(*problem, -1.0, 1.0, "kl", max_boxes=n) for n in (max_boxes, 4 * max_boxes))
    assert few.evaluations[0] <= max_boxes
    assert more.upper <= few.upper
    assert more.value >= few.value - 1e-9


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    items=st.integers(3, 12),
    columns=st.integers(1, 3),
    beta=st.floats(0.5, 20.0),
    related=st.booleans(),
    distance=st.sampled_from(DISTANCES),
    size=st.floats(0.0, 1.0),
)
def test_no_action_of_a_box_is_above_its_bound(
    seed: int, items: int, columns: int, beta: float, related: bool, distance: Distance, size: float
) -> None:
    problem = dense(seed, items, columns, beta, related)
    slope, intercept, before, _ = problem
    draw = np.random.default_rng(seed)
    low = draw.uniform(-1, 1, (5, columns))
    high = low + size * draw.uniform(0, 1, (5, columns))
    family = Family(torch.tensor(beta * slope), torch.tensor(beta * intercept), before, distance)
    bounds = bound_boxes(family, torch.tensor(low), torch.tensor(high)).upper.numpy()
    for box, bound in enumerate(bounds):
        inside = distances_at(problem, distance, draw.uniform(low[box], high[box], (200, columns)))
        # Where the square is bounded, it is the square that has the rounding.
        power = 2 if distance in {"hellinger", "l2"} else 1
        assert inside.max() ** power <= bound**power + 1e-11 * (1 + bound)


@pytest.mark.parametrize("distance", DISTANCES)
def test_boxes_with_a_peak_inside_are_bounded_above_it(distance: Distance) -> None:
    """The hardest boxes: their vertices are all lower than some point inside, so the bound rests on curvature alone."""
    peaks = 0
    points, sides = np.linspace(-1, 1, 401)[:, None], np.geomspace(0.01, 1.0, 8)
    for seed in range(150):
        problem = dense(seed, 3 + seed % 3, 1, 1.0 + seed % 7, related=False)
        slope, intercept, before, beta = problem
        at = distances_at(problem, distance, points)
        if at.argmax() in {0, 400}:
            continue
        peaks += 1
        family = Family(torch.tensor(beta * slope), torch.tensor(beta * intercept), before, distance)
        left, right = points[at.argmax()] - np.array(list(itertools.product(sides, -sides))).T[:, :, None]
        found = bound_boxes(family, torch.tensor(left), torch.tensor(right))
        assert (found.upper.numpy() >= at.max() - 1e-12).all()
    assert peaks >= 5


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_box_is_bounded_tightly_once_it_is_small(distance: Distance) -> None:
    """Halving a box divides what the bound is above the best vertex by about four."""
    slope, intercept, before, beta = dense(2, 8, 2, 2.0)
    family = Family(torch.tensor(beta * slope), torch.tensor(beta * intercept), before, distance)
    low = torch.tensor([[0.3, -0.2]])
    excess = []
    for width in (0.2, 0.1, 0.05):
        found = bound_boxes(family, low.double(), low.double() + width)
        excess.append(float(found.upper - found.best))
    assert excess[2] <= 1e-12 or excess[0] / excess[2] > 8


@pytest.mark.parametrize("distance", DISTANCES)
def test_small_responses_are_proved_at_once_to_be_farthest_at_a_vertex(distance: Distance) -> None:
    """Near q = p the squares of Hellinger and the KL divergence are convex in the action: one box is enough."""
    problem = dense(4, 30, 3, 0.05)
    found = maximize_distance(*problem, -1.0, 1.0, distance)
    assert found.status[0] == Status.SOLVED
    assert found.value == pytest.approx(distances_at(problem, distance, grid(np.array([-1.0, 1.0]), 3)).max(), abs=TOL)
    if distance in {"hellinger", "kl"}:
        assert found.evaluations[0] == 1


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize(("columns", "stars"), [(2, 5), (3, 9), (3, 17)])
def test_stars_equal_enumeration(columns: int, stars: int, distance: Distance) -> None:
    """5^2 and 9^3 ratings are listed; 17^3 are more than that, and searched."""
    problem = dense(stars, 7, columns, 1.0)
    values = np.linspace(-1, 1, stars)
    tried = distances_at(problem, distance, grid(values, columns)).max()
    found = maximize_distance(*problem, -1.0, 1.0, distance, values=values)
    assert found.status[0] == Status.SOLVED
    assert (found.evaluations[0] > 0) == (stars**columns > 4096)
    assert tried - TOL <= found.value <= tried + 1e-12
    assert found.upper >= tried - 1e-12
    assert np.isin(found.actions[0], values).all()


def test_stars_searched_to_the_last_pair_are_exact() -> None:
    """With a tolerance that no bound reaches, the search ends where only neighbouring stars are left.

    What separates the bounds then is rounding, which is wider than that tolerance.
    """
    problem = dense(1, 6, 2, 4.0)
    values = np.linspace(-1, 1, 90)
    found = maximize_distance(*problem, -1.0, 1.0, "l2", values=values, tol=1e-15, max_boxes=20_000)
    assert found.evaluations[0] < 20_000
    assert found.status[0] == Status.BOUNDED
    assert found.upper - found.lower < 1e-10
    assert found.value == pytest.approx(distances_at(problem, "l2", grid(values, 2)).max(), abs=1e-14)


def test_stars_outside_the_bounds_are_not_allowed() -> None:
    problem = dense(8, 6, 2, 2.0)
    lower, upper = np.array([1.0, 2.0]), np.array([3.5, 2.0])
    found = maximize_distance(*problem, lower, upper, "tv", values=[1.0, 2.0, 3.0, 4.0])
    allowed = np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]])
    assert found.value == pytest.approx(distances_at(problem, "tv", allowed).max())
    assert found.actions[0].tolist() in allowed.tolist()


def test_actions_that_cannot_move_anything_cost_nothing() -> None:
    """Fixed ratings, and ratings that lift all items alike, are not searched: 2^60 vertices would be too many."""
    slope, intercept, before, beta = dense(6, 7, 2, 2.0)
    idle = np.column_stack([slope, np.full((7, 30), 0.3), np.random.default_rng(0).standard_normal((7, 30))])
    lower, upper = np.full(62, -1.0), np.full(62, 1.0)
    lower[32:] = upper[32:] = 0.0
    found = maximize_distance(idle, intercept, before, beta, lower, upper, "kl")
    alone = maximize_distance(slope, intercept, before, beta, -1.0, 1.0, "kl")
    assert found.value == pytest.approx(alone.value, abs=TOL)
    assert found.actions[0][:2] == pytest.approx(alone.actions[0], abs=1e-3)
    assert (found.actions[0][32:] == 0).all()


@pytest.mark.parametrize("distance", DISTANCES)
def test_nothing_changes_where_nothing_can(distance: Distance) -> None:
    slope, intercept = np.random.default_rng(0).standard_normal((5, 2)), np.zeros(5)
    before = torch.tensor(slope @ [0.5, 0.5]).log_softmax(dim=0)
    found = maximize_distance(slope, intercept, before, 1.0, 0.5, 0.5, distance)
    assert found.value == pytest.approx(0, abs=1e-12)
    assert found.upper == pytest.approx(0, abs=1e-12)
    assert found.status[0] == Status.SOLVED


def test_scores_far_apart_stay_finite() -> None:
    slope, intercept, before, _ = dense(3, 6, 2, 1.0)
    for distance in DISTANCES:
        found = maximize_distance(slope, intercept, before, 3000.0, -1.0, 1.0, distance, max_boxes=200)
        tried = distances_at((slope, intercept, before, 3000.0), distance, grid(np.linspace(-1, 1, 21), 2)).max()
        assert np.isfinite(found.upper).all()
        assert tried - 1e-9 <= found.upper
        assert found.value <= found.upper


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("listed", [True, False])
def test_a_constant_added_to_all_scores_leaves_the_bounds_around_the_same_distance(
    distance: Distance, listed: bool
) -> None:
    slope, intercept, before, beta = dense(12, 6, 2, 30.0)
    intercept = np.round(intercept * 2**10) / 2**10  # so that the shifted scores are the same, to the last bit
    values = np.array([-1.0, 0.25, 1.0]) if listed else None
    plain, moved = (
        maximize_distance(slope, intercept + shift, before, beta, -1.0, 1.0, distance, values=values)
        for shift in (0.0, 1e9)
    )
    assert moved.lower <= moved.value <= moved.upper
    assert max(plain.lower, moved.lower) <= min(plain.upper, moved.upper)
    assert (moved.status[0] == Status.SOLVED) == (moved.upper - moved.lower <= TOL)
    assert moved.value == pytest.approx(plain.value, abs=1e-9)


def test_rounding_wider_than_the_tolerance_is_bounded() -> None:
    slope, intercept, before, _ = dense(3, 6, 1, 1.0)
    found = maximize_distance(1e9 * slope, intercept, before, 100.0, -1.0, 1.0, "kl", values=[-1.0, 0.3, 1.0])
    assert found.status[0] == Status.BOUNDED
    assert found.upper - found.lower > TOL


def test_the_same_call_gives_the_same_answer() -> None:
    problem = dense(7, 9, 3, 8.0)
    first, second = (maximize_distance(*problem, -1.0, 1.0, "l2", max_boxes=15, rng=4) for _ in range(2))
    assert (first.value[0], first.upper[0], first.evaluations[0]) == (
        second.value[0],
        second.upper[0],
        second.evaluations[0],
    )
    assert first.actions.tolist() == second.actions.tolist()


GOOD: dict[str, object] = {
    "slope": np.array([[0.1, 0.2], [0.3, -0.4], [0.0, 1.0]]),
    "intercept": np.array([1.0, 2.0, 3.0]),
    "before": np.log([0.2, 0.3, 0.5]),
    "beta": 1.0,
    "lower": 1.0,
    "upper": 5.0,
    "distance": "tv",
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slope": np.full((3, 2), np.nan)}, "slope: received NaN"),
        ({"slope": np.zeros(3)}, r"slope: received an array of shape \(3,\)"),
        ({"intercept": np.zeros(2)}, r"intercept: received shape \(2,\)"),
        ({"intercept": np.array([0.0, -np.inf, 1.0])}, "intercept: received NaN or infinite"),
        ({"before": np.log([0.2, 0.8])}, "before: received 2 numbers; expected 3"),
        ({"before": np.array([0.2, 0.3, 0.5])}, "before: .*log-sum-exp.*Give logarithms"),
        ({"before": np.array([0.0, -np.inf, -np.inf])}, "before: received NaN or infinite"),
        ({"beta": 0.0}, "beta: received 0.0"),
        ({"beta": 1e308, "upper": 1e9}, r"beta \* scores: received NaN or infinite"),
        ({"lower": 6.0}, "lower: received a bound above `upper`"),
        ({"distance": "hellingr"}, "distance: .*Did you mean 'hellinger'"),
        ({"tol": 0.0}, "tol: received 0.0"),
        ({"max_boxes": 0}, "max_boxes: received 0"),
        ({"values": [3.0, 2.0]}, "values: received .*ascending"),
        ({"values": [7.0, 8.0]}, "values: .*at least one number from `lower` to `upper`"),
        ({"values": [1.0, np.nan]}, "values: received NaN"),
        ({"slope": np.random.default_rng(0).standard_normal((3, 11))}, "slope: received 11 actions.*at most 10"),
    ],
)
def test_bad_input_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        maximize_distance(**{**GOOD, **changes})  # type: ignore[arg-type]  # wrong on purpose
