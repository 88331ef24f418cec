"""Texts of a stranger cannot control the terminal in which they are shown."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

from explore.explored import ALS, explored
from folders.forged import forge
from recaudit.cli import app, messages
from recaudit.cli.messages import SafeConsole, plain_table
from recaudit.cli.progress import Lines, shown
from recaudit.engines import listening, working
from recaudit.errors import DamagedError
from recaudit.registry import Displayed
from recaudit.runs import Run
from recaudit.terminal import visible

CLEAR, CLIPBOARD, BELL, C1, DELETE = "\x1b[2J", "\x1b]52;c;aGk=\x07", "\a", "\x9b2J", "\x7f"
REVERSED, ISOLATED, MARK, ARABIC = "\u202e", "\u2066", "\u200e", "\u061c"
HOSTILE = f"a{CLEAR}{CLIPBOARD}{BELL}\r{C1}{DELETE}{REVERSED}{ISOLATED}{MARK}{ARABIC}\u2028\ud800z"


def controls(text: str) -> set[str]:
    """Characters in it that a terminal would obey."""
    c0 = set(map(chr, range(32))) - set("\n\t")
    directions = map(chr, (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))
    return set(text) & {*c0, *map(chr, range(0x7F, 0xA0)), *directions}


@contextmanager
def terminal(width: int = 200) -> Iterator[tuple[SafeConsole, io.StringIO]]:
    """A console of a terminal without colours, and what reaches it."""
    file = io.StringIO()
    yield SafeConsole(file=file, force_terminal=True, color_system=None, width=width, markup=False), file


def test_every_control_is_replaced_by_what_json_and_toml_write_for_it() -> None:
    shown_text = visible(HOSTILE)
    assert not controls(shown_text)
    assert json.loads(f'"{shown_text}"') == HOSTILE
    assert visible("é 日本 \n\t 👍🏽") == "é 日本 \n\t 👍🏽"
    for code in (*range(32), *range(0x7F, 0xA0)):
        assert (visible(chr(code)) == chr(code)) == (chr(code) in "\n\t")


@pytest.mark.parametrize("width", [200, 12])
def test_every_way_of_printing(width: int) -> None:
    with terminal(width) as (console, file):
        console.print(HOSTILE)
        console.print(Text(HOSTILE))
        console.print(Text.assemble((HOSTILE, "bold"), HOSTILE), soft_wrap=False)
        table = plain_table(HOSTILE, "b", wide="b")
        table.add_row(HOSTILE, Text(HOSTILE))
        console.print(table, soft_wrap=False)
    assert not controls(file.getvalue())
    assert file.getvalue().replace(" ", "").replace("\n", "").count("202e") >= (7 if width == 200 else 4)


def test_styles_and_bars_still_control_the_terminal() -> None:
    file = io.StringIO()
    console = SafeConsole(file=file, force_terminal=True, color_system="standard", width=80)
    console.print("Error: ", style="bold red", end="")
    assert file.getvalue() == "\x1b[1;31mError: \x1b[0m"


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recaudit.cli.progress.PATIENCE", 0.0)
    monkeypatch.setattr("recaudit.cli.progress.PAUSE", 0.0)
    with terminal() as (console, file), shown(console), working(f"reading {HOSTILE}"):
        pass
    assert f"reading a{visible(CLEAR)}" in file.getvalue()
    assert CLEAR not in file.getvalue()
    assert REVERSED not in file.getvalue()
    with terminal() as (console, file):
        lines = Lines(console)
        with listening(lines), working(HOSTILE):
            lines.tell()
    assert file.getvalue()
    assert not controls(file.getvalue())


def test_errors_warnings_and_tracebacks(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    @messages.command()
    def warns() -> None:
        warnings.warn(HOSTILE, stacklevel=1)
        raise ValueError(HOSTILE)

    @messages.command()
    def refuses() -> None:
        raise DamagedError("path", received=HOSTILE, expected="nothing")

    for function in (warns, refuses):
        for debug in (False, True):
            token = messages.debugging.set(debug)
            with pytest.raises(typer.Exit):
                function()
            messages.debugging.reset(token)
    found = capfd.readouterr()
    assert "u202e" in found.err
    assert not controls(found.out + found.err)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return explored(tmp_path, models=ALS, more="[audits.exposure]\n")


def test_no_command_lets_a_folder_control_the_terminal(made: Run) -> None:
    def change(content: object) -> None:
        record = content["record"]  # type: ignore[index]
        record["data"]["name"] = HOSTILE.replace("\ud800", "")
        record["machine"] = CLEAR
        record["config"]["split"] = {"kind": HOSTILE.replace("\ud800", "")}
        record["skipped"] = [{"model": "ALS", "audit": "reachability", "reason": HOSTILE.replace("\ud800", "")}]

    forge(made.path, change)
    (made.path / f"report{CLEAR}{REVERSED}\nwhole").touch()
    Path("gate.toml").write_text('[[rule]]\nmetric = "ndcg"\nat_least = 0.0\n')
    for command in (
        ["verify", "run"],
        ["verify", "run", "--json"],
        ["report", "run"],
        ["compare", "run", "run", "--models", "ALS", "Random"],
        ["check", "run", "--suggest"],
        ["check", "run", "--rules", "gate.toml"],
        ["explore", "run"],
        ["verify", f"no{CLEAR}where"],
    ):
        result = CliRunner().invoke(app, command)
        assert result.output
        assert not controls(result.output), command
    listed = CliRunner().invoke(app, ["verify", "run"]).output
    assert "unknown  report\\u001b[2J\\u202e\\u000awhole" in listed.splitlines()


def test_what_python_shows_of_a_run(made: Run) -> None:
    class Shown(Displayed):
        def summary(self) -> str:
            return HOSTILE

        __repr__ = summary

    assert not controls(Shown().summary() + repr(Shown()))

    def change(content: object) -> None:
        record = content["record"]  # type: ignore[index]
        for step in record["steps"]:
            step["settings"] |= {"rule": HOSTILE.replace("\ud800", ""), "warning": CLEAR, "note": CLEAR}

    forge(made.path, change)
    run = Run.open(made.path)
    for audit in run.audits("ALS"):
        result = run.result("ALS", audit)
        assert not controls(result.summary() + repr(result) + repr(run))
