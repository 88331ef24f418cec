"""`recaudit check`: what it prints and writes, and what its exit code says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from recaudit.cli import app
from recaudit.runs import gate as gates
from runs.crafted_pairs import measured, write_pair

USERS = 60
KEPT = '[[rule]]\nmetric = "ndcg"\nat_least = 0.1\n'
BROKEN = '[[rule]]\nmetric = "ndcg"\nnot_worse_by = "5%"\n'
UNKNOWN = '[[rule]]\nmetric = "gini"\nat_most = 0.9\n'


def recaudit(*arguments: object, env: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80", **(env or {})})


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs `before` and `after`, of which the second has a lower nDCG, and files of rules."""
    monkeypatch.chdir(tmp_path)
    spread = np.linspace(-0.1, 0.1, USERS)
    write_pair(tmp_path, measured({"ndcg": 0.5 + spread}), measured({"ndcg": 0.4 + spread}))
    for name, text in {"kept": KEPT, "broken": BROKEN, "unknown": UNKNOWN, "all": KEPT + UNKNOWN + BROKEN}.items():
        Path(f"{name}.toml").write_text(text)


def checked(rules: str, *arguments: object) -> Result:
    return recaudit("check", "after", "--baseline", "before", "--rules", f"{rules}.toml", *arguments)


class TestOutcomes:
    @pytest.mark.parametrize(
        ("rules", "code", "said"),
        [
            ("kept", 0, "1 question: 1 passed. Every rule is shown to be satisfied. Exit code 0."),
            ("broken", 1, "1 question: 1 failed. A rule is shown to be violated: do not release. Exit code 1."),
            ("unknown", 2, "this is not a pass. Exit code 2."),
            ("all", 1, "3 questions: 1 failed, 1 undecided, 1 passed."),
        ],
    )
    def test_the_code_and_the_last_line_say_how_it_came_out(self, rules: str, code: int, said: str) -> None:
        result = checked(rules)
        assert result.exit_code == code, result.output
        assert said in result.stdout.splitlines()[-1]

    def test_the_table_has_what_is_broken_first_and_whole_however_narrow_the_log(self) -> None:
        lines = checked("all").stdout.splitlines()
        assert lines[0].split()[:3] == ["verdict", "model", "rule"]
        assert [line.split()[0] for line in lines[1:4]] == ["failed", "undecided", "passed"]
        assert "ndcg, not worse by 5%" in lines[1]
        assert "0.5 → 0.4" in lines[1]
        assert "\N{MINUS SIGN}0.1" in lines[1]

    def test_why_something_is_not_decided(self) -> None:
        assert "the run has no exposure of ALS" in checked("unknown").stdout

    def test_without_a_baseline_a_change_is_not_decided(self) -> None:
        result = recaudit("check", "after", "--rules", "broken.toml")
        assert result.exit_code == 2
        assert "no baseline" in result.stdout


class TestFiles:
    def test_several_at_once(self) -> None:
        result = checked("all", "--json", "--junit", "out/gate.xml", "--markdown", "out/summary.md")
        assert result.exit_code == 1
        assert json.loads(result.stdout)["outcome"] == "failed"
        assert ElementTree.parse("out/gate.xml").getroot().get("failures") == "1"
        assert Path("out/summary.md").read_text(encoding="utf-8").startswith("### recaudit check: failed")

    def test_json_has_no_more_than_the_document(self) -> None:
        found = json.loads(checked("kept", "--json").stdout)
        assert [answer["outcome"] for answer in found["answers"]] == ["passed"]


class TestErrors:
    """Exit code 1 says that a rule is broken: no error may say so."""

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["after"], "--rules"),
            (["after", "--rules", "kept.toml", "--out", "gate.toml"], "--suggest"),
            (["nowhere", "--rules", "kept.toml"], "nowhere"),
            (["after", "--rules", "nowhere.toml"], "nowhere.toml"),
            (["after", "--rules", "kept.toml", "--baseline", "nowhere"], "nowhere"),
            (["after", "--rules", "broken.toml", "--baseline", "after"], "the run itself"),
            (["after", "--rules", "wrong.toml"], "Did you mean 'ndcg'"),
        ],
    )
    def test_bad_input(self, arguments: list[str], said: str) -> None:
        Path("wrong.toml").write_text(KEPT.replace("ndcg", "ndgc"))
        result = recaudit("check", *arguments)
        assert result.exit_code == 2
        assert said in result.stderr

    def test_a_damaged_run(self) -> None:
        file = Path("after/results/ALS/accuracy/summary.parquet")
        file.write_bytes(file.read_bytes()[:-1])
        result = checked("kept")
        assert result.exit_code == 2
        assert "summary.parquet" in result.stderr

    def test_a_fault_of_ours(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*_: object) -> None:
            raise ZeroDivisionError("a fault")

        monkeypatch.setattr(gates, "check", fails)
        result = checked("kept")
        assert result.exit_code == 2
        assert "Unexpected error: ZeroDivisionError: a fault" in result.stderr

    def test_a_file_that_cannot_be_written(self) -> None:
        assert checked("kept", "--junit", "after/manifest.json/gate.xml").exit_code == 2


class TestSuggest:
    @pytest.fixture
    def runs(self) -> None:
        config = """
[data]
name = "demo"
[split]
kind = "leave-last"
k = 5
[[model]]
kind = "ease"
label = "EASE \\"one\\""
[[model]]
kind = "random"
label = "Chance"
[audits.accuracy]
by = ["region", "history"]
[audits.exposure]
by = []
"""
        Path("my.toml").write_text(config)
        for name in ("one", "other"):
            assert recaudit("audit", "my.toml", "--out", name).exit_code == 0

    @pytest.mark.usefixtures("runs")
    def test_the_rules_of_a_run_are_kept_by_it_and_by_its_like(self) -> None:
        written = recaudit("check", "one", "--suggest", "--out", "gate.toml")
        assert written.exit_code == 0, written.output
        assert "recaudit check LATER --baseline one --rules gate.toml" in written.stderr
        text = Path("gate.toml").read_text(encoding="utf-8")
        rules = gates.read_gate("gate.toml").rules
        assert {rule.metric for rule in rules} == {"ndcg", "coverage", "gini"}
        assert {rule.by for rule in rules} <= {None, "region", "history"}
        [threshold] = [rule for rule in rules if rule.held_to == "at_least"]
        assert threshold.model == 'EASE "one"'
        assert "# Most popular, which is not personalized" in text
        result = recaudit("check", "other", "--baseline", "one", "--rules", "gate.toml")
        assert result.exit_code == 0, result.output
        assert recaudit("check", "one", "--suggest").stdout == text
        assert recaudit("check", "one", "--suggest", "--out", "gate.toml").exit_code == 2

    def test_a_run_that_measured_nothing_of_it_is_refused(self) -> None:
        write_pair(Path("few"), *[measured({"ndcg": np.full(5, 0.5)})] * 2)
        result = recaudit("check", "few/after", "--suggest")
        assert result.exit_code == 2
        assert "can be judged by one of ndcg" in result.stderr

    def test_a_run_that_only_predicts_ratings_is_judged_by_its_error(self) -> None:
        write_pair(Path("errors"), *[measured({"rmse": 1 + np.linspace(-0.1, 0.1, USERS)})] * 2)
        result = recaudit("check", "errors/after", "--suggest")
        assert result.exit_code == 0
        [rule] = gates.parse_gate(result.stdout, source="gate.toml").rules
        assert (rule.metric, rule.held_to, rule.rising) == ("rmse", "not_worse_by", True)
