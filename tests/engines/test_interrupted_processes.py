"""Ctrl-C ends workers at once, and quietly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import time
from pathlib import Path
from recaudit.engines import Processes

def endless(piece):
    Path(f"started-{piece}").touch()
    time.sleep(600)

if __name__ == "__main__":
    try:
        list(Processes(2).map(endless, [0, 1, 2]))
    except KeyboardInterrupt:
        print("stopped")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups to interrupt")
def test_workers_end_with_the_run_and_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(SCRIPT)
    run = subprocess.Popen(
        [sys.executable, "work.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + 60
        # Both workers must have started: Python interrupts one that is still importing.
        while len(list(tmp_path.glob("started-*"))) < 2 and time.monotonic() < until:
            time.sleep(0.1)
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=30)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
    assert (out, err) == ("stopped\n", "")
