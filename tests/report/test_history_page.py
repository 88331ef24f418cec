"""The page of a history fits two runs or fifty, marks what changed, and shows text as text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import recaudit as ra
from recaudit import report
from recaudit.errors import InputError
from recaudit.report.history import HistoryReading
from recaudit.runs import RunHistory
from report.crafted_changes import measured, spread, write
from report.crafted_runs import AGENCY, Data, Model, agency, write_run
from report.test_page import Page

HOSTILE = "<script>alert(1)</script>"


def made(path: Path, n: int, labels: tuple[str, ...] = ("ALS",), *, k_from: int = 99) -> RunHistory:
    """n runs, an hour apart, each a little worse; other data from the second on, other lists from `k_from` on."""
    runs = [
        write(
            path / f"run {i}",
            {label: measured(spread(0.5 - i / 100, rng=i), k=20 if i >= k_from else 10) for label in labels},
            Data(started=f"2025-03-{i // 24 + 1:02}T{i % 24:02}:00:00+00:00", fingerprint="new" if i else "old"),
        )
        for i in range(n)
    ]
    return ra.history(runs)


def values(spec: dict[str, object]) -> list[dict[str, object]]:
    """Every row of a chart."""
    sets = spec["datasets"]
    assert isinstance(sets, dict)
    return [row for rows in sets.values() for row in rows]


class TestCharts:
    @pytest.mark.parametrize("n", [2, 30])
    def test_every_metric_has_every_run(self, tmp_path: Path, n: int) -> None:
        page = Page(report.render_history(made(tmp_path, n)))
        assert len(page.specs) == 7
        for spec in page.specs:
            points = [row for row in values(spec) if "told" in row]
            assert len(points) == n
        assert page.dead_ends == []
        assert max(len(json.dumps(spec)) for spec in page.specs) < 100_000

    def test_a_line_breaks_where_the_question_was_another(self, tmp_path: Path) -> None:
        page = Page(report.render_history(made(tmp_path, 4, k_from=2)))
        lines = [row["line"] for row in values(page.specs[0]) if "told" in row]
        assert lines == ["0 0", "0 0", "0 1", "0 1"]

    def test_no_line_leads_over_a_run_without_the_number(self, tmp_path: Path) -> None:
        with_b = {"A": measured(spread(0.5)), "B": measured(spread(0.4))}
        runs = [write(tmp_path / name, with_b if name != "2" else {"A": with_b["A"]}) for name in "123"]
        page = Page(report.render_history(ra.history(runs, as_given=True)))
        lines = {(row["model"], row["line"]) for row in values(page.specs[0]) if "told" in row}
        assert lines == {("A", "0 0"), ("B", "1 0"), ("B", "1 1")}

    def test_what_changed_is_marked_between_two_runs(self, tmp_path: Path) -> None:
        history = made(tmp_path, 3)
        assert [step.marks for step in HistoryReading(history).steps] == ["", "D", ""]
        marks = [row for row in values(Page(report.render_history(history)).specs[0]) if "mark" in row]
        assert marks == [{"at": 1.5, "mark": "D"}]

    def test_more_models_than_colours_are_told(self, tmp_path: Path) -> None:
        labels = tuple(f"M{i}" for i in range(10))
        text = Page(report.render_history(made(tmp_path, 2, labels))).text
        assert "M0 M1 M2 M3 M4 M5 M6 M7 2 other models" in text
        assert "accuracy of M9: all numbers" in text


class TestWords:
    def test_the_last_change_comes_first_and_stands_beside_each_chart(self, tmp_path: Path) -> None:
        text = Page(report.render_history(made(tmp_path, 3))).text
        assert "The last of 3 runs, against the one before: run 2 is" in text
        assert text.count("ALS: \N{MINUS SIGN}0.010") >= 7

    def test_other_data_are_a_note(self, tmp_path: Path) -> None:
        assert HistoryReading(made(tmp_path, 2)).notes == [
            "Not all runs looked at the same data: a step in a number may come from the data."
        ]

    def test_hostile_names_are_text(self, tmp_path: Path) -> None:
        page = Page(report.render_history(made(tmp_path, 2, (HOSTILE, "constructor"))))
        codes = [text for attributes, text in page.scripts if not attributes.get("type")]
        assert len(codes) == 1
        assert "alert(1)" not in codes[0]
        assert HOSTILE in page.text

    def test_runs_that_share_nothing_still_make_a_page(self, tmp_path: Path) -> None:
        one = write(tmp_path / "one", {"A": measured(spread(0.5)), "B": measured(spread(0.5))})
        two = write(tmp_path / "two", {"C": measured(spread(0.5)), "D": measured(spread(0.5))})
        page = Page(report.render_history(ra.history([one, two], as_given=True)))
        assert "The last run shares no number with the one before" in page.text
        assert page.dead_ends == []

    def test_an_audit_without_any_value_has_no_section(self, tmp_path: Path) -> None:
        one, two = (
            write_run(tmp_path / name, [Model("A", [measured(spread(0.5)), agency(dict.fromkeys(AGENCY))])])
            for name in ("one", "two")
        )
        page = Page(report.render_history(ra.history([one, two], as_given=True)))
        assert page.dead_ends == []
        assert "audit-agency" not in {attributes.get("id") for _, attributes in page.elements}

    def test_it_is_never_written_into_a_run(self, tmp_path: Path) -> None:
        history = made(tmp_path, 2)
        with pytest.raises(InputError, match="a file outside of the runs"):
            report.write_history(history, history.runs[0].path / "history.html")
