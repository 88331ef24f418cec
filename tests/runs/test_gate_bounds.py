"""Bounds for a number as the run has it: by its value, by its interval, and by a lower bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recaudit as ra
from recaudit.metrics.inference import compute_exceedance_p_value
from recaudit.registry import AUDITS
from recaudit.runs import Run
from recaudit.status import Status
from runs.crafted_pairs import gate_of, measured, write_pair
from runs.test_gate import REGIONS, USERS, gate, noise, reason


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A mean nDCG of 0.5, with a standard error of 0.007."""
    values = noise("bounds").clip(-3, 3)
    values = 0.5 + 0.1 * (values - values.mean()) / values.std()
    return write_pair(tmp_path_factory.mktemp("run"), *[measured({"ndcg": values}, {"region": REGIONS})] * 2)[1]


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ({"at_least": 0.4}, "passed"),
        ({"at_least": 0.5}, "undecided"),
        ({"at_least": 0.501}, "undecided"),
        ({"at_least": 0.6}, "failed"),
        ({"at_most": 0.6}, "passed"),
        ({"at_most": 0.5}, "undecided"),
        ({"at_most": 0.499}, "undecided"),
        ({"at_most": 0.4}, "failed"),
    ],
)
def test_a_threshold_passes_or_fails_if_it_is_shown(run: Run, rule: dict[str, float], outcome: str) -> None:
    decision = ra.check(run, gate(**rule))
    [answer] = decision.answers
    assert answer.outcome == outcome
    assert f"{outcome}; of 1 question 1 {outcome}>" in repr(decision)
    assert answer.code == ("not_shown" if outcome == "undecided" else "")


def test_the_test_of_a_threshold_is_that_of_the_mean(run: Run) -> None:
    values = run.table("ALS", "accuracy", "users")["ndcg"].to_numpy()
    bounds = next(metric.bounds for metric in AUDITS["accuracy"].metrics if metric.name == "ndcg")
    for threshold in (0.48, 0.49, 0.51):
        [answer] = ra.check(run, gate(at_least=threshold)).answers
        assert answer.question.test is not None
        assert answer.question.test.p_pass == pytest.approx(compute_exceedance_p_value(values, threshold, bounds))


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


@pytest.mark.parametrize("n", [1, 9, 10])
def test_too_few_users_decide_nothing(tmp_path: Path, n: int) -> None:
    few = measured({"ndcg": np.full(n, 0.1)})
    _, run = write_pair(tmp_path, few, few)
    [answer] = ra.check(run, gate(at_least=0.9, people=1)).answers
    assert (answer.outcome, answer.code) == (("undecided", "too_few_users") if n < 10 else ("failed", ""))
