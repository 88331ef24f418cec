"""A study is resumed, reads what it kept, and says how each row stands."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl
import pytest

from recaudit.engines import Processes
from recaudit.errors import InputError
from recaudit.folders import read_manifest, verify
from recaudit_papers.studies import (
    Agreement,
    Experiment,
    Published,
    Quantity,
    Results,
    Size,
    Study,
    StudyRow,
    StudyTable,
    run,
)


def squares(number: int, log: str) -> pl.DataFrame:
    """Squares a number, and notes in a file that it was asked."""
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(f"{number}\n")
    if number < 0:
        while not list(Path(log).parent.glob("out/experiments/square/?.parquet")):
            time.sleep(0.01)
        raise ValueError("negative")
    return pl.DataFrame({"number": [number], "square": [float(number**2)]})


class Squares(Study):
    """Squares of a few numbers."""

    name, title, paper = "squares", "Squares", "Euclid"

    def __init__(self, log: Path, *numbers: int) -> None:
        self.log, self.numbers = log, numbers

    def experiments(self, size: Size) -> list[Experiment]:
        return [
            Experiment(f"square/{place}", squares, {"number": number, "log": str(self.log)})
            for place, number in enumerate(self.numbers)
        ] + [Experiment("other", squares, {"number": 9, "log": str(self.log)}, data=("lastfm-360k",), optional=True)]

    def tables(self, results: Results) -> list[StudyTable]:
        rows = tuple(
            StudyRow(str(number), Published.number("4.0"), Quantity(square))
            for number, square in results.under("square").select("number", "square").iter_rows()
        )
        return [StudyTable("table-1", "Table 1: squares", rows, text=results.why_not("other"))]


def asked(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()]


class TestResuming:
    def test_what_is_kept_is_not_measured_again(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        first = run(Squares(log, 1, 2), out=tmp_path / "out")
        again = run(Squares(log, 1, 2, 3), out=tmp_path / "out")
        assert asked(log) == [1, 2, 3]
        assert first.frame().equals(again.frame().head(2))

    def test_another_setting_is_measured_again(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        run(Squares(log, 1, 2), out=tmp_path / "out")
        found = run(Squares(log, 1, 5), out=tmp_path / "out")
        assert asked(log) == [1, 2, 5]
        assert found.frame()["value"].to_list() == [1.0, 25.0]

    def test_an_error_loses_nothing(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        with pytest.raises(ValueError, match="negative"):
            run(Squares(log, 2, -2), out=tmp_path / "out")
        run(Squares(log, 2, 3), out=tmp_path / "out")
        assert asked(log) == [2, -2, 3]

    def test_a_killed_run_keeps_what_was_finished_out_of_turn(self, tmp_path: Path) -> None:
        log, out = tmp_path / "log", tmp_path / "out"
        with pytest.raises(ValueError, match="negative"):
            run(Squares(log, -1, 2), out=out, engine=Processes(2))
        found = run(Squares(log, 1, 2), out=out)
        assert sorted(asked(log)) == [-1, 1, 2]
        assert found.frame()["value"].to_list() == [1.0, 4.0]
        assert verify(out).unknown == ()

    def test_a_damaged_table_is_made_again(self, tmp_path: Path) -> None:
        log, out = tmp_path / "log", tmp_path / "out"
        run(Squares(log, 1, 2), out=out)
        (out / "experiments" / "square" / "1.parquet").write_bytes(b"")
        with pytest.warns(UserWarning, match=r"square/1\.parquet"):
            found = run(Squares(log, 1, 2), out=out)
        assert asked(log) == [1, 2, 2]
        assert found.frame()["value"].to_list() == [1.0, 4.0]

    def test_fresh_starts_over(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        run(Squares(log, 1), out=tmp_path / "out")
        run(Squares(log, 1), out=tmp_path / "out", fresh=True)
        assert asked(log) == [1, 1]

    def test_another_study_is_refused(self, tmp_path: Path) -> None:
        run(Squares(tmp_path / "log", 1), out=tmp_path / "out")
        other = Squares(tmp_path / "log", 1)
        other.name = "cubes"  # type: ignore[misc]
        with pytest.raises(InputError, match="other study"):
            run(other, out=tmp_path / "out")

    def test_workers_change_nothing(self, tmp_path: Path) -> None:
        study = Squares(tmp_path / "log", 1, 2, 3)
        assert run(study, out=tmp_path / "out", engine=Processes(1)).frame().equals(run(study).frame())
        manifest = read_manifest(tmp_path / "out")
        assert manifest is not None
        assert manifest.status == "complete"

    def test_data_that_are_not_here_are_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.delenv("RECAUDIT_DATA", raising=False)
        found = run(Squares(tmp_path / "log", 1))
        assert "recaudit data fetch lastfm-360k" in found.tables[0].text
        assert any("lastfm-360k" in note for note in found.notes)


class TestAgreement:
    @pytest.mark.parametrize(
        ("published", "ours", "agreement"),
        [
            (Published.number("0.346"), Quantity(0.3464), Agreement.AGREES),
            (Published.number("0.346"), Quantity(0.3466), Agreement.OPEN),
            (Published.number("0.346"), Quantity(0.4, 0.34, 0.45), Agreement.AGREES),
            (Published.number("4.86", error=0.01), Quantity(4.869), Agreement.AGREES),
            (Published.interval("1.37", 1.05, 1.70), Quantity(1.8, 1.6, 2.0), Agreement.AGREES),
            (Published.above(0, "rises"), Quantity(0.2, 0.1, 0.3), Agreement.AGREES),
            (Published.above(0, "rises"), Quantity(0.2, -0.1, 0.3), Agreement.OPEN),
            (Published.below(0, "falls"), Quantity(0.2, 0.1, 0.3), Agreement.OPEN),
            (Published.below(0, "falls"), Quantity(0.0), Agreement.OPEN),
            (Published.number("0.346"), Quantity(0.4, single=True), Agreement.TOO_FEW),
            (Published.number("0.346"), Quantity(0.346, single=True), Agreement.AGREES),
            (Published.above(0, "rises"), Quantity(0.2, single=True), Agreement.TOO_FEW),
            (Published.nothing(), Quantity(0.2), Agreement.NOT_PUBLISHED),
            (Published.number("1"), None, Agreement.NOT_MEASURED),
            (Published.number("1"), Quantity(float("nan")), Agreement.NOT_MEASURED),
        ],
    )
    def test_marks(self, published: Published, ours: Quantity | None, agreement: Agreement) -> None:
        assert StudyRow("row", published, ours).agreement is agreement

    def test_an_explanation_is_a_change_with_which_the_number_comes_out(self) -> None:
        variants = {"box [0, 5]": Quantity(0.8), "and their rates": Quantity(0.5, 0.48, 0.52)}
        row = StudyRow("best", Published.number("0.501"), Quantity(0.86), variants)
        assert row.agreement is Agreement.EXPLAINED
        assert row.why == "0.500 [0.480, 0.520] with all changes up to: their rates."
        assert row.difference == pytest.approx(0.359)
        assert StudyRow("best", Published.number("0.6"), Quantity(0.86), variants).agreement is Agreement.OPEN
