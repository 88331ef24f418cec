"""The solver beside a general one: CVXPY with Clarabel, on random instances."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from recaudit.solvers import maximize_softmax, top1_margin


@pytest.mark.parametrize("beta", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("actions", [1, 4, 12])
def test_values_agree_with_clarabel(beta: float, actions: int) -> None:
    draw = np.random.default_rng(actions)
    slope, intercept = 0.3 * draw.standard_normal((60, actions)), draw.standard_normal(60)
    targets = np.arange(0, 60, 12)
    found = maximize_softmax(slope, intercept, targets, beta, 1.0, 5.0)
    a = cp.Variable(actions)
    scores = beta * (slope @ a + intercept)
    for target, value, lower, upper in zip(targets, found.value, found.lower, found.upper, strict=True):
        problem = cp.Problem(cp.Maximize(scores[int(target)] - cp.log_sum_exp(scores)), [a >= 1, a <= 5])
        best = float(problem.solve(solver=cp.CLARABEL))
        assert value == pytest.approx(best, abs=1e-5)
        assert lower - 1e-5 <= best <= upper + 1e-5


@pytest.mark.parametrize("items", [2, 3, 7, 20, 60])
def test_margins_agree_with_clarabel(items: int) -> None:
    draw = np.random.default_rng(items)
    slope, intercept = draw.standard_normal((items, 3)), draw.standard_normal(items)
    found = top1_margin(slope, intercept, np.arange(items), -2.0, 3.0, exact=True)
    a = cp.Variable(3)
    scores = slope @ a + intercept
    for target in range(items):
        others = [j for j in range(items) if j != target]
        problem = cp.Problem(cp.Maximize(scores[target] - cp.max(scores[others])), [a >= -2, a <= 3])
        assert found.value[target] == pytest.approx(float(problem.solve(solver=cp.CLARABEL)), abs=1e-5)
