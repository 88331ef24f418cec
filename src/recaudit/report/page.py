"""The page: one HTML file that needs nothing else, put together from a run's tables."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from recaudit import atomic
from recaudit.audits.metrics import METRICS
from recaudit.report import charts
from recaudit.report.agency_section import agency_section
from recaudit.report.calibration_section import calibration_section
from recaudit.report.catalogue import ENOUGH_RATINGS
from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.findings import findings_of
from recaudit.report.findings.exposure import SMALLEST_SHARE
from recaudit.report.folding_section import folding_section
from recaudit.report.headlines import Headline, headlines_of
from recaudit.report.numbers import chance, count, duration, listing, percent, plural, times
from recaudit.report.reach_section import reach_section
from recaudit.report.sections import sections_of
from recaudit.report.tables import gaps, left_out_lines
from recaudit.runs import Run


def headlines(run: Run) -> list[Headline]:
    """The five numbers that matter most, each with a sentence that says what it means."""
    return headlines_of(Evidence.of(run))


def write(run: Run) -> Path:
    """Write the page into the run's folder, whole or not at all, and say where it is."""
    atomic.write(run.report, render(run).encode())
    return run.report


def render(run: Run) -> str:
    """The page as text."""
    evidence = Evidence.of(run)
    sections = sections_of(evidence)
    first = headlines_of(evidence)
    calibration = calibration_section(evidence)
    shown = {*evidence.audit_of, *(headline.metric for headline in first), *(["share"] if sections.shares else [])}
    shown |= set(calibration.metrics if calibration else [])
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
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
            theme=charts.THEME,
            style=Markup(_part("style.css")),
            script=Markup(_script()),
            content_policy=_content_policy(_script()),
        )
    )


def script_json(value: object) -> Markup:
    """JSON that may stand inside a script element: no text in it can end the element or open a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _content_policy(script: str) -> str:
    """What the browser may do: run this very script and no other, and load nothing from anywhere."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("recaudit.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "chance": chance,
        "count": count,
        "percent": percent,
        "plural": plural,
        "listing": listing,
        "duration": duration,
        "times": times,
        "moment": _moment,
        "settings": _settings,
        "split": _split,
        "unbroken": _unbroken,
        "script_json": script_json,
        "pretty_json": lambda value: json.dumps(value, indent=2, ensure_ascii=False, default=str),
    }
    return environment


@cache
def _script() -> str:
    """Vega, Vega-Lite and Vega-Embed, from the package that carries them, with the lines that draw the charts."""
    return str(vl_convert.javascript_bundle(_part("charts.js")))


def _part(name: str) -> str:
    return (resources.files("recaudit.report") / "templates" / name).read_text(encoding="utf-8")


def _moment(iso: str) -> str:
    """A moment as a person reads it: 5 March 2025, 14:02 UTC."""
    moment = datetime.fromisoformat(iso)
    return f"{moment.day} {moment:%B %Y, %H:%M} {moment.tzname() or ''}".rstrip()


def _split(config: Mapping[str, Any]) -> str:
    """How ratings were held out, from a configuration as it was written."""
    kind, *settings = {"kind": "random", **config.get("split", {})}.items()
    return ", ".join([str(kind[1]).replace("-", " "), *(f"{name} {value}" for name, value in settings)])


def _unbroken(text: str) -> str:
    """The text with intervals that stay on one line."""
    return re.sub(r"\[[^\[\]]*\]", lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


def _settings(settings: Mapping[str, Any]) -> str:
    """Settings in a line; those that are not set are left out, in a part such as `NextK(k=10, ratings=None)` too.

    Tables among them, such as how many pairs of one model were solved, are no settings of the audit.
    """
    told = {
        name: re.sub(r", \w+=None", "", _listed(value))
        for name, value in settings.items()
        if value is not None and not isinstance(value, Mapping)
    }
    return ", ".join(f"{name} = {value}" for name, value in told.items()) or "none"


def _listed(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
