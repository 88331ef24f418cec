"""Names from the data are values in charts: nothing that a browser groups by, looks up or computes spells one out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import vl_convert

from recaudit import report
from recaudit.report.kit.charts import THEME
from report.crafted_runs import Model, accuracy, write_run
from report.test_calibration_report import calibration
from report.test_folding_report import folding
from report.test_page import Page, full_run

NAMES = {
    "title": "</script>",
    "genre": "constructor",
    "attribute": "toString",
    "group": 'a.b[0] "quoted" it\'s \\ ]',
    "model": "__proto__",
    "data": "valueOf",
    "user": "\N{GRINNING FACE} \N{HEBREW LETTER ALEF}\N{RIGHT-TO-LEFT OVERRIDE}x",
    "reason": "none",
}
OWN_FIELDS = {"series", "place", "knee", "main", "way", "lists", "right", "side", "note", "weight"}
"""The discrete fields of charts that hold no text from the data."""


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Every chart of a page in which everything has such a name, as Vega draws it."""
    worst = [(NAMES["genre"], 0.05, (0.05, 0.0), (0.01, 0.0)), ("Drama", 0.2, (0.0, 0.3), (0.0, 0.02))]
    other = [accuracy(), *calibration(worst=worst), folding(curve={0.0: (0.9, 0.2), 0.1: (0.95, 0.1)})]
    runs = [
        full_run(tmp_path_factory.mktemp("full"), NAMES),
        write_run(tmp_path_factory.mktemp("other"), [Model(NAMES["model"], other)]),
    ]
    specs = [spec for run in runs for spec in Page(report.render(run)).specs]
    assert len(specs) > 30
    return [vl_convert.vegalite_to_vega({**spec, "config": THEME, "width": 400}) for spec in specs]


def strings(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every text in a specification, keys included, and where it stands."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield (*path, "a key"), key
            yield from strings(part, (*path, key))
    elif isinstance(value, list):
        for part in value:
            yield from strings(part, path)
    elif isinstance(value, str):
        yield path, value


def test_a_name_is_a_value_or_the_end_of_a_scale(charts: list[dict[str, Any]]) -> None:
    names = [name for key, name in NAMES.items() if key != "reason"]
    for chart in charts:
        for path, text in strings(chart):
            if any(name in text for name in names):
                assert path[-1] != "a key", text
                assert "values" in path or path[-1] == "domain", (path, text)


def test_nothing_is_grouped_by_a_name(charts: list[dict[str, Any]]) -> None:
    for chart in charts:
        grouped = {field for path, field in strings(chart) if "groupby" in path}
        assert grouped <= OWN_FIELDS
