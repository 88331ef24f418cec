"""`recaudit verify`, and what the other commands say about damaged folders and about the machine."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from folders.forged import forge
from recaudit import Exposure, report
from recaudit.cli import app
from recaudit.report import page
from recaudit.report.simulation import page as simulation_page
from recaudit.runs import Run

AUDIT = '[data]\nname = "demo"\n[[model]]\nkind = "top-pop"\n[audits.exposure]\nby = []\n'
SIMULATION = """
trials = 1
folds = 2
steps = 2
[[environment]]
name = "topics-static"
users = 20
items = 30
users_per_step = 4
ratings = 100
[[recommender]]
kind = "random"
"""
SUMMARY = "results/TopPop/exposure/summary.parquet"


def recaudit(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


def told(run: Run) -> str:
    return str(run.table("TopPop", "exposure", "summary").to_dicts())


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished audit in `out`, with a page that is quickly made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "render", told)
    monkeypatch.setattr(page, "render", told)
    Path("my.toml").write_text(AUDIT)
    assert recaudit("audit", "my.toml", "--out", "out").exit_code == 0
    return Path("out")


class TestVerify:
    def test_a_whole_folder(self, made: Path) -> None:
        result = recaudit("verify", made)
        assert result.exit_code == 0, result.output
        assert "out: an audit, complete." in result.stdout
        assert "none is damaged or missing" in result.stdout

    def test_a_damaged_one_is_told_by_name_and_mended_by_its_command(self, made: Path) -> None:
        before = (made / SUMMARY).read_bytes()
        (made / SUMMARY).write_bytes(before[:-1])
        (made / "report.html").unlink()
        (made / "notes.txt").write_text("mine")
        result = recaudit("verify", made)
        assert result.exit_code == 4
        for line in (f"damaged  {SUMMARY}", "missing  report.html", "unknown  notes.txt"):
            assert line in result.stdout.splitlines()
        found = json.loads(recaudit("verify", made, "--json").stdout)
        assert (found["ok"], found["damaged"], found["missing"]) == (False, [SUMMARY], ["report.html"])

        refused = recaudit("report", made)
        assert refused.exit_code == 4
        assert SUMMARY in refused.stderr
        assert not (made / "report.html").exists()

        mended = recaudit("audit", "my.toml", "--out", made)
        assert mended.exit_code == 0, mended.output
        assert f"{SUMMARY} (damaged)" in mended.stderr
        assert (made / "report.html").is_file()
        assert recaudit("verify", made).exit_code == 0

    def test_a_statement_is_no_unknown_file(self, made: Path) -> None:
        assert recaudit("report", made, "--format", "md").exit_code == 0
        result = recaudit("verify", made)
        assert result.exit_code == 0, result.output
        assert "unknown" not in result.stdout
        assert "statement.md is the statement of the audit" in result.stdout
        found = json.loads(recaudit("verify", made, "--json").stdout)
        assert (found["ok"], found["unknown"], found["statement"]) == (True, [], "statement.md")

    def test_a_damaged_manifest(self, made: Path) -> None:
        file = made / "manifest.json"
        file.write_bytes(file.read_bytes().replace(b"TopPop", b"topPop"))
        for command in (["verify", made], ["audit", "my.toml", "--out", made], ["report", made]):
            result = recaudit(*command)
            assert result.exit_code == 4
            assert "manifest.json" in result.output
            assert "from a copy" in result.output

    def test_a_simulation(self, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(simulation_page, "render_simulation", lambda result, **_: str(result.points().to_dicts()))
        Path("sim.toml").write_text(SIMULATION)
        assert recaudit("simulate", "sim.toml", "--out", "sim").exit_code == 0
        result = recaudit("verify", "sim")
        assert result.exit_code == 0, result.output
        assert "sim: a simulation study, complete." in result.stdout
        shutil.rmtree("sim/loops/topics-static/Random/trial-000")
        Path("sim/report.html").write_text("other numbers")
        found = json.loads(recaudit("verify", "sim", "--json").stdout)
        assert found["damaged"] == ["report.html"]
        assert found["missing"] == ["loops/topics-static/Random/trial-000/manifest.json"]
        mended = recaudit("simulate", "sim.toml", "--out", "sim")
        assert mended.exit_code == 0, mended.output
        assert "Random/trial-000/manifest.json (missing)" in mended.stderr
        assert recaudit("verify", "sim").exit_code == 0
        wrong = recaudit("report", "sim")
        assert wrong.exit_code == 2
        assert "the folder of a simulation study" in wrong.stderr

    def test_links_special_files_and_tables_outside_are_named(self, made: Path, tmp_path: Path) -> None:
        (made / SUMMARY).rename(tmp_path / "elsewhere.parquet")
        (made / SUMMARY).symlink_to(tmp_path / "elsewhere.parquet")
        (made / "report.html").unlink()
        os.mkfifo(made / "report.html")
        (made / "own").symlink_to("/etc")
        result = recaudit("verify", made)
        assert result.exit_code == 4
        for line in (f"link     {SUMMARY}", "special  report.html", "link     own"):
            assert line in result.stdout.splitlines()
        found = json.loads(recaudit("verify", made, "--json").stdout)
        assert (found["ok"], found["links"], found["special"]) == (False, ["own", SUMMARY], ["report.html"])
        refused = recaudit("report", made)
        assert refused.exit_code == 4
        assert SUMMARY in refused.stderr

    def test_tables_outside_are_read_where_parts_names_their_folder(self, made: Path, tmp_path: Path) -> None:
        shared = tmp_path / "shared"
        shared.mkdir()
        (made / SUMMARY).rename(shared / "summary.parquet")
        forge(made, lambda content: content.update(elsewhere={SUMMARY.rpartition("/")[0]: str(shared)}))
        for path in list((made / SUMMARY).parent.iterdir()):
            path.rename(shared / path.name)
        Path("gate.toml").write_text('[[rule]]\nmetric = "coverage"\nat_least = 0.0\n')
        commands = [
            ("verify", made),
            ("report", made),
            ("report", made, "--format", "md"),
            ("compare", made, "--models", "TopPop", "Random"),
            ("check", made, "--rules", "gate.toml"),
            ("check", made, "--suggest"),
        ]
        for command in commands:
            alone = recaudit(*command)
            assert alone.exit_code == (4 if command[0] == "verify" else 2), alone.output
            assert "--parts" in alone.output
            assert str(shared) in alone.output
            named = recaudit(*command, "--parts", shared)
            assert named.exit_code == 0, named.output
        found = json.loads(recaudit("verify", made, "--json").stdout)
        assert (found["ok"], SUMMARY in found["outside"], found["missing"]) == (False, True, [])

    def test_no_run_folder(self, tmp_path: Path) -> None:
        assert recaudit("verify", tmp_path / "nowhere").exit_code == 2
        assert recaudit("verify", tmp_path).exit_code == 4


class TestTheMachine:
    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
            (MemoryError("18.6 GiB"), "memory ran out: 18.6 GiB"),
        ],
    )
    def test_it_is_told_what_it_lacks_and_the_run_goes_on(
        self, made: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
    ) -> None:
        def failing(*args: object, **kwargs: object) -> object:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(Exposure, "measure", failing)
            result = recaudit("audit", "my.toml", "--out", "new")
        assert result.exit_code == 5
        assert said in result.stderr
        assert "run the same command again" in result.stderr
        assert "Unexpected" not in result.stderr
        assert recaudit("audit", "my.toml", "--out", "new").exit_code == 0
        assert (Path("new") / SUMMARY).read_bytes() == (made / SUMMARY).read_bytes()
