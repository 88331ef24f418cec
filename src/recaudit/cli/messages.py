"""What a person reads: answers on stdout, everything else on stderr, and an exit code for scripts."""

from __future__ import annotations

import functools
import json
import sys
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec

import typer
from rich.console import Console

from recaudit.errors import DownloadError, RecauditError

P = ParamSpec("P")

UNEXPECTED, BAD_INPUT, NOT_AVAILABLE, INTERRUPTED = 1, 2, 3, 130
"""Exit codes: a fault in recaudit; bad input or configuration; something is not there; Ctrl-C."""

debugging: ContextVar[bool] = ContextVar("recaudit_debugging", default=False)
"""Whether errors come with their traceback (--debug)."""


def answers() -> Console:
    """Where answers go. Texts from data are printed as they are: nothing in them is markup."""
    return Console(markup=False, highlight=False, soft_wrap=True)


def notes() -> Console:
    """Where everything goes that a program reading the answer must not see."""
    return Console(stderr=True, markup=False, highlight=False, soft_wrap=True)


def print_json(document: object) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def command(*, interrupted: str = "Interrupted.") -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Make a function a command: its errors become one clean message and an exit code."""

    def decorate(function: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                function(*args, **kwargs)
            except KeyboardInterrupt:
                notes().print(f"\n{interrupted}")
                raise typer.Exit(INTERRUPTED) from None
            except RecauditError as error:
                _traceback()
                notes().print("Error: ", style="bold red", end="")
                notes().print(str(error))
                raise typer.Exit(NOT_AVAILABLE if isinstance(error, DownloadError) else BAD_INPUT) from None
            except BrokenPipeError:
                # The reader of the pipe has had enough: typer ends the program quietly.
                raise
            except typer.Exit:
                raise
            except Exception as error:
                _traceback()
                notes().print("Unexpected error: ", style="bold red", end="")
                notes().print(f"{type(error).__name__}: {error}".splitlines()[0])
                if not debugging.get():
                    notes().print("See all of it with 'recaudit --debug ...' or RECAUDIT_DEBUG=1.")
                raise typer.Exit(UNEXPECTED) from None

        return guarded

    return decorate


def _traceback() -> None:
    if debugging.get():
        traceback.print_exc(file=sys.stderr)
