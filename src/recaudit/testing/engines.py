"""What every engine must do; a new engine's test class inherits this."""

from __future__ import annotations

import time

import pytest

from recaudit.engines import Engine, Step, listening


def slow_square(x: int) -> int:
    """Some pieces take longer than the next."""
    time.sleep(0.01 * (x % 3))
    return x * x


def fail_on_three(x: int) -> int:
    """One piece fails."""
    if x == 3:
        raise RuntimeError("three")
    return x


class EngineContract:
    """Give it an engine."""

    engine: Engine

    def test_no_work_is_no_answer(self) -> None:
        assert list(self.engine.map(slow_square, [])) == []

    def test_an_error_reaches_the_caller(self) -> None:
        with pytest.raises(RuntimeError, match="three"):
            list(self.engine.map(fail_on_three, list(range(6))))

    def test_answers_come_in_order_and_progress_counts_up_to_the_end(self) -> None:
        steps: list[Step] = []
        with listening(steps.append):
            assert list(self.engine.map(slow_square, list(range(12)), "squares")) == [x * x for x in range(12)]
        assert [step.done for step in steps] == sorted(step.done for step in steps)
        assert steps[0] == Step("squares", 0, 12)
        assert steps[-1] == Step("squares", 12, 12)
