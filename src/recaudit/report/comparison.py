"""The page of a comparison: is the second worse, for whom, and what changed between the two."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from recaudit import atomic
from recaudit.errors import InputError
from recaudit.metrics.inference import MIN_CHANGED_USERS, MIN_USERS
from recaudit.report.differences import SHOWN, Difference, counted, ranked
from recaudit.report.kit.comparisons import MOST_ROWS
from recaudit.report.kit.document import rendered
from recaudit.report.reading import ComparisonReading
from recaudit.runs import Run
from recaudit.runs.comparison import RunComparison
from recaudit.version import __version__

CORRECTIONS = {
    "holm": "Holm's correction: the chance that any difference at all is named that is none stays below {level:g}%, in "
    "each family, however the questions hang together.",
    "benjamini-hochberg": "the correction of Benjamini and Hochberg: of the differences that are named in a family, no "
    "more than {level:g}% are expected to be none.",
    "none": "no correction: of the questions in which there is no difference, {level:g}% are named all the same.",
}
"""What a correction for many questions promises, in words."""


class GroupedDifferences(NamedTuple):
    """The differences of one pair of models in the groups of one grouping."""

    model: str
    by: str
    counts: str
    shown: list[Difference]
    """Those larger than chance, the largest first."""
    rows: list[Difference]
    """All of them."""


def write_comparison(comparison: RunComparison, path: Path) -> Path:
    """Write the page, whole or not at all, and say where it is; never into a run folder."""
    return write_page(path, render_comparison(comparison), (comparison.before, comparison.after))


def write_page(path: Path, page: str, runs: Iterable[Run]) -> Path:
    """Write a page about runs: beside them, since a run folder holds only what it lists."""
    inside = next((run.path for run in runs if path.resolve().is_relative_to(run.path.resolve())), None)
    if inside is not None or path.is_dir():
        received = f"{path}, a folder" if inside is None else f"{path}, inside the run folder {inside}"
        raise InputError("out", received=received, expected="a file outside of the runs", remedy="Choose another name.")
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, page.encode())
    return path


def render_comparison(comparison: RunComparison) -> str:
    """The page as text."""
    reading = ComparisonReading(comparison)
    models = {model: [own for own in reading.overall if own.model == model] for model in comparison.models}
    groupings = sorted(_groupings(reading), key=lambda own: not own.shown)
    sections = {
        "overall": "Everybody",
        "groups": "For whom" if groupings else "",
        "lists": "Lists" if reading.lists else "",
        "changes": "What changed",
        "methods": "Definitions",
        "gaps": "Not compared",
    }
    return rendered(
        "comparison.html.j2",
        reading=reading,
        evidence=reading.evidence,
        comparison=comparison,
        names=reading.names,
        contents={anchor: title for anchor, title in sections.items() if title},
        models={model: (counted(rows), rows) for model, rows in models.items() if rows},
        groupings=groupings,
        defined=list(
            {own.metric: (own.metric.name, own.label, "", own.metric) for own in reading.differences}.values()
        ),
        fewest_users=MIN_USERS,
        most_rows=MOST_ROWS,
        min_users=MIN_USERS,
        min_changed_users=MIN_CHANGED_USERS,
        correction=CORRECTIONS[comparison.correction].format(level=100 * (1 - comparison.confidence)),
        version=__version__,
    )


def _groupings(reading: ComparisonReading) -> Iterable[GroupedDifferences]:
    found: dict[tuple[str, str], list[Difference]] = {}
    for own in reading.groups:
        found.setdefault((own.model, own.by), []).append(own)
    for (model, by), rows in found.items():
        yield GroupedDifferences(model, by, counted(rows), ranked(rows, *SHOWN), rows)
