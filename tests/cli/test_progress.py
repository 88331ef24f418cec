"""Bars appear for long work only, with the time left."""

from __future__ import annotations

import io
import time

import numpy as np
import pytest
from rich.console import Console
from rich.progress import TimeRemainingColumn

from recaudit.cli import progress
from recaudit.cli.progress import PATIENCE, PAUSE, BarKeeper, Lines, PatientBars, shown
from recaudit.engines import Step, listening, track, working
from recaudit.metrics.intervals import aggregate, mean


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


class TestBars:
    @pytest.fixture
    def bars(self, clock: Clock) -> PatientBars:
        return PatientBars(
            "{task.description}", TimeRemainingColumn(), console=Console(file=io.StringIO()), get_time=clock
        )

    def drawn(self, bars: PatientBars) -> str:
        console = Console(file=io.StringIO(), width=80)
        console.print(bars.make_tasks_table(bars.tasks))
        return str(console.file.getvalue()).strip()  # type: ignore[attr-defined]  # a StringIO

    def test_a_bar_comes_when_work_takes_longer_than_a_moment(self, bars: PatientBars, clock: Clock) -> None:
        BarKeeper(bars)(Step("fit", 0, 10))
        clock.now += PATIENCE - 0.1
        assert self.drawn(bars) == ""
        clock.now += 0.2
        assert "fit" in self.drawn(bars)

    def test_it_tells_the_time_left(self, bars: PatientBars, clock: Clock) -> None:
        keeper = BarKeeper(bars)
        for done in range(6):
            keeper(Step("fit", done, 10))
            clock.now += 2.0
        assert "0:00:10" in self.drawn(bars)

    def test_it_goes_when_the_work_is_done_and_comes_anew(self, bars: PatientBars, clock: Clock) -> None:
        keeper = BarKeeper(bars)
        for _ in range(2):
            keeper(Step("fit", 0, 2))
            clock.now += 5
            assert "fit" in self.drawn(bars)
            keeper(Step("fit", 2, 2))
            keeper(Step("fit", 2, 2))
            assert self.drawn(bars) == ""

    def test_several_works_have_a_bar_each(self, bars: PatientBars, clock: Clock) -> None:
        keeper = BarKeeper(bars)
        keeper(Step("run", 0, 2))
        keeper(Step("fit", 0, 2))
        clock.now += 5
        assert len(self.drawn(bars).splitlines()) == 2


class TestLines:
    @pytest.fixture
    def written(self) -> io.StringIO:
        return io.StringIO()

    @pytest.fixture
    def lines(self, written: io.StringIO) -> Lines:
        return Lines(Console(file=written, width=200))

    def test_short_work_says_nothing(self, lines: Lines, written: io.StringIO, clock: Clock) -> None:
        for done in range(11):
            lines(Step("fit", done, 10))
            clock.now += PAUSE / 11
        assert written.getvalue() == ""

    def test_long_work_says_now_and_then_how_long_it_will_take(
        self, lines: Lines, written: io.StringIO, clock: Clock
    ) -> None:
        for done in range(101):
            lines(Step("fit", done, 100))
            clock.now += PAUSE / 10
        said = written.getvalue().splitlines()
        assert said[0] == "fit: 10 of 100 (10%), about 2 min left"
        assert said[-1] == "fit: 90 of 100 (90%), about 10 s left"
        assert len(said) == 9

    def test_a_line_has_all_work_under_way_and_none_that_was_given_up(
        self, lines: Lines, written: io.StringIO, clock: Clock
    ) -> None:
        for step in (Step("Run", 0, 4), Step("Run", 1, 4), Step("ALS: reachability", 0, 1), Step("pairs", 0, 9)):
            lines(step)
        clock.now += PAUSE
        lines.tell()
        lines(Step("ALS: reachability", 1, 1))
        clock.now += PAUSE - 0.5
        lines(Step("ALS: agency", 0, 1))
        clock.now += 0.5
        lines.tell()
        assert written.getvalue().splitlines() == [
            "Run: 1 of 4 (25%), about 30 s left; ALS: reachability, for 10 s; pairs: 0 of 9 (0%), for 10 s",
            "Run: 1 of 4 (25%), about 60 s left; ALS: agency",
        ]

    def test_work_that_reports_nothing_is_told_too_without_control_characters(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(progress, "PAUSE", 0.05)
        file = io.StringIO()
        with shown(Console(file=file, width=200)), working("ALS: fit"):
            until = time.monotonic() + 10
            while "ALS: fit" not in file.getvalue() and time.monotonic() < until:
                time.sleep(0.01)
        said = file.getvalue()
        assert said.startswith("ALS: fit\n")
        assert said.replace("\n", "").isprintable()


class TestWorkOfOnePiece:
    def test_it_is_reported_from_begin_to_end(self) -> None:
        heard: list[Step] = []
        with listening(heard.append), working("report"):
            assert heard == [Step("report", 0, 1)]
        assert heard == [Step("report", 0, 1), Step("report", 1, 1)]

    def test_a_bar_goes_even_when_the_work_fails(self) -> None:
        heard: list[Step] = []
        with pytest.raises(ZeroDivisionError), listening(heard.append), working("report"):
            raise ZeroDivisionError
        assert heard[-1] == Step("report", 1, 1)

    def test_nobody_need_listen(self) -> None:
        with working("report"):
            pass


def test_intervals_of_many_users_are_reported_one_by_one() -> None:
    heard: list[Step] = []
    many = mean("hit", np.ones(1_000_000), np.ones(1_000_000))
    with listening(heard.append):
        aggregate([mean("hit", np.ones(20), np.ones(20))], {})
        assert not heard
        aggregate([many] * 3, {})
    assert {step.label for step in heard} == {"intervals"}
    assert [step.done for step in heard] == [0, 1, 2, 3, 3]


def test_work_is_heard_wherever_it_is_done() -> None:
    file = io.StringIO()
    with shown(Console(file=file, force_terminal=True)):
        assert list(track(range(3), "fit", 3)) == [0, 1, 2]
    assert "fit" not in file.getvalue()
