"""The page of a comparison says what differs, for whom and how sure that is, and shows text as text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import recaudit as ra
from recaudit import report
from recaudit.errors import InputError
from recaudit.report.differences import ranked
from recaudit.report.reading import ComparisonReading
from recaudit.runs import Run, RunComparison
from report.crafted_changes import PEOPLE, ids, measured, spread, write
from report.crafted_runs import Data, accuracy
from report.test_page import Page
from runs.crafted_pairs import add_data, signatures_of

AGE = ["old"] * (PEOPLE // 2) + ["young"] * (PEOPLE // 2)
HOSTILE = "<script>alert(1)</script>"


def changed(first: Run, second: Run) -> ComparisonReading:
    return ComparisonReading(ra.compare(first, second))


def pair(path: Path, before: list[float], after: list[float], **second: object) -> tuple[Run, Run]:
    data = Data(attributes=("age",))
    one = write(path / "one", {"ALS": measured(before, {"age": AGE})}, data)
    return one, write(path / "two", {"ALS": measured(after, {"age": AGE})}, Data(attributes=("age",), **second))  # type: ignore[arg-type]


def of(reading: ComparisonReading, metric: str, group: str = "") -> str:
    [found] = [own for own in reading.differences if (own.metric.name, own.group) == (metric, group)]
    return found.verdict


class TestVerdict:
    def test_worse_follows_from_the_metrics_own_direction(self, tmp_path: Path) -> None:
        reading = changed(*pair(tmp_path, spread(0.5), spread(0.4, rng=1)))
        assert of(reading, "ndcg") == "worse"
        assert of(reading, "rmse") == "better"
        assert reading.verdict.startswith("two is worse in 5 of 7 numbers about everybody, and better in 2.")

    def test_what_may_be_chance_does_not_read_as_the_same(self, tmp_path: Path) -> None:
        reading = changed(*pair(tmp_path, spread(0.5), spread(0.5005, rng=1)))
        assert of(reading, "ndcg") == "not shown"
        text = Page(report.render_comparison(reading.comparison)).text
        assert "neither better nor worse in any of 7 numbers about everybody. Of these: 7 may differ by chance" in text
        assert "That is not to say that there is none" in text

    def test_the_same_is_the_same(self, tmp_path: Path) -> None:
        reading = changed(*pair(tmp_path, spread(0.5), spread(0.5)))
        assert "Of these: 7 the same." in reading.verdict
        assert reading.findings == []

    def test_a_group_that_everybodys_number_hides_is_a_finding(self, tmp_path: Path) -> None:
        before = spread(0.5)
        shift = np.repeat([0.101, -0.1], PEOPLE // 2)
        after = list(np.array(before) + shift + np.array(spread(0, rng=3)) / 10)
        reading = changed(*pair(tmp_path, before, after))
        assert of(reading, "ndcg") == "not shown"
        assert of(reading, "ndcg", "young") == "worse"
        [told] = [own for own in reading.findings if own.section == "groups"]
        assert re.match(r"\w+(@10)? of ALS for users of age (old|young) is worse: ", told.claim)
        assert told.detail.endswith(": not shown.")
        assert "for 2 of them one that is not shown to be worse for everybody" in reading.verdict

    def test_other_data_are_told_in_the_verdict(self, tmp_path: Path) -> None:
        first, second = (
            add_data(run, signatures_of(PEOPLE))
            for run in pair(tmp_path, spread(0.5), spread(0.4, rng=1), fingerprint="other")
        )
        reading = changed(first, second)
        assert [caution.code for caution in reading.comparison.cautions] == ["comparison.other-data"]
        assert "On different data, two is worse" in Page(report.render_comparison(reading.comparison)).text

    def test_other_versions_are_a_note(self, tmp_path: Path) -> None:
        first, second = pair(tmp_path, spread(0.5), spread(0.5), versions={"python": "3.12.0", "recaudit": "0.1.0"})
        assert changed(first, second).notes == ["The runs were made with different versions: python 3.11.9 and 3.12.0."]

    def test_other_held_out_ratings_are_a_note(self, tmp_path: Path) -> None:
        first, second = pair(tmp_path, spread(0.5), spread(0.5), config={"split": {"kind": "random", "fraction": 0.3}})
        [caution] = changed(first, second).comparison.cautions
        assert caution.code == "comparison.other-split"

    @pytest.mark.parametrize(("kind", "notes"), [("random", 1), ("leave-last", 0)])
    def test_another_seed_holds_out_others_where_the_split_is_drawn(
        self, tmp_path: Path, kind: str, notes: int
    ) -> None:
        one, two = (
            write(tmp_path / str(seed), {"A": measured(spread(0.5))}, Data(config={"split": {"kind": kind}}, seed=seed))
            for seed in (1, 2)
        )
        assert len(changed(one, two).notes) == notes

    def test_a_run_that_is_not_finished_is_told(self, tmp_path: Path) -> None:
        first, second = pair(tmp_path, spread(0.5), spread(0.5))
        second.folder.note(status="running")
        assert changed(first, Run.open(second.path)).notes == [
            "The second run is not finished: it is compared as far as it has come."
        ]


class TestNumbers:
    def test_a_difference_is_written_to_the_digits_that_its_error_allows(self, tmp_path: Path) -> None:
        before = spread(0.5)
        after = list(np.array(before) + 1e-5 * np.array(spread(3.0, rng=2)))
        reading = changed(*pair(tmp_path, before, after))
        [ndcg] = [own for own in reading.overall if own.metric.name == "ndcg"]
        assert ndcg.way == "0.500\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}0.500"
        assert ndcg.text == "+0.000030"
        assert ndcg.verdict == "better"

    def test_better_lies_to_the_right(self, tmp_path: Path) -> None:
        reading = changed(*pair(tmp_path, spread(0.5), spread(0.49, rng=1)))
        bars = {own.metric.name: own.bar or (0.0, 0.0, 0.0) for own in reading.overall}
        assert bars["ndcg"][1] == pytest.approx(-bars["rmse"][1])
        assert bars["ndcg"][1] < 0 < bars["rmse"][1]
        assert all(-1 <= low <= middle <= high <= 1 for low, middle, high in bars.values())

    def test_what_is_shown_at_least_decides_the_order_and_few_people_come_last(self, tmp_path: Path) -> None:
        few = [*["few"] * 12, *["many"] * (PEOPLE - 12)]
        before = spread(0.5)
        after = [
            own - (0.3 if i < 12 else 0.1) + move
            for i, (own, move) in enumerate(zip(before, spread(0, 4), strict=True))
        ]
        data = Data(attributes=("age",))
        one = write(tmp_path / "one", {"A": measured(before, {"age": few})}, data)
        two = write(tmp_path / "two", {"A": measured(after, {"age": few})}, data)
        order = [own.group for own in ranked(changed(one, two).groups, "worse") if own.metric.name == "ndcg"]
        assert order == ["many", "few"]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> RunComparison:
    path = tmp_path_factory.mktemp("runs")
    lists = {user: ["a", "b", "c"] for user in ids()}
    other = {**lists, "u3": ["a", "x", HOSTILE], "u4": ["b", "a", "c"]}
    data = Data(attributes=(HOSTILE,))
    one = write(
        path / "one", {HOSTILE: measured(spread(0.5), {HOSTILE: AGE}, lists), "Gone": measured(spread(0.5))}, data
    )
    two = write(path / "two", {HOSTILE: measured(spread(0.4, 1), {HOSTILE: AGE}, other)}, data)
    return ra.compare(one, two)


@pytest.fixture(scope="module")
def page(comparison: RunComparison) -> Page:
    return Page(report.render_comparison(comparison))


class TestPage:
    def test_it_stands_alone_and_leads_nowhere_else(self, page: Page) -> None:
        assert page.dead_ends == []
        for tag, attributes in page.elements:
            assert tag not in ("link", "img", "iframe", "object", "embed", "base")
            assert "src" not in attributes

    def test_hostile_names_are_text(self, page: Page, tmp_path: Path) -> None:
        codes = [text for attributes, text in page.scripts if not attributes.get("type")]
        assert len(codes) == 1
        assert "alert(1)" not in codes[0]
        assert HOSTILE in page.text

    def test_every_verdict_has_its_sign_and_word(self, page: Page) -> None:
        assert re.search(r"✗ worse", page.text)
        assert re.search(r"✓ better", page.text)

    def test_every_number_can_be_read_by_a_program(self, page: Page) -> None:
        cells = [a for tag, a in page.elements if tag == "td" and "data-lower" in a]
        assert len(cells) >= 7
        assert all(
            float(a["data-lower"] or "") <= float(a["data-value"] or "") <= float(a["data-upper"] or "") for a in cells
        )

    def test_whose_lists_changed_and_what_is_new_and_gone(self, comparison: RunComparison, page: Page) -> None:
        [lists] = ComparisonReading(comparison).lists
        assert (lists.lists, lists.changed) == (PEOPLE, 2)
        assert lists.gone == pytest.approx(2 / PEOPLE)
        assert dict(lists.parts) == {
            "unchanged": PEOPLE - 2,
            "in another order": 1,
            "up to half gone": 0,
            "more than half gone": 1,
            "all gone": 0,
        }
        assert [own["user"] for own in ComparisonReading(comparison).most_changed(HOSTILE)] == ["u3", "u4"]
        assert "u3: 2 of 3 items new" in page.text

    def test_groups_stand_in_their_own_order_without_its_numbers(self, tmp_path: Path) -> None:
        history = {"history": ["2: 20-99 ratings", "1: 10-19 ratings"] * (PEOPLE // 2)}
        one, two = (
            write(tmp_path / name, {"A": measured(spread(mean, rng), history)})
            for name, mean, rng in (("one", 0.5, 0), ("two", 0.4, 1))
        )
        ndcg = [own for own in changed(one, two).groups if own.metric.name == "ndcg"]
        assert [own.group for own in ndcg] == ["10-19 ratings", "20-99 ratings"]
        assert ndcg[0].who == "users with 10-19 ratings"
        assert [own.metric.name for own in changed(one, two).overall] == list(
            one.table("A", "accuracy", "summary")["metric"]
        )

    def test_a_number_that_one_side_lacks_says_which(self, tmp_path: Path) -> None:
        ranks = accuracy((0.5, 0.4, 0.6), None, per_user=spread(0.5))
        one, two = (
            write(tmp_path / name, {"A": own}) for name, own in (("one", ranks), ("two", measured(spread(0.5))))
        )
        found = ra.compare(one, two)
        [lack] = [own for own in found.left_out if "rmse" in own.metrics]
        assert lack.reason == "the first has no such number"
        assert "the first has no such number" in Page(report.render_comparison(found)).text

    def test_models_of_one_run_alone_are_told(self, page: Page) -> None:
        assert "Models: Gone of the first run." in page.text

    def test_two_models_of_one_run(self, tmp_path: Path) -> None:
        run = write(tmp_path, {"A": measured(spread(0.5)), "B": measured(spread(0.4, 1))})
        reading = ComparisonReading(ra.compare(run, models=("A", "B")))
        assert reading.names == ("A", "B")
        assert reading.verdict.startswith("B is worse in 5 of 7")
        assert reading.not_compared == []
        assert reading.findings[0].claim.split(" is ")[0].endswith(" of B")
        assert "A → B" in Page(report.render_comparison(reading.comparison)).text

    def test_it_is_never_written_into_a_run(self, comparison: RunComparison) -> None:
        with pytest.raises(InputError, match="a file outside of the runs"):
            report.write_comparison(comparison, comparison.after.path / "compare.html")

    def test_the_same_runs_give_the_same_page(self, comparison: RunComparison, tmp_path: Path) -> None:
        path = report.write_comparison(comparison, tmp_path / "new" / "compare.html")
        assert path.read_text(encoding="utf-8") == report.render_comparison(comparison)
