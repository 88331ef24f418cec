from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recaudit.arrays import FloatArray
from recaudit.errors import InputError
from recaudit.solvers.search import Box, maximize_black_box

STARS = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def ratings(k: int) -> Box:
    return Box(np.ones(k), np.full(k, 5.0))


def quadratic(x: FloatArray) -> float:
    """Highest, 0, at (2, 4.5, 3.3)."""
    return -float((x - [2.0, 4.5, 3.3]) ** 2 @ [1.0, 0.5, 2.0])


def test_the_maximum_of_a_concave_quadratic() -> None:
    found = maximize_black_box(quadratic, ratings(3), 400)
    assert found.value > -1e-3
    np.testing.assert_allclose(found.actions[0], [2.0, 4.5, 3.3], atol=0.05)


def test_a_maximum_at_a_vertex_is_hit_exactly() -> None:
    found = maximize_black_box(lambda x: float(x @ [1.0, -2.0, 0.5, -0.1, 3.0]), ratings(5), 60)
    assert found.actions[0].tolist() == [5, 1, 5, 1, 5]


def unsigned(objective: Callable[[FloatArray], float], box: Box, start: FloatArray, steps: int) -> FloatArray:
    """The estimate as paper 001 prints it: the slope's absolute value, the same for every variable."""
    draw = np.random.default_rng(0)
    x = start
    for _ in range(steps):
        z = 0.1 * draw.standard_normal(len(x))
        slope = abs(objective(box.inside(x + z)) - objective(box.inside(x - z))) / 0.2
        x = box.inside(x + 0.1 * slope)
    return x


def test_the_sign_and_the_direction_matter() -> None:
    # Decreasing in the second variable: a slope without its sign can only ever raise all ratings.
    def objective(x: FloatArray) -> float:
        return float(x[0] - 2 * x[1])

    printed = unsigned(objective, ratings(2), np.full(2, 3.0), 100)
    assert printed.tolist() == [5, 5]
    assert objective(printed) < objective(np.full(2, 3.0))
    found = maximize_black_box(objective, ratings(2), 30, start=np.full(2, 3.0))
    assert found.actions[0].tolist() == [5, 1]
    assert found.value == 3


@settings(max_examples=40)
@given(st.integers(1, 60), st.integers(1, 5), st.integers(0, 1000), st.booleans())
def test_the_budget_holds_and_no_point_is_asked_twice(budget: int, k: int, seed: int, grid: bool) -> None:
    box = Box.grid(STARS, k) if grid else ratings(k)
    mix = np.random.default_rng(seed).normal(size=(k, 4))
    asked: list[tuple[float, ...]] = []

    def objective(x: FloatArray) -> float:
        assert ((x >= 1) & (x <= 5)).all()
        assert not grid or np.isin(x, STARS).all()
        asked.append(tuple(x))
        return float(np.sin(x @ mix).sum())

    found = maximize_black_box(objective, box, budget, rng=seed)
    assert len(asked) == found.evaluations[0] == len(found.history) <= budget
    assert len(set(asked)) == len(asked)
    answers = [float(np.sin(np.array(point) @ mix).sum()) for point in asked]
    assert found.value == max(answers)
    np.testing.assert_array_equal(found.history, np.maximum.accumulate(answers))
    assert tuple(found.actions[0]) == asked[int(np.argmax(answers))]


def test_a_grid_smaller_than_the_budget_is_asked_completely_and_nothing_else() -> None:
    found = maximize_black_box(lambda x: float(tuple(x) == (2.0, 5.0, 4.0)), Box.grid(STARS, 3), 200)
    assert found.value == 1
    assert found.evaluations[0] == 125


def test_a_grid_larger_than_the_budget_is_climbed() -> None:
    found = maximize_black_box(lambda x: -float(((x - [2.2, 4.9, 3.4, 1.0, 4.0]) ** 2).sum()), Box.grid(STARS, 5), 150)
    assert found.actions[0].tolist() == [2, 5, 3, 1, 4]


def test_a_flat_objective_does_not_stop_the_search() -> None:
    found = maximize_black_box(lambda _: -690.0, ratings(2), 50)
    assert found.value == -690
    assert found.evaluations[0] == 50


def test_a_variable_that_cannot_move_stays() -> None:
    box = Box(np.array([1.0, 3.0]), np.array([5.0, 3.0]))
    found = maximize_black_box(lambda x: float(-((x[0] - 4) ** 2) + x[1]), box, 100)
    assert found.actions[0, 1] == 3
    assert found.value == pytest.approx(3, abs=1e-3)


def test_the_start_is_asked_first_and_seeds_decide_the_rest() -> None:
    first: list[FloatArray] = []

    def objective(x: FloatArray) -> float:
        first.append(x)
        return quadratic(x)

    found = maximize_black_box(objective, ratings(3), 40, start=np.array([1.0, 9.0, 2.0]), rng=7)
    assert first[0].tolist() == [1, 5, 2]
    again = maximize_black_box(quadratic, ratings(3), 40, start=np.array([1.0, 9.0, 2.0]), rng=7)
    np.testing.assert_array_equal(found.history, again.history)


def test_bad_budgets_and_answers_are_refused() -> None:
    with pytest.raises(InputError, match="budget"):
        maximize_black_box(quadratic, ratings(3), 0)
    with pytest.raises(InputError, match=r"objective: received nan at \[3.0"):
        maximize_black_box(lambda _: float("nan"), ratings(3), 10)
