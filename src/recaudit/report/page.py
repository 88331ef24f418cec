"""The page: one HTML file that needs nothing else, put together from a run's tables."""

from __future__ import annotations

import shlex
from pathlib import Path

from recaudit.folders import REPORT, keep
from recaudit.metrics.inference import MIN_USERS
from recaudit.report.evidence import Evidence
from recaudit.report.findings import gaps, headlines_of, left_out_lines
from recaudit.report.kit.claims import Headline
from recaudit.report.kit.comparisons import model_colors
from recaudit.report.kit.document import rendered
from recaudit.report.methods import method_lines, missing_lines
from recaudit.report.sections.section import sections_of
from recaudit.report.verdict import RunVerdict, verdict_of
from recaudit.runs import Run

EXPLORER = "explore.html"
"""The page of `recaudit explore`, where a run's folder has one."""


def headlines(run: Run) -> list[Headline]:
    """Up to five numbers of the main model, each with a sentence that says what it means."""
    return headlines_of(Evidence(run))


def verdict(run: Run) -> RunVerdict:
    """What was audited and on whom, all findings, those that matter most first, and what to be wary of."""
    return verdict_of(Evidence(run))


def write(run: Run) -> Path:
    """Write the page into the run's folder, whole or not at all, and say where it is."""
    return keep(run.path, REPORT, render(run).encode())


def render(run: Run) -> str:
    """The page as text."""
    evidence = Evidence(run)
    found = {section: content for section in sections_of(evidence) if (content := section.content()) is not None}
    contents = {section.anchor: section.title for section in found}
    contents |= {"methods": "Definitions", "gaps": "Gaps", "run": "This run"}
    shown = {metric for _, _, metric in evidence.summaries} | set(evidence.grouped["metric"])
    shown |= {metric for content in found.values() for metric in content.get("metrics", ())}
    first, told = headlines_of(evidence), verdict_of(evidence)
    shown |= {headline.metric for headline in first}
    more = {title: [own for own in told.others if own.section == anchor] for anchor, title in contents.items()}
    return rendered(
        "page.html.j2",
        version=run.manifest.recaudit,
        evidence=evidence,
        manifest=run.manifest,
        headlines=first,
        missing=missing_lines(run),
        explorer=EXPLORER if EXPLORER in run.folder.manifest.files else None,
        folder=shlex.quote(run.path.resolve().name),
        contents=contents,
        verdict=told,
        min_users=MIN_USERS,
        more={title: own for title, own in more.items() if own},
        sections=[(section.template, {**content, "notes": section.notes()}) for section, content in found.items()],
        colors=model_colors(evidence),
        methods=[*method_lines(evidence), *(own["methods"] for own in found.values() if "methods" in own)],
        gaps=gaps(evidence),
        left_out=left_out_lines(evidence),
        defined=[(name, evidence.label(name), "", own) for name, own in evidence.definitions.items() if name in shown],
    )
