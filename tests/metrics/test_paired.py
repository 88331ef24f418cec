"""Differences of paired numbers: against formulas, other implementations, and a permutation of the two models."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from recaudit.metrics.inference import MIN_USERS, assign_blocks
from recaudit.metrics.intervals import Ratio, Scale
from recaudit.metrics.paired import (
    ROUNDING,
    ListCounts,
    PairedMean,
    PairedStatistic,
    corrected,
    difference_table,
    pair_counts,
    pair_terms,
)
from recaudit.metrics.terms import by_group, term_table

IDS = pl.Series([f"u{i:03}" for i in range(200)])


def terms(values: np.ndarray, weights: np.ndarray | None = None, scale: Scale = "mean") -> pl.DataFrame:
    weights = np.ones(len(values)) if weights is None else weights
    return term_table([Ratio("m", values * weights, weights, len(values), scale)], IDS[: len(values)])


def differences(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    return difference_table(pair_terms(before, after))


@pytest.fixture
def both() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(4)
    taste = draw.normal(3.0, 1.0, 200)
    return taste + draw.normal(0, 0.1, 200), taste + 0.02 + draw.normal(0, 0.1, 200)


class TestMeans:
    def test_symmetric_differences_are_the_paired_t_test(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        before, after = both
        row = differences(terms(before), terms(after)).row(0, named=True)
        peer = stats.ttest_rel(after, before)
        assert (row["before"], row["after"]) == pytest.approx((before.mean(), after.mean()))
        assert row["error"] == pytest.approx((after - before).std(ddof=1) / np.sqrt(200))
        assert row["p"] == pytest.approx(peer.pvalue, rel=0.15)
        low, high = peer.confidence_interval(0.95)
        assert row["lower"] == pytest.approx(low, abs=0.05 * (high - low))
        assert row["upper"] == pytest.approx(high, abs=0.05 * (high - low))
        assert (row["users"], row["changed"], row["left_out"], row["reason"]) == (200, 200, 0, None)

    def test_users_of_one_result_are_counted_and_left_out(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        before, after = both
        whole, fewer = terms(before), terms(after).head(150)
        row = differences(whole, fewer).row(0, named=True)
        assert (row["users"], row["left_out"]) == (150, 50)
        assert row["before"] == pytest.approx(before[:150].mean())
        assert row["difference"] == pytest.approx((after - before)[:150].mean())

    def test_no_common_user_has_no_row(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        strangers = terms(both[1]).with_columns(user=pl.lit("other ") + pl.col("user"))
        assert differences(terms(both[0]), strangers).is_empty()

    def test_groups_are_those_of_the_users(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        before, after = both
        team = np.where(np.arange(200) < 150, "a", "b")
        people = pl.DataFrame({"user": IDS, "team": team}).with_columns(
            team=pl.when(pl.col("user") == "u000").then(None).otherwise("team")
        )
        found = differences(by_group(terms(before), people), by_group(terms(after), people))
        rows = {(row["by"], row["group"]): row for row in found.iter_rows(named=True)}
        assert set(rows) == {("", ""), ("team", "a"), ("team", "b")}
        assert rows["team", "a"]["after"] == pytest.approx(after[1:150].mean())
        assert [rows[key]["users"] for key in rows] == [200, 149, 50]

    @pytest.mark.parametrize("n", [1, 2, 3, MIN_USERS - 1])
    def test_too_few_users_have_a_value_and_nothing_else(self, n: int) -> None:
        before = np.linspace(0.1, 0.5, n)
        row = differences(terms(before), terms(before + 0.3)).row(0, named=True)
        assert row["difference"] == pytest.approx(0.3)
        assert [row[name] for name in ("lower", "upper", "error", "p", "detectable")] == [None] * 5
        assert (row["reason"], row["users"]) == ("too_few_users", n)

    def test_too_few_changes_have_a_value_and_nothing_else(self) -> None:
        before = np.linspace(0.1, 0.5, 100)
        row = differences(terms(before), terms(before + 0.3 * (np.arange(100) < 5))).row(0, named=True)
        assert (row["p"], row["reason"], row["changed"]) == (None, "too_few_changes", 5)

    def test_equal_changes_are_as_certain_as_sign_flips_allow(self) -> None:
        before = np.linspace(0, 1, 10)
        row = differences(terms(before), terms(before + 1)).row(0, named=True)
        assert row["difference"] == pytest.approx(1)
        assert row["p"] == pytest.approx(2 / 2**10, rel=0.01)

    def test_rounding_is_not_a_difference(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        before, _ = both
        assert differences(terms(before), terms(before * (1 + ROUNDING / 10)))["p"][0] == 1
        assert differences(terms(before), terms(before * (1 + 10 * ROUNDING)))["p"][0] < 1e-6

    def test_the_detectable_difference_is_found_in_80_percent(self) -> None:
        draw = np.random.default_rng(2)
        spread = draw.normal(0, 0.1, (400, 60))
        detectable = (stats.t.isf(0.025, 59) + stats.t.ppf(0.8, 59)) * 0.1 / np.sqrt(60)
        n_found = 0
        for row in spread:
            found = differences(terms(np.zeros(60)), terms(row + detectable)).row(0, named=True)
            n_found += found["p"] < 0.05
        assert 0.7 < n_found / 400 < 0.9
        assert found["detectable"] == pytest.approx(detectable, rel=0.4)

    def test_geometric_means_are_compared_by_logarithms(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        before, after = both
        old, new = terms(before, scale="geometric"), terms(after, scale="geometric")
        row, swapped = (differences(*sides).row(0, named=True) for sides in ((old, new), (new, old)))
        plain = differences(terms(before), terms(after)).row(0, named=True)
        assert (row["before"], row["after"]) == pytest.approx((np.exp(before.mean()), np.exp(after.mean())))
        assert row["difference"] == pytest.approx(row["after"] - row["before"])
        assert row["p"] == plain["p"]
        middle = np.sqrt(row["before"] * row["after"])
        assert row["lower"] == pytest.approx(2 * middle * np.sinh(plain["lower"] / 2))
        assert row["lower"] < row["difference"] < row["upper"]
        assert (swapped["lower"], swapped["upper"]) == pytest.approx((-row["upper"], -row["lower"]))


class TestRatiosOfSums:
    def test_they_are_pooled_and_agree_with_the_delta_method(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        before, after = (np.abs(values) for values in both)
        n = np.random.default_rng(1).integers(1, 30, 200).astype(np.float64)
        row = differences(terms(before, n, "root"), terms(after, n, "root")).row(0, named=True)
        roots = [np.sqrt((values * n).sum() / n.sum()) for values in (before, after)]
        assert (row["before"], row["after"]) == pytest.approx(roots)
        sides = zip((before, after), roots, strict=True)
        parts = [(n * (values - root**2)) / (2 * root * n.mean()) for values, root in sides]
        assert row["error"] == pytest.approx((parts[1] - parts[0]).std(ddof=1) / np.sqrt(200), rel=0.2)

    def test_blocks_are_those_of_the_users_by_brute_force(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        before, after = (np.abs(values) for values in both)
        n = np.random.default_rng(1).integers(1, 30, 200).astype(np.float64)
        [number] = pair_terms(terms(before, n), terms(after, n))
        assert isinstance(number, PairedStatistic)
        blocks = assign_blocks(200)
        for side, values in ((number.old_without_block, before), (number.new_without_block, after)):
            kept = [blocks != block for block in range(50)]
            np.testing.assert_allclose(side, [(values * n)[own].sum() / n[own].sum() for own in kept])

    def test_equal_weights_are_a_mean_over_users(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        [number] = pair_terms(terms(both[0], np.full(200, 5.0)), terms(both[1], np.full(200, 5.0)))
        assert isinstance(number, PairedMean)
        np.testing.assert_allclose(number.new_values, both[1])


def world(draw: np.random.Generator, n: int = 150, items: int = 800, k: int = 5) -> tuple[ListCounts, ListCounts]:
    """Lists of two exchangeable models: each list is of the first or of the second with probability one half."""
    appeal = draw.normal(0, 1, items)
    lists = np.array([np.argsort(-(appeal + draw.gumbel(size=items)))[:k] for _ in range(2 * n)]).reshape(2, n, k)
    users = IDS[:n] if n <= len(IDS) else pl.Series([f"u{i}" for i in range(n)])
    named = pl.Series([f"i{i}" for i in range(items)])

    def side(own: np.ndarray) -> ListCounts:
        frame = pl.DataFrame({"user": np.repeat(users.to_numpy(), k), "item": named.gather(own.ravel())})
        return ListCounts(frame, named, lambda counts: (counts > 0).mean(axis=1, keepdims=True))

    return side(lists[0]), side(lists[1])


class TestStatisticsOfLists:
    def test_coverage_by_brute_force(self) -> None:
        before, after = world(np.random.default_rng(3))
        [number] = pair_counts(["coverage"], before, after)
        users, blocks = before.lists["user"].unique().sort(), assign_blocks(150)
        for side, whole, without in (
            (before, number.old, number.old_without_block),
            (after, number.new, number.new_without_block),
        ):
            assert whole == side.lists["item"].n_unique() / 800
            kept = [users.filter(pl.Series(blocks != block)) for block in range(50)]
            expected = [side.lists.filter(pl.col("user").is_in(own.implode()))["item"].n_unique() / 800 for own in kept]
            np.testing.assert_allclose(without, expected)

    def test_users_whose_lists_differ_are_counted(self) -> None:
        before, _ = world(np.random.default_rng(3))
        changed = before.lists.with_columns(
            item=pl.when(pl.col("user").is_in(["u000", "u001"])).then(pl.lit("i0")).otherwise("item")
        ).unique()
        after = ListCounts(changed, before.items, before.functional)
        [number] = pair_counts(["coverage"], before, after)
        assert (number.n_users, number.n_changed) == (150, 2)
        row = difference_table([number]).row(0, named=True)
        assert (row["p"], row["reason"]) == (None, "too_few_changes")

    def test_another_order_of_lists_and_catalogue_changes_nothing(self) -> None:
        before, _ = world(np.random.default_rng(3))
        after = ListCounts(before.lists.reverse(), before.items.reverse(), before.functional)
        row = difference_table(pair_counts(["coverage"], before, after)).row(0, named=True)
        assert (row["difference"], row["changed"]) == (0, 0)

    def test_a_null_difference_of_coverage_is_rejected_in_at_most_5_percent_on_a_large_catalogue(self) -> None:
        """At one list position per item, a bootstrap of users rejected 16 to 19%."""
        draw, n = np.random.default_rng(9), 200
        p = [difference_table(pair_counts(["coverage"], *world(draw)))["p"][0] for _ in range(n)]
        assert sum(value < 0.05 for value in p) <= stats.binom.ppf(0.999, n, 0.05)


def test_a_null_difference_of_a_skewed_mean_is_rejected_in_5_percent() -> None:
    draw = np.random.default_rng(7)
    missed = 0
    for _ in range(400):
        taste = draw.exponential(1.0, 60)
        before, after = (terms(taste + draw.exponential(1.0, 60)) for _ in range(2))
        missed += differences(before, after)["p"][0] < 0.05
    assert stats.binom.ppf(0.001, 400, 0.02) <= missed <= stats.binom.ppf(0.999, 400, 0.05)


class TestCorrections:
    P = np.array([0.01, 0.04, np.nan, 0.03, 0.005])

    def test_holm(self) -> None:
        np.testing.assert_allclose(corrected(self.P, "holm"), [0.03, 0.06, np.nan, 0.06, 0.02])

    def test_benjamini_hochberg_is_that_of_scipy(self) -> None:
        found = corrected(self.P, "benjamini-hochberg")
        known = np.isfinite(self.P)
        np.testing.assert_allclose(found[known], stats.false_discovery_control(self.P[known]))
        assert np.isnan(found[2])

    def test_none(self) -> None:
        np.testing.assert_array_equal(corrected(self.P, "none"), self.P)

    @pytest.mark.parametrize("correction", ["holm", "benjamini-hochberg", "none"])
    def test_nothing_to_correct(self, correction: str) -> None:
        assert len(corrected(np.array([]), correction)) == 0  # type: ignore[arg-type]
