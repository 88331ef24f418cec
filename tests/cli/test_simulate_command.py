"""`recaudit simulate`: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from recaudit import simulate
from recaudit.cli import app
from recaudit.runs.simulation import parse_simulation
from recaudit.simulate.loop import trial
from recaudit.simulate.loop.trial import slates
from recaudit.simulate.offline import comparison

CONFIG = """
trials = 2
folds = 2
k = 5
[[environment]]
name = "topics-dynamic"
label = "small"
users = 40
items = 50
users_per_step = 8
ratings = 300
steps = 4
[[recommender]]
kind = "top-pop"
by = "mean"
label = "Best rated"
[[recommender]]
kind = "random"
[[recommender]]
kind = "oracle"
"""


@pytest.fixture
def toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """small.toml, in the folder where the command is run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comparison, "_SAMPLES", 10)
    path = tmp_path / "small.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def recaudit(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)], env={"COLUMNS": "120"})


class TestSimulate:
    def test_it_says_where_the_report_is_and_how_everybody_did(self, toml: Path) -> None:
        toml.write_text(CONFIG.replace("Best", "[b]Best").replace('"small"', '"[red]small"'))
        result = recaudit(toml, "--out", "out")
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("Report: out/report.html\n")
        assert "[red]small" in result.stdout
        assert "<html" in Path("out/report.html").read_text(encoding="utf-8")
        rows = [line.split("  ")[0] for line in result.stdout.splitlines()]
        assert rows.index("Oracle") < min(rows.index("Random"), rows.index("[b]Best rated"))  # best first
        for words in ("Mean rating", "nDCG@5", "RMSE", "rank correlation", "95% intervals"):
            assert words in result.stdout
        assert "\x1b" not in result.stdout

    def test_the_folder_is_named_after_the_configuration_unless_given(self, toml: Path) -> None:
        assert recaudit(toml).exit_code == 0
        assert Path("runs/small/report.html").is_file()

    def test_json_is_one_document_and_nothing_else(self, toml: Path) -> None:
        document = json.loads(recaudit(toml, "--out", "out", "--json").stdout)
        assert Path(document["report"]).is_file()
        assert document["trials"] == 2
        ratings = {row["recommender"]: row["mean_rating"] for row in document["results"]}
        assert max(ratings, key=lambda name: ratings[name]) == "Oracle"
        assert [(row["metric"], row["recommenders"]) for row in document["spearman"]] == [("ndcg", 3), ("rmse", 3)]
        assert [row["tuned"] for row in document["settings"]] == [False] * 3

    def test_one_trial_and_one_recommender_have_no_intervals_and_no_correlation(self, toml: Path) -> None:
        text = CONFIG.partition("[[recommender]]")[0].replace("trials = 2", "trials = 1")
        toml.write_text(text + '[[recommender]]\nkind = "random"\n')
        result = recaudit(toml, "--out", "out")
        assert result.exit_code == 0, result.output
        for words in ("rank correlation", "95% intervals", "n/a"):
            assert words not in result.stdout

    def test_says_first_how_much_there_is_to_do_and_what_memory_it_takes(self, toml: Path) -> None:
        told = recaudit(toml, "--out", "out", "--json")
        assert re.search(r"^\S+: \d recommenders x \d+ trials x \d+ steps; about \d+ MiB of memory", told.stderr)
        json.loads(told.stdout)

    def test_what_it_will_take_is_told_without_starting(self, toml: Path) -> None:
        told = recaudit(toml, "--out", "out", "--dry-run")
        assert told.exit_code == 0, told.output
        assert "In all " in told.stdout
        assert not Path("out").exists()
        found = json.loads(recaudit(toml, "--dry-run", "--json").stdout)
        config = parse_simulation(CONFIG, source="", folder=Path())
        assert [each["recommender"] for each in found] == [each.model.label for each in config.recommenders]
        for each in found:
            steps = config.trials * 4
            assert each["seconds"] >= each["fits"] * each["fit"] + steps * each["step"] > 0

    def test_interrupted_it_says_how_to_go_on_and_goes_on_to_the_same_numbers(
        self, toml: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = iter(range(1000))

        def fragile(*args: object, **kwargs: object) -> object:
            if next(calls) == 10:
                raise KeyboardInterrupt
            return slates(*args, **kwargs)  # type: ignore[arg-type]  # as they came

        monkeypatch.setattr(trial, "SAVE_SECONDS", -1.0)
        monkeypatch.setattr(trial, "slates", fragile)
        stopped = recaudit(toml, "--out", "out")
        assert stopped.exit_code == 130
        assert "Run the same command again to resume" in stopped.stderr
        assert not Path("out/report.html").exists()
        resumed = recaudit(toml, "--out", "out", "--json")
        assert resumed.exit_code == 0, resumed.output
        whole = recaudit(toml, "--out", "whole", "--json")
        assert json.loads(resumed.stdout)["results"] == json.loads(whole.stdout)["results"]

    def test_another_simulation_in_the_folder_is_refused_until_fresh(self, toml: Path) -> None:
        assert recaudit(toml, "--out", "out").exit_code == 0
        toml.write_text("seed = 7\n" + CONFIG)
        refused = recaudit(toml, "--out", "out")
        assert refused.exit_code == 2
        assert "other settings" in refused.stderr
        assert recaudit(toml, "--out", "out", "--fresh").exit_code == 0


class TestMistakes:
    def test_a_bad_configuration_is_told_in_its_own_words(self, toml: Path) -> None:
        toml.write_text(CONFIG.replace("users_per_step = 8", "users_per_step = 41"))
        result = recaudit(toml, "--out", "out")
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "small.toml, environment[0].users_per_step: received 41; expected at most 40" in result.stderr
        assert "Traceback" not in result.output
        assert not Path("out").exists()

    def test_no_configuration(self) -> None:
        result = recaudit()
        assert result.exit_code == 2
        assert "recaudit simulate --help" in result.stderr

    def test_no_such_file(self, tmp_path: Path) -> None:
        result = recaudit(tmp_path / "no.toml")
        assert result.exit_code == 2
        assert "No such file" in result.stderr


class TestList:
    def test_it_has_every_scenario_with_its_sizes(self) -> None:
        result = recaudit("--list")
        assert result.exit_code == 0
        lines = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines() if line.strip()}
        assert lines["topics-dynamic"] == ["1,000", "1,700", "200", "1", "100,000", "500", "yes"]
        assert lines["beta-rank"] == ["100", "170", "20", "10", "1,000", "50", "no"]
        assert simulate.SCENARIOS.keys() <= lines.keys()
        assert "ml-100k" in result.stdout

    def test_as_json(self) -> None:
        listed = json.loads(recaudit("--list", "--json").stdout)
        assert [one["name"] for one in listed] == list(simulate.SCENARIOS)
        assert listed[0]["environment"] | {"kind": "topics", "users": 1000} == listed[0]["environment"]


class TestHelp:
    def test_its_example_is_a_valid_configuration(self) -> None:
        text = recaudit("--help").output.split("to start from:")[1].split("Then:")[0]
        config = parse_simulation("\n".join(map(str.strip, text.splitlines())), source="help", folder=Path())
        assert [scenario.name for scenario in config.environments] == ["topics-dynamic"]
        assert [one.model.kind for one in config.recommenders] == ["als", "item-knn", "oracle"]
        assert list(config.audits.audits) == ["exposure"]
