"""Other packages' audit, recommender, policy and environment, without one edited line of recaudit.

The audit's package is that of docs/contributing/plug-in.md, file by file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent / "plugin"
STALENESS, PARTS = PLUGIN / "staleness", PLUGIN / "parts"
PAGE = Path(__file__).parents[1] / "docs" / "contributing" / "plug-in.md"


def test_they_are_small() -> None:
    files = [STALENESS / "recaudit_staleness.py", *(PARTS / "src").rglob("*.py")]
    assert sum(len(file.read_text().splitlines()) for file in files) < 180


@pytest.mark.parametrize("name", ["pyproject.toml", "recaudit_staleness.py", "test_staleness.py"])
def test_the_page_shows_the_files(name: str) -> None:
    assert f"\n{(STALENESS / name).read_text(encoding='utf-8')}```" in PAGE.read_text(encoding="utf-8")


def test_installed_they_fulfil_the_contracts_and_are_there_in_every_command(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(tmp_path), str(STALENESS), str(PARTS)], check=True, capture_output=True)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    tests = [STALENESS / "test_staleness.py", PARTS / "tests/contracts.py", PLUGIN / "installed.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(PLUGIN), *map(str, tests)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
