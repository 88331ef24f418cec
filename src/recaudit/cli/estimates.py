"""What a run will take, as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from recaudit.cli.messages import plain_table
from recaudit.machine import memory_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from recaudit.runs import RunEstimate
    from recaudit.runs.estimate import StepEstimate

_ROWS, _SHARE = 12, 0.95
"""The longest steps that are shown: at most so many, until they have so much of the whole."""


def estimate_table(told: RunEstimate) -> Table:
    """The longest steps first, and how long the others take together."""
    table = plain_table("Model", "Step", "About", "Memory")
    ordered = sorted(told.steps, key=lambda step: -(step.seconds or 0.0))
    covered, rows = 0.0, 0
    for step in ordered[:_ROWS]:
        if not step.seconds or covered > _SHARE * told.seconds:
            break
        table.add_row(step.model, step.step, time_words(step.seconds), _memory([step]))
        covered, rows = covered + step.seconds, rows + 1
    if others := [step for step in ordered[rows:] if step.seconds is not None]:
        table.add_row(f"{len(others)} more", "", time_words(told.seconds - covered), _memory(others))
    return table


def _memory(steps: Sequence[StepEstimate]) -> str:
    """What the largest of these steps takes, as far as it is known."""
    known = [step.memory for step in steps if step.memory is not None]
    if not known:
        return "unknown"
    return f"{'at least ' if len(known) < len(steps) else ''}{memory_words(max(known))}"


def estimate_lines(told: RunEstimate) -> Iterator[str]:
    """The whole, what is not known, what will have no result, and what could be changed."""
    others = " without what is not known" if told.unknown else ""
    memory = f"{memory_words(told.memory)} beside the log"
    if told.unknown_memory:
        memory = f"at least {memory}: what {', '.join(told.unknown_memory)} needs is not known"
    yield f"In all {about(told.seconds)}{others}, within a factor of two, and {memory}."
    yield from _reasons("Not known", told.unknown)
    yield from _reasons("No result to expect", told.refused)
    yield from told.advice


def _reasons(what: str, steps: Iterable[StepEstimate]) -> Iterator[str]:
    """Steps with the same reason in a line."""
    alike: dict[str, list[str]] = {}
    for step in steps:
        alike.setdefault(step.why.rstrip("."), []).append(f"{step.step} of {step.model}")
    for why, named in alike.items():
        yield f"{what}: {', '.join(named)}: {why}."


def about(seconds: float) -> str:
    """How long, in a sentence."""
    return "less than a second" if seconds < 1 else f"about {time_words(seconds)}"


def time_words(seconds: float) -> str:
    """How long, in a few characters."""
    if seconds < 1:
        return "<1 s"
    if seconds < 90:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{seconds / 3600:.1f} h"
