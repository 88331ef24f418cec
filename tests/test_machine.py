"""The machine's own faults are told as what they are, before they happen where that can be known."""

from __future__ import annotations

import errno
import os
import platform
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit import machine, simulate
from recaudit.data import Interactions
from recaudit.errors import MachineError
from recaudit.machine import available_memory, check_memory, machine_error, release_memory


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "out/x"), r"the disk is full \(out/x\): No space left"),
        (OSError(errno.EROFS, "Read-only file system"), "the file system is read-only"),
        (PermissionError(errno.EACCES, "Permission denied"), "there is no permission"),
        (OSError(errno.EFBIG, "File too large"), r"larger than is allowed.*ulimit -f"),
        (OSError(errno.EMFILE, "Too many open files"), r"too many files are open.*ulimit -n"),
        (MemoryError(), "memory ran out: MemoryError"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "memory ran out"),
        (pl.exceptions.ComputeError("No space left on device (os error 28)"), "the disk is full"),
        (Exception('failed: Os { code: 24, kind: Uncategorized, message: "Too many" }'), "too many files are open"),
    ],
)
def test_what_the_machine_lacks(error: Exception, said: str) -> None:
    found = machine_error(error)
    assert found is not None
    assert re.search(said, str(found))


def test_what_led_to_an_error_counts() -> None:
    error = ValueError("the table could not be written")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert "the disk is full" in str(machine_error(error))


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), FileNotFoundError(errno.ENOENT, "x"), RuntimeError("shape"), OSError("x")]
)
def test_what_is_not_the_machines(error: Exception) -> None:
    assert machine_error(error) is None


class TestMemory:
    def test_what_is_there(self) -> None:
        there = available_memory()
        if there is not None:
            assert 0 <= there <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def test_containers(self, tmp_path: Path) -> None:
        for group, limit, used, idle in (("", "max", 90, 0), ("a", "100", 70, 20), ("a/b", "80", 60, 5)):
            folder = tmp_path / group
            folder.mkdir(exist_ok=True)
            (folder / "memory.max").write_text(f"{limit}\n")
            (folder / "memory.current").write_text(f"{used}\n")
            (folder / "memory.stat").write_text(f"anon 1\ninactive_file {idle}\n")
        (tmp_path / "groups").write_text("0::/a/b\n")
        assert sorted(machine._of_containers(tmp_path, tmp_path / "groups")) == [25, 50]

    def test_the_older_kind_of_container(self, tmp_path: Path) -> None:
        (tmp_path / "memory").mkdir()
        for name, content in (("limit_in_bytes", "100"), ("usage_in_bytes", "70"), ("stat", "total_inactive_file 10")):
            (tmp_path / "memory" / f"memory.{name}").write_text(content)
        (tmp_path / "groups").write_text("5:cpu:/\n4:memory:/of/the/host\n")
        assert list(machine._of_containers(tmp_path, tmp_path / "groups")) == [40]

    def test_too_much_is_told_before_it_is_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "available_memory", lambda: 2**30)
        check_memory(2**30, "it", "Do less.")
        with pytest.raises(MachineError, match=r"it needs 20\.0 GiB of memory, and 1\.0 GiB are available\. Do less"):
            check_memory(20 * 2**30, "it", "Do less.")

    def test_where_nothing_is_known_nothing_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "available_memory", lambda: None)
        check_memory(2**60, "it", "")

    @pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep no such memory")
    def test_what_was_freed_is_given_back(self) -> None:
        """Whatever is still in use behind it."""

        def held() -> int:
            return resource.getpagesize() * int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])

        arrays = [np.ones(8_000) for _ in range(2_000)]
        kept, before = arrays[-1], held()
        del arrays
        release_memory()
        assert len(kept)
        assert before - held() > 100e6

    @pytest.fixture
    def _little(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "available_memory", lambda: 50)

    @pytest.mark.usefixtures("_little")
    @pytest.mark.parametrize("recommender", [ra.models.EASE(), ra.models.SLIM()])
    def test_square_matrices(self, recommender: ra.models.Recommender, tiny: Interactions) -> None:
        with pytest.raises(MachineError, match=r"matri\w+ of \d by \d at a time.*factor model"):
            recommender.fit(tiny)

    @pytest.mark.usefixtures("_little")
    def test_a_trial_of_a_simulation(self) -> None:
        people = simulate.Topics(users=20, items=30, topics=3, users_per_step=5)
        with pytest.raises(MachineError, match="A trial of 20 users, 30 items and 50 ratings needs"):
            simulate.run(people, ra.models.Random(), ratings=50, steps=1)


@pytest.mark.skipif(platform.system() != "Linux", reason="the limit counts private memory on Linux alone")
@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_the_limits_of_a_process_count(limit: str) -> None:
    code = (
        "import resource; from recaudit.machine import available_memory\n"
        f"resource.setrlimit(resource.{limit}, (2**30, 2**30)); before = available_memory()\n"
        "held = bytearray(2**28); print(before, available_memory())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = map(int, found.stdout.split())
    assert 2**28 < before < 2**30
    assert 0.9 * 2**28 < before - after < 1.1 * 2**28
