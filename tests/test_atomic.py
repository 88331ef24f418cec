"""Files and folders are whole or not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recaudit import atomic, lock
from recaudit.errors import InputError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class TestFiles:
    def test_a_file_is_replaced(self, tmp_path: Path) -> None:
        atomic.write(tmp_path / "a", b"old")
        atomic.write(tmp_path / "a", b"new")
        assert (tmp_path / "a").read_bytes() == b"new"
        assert names(tmp_path) == ["a"]

    def test_a_failure_leaves_the_old_file_and_nothing_else(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        atomic.write(tmp_path / "a", b"old")
        monkeypatch.setattr(os, "fsync", _fail)
        with pytest.raises(OSError, match="disk"):
            atomic.write(tmp_path / "a", b"new")
        assert (tmp_path / "a").read_bytes() == b"old"
        assert names(tmp_path) == ["a"]


KILLED = """
import os, pathlib, signal, sys
from recaudit import atomic
parent = pathlib.Path(sys.argv[1])
with atomic.workspace(parent), atomic.file(parent / "a") as aside:
    aside.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


class TestWorkspaces:
    def test_it_is_gone_when_the_block_ends(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError), atomic.workspace(tmp_path) as inside:
            (inside / "part").rename(inside / "nothing to rename")
        assert names(tmp_path) == []

    def test_what_a_killed_process_left_goes_with_the_next_and_what_a_living_one_has_stays(
        self, tmp_path: Path
    ) -> None:
        with atomic.workspace(tmp_path) as mine:
            subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
            assert len(names(tmp_path)) == 3
            atomic._sweep_dead.cache_clear()  # as the next process begins
            atomic.write(tmp_path / "b", b"")
            assert names(tmp_path) == [mine.name, "b"]


class TestSweeping:
    def test_sweeping_removes_what_a_killed_process_left_and_nothing_else(self, tmp_path: Path) -> None:
        (tmp_path / f"{atomic.PREFIX}abc").mkdir()
        (tmp_path / f"{atomic.PREFIX}abc" / "half").write_text("")
        (tmp_path / f"{atomic.PREFIX}def").write_text("")
        (tmp_path / "mine").write_text("")
        atomic.sweep(tmp_path)
        assert names(tmp_path) == ["mine"]


class TestLock:
    def test_a_second_one_is_told_who_is_at_work(self, tmp_path: Path) -> None:
        with lock.alone(tmp_path):
            with pytest.raises(InputError, match=f"process {os.getpid()} is at work"), lock.alone(tmp_path):
                pass
            assert (tmp_path / lock.NAME).exists()
        assert names(tmp_path) == []

    def test_it_is_free_again_after_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ZeroDivisionError), lock.alone(tmp_path):
            raise ZeroDivisionError
        with lock.alone(tmp_path):
            pass

    def test_a_lock_file_that_nobody_holds_is_taken_over(self, tmp_path: Path) -> None:
        (tmp_path / lock.NAME).write_text("1\n")
        with lock.alone(tmp_path):
            assert (tmp_path / lock.NAME).read_text().strip() == str(os.getpid())


def _fail(handle: int) -> None:
    raise OSError("the disk is full")
