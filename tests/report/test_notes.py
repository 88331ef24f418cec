"""What a section says its numbers rest on."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from recaudit.audits.result import fidelity_words
from recaudit.report.evidence import Evidence
from recaudit.report.findings import cautions_of, findings_of, headlines_of
from recaudit.report.kit.notes import notes
from recaudit.report.page import render
from report.crafted_runs import Crafted, Model, Pair, accuracy, agency, reachability, write_run

PAIRS = [Pair("u", "a", 0.1, 0.3, climbs=1, ratings={"b": 5.0}), Pair("u", "b", 0.9, 0.95)]
RULE = "How ALS takes in ratings: the user's vector is solved anew; items are held."
KEPT = "Checked by 3 refits: 93% of the promised gain came."


def evidence_of(path: Path, **results: Sequence[Crafted]) -> Evidence:
    return Evidence(write_run(path, [Model(name, own) for name, own in results.items()]))


def told(evidence: Evidence, audit: str) -> list[str]:
    return [note.text for note in notes(evidence, audit)]


def section(evidence: Evidence, anchor: str) -> str:
    """The text of a section on the page."""
    found = re.search(f'<section id="{anchor}".*?</section>', render(evidence.run), re.DOTALL)
    assert found
    return html.unescape(re.sub(r"<[^>]*>", "", found[0]))


@pytest.mark.parametrize(
    ("fidelity", "sentence"),
    [
        ({"pairs": 3, "realised_share": 0.93, "median_error": 0.02}, KEPT),
        (
            {"pairs": 1, "realised_share": 1.0, "median_error": 0.0},
            "Checked by 1 refit: 100% of the promised gain came.",
        ),
        (
            {"pairs": 2, "realised_share": None, "median_error": 0.5},
            "Checked by 2 refits: half of the numbers are within a factor of 1.65.",
        ),
        ({"pairs": 0, "realised_share": None, "median_error": None}, "Not checked: no refit gave an answer."),
        ({"not_measured": "the model was made elsewhere."}, "Not checked: the model was made elsewhere."),
    ],
)
def test_how_a_rule_was_checked(fidelity: dict[str, Any], sentence: str) -> None:
    assert fidelity_words(fidelity) == sentence


SWING = {"least": 0.01, "median": 0.4, "most": 1.0}
STEADY = {"least": 0.8, "median": 0.9, "most": 1.0}
LITTLE = {"least": 0.0, "median": 0.03, "most": 1.0}


@pytest.mark.parametrize(
    ("fidelity", "doubt"),
    [
        ({"pairs": 3, "shares": SWING}, "3 refits are few, and gave from 1% to 100% of the promised gain"),
        ({"pairs": 30, "shares": SWING}, ""),
        ({"pairs": 3, "shares": STEADY}, ""),
        ({"pairs": 30, "shares": LITTLE}, "the median of 30 refits gave 3% of the promised gain, the best 100%"),
        ({"pairs": 3, "realised_share": 0.04}, "3 refits gave 4% of the promised gain"),  # of an earlier version
        ({"pairs": 3, "kept": 1}, "1 of 3 refits brought about what the rule promised"),
        ({"pairs": 2, "kept": 1}, ""),
        ({"not_measured": "no refits were asked for"}, ""),
    ],
)
def test_refits_that_cast_doubt_on_a_rule_are_a_caution(tmp_path: Path, fidelity: dict[str, Any], doubt: str) -> None:
    known = {} if "not_measured" in fidelity else {"realised_share": 0.5, "median_error": 0.5}
    crafted = reachability(PAIRS, facts={"fidelity": known | fidelity})
    cautions = cautions_of(evidence_of(tmp_path, ALS=[accuracy(), crafted]))
    found = [own for own in cautions if own.claim == "Refits cast doubt on the reachability of ALS"]
    assert [(own.detail.partition(".")[0], own.section) for own in found] == (
        [(f"ALS: {doubt}", "reach")] if doubt else []
    )


@pytest.mark.parametrize(("audit", "anchor"), [("reachability", "reach"), ("agency", "agency")])
def test_the_rule_stands_beside_the_numbers_and_in_every_finding_about_them(
    tmp_path: Path, audit: str, anchor: str
) -> None:
    result = reachability(PAIRS) if audit == "reachability" else agency()
    evidence = evidence_of(tmp_path, ALS=[accuracy(), result])
    assert told(evidence, audit) == [f"{RULE} {KEPT}"]
    assert f"{RULE} {KEPT}" in section(evidence, anchor)
    findings = [finding for finding in findings_of(evidence) if finding.section == anchor]
    assert findings
    assert all(finding.detail.endswith(f"{RULE} {KEPT}") for finding in findings)


def test_an_audit_without_a_section_of_its_own_has_its_rule_too(tmp_path: Path) -> None:
    crafted = reachability(PAIRS, facts={"fidelity": {"not_measured": "no refits were asked for"}})
    numbers = crafted.tables["summary"].with_columns(
        metric=crafted.tables["summary"]["metric"].replace("lift", "instability")
    )
    evidence = evidence_of(tmp_path, ALS=[Crafted("instability", crafted.settings, {"summary": numbers})])
    assert f"{RULE} Not checked: no refits were asked for." in section(evidence, "audit-instability")
    (caution,) = cautions_of(evidence)
    assert caution.claim == "What ALS would make of new ratings was not checked by refits"
    assert caution.detail == "ALS: Not checked: no refits were asked for."


def test_a_rule_that_another_audit_has_checked_is_no_caution(tmp_path: Path) -> None:
    crafted = reachability(PAIRS, facts={"fidelity": {"not_measured": "no refits were asked for"}})
    unchecked = Crafted("instability", crafted.settings, {"summary": crafted.tables["summary"]})
    assert cautions_of(evidence_of(tmp_path, ALS=[reachability(PAIRS), unchecked])) == []


def test_the_headline_says_how_far_it_was_kept(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, ALS=[reachability(PAIRS)])
    assert headlines_of(evidence)[0].meaning.endswith(f"on average. {KEPT}")


class TestSpread:
    @pytest.mark.parametrize(("audit", "anchor"), [("reachability", "reach"), ("agency", "agency")])
    def test_models_that_were_spread_alike_say_so(self, tmp_path: Path, audit: str, anchor: str) -> None:
        def result(beta: float) -> Crafted:
            facts = {"perplexity": 10.0, "beta": beta, "policy": {"kind": "softmax", "beta": beta}}
            return reachability(PAIRS, facts=facts) if audit == "reachability" else agency(facts=facts)

        evidence = evidence_of(tmp_path, ALS=[result(3.1416)], EASE=[result(0.4)])
        line = "Each model's beta is chosen so that it spreads over 10 items on average: ALS 3.14, EASE 0.4."
        assert line in told(evidence, audit)
        text = section(evidence, anchor)
        assert line in text
        assert "Read a line at a time" not in text
        assert "how far apart their scores lie" not in " ".join(own.detail for own in findings_of(evidence))
        assert "beta=0.4" not in render(evidence.run)  # the last model's beta is not that of the audit

    def test_models_under_one_beta_are_read_a_line_at_a_time(self, tmp_path: Path) -> None:
        evidence = evidence_of(tmp_path, ALS=[reachability(PAIRS)], EASE=[reachability(PAIRS)])
        assert "Read a line at a time" in section(evidence, "reach")
        assert not any("spreads over" in line for line in told(evidence, "reachability"))


MEMORY = {"status": "memory", "matched_share": 0.9, "limit": 0.7, "refits": [0.6] * 5, "settings": "ALS()"}


class TestUnseen:
    def test_a_model_that_used_held_out_interactions_is_a_caution(self, tmp_path: Path) -> None:
        evidence = evidence_of(tmp_path, ALS=[accuracy(facts={"memory": MEMORY})])
        [note] = notes(evidence, "accuracy")
        assert note.warning
        assert "0.900" in note.text
        assert "0.700" in note.text
        first = cautions_of(evidence)[0]
        assert first.section == "accuracy"
        assert first.premise
        assert first.detail == note.text

    def test_a_model_that_was_fitted_here_needs_no_word(self, tmp_path: Path) -> None:
        evidence = evidence_of(tmp_path, ALS=[accuracy()])
        assert not notes(evidence, "accuracy")
        assert cautions_of(evidence) == []

    @pytest.mark.parametrize(
        "status", ["not_requested", "not_retrainable", "too_few_refits", "no_scores", "no_sign", None]
    )
    def test_a_model_made_elsewhere_cannot_be_shown_to_be_honest(self, tmp_path: Path, status: str | None) -> None:
        facts = None if status is None else {"memory": {**MEMORY, "status": status}}
        models = [
            Model("mine", [accuracy(facts=facts), reachability(PAIRS)], given=True),
            Model("ALS", [accuracy()]),
        ]
        evidence = Evidence(write_run(tmp_path, models))
        [line] = told(evidence, "accuracy")
        assert line.startswith("mine")
        assert cautions_of(evidence) == []
        assert line not in told(evidence, "reachability")


def test_a_system_that_was_asked_says_about_whom_and_how_often_it_failed(tmp_path: Path) -> None:
    asked = {"asked": {"users": 200, "of": 1000}, "failed": {"HTTP 503": 3, "timed out": 1}}
    lists = {"lists": {"users": 900, "without": 43, "shorter": 12, "seen": 0}}
    evidence = evidence_of(tmp_path, shop=[accuracy(facts=asked)], old=[accuracy(facts=lists)])
    lines = [
        "shop was asked about 200 of 1,000 users.",
        "shop gave no answer about 4 users: HTTP 503 (3), timed out (1).",
        "The lists of old are its own: of 900 users, 12 of them shorter than asked for; 43 have none.",
    ]
    assert told(evidence, "accuracy") == lines
    assert all(line in section(evidence, "accuracy") for line in lines)
