"""A gate breaks what is shown to be worse, passes what is not, and never passes what it cannot decide."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import recaudit as ra
from recaudit.errors import DamagedError, InputError
from recaudit.metrics.inference import compute_gate_p_values
from recaudit.registry import AUDITS
from recaudit.runs import Run
from recaudit.runs.gate import Gate
from recaudit.status import Status
from report.crafted_runs import Model, write_run
from runs.crafted_pairs import add_data, gate_of, measured, rewritten, signatures_of, write_pair

USERS = 200
REGIONS = [("north", "south")[place % 2] for place in range(USERS)]


def noise(*labels: str) -> np.ndarray:
    """The same for the same labels, (USERS,)."""
    return np.random.default_rng(list("/".join(labels).encode())).normal(size=USERS)


SHARES = np.clip(0.5 + 0.1 * noise("a"), 0.1, 0.9)
"""A share for each user, within the bounds of the metrics that are shares."""


def gate(**rule: Any) -> Gate:
    return gate_of({"metric": "ndcg", **rule})


def outcomes(decision: ra.Decision) -> list[str]:
    return [answer.outcome for answer in decision.answers]


def reason(decision: ra.Decision) -> str:
    [answer] = decision.answers
    assert answer.outcome == "undecided"
    return answer.reason


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """nDCG falls by 0.1 for all users in the south, and stays in the north; nothing else changes."""
    ndcg = np.clip(0.5 + 0.1 * noise("ndcg"), 0.2, 0.8)
    south = np.array(REGIONS) == "south"
    after = ndcg - south * (0.1 + 0.01 * noise("change"))
    rest = {"rmse": 1 + 0.1 * noise("rmse"), "recall": 0.5 + 0.1 * noise("recall")}
    groups = {"region": REGIONS}
    return write_pair(
        tmp_path_factory.mktemp("pair"),
        measured({"ndcg": ndcg, **rest}, groups),
        measured({"ndcg": after, **rest}, groups),
        attributes=["region"],
    )


class TestMargins:
    def test_what_is_shown_to_be_worse_is_broken_for_whom_it_is(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        decision = ra.check(after, gate(by="region", not_worse_by=0.04), before)
        north, south = sorted(decision.answers, key=lambda answer: answer.question.group)
        assert (north.outcome, south.outcome, decision.outcome) == ("passed", "failed", "failed")
        assert south.question.change == pytest.approx(0.1, abs=0.005)
        assert north.question.change == 0

    def test_a_wide_margin_passes_it(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        assert ra.check(after, gate(by="region", not_worse_by=0.16), before).passed

    def test_equal_numbers_pass_a_margin_but_not_a_margin_of_0(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        for margin, outcome in ((0, "undecided"), (0.05, "passed")):
            rules = gate_of(*[{"metric": metric, "not_worse_by": margin} for metric in ("recall", "rmse")])
            assert outcomes(ra.check(after, rules, before)) == [outcome] * 2
        [answer] = ra.check(after, gate_of({"metric": "recall", "not_worse_by": 0}), before).answers
        assert answer.code == "not_shown"

    def test_the_tests_are_those_of_the_users_differences(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        [answer] = ra.check(after, gate(not_worse_by=0.02), before).answers
        own = [run.table("ALS", "accuracy", "users")["ndcg"].to_numpy() for run in (before, after)]
        bounds = {metric.name: metric.bounds for metric in AUDITS["accuracy"].metrics}["ndcg"]
        limits = (None, None) if None in bounds else (-1.0, 1.0)
        test = answer.question.test
        assert test is not None
        assert (test.p_pass, test.p_fail) == pytest.approx(compute_gate_p_values(own[1] - own[0], 0.02, limits))
        assert test.standard_error == pytest.approx((own[0] - own[1]).std(ddof=1) / np.sqrt(USERS))

    def test_worse_is_what_the_metric_says(self, tmp_path: Path) -> None:
        high, low = np.full(USERS, 0.9), np.full(USERS, 0.8)
        first, second = write_pair(
            tmp_path, measured({"ndcg": high, "rmse": low}), measured({"ndcg": low, "rmse": high})
        )
        rules = gate_of(*[{"metric": metric, "not_worse_by": 0.01} for metric in ("ndcg", "rmse")])
        assert outcomes(ra.check(second, rules, first)) == ["failed", "failed"]
        assert outcomes(ra.check(first, rules, second)) == ["passed", "passed"]

    def test_either_way_can_be_forbidden(self, tmp_path: Path) -> None:
        low, high = ({"novelty": np.full(USERS, value)} for value in (3.0, 3.5))
        first, second = write_pair(tmp_path, measured(low, kind="exposure"), measured(high, kind="exposure"))
        up, down = (gate_of({"metric": "novelty", held: "10%"}) for held in ("not_higher_by", "not_lower_by"))
        assert ra.check(second, up, first).outcome == "failed"
        assert ra.check(second, down, first).passed
        assert ra.check(first, down, second).outcome == "failed"

    def test_an_undecided_rule_says_at_which_distance_it_is_decided(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        [answer] = ra.check(after, gate(not_worse_by=0.052), before).answers
        test = answer.question.test
        assert (answer.outcome, answer.code) == ("undecided", "not_shown")
        assert test is not None
        assert test.detectable is not None
        assert test.standard_error is not None
        assert 2 * test.standard_error < test.detectable < 0.05
        frame = ra.check(after, gate(not_worse_by=0.052), before).frame
        assert frame["detectable"].to_list() == [test.detectable]


class TestFamily:
    def test_failures_without_a_confidence_of_their_own_are_corrected_together(self, tmp_path: Path) -> None:
        loss = noise("family").clip(-2.5, 2.5)
        loss = 0.15 * (loss - loss.mean()) / loss.std(ddof=1)
        loss += 0.15 * stats.t.isf(0.013, USERS - 1) / np.sqrt(USERS)
        names = ("ndcg", "recall", "precision", "map", "mrr")
        values = {name: np.clip(0.5 + 0.1 * noise(name), 0.2, 0.8) for name in names}
        values["ndcg"] = np.full(USERS, 0.5)
        first, second = write_pair(tmp_path, measured(values), measured({**values, "ndcg": values["ndcg"] - loss}))
        [alone] = ra.check(second, gate(not_worse_by=0, confidence=0.9), first).answers
        assert alone.outcome == "failed"  # p is about 0.013, and larger with bounds
        together = gate_of(*[{"metric": name, "not_worse_by": 0} for name in names])
        [ndcg, *_] = ra.check(second, together, first).answers
        assert alone.question.test is not None
        assert ndcg.outcome == "undecided"
        assert alone.question.test.p_fail is not None
        assert ndcg.adjusted == pytest.approx(5 * alone.question.test.p_fail)
        apart = [
            {"metric": "ndcg", "not_worse_by": 0, "confidence": 0.9},
            *({"metric": m, "not_worse_by": 0} for m in names),
        ]
        assert ra.check(second, gate_of(*apart), first).outcome == "failed"
        strict = [{**apart[0], "confidence": 0.99}, *apart[1:]]
        assert ra.check(second, gate_of(*strict), first).outcome == "undecided"

    def test_thresholds_belong_to_the_family(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        rules = gate_of(
            *[
                {"metric": "recall", "not_worse_by": 0.01},
                {"metric": "ndcg", "at_least": 0.485},
                {"metric": "ndcg", "at_least": 0.485, "confidence": 0.95},
            ]
        )
        _, family, alone = ra.check(after, rules, before).answers
        assert alone.question.test is not None
        assert alone.question.test.p_fail is not None
        assert alone.adjusted == alone.question.test.p_fail
        assert family.adjusted == pytest.approx(min(1.0, 2 * alone.question.test.p_fail))

    def test_a_rule_without_enough_users_is_undecided_and_not_counted(self, tmp_path: Path) -> None:
        region = ["few"] * 9 + ["many"] * (USERS - 9)
        values = {"ndcg": np.clip(0.5 + 0.1 * noise("a"), 0.2, 0.8)}
        worse = {"ndcg": values["ndcg"] - 0.1}
        first, second = write_pair(tmp_path, *(measured(own, {"region": region}) for own in (values, worse)))
        few, many = ra.check(second, gate(by="region", not_worse_by=0), first).answers
        assert (few.outcome, few.code, many.outcome) == ("undecided", "too_few_users", "failed")
        assert many.question.test is not None
        assert many.adjusted == many.question.test.p_fail


class TestUndecided:
    def test_without_a_baseline(self, pair: tuple[Run, Run]) -> None:
        assert "no baseline" in reason(ra.check(pair[1], gate(not_worse_by=0.1)))

    def test_with_too_few_people(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        for rule in ({"not_worse_by": 0.01}, {"at_least": 0.1}):
            [answer] = ra.check(after, gate(people=201, **rule), before).answers
            assert (answer.outcome, answer.code, answer.question.users) == ("undecided", "too_few_users", 200)
            [answer] = ra.check(after, gate(people=200, **rule), before).answers
            assert answer.code != "too_few_users"

    def test_where_the_model_could_not_be_asked(self, tmp_path: Path) -> None:
        ours = Model("ALS", [measured({"ndcg": SHARES})], skipped={"reachability": "it has no response"})
        first, second = write_pair(tmp_path, [ours], [ours])
        for rule in ({"not_worse_by": 0.01}, {"at_least": 0.1}):
            decision = ra.check(second, gate_of({"metric": "lift", **rule}), first)
            assert "it has no response" in reason(decision)

    def test_where_the_audit_was_not_asked(self, pair: tuple[Run, Run]) -> None:
        assert "no exposure of ALS" in reason(ra.check(pair[1], gate_of({"metric": "gini", "at_most": 0.9})))

    def test_where_the_number_is_not_applicable(self, tmp_path: Path) -> None:
        nothing = measured({"ndcg": SHARES, "rmse": np.full(USERS, np.nan)})
        first, second = write_pair(tmp_path, nothing, nothing)
        assert "not applicable" in reason(ra.check(second, gate_of({"metric": "rmse", "at_most": 1})))
        assert ra.check(second, gate_of({"metric": "rmse", "not_worse_by": 1}), first).outcome == "undecided"

    @pytest.mark.parametrize(
        ("facts", "told"),
        [
            ({"failed": {"timeout": 3, "500": 1}}, "for 4 users or pairs"),
            ({"statuses": {"solved": 5, "failed": 2}}, "for 2 users or pairs"),
            (
                {"statuses": {"past": {"solved": 5, "failed": 2}, "future": {"failed": 1}}},
                "for 3 users or pairs",
            ),
            ({"causes": ["no room"]}, "answers failed, which"),
        ],
    )
    def test_where_answers_failed_in_either_run(self, tmp_path: Path, facts: Mapping[str, Any], told: str) -> None:
        values = {"ndcg": SHARES}
        whole, failing = write_pair(tmp_path, measured(values), measured(values, facts=facts))
        for run, baseline in ((whole, failing), (failing, whole)):
            assert told in reason(ra.check(run, gate(not_worse_by=0.1), baseline))
            assert ra.check(run, gate(not_worse_by=0.1, failures="accept"), baseline).passed
        assert told in reason(ra.check(failing, gate(at_least=0.1)))
        assert ra.check(failing, gate(at_least=0.1, failures="accept")).passed

    def test_no_failures_are_none(self, tmp_path: Path) -> None:
        values, facts = {"ndcg": SHARES}, {"statuses": {"solved": 5, "failed": 0}, "causes": []}
        _, run = write_pair(tmp_path, measured(values), measured(values, facts=facts))
        assert ra.check(run, gate(at_least=0.1)).passed

    def test_lower_bounds_beside_a_baseline(self, tmp_path: Path) -> None:
        values = {"ndcg": SHARES}
        exact, bounded = write_pair(tmp_path, measured(values), measured(values, status=Status.BOUNDED))
        for run, baseline in ((exact, bounded), (bounded, exact)):
            assert "only a bound" in reason(ra.check(run, gate(not_worse_by=0.1), baseline))
            assert ra.check(run, gate(not_worse_by=0.1, bounds="accept"), baseline).passed

    def test_nobody_in_common(self, tmp_path: Path) -> None:
        sides = [measured({"ndcg": SHARES}, users=[f"{side}{place}" for place in range(USERS)]) for side in "ab"]
        first, second = write_pair(tmp_path, *sides)
        assert ra.check(second, gate(not_worse_by=0.1), first).outcome == "undecided"

    def test_a_group_that_nobody_is_left_of(self, tmp_path: Path) -> None:
        values = {"ndcg": SHARES}
        moved = [f"new{place}" if region == "south" else f"u{place}" for place, region in enumerate(REGIONS)]
        first, second = write_pair(
            tmp_path, measured(values, {"region": REGIONS}), measured(values, {"region": REGIONS}, users=moved)
        )
        decision = ra.check(second, gate(by="region", not_worse_by=0.1), first)
        assert {a.question.group: a.outcome for a in decision.answers} == {"north": "passed", "south": "undecided"}

    def test_asked_differently(self, tmp_path: Path) -> None:
        values = {"ndcg": SHARES}
        first, second = write_pair(tmp_path, measured(values), measured(values, facts={"k": 20}))
        assert "k is 10 and 20" in reason(ra.check(second, gate(not_worse_by=0.1), first))

    def test_other_targets(self, tmp_path: Path) -> None:
        rules, values = gate_of({"metric": "discovery", "not_worse_by": 0.1}), {"discovery": SHARES}
        sides = [measured(values, kind="reachability", facts={"targets": 40, "rng": seed}) for seed in (1, 2)]
        first, second = write_pair(tmp_path / "other", *sides)
        assert "targets is 40 drawn by seed 1 and 40 drawn by seed 2" in reason(ra.check(second, rules, first))
        same = write_pair(tmp_path / "same", sides[0], sides[0])
        assert ra.check(same[1], rules, same[0]).passed
        # Other people are of the same population.
        people = [measured(values, kind="reachability", facts={"users": 40, "rng": seed}) for seed in (1, 2)]
        first, second = write_pair(tmp_path / "people", *people)
        assert ra.check(second, rules, first).passed

    def test_another_model(self, tmp_path: Path) -> None:
        ours = measured({"ndcg": SHARES})
        first, second = write_pair(tmp_path, [Model("ALS", [ours])], [Model("ALS", [ours]), Model("EASE", [ours])])
        decision = ra.check(second, gate(not_worse_by=0.1), first)
        assert {a.question.model: a.outcome for a in decision.answers} == {"ALS": "passed", "EASE": "undecided"}
        assert "no model EASE" in reason(ra.check(second, gate(model="EASE", not_worse_by=0.1), first))
        # Known, but not in this run.
        assert "no model EASE" in reason(ra.check(first, gate(model="EASE", at_least=0.1), second))
        assert "EASE" in ra.check(first, gate(not_worse_by=0.1), second).notes[0]

    def test_no_model_in_common(self, tmp_path: Path) -> None:
        ours = measured({"ndcg": SHARES})
        pairs = [[Model(label, [ours]) for label in labels] for labels in ("AB", "CD")]
        first, second = write_pair(tmp_path, *pairs)
        decision = ra.check(second, gate(not_worse_by=0.1), first)
        assert {answer.reason for answer in decision.answers} == {"no model has the same label in both runs"}

    def test_the_only_models_of_two_runs_are_compared_whatever_their_labels(self, tmp_path: Path) -> None:
        ours = measured({"ndcg": SHARES})
        first, second = write_pair(tmp_path, [Model("old", [ours])], [Model("new", [ours])])
        assert ra.check(second, gate(not_worse_by=0.1), first).passed
        assert ra.check(second, gate(model="new", not_worse_by=0.1), first).passed

    def test_an_interrupted_run(self, pair: tuple[Run, Run], tmp_path: Path) -> None:
        before, after = pair
        whole = write_run(tmp_path / "half", [Model("ALS", [measured({"ndcg": SHARES})])])
        half = rewritten(whole, status="running")
        for rule in ({"at_least": -9}, {"not_worse_by": 9}):
            assert "interrupted" in reason(ra.check(half, gate(**rule), before))
        assert "interrupted" in reason(ra.check(after, gate(not_worse_by=9), half))

    def test_a_grouping_that_the_audit_does_not_have(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        assert "by history" in reason(ra.check(after, gate(by="history", at_least=0.1)))
        assert "by history" in reason(ra.check(after, gate(by="history", not_worse_by=0.1), before))

    def test_a_number_that_only_groups_have(self, tmp_path: Path) -> None:
        shown = measured({"coverage": SHARES}, kind="exposure")
        _, run = write_pair(tmp_path, shown, shown)
        assert "no share in the run" in reason(ra.check(run, gate_of({"metric": "share", "at_least": 0.1})))


class TestOutcome:
    def test_broken_comes_before_undecided_comes_before_kept(self, pair: tuple[Run, Run]) -> None:
        kept, broken, unknown = {"at_least": 0.1}, {"at_least": 0.9}, {"at_least": 0.1, "people": 999}

        def outcome(*rules: dict[str, Any]) -> str:
            return ra.check(pair[1], gate_of(*[{"metric": "ndcg", **rule} for rule in rules])).outcome

        assert outcome(kept) == "passed"
        assert outcome(kept, unknown) == "undecided"
        assert outcome(unknown, broken, kept) == "failed"

    def test_floors_are_not_asked_unless_they_are_named(self, tmp_path: Path) -> None:
        run = write_run(tmp_path / "floor", [Model(label, [measured({"ndcg": SHARES})]) for label in ("ALS", "Random")])
        models = run.manifest.models
        run = rewritten(run, models=(models[0], models[1].model_copy(update={"floor": True})))
        assert [answer.question.model for answer in ra.check(run, gate(at_least=0.1)).answers] == ["ALS"]
        [named] = ra.check(run, gate(at_least=0.9, model="Random")).answers
        assert (named.question.model, named.outcome) == ("Random", "failed")
        assert repr(named).startswith("failed: Random, ndcg, at least 0.9 (")
        assert repr(named) in repr(ra.check(run, gate(at_least=0.9, model="Random")))
        beside = write_run(tmp_path / "earlier", [Model("ALS", [measured({"ndcg": SHARES[::-1]})])])
        assert "no change of Random" in reason(ra.check(run, gate(not_worse_by=0.1, model="Random"), beside))

    def test_other_data_and_a_later_baseline_are_cautions(self, tmp_path: Path) -> None:
        ours = measured({"ndcg": 0.5 + 0.1 * noise("a").clip(-3, 3)})
        before, after = (add_data(run, signatures_of(USERS)) for run in write_pair(tmp_path, ours, ours))
        assert not ra.check(after, gate(not_worse_by=0.1), before).cautions
        other = rewritten(
            add_data(after, signatures_of(USERS), fingerprint="other"), started="1999-01-01T00:00:00+00:00"
        )
        decision = ra.check(other, gate(not_worse_by=0.1), before)
        assert decision.passed
        assert [caution.code for caution in decision.cautions] == ["comparison.other-data", "gate.later-baseline"]

    def test_other_users_under_the_same_ids_decide_nothing(self, tmp_path: Path) -> None:
        ours = measured({"ndcg": 0.5 + 0.1 * noise("a").clip(-3, 3)})
        before, after = write_pair(tmp_path, ours, ours)
        before = add_data(before, signatures_of(USERS))
        after = add_data(after, signatures_of(USERS, seed=1), fingerprint="other")
        decision = ra.check(after, gate(not_worse_by=0.1), before)
        assert [answer.code for answer in decision.answers] == ["comparison.other-histories"]
        assert decision.cautions[0].code == "comparison.other-histories"
        assert ra.check(after, gate(at_least=0.1), before).passed

    def test_a_margin_that_needs_more_users_is_a_caution(self, pair: tuple[Run, Run], monkeypatch: Any) -> None:
        before, after = pair
        ndcg = next(metric for metric in AUDITS["accuracy"].metrics if metric.name == "ndcg")
        monkeypatch.setattr(AUDITS["accuracy"], "metrics", (replace(ndcg, bounds=(0.0, 1.0)),))
        for margin, codes in ((0.01, ["gate.margin-needs-users"]), (0.05, [])):
            decision = ra.check(after, gate(not_worse_by=margin), before)
            assert [caution.code for caution in decision.cautions] == codes
        [caution] = ra.check(after, gate(not_worse_by=0.01), before).cautions
        assert caution.users == 299

    def test_a_new_group_is_told(self, tmp_path: Path) -> None:
        values = {"ndcg": SHARES}
        east = ["east" if place < 10 else region for place, region in enumerate(REGIONS)]
        first, second = write_pair(tmp_path, measured(values, {"region": REGIONS}), measured(values, {"region": east}))
        assert "east" in ra.check(second, gate(by="region", not_worse_by=0.1), first).notes[0]

    def test_a_frame_has_a_row_for_each_question(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        rules = gate_of({"metric": "ndcg", "by": "region", "not_worse_by": "2%"}, {"metric": "rmse", "at_most": 2})
        frame = ra.check(after, rules, before).frame
        assert frame["rule"].to_list() == [1, 1, 2]
        assert frame["outcome"].to_list() == ["undecided", "failed", "passed"] or frame["has_bound"][0] is False
        assert frame["before"].null_count() == 1


class TestRefused:
    def test_the_run_as_its_own_baseline(self, pair: tuple[Run, Run], tmp_path: Path) -> None:
        _, after = pair
        copy = shutil.copytree(after.path, tmp_path / "copy")
        for path in (after.path, copy):
            with pytest.raises(InputError, match="the run itself"):
                ra.check(after, gate(not_worse_by=0.1), path)

    def test_a_damaged_run(self, pair: tuple[Run, Run], tmp_path: Path) -> None:
        before, after = pair
        copy = Path(shutil.copytree(after.path, tmp_path / "copy"))
        file = copy / "results/ALS/accuracy/terms.parquet"
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.raises(DamagedError):
            ra.check(copy, gate(not_worse_by=0.1), before)

    @pytest.mark.parametrize(
        ("rule", "said"),
        [
            ({"model": "ASL", "at_least": 0.1}, "Did you mean 'ALS'"),
            ({"by": "regoin", "at_least": 0.1}, "Did you mean 'region'"),
            ({"by": "region", "group": "nroth", "at_least": 0.1}, "Did you mean 'north'"),
        ],
    )
    def test_a_name_that_neither_run_knows(self, pair: tuple[Run, Run], rule: dict[str, Any], said: str) -> None:
        with pytest.raises(InputError, match=said):
            ra.check(pair[1], gate(**rule), pair[0])
