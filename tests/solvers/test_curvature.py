"""A bound that knows the curvature holds, is tighter than the tangent's, and gives up where it knows nothing."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recaudit.arrays import FloatArray
from recaudit.solvers import maximize_softmax
from recaudit.solvers.softmax.curvature import Curvature, inverse_trace
from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled


def family_of(slope: FloatArray, intercept: FloatArray, beta: float) -> tuple[LogSumExp, Scaled]:
    middle, half = (torch.full((1, slope.shape[1]), value, dtype=torch.double) for value in (3.0, 2.0))
    scores = Scaled.of(torch.from_numpy(slope)[None], torch.from_numpy(intercept)[None], beta, middle, half)
    return LogSumExp(scores, 1 << 26), scores


def gaps(seed: int, rank: int, beta: float, off: float, *, held: bool = False) -> tuple[float, float, float]:
    """How much lower the minimum is than a point `off` the best one: by the curvature, by the tangent, and truly;
    `held`: whether ratings at an end of the scale stay there."""
    draw = np.random.default_rng(seed)
    slope = 0.3 * draw.normal(size=(60, rank)) @ draw.normal(size=(rank, 5))
    intercept = draw.normal(size=60)
    family, scores = family_of(slope, intercept, beta)
    best = maximize_softmax(slope, intercept, [7], beta, 1.0, 5.0, 1e-12)
    start = (best.actions - 3) / 2
    moved = start + off * draw.normal(size=(1, 5)) * ((np.abs(start) < 1 - 1e-3) | (not held))
    points = torch.from_numpy(np.clip(moved, -1, 1))
    anchor = (points + off * torch.from_numpy(draw.normal(size=(1, 5)))).clamp(-1, 1)
    owner, target = torch.zeros(1, dtype=torch.long), scores.slopes[:, 7]
    there, here = family.evaluate(anchor, hessian=True), family.evaluate(points, hessian=False)
    least = there.hessian - torch.diag_embed(there.doubt)
    residual, curvature = here.gradient - target, family.curvature
    stretch, tol = curvature.stretch(least, owner), torch.full((1,), 1e-6, dtype=torch.double)
    bound = curvature.gap(owner, points, residual, anchor, least, stretch, tol)
    tangent = (residual * points + residual.abs()).sum()
    reached = float(family.offsets[0, 7]) - float(here.value - (target * points).sum())
    return float(bound), float(tangent), float(best.upper[0]) - reached


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.floats(0.1, 5.0), st.floats(1e-6, 0.3))
def test_the_minimum_is_never_lower(seed: int, rank: int, beta: float, off: float) -> None:
    bound, _, true = gaps(seed, rank, beta, off)

    assert bound >= true - 1e-11


def test_near_the_minimum_it_is_the_square_of_the_tangents() -> None:
    found = np.array([gaps(seed, 5, 1.0, 1e-5, held=True) for seed in range(20)])
    inside = found[:, 1] > 1e-6  # elsewhere the best point is a corner, which both know

    assert inside.sum() >= 5
    assert (found[inside, 0] < 0.01 * found[inside, 1]).all()


def test_items_that_do_not_differ_leave_it_without_a_say_and_without_an_error() -> None:
    curvature = Curvature(torch.ones(1, 4, 3, dtype=torch.double), torch.ones(1, 4, dtype=torch.bool))
    flat = torch.zeros(1, 3, 3, dtype=torch.double)

    assert torch.isfinite(curvature.stretch(flat, torch.zeros(1, dtype=torch.long))).all()


def test_the_trace_of_an_inverse() -> None:
    roots = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 4, 4)))
    matrices = roots @ roots.mT + 0.1 * torch.eye(4, dtype=torch.double)
    matrices[3] = -matrices[3]

    trace = inverse_trace(matrices)

    known = [0, 1, 2, 4]
    torch.testing.assert_close(trace[known], torch.linalg.inv(matrices[known]).diagonal(dim1=1, dim2=2).sum(dim=1))
    assert trace[3] == torch.inf
