"""Bars with the time left, for work that takes longer than a moment."""

from __future__ import annotations

import threading
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

from recaudit.cli.estimates import about, time_words
from recaudit.cli.interruption import work_under_way

if TYPE_CHECKING:
    from recaudit.engines import Step
    from recaudit.engines.progress import Listener

__all__ = ["shown"]
"""What commands of other packages may use; the rest is recaudit's own."""

PATIENCE = 2.0
"""Seconds before anything is drawn: what is over by then needs no bar."""

PAUSE = 10.0
"""Seconds between two lines where no bar can be drawn."""


@contextmanager
def shown(console: Console) -> Iterator[None]:
    """Show the progress of what happens inside: bars in a terminal, lines elsewhere."""
    from recaudit.engines import listening

    if not console.is_terminal:
        lines = Lines(console)
        with lines.ticking(), listening(_noted(lines)):
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
    with bars, listening(_noted(BarKeeper(bars))):
        yield


def _noted(listener: Listener) -> Listener:
    """The same listener; what is under way is also noted for whoever presses Ctrl-C."""

    def listen(step: Step) -> None:
        work_under_way(step)
        listener(step)

    return listen


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
    """Writes a line about all work under way every `PAUSE` seconds, even while nothing is reported."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._under_way: dict[str, tuple[Step, float]] = {}
        self._told = 0.0
        self._one_at_a_time = threading.Lock()

    def __call__(self, step: Step) -> None:
        """Take a report in, and write a line where that is due."""
        with self._one_at_a_time:
            now = time.monotonic()
            if not self._under_way:
                self._told = now
            if step.done >= step.total:
                self._end(step.label)
            else:
                _, since = self._under_way.get(step.label, (step, now))
                self._under_way[step.label] = step, since
        self.tell()

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """Write what is due inside the block, whoever reports or not."""
        stop = threading.Event()

        def tick() -> None:
            while not stop.wait(PAUSE / 10):
                self.tell()

        clock = threading.Thread(target=tick, daemon=True)
        clock.start()
        try:
            yield
        finally:
            stop.set()
            clock.join()

    def tell(self) -> None:
        """Write a line if none was written for long enough."""
        with self._one_at_a_time:
            now = time.monotonic()
            if self._under_way and now - self._told >= PAUSE:
                self._told = now
                self._console.print("; ".join(_told(step, now - since) for step, since in self._under_way.values()))

    def _end(self, label: str) -> None:
        """Work that is done, and what was begun inside it and given up."""
        begun = list(self._under_way)
        for inside in begun[begun.index(label) :] if label in begun else ():
            del self._under_way[inside]


def _told(step: Step, seconds: float) -> str:
    """How far it is, and how long it will take or, where that is not known, has taken."""
    share = f": {step.done:,} of {step.total:,} ({step.done / step.total:.0%})" if step.total > 1 else ""
    if not step.done:
        return f"{step.label}{share}" + (f", for {time_words(seconds)}" if seconds >= 1 else "")
    return f"{step.label}{share}, {about(seconds / step.done * (step.total - step.done))} left"
