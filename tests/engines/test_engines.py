from __future__ import annotations

import time

import numpy as np
import pytest

from recaudit.engines import Engine, Processes, Serial, Step, Threads, listening
from recaudit.engines.base import blocks
from recaudit.errors import InputError


def slow_square(x: int) -> int:
    time.sleep(0.01 * (x % 3))
    return x * x


def fail_on_three(x: int) -> int:
    if x == 3:
        raise RuntimeError("three")
    return x


@pytest.mark.parametrize("engine", [Serial(), Threads(1), Threads(3), Processes(2)])
class TestEveryEngine:
    def test_answers_come_in_order(self, engine: Engine) -> None:
        assert list(engine.map(slow_square, list(range(12)))) == [x * x for x in range(12)]

    def test_no_work_is_no_answer(self, engine: Engine) -> None:
        assert list(engine.map(slow_square, [])) == []

    def test_an_error_reaches_the_caller(self, engine: Engine) -> None:
        with pytest.raises(RuntimeError, match="three"):
            list(engine.map(fail_on_three, list(range(6))))

    def test_progress_counts_up_to_the_end(self, engine: Engine) -> None:
        steps: list[Step] = []
        with listening(steps.append):
            list(engine.map(slow_square, [1, 2, 3], "squares"))
        assert [step.done for step in steps] == sorted(step.done for step in steps)
        assert steps[0] == Step("squares", 0, 3)
        assert steps[-1] == Step("squares", 3, 3)


def test_blocks_cut_without_loss() -> None:
    users = np.arange(10)
    assert [block.tolist() for block in blocks(users, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_workers_are_at_least_one() -> None:
    with pytest.raises(InputError, match="workers"):
        Threads(0)
    with pytest.raises(InputError, match="workers"):
        Processes(-1)
