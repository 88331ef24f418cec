"""How often a gate is wrong: false failures, false passes at the margin, and the power that it states."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from recaudit.metrics.intervals import mean
from recaudit.metrics.metric import Metric
from recaudit.metrics.paired import difference_table, pair_terms
from recaudit.metrics.terms import by_group, term_table
from recaudit.runs.comparison import decide
from recaudit.runs.gate import Answer, Gate, GateQuestion
from recaudit.runs.gate.evidence import apply_margin_test
from recaudit.runs.gate.judging import judged
from runs.crafted_pairs import gate_of

NAMES = ("ndcg", "recall", "precision", "map", "mrr")
USERS = 200


def sampled(rng: np.random.Generator, loss: float = 0.0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Terms of five shares of all users and of one group, before and after; the first is lower by `loss`."""
    ids = pl.Series([str(place) for place in range(USERS)])
    people = pl.DataFrame({"user": ids, "half": ["one"] * (USERS // 2) + [None] * (USERS - USERS // 2)})
    taste = rng.beta(2, 4, size=(USERS, 1))
    sides = [np.clip(taste + 0.1 * rng.normal(size=(USERS, len(NAMES))), 0, 1) for _ in range(2)]
    sides[1][:, 0] -= loss * (sides[1][:, 0] > 0) * np.minimum(1, sides[1][:, 0] / max(loss, 1e-9))
    before, after = (
        by_group(
            term_table([mean(name, own, np.ones(USERS)) for name, own in zip(NAMES, side.T, strict=True)], ids), people
        )
        for side in sides
    )
    return before, after


def answered(sides: tuple[pl.DataFrame, pl.DataFrame], rules: Gate) -> list[Answer]:
    numbers = list(pair_terms(*sides))
    rows = difference_table(numbers).with_columns(status=pl.lit("solved")).to_dicts()
    questions = [
        apply_margin_test(
            GateQuestion(rule, place, "ALS", "accuracy", number.by),
            row,
            number,
            Metric(number.metric, "", "", "", "", "higher", bounds=(0.0, 1.0)),
        )
        for place, rule in enumerate(rules.rules, start=1)
        for row, number in zip(rows, numbers, strict=True)
        if (number.metric, number.by) == (rule.metric, rule.by or "")
    ]
    return list(judged(questions))


ONE = gate_of({"metric": "ndcg", "not_worse_by": 0.03})
TEN = gate_of(*({"metric": name, "by": by, "not_worse_by": 0} for name in NAMES for by in (None, "half")))
LENIENT = gate_of(*({"metric": name, "by": by, "not_worse_by": 0.1} for name in NAMES for by in (None, "half")))


def test_a_gate_of_ten_rules_at_their_margins_fails_in_at_most_5_percent() -> None:
    rng, samples = np.random.default_rng(5), 200
    found = [answered(sampled(rng), TEN) for _ in range(samples)]
    assert all(len(answers) == 10 for answers in found)
    failed = sum(any(answer.outcome == "failed" for answer in answers) for answers in found)
    assert failed <= stats.binom.ppf(0.999, samples, 0.05)


def test_an_unchanged_model_passes_ten_wide_rules() -> None:
    rng = np.random.default_rng(8)
    found = [answered(sampled(rng), LENIENT) for _ in range(40)]
    passed = sum(all(answer.outcome == "passed" for answer in answers) for answers in found)
    assert passed >= 36


def test_a_rule_at_its_margin_passes_and_fails_in_at_most_5_percent_each() -> None:
    """The mean loss is the margin exactly: it is computed from many users of the same kind."""
    rng, samples = np.random.default_rng(7), 300
    loss = 0.03
    losses = []
    for _ in range(300):
        before, after = sampled(rng, loss)
        number = next(own for own in pair_terms(before, after) if (own.metric, own.by) == ("ndcg", ""))
        losses.append(number.old - number.new)
    rules = gate_of({"metric": "ndcg", "not_worse_by": round(float(np.mean(losses)), 5)})
    outcomes = [answered(sampled(rng, loss), rules)[0].outcome for _ in range(samples)]
    for outcome in ("passed", "failed"):
        assert outcomes.count(outcome) <= stats.binom.ppf(0.999, samples, 0.05)


def test_a_model_at_the_stated_distance_passes_in_80_percent() -> None:
    rng, samples = np.random.default_rng(6), 200
    tests = [answered(sampled(rng), ONE)[0].question.test for _ in range(20)]
    distance = float(np.median([test.detectable or np.nan for test in tests if test is not None]))
    rules = gate_of({"metric": "ndcg", "not_worse_by": distance})
    passed = sum(answered(sampled(rng), rules)[0].outcome == "passed" for _ in range(samples))
    assert 0.7 < passed / samples < 0.9


@pytest.mark.parametrize("by", ["", "half"])
def test_exchangeable_models_are_named_different_in_at_most_5_percent_of_families(by: str) -> None:
    rng, samples, named = np.random.default_rng(11), 300, 0
    for _ in range(samples):
        found = difference_table(pair_terms(*sampled(rng))).with_columns(status=pl.lit("solved"))
        verdicts = decide(found).filter(pl.col("by") == by)["verdict"]
        named += bool(verdicts.is_in(["better", "worse", "changed"]).any())
    assert named <= stats.binom.ppf(0.999, samples, 0.05)
