from __future__ import annotations

import multiprocessing

import numpy as np
import pytest

from recaudit.engines import Processes, Serial, Threads, with_workers
from recaudit.engines.base import blocks
from recaudit.errors import InputError
from recaudit.testing import EngineContract


class TestSerial(EngineContract):
    engine = Serial()


class TestOneThread(EngineContract):
    engine = Threads(1)


class TestThreads(EngineContract):
    engine = Threads(3)


class TestProcesses(EngineContract):
    engine = Processes(2)


def test_no_more_processes_are_started_than_there_are_pieces() -> None:
    answers = Processes(3).map(abs, [-1])
    assert next(answers) == 1
    assert len(multiprocessing.active_children()) == 1
    assert list(answers) == []


def test_blocks_cut_without_loss() -> None:
    users = np.arange(10)
    assert [block.tolist() for block in blocks(users, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_workers_are_at_least_one() -> None:
    with pytest.raises(InputError, match="workers"):
        Threads(0)
    with pytest.raises(InputError, match="workers"):
        Processes(-1)


def test_more_workers_of_the_same_kind() -> None:
    assert with_workers(Serial(), 1) == Serial()
    assert with_workers(Serial(), 3) == Threads(3)
    assert with_workers(Processes(2), 4) == Processes(4)
