"""What a person reads: answers on stdout, everything else on stderr, and an exit code for scripts."""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from recaudit.errors import DamagedError, DamageWarning, DownloadError, MachineError, RecauditError
from recaudit.machine import causes, machine_error
from recaudit.terminal import find_controls, visible

__all__ = ["AsJson", "answers", "command", "notes", "plain_table", "print_json"]
"""What commands of other packages may use; the rest is recaudit's own."""

P = ParamSpec("P")

UNEXPECTED, BAD_INPUT, NOT_AVAILABLE, DAMAGED, MACHINE, INTERRUPTED = 1, 2, 3, 4, 5, 130
"""Exit codes: a fault in recaudit; bad input or configuration; something is not there; a run folder is damaged; the
machine lacks memory, room or permission; Ctrl-C."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead, for programs.")]
"""The option of every command that a program may call."""

Parts = Annotated[
    Path | None,
    typer.Option(
        "--parts", metavar="FOLDER", help="Read tables outside of the run folder, if they are below this folder."
    ),
]
"""The option of every command that reads a run."""

OnDevice = Annotated[
    str | None,
    typer.Option(
        "--device", help="What computes: cpu, cuda or cuda:1; overrides the configuration.", show_default=False
    ),
]
"""The option of every command that can use a GPU."""

debugging: ContextVar[bool] = ContextVar("recaudit_debugging", default=False)
"""Whether errors come with their traceback (--debug)."""


class SafeConsole(Console):
    """A console that shows control characters in texts, rather than have the terminal obey them.

    Everything that is printed is rendered here, tables and progress bars included. Texts may come from a stranger.
    """

    def render_str(self, text: str, **settings: Any) -> Text:
        """Make a text of a string, as every string is made one before it is measured and wrapped."""
        return super().render_str(visible(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render anything; the segments that control the terminal are the console's own."""
        if isinstance(renderable, Text):
            renderable = _visible_text(renderable)
        for segment in super().render(renderable, options):
            yield segment if segment.is_control else segment._replace(text=visible(segment.text))


def _visible_text(text: Text) -> Text:
    """The text with its styles, and with control characters replaced before it is wrapped."""
    offsets = [offset for span in find_controls(text.plain) for offset in span]
    if not offsets:
        return text
    made = text.blank_copy()
    for piece in text.divide(offsets):
        piece.plain = visible(piece.plain)
        made.append_text(piece)
    return made


def answers() -> Console:
    """Where answers go. Texts from data are printed as they are: nothing in them is markup."""
    return SafeConsole(markup=False, highlight=False, soft_wrap=True)


def notes() -> Console:
    """Where everything goes that a program reading the answer must not see."""
    return SafeConsole(stderr=True, markup=False, highlight=False, soft_wrap=True)


def plain_table(*headings: str, wide: str = "") -> Table:
    """A table without lines, and without a header where it has no headings; only the column `wide` is wrapped."""
    table = Table(box=None, show_header=bool(headings), pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, no_wrap=heading != wide, overflow="fold" if heading == wide else "ellipsis")
    return table


def print_json(document: object) -> None:
    """One JSON document on stdout; paths are text in it."""
    print_plain(json.dumps(document, indent=2, allow_nan=False, default=os.fspath) + "\n")


def print_plain(text: str) -> None:
    """A text on stdout without any layout; a control character in a string of JSON or TOML stays the same one."""
    typer.echo(visible(text), nl=False)


def command(
    *, interrupted: str = "Interrupted.", errors: int | None = None
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Make a function a command: its errors become one clean message and an exit code, `errors` where it is set."""

    def decorate(function: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                with _warnings_told():
                    function(*args, **kwargs)
            except (BrokenPipeError, typer.Exit):
                raise  # of the first, the reader of the pipe has had enough: typer ends the program quietly
            except BaseException as error:
                # Ctrl-C inside a compiled kernel comes out of numba as a SystemError.
                if any(isinstance(cause, KeyboardInterrupt) for cause in causes(error)):
                    notes().print(f"\n{interrupted}")
                    raise typer.Exit(INTERRUPTED) from None
                if isinstance(error, RecauditError):
                    raise _told(error, errors) from None
                # Polars' panics are no Exceptions; what ends the program on purpose is left to do so.
                if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                    raise
                of_machine = machine_error(error)
                if of_machine is not None:
                    raise _told(of_machine, errors) from None
                _traceback()
                notes().print("Unexpected error: ", style="bold red", end="")
                notes().print(f"{type(error).__name__}: {error}".splitlines()[0])
                if not debugging.get():
                    notes().print("See all of it with 'recaudit --debug ...' or RECAUDIT_DEBUG=1.")
                raise typer.Exit(errors or UNEXPECTED) from None

        return guarded

    return decorate


def _told(error: RecauditError, code: int | None) -> typer.Exit:
    _traceback()
    notes().print("Error: ", style="bold red", end="")
    notes().print(str(error))
    codes = {DownloadError: NOT_AVAILABLE, DamagedError: DAMAGED, MachineError: MACHINE}
    own = next((own for kind, own in codes.items() if isinstance(error, kind)), BAD_INPUT)
    return typer.Exit(code or own)


@contextmanager
def _warnings_told() -> Iterator[None]:
    """Warnings as a person reads them, each once, and the damage that was mended always."""

    def tell(message: Warning | str, *_: object, **__: object) -> None:
        notes().print("Warning: ", style="bold yellow", end="")
        notes().print(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", DamageWarning)
        warnings.showwarning = tell
        yield


def _traceback() -> None:
    if debugging.get():
        sys.stderr.write(visible(traceback.format_exc()))
