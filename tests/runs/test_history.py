"""Many runs one after the other: their order, every number, what changed between them, and the last change."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import recaudit as ra
from recaudit.errors import DamagedError, InputError
from recaudit.runs import Run
from recaudit.runs.history import HISTORY_SCHEMA
from report.crafted_changes import measured, spread, write
from report.crafted_runs import Data


def at(hour: int, **other: object) -> Data:
    return Data(started=f"2025-03-05T{hour:02}:00:00+00:00", **other)  # type: ignore[arg-type]


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Started in the order c, a, b; the last of them is worse."""
    means = {"a": (0.5, 2), "b": (0.4, 3), "c": (0.6, 1)}
    return [write(tmp_path / name, {"ALS": measured(spread(mean))}, at(hour)) for name, (mean, hour) in means.items()]


class TestOrder:
    def test_runs_stand_in_the_order_in_which_they_were_started(self, runs: list[Run]) -> None:
        found = ra.history(runs)
        assert [run.path.name for run in found.runs] == ["c", "a", "b"]
        assert found.frame["run"].unique(maintain_order=True).to_list() == [str(run.path) for run in found.runs]

    def test_or_as_they_are_given(self, runs: list[Run]) -> None:
        found = ra.history([run.path for run in runs], as_given=True)
        assert [run.path.name for run in found.runs] == ["a", "b", "c"]


class TestNumbers:
    def test_every_number_of_every_run_is_there_as_the_run_has_it(self, runs: list[Run]) -> None:
        frame = ra.history(runs).frame
        assert dict(frame.schema) == HISTORY_SCHEMA
        ndcg = frame.filter(metric="ndcg", by="")
        assert ndcg["value"].to_list() == pytest.approx([0.6, 0.5, 0.4])
        assert ndcg["lower"].to_list() == pytest.approx([0.59, 0.49, 0.39])
        assert len(frame) == 3 * 7

    def test_a_number_that_a_run_has_not_is_no_zero(self, tmp_path: Path) -> None:
        one = write(tmp_path / "one", {"A": measured(spread(0.5))}, at(1))
        two = write(tmp_path / "two", {"A": measured(spread(0.5)), "B": measured(spread(0.3))}, at(2))
        found = ra.history([one, two])
        assert found.models == ("A", "B")
        assert found.frame.filter(model="B")["run"].unique().to_list() == [str(two.path)]

    def test_an_audit_that_is_asked_differently_begins_another_era(self, tmp_path: Path) -> None:
        lengths = {"a": 10, "b": 10, "c": 20}
        made = [
            write(tmp_path / name, {"A": measured(spread(0.5), k=k)}, at(hour))
            for hour, (name, k) in enumerate(lengths.items())
        ]
        frame = ra.history(made).frame.filter(metric="ndcg")
        assert frame["era"].to_list() == [0, 0, 1]


class TestChanges:
    def test_what_differs_from_the_run_before(self, tmp_path: Path) -> None:
        made = [
            write(tmp_path / "a", {"A": measured(spread(0.5))}, at(1)),
            write(tmp_path / "b", {"A": measured(spread(0.5))}, at(2, fingerprint="new")),
            write(
                tmp_path / "c", {"A": measured(spread(0.5))}, at(3, fingerprint="new", versions={"python": "3.12.1"})
            ),
        ]
        changes = ra.history(made).changes
        assert changes[0] == ()
        assert [(own.what, own.name) for own in changes[1]] == [("data", "fingerprint")]
        assert {own.what for own in changes[2]} == {"versions"}

    def test_a_model_that_comes_or_goes_is_a_change(self, tmp_path: Path) -> None:
        one = write(tmp_path / "one", {"A": measured(spread(0.5)), "Old": measured(spread(0.5))}, at(1))
        two = write(tmp_path / "two", {"A": measured(spread(0.5)), "New": measured(spread(0.5))}, at(2))
        _, told = ra.history([one, two]).changes
        assert [(own.what, own.before, own.after) for own in told] == [
            ("model Old", "ease", ""),
            ("model New", "", "ease"),
        ]

    def test_the_last_change_is_judged_person_by_person(self, runs: list[Run]) -> None:
        found = ra.history(runs)
        assert found.last is not None
        assert found.last.after.path.name == "b"
        assert found.last.overall.filter(metric="ndcg")["verdict"].to_list() == ["worse"]

    def test_runs_that_share_no_number_say_why(self, tmp_path: Path) -> None:
        one = write(tmp_path / "one", {"A": measured(spread(0.5)), "B": measured(spread(0.5))}, at(1))
        two = write(tmp_path / "two", {"C": measured(spread(0.5)), "D": measured(spread(0.5))}, at(2))
        found = ra.history([one, two])
        assert found.last is None
        assert "A, B and C, D" in found.why_not
        assert set(found.frame["model"]) == {"A", "B", "C", "D"}


class TestBadInput:
    def test_one_run_is_no_history(self, runs: list[Run]) -> None:
        with pytest.raises(InputError, match="two run folders or more"):
            ra.history(runs[:1])

    def test_the_same_run_twice(self, runs: list[Run]) -> None:
        with pytest.raises(InputError, match="twice; expected every run once"):
            ra.history([runs[0], runs[0].path / ".." / runs[0].path.name])

    def test_a_folder_that_is_no_run(self, runs: list[Run], tmp_path: Path) -> None:
        with pytest.raises(InputError, match="a run folder of an audit"):
            ra.history([runs[0], tmp_path / "nowhere"])

    def test_a_damaged_run(self, runs: list[Run]) -> None:
        (runs[0].path / "results" / "ALS" / "accuracy" / "summary.parquet").write_bytes(b"no table")
        with pytest.raises(DamagedError):
            ra.history([run.path for run in runs])


def test_the_table_is_ready_for_polars(runs: list[Run]) -> None:
    frame = ra.history(runs).frame
    worst = frame.filter(pl.col("metric") == "ndcg").sort("value").row(0, named=True)
    assert Path(worst["run"]).name == "b"
