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
from recaudit.report.kit import numbers as effects
from recaudit.report.kit.numbers import FEWEST_USERS, Estimate
from recaudit.report.page import FIRST_FINDINGS
from report.crafted_runs import AGENCY, Data, Film, Model, accuracy, agency, cells, exposure, groups, write_run

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
        assert finding.users == 40

    def test_tables_have_the_number_all_the_same_and_how_many_they_are(self, tmp_path: Path) -> None:
        found = evidence(tmp_path, by_region({"North": (LOW, 6), "South": (HIGH, 500)}))
        html = report.render(found.run)
        (cell,) = re.findall(r'<span class="value">0\.100</span>.*?</td>', html, re.S)
        assert '<span class="interval">6 users</span>' in cell
        assert "500 users" not in html
        assert "rests on fewer than 30 users" in html

    def test_no_card_names_a_gap_between_few(self, tmp_path: Path) -> None:
        found = evidence(tmp_path, by_region({"North": (LOW, 6), "South": (HIGH, 500)}))
        card = report.headlines(found.run)[4]
        assert card.value == "n/a"
        assert "30 users or more" in card.meaning

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
            "With 5 ratings, users of A could have made an item 1.50 times as likely at best, on average",
            "No user of A who was asked about can overturn what another is shown with 5 ratings",
        ]
        assert not any("from now on" in finding.detail for finding in found)


class TestOrder:
    def test_the_largest_effect_first_and_what_failed_before_it(self, tmp_path: Path) -> None:
        wide = by_region({"North": ((0.1, 0.0, 0.2), 100), "South": ((0.4, 0.3, 0.5), 100)})
        narrow = by_region({"North": ((0.1, 0.09, 0.11), 100), "South": ((0.4, 0.39, 0.41), 100)}, "discovery")
        rare = groups("popularity", "recall", {"1: 0-9 ratings": (0.1, 0.05, 0.15), "2: 10-99 ratings": 0.4})
        models = [
            Model("A", [accuracy(by=[wide, narrow, rare])]),
            Model("Broken", [accuracy(None, None, status="failed")]),
        ]
        found = findings_of(Evidence(write_run(tmp_path, models, Data(attributes=("region",)))))
        assert [finding.section for finding in found] == ["gaps", "accuracy", "people"]
        sizes = [finding.effect for finding in found]
        assert sizes == sorted(sizes, reverse=True)

    def test_five_on_top_and_the_others_by_section(self, tmp_path: Path) -> None:
        regions = [f"region {place}" for place in range(4)]
        people, lifts = (
            [groups(name, metric, {"North": LOW, "South": HIGH}) for name in regions]
            for metric in ("ndcg", "popularity_lift")
        )
        rivals = [groups(name, "ndcg", {"North": LOW, "South": LOW}) for name in regions]
        recall = groups("popularity", "recall", {"1: 0-9 ratings": LOW, "2: 10-99 ratings": HIGH})
        shown = exposure([Film("A", 20, 4.0, 5)], by=lifts)
        models = [
            Model("A", [accuracy(0.3, per_user=[0.3] * 30, by=[*people, recall], excluded=10), shown]),
            Model("B", [accuracy(0.3, per_user=[0.3] * 30)]),
            Model("Hits", [accuracy(0.1, per_user=[0.1] * 30, by=rivals)], "top-pop"),
        ]
        run = write_run(tmp_path, models, Data(attributes=tuple(regions)))
        found = findings_of(Evidence(run))
        (part,) = re.findall(r'<section id="findings">.*?</section>', report.render(run), re.S)
        top, *folded = part.split("<details>")
        claims = re.compile(r'<p class="claim">(.*?)</p>')
        assert claims.findall(top) == [finding.claim for finding in found[:FIRST_FINDINGS]]
        assert len(found) > FIRST_FINDINGS
        told = [claim for block in folded for claim in claims.findall(block)]
        assert sorted(told) == sorted(finding.claim for finding in found[FIRST_FINDINGS:])
        summaries = [re.findall("<summary>(.*?)</summary>", block)[0] for block in folded]
        assert [summary.split(":")[0] for summary in summaries] == ["Accuracy", "People"]


def estimate(number: float | tuple[float, float, float], users: int = 100) -> Estimate:
    return Estimate(definitions()["ndcg"], **cells(number, users=users))  # type: ignore[arg-type]


class TestEffects:
    def test_a_mean_in_standard_deviations(self) -> None:
        # sd = 0.196 / 2 / 1.96 * sqrt(100) = 0.5, to the digits of 1.96
        assert effects.against(estimate((0.7, 0.602, 0.798)), 0.2, 0.95) == pytest.approx(1.0, rel=1e-4)
        assert effects.against(estimate((0.2, 0.102, 0.298)), 0.7, 0.95) == pytest.approx(1.0, rel=1e-4)

    def test_it_does_not_grow_with_the_users(self) -> None:
        wide, narrow = estimate((0.7, 0.602, 0.798), 100), estimate((0.7, 0.651, 0.749), 400)
        assert effects.against(wide, 0.0, 0.95) == pytest.approx(effects.against(narrow, 0.0, 0.95))

    def test_two_groups(self) -> None:
        one, other = estimate((0.7, 0.602, 0.798)), estimate((0.2, 0.102, 0.298))
        assert effects.between(one, other, 0.95) == pytest.approx(1.0, rel=1e-4)
        assert effects.between(other, one, 0.95) == pytest.approx(effects.between(one, other, 0.95))

    def test_without_any_deviation_it_is_as_large_as_can_be_or_nothing(self) -> None:
        assert effects.against(estimate(0.5), 0.2, 0.95) == effects.LARGEST
        assert effects.against(estimate(0.5), 0.5, 0.95) == 0.0

    def test_shares(self) -> None:
        assert effects.of_share(1.0) == pytest.approx(3.14159265, rel=1e-8)
        assert effects.of_share(0.5, 0.5) == 0.0
        assert effects.of_share(0.2, 0.6) == pytest.approx(effects.of_share(0.6, 0.2))

    def test_half_is_as_far_from_one_as_twice(self) -> None:
        twice, half = effects.in_logs(estimate((2.0, 1.6, 2.5))), effects.in_logs(estimate((0.5, 0.4, 0.625)))
        assert effects.against(twice, 0.0, 0.95) == pytest.approx(effects.against(half, 0.0, 0.95))
