"""Cells as polytopes, and quadratics over them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from recaudit.arrays import FloatArray
from recaudit.solvers.trajectories.descent import minimize_over_hull
from recaudit.solvers.trajectories.polytope import SINGLE_POINT, Polytope, region_of_top, with_interval


def box(dimensions: int) -> Polytope:
    polytope: Polytope | None = SINGLE_POINT
    for _ in range(dimensions):
        assert polytope is not None
        polytope = with_interval(polytope, 1.0, 5.0)
    assert polytope is not None
    return polytope


def top_region(slope: FloatArray, intercept: FloatArray, own: int, base: Polytope) -> Polytope:
    vertices, facets, followed = region_of_top(slope, intercept, own, *base)
    assert followed
    return Polytope(vertices, facets)


def volume(polytope: Polytope) -> float:
    vertices = polytope.vertices
    return float(np.ptp(vertices)) if vertices.shape[1] == 1 else float(ConvexHull(vertices).volume)


def test_a_box_has_its_corners() -> None:
    corners = set(map(tuple, box(3).vertices))
    assert corners == set(itertools.product((1.0, 5.0), repeat=3))


def test_a_triangle_is_cut_off_a_square() -> None:
    """s_0 = x + y and s_1 = 4: item 1 is on top where x + y <= 4."""
    slope, intercept = np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([0.0, 4.0])
    region = top_region(slope, intercept, 1, box(2))
    expected = [[1, 1], [1, 3], [3, 1]]
    np.testing.assert_allclose(region.vertices[np.lexsort(region.vertices.T[::-1])], expected, atol=1e-12)


def test_of_items_that_tie_everywhere_the_first_is_on_top() -> None:
    slope, intercept = np.zeros((3, 2)), np.array([1.0, 1.0, 0.0])
    sizes = [len(top_region(slope, intercept, own, box(2)).vertices) for own in range(3)]
    assert sizes == [4, 0, 0]


def test_an_item_on_top_in_a_single_point_has_no_cell() -> None:
    slope, intercept = np.array([[1.0], [0.0]]), np.array([0.0, 5.0])
    assert len(top_region(slope, intercept, 0, box(1)).vertices) == 0


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_the_regions_of_all_items_fill_the_box(dimensions: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    slope, intercept = draw.normal(size=(12, dimensions)), draw.normal(size=12)
    base = box(dimensions)
    regions = [top_region(slope, intercept, own, base) for own in range(12)]
    total = sum(volume(region) for region in regions if len(region.vertices))
    assert total == pytest.approx(4.0**dimensions, rel=1e-9)
    for own, region in enumerate(regions):
        scores = region.vertices @ slope.T + intercept
        assert (scores[:, own] >= scores.max(axis=1) - 1e-9).all()


def test_whole_numbers_that_meet_in_many_points_are_no_trouble() -> None:
    """Scores with small whole slopes cut through corners and edges of the box."""
    draw = np.random.default_rng(1)
    for _ in range(30):
        slope, intercept = draw.integers(-1, 2, (8, 3)).astype(float), draw.integers(-2, 3, 8).astype(float)
        regions = [top_region(slope, intercept, own, box(3)) for own in range(8)]
        total = sum(volume(region) for region in regions if len(region.vertices))
        assert total == pytest.approx(64.0, rel=1e-9)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 40), st.sampled_from([1e-6, 1.0, 100.0]))
def test_a_quadratic_ends_where_no_vertex_promises_more(seed: int, size: int, count: int, curved: float) -> None:
    draw = np.random.default_rng(seed)
    vertices, factor = draw.normal(size=(count, size)), draw.normal(size=(size, max(1, size - 1)))
    H, r = curved * factor @ factor.T, draw.normal(size=size)
    start = draw.dirichlet(np.ones(count)) @ vertices

    found = minimize_over_hull(H[None], r[None], start[None], np.array([1e-12]), vertices)[0]

    gradient = r + H @ (found - start)
    assert gradient @ found - (vertices @ gradient).min() <= 1e-7 * (np.ptp(vertices @ r) + 1e-9)
    mixture = linprog(
        np.zeros(count),
        A_eq=np.vstack([vertices.T, np.ones(count)]),
        b_eq=np.append(found, 1.0),
        bounds=(0, None),
    )
    assert mixture.status == 0
