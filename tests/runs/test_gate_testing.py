"""Tests of rules with bounds: known answers, and error rates at the margin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from recaudit.metrics.inference import assign_blocks, compute_gate_p_values, count_users_for_margin
from recaudit.metrics.metric import Metric
from recaudit.metrics.paired import PairedMean, PairedStatistic
from recaudit.runs.gate.rules import Rule
from recaudit.runs.gate.suggestion import compute_margin
from recaudit.runs.gate.testing import compute_margin_test, compute_threshold_test

SHARE = (0.0, 1.0)


def rule(metric: str = "ndcg", **held_to: Any) -> Rule:
    return Rule(metric=metric, **held_to)


def pair(old: np.ndarray, new: np.ndarray, *, is_geometric: bool = False) -> PairedMean:
    return PairedMean(metric="ndcg", old_values=old, new_values=new, is_geometric=is_geometric)


@pytest.fixture
def both() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(5)
    old = draw.uniform(0.1, 0.9, 200)
    return old, np.clip(old + draw.normal(0, 0.05, 200), 0, 1)


class TestMargins:
    def test_an_absolute_margin_tests_the_differences(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        old, new = both
        test = compute_margin_test(rule(not_worse_by=0.02), pair(old, new), SHARE)
        assert (test.p_pass, test.p_fail) == compute_gate_p_values(new - old, 0.02, (-1.0, 1.0))
        assert test.has_bound
        assert test.users_needed == count_users_for_margin(0.02) == 149

    @pytest.mark.parametrize(
        ("held_to", "factor", "sign", "bounds"),
        [
            ("not_lower_by", 0.9, 1, (-0.9, 1.0)),
            ("not_higher_by", 1.1, -1, (-1.0, 1.1)),
        ],
    )
    def test_a_relative_margin_tests_differences_to_a_share_of_the_baseline(
        self, both: tuple[np.ndarray, np.ndarray], held_to: str, factor: float, sign: int, bounds: tuple[float, float]
    ) -> None:
        old, new = both
        test = compute_margin_test(rule(**{held_to: "10%"}), pair(old, new), SHARE)
        expected = compute_gate_p_values(sign * (new - factor * old), 0.0, bounds)
        assert (test.p_pass, test.p_fail) == pytest.approx(expected)

    def test_a_negative_baseline_has_its_margin_on_the_other_side(self) -> None:
        draw = np.random.default_rng(1)
        old, new = draw.uniform(-0.9, -0.1, (2, 100))
        test = compute_margin_test(rule(not_lower_by="10%"), pair(old, new), (-1.0, 1.0))
        assert (test.p_pass, test.p_fail) == pytest.approx(compute_gate_p_values(new - 1.1 * old, 0.0, (-2.1, 2.1)))

    @pytest.mark.parametrize(("bounds", "has_bound"), [(SHARE, True), ((0.0, None), False), ((None, None), False)])
    def test_the_bound_on_the_side_of_the_loss(
        self, both: tuple[np.ndarray, np.ndarray], bounds: Any, has_bound: bool
    ) -> None:
        for held_to in ("not_lower_by", "not_higher_by"):
            assert compute_margin_test(rule("ndcg", **{held_to: 0.1}), pair(*both), bounds).has_bound is has_bound

    @pytest.mark.parametrize("margin", [0.1, 0.05, 0.02])
    def test_an_unchanged_model_passes_from_the_number_of_users_that_is_stated(self, margin: float) -> None:
        needed = count_users_for_margin(margin)
        for n, is_passed in ((needed - 2, False), (needed + 3, True)):
            old = np.full(n, 0.5)
            test = compute_margin_test(rule(not_worse_by=margin), pair(old, old), SHARE)
            assert test.p_pass is not None
            assert test.p_pass is not None
            assert (test.p_pass <= 0.05) is is_passed
            assert test.users_needed == needed
        relative = rule(not_worse_by=f"{200 * margin:g}%")
        needed = compute_margin_test(relative, pair(old, old), SHARE).users_needed or 0
        for n, is_passed in ((needed - 2, False), (needed + 3, True)):
            test = compute_margin_test(relative, pair(np.full(n, 0.5), np.full(n, 0.5)), SHARE)
            assert test.p_pass is not None
            assert test.p_pass is not None
            assert (test.p_pass <= 0.05) is is_passed

    def test_a_model_that_ruins_a_few_users_does_not_pass_unseen(self) -> None:
        """Exactly at the margin: 2% of users lose everything. Student's t passes it in half of the samples."""
        draw, n_passed = np.random.default_rng(3), 0
        for _ in range(400):
            old = np.ones(60)
            new = old - (draw.random(60) < 0.02)
            test = compute_margin_test(rule(not_worse_by=0.02), pair(old, new), SHARE)
            assert test.p_pass is not None
            n_passed += test.p_pass <= 0.05
        assert n_passed <= stats.binom.ppf(0.999, 400, 0.05)

    def test_a_relative_margin_of_a_geometric_mean_tests_logarithms(self) -> None:
        draw = np.random.default_rng(3)
        old, new = draw.normal(1, 0.5, (2, 100))
        test = compute_margin_test(rule(not_lower_by="10%"), pair(old, new, is_geometric=True), (0.0, None))
        expected = compute_gate_p_values(new - old, -math.log(0.9), (None, None))
        assert (test.p_pass, test.p_fail) == pytest.approx(expected)
        back = compute_margin_test(rule(not_higher_by="10%"), pair(old, new, is_geometric=True), (0.0, None))
        expected = compute_gate_p_values(old - new, math.log(1.1), (None, None))
        assert (back.p_pass, back.p_fail) == pytest.approx(expected)

    def test_an_absolute_margin_of_a_geometric_mean_is_a_jackknife(self) -> None:
        draw = np.random.default_rng(3)
        old = draw.normal(1, 0.5, 100)
        number = pair(old, old + draw.normal(0.3, 0.1, 100), is_geometric=True)
        test = compute_margin_test(rule(not_lower_by=0.1), number, (0.0, None))
        assert test.p_pass is not None
        assert test.p_pass < 0.001
        gains = np.exp(number.new_values.mean()) - np.exp(number.old_values.mean())
        parts = np.exp(number.new_values.mean()) * number.new_values - np.exp(old.mean()) * old
        assert number.statistic.new - number.statistic.old == pytest.approx(gains)
        assert test.standard_error == pytest.approx(parts.std(ddof=1) / 10, rel=0.2)

    def test_too_few_users_have_no_test(self) -> None:
        test = compute_margin_test(rule(not_worse_by=0.5), pair(np.zeros(9), np.ones(9)), SHARE)
        assert (test.p_pass, test.p_fail, test.reason) == (None, None, "too_few_users")


def statistic(n_changed: int, n: int = 600, loss: float = 0.0, spread: float = 0.0) -> PairedStatistic:
    blocks = assign_blocks(n).max() + 1
    old = 0.5 + np.zeros(blocks)
    new = old - loss + spread * np.random.default_rng(0).normal(size=blocks)
    return PairedStatistic(
        metric="coverage",
        old=0.5,
        new=0.5 - loss,
        old_without_block=old,
        new_without_block=new,
        n_users=n,
        n_changed=n_changed,
    )


class TestStatistics:
    def test_it_is_students_t(self) -> None:
        number = statistic(300, loss=0.01, spread=0.001)
        test = compute_margin_test(rule("coverage", not_worse_by=0.02), number, SHARE)
        error = number.estimate().standard_error
        assert error is not None
        assert test.p_pass == pytest.approx(stats.t.sf(0.01 / error, 49))
        assert test.p_fail == pytest.approx(stats.t.cdf(0.01 / error, 49))

    def test_unchanged_lists_pass_a_margin_if_there_are_enough_users(self) -> None:
        """A share q of changed lists moves coverage by at most 2 q: 0 of n changed have the probability (1 - q)^n."""
        for n, is_passed in ((200, False), (600, True)):
            test = compute_margin_test(rule("coverage", not_worse_by=0.02), statistic(0, n), SHARE)
            assert test.p_pass == pytest.approx(0.99**n)
            assert test.p_pass is not None
            assert (test.p_pass <= 0.05) is is_passed
            assert test.p_fail == 1
            assert test.users_needed == count_users_for_margin(0.01) == 299
        few = compute_margin_test(rule("coverage", not_worse_by="4%"), statistic(5), SHARE)
        assert few.p_pass == pytest.approx(stats.binom.cdf(5, 600, 0.01))

    def test_a_margin_of_0_is_undecided_if_too_few_lists_changed(self) -> None:
        test = compute_margin_test(rule("coverage", not_worse_by=0), statistic(3), SHARE)
        assert (test.p_pass, test.reason) == (None, "too_few_changes")

    def test_without_bounds_a_few_changes_decide_nothing(self) -> None:
        rising = rule("rmse", not_worse_by=0.02)
        assert compute_margin_test(rising, statistic(3), (0.0, None)).reason == "too_few_changes"
        unchanged = compute_margin_test(rising, statistic(0), (0.0, None))
        assert unchanged.p_pass == 0.5**600
        assert not unchanged.has_bound


class TestThresholds:
    @pytest.mark.parametrize(("held_to", "sign"), [("at_least", 1), ("at_most", -1)])
    def test_it_is_the_test_of_the_mean(self, both: tuple[np.ndarray, np.ndarray], held_to: str, sign: int) -> None:
        _, new = both
        test = compute_threshold_test(rule("ndcg", **{held_to: 0.48}), pair(new, new), SHARE)
        bounds = (-0.48, 0.52) if sign > 0 else (-0.52, 0.48)
        assert (test.p_pass, test.p_fail) == pytest.approx(compute_gate_p_values(sign * (new - 0.48), 0.0, bounds))
        assert test.users_needed is None

    def test_a_share_of_hits_is_the_binomial_test(self) -> None:
        hits = (np.arange(100) < 30).astype(np.float64)
        test = compute_threshold_test(rule("recall", at_least=0.2), pair(hits, hits), SHARE)
        assert test.p_pass == pytest.approx(stats.binom.sf(29, 100, 0.2), abs=2e-3)

    def test_a_geometric_mean_is_compared_by_logarithms(self) -> None:
        values = np.random.default_rng(2).normal(1.0, 0.2, 50)
        number = pair(values, values, is_geometric=True)
        test = compute_threshold_test(rule(at_least=2), number, (0.0, None))
        expected = compute_gate_p_values(values - math.log(2), 0.0, (None, None))
        assert (test.p_pass, test.p_fail) == pytest.approx(expected)
        assert compute_threshold_test(rule(at_least=0), number, (0.0, None)).p_pass == 0


class TestSuggestedMargins:
    METRIC = Metric("ndcg", "nDCG", "", "", "", "higher", bounds=SHARE)

    @pytest.mark.parametrize("n", [100, 300])
    def test_a_model_of_the_same_quality_passes_in_80_percent(self, n: int) -> None:
        """Values of users by both models have a correlation of one half, as a suggestion without a baseline assumes."""
        draw, outcomes = np.random.default_rng(n), []
        for _ in range(300):
            taste, *own = draw.normal(0, 1, (3, n))
            old, new = (np.clip(0.4 + 0.1 * (taste + each) / np.sqrt(2), 0, 1) for each in own)
            margin = math.ceil(100 * compute_margin(pair(old, old), self.METRIC))
            test = compute_margin_test(rule(not_worse_by=f"{margin}%"), pair(old, new), SHARE)
            assert test.p_pass is not None
            outcomes.append(test.p_pass <= 0.05)
        assert 0.74 < np.mean(outcomes) < 0.93

    def test_the_same_model_passes(self) -> None:
        for n in (59, 300):
            old = np.full(n, 0.4)
            margin = math.ceil(100 * compute_margin(pair(old, old), self.METRIC, is_paired=True))
            test = compute_margin_test(rule(not_worse_by=f"{margin}%"), pair(old, old), SHARE)
            assert test.p_pass is not None
            assert test.p_pass <= 0.05
