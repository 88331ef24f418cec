"""Commands of other packages, and what is said of one that is not installed."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from recaudit.cli.other_packages import add_commands
from recaudit.registry import COMMANDS


def greet(name: Annotated[str, typer.Argument()] = "nobody") -> None:
    """Say hello."""
    typer.echo(f"hello {name}")


def application(monkeypatch: pytest.MonkeyPatch, *names: str) -> typer.Typer:
    """An application with a command of its own, in an installation that has these commands of other packages."""
    points = {name: EntryPoint(name, f"{__name__}:greet", "recaudit.commands") for name in names}
    monkeypatch.setitem(COMMANDS.__dict__, "_points", points)
    app = typer.Typer()
    app.command("audit")(lambda: typer.echo("own"))
    add_commands(app)
    return app


def test_a_command_of_another_package_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(application(monkeypatch, "greet"), ["greet", "ada"])
    assert (result.exit_code, result.stdout) == (0, "hello ada\n")


def test_no_package_replaces_a_command_of_recaudit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(application(monkeypatch, "audit"), ["audit"]).stdout == "own\n"


@pytest.mark.parametrize("arguments", [[], ["reachability", "--size", "paper"], ["--list", "--json"], ["--help"]])
def test_a_command_that_is_not_installed_names_its_package(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    result = CliRunner().invoke(application(monkeypatch), ["study", *arguments])
    assert result.exit_code == 3
    assert "pip install recaudit-papers" in result.stderr


def test_an_installed_command_has_no_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(application(monkeypatch, "study"), ["study", "ada"]).stdout == "hello ada\n"
