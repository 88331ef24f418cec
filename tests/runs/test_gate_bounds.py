"""Bounds for a number as the run has it: by its value, by its interval, and by a lower bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import recaudit as ra
from recaudit.runs import Run
from recaudit.status import Status
from runs.crafted_pairs import gate_of, measured, write_pair
from runs.test_gate import REGIONS, USERS, gate, noise, reason


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A mean nDCG of 0.5, with a standard error of 0.007."""
    values = noise("bounds")
    values = 0.5 + 0.1 * (values - values.mean()) / values.std()
    return write_pair(tmp_path_factory.mktemp("run"), *[measured({"ndcg": values}, {"region": REGIONS})] * 2)[1]


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ({"at_least": 0.4}, "passed"),
        ({"at_least": 0.5}, "passed"),
        ({"at_least": 0.501}, "failed"),
        ({"at_most": 0.6}, "passed"),
        ({"at_most": 0.5}, "passed"),
        ({"at_most": 0.499}, "failed"),
    ],
)
def test_without_a_confidence_the_value_itself_is_held_against_them(
    run: Run, rule: dict[str, float], outcome: str
) -> None:
    decision = ra.check(run, gate(**rule))
    [answer] = decision.answers
    assert answer.outcome == outcome
    assert f"{outcome}; of 1 question 1 {outcome}>" in repr(decision)
    assert answer.adjusted is None


@pytest.mark.parametrize("confidence", [0.95, "gate"])
def test_with_one_they_are_broken_where_the_one_sided_limit_lies_beyond(run: Run, confidence: float | str) -> None:
    [row] = run.table("ALS", "accuracy", "summary").to_dicts()
    error = (row["upper"] - row["lower"]) / (2 * stats.norm.ppf(0.975))
    limit = row["value"] + stats.t.ppf(0.95, USERS - 1) * error
    for bound, outcome in ((limit - 1e-4, "passed"), (limit + 1e-4, "failed")):
        assert ra.check(run, gate(at_least=bound, confidence=confidence)).outcome == outcome
        assert ra.check(run, gate(at_most=2 * row["value"] - bound, confidence=confidence)).outcome == outcome


def test_of_groups_are_a_question_each(run: Run) -> None:
    decision = ra.check(run, gate(by="region", at_least=0.1))
    assert [answer.question.group for answer in decision.answers] == ["north", "south"]
    assert [answer.question.users for answer in decision.answers] == [100, 100]
    assert [a.question.group for a in ra.check(run, gate(by="region", group="south", at_least=0)).answers] == ["south"]


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ({"at_least": 0.3}, "passed"),
        ({"at_least": 0.5}, "undecided"),
        ({"at_most": 0.3}, "failed"),
        ({"at_most": 0.5}, "undecided"),
        ({"at_least": 0.5, "bounds": "accept"}, "failed"),
        ({"at_most": 0.5, "bounds": "accept"}, "passed"),
    ],
)
def test_a_lower_bound_decides_one_way_only(tmp_path: Path, rule: dict[str, Any], outcome: str) -> None:
    bounded = measured({"ndcg": np.full(USERS, 0.4)}, status=Status.BOUNDED)
    _, run = write_pair(tmp_path, bounded, bounded)
    assert ra.check(run, gate(**rule)).outcome == outcome


@pytest.mark.parametrize("rule", [{"at_least": 3}, {"at_least": 5}, {"at_most": 3}, {"at_most": 5}])
def test_an_effort_that_was_not_proved_least_decides_nothing(tmp_path: Path, rule: dict[str, Any]) -> None:
    bounded = measured({"effort": np.full(USERS, 4.0)}, kind="recourse", status=Status.BOUNDED)
    _, run = write_pair(tmp_path, bounded, bounded)
    assert "not proved to be the least" in reason(ra.check(run, gate_of({"metric": "effort", **rule})))
    assert ra.check(run, gate_of({"metric": "effort", "bounds": "accept", **rule})).outcome != "undecided"


def test_a_number_without_an_interval_cannot_be_judged_with_confidence(tmp_path: Path) -> None:
    one = measured({"ndcg": [0.4]})
    _, run = write_pair(tmp_path, one, one)
    assert "no interval" in reason(ra.check(run, gate(at_least=0.5, confidence=0.9, people=1)))
