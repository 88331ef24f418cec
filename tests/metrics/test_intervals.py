"""Aggregates over users: which method makes the interval of which number, and when there is none."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import sparse, stats

from recaudit.metrics.inference import SampleEstimate, estimate_difference, estimate_mean
from recaudit.metrics.intervals import (
    Ratio,
    aggregate,
    estimate_difference_of_lists,
    estimate_of_lists,
    estimate_ratio,
    mean,
    paired_difference,
    row,
)
from recaudit.metrics.tables import SUMMARY_SCHEMA

SHARE = (0.0, 1.0)


class TestOneNumber:
    def test_a_mean_over_users_is_that_of_inference(self) -> None:
        values = np.random.default_rng(0).beta(0.3, 2, 80)
        values[:7] = np.nan
        expected = estimate_mean(values, SHARE)
        estimate = estimate_ratio(mean("recall", values, np.ones(80)), SHARE)
        assert estimate.value == pytest.approx(expected.value)
        assert (estimate.lower, estimate.upper, estimate.n) == (expected.lower, expected.upper, 73)

    def test_members_of_a_group_alone_count(self) -> None:
        values, members = np.random.default_rng(0).random(80), np.arange(80) < 30
        estimate = estimate_ratio(mean("recall", values, members.astype(np.float64)), SHARE)
        assert (estimate.lower, estimate.upper) == pytest.approx(
            (estimate_mean(values[:30], SHARE).lower, estimate_mean(values[:30], SHARE).upper)
        )

    def test_hits_that_everybody_has_are_not_certain(self) -> None:
        """The exact binomial interval of 20 of 20 ends at 0.025^(1/20)."""
        estimate = estimate_ratio(mean("hit", np.ones(20), np.ones(20)), SHARE)
        assert estimate.lower == pytest.approx(0.025 ** (1 / 20), abs=2e-3)
        assert estimate.upper == 1.0

    def test_a_geometric_mean_comes_from_logarithms(self) -> None:
        logs = np.random.default_rng(1).normal(size=60)
        estimate = estimate_ratio(mean("lift", logs, np.ones(60), scale="geometric"), (0.0, None))
        expected = estimate_mean(logs)
        assert estimate.lower is not None
        assert estimate.upper is not None
        assert np.log([estimate.value, estimate.lower, estimate.upper]) == pytest.approx(
            [expected.value, expected.lower, expected.upper]
        )

    def test_a_ratio_of_sums_is_a_jackknife(self) -> None:
        """With at most 50 users each is a block of its own: the delete-one jackknife."""
        rng = np.random.default_rng(2)
        weights = rng.integers(1, 30, 40).astype(np.float64)
        totals = weights * rng.random(40)
        estimate = estimate_ratio(Ratio("mae", totals, weights, 40), (0.0, None))
        without = (totals.sum() - totals) / (weights.sum() - weights)
        error = np.sqrt(39 / 40 * ((without - without.mean()) ** 2).sum())
        half = stats.t.ppf(0.975, 39) * error
        assert estimate.value == totals.sum() / weights.sum()
        assert (estimate.lower, estimate.upper) == pytest.approx((estimate.value - half, estimate.value + half))

    def test_a_root_is_that_of_the_ratio(self) -> None:
        rng = np.random.default_rng(3)
        totals = rng.random(40)
        estimate = estimate_ratio(Ratio("rmse", totals, np.ones(40), 40, "root"), (0.0, None))
        roots = np.sqrt((totals.sum() - totals) / 39)
        half = stats.t.ppf(0.975, 39) * np.sqrt(39 / 40 * ((roots - roots.mean()) ** 2).sum())
        assert estimate.value == pytest.approx(np.sqrt(totals.mean()))
        assert (estimate.lower, estimate.upper) == pytest.approx((estimate.value - half, estimate.value + half))

    def test_the_interval_of_a_ratio_ends_at_its_bounds(self) -> None:
        totals, weights = np.array([3.0] + [0.0] * 14), np.array([3.0] + [4.0] * 14)
        estimate = estimate_ratio(Ratio("share", totals, weights, 15), SHARE)
        assert estimate.lower == 0.0

    @pytest.mark.parametrize("weights", [np.ones(9), np.arange(1.0, 10.0)])
    def test_nine_users_have_a_value_alone(self, weights: np.ndarray) -> None:
        estimate = estimate_ratio(Ratio("mae", weights * 0.5, weights, 12), (0.0, None))
        assert estimate == SampleEstimate(value=0.5, n=9, reason="too_few_users")

    def test_two_users_who_agree_have_no_interval(self) -> None:
        [cells] = aggregate([mean("recall", np.array([0.4, 0.4]), np.ones(2))], {"recall": SHARE})[0].to_dicts()
        assert (cells["value"], cells["lower"], cells["upper"]) == (0.4, None, None)
        assert (cells["reason"], cells["status"], cells["users"]) == ("too_few_users", "solved", 2)

    def test_nobody_has_a_value(self) -> None:
        [cells] = aggregate([mean("recall", np.full(20, np.nan), np.ones(20))], {})[0].to_dicts()
        assert (cells["value"], cells["reason"], cells["status"]) == (None, None, "not_applicable")
        assert (cells["users"], cells["excluded"]) == (0, 20)

    def test_ratios_of_sums_cover_the_truth(self) -> None:
        """In 400 samples of 60 users, whose numbers of ratings differ and whose own errors are alike."""
        rng, covered = np.random.default_rng(4), 0
        for _ in range(400):
            weights = np.asarray(rng.poisson(8, 60) + 1.0, dtype=np.float64)
            estimate = estimate_ratio(Ratio("mae", weights * rng.uniform(0, 2, 60), weights, 60), (0.0, None))
            assert estimate.lower is not None
            assert estimate.upper is not None
            covered += estimate.lower <= 1 <= estimate.upper
        assert covered / 400 >= 0.95 - 2 * 0.011


def compute_coverage(counts: np.ndarray) -> np.ndarray:
    return np.asarray((counts > 0).mean(axis=1, keepdims=True))


def draw_lists(rng: np.random.Generator, n_users: int, n_items: int, k: int) -> sparse.csr_array:
    lists = np.argsort(rng.random((n_users, n_items)), axis=1)[:, :k]
    shape, rows = (n_users, n_items), np.repeat(np.arange(n_users), k)
    return sparse.csr_array((np.ones(n_users * k), (rows, lists.ravel())), shape=shape)


class TestStatisticsOfLists:
    def test_the_error_is_that_of_the_delete_one_jackknife(self) -> None:
        shown = draw_lists(np.random.default_rng(0), 30, 50, 3)
        [estimate] = estimate_of_lists(compute_coverage, shown, [SHARE])
        counts = shown.toarray()
        without = compute_coverage(np.stack([np.delete(counts, user, axis=0).sum(axis=0) for user in range(30)]))[:, 0]
        half = stats.t.ppf(0.975, 29) * np.sqrt(29 / 30 * ((without - without.mean()) ** 2).sum())
        assert estimate.value == compute_coverage(counts.sum(axis=0)[None])[0, 0]
        assert (estimate.lower, estimate.upper) == pytest.approx((estimate.value - half, estimate.value + half))

    def test_nine_users_have_no_interval(self) -> None:
        shown = draw_lists(np.random.default_rng(0), 9, 50, 3)
        [estimate] = estimate_of_lists(compute_coverage, shown, [SHARE])
        assert (estimate.lower, estimate.reason) == (None, "too_few_users")

    def test_lists_that_are_the_same_have_no_verdict(self) -> None:
        shown = draw_lists(np.random.default_rng(0), 30, 50, 3)
        [difference] = estimate_difference_of_lists(compute_coverage, shown, shown)
        assert (difference.value, difference.p, difference.reason) == (0.0, None, "too_few_changes")

    def test_two_random_models_seldom_differ_in_coverage(self) -> None:
        """With 1.3 list positions per item the bootstrap of users found a difference in 19% of samples."""
        rng, n_found = np.random.default_rng(1), 0
        for _ in range(200):
            one, other = (draw_lists(rng, 60, 230, 5) for _ in range(2))
            [difference] = estimate_difference_of_lists(compute_coverage, one, other)
            assert difference.p is not None
            n_found += difference.p <= 0.05
        assert n_found <= 200 * 0.05 + 2 * np.sqrt(200 * 0.05 * 0.95)


class TestDifferenceOfTwoTables:
    def test_it_is_that_of_inference(self) -> None:
        rng = np.random.default_rng(0)
        one, other = (pl.DataFrame({"user": range(50), "recall": rng.random(50)}) for _ in range(2))
        found = paired_difference(one, other.filter(pl.col("user") >= 5), "recall", 0.95)
        expected = estimate_difference(one["recall"].to_numpy()[5:], other["recall"].to_numpy()[5:])
        assert (found["value"], found["lower"], found["upper"]) == (expected.value, expected.lower, expected.upper)
        assert found["users"] == 45

    def test_two_users_have_no_verdict(self) -> None:
        one, other = (pl.DataFrame({"user": [1, 2], "recall": [value] * 2}) for value in (0.5, 0.4))
        found = paired_difference(one, other, "recall", 0.95)
        assert found["value"] == pytest.approx(0.1)
        assert (found["lower"], found["reason"]) == (None, "too_few_users")


def test_a_row_has_the_columns_of_a_summary() -> None:
    assert {"metric", *row(SampleEstimate(value=0.5, n=3, reason="too_few_users"), 3)} == set(SUMMARY_SCHEMA)
