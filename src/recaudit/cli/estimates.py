"""What a run will take, as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from recaudit.cli.messages import plain_table
from recaudit.machine import memory_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
        table.add_row(step.model, step.step, time_words(step.seconds), memory_words(step.memory))
        covered, rows = covered + step.seconds, rows + 1
    if others := [step for step in ordered[rows:] if step.seconds is not None]:
        table.add_row(
            f"{len(others)} more", "", time_words(told.seconds - covered), memory_words(max(s.memory for s in others))
        )
    return table


def estimate_lines(told: RunEstimate) -> Iterator[str]:
    """The whole, what is not known, what will have no result, and what could be changed."""
    others = " without what is not known" if told.unknown else ""
    memory = f"{memory_words(told.memory)} beside the log"
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
