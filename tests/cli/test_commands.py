"""What the commands print, where, and with which exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from recaudit import Accuracy, Exposure, __version__, data
from recaudit.cli import app
from recaudit.cli import audits as commands
from recaudit.errors import DownloadError

CONFIG = """
[data]
name = "demo"
[split]
kind = "leave-last"
[[model]]
kind = "top-pop"
label = "[red]Hits[/red] <b>"
[audits.accuracy]
by = []
[audits.exposure]
by = []
"""


@pytest.fixture
def toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """quick.toml, in the folder where the command is run."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "quick.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def recaudit(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


def fail(error: BaseException) -> object:
    def raising(*args: object, **kwargs: object) -> object:
        raise error

    return raising


class TestHelp:
    @pytest.mark.parametrize(
        "command",
        [
            [],
            ["demo"],
            ["init"],
            ["audit"],
            ["report"],
            ["compare"],
            ["history"],
            ["verify"],
            ["data"],
            ["data", "list"],
            ["data", "fetch"],
            ["audits"],
            ["simulate"],
            ["rerank"],
            ["doctor"],
        ],
    )
    def test_every_command_explains_itself(self, command: list[str]) -> None:
        result = recaudit(*command, "--help")
        assert result.exit_code == 0
        assert "Usage: recaudit" in " ".join(result.output.split()) or "Usage: root" in result.output

    def test_the_example_in_the_help_of_audit_is_a_valid_configuration(self, tmp_path: Path) -> None:
        from recaudit import runs

        text = recaudit("audit", "--help").output.split("to start from:")[1].split("Then:")[0]
        lines = [line.strip() for line in text.splitlines()]
        (tmp_path / "model.npz").write_bytes(b"")
        config = runs.parse("\n".join(lines), source="help", folder=tmp_path)
        assert [model.kind for model in config.models] == ["als", "factors"]
        assert list(config.audits) == ["accuracy", "exposure", "reachability"]

    def test_the_command_line_imports_nothing_heavy(self) -> None:
        heavy = ["torch", "numpy", "polars", "numba", "scipy", "pydantic", "altair"]
        code = f"import sys, recaudit.cli; print([name for name in {heavy} if name in sys.modules])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"

    def test_version(self) -> None:
        assert recaudit("--version").output.strip() == f"recaudit {__version__}"


class TestAudit:
    def test_it_says_what_was_audited_what_was_found_and_where_the_report_is(self, toml: Path) -> None:
        result = recaudit("audit", toml, "--out", "out")
        assert result.exit_code == 0, result.output
        assert "Report: out/report.html" in result.stdout
        assert Path("out/report.html").is_file()
        assert "[red]Hits[/red] <b>" in " ".join(result.stdout.split())
        assert "\x1b" not in result.stdout

    def test_the_folder_is_named_after_the_configuration_unless_given(self, toml: Path) -> None:
        assert recaudit("audit", toml).exit_code == 0
        assert Path("runs/quick/report.html").is_file()

    def test_json_is_one_document_and_nothing_else(self, toml: Path) -> None:
        result = recaudit("audit", toml, "--out", "out", "--json", "--workers", 2)
        document = json.loads(result.stdout)
        assert document["status"] == "complete"
        assert Path(document["report"]).is_file()
        assert document["headlines"][0]["label"] == "Ranking quality"
        (finding,) = document["findings"]
        assert (finding["rank"], finding["touched"]) == (1, 1.0)
        assert document["verdict"] == "verdict.findings"
        assert finding["code"] == "exposure.items-never-shown"
        assert finding["numbers"][0]["metric"] == "coverage"
        assert document["headlines"][0]["code"] == "headline.ranking-quality"
        assert 0 < finding["sure"] <= finding["effect"]
        assert finding["floors"].keys() == {"Random"}
        assert {row["audit"] for row in document["results"]} == {"accuracy", "exposure"}
        ndcg = next(row for row in document["results"] if row["metric"] == "ndcg")
        assert 0 < ndcg["value"] < 1
        rmse = next(row for row in document["results"] if row["metric"] == "rmse")
        assert (rmse["value"], rmse["status"]) == (None, "not_applicable")

    def test_what_has_no_result_is_told_with_the_reason(self, toml: Path) -> None:
        more = '[[model]]\nkind = "ease"\n[audits.reachability]\nusers = 3\n[audits.instability]\nviewers = 3\n'
        toml.write_text(CONFIG.replace("[red]Hits[/red] <b>", "Hits") + more)
        said = recaudit("audit", toml, "--out", "out").stdout
        assert "!  No model of this run has an answer to instability." in said
        _, _, after = said.partition("Without a result (in the report under Gaps):")
        assert "reachability and instability of Hits: PopularityModel: no formula says how" in after
        assert "instability of EASE: LinearModel: another user's ratings move no score" in after

    def test_another_run_in_the_folder_is_refused_until_fresh(self, toml: Path) -> None:
        assert recaudit("audit", toml, "--out", "out").exit_code == 0
        toml.write_text("seed = 7\n" + toml.read_text())
        refused = recaudit("audit", toml, "--out", "out")
        assert refused.exit_code == 2
        assert "--fresh" in refused.stderr
        assert recaudit("audit", toml, "--out", "out", "--fresh").exit_code == 0

    def test_the_report_can_be_written_again(self, toml: Path) -> None:
        audited = recaudit("audit", toml, "--out", "out")
        Path("out/report.html").unlink()
        result = recaudit("report", "out")
        assert result.exit_code == 0
        assert result.stdout == audited.stdout
        assert "Report: out/report.html" in result.stdout
        assert Path("out/report.html").is_file()


class TestDemo:
    def test_it_starts_over_and_says_what_to_do_next(self, toml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(commands, "DEMO", toml)
        starts = []
        for _ in range(2):
            result = recaudit("demo", "--out", "out")
            assert result.exit_code == 0, result.output
            assert "Report: out/report.html" in result.stdout
            assert "recaudit init ratings.csv" in result.stdout
            starts.append(Path("out/results").stat().st_ctime_ns)
        assert starts[0] < starts[1]

    def test_it_does_not_replace_another_audit(self, tmp_path: Path) -> None:
        (tmp_path / "ratings.csv").write_text("user,item,rating\n1,1,5\n1,2,3\n2,1,4\n2,3,1\n3,2,2\n3,3,4\n")
        toml = tmp_path / "own.toml"
        toml.write_text(
            '[data]\nfile = "ratings.csv"\n[split]\nkind = "random"\nfraction = 0.3\n[[model]]\nkind = "random"'
        )
        assert recaudit("audit", toml, "--out", tmp_path / "out").exit_code == 0
        result = recaudit("demo", "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert "an audit of ratings.csv" in result.stderr

    def test_its_configuration_is_valid(self) -> None:
        from recaudit import runs

        config = runs.parse(commands.DEMO.read_text(encoding="utf-8"), source="demo.toml", folder=Path())
        assert {model.kind for model in config.models} >= {"biased-mf", "als", "item-knn", "ease", "top-pop", "random"}
        assert list(config.audits) == [
            "accuracy",
            "exposure",
            "reachability",
            "recourse",
            "agency",
            "folding",
            "calibration",
            "reranking",
            "mitigation",
        ]


class TestExitCodes:
    def test_two_for_a_bad_configuration_told_without_a_traceback(self, toml: Path) -> None:
        toml.write_text(toml.read_text() + '[[model]]\nkind = "als"\nfactros = "[bold]8[/bold]"\n')
        result = recaudit("audit", toml, "--out", "out")
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "model[1].factros" in result.stderr
        assert "Did you mean 'factors'?" in result.stderr
        assert "Traceback" not in result.output
        assert not Path("out").exists()

    def test_two_for_a_command_that_does_not_exist(self) -> None:
        assert recaudit("audt").exit_code == 2

    def test_two_for_a_folder_that_is_not_a_run(self, tmp_path: Path) -> None:
        assert recaudit("report", tmp_path).exit_code == 2

    def test_three_for_a_download_that_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(data.datasets, "fetch", fail(DownloadError("ml-1m could not be fetched: offline.")))
        result = recaudit("data", "fetch", "ml-1m")
        assert result.exit_code == 3
        assert "offline" in result.stderr

    @pytest.mark.parametrize("how", ["by Python", "by a kernel"])
    def test_130_for_an_interruption_that_says_how_to_resume(
        self, toml: Path, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        error: BaseException = KeyboardInterrupt()
        if how == "by a kernel":  # as numba reports it
            error = SystemError("CPUDispatcher(...) returned a result with an exception set")
            error.__cause__ = KeyboardInterrupt()
        with monkeypatch.context() as patch:
            patch.setattr(Exposure, "measure", fail(error))
            result = recaudit("audit", toml, "--out", "out")
        assert result.exit_code == 130
        assert "Run the same command again to resume" in result.stderr
        assert recaudit("audit", toml, "--out", "out").exit_code == 0

    def test_one_line_for_a_fault_and_the_traceback_on_demand(
        self, toml: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Accuracy, "measure", fail(ZeroDivisionError("a fault")))
        result = recaudit("audit", toml, "--out", "out")
        assert result.exit_code == 1
        assert "Unexpected error: ZeroDivisionError: a fault" in result.stderr
        assert "--debug" in result.stderr
        assert "Traceback" not in result.stderr
        assert "Traceback" in recaudit("--debug", "audit", toml, "--out", "out").stderr
        monkeypatch.setenv("RECAUDIT_DEBUG", "1")
        assert "Traceback" in recaudit("audit", toml, "--out", "out").stderr


class TestData:
    def test_list_names_every_data_set(self) -> None:
        result = recaudit("data", "list")
        assert result.exit_code == 0
        for name in data.datasets.names():
            assert name in result.stdout

    def test_list_as_json(self) -> None:
        listed = json.loads(recaudit("data", "list", "--json").stdout)
        assert [one["name"] for one in listed] == data.datasets.names()
        assert listed[0] | {"name": "demo", "ready": True, "location": None} == listed[0]

    def test_fetch_of_an_unknown_name_suggests(self) -> None:
        result = recaudit("data", "fetch", "ml1m")
        assert result.exit_code == 2
        assert "Did you mean 'ml-1m'?" in result.stderr

    def test_fetch_says_where_the_files_are(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(data.datasets, "fetch", lambda name: tmp_path / name)
        result = recaudit("data", "fetch", "ml-1m")
        assert result.exit_code == 0
        assert str(tmp_path / "ml-1m") in result.stdout


class TestDoctor:
    @pytest.fixture(autouse=True)
    def _own_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.delenv("RECAUDIT_DATA", raising=False)

    def test_a_healthy_installation_is_ok(self) -> None:
        result = recaudit("doctor")
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines()[-1] == "ok"
        for word in ("python", "torch", "device", "cores", "memory", "extra pandas", "ml-1m"):
            assert word in result.stdout

    def test_json(self, tmp_path: Path) -> None:
        found = json.loads(recaudit("doctor", "--json").stdout)
        assert found["ok"] is True
        assert found["versions"]["recaudit"] == __version__
        assert found["extras"]["pandas"] is True
        assert found["data"]["demo"] == "built in"
        assert found["data"]["ml-1m"] is None
        assert found["looked_in"] == [str(tmp_path / "cache" / "recaudit")]

    def test_a_data_folder_that_is_not_there_is_to_be_fixed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RECAUDIT_DATA", str(tmp_path / "nowhere"))
        result = recaudit("doctor")
        assert result.exit_code == 3
        assert "To fix: RECAUDIT_DATA:" in result.stdout
        assert json.loads(recaudit("doctor", "--json").stdout)["ok"] is False

    def test_a_cache_that_cannot_be_written_is_to_be_fixed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        assert "which cannot be written" in recaudit("doctor").stdout

    def test_a_found_data_set_is_shown(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = tmp_path / "data" / "ml-latest-small"
        folder.mkdir(parents=True)
        for name in data.datasets.info("ml-latest-small").files:
            (folder / name).write_text("")
        monkeypatch.setenv("RECAUDIT_DATA", str(tmp_path / "data"))
        found = json.loads(recaudit("doctor", "--json").stdout)
        assert found["data"]["ml-latest-small"] == str(folder)
        assert found["looked_in"][0] == str(tmp_path / "data")
