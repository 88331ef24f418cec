"""A bound that knows the curvature holds, is tighter than the tangent's, and gives up where it knows nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from recaudit.arrays import FloatArray
from recaudit.solvers import maximize_softmax
from recaudit.solvers.softmax.curvature import Curvature, inverse_trace
from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled


def family_of(slope: FloatArray, intercept: FloatArray, beta: float) -> tuple[LogSumExp, Scaled]:
    middle, half = (np.full((1, slope.shape[1]), value) for value in (3.0, 2.0))
    scores = Scaled.of(slope[None], intercept[None], beta, middle, half)
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
    points = np.clip(moved, -1, 1)
    anchor = np.clip(points + off * draw.normal(size=(1, 5)), -1, 1)
    owner, target = np.zeros(1, dtype=np.int64), scores.slopes[:, 7]
    there, here = family.evaluate(anchor, hessian=True), family.evaluate(points, hessian=False)
    least = there.hessian - np.eye(5) * there.doubt[:, None]
    residual, curvature = here.gradient - target, family.curvature
    stretch, tol = curvature.stretch(least, owner), np.full(1, 1e-6)
    bound = curvature.gap(owner, points, residual, anchor, least, stretch, tol)
    tangent = (residual * points + np.abs(residual)).sum()
    reached = float(family.offsets[0, 7]) - float(here.value[0] - (target * points).sum())
    return float(bound[0]), float(tangent), float(best.upper[0]) - reached


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
    curvature = Curvature(np.ones((1, 4, 3)), np.ones((1, 4), dtype=np.bool_))
    flat = np.zeros((1, 3, 3))

    assert np.isfinite(curvature.stretch(flat, np.zeros(1, dtype=np.int64))).all()


def test_the_trace_of_an_inverse() -> None:
    roots = np.random.default_rng(0).normal(size=(5, 4, 4))
    matrices = roots @ roots.mT + 0.1 * np.eye(4)
    matrices[3] = -matrices[3]

    trace = inverse_trace(matrices)

    known = [0, 1, 2, 4]
    np.testing.assert_allclose(trace[known], np.trace(np.linalg.inv(matrices[known]), axis1=1, axis2=2))
    assert trace[3] == np.inf
