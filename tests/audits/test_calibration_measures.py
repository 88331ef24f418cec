from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse, stats

from recaudit.arrays import FloatArray
from recaudit.audits.calibration.calibrator import Target, interests
from recaudit.audits.calibration.measures import (
    Homogeneity,
    hellinger,
    kl,
    measurable,
    representation,
    total_variation,
)
from recaudit.data import Interactions
from recaudit.errors import InputError
from recaudit.policies.calibrated import CalibrationTarget
from recaudit.solvers.lists.objective import CategoryVectors, list_distribution, rank_weights

quick = settings(max_examples=100)
distributions = arrays.arrays(np.float64, (3, 5), elements=st.floats(0, 1)).map(
    lambda rows: np.where(
        rows.sum(axis=1, keepdims=True) > 1e-6, rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-6), 0.2
    )
)
SHARES = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 0.0]]))
"""Romance, action, both, neither."""


def row(*values: float) -> FloatArray:
    return np.array([values])


class TestInterests:
    def test_the_history_weighs_as_equation_2_says(self) -> None:
        history = sparse.csr_array(np.array([[2.0, 0.0, 1.0, 0.0], [0.0, 3.0, 0.0, 0.0]]))
        np.testing.assert_allclose(interests(history, SHARES), [[2.5 / 3, 0.5 / 3], [0.0, 1.0]])

    def test_items_without_a_genre_do_not_count(self) -> None:
        history = sparse.csr_array(np.array([[1.0, 1.0, 0.0, 5.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]]))
        assert interests(history, SHARES).tolist() == [[0.5, 0.5], [0, 0], [0, 0]]

    def test_weights_are_not_negative(self) -> None:
        with pytest.raises(InputError, match="history: received a weight below 0"):
            interests(sparse.csr_array(np.array([[-1.0, 0.0, 0.0, 0.0]])), SHARES)

    def test_a_half_life_ago_counts_half(self) -> None:
        """The latest item with a genre counts 1; what has none, and comes after it, counts nothing."""
        days = {"r": 10, "s": 9, "x": 4, "none": 12}
        frame = pl.DataFrame({"user": ["u"] * 4, "item": [*days], "time": [day * 86_400 for day in days.values()]})
        genres = pl.DataFrame({"item": ["r", "s", "x"], "genre": ["romance", "science", "action"]})
        log = Interactions.from_frame(frame, rating=None, time="time").with_items(genres, categories={"genre": "genre"})
        found = Target(log, CalibrationTarget(history_weights="recency", half_life=2 * 86_400))
        weights = {"romance": 1, "science": 2**-0.5, "action": 1 / 8}
        expected = [weights[name] / sum(weights.values()) for name in found.names]
        np.testing.assert_allclose(found.interests[0], expected)

    @pytest.mark.parametrize(
        ("prior", "expected"),
        [
            ("uniform", [[0.9, 0.1], [0.5, 0.5], [0.5, 0.5]]),
            ("population", [[0.95, 0.05], [0.55, 0.45], [0.75, 0.25]]),
            ({"action": 1.0}, [[0.8, 0.2], [0.4, 0.6], [0.0, 1.0]]),
        ],
    )
    def test_the_prior_mixes_in(self, prior: Any, expected: list[list[float]]) -> None:
        """Equation 7; the last row is of somebody whom the log does not know, who gets the prior."""
        frame = pl.DataFrame({"user": ["u", "v", "v"], "item": ["r", "r", "x"]})
        genres = pl.DataFrame({"item": ["r", "x"], "genre": ["romance", "action"]})
        data = Interactions.from_frame(frame, rating=None).with_items(genres, categories={"genre": "genre"})
        found = Target(data, CalibrationTarget(prior_weight=0.2, prior=prior))
        order = [found.names.index(name) for name in ("romance", "action")]
        np.testing.assert_allclose(found.interests[:, order], expected)


class TestListDistribution:
    LISTS = np.array([[0, 2, -1], [3, 1, 0], [-1, -1, -1]])

    def test_every_place_counts_the_same(self) -> None:
        np.testing.assert_allclose(list_distribution(self.LISTS, SHARES), [[0.75, 0.25], [1 / 3, 1 / 3], [0.0, 0.0]])

    def test_rank_weights_as_in_equation_3(self) -> None:
        q = list_distribution(self.LISTS, SHARES, rank_weights("mrr", 3))
        np.testing.assert_allclose(q, [[1.25 / 1.5, 0.25 / 1.5], [2 / 11, 3 / 11], [0.0, 0.0]])


class TestMeasures:
    def test_known_answers(self) -> None:
        p, q = row(0.5, 0.5, 0.0), row(0.0, 0.5, 0.5)
        expected = 0.5 * np.log(0.5 / 0.005) + 0.5 * np.log(0.5 / 0.5)
        assert kl(p, q) == pytest.approx(expected)
        assert hellinger(p, q) == pytest.approx(np.sqrt(0.5))
        assert total_variation(p, q) == pytest.approx(0.5)

    def test_nothing_in_common(self) -> None:
        p, q = row(1.0, 0.0), row(0.0, 1.0)
        assert kl(p, q, smoothing=0.1) == pytest.approx(np.log(10))
        assert hellinger(p, q).tolist() == total_variation(p, q).tolist() == [1]

    def test_places_without_a_genre_are_places_lost(self) -> None:
        p, q = row(0.5, 0.5), row(0.25, 0.25)
        assert kl(p, q)[0] > 0
        assert hellinger(p, q) == pytest.approx(np.sqrt(1 - 2 * np.sqrt(0.125)))
        assert total_variation(p, q) == pytest.approx(0.5)

    def test_what_cannot_be_measured_is_finite_and_marked(self) -> None:
        p, q = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
        assert measurable(p, q).tolist() == [False, False, True]
        for measure in (kl, hellinger, total_variation):
            assert np.isfinite(measure(p, q)).all()

    @quick
    @given(distributions, distributions)
    def test_ranges(self, p: FloatArray, q: FloatArray) -> None:
        assert (kl(p, q) >= 0).all()
        assert (kl(p, q) <= np.log(100) + 1e-9).all()
        for measure in (hellinger, total_variation):
            assert ((measure(p, q) >= 0) & (measure(p, q) <= 1 + 1e-9)).all()

    @quick
    @given(distributions)
    def test_perfect_lists_give_zero(self, p: FloatArray) -> None:
        for measure in (kl, hellinger, total_variation):
            np.testing.assert_allclose(measure(p, p), 0, atol=1e-7)

    @quick
    @given(distributions, distributions)
    def test_distances_bound_each_other(self, p: FloatArray, q: FloatArray) -> None:
        """H^2 <= TV <= sqrt(2) H, and Pinsker's inequality for the smoothed list."""
        h, tv = hellinger(p, q), total_variation(p, q)
        assert (h**2 <= tv + 1e-9).all()
        assert (tv <= np.sqrt(2) * h + 1e-9).all()
        assert (0.99 * tv <= np.sqrt(kl(p, q) / 2) + 1e-6).all()

    def test_over_and_under_representation(self) -> None:
        p, q = np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[0.75, 0.25], [0.25, 0.75]])
        found = representation(p, q)
        assert found["history"].tolist() == [0.5, 0.5]
        assert found["over"].tolist() == found["under"].tolist() == [0.125, 0.125]
        nobody = representation(np.zeros((0, 2)), np.zeros((0, 2)))
        assert nobody["under"].tolist() == [0, 0]


class TestHomogeneity:
    TWO = sparse.csr_array(np.repeat(np.eye(2), 20, axis=0))
    """Twenty romance films, then twenty action films."""

    def one(self, romance: int, action: int, listed: int, samples: int = 999, rng: int = 0) -> tuple[float, float]:
        """A history of so much romance and action, and a list of 6 with `listed` of romance."""
        history = np.zeros((1, 40))
        history[0, :romance], history[0, 20 : 20 + action] = 1, 1
        items = np.r_[10 : 10 + listed, 30 : 36 - listed][None]
        test = Homogeneity(items, sparse.csr_array(history), CategoryVectors.of(self.TWO), ["ada"], samples, rng)
        statistic, p_value = test(np.arange(1))
        return float(statistic[0]), float(p_value[0])

    def test_the_statistic_is_the_textbooks(self) -> None:
        table = np.array([[5, 1], [4, 6]])
        expected = stats.chi2_contingency(table, correction=False, lambda_=0).statistic
        assert self.one(4, 6, 5)[0] == pytest.approx(expected)

    def test_the_p_value_is_that_of_all_draws(self) -> None:
        """Of the 16 films 9 are romance; the list's tables are hypergeometric."""
        values = {k: self.one(9 - k, k + 1, k, samples=1)[0] for k in range(7)}
        expected = sum(stats.hypergeom.pmf(k, 16, 9, 6) for k in range(7) if values[k] >= values[5] - 1e-9)
        found = self.one(4, 6, 5, samples=20_000)[1]
        assert found == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 20_000))

    def test_the_same_proportions_are_no_evidence(self) -> None:
        statistic, p_value = self.one(5, 5, 3)
        assert statistic == pytest.approx(0, abs=1e-12)
        assert p_value == 1

    def test_a_list_against_all_of_a_long_history_is_evidence(self) -> None:
        assert self.one(0, 10, 6)[1] == pytest.approx(1 / 1000, abs=2e-3)

    def test_the_draws_follow_the_id_alone(self) -> None:
        history = sparse.csr_array(np.tile(np.r_[np.ones(4), np.zeros(16), np.ones(6), np.zeros(14)], (2, 1)))
        items = np.tile(np.r_[10:15, 30], (2, 1))
        _, p_values = Homogeneity(items, history, CategoryVectors.of(self.TWO), ["bob", "ada"])(np.arange(2))
        assert p_values[1] == self.one(4, 6, 5)[1]
        assert self.one(4, 6, 5, rng=1) != self.one(4, 6, 5)

    def test_without_a_history_or_a_list_nothing_is_tested(self) -> None:
        history = sparse.csr_array(np.array([[0.0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 1]]))
        lists = np.array([[0, 1], [-1, -1], [3, -1], [0, 1]])
        assert np.isnan(Homogeneity(lists, history, CategoryVectors.of(SHARES), range(4))(np.arange(4))).all()

    def test_items_with_several_genres(self) -> None:
        history = sparse.csr_array(np.array([[1.0, 1.0, 1.0, 0.0]]))
        statistic, p_value = Homogeneity(np.array([[2, 0, 1]]), history, CategoryVectors.of(SHARES), ["ada"])(
            np.arange(1)
        )
        assert statistic[0] == pytest.approx(0, abs=1e-12)
        assert np.isfinite(p_value).all()


@pytest.mark.parametrize("p", [5e-324, 1e-310, 1e-20, 0.5, 1.0])
@pytest.mark.parametrize("q", [0.0, 5e-324, 0.5, 1.0])
@pytest.mark.parametrize("smoothing", [1e-12, 0.01, 0.99])
def test_every_interest_gives_a_finite_divergence(p: float, q: float, smoothing: float) -> None:
    found = kl(np.array([[p, 1 - p]]), np.array([[q, 1 - q]]), smoothing)[0]
    assert 0 <= found <= -np.log(smoothing) + 1e-9


def test_interests_do_not_depend_on_the_size_of_the_weights() -> None:
    shares = sparse.csr_array(np.eye(2))
    for size in (5e-324, 1.0, 1e308):
        found = interests(sparse.csr_array(np.array([[size, size]])), shares)
        np.testing.assert_allclose(found, [[0.5, 0.5]])
