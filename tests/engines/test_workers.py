"""Worker processes end with the process that started them, and it with them: nothing waits, nothing is left."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recaudit.arrays import FloatArray
from recaudit.engines import Processes, Serial
from recaudit.engines.workers import WorkerPool
from recaudit.errors import MachineError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no signals to end processes with")

LIMIT = 10.0
"""Seconds within which a lost worker ends the work, with time to spare for a busy machine below."""
SLACK = 2.0 if "CI" in os.environ or "PYTEST_XDIST_WORKER" in os.environ else 1.0


def endless(folder: Path, how: str, piece: int) -> None:
    (folder / f"{piece}-{os.getpid()}").touch()
    if how == "holding Python's lock":
        ctypes.PyDLL(None).sleep(600)
    time.sleep(600)


def pids(folder: Path, count: int) -> list[int]:
    """Process ids of the pieces, once so many have begun."""
    end = time.monotonic() + 120
    while len(list(folder.iterdir())) < count:
        assert time.monotonic() < end, "the workers did not start"
        time.sleep(0.05)
    return [int(path.name.split("-")[1]) for path in sorted(folder.iterdir())]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


SCRIPT = """
import sys
from functools import partial
from pathlib import Path
from engines.test_workers import endless
from recaudit.engines import Processes

if __name__ == "__main__":
    list(Processes(2).map(partial(endless, Path(sys.argv[1]), sys.argv[2]), [0, 1, 2]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "begun"
    made.mkdir()
    return made


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.parametrize("how", ["sleeping", "holding Python's lock"])
def test_workers_end_when_their_parent_is_killed(folder: Path, how: str) -> None:
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    script = folder.parent / "script.py"
    script.write_text(SCRIPT)
    parent = subprocess.Popen(
        [sys.executable, str(script), str(folder), how],
        env=os.environ | {"PYTHONPATH": path},
        stderr=subprocess.DEVNULL,  # multiprocessing's tracker warns of what the parent has left
    )
    workers = []
    try:
        workers = pids(folder, 2)
        assert all(map(is_running, workers))
    finally:
        parent.kill()
        parent.wait()
    end = time.monotonic() + 5.0 * SLACK
    while any(map(is_running, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, workers))


@pytest.mark.parametrize("how", ["sleeping", "holding Python's lock"])
def test_a_killed_worker_ends_the_map(folder: Path, how: str) -> None:
    """The other worker would take ten minutes."""
    killed: list[float] = []

    def kill() -> None:
        """Kill the worker of the second piece: the first is still awaited then."""
        os.kill(pids(folder, 2)[1], signal.SIGKILL)
        killed.append(time.monotonic())

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(MachineError, match="SIGKILL"):
        list(Processes(2).map(partial(endless, folder, how), [0, 1, 2]))
    killer.join()
    assert time.monotonic() - killed[0] < LIMIT * SLACK
    assert not any(map(is_running, pids(folder, 2)))


class LargeFunction:
    """More than a pipe holds; calls the function that is its piece."""

    def __init__(self) -> None:
        self.array = np.ones(4_000_000)

    def __call__(self, piece: Callable[[LargeFunction], Any]) -> Any:
        return piece(self)


def test_a_worker_that_is_killed_before_it_has_its_function_ends_the_map() -> None:
    """Its function does not fit into a pipe: whoever writes it into one that nobody reads waits for ever."""
    begun = time.monotonic()
    with WorkerPool(LargeFunction(), 2, 1) as pool:
        pool._workers[0].kill()
        with pytest.raises(MachineError, match="SIGKILL"):
            pool.compute(total)
    assert time.monotonic() - begun < LIMIT * SLACK


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(LargeFunction(), 1, 1) as started:
        yield started


def total(function: LargeFunction) -> float:
    return float(function.array.sum())


def doubled(array: FloatArray, _: LargeFunction) -> FloatArray:
    return 2 * array


def inverse(matrix: FloatArray, _: LargeFunction) -> Any:
    return np.linalg.inv(matrix)


def test_a_large_function_and_large_pieces_travel(pool: WorkerPool) -> None:
    assert pool.compute(total) == 4_000_000.0
    piece = np.arange(600_000.0)
    assert np.array_equal(pool.compute(partial(doubled, piece)), 2 * piece)


def test_the_bits_are_those_of_serial(pool: WorkerPool) -> None:
    pieces = [np.random.default_rng(size).normal(size=(size, size)) for size in (100, 257, 400)]
    for piece, one in zip(pieces, Serial().map(np.linalg.inv, pieces), strict=True):
        assert pool.compute(partial(inverse, piece)).tobytes() == one.tobytes()


class StubbornError(Exception):
    """Does not survive pickling."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)


def raises_stubborn(_: LargeFunction) -> None:
    raise StubbornError(1, "the reason")


def unpicklable(_: LargeFunction) -> object:
    return lambda: None


def divides_by_zero(_: LargeFunction) -> float:
    return 1 / 0


def test_what_cannot_travel_is_an_error_with_its_text(pool: WorkerPool) -> None:
    with pytest.raises(RuntimeError, match="StubbornError: the reason"):
        pool.compute(raises_stubborn)
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError), match="pickle"):
        pool.compute(unpicklable)


def test_an_error_says_where_it_was_raised_and_ends_no_worker(pool: WorkerPool) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        pool.compute(divides_by_zero)
    assert "in divides_by_zero" in "".join(caught.value.__notes__)
    assert pool.compute(total) == 4_000_000.0


def exits(piece: int) -> int:
    os._exit(7)


def test_a_worker_that_exits_ends_the_map() -> None:
    with pytest.raises(MachineError, match="exit code 7"):
        list(Processes(2).map(exits, [0, 1]))


def fail_to_load() -> None:
    raise ZeroDivisionError("on loading")


class Unloadable:
    """Can be pickled, and not loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return fail_to_load, ()

    def __call__(self, piece: int) -> int:
        return piece


def test_a_function_that_cannot_be_loaded_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError, match="on loading"):
        list(Processes(1).map(Unloadable(), [1]))
