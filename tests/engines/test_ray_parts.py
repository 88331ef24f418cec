"""Large tables on a cluster of two nodes: its workers write them, and a driver that is killed loses none of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from recaudit import runs
from recaudit.audits import spill
from recaudit.audits.instability.pairs import WritesPairs
from recaudit.audits.spill import PartFolder, WritesRows
from recaudit.engines import Ray, Serial
from recaudit.errors import MachineError
from recaudit.folders import read_manifest, verify
from recaudit.runs import execute

pytest.importorskip("ray", reason="Ray has no wheel for this machine")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CONFIG = """
seed = 3
floors = false
engine = {kind = "ENGINE"}
[data]
name = "demo"
[[model]]
kind = "als"
factors = 3
[audits.reachability]
actions = {kind = "next-k", k = 3}
users = 400
refits = 0
"""
PAIRS = """
[audits.instability]
edits = {kind = "next-k", k = 2}
viewers = 200
editors = 20
pairs = true
refits = 0
"""
DRIVER = """
import sys
from pathlib import Path
from recaudit import runs
from recaudit.audits import spill
from recaudit.engines.cluster import connected

spill.MOST_ROWS, spill.PART_ROWS, spill._NOTED = 1000, 100, 0.0
connected(sys.argv[1])
runs.execute(runs.read("run.toml"), "out")
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: workers know nothing of it."""
    monkeypatch.setattr(spill, "MOST_ROWS", 1000)
    monkeypatch.setattr(spill, "PART_ROWS", 100)


def written(engine: str, out: Path, more: str = "") -> dict[str, bytes]:
    execute(runs.parse(CONFIG.replace("ENGINE", engine) + more, source="run.toml", folder=out.parent), out)
    assert not verify(out).lost
    assert not verify(out).unknown
    return files(out)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


@pytest.mark.usefixtures("small")
def test_workers_write_the_parts_and_the_files_are_those_of_serial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serial = written("serial", tmp_path / "serial", PAIRS)
    for writes in (WritesRows, WritesPairs):
        monkeypatch.delattr(writes, "__call__")  # of the driver
    assert written("ray", tmp_path / "ray", PAIRS) == serial
    for audit, parts in (("reachability", 25), ("instability", 4)):
        assert sum(f"{audit}/pairs/" in name for name in serial) == parts


@pytest.mark.usefixtures("small")
def test_a_killed_driver_goes_on_within_a_step(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(CONFIG.replace("ENGINE", "ray"))
    (tmp_path / "work.py").write_text(DRIVER)
    with subprocess.Popen([sys.executable, "work.py", cluster.address], cwd=tmp_path) as killed:
        try:
            end = time.monotonic() + 300
            while killed.poll() is None and not noted(tmp_path / "out") and time.monotonic() < end:
                time.sleep(0.01)
        finally:
            killed.kill()
    assert killed.returncode == -signal.SIGKILL
    before = noted(tmp_path / "out")
    assert 0 < len(before) < 25
    again = {name: (tmp_path / "out" / name).stat().st_ino for name in before}
    after = written("ray", tmp_path / "out")
    assert after == written("serial", tmp_path / "serial")
    assert {name: (tmp_path / "out" / name).stat().st_ino for name in before} == again  # not made twice


def noted(out: Path) -> list[str]:
    manifest = read_manifest(out) if (out / "manifest.json").exists() else None
    return [] if manifest is None else [name for name in manifest.files if "/pairs/" in name]


def rows(piece: int) -> pl.DataFrame:
    if (fate := Path(f"dies-{piece}")).exists():
        fate.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return pl.DataFrame({"piece": [piece] * 3})


@pytest.mark.usefixtures("small")
def test_a_killed_worker_leaves_no_half_of_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pieces = list(range(900))
    serial = spill.worked_out(None, Serial(), rows, pieces, 2700)
    for piece in (7, 400):
        Path(f"dies-{piece}").touch()
    spread = spill.worked_out(None, Ray(parts=str(tmp_path / "parts")), rows, pieces, 2700)
    assert isinstance(spread, spill.SpilledRows)
    assert spread.scan().collect().equals(spill.lazily(serial).collect())
    assert len(files(tmp_path / "parts")) == len(spread.places) == len(spill.numbered_parts(pieces, 2700)) > 20
    assert not list(tmp_path.glob("dies-*"))


def test_a_folder_that_workers_do_not_see_is_named(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"has no folder .*gone.* all machines see under the same path"):
        list(Ray().map(WritesRows(rows, PartFolder(tmp_path / "gone")), [(0, [1])]))
