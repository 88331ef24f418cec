from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner, Result

from recaudit.audits.recipe import catalog
from recaudit.cli.recipes import audits

app = typer.Typer()
app.command("audits")(audits)


def run(*arguments: str, columns: int = 120) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})


def test_every_audit_has_a_line_that_fits_into_a_hundred_columns() -> None:
    result = run()
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert not any("\x1b" in line for line in lines)
    for entry in catalog():
        (line,) = [line for line in lines if line.startswith(f"  {entry.name}  ")]
        assert str(entry.sources[0]) in line
        assert line.endswith(entry.call.partition("(")[0])


def test_audits_stand_under_what_is_changed_with_their_rung() -> None:
    lines = run().stdout.splitlines()
    heading = lines.index("Changed: another user's last 5 ratings (counterfactual)")
    assert lines[heading + 1].split()[:2] == ["past-5", "instability"]


def test_lines_are_the_same_in_a_narrow_pipe() -> None:
    assert run(columns=40).stdout == run(columns=200).stdout


def test_one_paper() -> None:
    text = run("--paper", "001").stdout
    assert "past-5 instability" in text
    assert "folding" not in text


def test_one_audit_in_words_with_its_whole_call() -> None:
    text = " ".join(run("Past-5 Instability").stdout.split())
    assert "The largest Hellinger distance by which a user's recommendations move" in text
    assert "ra.instability(model, data, edits=Past(5))" in text
    assert "A Unified Causal Framework" in text
    assert "ra.simulate.run" in run("online performance").stdout


def test_json_is_one_document() -> None:
    document = json.loads(run("--json").stdout)
    assert [one["name"] for one in document] == [entry.name for entry in catalog()]
    first = document[0]
    assert first["rung"] == "interventional"
    assert first["sources"] == [{"paper": "000", "where": "Eq. 1"}]
    assert [one["name"] for one in first["aggregations"]][:2] == ["discovery", "availability"]
    assert len(json.loads(run("lift", "--json").stdout)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["foldin"], "Did you mean 'folding'"), (["--paper", "7"], "paper: received 7")],
)
def test_what_is_not_there_is_bad_input(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_help_waits_for_nothing_heavy() -> None:
    heavy = ["torch", "numpy", "polars", "numba", "scipy", "pydantic"]
    code = f"import sys, recaudit.cli.recipes; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
