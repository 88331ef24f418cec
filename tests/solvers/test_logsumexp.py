from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled


def family(scale: float, work_bytes: int = 1 << 24) -> tuple[LogSumExp, FloatArray, IntArray]:
    """Two problems, the second with three items less, and five points of them."""
    draw = np.random.default_rng(1)
    slopes, offsets = scale * draw.normal(size=(2, 30, 3)), draw.normal(size=(2, 30))
    offsets[1, -3:] = -np.inf
    points = draw.uniform(-1, 1, (5, 3))
    scores = Scaled(slopes, offsets, np.zeros_like(offsets))
    return LogSumExp(scores, work_bytes), points, np.array([0, 0, 1, 1, 1])


# Scores so far apart that plain exponentials overflow; so little memory that items come in pieces.
settings = pytest.mark.parametrize(("scale", "work_bytes"), [(0.5, 1 << 24), (400.0, 1 << 24), (0.5, 2000)])


@settings
def test_value_and_derivatives_are_those_of_the_formula(scale: float, work_bytes: int) -> None:
    shared, points, owner = family(scale, work_bytes)

    found = shared.evaluate(points, owner, hessian=True)

    for row, problem in enumerate(owner.tolist()):
        u = torch.from_numpy(points[row]).requires_grad_()
        slopes, offsets = torch.from_numpy(shared.slopes[problem]), torch.from_numpy(shared.offsets[problem])
        value = torch.logsumexp(slopes @ u + offsets, dim=0)
        (gradient,) = torch.autograd.grad(value, u, create_graph=True)
        hessian = torch.stack([torch.autograd.grad(part, u, retain_graph=True)[0] for part in gradient])
        np.testing.assert_allclose(found.value[row], value.detach(), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.gradient[row], gradient.detach(), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found.hessian[row], hessian, rtol=1e-8, atol=1e-9 * scale**2)


def test_the_centre_is_at_zero_and_the_level_says_how_far_it_was_moved() -> None:
    shared, _, _ = family(0.5)

    centre = shared.evaluate(np.zeros((2, 3)), np.array([0, 1]), hessian=False)

    np.testing.assert_allclose(centre.value, 0, atol=1e-14)
    np.testing.assert_allclose(logsumexp(shared.offsets + shared.level[:, None], axis=1), shared.level)


@pytest.mark.parametrize("scale", [0.5, 5.0, 400.0])
def test_the_spread_bounds_the_range_over_the_box(scale: float) -> None:
    shared, _, _ = family(scale)
    corners = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=3)))
    owner = np.zeros(len(corners), dtype=np.int64)

    value = shared.evaluate(corners, owner, hessian=False).value

    assert value.max() - value.min() <= shared.spread


def test_cooled_scores_are_scaled_scores() -> None:
    shared, points, owner = family(2.0)

    cooled = shared.cooled(0.25).evaluate(points, owner, hessian=False)

    scores = np.einsum("nik,nk->ni", shared.slopes[owner], points) + shared.offsets[owner]
    level = logsumexp(0.25 * shared.offsets, axis=1)[owner]
    np.testing.assert_allclose(cooled.value, logsumexp(0.25 * scores, axis=1) - level, rtol=1e-10)
