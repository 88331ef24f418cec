"""The page: one HTML file that needs nothing else, put together from a run's tables."""

from __future__ import annotations

from pathlib import Path

from recaudit.audits.metrics import METRICS
from recaudit.folders import REPORT, keep
from recaudit.report import charts
from recaudit.report.agency_section import agency_section
from recaudit.report.calibration_section import calibration_section
from recaudit.report.catalogue import ENOUGH_RATINGS
from recaudit.report.document import rendered
from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.findings import findings_of
from recaudit.report.findings.exposure import SMALLEST_SHARE
from recaudit.report.folding_section import folding_section
from recaudit.report.headlines import Headline, headlines_of
from recaudit.report.reach_section import reach_section
from recaudit.report.sections import sections_of
from recaudit.report.tables import gaps, left_out_lines
from recaudit.runs import Run


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
    calibration = calibration_section(evidence)
    shown = {*evidence.audit_of, *(headline.metric for headline in first), *(["share"] if sections.shares else [])}
    shown |= set(calibration.metrics if calibration else [])
    return rendered(
        "page.html.j2",
        evidence=evidence,
        manifest=run.manifest,
        headlines=first,
        findings=findings_of(evidence),
        sections=sections,
        reach=reach_section(evidence),
        agency=agency_section(evidence),
        folding=folding_section(evidence),
        calibration=calibration,
        gaps=gaps(evidence),
        left_out=left_out_lines(evidence),
        metrics=[metric for name, metric in METRICS.items() if name in shown],
        quality=QUALITY,
        most_categories=charts.MOST_CATEGORIES,
        smallest_share=SMALLEST_SHARE,
        smallest_tail=charts.SMALLEST_TAIL,
        enough_ratings=ENOUGH_RATINGS,
        series=[charts.series_color(place) for place in range(len(evidence.models))],
    )
