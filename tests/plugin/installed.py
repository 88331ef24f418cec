"""What recaudit does with the packages beside it; test_plugin runs this where they are installed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import recaudit_example
import recaudit_staleness
from typer.testing import CliRunner

import recaudit as ra
from recaudit.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "plug-in.md"
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


def command(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_lists_and_help_of_the_command_line_have_it() -> None:
    assert "How old what people are shown is" in command("audits")
    one = " ".join(command("audits", "staleness").split())
    assert "How scores become a list." in one
    assert "0 to 1; 0: all appeared at the end of the log" in one


def test_a_configuration_runs_it_into_a_report(folder: Path) -> None:
    (folder / "run.toml").write_text(CONFIG)
    command("audit", "run.toml", "--out", "out")
    page = (folder / "out/report.html").read_text()
    for text in ("How old what people are shown is", "Age of lists@5", "all appeared at the end of the log"):
        assert text in page
    manifest = json.loads((folder / "out/manifest.json").read_text())
    [step] = [step for step in manifest["record"]["steps"] if step["model"] == "RecentlyPopular"]
    assert step["settings"]["policy"] == {"kind": "logistic", "steepness": 2.0, "middle": 3.0}


def test_a_page_is_made_of_it_only_if_the_user_allows_its_module(folder: Path) -> None:
    (folder / "run.toml").write_text(CONFIG)
    command("audit", "run.toml", "--out", "out")
    page = ("explore", "out", "--users", "1", "--json")
    assert json.loads(command(*page))["models"] == ["ALS"]
    refused = CliRunner().invoke(app, [*page, "--model", "RecentlyPopular"])
    assert refused.exit_code == 2
    module = "recaudit_example"
    assert f"--allow-code {module}" in refused.output
    allowed = CliRunner().invoke(app, [*page, "--model", "RecentlyPopular", "--allow-code", module])
    assert allowed.exit_code == 0, allowed.output


def test_a_simulation_runs_it_in_the_loop(folder: Path) -> None:
    (folder / "loop.toml").write_text(SIMULATION)
    command("simulate", "loop.toml", "--out", "out")
    assert "Age of lists" in (folder / "out/report.html").read_text()


def test_python_has_a_verb_for_it(folder: Path) -> None:
    model = recaudit_example.RecentlyPopular().fit(ra.datasets.load("demo"))
    assert ra.staleness(model, k=5)["age"] == recaudit_staleness.Staleness(k=5).run(model)["age"]
    [config] = re.findall(r"```toml\n(# fresh.toml\n.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert list(ra.runs.parse(config, source="page", folder=folder).audits) == ["accuracy", "staleness"]
