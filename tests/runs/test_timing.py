"""Times of parts of the work, and what they say of the whole."""

from __future__ import annotations

import time

import numpy as np
import pytest

from recaudit.audits import Agency
from recaudit.audits.audit import Subject
from recaudit.data.synthetic import World
from recaudit.engines import Processes, Serial, Threads
from recaudit.models import ALS
from recaudit.runs.timing import Sampled, grown


class Clock:
    """A clock that work moves on."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


@pytest.fixture(autouse=True)
def own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", CLOCK)


def long_piece(piece: int) -> int:
    CLOCK.now += 5
    return piece


def slow_piece(piece: int) -> int:
    CLOCK.now += 0.5
    return piece


@pytest.mark.parametrize(
    ("shares", "times", "expected"),
    [
        ((0.1, 0.4), (3.0, 6.0), 12.0),  # 2 + 10 x
        ((0.1, 0.4), (2.0, 2.0), 2.0),
        ((0.1, 0.4), (2.1, 2.0), 2.0),  # no work becomes shorter by being more
        ((0.1, 0.4), (1.0, 16.0), 100.0),  # 100 x^2
        ((0.1, 0.4), (1.0, 4.2), 10.5),  # a little more than in proportion is chance
        ((0.5, 1.0), (1.0, 2.0), 2.0),
        ((1.0, 1.0), (3.0, 2.0), 2.0),
        ((0.1, 0.4), (0.0, 0.0), 0.0),
    ],
)
def test_growth(shares: tuple[float, float], times: tuple[float, float], expected: float) -> None:
    assert grown(shares, times) == pytest.approx(expected, rel=1e-6, abs=1e-6)


class TestSampledMaps:
    @pytest.mark.parametrize("engine", [Serial(), Threads(2)], ids=repr)
    def test_the_first_pieces_are_worked_out_and_the_others_counted(self, engine: Serial | Threads) -> None:
        worked: list[int] = []

        def work(piece: int) -> int:
            worked.append(piece)
            CLOCK.now += 0.5
            return piece

        sampled = Sampled(engine)
        answers = list(sampled.map(work, list(range(100))))
        assert len(answers) == 100
        n = 2 * sampled.workers
        assert answers[:n] == sorted(worked) == list(range(n))
        assert set(answers) == set(range(n))
        if n == 2:
            assert sampled.left_out == pytest.approx(98 * 0.5)

    def test_what_the_first_piece_alone_makes_is_not_counted_for_all(self) -> None:
        def work(piece: int) -> None:
            CLOCK.now += 0.9 if piece == 0 else 0.01

        sampled = Sampled(Serial())
        assert len(list(sampled.map(work, list(range(100))))) == 100
        assert sampled.left_out == pytest.approx(98 * 0.01)

    def test_long_pieces_are_worked_out_once(self) -> None:
        sampled = Sampled(Serial())
        assert set(sampled.map(long_piece, list(range(100)))) == {0}
        assert sampled.left_out == pytest.approx(99 * 5)

    def test_a_short_map_is_worked_out_as_it_is(self) -> None:
        sampled = Sampled(Serial())
        assert list(sampled.map(slow_piece, [4])) == [4]
        assert list(sampled.map(slow_piece, [])) == []
        assert sampled.left_out == 0

    def test_it_travels_to_other_processes(self) -> None:
        assert list(Sampled(Processes(1)).map(slow_piece, list(range(5)))) == [0, 1, 0, 1, 0]

    def test_where_all_are_asked_for_the_time_in_maps_is_still_known(self) -> None:
        sampled = Sampled(Serial(), whole=True)
        assert list(sampled.map(slow_piece, list(range(5)))) == list(range(5))
        assert (sampled.inside, sampled.left_out) == (2.5, 0)


def test_agency_bears_maps_that_are_worked_out_in_part(world: World) -> None:
    """Its users are then not all those that were asked about: what it makes of them holds none against the others."""
    model, sampled = ALS(factors=4).fit(world.data), Sampled(Serial())
    found = Agency(k=2, users=40).run(Subject(model, ALS(factors=4), world.data), engine=sampled)
    assert found.users.height == 40


def test_the_whole_of_a_map_is_not_held() -> None:
    """Each answer is gone before the next is made, as in the run that is timed."""
    alive = list[int]()

    class Held:
        def __init__(self) -> None:
            alive.append(1)

        def __del__(self) -> None:
            alive.pop()

    def piece(_: int) -> Held:
        CLOCK.now += 2
        return Held()

    engine, most = Sampled(Serial(), whole=True), 0
    for _answer in engine.map(piece, range(50)):
        most = max(most, len(alive))
        CLOCK.now += 1  # what is done with it
    assert most <= 2
    assert engine.inside == pytest.approx(2 * 50)
    assert engine.left_out == 0


def slow_people(people: np.ndarray) -> np.ndarray:
    CLOCK.now += 0.5 * len(people)
    return people


@pytest.mark.parametrize("count", [1, 3, 7])
def test_of_a_long_piece_a_few_people_are_worked_out(count: int) -> None:
    engine, people = Sampled(Serial()), np.arange(64)
    before = CLOCK.now
    answers = list(engine.map(slow_people, [people] * count))
    assert len(answers) == count
    assert CLOCK.now - before < 0.5 * 64
    assert CLOCK.now - before + engine.left_out == pytest.approx(0.5 * 64 * count)
