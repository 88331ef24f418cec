"""Other packages' audit, recommender, policy and environment, without one edited line of recaudit.

The audit's package is that of docs/contributing/plug-in.md, file by file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent / "plugin"
STALENESS, PARTS = PLUGIN / "staleness", PLUGIN / "parts"
PAGE = Path(__file__).parents[1] / "docs" / "contributing" / "plug-in.md"
Command = Callable[..., str]

CONFIG = """
seed = 1
[data]
name = "demo"
[[model]]
kind = "recent"
half_life = 0.2
[[model]]
kind = "als"
factors = 4
[audits.staleness]
k = 5
policy = {kind = "logistic", steepness = 2.0}
"""
SIMULATION = """
trials = 2
folds = 2
ratings = 400
steps = 3
[[environment]]
kind = "two-camps"
users = 30
items = 40
users_per_step = 10
[[recommender]]
kind = "recent"
[[recommender]]
kind = "random"
policy = {kind = "logistic"}
[audits.staleness]
k = 5
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """A command where the packages are installed beside recaudit."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(STALENESS), str(PARTS)], check=True, capture_output=True)

    def command(*arguments: str, cwd: Path | None = None) -> str:
        path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return command


def test_they_are_small() -> None:
    files = [STALENESS / "recaudit_staleness.py", *(PARTS / "src").rglob("*.py")]
    assert sum(len(file.read_text().splitlines()) for file in files) < 180


@pytest.mark.parametrize("name", ["pyproject.toml", "recaudit_staleness.py", "test_staleness.py"])
def test_the_page_shows_the_files(name: str) -> None:
    assert f"\n{(STALENESS / name).read_text(encoding='utf-8')}```" in PAGE.read_text(encoding="utf-8")


def test_they_inherit_the_contracts(run: Command) -> None:
    tests = [str(STALENESS / "test_staleness.py"), str(PARTS / "tests/contracts.py")]
    assert " passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(PLUGIN), *tests)


def test_the_lists_and_help_of_the_command_line_have_it(run: Command) -> None:
    assert "How old what people are shown is" in run("-m", "recaudit", "audits")
    one = " ".join(run("-m", "recaudit", "audits", "staleness").split())
    assert "How scores become a list." in one
    assert "0 to 1; 0: all appeared at the end of the log" in one


def test_a_configuration_runs_it_into_a_report(run: Command, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(CONFIG)
    run("-m", "recaudit", "audit", "run.toml", "--out", "out", cwd=tmp_path)
    page = (tmp_path / "out/report.html").read_text()
    for text in ("How old what people are shown is", "Age of lists@5", "all appeared at the end of the log"):
        assert text in page
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    [step] = [step for step in manifest["record"]["steps"] if step["model"] == "RecentlyPopular"]
    assert step["settings"]["policy"] == {"kind": "logistic", "steepness": 2.0, "middle": 3.0}


def test_a_simulation_runs_it_in_the_loop(run: Command, tmp_path: Path) -> None:
    (tmp_path / "loop.toml").write_text(SIMULATION)
    run("-m", "recaudit", "simulate", "loop.toml", "--out", "out", cwd=tmp_path)
    assert "Age of lists" in (tmp_path / "out/report.html").read_text()


def test_python_has_a_verb_for_it(run: Command) -> None:
    [config] = re.findall(r"```toml\n(# fresh.toml\n.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    code = (
        "import pathlib, recaudit as ra, recaudit_example, recaudit_staleness\n"
        "model = recaudit_example.RecentlyPopular().fit(ra.datasets.load('demo'))\n"
        "print(ra.staleness(model, k=5)['age'] == recaudit_staleness.Staleness(k=5).run(model)['age'])\n"
        f"print(list(ra.runs.parse({config!r}, source='page', folder=pathlib.Path()).audits))\n"
    )
    assert run("-c", code).split("\n")[:2] == ["True", "['accuracy', 'staleness']"]
