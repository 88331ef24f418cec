from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from recaudit.errors import InputError
from recaudit.solvers import hull_vertices

SQUARE = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])


def vertices(points: np.ndarray) -> list[int]:
    found = hull_vertices(points, np.arange(len(points)))
    assert set(found.status) == {"solved"}
    return np.flatnonzero(found.vertex).tolist()


def is_mixture(points: np.ndarray, target: int) -> bool:
    """The definition itself: are there weights >= 0 that sum to one and give the target from the others?"""
    others = np.delete(points, target, axis=0)
    answer = linprog(
        np.zeros(len(others)), A_eq=np.vstack([others.T, np.ones(len(others))]), b_eq=np.append(points[target], 1.0)
    )
    return bool(answer.success)


def test_a_square_with_points_inside_and_on_an_edge() -> None:
    assert vertices(np.vstack([SQUARE, [[0.5, 0.5], [0.5, 1.0], [0.2, 0.9]]])) == [0, 1, 2, 3]


def test_of_points_that_coincide_none_is_a_vertex() -> None:
    assert vertices(np.vstack([SQUARE, [1.0, 1.0]])) == [0, 1, 2]
    assert vertices(np.ones((3, 2))) == []


def test_on_a_line_the_ends_are_vertices() -> None:
    assert vertices(np.array([[3.0], [-1.0], [0.0], [2.9]])) == [0, 1]
    assert vertices(np.outer([0.0, 4, 1], [1.0, -2, 3])) == [0, 1]


def test_a_single_point_is_a_vertex() -> None:
    assert vertices(np.array([[2.0, 3.0]])) == [0]


def test_all_points_of_a_sphere_are_vertices_whatever_the_scale() -> None:
    points = np.random.default_rng(0).standard_normal((100, 4))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    for scale, shift in ((1.0, 0.0), (1e-6, 0.0), (1e6, 5e6)):
        assert len(vertices(scale * points + shift)) == 100


@pytest.mark.parametrize(("count", "size"), [(150, 2), (150, 3), (100, 5)])
def test_the_same_vertices_as_qhull(count: int, size: int) -> None:
    points = np.random.default_rng(count + size).standard_normal((count, size))
    assert vertices(points) == np.sort(ConvexHull(points).vertices).tolist()


@settings(max_examples=30)
@given(arrays(np.float64, st.tuples(st.integers(2, 12), st.integers(1, 4)), elements=st.integers(-4, 4).map(float)))
def test_a_vertex_is_no_mixture_and_has_a_direction_that_shows_it(points: np.ndarray) -> None:
    found = hull_vertices(points, np.arange(len(points)))
    for i in range(len(points)):
        assert found.vertex[i] == (not is_mixture(points, i))
        if found.vertex[i]:
            lengths = points @ found.directions[i]
            assert (lengths[i] > np.delete(lengths, i)).all()


def test_only_the_targets_are_looked_at_in_their_order() -> None:
    found = hull_vertices(np.vstack([SQUARE, [0.5, 0.5]]), [4, 0])
    assert found.vertex.tolist() == [False, True]
    assert len(hull_vertices(SQUARE, []).vertex) == 0


@pytest.mark.parametrize(
    ("points", "targets", "options", "message"),
    [
        (np.ones(3), [0], {}, "points: received an array of shape"),
        (np.full((2, 2), np.nan), [0], {}, "points: received NaN"),
        (SQUARE, [4], {}, "targets: .* from 0 to 3"),
        (SQUARE, [0], {"tol": 0.0}, "tol: received 0.0"),
    ],
)
def test_bad_input_is_named(points: Any, targets: Any, options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hull_vertices(points, targets, **options)
