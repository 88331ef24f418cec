"""The verdict: which findings come first, on what a card rests, and what is never among them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from recaudit import report
from recaudit.report.evidence import Evidence
from recaudit.report.findings import findings_of
from recaudit.report.kit.claims import ClaimNumber, Effect, Finding, Touched, in_order
from recaudit.report.sections.accuracy import AccuracySection
from recaudit.report.verdict import FIRST_FINDINGS
from report.crafted_runs import (
    Data,
    Film,
    Model,
    Pair,
    accuracy,
    agency,
    exposure,
    reachability,
    with_users,
    write_run,
)

LOW, HIGH = (0.1, 0.05, 0.15), (0.4, 0.3, 0.5)
TIMES = "\N{MULTIPLICATION SIGN}"
FILMS = [Film("A", 20, 4.0, 5), Film("B", 20, 3.0, 0)]
PAIRS = (Pair("u", "a", 0.1, 0.6), Pair("u", "b", 0.1, 0.6))
REFITS = {"status": "memory", "matched_share": 0.9, "limit": 0.7, "refits": [0.6] * 5, "settings": "ALS()"}
MEMORY = {"memory": REFITS}


def finding(
    claim: str,
    size: float,
    error: float = 0.0,
    *,
    users: int = 100,
    section: str = "",
    people: int = 100,
    premise: bool = False,
) -> Finding:
    """One of a section of its own where none is named, which touches so many of 100 people."""
    effect = Effect.within(size, error, users)
    return Finding("test.code", claim, "", section or claim, effect, touched=Touched(people, 100), premise=premise)


def order(*findings: Finding) -> list[str]:
    return [own.claim for own in in_order(findings)]


class TestOrder:
    def test_the_larger_effect_first(self) -> None:
        assert order(finding("small", 0.5), finding("large", 1.0)) == ["large", "small"]

    def test_a_large_effect_that_is_hardly_known_comes_after_a_smaller_one_that_is_sure(self) -> None:
        assert order(finding("open", 2.0, 1.5), finding("sure", 1.0, 0.1)) == ["sure", "open"]

    def test_what_touches_few_people_counts_for_less(self) -> None:
        assert order(finding("few", 2.0, people=10), finding("all", 0.5)) == ["all", "few"]

    def test_a_premise_comes_first_whatever_it_weighs(self) -> None:
        assert order(finding("large", 3.0), finding("premise", 0.1, premise=True)) == ["premise", "large"]

    def test_each_further_finding_of_a_section_counts_half(self) -> None:
        same = [finding(f"same {size}", size, section="same") for size in (2.0, 1.9, 1.8)]
        others = [finding("other", 1.0), finding("another", 0.4)]
        # 2, then 1 beside 0.95, then 0.95, then 0.45 beside 0.4
        assert order(*same, *others) == ["same 2.0", "other", "same 1.9", "same 1.8", "another"]

    def test_of_equals_the_one_asked_for_first(self) -> None:
        names = [f"finding {place}" for place in range(6)]
        assert order(*(finding(name, 1.0) for name in names)) == names
        # The last bits, which differ between machines, decide nothing.
        assert order(finding("first", 0.3), finding("second", 0.1 + 0.2)) == ["first", "second"]

    def test_without_enough_users_or_with_an_interval_that_holds_none_it_is_no_finding(self) -> None:
        assert order(finding("few", 3.0, users=9), finding("open", 0.5, 0.5), finding("enough", 0.5, users=10)) == [
            "enough"
        ]

    def test_a_finding_that_was_tested_takes_a_small_adjusted_p_value(self) -> None:
        sure = finding("sure", 1.0, 0.1)
        tested = {p: replace(sure, claim=f"p {p}", numbers=(ClaimNumber(p=p),)) for p in (0.04, 0.06)}
        assert order(*tested.values()) == ["p 0.04"]

    def test_what_was_counted_needs_no_test(self) -> None:
        counted = replace(finding("counted", 0.0), counted=True)
        assert order(counted, finding("not", 0.0)) == ["counted"]


class TestRuns:
    @pytest.fixture
    def evidence(self, tmp_path: Path) -> Evidence:
        """Two models that rank better than a baseline; groups of users, and a catalogue of which half is hidden."""
        names = [f"region {place}" for place in range(4)]
        members = {name: (["North"] * 50 + ["South"] * 50) for name in names}
        ndcg, lift = ([0.1 + step] * 50 + [0.4 + step] * 50 for step in (0.01, 0.02))
        ndcg = [value + 0.001 * (place % 7) for place, value in enumerate(ndcg)]
        lift = [value + 0.001 * (place % 7) for place, value in enumerate(lift)]
        own = with_users(accuracy(0.26, excluded=10), "ndcg", ndcg, members)
        rival = with_users(accuracy(0.1), "ndcg", [0.1 + 0.001 * (place % 5) for place in range(100)], members)
        models = [
            Model("A", [own, with_users(exposure(FILMS), "popularity_lift", lift, members)]),
            Model("B", [with_users(accuracy(0.26), "ndcg", ndcg)]),
            Model("Hits", [rival, exposure(FILMS)], "top-pop"),
        ]
        return Evidence(write_run(tmp_path, models, Data(attributes=tuple(names))))

    def test_five_on_top_and_the_others_folded_by_section(self, evidence: Evidence) -> None:
        found = findings_of(evidence)
        assert len(found) > FIRST_FINDINGS
        (part,) = re.findall(r'<section id="findings">.*?</section>', report.render(evidence.run), re.S)
        cards, others = part.split("All other findings")
        assert re.findall(r'<h3 class="claim">(.*?)</h3>', cards) == [own.claim for own in found[:FIRST_FINDINGS]]
        told = re.findall(r'<p class="claim">(.*?)</p>', others)
        assert sorted(told) == sorted(own.claim for own in found[FIRST_FINDINGS:])

    def test_whether_personalising_pays_comes_first(self, evidence: Evidence) -> None:
        first = findings_of(evidence)[0]
        assert (first.code, [number.model for number in first.numbers]) == ("accuracy.above-baseline", ["A", "B"])
        assert first.measure is not None
        assert (first.measure.value, dict(first.measure.floors)) == ("0.260", {"Hits": "0.100"})
        assert first.whom == "all 100 users measured, of 1,234"
        assert replace(first, among=100).whom == "all 100 users measured"

    def test_a_group_is_shown_next_to_the_same_group_of_the_baseline(self, evidence: Evidence) -> None:
        gap = next(own for own in findings_of(evidence) if own.code == "accuracy.group-differs")
        assert gap.measure is not None
        assert gap.measure.value == "0.113"
        assert gap.measure.floors == {"Hits": "0.102"}
        assert gap.whom == "100 of 100 users measured"

    def test_every_finding_has_a_number_and_says_what_to_do(self, evidence: Evidence) -> None:
        for own in findings_of(evidence):
            assert own.measure is not None
            assert own.measure.metric in evidence.definitions
            assert own.advice.endswith(".")

    def test_cautions_stand_apart(self, evidence: Evidence) -> None:
        verdict = report.verdict(evidence.run)
        (caution,) = verdict.cautions
        assert caution.code == "accuracy.users-left-out"
        assert caution.claim not in [own.claim for own in verdict.findings]
        html = report.render(evidence.run)
        assert f"<strong>{caution.claim}.</strong>" in html.split('aria-label="Cautions"')[1]

    def test_what_was_audited_and_on_whom(self, evidence: Evidence) -> None:
        assert report.verdict(evidence.run).audited == (
            "A and B, beside Hits, which does not personalise, on films: 1,234 users, 10 items and 56,789 ratings "
            "from 1 to 5."
        )


class TestFloors:
    def test_what_does_not_react_has_a_value_by_definition(self, tmp_path: Path) -> None:
        run = write_run(tmp_path, [Model("A", [reachability(PAIRS), agency()])])
        floors = {own.measure.metric: own.measure.floors for own in report.verdict(run).findings if own.measure}
        assert floors["lift"] == {"A recommender that does not react": f"{TIMES}1.00"}
        assert floors["future_lift"] == {}  # what is rated is not shown again, which makes all else likelier anyway
        assert floors["past_unstable_share"] == {"A recommender that does not react": "0.0%"}

    def test_where_what_is_rated_is_not_shown_again_there_is_no_such_value(self, tmp_path: Path) -> None:
        result = reachability(PAIRS, facts={"actions": {"kind": "future", "k": 5}})
        (finding,) = report.verdict(write_run(tmp_path, [Model("A", [result])])).findings
        assert finding.measure is not None
        assert finding.measure.floors == {}

    def test_a_number_that_is_a_bound_says_so(self, tmp_path: Path) -> None:
        result = reachability(PAIRS)
        tables = {**result.tables, "summary": result.tables["summary"].with_columns(status=pl.lit("bounded"))}
        (finding,) = report.verdict(write_run(tmp_path, [Model("A", [replace(result, tables=tables)])])).findings
        assert finding.measure is not None
        assert finding.measure.label == "Lift of A, a lower bound"


def test_a_finding_of_another_package_needs_no_more_than_a_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(evidence: Evidence) -> Iterator[Finding]:
        yield Finding("other.something", "Something is so", "Because.", "accuracy", Effect.within(1.0, 0.1, 50))

    monkeypatch.setattr(AccuracySection, "questions", (asked,))
    html = report.render(write_run(tmp_path, [Model("A", [accuracy()])]))
    assert '<h3 class="claim">Something is so</h3>' in html
    assert "What to do" not in html


class TestMemory:
    def test_of_the_main_model_it_is_said_first(self, tmp_path: Path) -> None:
        models = [
            Model("Best", [accuracy(0.4, facts=MEMORY), exposure(FILMS)]),
            Model("Next", [accuracy(0.2, status="failed", rmse=None)]),
        ]
        run = write_run(tmp_path, models)
        assert [own.premise for own in report.verdict(run).cautions] == [True, False]
        html = report.render(run)
        assert html.index("Best has probably used held-out interactions") < html.index('<ol class="verdict">')

    def test_of_another_it_is_a_caution_like_others(self, tmp_path: Path) -> None:
        models = [Model("Best", [accuracy(0.4)]), Model("Next", [accuracy(0.2, facts=MEMORY)])]
        (caution,) = report.verdict(write_run(tmp_path, models)).cautions
        assert caution.claim == "Next has probably used held-out interactions"
        assert not caution.premise


def test_twenty_models_are_told_in_a_sentence(tmp_path: Path) -> None:
    models = [Model(f"M{place:02}", [accuracy(0.5 - place / 100)]) for place in range(20)]
    told = report.verdict(write_run(tmp_path, models)).audited
    assert told.startswith("M00, M01, M02 and 17 others on films: 1,234 users")


def test_a_run_without_any_answer_has_a_verdict(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Model("A", [])])
    verdict = report.verdict(run)
    assert (verdict.code, verdict.findings, verdict.cautions) == ("verdict.nothing-measured", [], [])
    assert "Nothing was measured: no audit of this run has a number." in report.render(run)


def test_an_audit_that_no_model_answers_is_a_caution_with_the_reasons(tmp_path: Path) -> None:
    models = [
        Model("A", [accuracy()], skipped={"instability": "A knows no others.", "reachability": "A has no rule."}),
        Model("B", [accuracy(), reachability(PAIRS)], skipped={"instability": "B has no rule."}),
    ]
    run = write_run(tmp_path, models)
    (caution,) = report.verdict(run).cautions
    assert caution.claim == "No model of this run has an answer to instability"
    assert caution.detail == "instability of A: A knows no others. instability of B: B has no rule."
    assert caution.claim in report.render(run)


def tied(users: int) -> dict[str, object]:
    return {"ties": {"users": users, "of": 1000}}


def test_lists_that_depend_on_ties_are_a_caution_above_one_percent(tmp_path: Path) -> None:
    models = [Model("Few", [accuracy(0.4, facts=tied(10))]), Model("Many", [accuracy(0.3, facts=tied(11))])]
    run = write_run(tmp_path, models)
    (caution,) = report.verdict(run).cautions
    assert caution.code == "lists.ties"
    assert "Many" in caution.claim
    assert "Few" not in caution.claim
    assert caution.claim in report.render(run)
