"""What recourse found, on the page: for goals about items and about lists, proved or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

import recaudit as ra
from recaudit.interventions import NextK, Stars
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.models.base import FittedModel
from recaudit.report.evidence import Evidence
from recaudit.report.findings import cautions_of, findings_of
from recaudit.report.history import HistoryReading
from recaudit.report.kit.measures import measure
from recaudit.report.page import render
from recaudit.report.sections.recourse import RecourseFound, RecourseSection, goal_words, proof_words
from recaudit.report.statement import render_statement
from report.crafted_runs import RULE, Crafted, Model, accuracy, cells, with_users, write_run

SETTINGS: dict[str, Any] = {
    "actions": {"kind": "history-edits", "k": 5},
    "goal": {"kind": "top", "n": 10},
    "effort": {"kind": "changes"},
    "confidence": 0.95,
    **RULE,
}


@pytest.fixture(scope="module")
def model() -> FittedModel:
    return ra.models.ALS(factors=8).fit(ra.datasets.load("demo"))


def content_of(path: Path, model: FittedModel, **asked: Any) -> tuple[Evidence, dict[str, Any]]:
    asked = {"users": 12, "items": 4, "refits": 0, "actions": NextK(3, ratings=Stars(1, 5)), **asked}
    found = ra.recourse(model, **asked)
    evidence = Evidence(write_run(path, [Model("ALS", [accuracy(), cast("Crafted", found)])]))
    content = RecourseSection(evidence).content()
    assert content is not None
    return evidence, content


def crafted(values: dict[str, float | None], statuses: dict[str, str], by: list[pl.DataFrame] | None = None) -> Crafted:
    """A user for each value, and a summary that says little."""
    pairs = pl.DataFrame(
        {"user": list(values), "item": ["a"] * len(values), "value": list(values.values())}
    ).with_columns(status=pl.Series([statuses.get(user, "solved") for user in values]))
    rows = [
        {"metric": "within_reach", **cells((0.4, 0.3, 0.5), baseline=0.1)},
        {"metric": "effort", **cells((3, 2, 4))},
    ]
    return Crafted(
        "recourse",
        SETTINGS,
        {
            "pairs": pairs,
            "summary": pl.DataFrame(rows, SUMMARY_SCHEMA),
            "groups": pl.concat([pl.DataFrame(schema=GROUP_SCHEMA), *(by or [])]),
            "series": pl.DataFrame(schema=SERIES_SCHEMA),
        },
    )


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ({"kind": "top", "n": 10}, "Heat among the first 10"),
        ({"kind": "out", "n": 5}, "Heat out of the first 5"),
        ({"kind": "likely", "p": 0.05, "beta": 2.0}, "Heat shown with a chance of 0.05 or more"),
        ({"kind": "share", "category": "Drama", "at_least": 0.3, "n": 10}, "at least 30.0% of the first 10"),
        ({"kind": "share", "category": "Drama", "at_most": 0.3, "n": 10}, "at most 30.0% of the first 10"),
        ({"kind": "calibrated", "c": 0.5, "n": 20}, "a list of 20 within 0.5 nats"),
    ],
)
def test_every_goal_has_words(goal: dict[str, Any], words: str) -> None:
    assert words in goal_words(goal, "Heat")


def test_a_proof_is_put_into_words() -> None:
    def words(value: float, kind: str = "changes", status: str = "solved") -> str:
        return proof_words({"value": value, "lower": 1.0, "status": status}, kind)

    assert words(1) == ""
    assert words(2) == "no single change does it"
    assert words(4) == "no 3 changes do it"
    assert words(2.5, "total") == "nothing smaller does it"
    assert "was not decided" in words(3, status="bounded")


def test_the_page_tells_one_example_by_title(tmp_path: Path, model: FittedModel) -> None:
    evidence, content = content_of(tmp_path, model)
    example = content["detail"]["example"]
    assert example["wanted"].endswith("among the first 10")
    assert example["takes"].startswith(str(len(example["edits"])))
    page = render(evidence.run)
    for title, _, _ in example["edits"]:
        assert title in page
    assert "What it takes: one example" in page
    assert content["curve"] is not None
    assert sum(RecourseFound.of(evidence, "ALS").stands.values()) == pytest.approx(1.0)


def test_goals_about_lists_have_people_and_no_items(tmp_path: Path, model: FittedModel) -> None:
    evidence, content = content_of(tmp_path, model, goal=ra.CalibratedWithin(0.6), effort=ra.TotalChange())
    assert not content["about_items"]
    assert content["detail"]["users"].rows
    assert not content["detail"]["hardest"].rows
    assert "Items within the fewest" not in render(evidence.run)


def test_shares_count_what_is_there_found_open_and_impossible(tmp_path: Path) -> None:
    values = {"a": 0.0, "b": 2.0, "c": 3.0, "d": None, "e": None}
    statuses = {"c": "bounded", "d": "bounded", "e": "impossible"}
    evidence = Evidence(write_run(tmp_path, [Model("A", [accuracy(), crafted(values, statuses)])]))
    stands = RecourseFound.of(evidence, "A").stands
    assert stands == {"there already": 0.2, "within reach": 0.4, "open": 0.2, "impossible": 0.2}
    [caution] = [own for own in cautions_of(evidence) if own.section == "recourse"]
    assert "A: 2 of 5" in caution.detail


def test_those_who_must_do_more_are_a_finding(tmp_path: Path) -> None:
    effort = [middle + 0.1 * (place % 5) for middle in (2.0, 5.0) for place in range(20)]
    members = {"history": ["1-9 ratings"] * 20 + ["10-99 ratings"] * 20}
    result = crafted(dict.fromkeys(map(str, range(10)), 1.0) | {"b": None}, {"b": "impossible"}, [])
    run = write_run(tmp_path, [Model("A", [accuracy(), with_users(result, "effort", effort, members)])])
    found = {own.code: own for own in findings_of(Evidence(run)) if own.section == "recourse"}
    more = next(own for own in found["recourse.group-differs"].numbers if own.group == "10-99 ratings")
    assert more.metric == "effort"
    assert more.value == pytest.approx(5.2)
    assert more.reference == pytest.approx(2.2)


def test_promises_that_refits_kept_or_not_are_checked_ones(tmp_path: Path) -> None:
    result = crafted({"a": 1.0}, {})
    checked = Crafted(result.kind, {**result.settings, "fidelity": {"pairs": 3, "kept": 0}}, result.tables)
    evidence = Evidence(write_run(tmp_path, [Model("A", [accuracy(), checked])]))
    assert "fidelity.not-checked" not in [own.code for own in cautions_of(evidence)]


def test_a_bounded_effort_may_be_less_and_a_bounded_share_more(tmp_path: Path) -> None:
    rows = [
        {"metric": "within_reach", **cells((0.4, 0.3, 0.5), baseline=0.1), "status": "bounded"},
        {"metric": "effort", **cells((3, 2, 4)), "status": "bounded"},
    ]
    found = crafted({"u": 3.0}, {"u": "bounded"})
    found = replace(found, tables={**found.tables, "summary": pl.DataFrame(rows, SUMMARY_SCHEMA)})
    run, later = (write_run(tmp_path / name, [Model("ALS", [accuracy(), found])]) for name in ("run", "later"))
    labels = [own.label for name in ("within_reach", "effort") if (own := measure(Evidence(run), "ALS", name))]
    assert labels == ["Within reach of ALS, a lower bound", "Effort of ALS, less may do"]
    stated = [line for line in render_statement(run).splitlines() if " | bounded" in line]
    assert [line.split(" | ")[5] for line in stated] == ["bounded", "bounded: less may do"]
    told = HistoryReading(ra.history([run, later])).notes
    assert "Lower bounds in some run, above which the truth may lie: Within reach." in told
    assert "Not proved to be the least in some run, so that less may do: Effort." in told
