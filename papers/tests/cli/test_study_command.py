"""`recaudit study`: what it lists, refuses, prints and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from recaudit.cli import app
from recaudit_papers.studies.running import STUDIES

QUESTION = """
title = "Does the length of a list decide?"
[base.data]
name = "demo"
[[base.model]]
kind = "top-pop"
label = "Popular"
[base.audits.accuracy]
k = 10
[[metric]]
audit = "accuracy"
name = "ndcg"
model = "Popular"
published = 0.9
[[change]]
name = "lists of 5"
set = { "audits.accuracy.k" = 5 }
"""


def recaudit(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


@pytest.fixture(scope="module")
def question(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("question") / "question.toml"
    path.write_text(QUESTION, encoding="utf-8")
    return path


def test_the_list_has_every_study() -> None:
    told = recaudit("study", "--list").stdout
    assert all(name in told for name in [*STUDIES, "own"])
    assert [one["name"] for one in json.loads(recaudit("study", "--list", "--json").stdout)] == list(STUDIES)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected the name of a study"),
        (["calibratoin"], "calibration"),
        (["own"], "--config"),
        (["calibration", "--config", "x.toml"], "no configuration but for 'own'"),
        (["calibration", "--size", "huge"], "huge"),
        (["calibration", "--workers", "0"], "workers"),
    ],
)
def test_bad_input_is_named(arguments: list[str], said: str) -> None:
    result = recaudit("study", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_a_question_of_ones_own_to_its_page(question: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = recaudit("study", "own", "--config", question, "--out", out)
    assert result.exit_code == 0, result.output
    assert "disagrees, open 1" in result.stdout
    assert (out / "report.html").is_file()
    told = json.loads(recaudit("study", "own", "--config", question, "--out", out, "--json").stdout)
    assert told["counts"]["disagrees, open"] == 1
    assert told["rows"][0]["published"] == "0.9"
    assert recaudit("verify", out).exit_code == 0
