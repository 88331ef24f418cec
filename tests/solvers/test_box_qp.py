from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from recaudit.solvers.softmax.box_qp import minimize_box_quadratics, minimize_together

Minimizer = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

ways = pytest.mark.parametrize("minimize", [minimize_box_quadratics, minimize_together], ids=["each", "together"])


def quadratics(rows: int, size: int, rank: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Hessians of the given rank, gradients, starting points, damping and tolerances."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.double)

    half = normal(rows, size, rank)
    points = torch.rand(rows, size, generator=generator, dtype=torch.double) * 2 - 1
    small = torch.full((rows,), 1e-9, dtype=torch.double)
    return half @ half.mT, 2 * normal(rows, size), points, small, small


def gap(H: Tensor, r: Tensor, start: Tensor, damping: Tensor, x: Tensor) -> Tensor:
    """How much lower the minimum can be: sum_k max(g_k (x_k + 1), g_k (x_k - 1)) for the gradient g at x."""
    gradient = r + torch.einsum("nkl,nl->nk", H, x - start) + damping[:, None] * (x - start)
    return torch.maximum(gradient * (x + 1), gradient * (x - 1)).sum(dim=1)


@ways
def test_a_minimum_inside_the_box_is_the_newton_step(minimize: Minimizer) -> None:
    H = torch.tensor([[[2.0, 1.0], [1.0, 2.0]]], dtype=torch.double)
    r = torch.tensor([[0.3, -0.3]], dtype=torch.double)
    start, tiny = torch.zeros(1, 2, dtype=torch.double), torch.full((1,), 1e-12, dtype=torch.double)

    x = minimize(H, r, start, tiny, tiny)

    torch.testing.assert_close(x, torch.tensor([[-0.3, 0.3]], dtype=torch.double))


@ways
def test_a_coordinate_at_its_bound_moves_the_other(minimize: Minimizer) -> None:
    # Without the box: (-4, 4.5). With x_1 = 1 the other solves 10 x_0 + 9 - 0.5 = 0.
    H = torch.tensor([[[10.0, 9.0], [9.0, 9.0]]], dtype=torch.double)
    r = torch.tensor([[-0.5, -4.5]], dtype=torch.double)
    start, tiny = torch.zeros(1, 2, dtype=torch.double), torch.full((1,), 1e-12, dtype=torch.double)

    x = minimize(H, r, start, tiny, tiny)

    torch.testing.assert_close(x, torch.tensor([[-0.85, 1.0]], dtype=torch.double))


@ways
@pytest.mark.parametrize(("size", "rank"), [(1, 1), (4, 4), (10, 12)])
def test_most_problems_are_solved_exactly(minimize: Minimizer, size: int, rank: int) -> None:
    H, r, start, damping, tol = quadratics(300, size, rank)

    x = minimize(H, r, start, damping, tol)

    assert ((x >= -1) & (x <= 1)).all()
    assert (gap(H, r, start, damping, x) <= 1e-8).double().mean() > 0.97


@ways
def test_the_objective_never_rises(minimize: Minimizer) -> None:
    H, r, start, damping, tol = quadratics(300, 12, 3)

    step = minimize(H, r, start, damping, tol) - start

    change = (r * step).sum(dim=1) + torch.einsum("nk,nkl,nl->n", step, H, step) / 2
    assert (change <= 1e-12).all()


@ways
def test_the_arguments_are_left_alone(minimize: Minimizer) -> None:
    for rows, size in ((1, 3), (5, 1)):
        arguments = quadratics(rows, size, size)
        copies = [argument.clone() for argument in arguments]

        minimize(*arguments)

        assert all(torch.equal(a, b) for a, b in zip(arguments, copies, strict=True))


def test_row_by_row_and_together_are_the_same_steps() -> None:
    arguments = quadratics(200, 8, 5, seed=3)

    torch.testing.assert_close(minimize_box_quadratics(*arguments), minimize_together(*arguments), rtol=0, atol=1e-6)
