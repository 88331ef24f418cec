"""An audit without a section of its own has one all the same, and a registered section finds its place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from recaudit import report
from recaudit.metrics.tables import GROUP_SCHEMA, SUMMARY_SCHEMA
from recaudit.registry import AUDITS, SECTIONS
from recaudit.report.evidence import Evidence
from recaudit.report.sections.section import GenericSection, Section, sections_of
from report.crafted_runs import Crafted, Model, accuracy, cells, groups, write_run
from report.test_page import Page

AUDIT = "instability"


def plain(*, status: str = "", by: tuple[pl.DataFrame, ...] = ()) -> Crafted:
    """A result of an audit that no section shows: each of its metrics, the first failed where a status is given."""
    names = [metric.name for metric in AUDITS[AUDIT].metrics]
    rows = [{"metric": name, **cells((0.4, 0.3, 0.5))} for name in names]
    if status:
        rows[0] |= {"value": None, "lower": None, "upper": None, "status": status}
    summary = pl.DataFrame(rows, SUMMARY_SCHEMA)
    return Crafted(AUDIT, {"confidence": 0.95}, {"summary": summary, "groups": pl.concat([_NO_GROUPS, *by])})


_NO_GROUPS = pl.DataFrame(schema=GROUP_SCHEMA)


@pytest.fixture
def names() -> list[str]:
    return [metric.name for metric in AUDITS[AUDIT].metrics]


def section(html: str) -> str:
    found = re.search(rf'<section id="audit-{AUDIT}">.*?</section>', html, re.S)
    assert found is not None
    return " ".join(found[0].split())


def test_it_says_what_is_asked_and_has_every_metric_with_its_interval(tmp_path: Path, names: list[str]) -> None:
    html = report.render(write_run(tmp_path, [Model("A", [accuracy(), plain()])]))
    text, about = section(html), AUDITS[AUDIT].__doc__
    assert about is not None
    assert about.splitlines()[0] in Page(html).text
    for name in names:
        assert f'popovertarget="about-{name}"' in text
        assert f'id="about-{name}"' in html
    assert text.count('<td class="number" data-value=') == len(names)
    assert f'<a href="#audit-{AUDIT}">Instability</a>' in html
    assert Page(html).dead_ends == []


def test_alone_it_says_that_nothing_was_looked_for(tmp_path: Path) -> None:
    run = write_run(tmp_path / "alone", [Model("A", [plain()])])
    for text in (Page(report.render(run)).text, report.render_statement(run)):
        assert "No findings are looked for among the numbers of these audits" in text
        assert "No finding stands" not in text
        assert "stands out from chance" not in text
    beside = write_run(tmp_path / "beside", [Model("A", [accuracy(), plain()])])
    assert report.verdict(run).code == "verdict.nothing-tested"
    assert report.verdict(beside).code == "verdict.nothing-shown"


def test_groups_are_tables_and_charts(tmp_path: Path, names: list[str]) -> None:
    by = groups("mood", names[0], {"calm": (0.1, 0.05, 0.15), "wild": (0.6, 0.5, 0.7)})
    html = report.render(write_run(tmp_path, [Model("A", [accuracy(), plain(by=(by,))])]))
    assert "by mood: all numbers" in section(html)
    assert "By mood" in section(html)


def test_what_failed_is_counted(tmp_path: Path, names: list[str]) -> None:
    html = report.render(write_run(tmp_path, [Model("A", [accuracy(), plain(status="failed")])]))
    assert f"{len(names) - 1} solved" in section(html)
    assert "1 failed" in section(html)


def test_models_that_cannot_be_asked_are_named(tmp_path: Path) -> None:
    models = [Model("A", [accuracy(), plain()]), Model("B", [accuracy()], skipped={AUDIT: "no response"})]
    assert "B cannot be asked" in section(report.render(write_run(tmp_path, models)))


def test_registered_sections_come_in_their_order_and_others_after_them(tmp_path: Path) -> None:
    found = sections_of(Evidence(write_run(tmp_path, [Model("A", [plain(), accuracy()])])))
    assert [own.anchor for own in found[:4]] == ["accuracy", "people", "shown", "items"]
    assert isinstance(found[-1], GenericSection)
    assert [type(own) for own in found].count(GenericSection) == 1


@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_names_audits_that_there_are(name: str) -> None:
    own: Any = SECTIONS[name]
    assert issubclass(own, Section)
    assert set(own.audits) <= set(AUDITS)
    assert own.anchor
    assert own.title
