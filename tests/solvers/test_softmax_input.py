from __future__ import annotations

import numpy as np
import pytest

from recaudit.errors import InputError
from recaudit.solvers import maximize_softmax, maximize_softmax_batch

GOOD: dict[str, object] = {
    "slope": np.array([[0.1, 0.2], [0.3, -0.4], [0.0, 1.0]]),
    "intercept": np.array([1.0, 2.0, 3.0]),
    "targets": [0, 2],
    "beta": 1.0,
    "lower": 1.0,
    "upper": 5.0,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slope": np.full((3, 2), np.nan)}, "slope: received NaN"),
        ({"slope": np.full((3, 2), np.inf)}, "slope: received NaN or infinite"),
        ({"slope": np.zeros(3)}, r"slope: received an array of shape \(3,\)"),
        ({"slope": np.zeros((3, 0))}, "slope: .*at least one item and one action"),
        ({"slope": "steep"}, "slope: received str"),
        ({"intercept": np.array([1.0, np.inf, 0.0])}, "intercept: received NaN or infinite"),
        ({"intercept": np.zeros(2)}, r"intercept: received shape \(2,\) with a slope of shape \(3, 2\)"),
        ({"targets": [3]}, "targets: received positions from 3 to 3; expected positions from 0 to 2"),
        ({"targets": [-1]}, "targets: received positions from -1"),
        ({"targets": [0.5]}, "targets: .*whole numbers"),
        ({"targets": [[0, 1]]}, r"targets: received an array of shape \(1, 2\)"),
        ({"beta": 0.0}, "beta: received 0.0; expected a finite number above 0"),
        ({"beta": -2.0}, "beta: received -2.0"),
        ({"beta": float("nan")}, "beta: received nan"),
        ({"tol": 0.0}, "tol: received 0.0"),
        ({"max_steps": 0}, "max_steps: received 0"),
        ({"lower": 6.0}, "lower: received a bound above `upper`"),
        ({"lower": np.array([1.0, 5.5])}, "lower: received a bound above `upper`"),
        ({"upper": np.inf}, "upper: received NaN or infinite"),
        ({"upper": np.ones(3)}, r"upper: received an array of shape \(3,\)"),
    ],
)
def test_bad_input_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        maximize_softmax(**{**GOOD, **changes})  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slope": np.full((1, 3, 2), np.nan)}, "slope: received NaN"),
        ({"intercept": np.array([[1.0, np.nan, 0.0]])}, "intercept: received NaN"),
        ({"intercept": np.array([[1.0, np.inf, 0.0]])}, r"intercept: received NaN or \+inf"),
        ({"intercept": np.zeros((2, 3))}, r"intercept: received shape \(2, 3\)"),
        ({"intercept": np.array([[-np.inf, 1.0, 1.0]])}, "targets: received a target with the intercept -inf"),
        ({"targets": np.array([[0, 2]])}, "targets: .*expected booleans"),
        ({"targets": np.ones((1, 2), dtype=bool)}, r"targets: .*expected booleans of shape \(1, 3\)"),
        ({"lower": np.ones((2, 2))}, r"lower: received an array of shape \(2, 2\)"),
    ],
)
def test_bad_input_of_a_batch_is_named(changes: dict[str, object], message: str) -> None:
    good = {
        **GOOD,
        "slope": np.zeros((1, 3, 2)),
        "intercept": np.zeros((1, 3)),
        "targets": np.array([[True, False, True]]),
    }
    with pytest.raises(InputError, match=message):
        maximize_softmax_batch(**{**good, **changes})  # type: ignore[arg-type]  # wrong on purpose
