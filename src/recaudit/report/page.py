"""The page: one HTML file that needs nothing else, put together from a run's tables."""

from __future__ import annotations

import shlex
from pathlib import Path

from recaudit.audits.audit import definitions
from recaudit.folders import REPORT, keep
from recaudit.report import charts
from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.findings import findings_of
from recaudit.report.findings.exposure import SMALLEST_SHARE
from recaudit.report.headlines import Headline, headlines_of
from recaudit.report.kit.document import rendered
from recaudit.report.kit.numbers import FEWEST_USERS, listing
from recaudit.report.kit.tables import gaps, left_out_lines
from recaudit.report.sections.agency_section import agency_section
from recaudit.report.sections.calibration_section import calibration_section
from recaudit.report.sections.catalogue import ENOUGH_RATINGS
from recaudit.report.sections.folding_section import folding_section
from recaudit.report.sections.lists import sections_of
from recaudit.report.sections.reach_section import reach_section
from recaudit.runs import Run

FIRST_FINDINGS = 5
"""How many findings stand on top; the others are folded away by section."""

_TITLES = {
    "accuracy": "Accuracy",
    "people": "People",
    "shown": "What is shown",
    "items": "Items",
    "reach": "Reach",
    "agency": "Agency",
    "folding": "Folding",
    "calibration": "Calibration",
    "methods": "Definitions",
    "gaps": "Gaps",
    "run": "This run",
}
"""What the sections are called in the list of contents, in their order."""


def headlines(run: Run) -> list[Headline]:
    """The five numbers that matter most, each with a sentence that says what it means."""
    return headlines_of(Evidence.of(run))


def write(run: Run) -> Path:
    """Write the page into the run's folder, whole or not at all, and say where it is."""
    return keep(run.path, REPORT, render(run).encode())


def render(run: Run) -> str:
    """The page as text."""
    evidence = Evidence.of(run)
    sections = sections_of(evidence)
    first = headlines_of(evidence)
    findings = findings_of(evidence)
    calibration = calibration_section(evidence)
    parts = {
        "accuracy": sections.accuracy,
        "people": sections.people,
        "shown": sections.exposure,
        "items": sections.items,
        "reach": reach_section(evidence),
        "agency": agency_section(evidence),
        "folding": folding_section(evidence),
        "calibration": calibration,
    }
    contents = {name: title for name, title in _TITLES.items() if parts.get(name, True)}
    shown = {*evidence.audit_of, *(headline.metric for headline in first), *(["share"] if sections.shares else [])}
    shown |= set(calibration.metrics if calibration else [])
    return rendered(
        "page.html.j2",
        evidence=evidence,
        manifest=run.manifest,
        headlines=first,
        missing=_missing(run),
        folder=shlex.quote(run.path.resolve().name),
        contents=contents,
        findings=findings[:FIRST_FINDINGS],
        more={
            title: own
            for name, title in contents.items()
            if (own := [finding for finding in findings[FIRST_FINDINGS:] if finding.section == name])
        },
        fewest_users=FEWEST_USERS,
        sections=sections,
        reach=parts["reach"],
        agency=parts["agency"],
        folding=parts["folding"],
        calibration=calibration,
        gaps=gaps(evidence),
        left_out=left_out_lines(evidence),
        metrics=[metric for name, metric in definitions().items() if name in shown],
        quality=QUALITY,
        most_categories=charts.MOST_CATEGORIES,
        smallest_share=SMALLEST_SHARE,
        smallest_tail=charts.SMALLEST_TAIL,
        enough_ratings=ENOUGH_RATINGS,
        series=[charts.series_color(place) for place in range(len(evidence.models))],
    )


def _missing(run: Run) -> list[str]:
    """What an unfinished run has not come to, audits of the same models together: `accuracy of ALS and EASE`."""
    models: dict[str, list[str]] = {}
    for model, audit in run.missing:
        models.setdefault(audit, []).append(model)
    audits: dict[str, list[str]] = {}
    for audit, names in models.items():
        audits.setdefault(listing(names), []).append(audit)
    return [f"{listing(same)} of {names}" for names, same in audits.items()]
