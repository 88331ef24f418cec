"""Progress in a notebook: one line that says how far long work is, and is gone when the cell has run."""

from __future__ import annotations

import os
import sys
import threading
import time
from html import escape
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from recaudit.engines.progress import Step

PATIENCE = 2.0
"""Seconds before anything is drawn: what is over by then needs no line."""
PAUSE = 0.5
"""Seconds between two drawings."""
_OWNER = os.getpid()


def notebook_line() -> NotebookLine | None:
    """The line of the cell that is being run; None outside a notebook, and in what a notebook started elsewhere.

    Whoever runs a notebook has IPython: it is looked up, never imported.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    here = threading.current_thread() is threading.main_thread() and os.getpid() == _OWNER
    if not here or shell is None or not hasattr(shell, "kernel"):
        return None
    global _line  # noqa: PLW0603  a notebook runs one cell at a time
    if _line is None:
        _line = NotebookLine(shell)
    return _line


_line: NotebookLine | None = None


@final
class NotebookLine:
    """Draws work that takes long, and takes the drawing away when the cell has run, however it ended."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._since: dict[str, float] = {}
        self._steps: dict[str, Step] = {}
        self._handle: Any = None
        self._drawn = 0.0
        shell.events.register("post_run_cell", self._end)

    def __call__(self, step: Step) -> None:
        """Take a report in, and draw where that is due."""
        now = time.monotonic()
        if step.done >= step.total:
            self._since.pop(step.label, None)
            self._steps.pop(step.label, None)
        else:
            self._since.setdefault(step.label, now)
            self._steps[step.label] = step
        if now - self._drawn >= PAUSE:
            self._draw(now)

    def _draw(self, now: float) -> None:
        told = " · ".join(
            self._told(step, now - self._since[label])
            for label, step in self._steps.items()
            if now - self._since[label] >= PATIENCE
        )
        if told or self._handle is not None:
            self._show(told)
            self._drawn = now

    @staticmethod
    def _told(step: Step, seconds: float) -> str:
        left = f", about {seconds / step.done * (step.total - step.done):,.0f} s left" if step.done else ""
        return f"{step.label}: {step.done:,} of {step.total:,}{left}"

    def _show(self, text: str) -> None:
        html = f"<small>{escape(text)}</small>" if text else ""
        bundle = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = sys.modules["IPython.display"].display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def _end(self, *_: object) -> None:
        """After the cell: nothing is left, of work that was given up neither."""
        global _line  # noqa: PLW0603  the next cell has a line of its own
        if self._handle is not None:
            self._show("")
        self._shell.events.unregister("post_run_cell", self._end)
        _line = None
