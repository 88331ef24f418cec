"""Which findings there are and which come first: enough users, and the largest effect."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from recaudit import report
from recaudit.audits.audit import definitions
from recaudit.metrics.intervals import FEWEST_USERS
from recaudit.report.evidence import Evidence
from recaudit.report.findings import findings_of
from recaudit.report.kit import claims as effects
from recaudit.report.kit.numbers import Estimate
from report.crafted_runs import AGENCY, Data, Model, accuracy, agency, cells, groups, write_run

LOW, HIGH = (0.1, 0.05, 0.15), (0.4, 0.3, 0.5)


def by_region(numbers: dict[str, tuple[tuple[float, float, float], int]], metric: str = "ndcg") -> pl.DataFrame:
    """Regions with their number and how many users they have."""
    plain = groups("region", metric, {name: number for name, (number, _) in numbers.items()})
    return plain.with_columns(users=pl.Series([users for _, users in numbers.values()]))


def evidence(path: Path, *by: pl.DataFrame) -> Evidence:
    return Evidence(write_run(path, [Model("A", [accuracy(by=by)])], Data(attributes=("region",))))


class TestFewUsers:
    @pytest.mark.parametrize(("users", "told"), [(FEWEST_USERS, True), (FEWEST_USERS - 1, False)])
    def test_a_group_is_spoken_of_from_thirty_users_on(self, tmp_path: Path, users: int, told: bool) -> None:
        found = evidence(tmp_path, by_region({"North": (LOW, users), "South": (HIGH, 500)}))
        assert bool(findings_of(found)) == told

    def test_a_small_extreme_group_does_not_hide_the_gap_of_the_others(self, tmp_path: Path) -> None:
        numbers = {"North": (LOW, 40), "South": (HIGH, 500), "Islands": ((0.9, 0.1, 1.0), 6)}
        (finding,) = findings_of(evidence(tmp_path, by_region(numbers)))
        assert finding.claim == "A ranks better for users of region South than for users of region North"
        assert finding.effect.users == 40
        assert finding.touched == (40, 100)

    def test_tables_have_the_number_all_the_same_and_how_many_they_are(self, tmp_path: Path) -> None:
        found = evidence(tmp_path, by_region({"North": (LOW, 6), "South": (HIGH, 500)}))
        html = report.render(found.run)
        (cell,) = re.findall(r'<span class="value">0\.100</span>.*?</td>', html, re.S)
        assert '<span class="interval">6 users</span>' in cell
        assert "500 users" not in html
        assert "rests on fewer than 30 users" in html

    def test_no_card_names_a_gap_between_few(self, tmp_path: Path) -> None:
        found = evidence(tmp_path, by_region({"North": (LOW, 6), "South": (HIGH, 500)}))
        assert not [own for own in report.headlines(found.run) if "groups" in own.label]

    def test_a_card_that_rests_on_few_says_so(self, tmp_path: Path) -> None:
        run = write_run(tmp_path, [Model("A", [accuracy(users=6)])])
        assert report.headlines(run)[0].meaning == "nDCG@10 of A. It rests on 6 users only."

    def test_differences_on_few_common_users_are_no_finding(self, tmp_path: Path) -> None:
        models = [
            Model("A", [accuracy(0.4, per_user=[0.4] * 29)]),
            Model("Hits", [accuracy(0.2, per_user=[0.2] * 29)], "top-pop"),
        ]
        assert findings_of(Evidence(write_run(tmp_path, models))) == []

    def test_what_few_were_followed_for_is_left_to_the_tables(self, tmp_path: Path) -> None:
        result = agency({**AGENCY, "future_lift": (9.0, 1.5, 20.0), "future_unstable_share": (0.25, 0.035, 0.534)})
        few = pl.when(pl.col("metric").str.starts_with("future")).then(6).otherwise(pl.col("users"))
        tables = {**result.tables, "summary": result.tables["summary"].with_columns(users=few)}
        found = findings_of(Evidence(write_run(tmp_path, [Model("A", [replace(result, tables=tables)])])))
        assert [finding.claim for finding in found] == [
            "With 5 ratings, users of A could have made an item 1.50 times as likely at best, on average, among 40 "
            "drawn users",
            "No user of A who was asked about can overturn what another is shown with 5 ratings, among 40 drawn users "
            "and 20 drawn editors",
        ]
        assert not any("from now on" in finding.detail for finding in found)


def estimate(number: float | tuple[float, float, float], users: int = 100) -> Estimate:
    return Estimate(definitions()["ndcg"], **cells(number, users=users))  # type: ignore[arg-type]


class TestEffects:
    def test_a_mean_in_standard_deviations(self) -> None:
        # sd = 0.196 / 2 / 1.96 * sqrt(100) = 0.5, to the digits of 1.96; 0.098 on either side is 0.196 of them
        for own, value in ((estimate((0.7, 0.602, 0.798)), 0.2), (estimate((0.2, 0.102, 0.298)), 0.7)):
            effect = effects.against(own, value, 0.95)
            assert (effect.size, effect.least, effect.most) == pytest.approx((1.0, 0.804, 1.196), rel=1e-4)

    def test_it_does_not_grow_with_the_users_but_becomes_surer(self) -> None:
        wide, narrow = estimate((0.7, 0.602, 0.798), 100), estimate((0.7, 0.651, 0.749), 400)
        few, many = (effects.against(own, 0.0, 0.95) for own in (wide, narrow))
        assert few.size == pytest.approx(many.size)
        assert few.sure < many.sure < many.size

    @pytest.mark.parametrize(
        ("number", "differs", "equal"),
        [
            ((0.7, 0.6, 0.9), True, False),
            ((0.53, 0.501, 0.7), True, False),  # a lopsided interval that does not hold 0.5
            ((0.6, 0.49, 0.7), False, False),
            ((0.502, 0.482, 0.522), False, False),  # up to 0.022 of a deviation of 0.102
            ((0.5, 0.49, 0.51), False, True),
        ],
    )
    def test_a_claim_is_sure_as_far_as_its_interval_bears_it_out(
        self, number: tuple[float, float, float], differs: bool, equal: bool
    ) -> None:
        own = estimate(number, 100)
        assert (effects.against(own, 0.5, 0.95).sure > 0) == differs
        assert (effects.against(own, 0.5, 0.95, equal=True).sure > 0) == equal

    def test_two_groups(self) -> None:
        one, other = estimate((0.7, 0.602, 0.798)), estimate((0.2, 0.102, 0.298))
        effect = effects.between(one, other, 0.95)
        # 0.5 apart, of which sqrt(2) * 0.098 is not sure
        assert (effect.size, effect.least) == pytest.approx((1.0, 0.7228), rel=1e-4)
        assert effects.between(other, one, 0.95) == effect

    def test_groups_whose_intervals_are_apart_are_surely_apart(self) -> None:
        few_alike, many_unlike = estimate((0.5, 0.48, 0.52), 30), estimate((0.6, 0.53, 0.7), 5000)
        assert effects.between(few_alike, many_unlike, 0.95).sure > 0

    def test_without_any_deviation_it_is_as_large_as_can_be_or_nothing(self) -> None:
        assert effects.against(estimate(0.5), 0.2, 0.95).sure == effects.LARGEST
        assert effects.against(estimate(0.5), 0.5, 0.95).size == 0.0

    def test_what_has_no_interval_is_not_sure(self) -> None:
        own = replace(estimate(0.5), lower=None, upper=None)
        for equal in (False, True):
            assert effects.against(own, 0.2, 0.95, equal=equal).sure == 0.0
            assert effects.between(own, estimate(0.2), 0.95, equal=equal).sure == 0.0

    def test_shares(self) -> None:
        assert effects.of_share(1.0) == pytest.approx(3.14159265, rel=1e-8)
        assert effects.of_share(0.5, 0.5) == 0.0
        assert effects.of_share(0.2, 0.6) == pytest.approx(effects.of_share(0.6, 0.2))
        assert effects.error_of_share(96, 0.95) == pytest.approx(0.2, rel=1e-3)

    def test_half_is_as_far_from_one_as_twice(self) -> None:
        twice, half = effects.in_logs(estimate((2.0, 1.6, 2.5))), effects.in_logs(estimate((0.5, 0.4, 0.625)))
        assert effects.against(twice, 0.0, 0.95).sure == pytest.approx(effects.against(half, 0.0, 0.95).sure)
