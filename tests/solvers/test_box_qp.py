from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from recaudit.arrays import FloatArray
from recaudit.solvers.softmax.box_qp import minimize_box_quadratics

Quadratics = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]


def quadratics(rows: int, size: int, rank: int, seed: int = 0) -> Quadratics:
    """Hessians of the given rank, gradients, starting points, damping and tolerances."""
    draw = np.random.default_rng(seed)
    half = draw.normal(size=(rows, size, rank))
    points, small = draw.uniform(-1, 1, (rows, size)), np.full(rows, 1e-9)
    return half @ half.mT, 2 * draw.normal(size=(rows, size)), points, small, small


def gap(H: FloatArray, r: FloatArray, start: FloatArray, damping: FloatArray, x: FloatArray) -> FloatArray:
    """How much lower the minimum can be: sum_k max(g_k (x_k + 1), g_k (x_k - 1)) for the gradient g at x."""
    gradient = r + np.einsum("nkl,nl->nk", H, x - start) + damping[:, None] * (x - start)
    return np.asarray(np.maximum(gradient * (x + 1), gradient * (x - 1)).sum(axis=1))


def test_a_minimum_inside_the_box_is_the_newton_step() -> None:
    H, r = np.array([[[2.0, 1.0], [1.0, 2.0]]]), np.array([[0.3, -0.3]])
    start, tiny = np.zeros((1, 2)), np.full(1, 1e-12)

    x = minimize_box_quadratics(H, r, start, tiny, tiny)

    np.testing.assert_allclose(x, [[-0.3, 0.3]])


def test_a_coordinate_at_its_bound_moves_the_other() -> None:
    # Without the box: (-4, 4.5). With x_1 = 1 the other solves 10 x_0 + 9 - 0.5 = 0.
    H, r = np.array([[[10.0, 9.0], [9.0, 9.0]]]), np.array([[-0.5, -4.5]])
    start, tiny = np.zeros((1, 2)), np.full(1, 1e-12)

    x = minimize_box_quadratics(H, r, start, tiny, tiny)

    np.testing.assert_allclose(x, [[-0.85, 1.0]])


@pytest.mark.parametrize(("size", "rank"), [(1, 1), (4, 4), (10, 12)])
def test_most_problems_are_solved_exactly(size: int, rank: int) -> None:
    H, r, start, damping, tol = quadratics(300, size, rank)

    x = minimize_box_quadratics(H, r, start, damping, tol)

    assert ((x >= -1) & (x <= 1)).all()
    assert (gap(H, r, start, damping, x) <= 1e-8).mean() > 0.97


def test_the_minimum_is_scipys() -> None:
    """The twin: with H = A^T A, the quadratic is half the squared length of A (x - start) + A^-T r, less a constant."""
    H, r, start, damping, tol = quadratics(50, 5, 7)

    found = minimize_box_quadratics(H, r, start, damping, tol)

    for row in range(50):
        A = np.linalg.cholesky(H[row]).T
        goal = A @ start[row] - np.linalg.solve(A.T, r[row])
        np.testing.assert_allclose(found[row], lsq_linear(A, goal, (-1, 1), method="bvls").x, atol=1e-5)


def test_the_objective_never_rises() -> None:
    H, r, start, damping, tol = quadratics(300, 12, 3)

    step = minimize_box_quadratics(H, r, start, damping, tol) - start

    change = (r * step).sum(axis=1) + np.einsum("nk,nkl,nl->n", step, H, step) / 2
    assert (change <= 1e-12).all()


def test_the_arguments_are_left_alone() -> None:
    for rows, size in ((1, 3), (5, 1)):
        arguments = quadratics(rows, size, size)
        copies = [argument.copy() for argument in arguments]

        minimize_box_quadratics(*arguments)

        assert all(np.array_equal(a, b) for a, b in zip(arguments, copies, strict=True))
