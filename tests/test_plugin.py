"""Another package's audit, recommender, policy and environment, without one edited line of recaudit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent / "plugin"
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
[audits.overlap]
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
[audits.overlap]
k = 5
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """A command where the package is installed beside recaudit."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(PLUGIN)], check=True, capture_output=True)

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


def test_it_is_small() -> None:
    files = (PLUGIN / "src").rglob("*.py")
    assert sum(len(file.read_text().splitlines()) for file in files) < 150


def test_it_inherits_the_contracts(run: Command) -> None:
    assert " passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(PLUGIN / "tests/contracts.py"))


def test_the_lists_and_help_of_the_command_line_have_it(run: Command) -> None:
    assert "How much of a user's list everybody else is shown too." in run("-m", "recaudit", "audits")
    one = " ".join(run("-m", "recaudit", "audits", "overlap").split())
    assert "How scores become a list." in one
    assert "0 to 1; 0: no two lists share an item" in one


def test_a_configuration_runs_it_into_a_report(run: Command, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(CONFIG)
    run("-m", "recaudit", "audit", "run.toml", "--out", "out", cwd=tmp_path)
    page = (tmp_path / "out/report.html").read_text()
    for text in (
        "How much of a user&#39;s list everybody else is shown too",
        "Overlap of lists@5",
        "no two lists share",
    ):
        assert text in page
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    [step] = [step for step in manifest["record"]["steps"] if step["model"] == "RecentlyPopular"]
    assert step["settings"]["policy"] == {"kind": "logistic", "steepness": 2.0, "middle": 3.0}


def test_a_simulation_runs_it_in_the_loop(run: Command, tmp_path: Path) -> None:
    (tmp_path / "loop.toml").write_text(SIMULATION)
    run("-m", "recaudit", "simulate", "loop.toml", "--out", "out", cwd=tmp_path)
    assert "Overlap of lists" in (tmp_path / "out/report.html").read_text()


def test_python_has_a_verb_for_it(run: Command) -> None:
    code = (
        "import recaudit as ra, recaudit_example\n"
        "model = recaudit_example.RecentlyPopular().fit(ra.datasets.load('demo'))\n"
        "print(ra.overlap(model, k=5)['overlap'] == recaudit_example.Overlap(k=5).run(model)['overlap'])\n"
    )
    assert run("-c", code).strip() == "True"
