"""A gate breaks what is shown to be worse, passes what is not, and never passes what it cannot decide."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import recaudit as ra
from recaudit.errors import DamagedError, InputError
from recaudit.runs import Run
from recaudit.runs.gate import Gate
from recaudit.status import Status
from report.crafted_runs import Model, write_run
from runs.crafted_pairs import gate_of, measured, rewritten, write_pair

USERS = 200
REGIONS = [("north", "south")[place % 2] for place in range(USERS)]


def noise(*labels: str) -> np.ndarray:
    """The same for the same labels, (USERS,)."""
    return np.random.default_rng(list("/".join(labels).encode())).normal(size=USERS)


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
    """nDCG falls by 0.05 for everybody in the south, and stays in the north; nothing else changes."""
    ndcg = 0.5 + 0.1 * noise("ndcg")
    south = np.array(REGIONS) == "south"
    after = ndcg - south * (0.05 + 0.01 * noise("change"))
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
        decision = ra.check(after, gate(by="region", not_worse_by=0.01), before)
        north, south = sorted(decision.answers, key=lambda answer: answer.question.group)
        assert (north.outcome, south.outcome, decision.outcome) == ("passed", "failed", "failed")
        assert south.question.change == pytest.approx(0.05, abs=0.005)
        assert north.question.change == 0

    def test_a_wide_margin_passes_it(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        assert ra.check(after, gate(by="region", not_worse_by=0.06), before).passed

    def test_equal_numbers_pass_without_any_margin(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        rules = gate_of(*[{"metric": metric, "not_worse_by": 0} for metric in ("recall", "rmse")])
        assert outcomes(ra.check(after, rules, before)) == ["passed", "passed"]

    def test_the_test_is_a_one_sided_t_test_of_what_lies_beyond(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        [answer] = ra.check(after, gate(not_worse_by=0.02), before).answers
        own = [run.table("ALS", "accuracy", "users")["ndcg"].to_numpy() for run in (before, after)]
        expected = stats.ttest_1samp(own[0] - own[1], 0.02, alternative="greater")
        assert answer.question.p == pytest.approx(expected.pvalue, rel=0.3)
        assert answer.question.error == pytest.approx((own[0] - own[1]).std(ddof=1) / np.sqrt(USERS), rel=0.1)

    @pytest.mark.parametrize("share", [0.02, 0.4])
    @pytest.mark.parametrize("sign", [1, -1])
    @pytest.mark.parametrize("held", ["not_lower_by", "not_higher_by"])
    def test_a_share_is_as_uncertain_as_the_baseline(self, tmp_path: Path, share: float, sign: int, held: str) -> None:
        before, after = (sign * (0.3 + 0.1 * noise("share", name)) for name in ("before", "after"))
        first, second = write_pair(tmp_path, measured({"ndcg": before}), measured({"ndcg": after}))
        [answer] = ra.check(second, gate(**{held: f"{share:.0%}"}), first).answers
        way = 1 if held == "not_higher_by" else -1
        beyond = way * (after - before) - share * np.sign(before.mean()) * before
        assert answer.question.allowed == pytest.approx(share * abs(before.mean()))
        assert answer.question.excess == pytest.approx(beyond.mean())
        assert answer.question.error == pytest.approx(beyond.std(ddof=1) / np.sqrt(USERS), rel=0.1)

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

    def test_a_pass_says_what_would_have_been_caught(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        rules = gate_of(*[{"metric": name, "not_worse_by": 0.1} for name in ("ndcg", "rmse", "recall")])
        answer = ra.check(after, rules, before).answers[0]
        quantiles = stats.t.ppf(1 - 0.05 / 3, USERS - 1) + stats.t.ppf(0.8, USERS - 1)
        assert answer.question.error is not None
        assert answer.detectable == pytest.approx(0.1 + quantiles * answer.question.error)


class TestFamily:
    def test_rules_without_a_confidence_of_their_own_are_corrected_together(self, tmp_path: Path) -> None:
        change = 0.1 * noise("family")
        change += 0.1 * change.std(ddof=1) * stats.t.isf(0.02, USERS - 1) / np.sqrt(USERS) / 0.1 - change.mean()
        names = ("ndcg", "recall", "precision", "map", "mrr")
        values = {name: 0.5 + 0.1 * noise(name) for name in names}
        first, second = write_pair(tmp_path, measured(values), measured({**values, "ndcg": values["ndcg"] - change}))
        alone = gate(not_worse_by=0)
        assert ra.check(second, alone, first).outcome == "failed"  # p is about 0.02
        together = gate_of(*[{"metric": name, "not_worse_by": 0} for name in names])
        assert ra.check(second, together, first).passed
        apart = [
            {"metric": "ndcg", "not_worse_by": 0, "confidence": 0.95},
            *({"metric": name, "not_worse_by": 0} for name in names[1:]),
        ]
        assert ra.check(second, gate_of(*apart), first).outcome == "failed"
        strict = [{**apart[0], "confidence": 0.99}, *apart[1:]]
        assert ra.check(second, gate_of(*strict), first).passed

    def test_bounds_join_it_when_they_say_so(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        rules = gate_of(
            *[
                {"metric": "recall", "not_worse_by": 0.01},
                {"metric": "ndcg", "at_least": 0.5, "confidence": "gate"},
                {"metric": "ndcg", "at_least": 0.5, "confidence": 0.95},
            ]
        )
        _, family, alone = ra.check(after, rules, before).answers
        assert family.adjusted == pytest.approx(2 * family.question.p)
        assert alone.adjusted == alone.question.p


class TestUndecided:
    def test_without_a_baseline(self, pair: tuple[Run, Run]) -> None:
        assert "no baseline" in reason(ra.check(pair[1], gate(not_worse_by=0.01)))

    def test_with_too_few_people(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        for rule in ({"not_worse_by": 0.01}, {"at_least": 0.1}):
            assert "200 people" in reason(ra.check(after, gate(people=201, **rule), before))
            assert ra.check(after, gate(people=200, **rule), before).outcome != "undecided"

    def test_where_the_model_could_not_be_asked(self, tmp_path: Path) -> None:
        ours = Model("ALS", [measured({"ndcg": noise("a")})], skipped={"reachability": "it has no response"})
        first, second = write_pair(tmp_path, [ours], [ours])
        for rule in ({"not_worse_by": 0.01}, {"at_least": 0.1}):
            decision = ra.check(second, gate_of({"metric": "lift", **rule}), first)
            assert "it has no response" in reason(decision)

    def test_where_the_audit_was_not_asked(self, pair: tuple[Run, Run]) -> None:
        assert "no exposure of ALS" in reason(ra.check(pair[1], gate_of({"metric": "gini", "at_most": 0.9})))

    def test_where_the_number_is_not_applicable(self, tmp_path: Path) -> None:
        nothing = measured({"ndcg": noise("a"), "rmse": np.full(USERS, np.nan)})
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
        values = {"ndcg": 0.5 + 0.1 * noise("a")}
        whole, failing = write_pair(tmp_path, measured(values), measured(values, facts=facts))
        for run, baseline in ((whole, failing), (failing, whole)):
            assert told in reason(ra.check(run, gate(not_worse_by=0.01), baseline))
            assert ra.check(run, gate(not_worse_by=0.01, failures="accept"), baseline).passed
        assert told in reason(ra.check(failing, gate(at_least=0.1)))
        assert ra.check(failing, gate(at_least=0.1, failures="accept")).passed

    def test_no_failures_are_none(self, tmp_path: Path) -> None:
        values, facts = {"ndcg": 0.5 + 0.1 * noise("a")}, {"statuses": {"solved": 5, "failed": 0}, "causes": []}
        _, run = write_pair(tmp_path, measured(values), measured(values, facts=facts))
        assert ra.check(run, gate(at_least=0.1)).passed

    def test_lower_bounds_beside_a_baseline(self, tmp_path: Path) -> None:
        values = {"ndcg": 0.5 + 0.1 * noise("a")}
        exact, bounded = write_pair(tmp_path, measured(values), measured(values, status=Status.BOUNDED))
        for run, baseline in ((exact, bounded), (bounded, exact)):
            assert "only a bound" in reason(ra.check(run, gate(not_worse_by=0.01), baseline))
            assert ra.check(run, gate(not_worse_by=0.01, bounds="accept"), baseline).passed

    def test_nobody_in_common(self, tmp_path: Path) -> None:
        sides = [measured({"ndcg": noise("a")}, users=[f"{side}{place}" for place in range(USERS)]) for side in "ab"]
        first, second = write_pair(tmp_path, *sides)
        assert ra.check(second, gate(not_worse_by=0.01), first).outcome == "undecided"

    def test_a_group_that_nobody_is_left_of(self, tmp_path: Path) -> None:
        values = {"ndcg": 0.5 + 0.1 * noise("a")}
        moved = [f"new{place}" if region == "south" else f"u{place}" for place, region in enumerate(REGIONS)]
        first, second = write_pair(
            tmp_path, measured(values, {"region": REGIONS}), measured(values, {"region": REGIONS}, users=moved)
        )
        decision = ra.check(second, gate(by="region", not_worse_by=0.01), first)
        assert {a.question.group: a.outcome for a in decision.answers} == {"north": "passed", "south": "undecided"}

    def test_asked_differently(self, tmp_path: Path) -> None:
        values = {"ndcg": noise("a")}
        first, second = write_pair(tmp_path, measured(values), measured(values, facts={"k": 20}))
        assert "k is 10 and 20" in reason(ra.check(second, gate(not_worse_by=0.01), first))

    def test_other_targets(self, tmp_path: Path) -> None:
        rules, values = gate_of({"metric": "discovery", "not_worse_by": 0.01}), {"discovery": noise("a")}
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
        ours = measured({"ndcg": 0.5 + 0.1 * noise("a")})
        first, second = write_pair(tmp_path, [Model("ALS", [ours])], [Model("ALS", [ours]), Model("EASE", [ours])])
        decision = ra.check(second, gate(not_worse_by=0.01), first)
        assert {a.question.model: a.outcome for a in decision.answers} == {"ALS": "passed", "EASE": "undecided"}
        assert "no model EASE" in reason(ra.check(second, gate(model="EASE", not_worse_by=0.01), first))
        # Known, but not in this run.
        assert "no model EASE" in reason(ra.check(first, gate(model="EASE", at_least=0.1), second))
        assert "EASE" in ra.check(first, gate(not_worse_by=0.01), second).notes[0]

    def test_no_model_in_common(self, tmp_path: Path) -> None:
        ours = measured({"ndcg": noise("a")})
        pairs = [[Model(label, [ours]) for label in labels] for labels in ("AB", "CD")]
        first, second = write_pair(tmp_path, *pairs)
        decision = ra.check(second, gate(not_worse_by=0.01), first)
        assert {answer.reason for answer in decision.answers} == {"no model has the same label in both runs"}

    def test_the_only_models_of_two_runs_are_compared_whatever_their_labels(self, tmp_path: Path) -> None:
        ours = measured({"ndcg": noise("a")})
        first, second = write_pair(tmp_path, [Model("old", [ours])], [Model("new", [ours])])
        assert ra.check(second, gate(not_worse_by=0.01), first).passed
        assert ra.check(second, gate(model="new", not_worse_by=0.01), first).passed

    def test_an_interrupted_run(self, pair: tuple[Run, Run], tmp_path: Path) -> None:
        before, after = pair
        whole = write_run(tmp_path / "half", [Model("ALS", [measured({"ndcg": noise("a")})])])
        half = rewritten(whole, status="running")
        for rule in ({"at_least": -9}, {"not_worse_by": 9}):
            assert "interrupted" in reason(ra.check(half, gate(**rule), before))
        assert "interrupted" in reason(ra.check(after, gate(not_worse_by=9), half))

    def test_a_grouping_that_the_audit_does_not_have(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        assert "by history" in reason(ra.check(after, gate(by="history", at_least=0.1)))
        assert "by history" in reason(ra.check(after, gate(by="history", not_worse_by=0.1), before))

    def test_a_number_that_only_groups_have(self, tmp_path: Path) -> None:
        shown = measured({"coverage": noise("a")}, kind="exposure")
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
        run = write_run(
            tmp_path / "floor", [Model(label, [measured({"ndcg": noise("a")})]) for label in ("ALS", "Random")]
        )
        models = run.manifest.models
        run = rewritten(run, models=(models[0], models[1].model_copy(update={"floor": True})))
        assert [answer.question.model for answer in ra.check(run, gate(at_least=0.1)).answers] == ["ALS"]
        [named] = ra.check(run, gate(at_least=0.1, model="Random")).answers
        assert (named.question.model, named.outcome) == ("Random", "failed")
        assert repr(named).startswith("failed: Random, ndcg, at least 0.1 (")
        assert repr(named) in repr(ra.check(run, gate(at_least=0.1, model="Random")))
        beside = write_run(tmp_path / "earlier", [Model("ALS", [measured({"ndcg": noise("b")})])])
        assert "no change of Random" in reason(ra.check(run, gate(not_worse_by=0.1, model="Random"), beside))

    def test_other_data_and_a_later_baseline_are_told(self, tmp_path: Path) -> None:
        ours = measured({"ndcg": 0.5 + 0.1 * noise("a")})
        before, after = write_pair(tmp_path, ours, ours)
        assert not ra.check(after, gate(not_worse_by=0.1), before).notes
        data = after.manifest.data.model_copy(update={"fingerprint": "other"})
        decision = ra.check(rewritten(after, data=data, started="1999"), gate(not_worse_by=0.1), before)
        assert decision.passed
        assert "different data" in decision.notes[0]
        assert "later" in decision.notes[1]

    def test_a_new_group_is_told(self, tmp_path: Path) -> None:
        values = {"ndcg": 0.5 + 0.1 * noise("a")}
        east = ["east" if place < 10 else region for place, region in enumerate(REGIONS)]
        first, second = write_pair(tmp_path, measured(values, {"region": REGIONS}), measured(values, {"region": east}))
        assert "east" in ra.check(second, gate(by="region", not_worse_by=0.01), first).notes[0]

    def test_a_frame_has_a_row_for_each_question(self, pair: tuple[Run, Run]) -> None:
        before, after = pair
        rules = gate_of({"metric": "ndcg", "by": "region", "not_worse_by": "2%"}, {"metric": "rmse", "at_most": 2})
        frame = ra.check(after, rules, before).frame
        assert frame["rule"].to_list() == [1, 1, 2]
        assert frame["outcome"].to_list() == ["passed", "failed", "passed"]
        assert frame["before"].null_count() == 1


class TestRefused:
    def test_the_run_as_its_own_baseline(self, pair: tuple[Run, Run], tmp_path: Path) -> None:
        _, after = pair
        copy = shutil.copytree(after.path, tmp_path / "copy")
        for path in (after.path, copy):
            with pytest.raises(InputError, match="the run itself"):
                ra.check(after, gate(not_worse_by=0.01), path)

    def test_a_damaged_run(self, pair: tuple[Run, Run], tmp_path: Path) -> None:
        before, after = pair
        copy = Path(shutil.copytree(after.path, tmp_path / "copy"))
        file = copy / "results/ALS/accuracy/terms.parquet"
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.raises(DamagedError):
            ra.check(copy, gate(not_worse_by=0.01), before)

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
