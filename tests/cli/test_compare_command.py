"""`recaudit compare` and `recaudit history`: what they print, where, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from recaudit.cli import app
from recaudit.folders import Folder, Manifest
from recaudit.runs import Run
from report.crafted_changes import PEOPLE, measured, spread, write
from report.crafted_runs import Data

RED = "[red]ALS[/red]"


def recaudit(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    path = tmp_path_factory.mktemp("runs")
    ages = {"age": ["old", "young"] * (PEOPLE // 2)}
    lists = [{"u1": ["a", "b"], "u2": ["a", "b"]}, {"u1": ["a", "b"], "u2": ["c", "d"]}]
    config: dict[str, object] = {"split": {"kind": "random", "fraction": 0.2}, "title": "new"}
    data = Data(attributes=("age",)), Data(attributes=("age",), config=config, started="2025-03-06T14:02:00+00:00")
    results = measured(spread(0.5), ages, lists[0]), measured(spread(0.4, 1), ages, lists[1])
    one, two = (
        write(path / name, {RED: own, "Other": measured(spread(0.5))}, of)
        for name, own, of in zip(("monday", "tuesday"), results, data, strict=True)
    )
    return one, two


class TestCompare:
    def test_what_was_compared_what_got_worse_and_what_changed(self, runs: tuple[Run, Run]) -> None:
        result = recaudit("compare", *(run.path for run in runs))
        assert result.exit_code == 0
        text = " ".join(result.stdout.split())
        assert text.startswith(f"tuesday against monday ({RED} and Other): 14 numbers about everybody")
        assert "tuesday is worse in 5 of 14 numbers about everybody, and better in 2." in text
        assert f"✗ worse nDCG@10 of {RED} 0.500 → 0.400 \N{MINUS SIGN}0.100" in text
        assert f"of {RED} for users of age " in text
        assert "Changed: configuration, title: none → new" in text
        assert f"Lists of {RED}: 1 of 2 changed, 1.0 of 2 items gone on average; most those of u2" in text
        assert "--out compare.html" in text
        assert "\x1b" not in result.stdout

    def test_no_more_than_fifteen_lines_of_numbers(self, runs: tuple[Run, Run]) -> None:
        lines = recaudit("compare", *(run.path for run in runs)).stdout.splitlines()
        assert 5 < sum(line.startswith(("✗", "✓")) for line in lines) <= 15

    def test_the_page_only_where_it_is_asked_for(self, runs: tuple[Run, Run], tmp_path: Path) -> None:
        out = tmp_path / "compare.html"
        before = sorted(runs[1].path.rglob("*"))
        result = recaudit("compare", *(run.path for run in runs), "--out", out)
        assert f"Page: {out}" in result.stdout
        assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
        assert sorted(runs[1].path.rglob("*")) == before

    def test_json_has_everything(self, runs: tuple[Run, Run]) -> None:
        document = json.loads(recaudit("compare", *(run.path for run in runs), "--json").stdout)
        assert document["after"] == str(runs[1].path)
        rows = [row for row in document["differences"] if (row["metric"], row["by"]) == ("ndcg", "")]
        assert [row["verdict"] for row in rows] == ["worse", "same"]
        assert document["changes"] == [{"what": "configuration", "name": "title", "before": "", "after": "new"}]
        assert document["lists"][0]["changed"] == 1
        assert document["page"] is None

    def test_two_models_of_one_run(self, runs: tuple[Run, Run]) -> None:
        result = recaudit("compare", runs[1].path, "--models", "Other", RED)
        assert result.stdout.startswith(f"{RED} against Other: 7 numbers")

    def test_a_model_of_each_run_and_other_levels(self, runs: tuple[Run, Run]) -> None:
        paths = [run.path for run in runs]
        found = recaudit(
            "compare", *paths, "--models", "Other", RED, "--correction", "none", "--confidence", 0.5, "--json"
        )
        document = json.loads(found.stdout)
        assert document["models"] == {f"Other → {RED}": ["Other", RED]}
        assert (document["confidence"], document["correction"]) == (0.5, "none")


class TestHistory:
    def test_runs_in_order_and_the_last_change(self, runs: tuple[Run, Run], tmp_path: Path) -> None:
        out = tmp_path / "history.html"
        result = recaudit("history", runs[1].path, runs[0].path, "--out", out)
        assert result.exit_code == 0
        text = " ".join(result.stdout.split())
        assert text.index("1 monday") < text.index("2 tuesday")
        assert "The last of 2 runs, against the one before: tuesday is worse" in text
        assert f"✗ worse nDCG@10 of {RED} 0.500 0.400 \N{MINUS SIGN}0.100" in text
        assert out.is_file()

    def test_as_given(self, runs: tuple[Run, Run]) -> None:
        text = " ".join(recaudit("history", runs[1].path, runs[0].path, "--as-given").stdout.split())
        assert text.index("1 tuesday") < text.index("2 monday")

    def test_json_has_everything(self, runs: tuple[Run, Run]) -> None:
        document = json.loads(recaudit("history", *(run.path for run in runs), "--json").stdout)
        assert [own["run"] for own in document["runs"]] == [str(run.path) for run in runs]
        assert document["runs"][1]["changes"][0]["name"] == "title"
        assert len([row for row in document["results"] if row["metric"] == "ndcg" and not row["by"]]) == 4
        assert len([row for row in document["last"] if row["metric"] == "ndcg" and not row["by"]]) == 2


class TestBadInput:
    def told(self, *arguments: object, code: int = 2) -> str:
        result = recaudit(*arguments)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return " ".join(result.stderr.split())

    def test_the_same_run_twice(self, runs: tuple[Run, Run]) -> None:
        path = runs[0].path
        assert "expected another run, or two models of this one" in self.told("compare", path, path / "." / "")
        assert "expected another run, or two models of this one" in self.told("compare", path)
        for again in ([], [path.parent / ".." / path.parent.name / path.name]):
            told = self.told("compare", path, *again, "--models", "Other", "Other")
            assert "two different models of this run" in told
        assert "expected every run once" in self.told("history", path, path)
        assert "two run folders or more" in self.told("history", path)

    def test_a_folder_that_is_no_run(self, runs: tuple[Run, Run], tmp_path: Path) -> None:
        for command in ("compare", "history"):
            assert "expected a run folder of an audit" in self.told(command, runs[0].path, tmp_path / "nowhere")

    def test_the_folder_of_a_simulation(self, runs: tuple[Run, Run], tmp_path: Path) -> None:
        Folder.begin(tmp_path / "sim", Manifest(kind="study", recaudit="0.1.0", plan={}, record={}))
        for command in ("compare", "history"):
            assert "the folder of a simulation study" in self.told(command, runs[0].path, tmp_path / "sim")

    def test_a_damaged_run(self, runs: tuple[Run, Run], tmp_path: Path) -> None:
        run = write(tmp_path / "broken", {"Other": measured(spread(0.5))})
        (run.path / "results" / "Other" / "accuracy" / "users.parquet").write_bytes(b"no table")
        assert "users.parquet" in self.told("compare", runs[0].path, run.path, code=4)

    def test_an_unknown_model(self, runs: tuple[Run, Run]) -> None:
        paths = [run.path for run in runs]
        assert "Did you mean 'Other'" in self.told("compare", *paths, "--models", "Othr", "Other")

    def test_models_of_no_common_label(self, runs: tuple[Run, Run], tmp_path: Path) -> None:
        run = write(tmp_path, {"New": measured(spread(0.5))})
        assert "models of the same label" in self.told("compare", runs[0].path, run.path)

    def test_nobody_in_both(self, runs: tuple[Run, Run], tmp_path: Path) -> None:
        strangers = measured(spread(0.5))
        table = strangers.tables["users"]
        named = table.with_columns(user="x" + table["user"])
        run = write(
            tmp_path,
            {"Other": type(strangers)(strangers.kind, strangers.settings, {**strangers.tables, "users": named})},
        )
        assert "no user was measured in both" in self.told("compare", runs[0].path, run.path)

    def test_levels_that_are_none(self, runs: tuple[Run, Run]) -> None:
        paths = [run.path for run in runs]
        assert "confidence" in self.told("compare", *paths, "--confidence", 1.5)
        assert "bonferroni" in self.told("compare", *paths, "--correction", "bonferroni")

    def test_a_page_inside_a_run(self, runs: tuple[Run, Run]) -> None:
        paths = [run.path for run in runs]
        assert "a file outside of the runs" in self.told("compare", *paths, "--out", paths[0] / "page.html")

    def test_a_run_that_is_not_finished_is_compared_and_told(self, runs: tuple[Run, Run], tmp_path: Path) -> None:
        run = write(tmp_path, {"Other": measured(spread(0.5))})
        run.folder.note(status="running")
        result = recaudit("compare", runs[0].path, run.path)
        assert result.exit_code == 0
        assert "Caution: The second run is not finished" in result.stdout
        assert f"Not compared: {RED} of the first run" in result.stdout
        text = recaudit("history", runs[0].path, run.path).stdout
        assert "Not finished, and shown as far as they have come" in text
