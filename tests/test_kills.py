"""A few kills by scripts/kill_runs.py; `make kills` does hundreds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "kill_runs.py"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.parametrize(("mode", "kills"), [("serial main", 3), ("processes worker", 1)])
def test_killed_runs_resume_to_the_same_tables(mode: str, kills: int) -> None:
    command = [sys.executable, str(SCRIPT), "--kills", str(kills), "--mode", mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kills} kills" in done.stdout
    assert "0 violations" in done.stdout
