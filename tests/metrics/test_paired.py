"""Differences of paired numbers: against formulas that are known, and against other implementations."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from recaudit.metrics.intervals import Bootstrap, Ratio, Scale
from recaudit.metrics.paired import ROUNDING, ListCounts, corrected, count_differences, judged, term_differences
from recaudit.metrics.terms import by_group, term_table

IDS = pl.Series([f"u{i:03}" for i in range(200)])
BOOTSTRAP = Bootstrap(samples=4000)


def terms(values: np.ndarray, weights: np.ndarray | None = None, scale: Scale = "mean") -> pl.DataFrame:
    weights = np.ones(len(values)) if weights is None else weights
    return term_table([Ratio("m", values * weights, weights, len(values), scale)], IDS[: len(values)])


@pytest.fixture
def both() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(4)
    taste = draw.normal(3.0, 1.0, 200)
    return taste + draw.normal(0, 0.1, 200), taste + 0.02 + draw.normal(0, 0.1, 200)


class TestTheDifferenceOfMeans:
    def test_it_is_the_paired_t_test(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        before, after = both
        found = judged(term_differences(terms(before), terms(after), BOOTSTRAP), 0.95).row(0, named=True)
        peer = stats.ttest_rel(after, before)
        assert (found["before"], found["after"]) == pytest.approx((before.mean(), after.mean()))
        assert found["error"] == pytest.approx((after - before).std(ddof=1) / np.sqrt(200), rel=0.04)
        assert found["p"] == pytest.approx(peer.pvalue, rel=0.25)
        low, high = peer.confidence_interval(0.95)
        assert (found["lower"], found["upper"]) == pytest.approx((low, high), rel=0.1)
        assert found["users"] == 200

    def test_pairing_is_what_makes_it_sure(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        """The same numbers of other people say nothing: what they share no longer cancels."""
        before, after = both
        strangers = terms(after).with_columns(user=pl.lit("other ") + pl.col("user"))
        paired = term_differences(terms(before), terms(after), BOOTSTRAP)
        unpaired = term_differences(terms(before), strangers, BOOTSTRAP)
        assert unpaired["difference"][0] == pytest.approx(paired["difference"][0])
        assert unpaired["error"][0] > 5 * paired["error"][0]
        separate = np.sqrt(before.var(ddof=1) / 200 + after.var(ddof=1) / 200)
        assert unpaired["error"][0] == pytest.approx(separate, rel=0.05)

    def test_a_pooled_number_is_pooled(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        """RMSE over all ratings together, where users have different numbers of them: the delta method agrees."""
        before, after = (np.abs(values) for values in both)
        n = np.random.default_rng(1).integers(1, 30, 200).astype(np.float64)
        found = term_differences(terms(before, n, "root"), terms(after, n, "root"), BOOTSTRAP).row(0, named=True)
        roots = [np.sqrt((values * n).sum() / n.sum()) for values in (before, after)]
        assert (found["before"], found["after"]) == pytest.approx(roots)
        sides = zip((before, after), roots, strict=True)
        parts = [(n * (values - root**2)) / (2 * root * n.mean()) for values, root in sides]
        assert found["error"] == pytest.approx((parts[1] - parts[0]).std(ddof=1) / np.sqrt(200), rel=0.05)

    def test_groups_are_those_of_the_people(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        before, after = both
        team = np.where(np.arange(200) < 150, "a", "b")
        people = pl.DataFrame({"user": IDS, "team": team}).with_columns(
            team=pl.when(pl.col("user") == "u000").then(None).otherwise("team")
        )
        found = term_differences(by_group(terms(before), people), by_group(terms(after), people), BOOTSTRAP)
        rows = {(row["by"], row["group"]): row for row in found.iter_rows(named=True)}
        assert set(rows) == {("", ""), ("team", "a"), ("team", "b")}
        assert rows["team", "a"]["after"] == pytest.approx(after[1:150].mean())
        assert [rows[key]["users"] for key in rows] == [200, 149, 50]

    def test_one_user_has_no_interval(self) -> None:
        found = judged(term_differences(terms(np.array([1.0])), terms(np.array([2.0])), BOOTSTRAP), 0.95)
        assert found["difference"][0] == 1
        assert found.select("error", "lower", "upper", "p").row(0) == (None, None, None, None)

    def test_rounding_is_no_difference(self, both: tuple[np.ndarray, np.ndarray]) -> None:
        before, _ = both
        found = judged(term_differences(terms(before), terms(before * (1 + ROUNDING / 10)), BOOTSTRAP), 0.95)
        assert found["p"][0] == 1
        found = judged(term_differences(terms(before), terms(before * (1 + 10 * ROUNDING)), BOOTSTRAP), 0.95)
        assert found["p"][0] < 1e-6

    def test_a_shift_that_is_the_same_for_all_is_certain(self) -> None:
        before = np.arange(50.0)
        found = judged(term_differences(terms(before), terms(before + 1), BOOTSTRAP), 0.95)
        assert found["difference"][0] == pytest.approx(1)
        assert found["p"][0] < 1e-12


def test_how_often_it_is_wrong_is_what_it_says() -> None:
    """Over 400 pairs of samples with skewed values and no difference, about 5% of the intervals miss 0."""
    draw = np.random.default_rng(7)
    missed = 0
    for _ in range(400):
        taste = draw.exponential(1.0, 60)
        before, after = (terms(taste + draw.exponential(1.0, 60)) for _ in range(2))
        found = judged(term_differences(before, after, Bootstrap(samples=300)), 0.95)
        missed += found["p"][0] < 0.05
    assert stats.binomtest(missed, 400, 0.05).pvalue > 0.01


def test_numbers_made_of_item_counts_are_drawn_by_user() -> None:
    """Coverage of lists of one item each: 30 of 40 items before, 20 after."""
    users = IDS[:60]
    items = pl.Series([f"i{i}" for i in range(40)])

    def shown(distinct: int) -> ListCounts:
        lists = pl.DataFrame({"user": users, "item": items.gather(np.arange(60) % distinct)})
        return ListCounts(lists, items, lambda counts: (counts > 0).mean(axis=1, keepdims=True))

    found = count_differences(["coverage"], shown(30), shown(20), BOOTSTRAP).row(0, named=True)
    assert (found["before"], found["after"], found["users"]) == (0.75, 0.5, 60)
    assert 0 < found["error"] < 0.1
    same = judged(count_differences(["coverage"], shown(30), shown(30), BOOTSTRAP), 0.95).row(0, named=True)
    assert (same["difference"], same["error"], same["p"]) == (0, 0, 1)


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

    def test_nothing_to_correct(self) -> None:
        assert len(corrected(np.array([]), "holm")) == 0
