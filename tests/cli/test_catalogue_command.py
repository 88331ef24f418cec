from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner, Result

from recaudit.audits.catalogue import PAPERS, catalog
from recaudit.cli.catalogue import audits
from recaudit.registry import AUDITS

app = typer.Typer()
app.command("audits")(audits)


def run(*arguments: str, columns: int = 160) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})


def test_every_audit_has_its_question_and_rung() -> None:
    text = " ".join(run().stdout.split())
    for name, audit in AUDITS.items():
        assert name in text
        assert " ".join((audit.__doc__ or "").partition("\n")[0].split()) in text
    assert "counterfactual" in text
    rungs = {one["name"]: one["rung"] for one in json.loads(run("--json").stdout)}
    assert all(rungs.values())
    assert (rungs["recourse"], rungs["mitigation"]) == ("interventional", "interventional")
    assert rungs["composed"] == "follows from its recipe"
    assert "\x1b" not in text


@pytest.mark.parametrize("name", list(AUDITS))
def test_one_audit_with_its_settings_and_definitions(name: str) -> None:
    text = " ".join(run(name).stdout.split())
    for setting, about in AUDITS[name].model_fields.items():
        assert setting in text
        assert " ".join(about.description.split()) in text
    for metric in AUDITS[name].metrics:
        assert " ".join(metric.definition.split()) in text


def test_what_the_papers_ask() -> None:
    text = run("--papers").stdout
    for entry in catalog():
        assert entry.name in text
        assert entry.where in text
    assert all(title[:40] in text for title in PAPERS.values())
    assert "Sharma, Gupta, Akpinar, Lipton, Leqi 2024" in text
    assert "Instability(edits=Past(5))" in text


def test_json_is_one_document() -> None:
    document = json.loads(run("--json").stdout)
    assert [one["name"] for one in document] == list(AUDITS)
    [reachability] = [one for one in document if one["name"] == "reachability"]
    assert reachability["rung"] == "interventional"
    assert {"name": "slate", "default": 1} in [
        {key: one[key] for key in ("name", "default")} for one in reachability["settings"]
    ]
    [composed] = [one for one in document if one["name"] == "composed"]
    required = [own["name"] for own in composed["settings"] if own["default"] == "required"]
    assert required == ["intervention", "outcome", "functional"]
    papers = json.loads(run("--papers", "--json").stdout)
    assert papers[0]["audit"]["kind"] == "reachability"


def test_what_is_not_there_is_bad_input() -> None:
    result = run("foldin")
    assert result.exit_code == 2
    assert "Did you mean 'folding'" in result.stderr


def test_help_waits_for_nothing_heavy() -> None:
    heavy = ["torch", "numpy", "polars", "numba", "scipy", "pydantic"]
    code = f"import sys, recaudit.cli.catalogue; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
