from __future__ import annotations

import pytest
import torch
from torch import Tensor

from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled


def family(scale: float, work_bytes: int = 1 << 24) -> tuple[LogSumExp, Tensor, Tensor]:
    """Two problems, the second with three items less, and five points of them."""
    generator = torch.Generator().manual_seed(1)
    slopes = scale * torch.randn(2, 30, 3, generator=generator, dtype=torch.double)
    offsets = torch.randn(2, 30, generator=generator, dtype=torch.double)
    offsets[1, -3:] = -torch.inf
    points = torch.rand(5, 3, generator=generator, dtype=torch.double) * 2 - 1
    return (
        LogSumExp(Scaled(slopes, offsets, torch.zeros_like(offsets)), work_bytes),
        points,
        torch.tensor([0, 0, 1, 1, 1]),
    )


# Scores so far apart that plain exponentials overflow; so little memory that items come in pieces.
settings = pytest.mark.parametrize(("scale", "work_bytes"), [(0.5, 1 << 24), (400.0, 1 << 24), (0.5, 2000)])


@settings
def test_value_and_derivatives_are_those_of_the_formula(scale: float, work_bytes: int) -> None:
    shared, points, owner = family(scale, work_bytes)

    found = shared.evaluate(points, owner, hessian=True)

    for row, problem in enumerate(owner.tolist()):
        u = points[row].clone().requires_grad_()
        value = torch.logsumexp(shared.slopes[problem] @ u + shared.offsets[problem], dim=0)
        (gradient,) = torch.autograd.grad(value, u, create_graph=True)
        hessian = torch.stack([torch.autograd.grad(part, u, retain_graph=True)[0] for part in gradient])
        torch.testing.assert_close(found.value[row], value.detach(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found.gradient[row], gradient.detach(), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(found.hessian[row], hessian, rtol=1e-8, atol=1e-9 * scale**2)


def test_the_centre_is_at_zero_and_the_level_says_how_far_it_was_moved() -> None:
    shared, _, _ = family(0.5)

    centre = shared.evaluate(torch.zeros(2, 3, dtype=torch.double), torch.tensor([0, 1]), hessian=False)

    torch.testing.assert_close(centre.value, torch.zeros(2, dtype=torch.double))
    torch.testing.assert_close(torch.logsumexp(shared.offsets + shared.level[:, None], dim=1), shared.level)


@pytest.mark.parametrize("scale", [0.5, 5.0, 400.0])
def test_the_spread_bounds_the_range_over_the_box(scale: float) -> None:
    shared, _, _ = family(scale)
    corners = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0], dtype=torch.double)] * 3)
    owner = torch.zeros(len(corners), dtype=torch.long)

    value = shared.evaluate(corners, owner, hessian=False).value

    assert value.max() - value.min() <= shared.spread


def test_cooled_scores_are_scaled_scores() -> None:
    shared, points, owner = family(2.0)

    cooled = shared.cooled(0.25).evaluate(points, owner, hessian=False)

    scores = torch.einsum("nik,nk->ni", shared.slopes[owner], points) + shared.offsets[owner]
    level = torch.logsumexp(0.25 * shared.offsets, dim=1)[owner]
    torch.testing.assert_close(cooled.value, torch.logsumexp(0.25 * scores, dim=1) - level)
