"""Which findings there are and which come first: enough users, and the largest effect."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from recaudit import report
from recaudit.audits.audit import definitions
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
    def test_tables_have_the_number_all_the_same_and_how_many_they_are(self, tmp_path: Path) -> None:
        found = evidence(tmp_path, by_region({"North": (LOW, 6), "South": (HIGH, 500)}))
        html = report.render(found.run)
        (cell,) = re.findall(r'<span class="value">0\.100</span>.*?</td>', html, re.S)
        assert '<span class="interval">6 users</span>' in cell
        assert "500 users" not in html
        assert "Below 10 users" in html

    def test_no_card_names_a_gap_between_few(self, tmp_path: Path) -> None:
        found = evidence(tmp_path, by_region({"North": (LOW, 6), "South": (HIGH, 500)}))
        assert not [own for own in report.headlines(found.run) if "groups" in own.label]

    def test_a_card_that_rests_on_few_says_so(self, tmp_path: Path) -> None:
        run = write_run(tmp_path, [Model("A", [accuracy(users=6)])])
        assert report.headlines(run)[0].meaning == "nDCG@10 of A. It rests on 6 users only."

    def test_differences_on_few_common_users_are_no_finding(self, tmp_path: Path) -> None:
        models = [
            Model("A", [accuracy(0.4, per_user=[0.4] * 9)]),
            Model("Hits", [accuracy(0.2, per_user=[0.2] * 9)], "top-pop"),
        ]
        assert findings_of(Evidence(write_run(tmp_path, models))) == []

    def test_what_few_were_followed_for_is_left_to_the_tables(self, tmp_path: Path) -> None:
        result = agency({**AGENCY, "future_lift": (9.0, 1.5, 20.0), "future_unstable_share": (0.25, 0.035, 0.534)})
        few = pl.when(pl.col("metric").str.starts_with("future")).then(6).otherwise(pl.col("users"))
        tables = {**result.tables, "summary": result.tables["summary"].with_columns(users=few)}
        found = findings_of(Evidence(write_run(tmp_path, [Model("A", [replace(result, tables=tables)])])))
        assert [(finding.code, finding.numbers[0].metric) for finding in found] == [
            ("agency.own-influence", "past_lift"),
            ("agency.no-unstable-pairs", "past_unstable_share"),
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
        ("number", "differs"),
        [
            ((0.7, 0.6, 0.9), True),
            ((0.53, 0.501, 0.7), True),  # a lopsided interval that does not hold 0.5
            ((0.6, 0.49, 0.7), False),
            ((0.5, 0.49, 0.51), False),
        ],
    )
    def test_a_claim_is_sure_as_far_as_its_interval_bears_it_out(
        self, number: tuple[float, float, float], differs: bool
    ) -> None:
        assert (effects.against(estimate(number, 100), 0.5, 0.95).sure > 0) == differs

    def test_without_any_deviation_it_is_as_large_as_can_be_or_nothing(self) -> None:
        assert effects.against(estimate(0.5), 0.2, 0.95).sure == effects.LARGEST
        assert effects.against(estimate(0.5), 0.5, 0.95).size == 0.0

    def test_what_has_no_interval_is_not_sure(self) -> None:
        own = replace(estimate(0.5), lower=None, upper=None)
        assert effects.against(own, 0.2, 0.95).sure == 0.0

    def test_shares(self) -> None:
        assert effects.of_share(1.0) == pytest.approx(3.14159265, rel=1e-8)
        assert effects.of_share(0.5, 0.5) == 0.0
        assert effects.of_share(0.2, 0.6) == pytest.approx(effects.of_share(0.6, 0.2))

    def test_half_is_as_far_from_one_as_twice(self) -> None:
        twice, half = effects.in_logs(estimate((2.0, 1.6, 2.5))), effects.in_logs(estimate((0.5, 0.4, 0.625)))
        assert effects.against(twice, 0.0, 0.95).sure == pytest.approx(effects.against(half, 0.0, 0.95).sure)
