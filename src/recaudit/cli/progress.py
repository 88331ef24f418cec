"""Bars with the time left, for work that takes longer than a moment."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

if TYPE_CHECKING:
    from recaudit.engines import Step

PATIENCE = 2.0
"""Seconds before anything is drawn: what is over by then needs no bar."""

PAUSE = 10.0
"""Seconds between two lines about the same work where no bar can be drawn."""


@contextmanager
def shown(console: Console) -> Iterator[None]:
    """Show the progress of what happens inside: bars in a terminal, now and then a line elsewhere."""
    from recaudit.engines import listening

    if not console.is_terminal:
        with listening(Lines(console)):
            yield
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    # Speed is judged over ten minutes: a stage can take longer than the half minute that rich looks back.
    bars = PatientBars(*columns, console=console, transient=True, speed_estimate_period=600)
    with bars, listening(BarKeeper(bars)):
        yield


class PatientBars(Progress):
    """Bars that appear once their work has taken longer than `PATIENCE`, even while nothing is reported."""

    def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
        """The bars that are old enough."""
        return super().make_tasks_table([task for task in tasks if (task.elapsed or 0) >= PATIENCE])


class BarKeeper:
    """Keeps a bar for each work under way."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, step: Step) -> None:
        """Move the bar of this work, or take it away when the work is done."""
        if step.done >= step.total:
            if step.label in self._tasks:
                self._bars.remove_task(self._tasks.pop(step.label))
            return
        if step.label not in self._tasks:
            self._tasks[step.label] = self._bars.add_task(step.label, total=step.total)
        self._bars.update(self._tasks[step.label], completed=step.done, total=step.total)


class Lines:
    """Writes a line about long work at most every `PAUSE` seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._since: dict[str, float] = {}
        self._told: dict[str, float] = {}

    def __call__(self, step: Step) -> None:
        """Write a line if this work has gone without one for long enough."""
        now = time.monotonic()
        if step.done == 0 or step.done >= step.total:
            self._since[step.label] = self._told[step.label] = now
            return
        since = self._since.setdefault(step.label, now)
        if now - self._told.setdefault(step.label, now) < PAUSE:
            return
        self._told[step.label] = now
        left = (now - since) / step.done * (step.total - step.done)
        self._console.print(f"{step.label}: {step.done:,} of {step.total:,}, about {left:,.0f} s left")
