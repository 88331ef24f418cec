"""What a gate has decided, as people and programs read it."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import recaudit as ra
from recaudit.report import gate
from recaudit.runs import Run
from report.crafted_runs import Model
from runs.crafted_pairs import gate_of, measured, write_pair

HOSTILE = "A|B `x` <img src=x onerror=alert(1)> [a](javascript:1) **b** @all #1 & \\ :tada:"
MINUS = "\N{MINUS SIGN}"
USERS = 40


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """nDCG falls by 0.3 for all users; rmse rises by a little, and may do so by chance."""
    spread = np.linspace(-0.1, 0.1, USERS)
    groups = {"region": ["n\x00orth" if place % 2 else HOSTILE for place in range(USERS)]}
    before = {"ndcg": 0.5 + spread, "rmse": 1 + spread}
    after = {"ndcg": 0.2 + spread, "rmse": 1.002 + spread[::-1]}
    return write_pair(
        tmp_path_factory.mktemp("gate"),
        [Model(HOSTILE, [measured(before, groups)])],
        [Model(HOSTILE, [measured(after, groups)])],
        attributes=["region"],
    )


@pytest.fixture(scope="module")
def decision(pair: tuple[Run, Run]) -> ra.Decision:
    rules = gate_of(
        {"metric": "rmse", "not_worse_by": 0},
        {"metric": "ndcg", "by": "region", "not_worse_by": "5%", "people": 10},
        {"metric": "ndcg", "at_least": 0.05, "people": 50},
        {"metric": "ndcg", "at_least": 0.05},
    )
    return ra.check(pair[1], rules, pair[0])


def rows(decision: ra.Decision) -> list[dict[str, str]]:
    return [dict(zip(gate.HEADINGS, gate.cells(answer), strict=True)) for answer in gate.ordered(decision)]


class TestTable:
    def test_what_is_broken_comes_first(self, decision: ra.Decision) -> None:
        outcomes = [row["verdict"].split()[0] for row in rows(decision)]
        assert outcomes == ["failed", "failed", "undecided", "undecided", "passed"]

    def test_a_verdict_without_a_bound_says_so(self, decision: ra.Decision) -> None:
        for answer in decision.answers:
            test = answer.question.test
            has_note = gate.NO_BOUND in gate.cells(answer)[0]
            assert has_note == (answer.outcome != "undecided" and test is not None and not test.has_bound)

    def test_changes_are_those_of_the_number_itself(self, decision: ra.Decision) -> None:
        fallen, risen = rows(decision)[0], rows(decision)[2]
        assert fallen["change"] == f"{MINUS}0.3"
        assert float(fallen["allowed"].replace(MINUS, "-")) == pytest.approx(-0.025, abs=0.002)
        assert (risen["change"], risen["allowed"]) == ("+0.002", "0")
        assert float(risen["detectable"]) > 0.002
        assert fallen["users"] == "20"

    def test_a_bound_is_beside_its_number(self, decision: ra.Decision) -> None:
        assert [rows(decision)[4][name] for name in ("number", "change", "allowed")] == ["0.2", "", "at least 0.05"]

    def test_remarks_say_why_nothing_was_decided(self, decision: ra.Decision) -> None:
        remarks = gate.remarks(decision)
        assert any("it has 40 users, and the rule asks for 50" in line for line in remarks)
        assert any("rmse" in line for line in remarks)

    def test_sentences(self, decision: ra.Decision) -> None:
        weak, broken, _, few, kept = (gate.told(answer) for answer in decision.answers)
        assert weak.startswith("Not decided: ")
        assert "1 → 1.002" in weak
        assert re.search(r"decided in 80% of samples at a distance of \d", weak)
        assert f"a change of {MINUS}0.3" in broken
        assert few == "Not decided: it has 40 users, and the rule asks for 50."
        assert kept.startswith("0.2, where at least 0.05 is required (p = ")

    def test_the_whole_is_said_in_a_line(self, decision: ra.Decision) -> None:
        assert gate.counted(decision) == "5 questions: 2 failed, 2 undecided, 1 passed."
        assert decision.outcome == "failed"


class TestMarkdown:
    def test_what_is_broken_is_shown_and_the_rest_folded_away(self, decision: ra.Decision) -> None:
        first, _, rest = gate.markdown(decision).partition("<details>")
        assert first.startswith("### recaudit check: failed\n")
        assert len(re.findall(r"^\| failed", first, flags=re.MULTILINE)) == 2
        assert not re.findall(r"^\| passed", first, flags=re.MULTILINE)
        assert len(re.findall(r"^\| (?:failed|undecided|passed)", rest, flags=re.MULTILINE)) == 5

    def test_names_stay_text(self, decision: ra.Decision) -> None:
        text = gate.markdown(decision)
        for mark in ("<img", "`x`", "[a]", "**b**", "@all", ":tada:", "\x00"):
            assert mark not in text
        for line in text.splitlines():
            if line.startswith("|"):
                assert line.count("|") == len(gate.HEADINGS) + 1


class TestJUnit:
    def test_it_has_a_case_for_each_question(self, decision: ra.Decision) -> None:
        root = ElementTree.fromstring(gate.junit(decision))
        [suite] = root
        assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["5", "2", "2"]
        cases = suite.findall("testcase")
        assert [[child.tag for child in case] for case in cases] == [
            ["error"],
            ["failure"],
            ["failure"],
            ["error"],
            ["system-out"],
        ]
        assert all(case.get("classname") == f"{HOSTILE}.accuracy" for case in cases)
        assert HOSTILE in "".join(str(case.get("name")) for case in cases)
        assert len({case.get("name") for case in cases}) == 5

    def test_a_failure_has_its_sentence(self, decision: ra.Decision) -> None:
        [failure, _] = ElementTree.fromstring(gate.junit(decision)).iter("failure")
        assert failure.get("message") == gate.told(decision.answers[1])


def test_a_program_gets_the_numbers(decision: ra.Decision, pair: tuple[Run, Run]) -> None:
    document = gate.document(decision)
    assert (document["outcome"], document["run"]) == ("failed", str(pair[1].path))
    assert document["baseline"] == str(pair[0].path)
    broken = document["answers"][1]
    assert (broken["rule"], broken["metric"], broken["outcome"]) == (2, "ndcg", "failed")
    assert broken["change"] == pytest.approx(0.3)
    assert broken["told"] == gate.told(decision.answers[1])


def test_without_anything_broken_there_is_one_table(pair: tuple[Run, Run]) -> None:
    text = gate.markdown(ra.check(pair[1], gate_of({"metric": "ndcg", "at_least": 0})))
    assert text.startswith("### recaudit check: passed\n")
    assert text.count("| verdict |") == 1
