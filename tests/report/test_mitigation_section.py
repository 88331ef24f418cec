"""Mitigation on the page: levers before and after, costs and gains, what is missing and why, and the curves."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from recaudit import report
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.report.evidence import Evidence
from recaudit.report.sections.mitigation import Levers, MitigationSection, price_of
from report.crafted_runs import RULE, Crafted, Data, Model, Number, accuracy, cells, groups, write_run
from report.test_page import Page

MINUS = "\N{MINUS SIGN}"
NO_WEIGHT = "EASE has no weight of unobserved pairs; WALS has one."
BEFORE: Mapping[str, float] = {"ndcg": 0.2, "future_calibration_kl": 1.5, "coverage": 0.3, "list_reach": 0.4}
AFTER: Mapping[str, float] = {"ndcg": 0.18, "future_calibration_kl": 1.0, "coverage": 0.305, "list_reach": 0.5}
CHANGES: Mapping[str, Number] = {
    "ndcg": (-0.02, -0.03, -0.01),
    "future_calibration_kl": (-0.5, -0.6, -0.4),
    "coverage": (0.005, -0.001, 0.011),
    "list_reach": (0.1, 0.05, 0.15),
}

ENDS = ("lower", "upper")


def mitigation(*, users: int = 100) -> Crafted:
    """A result with one lever of two settings."""
    points = {0.0: BEFORE, 0.5: {name: (BEFORE[name] + AFTER[name]) / 2 for name in BEFORE}, 0.9: AFTER}
    series = [
        {"over": "weight", "at": at, "metric": name, **cells(value, baseline=BEFORE[name])}
        for at, numbers in points.items()
        for name, value in numbers.items()
    ]
    changed = [
        {"over": "weight", "at": 0.9, "metric": name, **cells(number, baseline=BEFORE[name], users=users)}
        | ({"status": "bounded"} if name == "list_reach" else {})
        for name, number in CHANGES.items()
    ]
    summary = [{"metric": name, **cells(value)} for name, value in BEFORE.items()]
    summary.append({"metric": "history_future_kl", **cells((0.9, 0.85, 0.95))})
    settings = {
        "k": 10,
        "budget": 40,
        "confidence": 0.95,
        "categories": "genre",
        "before": {"weight": 0.0},
        "picked": {"weight": 0.9},
        "aims": {"weight": "future_calibration_kl"},
        "sampled": {"users": 30, "targets": 20, "editors": 10},
        "left_out": {NO_WEIGHT: ["unobserved_weight"]},
        "not_asked": {"Whole lists.": ["discovery (weight)"]},
        **RULE,
    }
    tables = {
        "summary": pl.DataFrame(summary, SUMMARY_SCHEMA),
        "groups": pl.DataFrame(schema=GROUP_SCHEMA),
        "series": pl.DataFrame(series, SERIES_SCHEMA),
        "changes": pl.DataFrame(changed, SERIES_SCHEMA),
    }
    return Crafted("mitigation", settings, tables)


def evidence(path: Path, found: Crafted) -> Evidence:
    return Evidence(write_run(path, [Model("EASE", [accuracy(), found], "ease")], Data(categories=("genre",))))


def changes_of(path: Path, found: Crafted) -> Mapping[str, Any]:
    content = MitigationSection(evidence(path, found)).content()
    assert content is not None
    return {metric: change for metric, (change,) in content["models"][0]["rows"]}


class TestCostsAndGains:
    def test_the_direction_of_the_metric_tells_them_apart(self, tmp_path: Path) -> None:
        found = changes_of(tmp_path, mitigation())
        assert {name: own.verdict for name, own in found.items()} == {
            "ndcg": "cost",
            "future_calibration_kl": "gain",
            "coverage": "",  # its interval holds 0
            "list_reach": "",  # between lower bounds
        }

    def test_numbers_are_written_as_their_metric_has_them(self, tmp_path: Path) -> None:
        found = changes_of(tmp_path, mitigation())
        assert found["ndcg"][:4] == ("0.200", "0.180", f"{MINUS}0.020", f"[{MINUS}0.030, {MINUS}0.010]")
        assert found["coverage"][:4] == ("30.0%", "30.5%", "+0.5 points", f"[{MINUS}0.1, +1.1]")
        assert found["list_reach"].bounded
        assert not found["ndcg"].bounded

    def test_a_handful_of_people_gives_no_verdict(self, tmp_path: Path) -> None:
        found = changes_of(tmp_path, mitigation(users=9))
        assert {own.verdict for own in found.values()} == {""}
        assert {own.few for own in found.values()} == {"9 users"}

    @pytest.mark.parametrize(("ends", "verdict"), [((-0.03, -0.01), "cost"), ((-0.0395, -0.0005), "")])
    def test_all_changes_are_corrected_together(self, tmp_path: Path, ends: tuple[float, float], verdict: str) -> None:
        """The second interval does not hold 0, but with four changes one such interval is no surprise."""
        crafted = mitigation()
        is_ndcg = pl.col("metric") == "ndcg"
        lower, upper = (
            pl.when(is_ndcg).then(end).otherwise(pl.col(name)) for end, name in zip(ends, ENDS, strict=True)
        )
        changes = crafted.tables["changes"].with_columns(lower.alias("lower"), upper.alias("upper"))
        found = changes_of(tmp_path, Crafted(crafted.kind, crafted.settings, {**crafted.tables, "changes": changes}))
        assert found["ndcg"].verdict == verdict

    def test_what_has_no_direction_is_neither(self, tmp_path: Path) -> None:
        crafted = mitigation()
        row = {"over": "weight", "metric": "popularity_lift"}
        more = [{**row, "at": at, **cells(value, baseline=0.5)} for at, value in ((0.0, 0.5), (0.5, 0.4), (0.9, 0.3))]
        change = [{**row, "at": 0.9, **cells((-0.2, -0.3, -0.1), baseline=0.5)}]
        tables = {
            **crafted.tables,
            "series": pl.concat([crafted.tables["series"], pl.DataFrame(more, SERIES_SCHEMA)]),
            "changes": pl.concat([crafted.tables["changes"], pl.DataFrame(change, SERIES_SCHEMA)]),
        }
        found = changes_of(tmp_path, Crafted("mitigation", crafted.settings, tables))
        assert found["popularity_lift"].verdict == ""
        assert found["popularity_lift"].difference == f"{MINUS}20.0 points"


class TestEverySetting:
    def test_has_a_column_with_the_one_as_it_is_and_the_picked_one_named(self, tmp_path: Path) -> None:
        table = Levers.of(evidence(tmp_path, mitigation()), "EASE").turned("weight").curve
        assert table.columns == ["weight of calibration", "0, as it is", "0.5", "0.9, picked"]
        texts = {row.name: [cell.text for cell in row.cells] for row in table.rows}
        assert texts["nDCG@10"] == ["0.200", "0.190", "0.180"]
        assert not any(cell.before for row in table.rows for cell in row.cells)


class TestWhoPays:
    def test_groups_of_users_have_a_line_each(self, tmp_path: Path) -> None:
        named: Mapping[str, Number] = {"1: 3-9 ratings": (-0.05, -0.06, -0.04), "2: 10-90 ratings": None}
        people = groups("history", "ndcg", named).with_columns(over=pl.lit("weight"), at=pl.lit(0.9))
        crafted = mitigation()
        found = Crafted("mitigation", crafted.settings, {**crafted.tables, "group_changes": people})
        table = Levers.of(evidence(tmp_path, found), "EASE").groups
        assert table is not None
        assert table.columns == ["group", "Calibrated re-ranking"]
        (line,) = table.rows
        assert line.name == "history: 3-9 ratings"
        assert line.cells[0].text == f"{MINUS}0.050"

    def test_without_groups_there_is_no_table(self, tmp_path: Path) -> None:
        assert Levers.of(evidence(tmp_path, mitigation()), "EASE").groups is None


class TestWhatIsMissing:
    def test_says_why(self, tmp_path: Path) -> None:
        own = Levers.of(evidence(tmp_path, mitigation()), "EASE")
        assert own.absent("weight", "discovery").reason == "Whole lists."
        assert own.absent("weight", "gini").reason == "there was nothing to measure"


class TestThePage:
    def test_it_says_what_was_turned_what_is_missing_and_what_it_rests_on(self, tmp_path: Path) -> None:
        run = write_run(tmp_path, [Model("EASE", [accuracy(), mitigation()], "ease")], Data(categories=("genre",)))
        text = " ".join(Page(report.render(run)).text.split())
        assert "weight of calibration 0 → 0.9" in text
        assert f"Weight of unobserved pairs: {NO_WEIGHT}" in text
        assert "The histories themselves are 0.900" in text
        assert "those of 30 users, 20 target items and 10 editors" in text
        assert "between lower bounds" in text
        assert RULE["rule"] in text

    def test_every_metric_of_the_table_is_defined(self, tmp_path: Path) -> None:
        run = write_run(tmp_path, [Model("EASE", [accuracy(), mitigation()], "ease")], Data(categories=("genre",)))
        html = report.render(run)
        section = html[html.index('<section id="mitigation">') :]
        section = section[: section.index("</section>")]
        for metric in set(re.findall(r'popovertarget="about-([a-z_]+)"', section)):
            assert f'id="about-{metric}"' in html

    def test_without_the_audit_there_is_no_section(self, tmp_path: Path) -> None:
        run = write_run(tmp_path, [Model("EASE", [accuracy()], "ease")])
        assert 'id="mitigation"' not in report.render(run)


class TestTheCurves:
    def test_a_point_for_each_setting_the_one_as_it_is_and_the_picked_one_marked(self, tmp_path: Path) -> None:
        figure = price_of(evidence(tmp_path, mitigation()), "weight")
        assert figure is not None
        points = [row for rows in figure.spec["datasets"].values() for row in rows]
        found = {row["setting"]: (row["x"], row["y"], row["before"], row["picked"]) for row in points}
        assert found == {
            "0": (0.2, 1.5, True, False),
            "0.5": (pytest.approx(0.19), 1.25, False, False),
            "0.9": (0.18, 1.0, False, True),
        }
        assert "EASE at 0.9: nDCG@10 0.180" in figure.description
        json.dumps(figure.spec, allow_nan=False)

    def test_a_lever_that_nobody_has_is_not_drawn(self, tmp_path: Path) -> None:
        assert price_of(evidence(tmp_path, mitigation()), "beta") is None
