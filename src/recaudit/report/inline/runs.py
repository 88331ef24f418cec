"""Two runs side by side, and what a gate decided, in a notebook."""

from __future__ import annotations

from recaudit.report.differences import SHOWN, Difference, ranked
from recaudit.report.gate import HEADINGS, LEGEND, cells, counted, meaning, ordered, remarks
from recaudit.report.inline.card import Card, CardTable
from recaudit.report.reading import ComparisonReading
from recaudit.runs.comparison import VERDICTS, RunComparison
from recaudit.runs.gate import Decision

_MOST_GROUPS = 8
"""Of the groups that differ, those that are shown."""
_WORDS = ("model", "for", "verdict", "rule")


def shown_comparison(comparison: RunComparison) -> str:
    """Whether the second is worse and for whom, the numbers about everybody, and the groups that differ most."""
    reading = ComparisonReading(comparison)
    several = len(comparison.models) > 1
    order = sorted(reading.overall, key=lambda own: VERDICTS.index(own.verdict))
    everybody = [_row(own, several=several) for own in order]
    apart = [own for verdict in SHOWN for own in ranked(reading.groups, verdict)]
    groups = [_row(own, several=several) for own in apart[:_MOST_GROUPS]]
    interval = f"{comparison.confidence:.0%} interval"
    numbers = ("before → after", "difference", interval, "p", "people")
    headings = ("", "model", "for", *numbers, "verdict")
    corrected = "" if comparison.correction == "none" else ", corrected for the number of questions"
    return Card(
        title="Comparison",
        question=reading.what,
        verdict=reading.verdict,
        tables=[
            CardTable(headings, everybody, "About everybody", _WORDS),
            CardTable(headings, groups, "Groups that differ, those worse off first", _WORDS),
        ],
        notes=[f"Paired by person; p{corrected}.", *reading.notes],
    ).html


def _row(own: Difference, *, several: bool) -> tuple[str, ...]:
    told = own.model if several else ""
    numbers = (own.way, own.text, own.interval, own.p, f"{own.users:,}")
    return own.label, told, own.who, *numbers, f"{own.sign} {own.verdict}"


def shown_decision(decision: Decision) -> str:
    """Whether a run may pass, every question with its answer, and what could not be decided."""
    beside = "" if decision.baseline is None else f" beside {decision.baseline.path.name}"
    return Card(
        title=f"Gate: {decision.outcome}",
        question=meaning(decision),
        asked=f"{decision.run.path.name}{beside}. {counted(decision)}",
        tables=[CardTable(HEADINGS, [cells(answer) for answer in ordered(decision)], words=_WORDS)],
        notes=[*remarks(decision), LEGEND],
    ).html
