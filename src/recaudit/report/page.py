"""The page: one HTML file that needs nothing else, put together from a run's tables."""

from __future__ import annotations

import shlex
from pathlib import Path

from markupsafe import Markup

from recaudit.folders import REPORT, keep
from recaudit.report.evidence import Evidence
from recaudit.report.findings import findings_of, gaps, left_out_lines
from recaudit.report.headlines import Headline, headlines_of
from recaudit.report.kit.charts import series_color
from recaudit.report.kit.document import part, rendered
from recaudit.report.kit.numbers import FEWEST_USERS, listing
from recaudit.report.sections.exposure import SMALLEST_SHARE
from recaudit.report.sections.section import sections_of
from recaudit.runs import Run

FIRST_FINDINGS = 5
"""How many findings stand on top; the others are folded away by section."""


def headlines(run: Run) -> list[Headline]:
    """The five numbers that matter most, each with a sentence that says what it means."""
    return headlines_of(Evidence(run))


def write(run: Run) -> Path:
    """Write the page into the run's folder, whole or not at all, and say where it is."""
    return keep(run.path, REPORT, render(run).encode())


def render(run: Run) -> str:
    """The page as text."""
    evidence = Evidence(run)
    colors = {model: series_color(place) for place, model in enumerate(evidence.models)}
    shown = {metric for _, _, metric in evidence.summaries} | set(evidence.grouped["metric"])
    contents: dict[str, str] = {}
    sections: list[Markup] = []
    methods: list[str] = []
    for section in sections_of(evidence):
        content = section.content()
        if content is not None:
            contents[section.anchor] = section.title
            sections.append(part(section.template, evidence=evidence, section=content, colors=colors))
            methods += [content["methods"]] if "methods" in content else []
            shown |= set(content.get("metrics", ()))
    contents |= {"methods": "Definitions", "gaps": "Gaps", "run": "This run"}
    first, findings = headlines_of(evidence), findings_of(evidence)
    shown |= {headline.metric for headline in first}
    later = findings[FIRST_FINDINGS:]
    more = {title: [own for own in later if own.section == anchor] for anchor, title in contents.items()}
    return rendered(
        "page.html.j2",
        version=run.manifest.recaudit,
        evidence=evidence,
        manifest=run.manifest,
        headlines=first,
        missing=_missing(run),
        folder=shlex.quote(run.path.resolve().name),
        contents=contents,
        findings=findings[:FIRST_FINDINGS],
        more={title: own for title, own in more.items() if own},
        fewest_users=FEWEST_USERS,
        sections=sections,
        methods=methods,
        gaps=gaps(evidence),
        left_out=left_out_lines(evidence),
        defined=[(name, evidence.label(name), "", own) for name, own in evidence.definitions.items() if name in shown],
        smallest_share=SMALLEST_SHARE,
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
