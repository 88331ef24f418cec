from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recaudit.errors import InputError
from recaudit.solvers import maximize_softmax
from recaudit.solvers.search import Box, ascend

UNIT = Box(np.zeros(2), np.ones(2))


def test_a_concave_maximum_inside_is_found() -> None:
    found = ascend(lambda x: -(x - torch.tensor([0.3, 0.8])).square().sum(1, True), UNIT, restarts=1)
    np.testing.assert_allclose(found.actions, [[0.3, 0.8]], atol=1e-3)
    assert found.value[0] == pytest.approx(0, abs=1e-6)


def test_a_maximum_outside_the_box_is_reached_at_its_edge() -> None:
    found = ascend(lambda x: -(x - torch.tensor([0.5, 3.0])).square().sum(1, True), UNIT, restarts=1, polish=False)
    np.testing.assert_allclose(found.actions, [[0.5, 1.0]], atol=1e-3)
    assert found.value[0] == pytest.approx(-4, abs=1e-6)


def test_each_problem_has_its_own_answer() -> None:
    goals = torch.tensor([[0.1, 0.2], [0.9, 0.4], [-1.0, 2.0]], dtype=torch.float64)
    found = ascend(lambda x: -(x[:, None] - goals).square().sum(dim=2), UNIT)
    np.testing.assert_allclose(found.actions, [[0.1, 0.2], [0.9, 0.4], [0.0, 1.0]], atol=1e-3)


def test_starting_on_top_of_a_valley_other_starts_help() -> None:
    # x^2 on [-1, 2] from 0: no slope there. Its maximum, 4, is a vertex.
    line = Box(np.array([-1.0]), np.array([2.0]))
    assert ascend(torch.square, line, starts=np.zeros((1, 1)), restarts=0, polish=False).value[0] == 0
    assert ascend(torch.square, line, starts=np.zeros((1, 1)), restarts=3, polish=False).value[0] == 4
    assert ascend(torch.square, line, starts=np.zeros((1, 1)), restarts=0).value[0] == 4


def test_no_gradient_is_no_step() -> None:
    # sqrt(x^2) has the derivative 0/0 at 0, as a distance has where nothing changed.
    found = ascend(lambda x: x.square().sqrt(), Box(-np.ones(1), np.ones(1)), starts=np.zeros((1, 1)), restarts=0)
    assert found.value[0] == 1
    constant = ascend(lambda x: torch.full((len(x), 1), 7.0, dtype=torch.float64), UNIT)
    assert constant.value[0] == 7


def test_single_variables_are_moved_where_there_are_too_many_vertices() -> None:
    # Each variable's best is a bound on the far side of a hump: from the centre, ascent goes to the near one.
    box = Box(np.full(8, -1.0), np.full(8, 1.2))
    found = ascend(lambda x: x.square().sum(dim=1, keepdim=True), box, starts=np.full((1, 8), -0.1), restarts=0)
    assert found.value[0] == pytest.approx(8 * 1.44)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.booleans())
def test_nothing_that_was_evaluated_is_higher(seed: int, grid: bool) -> None:
    draw = np.random.default_rng(seed)
    mix = torch.from_numpy(draw.normal(size=(3, 7)))
    seen = []

    def objective(x: Tensor) -> Tensor:
        value = torch.sin(x @ mix).sum(dim=1, keepdim=True)
        seen.append(torch.cat([x.detach(), value.detach()], dim=1))
        return value

    values = np.arange(1.0, 30.0) if grid else None
    box = Box(np.full(3, 1.0), np.full(3, 29.0)) if values is None else Box.grid(values, 3)
    found = ascend(objective, box, rng=seed)
    rows = torch.cat(seen).numpy()
    if values is not None:
        rows = rows[np.isin(rows[:, :3], values).all(axis=1)]
        assert np.isin(found.actions, values).all()
    assert found.value[0] == rows[:, 3].max()
    assert objective(torch.from_numpy(found.actions)).item() == pytest.approx(found.value[0], rel=1e-12)


def test_a_small_grid_is_searched_completely() -> None:
    # A needle that no gradient points to.
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    needle = torch.tensor([2.0, 5.0, 1.0, 4.0])
    found = ascend(lambda x: (x == needle).all(dim=1, keepdim=True).double(), Box.grid(values, 4))
    assert found.actions.tolist() == [needle.tolist()]
    assert found.evaluations.tolist() == [5**4]


def test_the_same_seed_gives_the_same_answer() -> None:
    def bumpy(x: Tensor) -> Tensor:
        return torch.sin(9 * x).sum(dim=1, keepdim=True) - x[:, :1] * x[:, 1:]

    first, again = (ascend(bumpy, UNIT, restarts=4, rng=3) for _ in range(2))
    np.testing.assert_array_equal(first.actions, again.actions)


@pytest.mark.parametrize(("actions", "beta"), [(3, 1.0), (5, 3.0), (9, 2.0)])
def test_softmax_reaches_the_certified_optimum(actions: int, beta: float) -> None:
    draw = np.random.default_rng(actions)
    slope = draw.normal(size=(60, 4)) @ draw.normal(size=(4, actions)) * 0.2
    intercept = draw.normal(size=60)
    targets = np.arange(0, 60, 7)
    exact = maximize_softmax(slope, intercept, targets, beta, 1.0, 5.0, 1e-7)
    B, c = torch.from_numpy(slope), torch.from_numpy(intercept)
    found = ascend(
        lambda x: torch.log_softmax(beta * (x @ B.T + c), dim=1)[:, targets],
        Box(np.ones(actions), np.full(actions, 5.0)),
    )
    assert (found.value <= exact.upper + 1e-9).all()
    np.testing.assert_allclose(found.value, exact.value, atol=1e-3)


def test_bad_boxes_and_no_start_are_refused() -> None:
    with pytest.raises(InputError, match="lower, upper"):
        Box(np.ones(2), np.zeros(2))
    with pytest.raises(InputError, match="lower, upper"):
        Box(np.empty(0), np.empty(0))
    with pytest.raises(InputError, match="no start"):
        ascend(torch.square, UNIT, restarts=0)
