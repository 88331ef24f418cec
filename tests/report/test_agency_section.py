"""Agency on the page: its numbers, curves, contrasts and the one pair, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recaudit.report.evidence import Evidence
from recaudit.report.findings import gaps
from recaudit.report.page import render
from recaudit.report.sections import agency as charts
from recaudit.report.sections.agency import AgencyCurves, AgencySection
from report.crafted_runs import AGENCY, Model, Moved, Number, accuracy, agency, curve, groups, write_run

TIMES = "\N{MULTIPLICATION SIGN}"
UNSAID = {"nothing says so": ["past_instability", "past_unstable_share", "future_instability", "future_unstable_share"]}
OWN = {name: number for name, number in AGENCY.items() if "stab" not in name}


def evidence_of(path: Path, models: list[Model]) -> Evidence:
    return Evidence(write_run(path, models))


def section_of(path: Path, models: list[Model]) -> dict[str, Any]:
    section = AgencySection(evidence_of(path, models)).content()
    assert section is not None
    return section


class TestTables:
    def test_a_line_for_each_model_that_can_be_asked(self, tmp_path: Path) -> None:
        models = [
            Model("Second", [accuracy(0.1), agency()]),
            Model("First", [accuracy(0.5), agency(OWN, left_out=UNSAID)]),
            Model("Third", [accuracy(0.05)], skipped={"agency": "no response"}),
        ]
        section = section_of(tmp_path, models)
        assert [row.name for row in section["main"].rows] == ["First", "Second"]
        told = [cell.text for cell in section["main"].rows[1].cells]
        assert told == [f"{TIMES}1.50", f"{TIMES}2.50", "0.0200", "0.0300"]
        assert section["skipped"] == ["Third"]
        assert section["own_only"] == ["First"]
        assert section["movers"] == ["Second"]
        assert section["main"].rows[0].cells[2].reason == "nothing says so"

    def test_what_is_left_out_is_a_gap_with_its_reason(self, tmp_path: Path) -> None:
        found = gaps(evidence_of(tmp_path, [Model("A", [accuracy(), agency(OWN, left_out=UNSAID)])]))
        (gap,) = [gap for gap in found if "past_instability" in gap.metrics]
        assert (gap.model, gap.reason) == ("A", "nothing says so")
        assert sorted(gap.metrics) == sorted(UNSAID["nothing says so"])

    def test_there_is_no_section_without_the_audit(self, tmp_path: Path) -> None:
        assert AgencySection(evidence_of(tmp_path, [Model("A", [accuracy()])])).content() is None

    def test_contrasts_are_told_with_their_ratio_or_difference(self, tmp_path: Path) -> None:
        popular: dict[str, Number] = {"popular": 2.0, "intermediate": 1.0, "popular / intermediate": (2.0, 1.8, 2.2)}
        active: dict[str, Number] = {"active": 0.3, "intermediate": 0.1, "active - intermediate": (0.2, 0.1, 0.3)}
        by = [
            groups("popular against intermediate items", "future_lift", popular),
            groups("active against intermediate editors", "past_instability", active),
        ]
        items, editors = section_of(tmp_path, [Model("A", [accuracy(), agency(by=by)])])["contrasts"]
        ((row,), (other,)) = items.rows, editors.rows
        assert row.name == "A, from now on"
        assert [(cell.text, cell.interval) for cell in row.cells][2] == (f"{TIMES}2.00", f"[{TIMES}1.80, {TIMES}2.20]")
        assert other.name == "A, in hindsight"
        assert [cell.text for cell in other.cells] == ["0.3000", "0.1000", "0.2000"]


class TestCurves:
    def test_a_line_for_each_model_with_its_points(self, tmp_path: Path) -> None:
        points = {1.0: (1.1, 1.0, 1.2), 5.0: (1.5, 1.4, 1.6)}
        models = [Model(name, [accuracy(), agency(series=[curve("horizon", "past_lift", points)])]) for name in "AB"]
        figure = charts.curve(evidence_of(tmp_path, models), "horizon", "past_lift")
        assert figure is not None
        assert figure.heading == "Lift in hindsight"
        told = json.dumps(figure.spec, ensure_ascii=False)
        assert told.count(f"{TIMES}1.50 [{TIMES}1.40, {TIMES}1.60]") == 2
        assert f"A {TIMES}1.10 [{TIMES}1.00, {TIMES}1.20] to {TIMES}1.50" in figure.description

    @pytest.mark.parametrize("points", [{}, {5.0: (1.5, 1.4, 1.6)}])
    def test_one_point_is_no_curve(self, tmp_path: Path, points: dict[float, tuple[float, float, float]]) -> None:
        series = [curve("beta", "past_lift", points)]
        evidence = evidence_of(tmp_path, [Model("A", [accuracy(), agency(series=series)])])
        assert charts.curve(evidence, "beta", "past_lift") is None

    @pytest.mark.parametrize(("highest", "kind"), [(3.0, None), (300.0, "log")])
    def test_lifts_far_apart_are_drawn_on_a_logarithmic_axis(
        self, tmp_path: Path, highest: float, kind: str | None
    ) -> None:
        series = [curve("beta", "past_lift", {0.5: 1.0, 6.0: (highest, highest - 0.1, highest + 0.1)})]
        figure = charts.curve(evidence_of(tmp_path, [Model("A", [agency(series=series)])]), "beta", "past_lift")
        assert figure is not None
        scales = [layer["encoding"]["y"]["scale"].get("type") for layer in figure.spec["layer"]]
        assert set(scales) == {kind}


class TestMovedPairs:
    def test_steps_are_added_up_to_bars(self, tmp_path: Path) -> None:
        series = [curve("instability", "past_instability", {0.0: 0.5, 0.003: 0.2, 0.004: 0.2, 0.01: 0.1})]
        found = AgencyCurves.of(evidence_of(tmp_path, [Model("A", [agency(series=series)])]), "A")
        assert found.histogram("past_instability", np.array([0, 0.004, 0.008, 0.012])) == pytest.approx([0.7, 0.2, 0.1])

    def test_the_axis_ends_where_hardly_any_pair_lies_beyond(self, tmp_path: Path) -> None:
        series = [curve("instability", "future_instability", {0.0: 0.9, 0.06: 0.0995, 0.9: 0.0005})]
        figure = charts.instability_histogram(evidence_of(tmp_path, [Model("A", [agency(series=series)])]), "future")
        assert figure is not None
        (layer,) = figure.spec["layer"]
        assert layer["encoding"]["x"]["scale"]["domain"] == pytest.approx([0, 0.075])
        assert "Hellinger" in layer["encoding"]["x"]["title"]

    def test_without_others_there_is_no_chart(self, tmp_path: Path) -> None:
        evidence = evidence_of(tmp_path, [Model("A", [agency(OWN, left_out=UNSAID)])])
        assert charts.instability_histogram(evidence, "past") is None


class TestWorkedPair:
    MOVED = Moved("user-017", "user-003", 0.25, {"a": (2.0, 5.0), "b": (4.0, 1.0)})

    def curves(self, path: Path) -> AgencyCurves:
        models = [Model("A", [agency(worked=[self.MOVED], titles={"a": "Alien"})])]
        return AgencyCurves.of(evidence_of(path, models), "A")

    def test_ratings_by_title_in_fact_and_instead(self, tmp_path: Path) -> None:
        pair = self.curves(tmp_path).worked["past"]
        assert (pair["viewer"], pair["editor"], pair["value"]) == ("user-017", "user-003", 0.25)
        assert pair["ratings"] == (("Alien", 2.0, 5.0), ("b", 4.0, 1.0))

    def test_it_is_told_on_the_page(self, tmp_path: Path) -> None:
        models = [
            Model("Silent", [accuracy(0.5), agency(OWN, left_out=UNSAID)]),
            Model("Told", [accuracy(0.1), agency(worked=[self.MOVED], titles={"a": "Alien"})]),
        ]
        page = render(write_run(tmp_path, models))
        assert "what Told recommends to <strong>user-017</strong> would be 0.250 away" in page
        assert "Alien" in page
        assert 'href="#agency"' in page


def test_settings_leave_out_what_belongs_to_one_model(tmp_path: Path) -> None:
    page = render(write_run(tmp_path, [Model("A", [accuracy(), agency(OWN, left_out=UNSAID)])]))
    assert "Settings of the agency audit:</span> k = 5, policy = softmax(beta=2.0)" in page
    assert "statuses =" not in page
    assert "left_out =" not in page
