"""The example of a release gate works as its README says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from recaudit.cli import app
from recaudit.runs.gate import read_gate

EXAMPLE = Path(__file__).parents[2] / "examples" / "ci"


def recaudit(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The README's runs: a release, the same again, and a worse one."""
    folder = tmp_path_factory.mktemp("ci")
    good = (EXAMPLE / "audit.toml").read_text(encoding="utf-8")
    worse = good.replace('kind = "ease" ', 'kind = "ease"\nregularization = 5\n#')
    assert worse != good
    for name, text in {"baseline": good, "new": good, "worse": worse}.items():
        config = folder / f"{name}.toml"
        config.write_text(text, encoding="utf-8")
        made = recaudit("audit", config, "--out", folder / name)
        assert made.exit_code == 0, made.output
    return folder


def checked(folder: Path, name: str, *arguments: object) -> Result:
    rules = ("--rules", EXAMPLE / "gate.toml")
    return recaudit("check", folder / name, "--baseline", folder / "baseline", *rules, *arguments)


def test_the_same_again_passes(folder: Path) -> None:
    result = checked(folder, "new")
    assert result.exit_code == 0, result.output


def test_a_worse_one_does_not_and_the_summary_says_for_whom(folder: Path) -> None:
    result = checked(folder, "worse", "--junit", folder / "gate.xml", "--markdown", folder / "summary.md")
    assert result.exit_code == 1, result.output
    assert "failed" in (folder / "summary.md").read_text(encoding="utf-8")
    assert "<failure" in (folder / "gate.xml").read_text(encoding="utf-8")


def test_the_first_release_is_not_decided(folder: Path) -> None:
    result = recaudit("check", folder / "new", "--rules", EXAMPLE / "gate.toml")
    assert result.exit_code == 2
    assert "no baseline" in result.stdout


def test_as_tests_of_pytest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = [test for name, test in runpy.run_path(str(EXAMPLE / "test_gate.py")).items() if name.startswith("test_")]
    assert len(tests) == 2
    monkeypatch.setenv("BASELINE", str(folder / "baseline"))
    for test in tests:
        monkeypatch.setenv("RUN", str(folder / "new"))
        test()
        monkeypatch.setenv("RUN", str(folder / "worse"))
        with pytest.raises(AssertionError, match="failed: Recommender, ndcg"):
            test()


class TestWorkflow:
    TEXT = (EXAMPLE / "recaudit.yml").read_text(encoding="utf-8")

    def test_it_is_yaml_with_a_gate(self) -> None:
        yaml = pytest.importorskip("yaml")
        steps = yaml.safe_load(self.TEXT)["jobs"]["gate"]["steps"]
        commands = [step["run"] for step in steps if "run" in step]
        for command, expected in zip(commands, ("pip install", "recaudit audit", "recaudit check"), strict=False):
            assert expected in command

    def test_its_options_are_there(self) -> None:
        known = recaudit("check", "--help").stdout
        options = re.findall(r"--[a-z]+", self.TEXT[self.TEXT.index("recaudit check") :].split("- uses")[0])
        assert {"--rules", "--junit", "--markdown", "--baseline"} == set(options)
        assert all(option in known for option in options)

    def test_its_files_are_there(self) -> None:
        assert read_gate(EXAMPLE / "gate.toml").rules
        for name in ("audit.toml", "gate.toml"):
            assert name in self.TEXT
            assert (EXAMPLE / name).exists()
