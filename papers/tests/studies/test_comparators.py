"""Other measures of calibration that paper 004 compares with: its Table 1, and cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from recaudit.errors import InputError
from recaudit.plugins import FloatArray
from recaudit.plugins import calibration_kl as kl
from recaudit_papers.studies.calibration.comparators import binomial_diversity, disproportionality


def row(*values: float) -> FloatArray:
    return np.array([values])


class TestTable1:
    """What paper 004 says of its Table 1 in sections 3 and 5.1, for lists of N films of two genres."""

    @staticmethod
    def of(p: float, first: int, n: int = 10) -> tuple[float, float, float]:
        """C_KL, DP and BinomDiv."""
        target, counts = row(p, 1 - p), np.array([[first, n - first]])
        return (
            float(kl(target, counts / n)[0]),
            float(disproportionality(target, counts.astype(float))[0]),
            float(binomial_diversity(target, counts, np.array([n]))[0]),
        )

    @pytest.mark.parametrize(("p", "first", "n"), [(0.6, 6, 10), (0.7, 7, 10), (0.7, 70, 100)])
    def test_kl_and_dp_are_zero_for_perfect_lists(self, p: float, first: int, n: int) -> None:
        assert self.of(p, first, n)[:2] == pytest.approx((0, 0), abs=1e-12)

    @pytest.mark.parametrize(("p", "first"), [(0.6, 7), (0.6, 5), (0.7, 8), (0.7, 6)])
    def test_dp_is_one_for_one_film_off(self, p: float, first: int) -> None:
        assert self.of(p, first)[1] == pytest.approx(1)

    def test_kl_prefers_the_more_even_of_two_deviations(self) -> None:
        assert self.of(0.6, 5)[0] < self.of(0.6, 7)[0]
        assert self.of(0.7, 69, 100)[0] < self.of(0.7, 71, 100)[0]

    def test_kl_is_worse_for_more_extreme_targets(self) -> None:
        assert self.of(0.6, 7)[0] < self.of(0.7, 8)[0]
        assert self.of(0.6, 5)[0] < self.of(0.7, 6)[0]

    def test_kl_minds_one_percent_of_two_more_than_of_fifty(self) -> None:
        assert self.of(0.02, 1, 100)[0] > self.of(0.5, 49, 100)[0]

    def test_binomdiv_has_no_fixed_value_for_perfect_lists(self) -> None:
        perfect = [self.of(0.6, 6)[2], self.of(0.7, 7)[2], self.of(0.7, 70, 100)[2]]
        assert len({round(value, 3) for value in perfect}) == 3

    def test_binomdiv_by_hand(self) -> None:
        """sqrt of P(X >= 7 | X > 0) for 0.6 and P(X >= 3 | X > 0) for 0.4; and the other way round for 5 and 5.

        Under the definition that the paper cites, 7:3 is the better of the two; the paper's text has it worse.
        """
        seven = 0.3822806016 / (1 - 0.4**10) * 0.8327102464 / (1 - 0.6**10)
        five = 0.8337613824 / (1 - 0.4**10) * 0.3668967424 / (1 - 0.6**10)
        assert self.of(0.6, 7)[2] == pytest.approx(np.sqrt(seven))
        assert self.of(0.6, 5)[2] == pytest.approx(np.sqrt(five))
        assert seven > five


class TestComparators:
    def test_dp_counts_items_beside_every_interest(self) -> None:
        # Of 10 places 6 and 4 are wanted; 4 and 2 are filled: 4 + 4, and half of 4 squared.
        assert disproportionality(row(0.6, 0.4), row(4, 2), np.array([4.0])) == pytest.approx(4 + 4 + 8)

    def test_a_missing_genre_costs_coverage(self) -> None:
        found = binomial_diversity(row(0.6, 0.4), np.array([[3, 0]]), np.array([3]))
        assert found == pytest.approx(np.sqrt(0.6**3) * 0.6**3 / (1 - 0.4**3))

    def test_long_lists_do_not_underflow(self) -> None:
        found = binomial_diversity(row(0.5, 0.3, 0.2), np.array([[2500, 2500, 0]]), np.array([5000]))
        assert 0 < found[0] < 1e-100

    def test_genres_of_probability_zero_and_one(self) -> None:
        p = np.array([[1.0, 0.0]] * 4)
        counts = np.array([[3, 0], [2, 1], [1, 2], [0, 0]])
        found = binomial_diversity(p, counts, np.array([3, 3, 3, 0]))
        np.testing.assert_allclose(found, [1, 1, 0, 1])

    def test_counts_fit_the_list(self) -> None:
        with pytest.raises(InputError, match="counts from 0 to size"):
            binomial_diversity(row(1.0), np.array([[3]]), np.array([2]))
