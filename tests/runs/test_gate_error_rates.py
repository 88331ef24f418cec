"""How often a gate fails where nothing has changed, and how often it catches what has: as often as it says."""

from __future__ import annotations

import numpy as np
import polars as pl
from scipy import stats

from recaudit.metrics.intervals import Bootstrap, mean
from recaudit.metrics.paired import term_differences
from recaudit.metrics.terms import by_group, term_table
from recaudit.runs.gate import Answer, Gate, GateQuestion
from recaudit.runs.gate.evidence import beside_baseline
from recaudit.runs.gate.judging import judged
from runs.crafted_pairs import gate_of

NAMES = ("ndcg", "recall", "precision", "map", "mrr")


def drawn(rng: np.random.Generator, effect: float = 0.0, users: int = 150) -> pl.DataFrame:
    """Five numbers of everybody and of one group, before and after, as a comparison has them; one is `effect` worse."""
    ids = pl.Series([str(place) for place in range(users)])
    people = pl.DataFrame({"user": ids, "half": ["one"] * (users // 2) + [None] * (users - users // 2)})
    shared = rng.gamma(0.5, size=(users, 1))
    sides = [shared + 0.5 * rng.gamma(0.5, size=(users, len(NAMES))) for _ in range(2)]
    sides[1][:, 0] -= effect
    before, after = (
        by_group(
            term_table([mean(name, own, np.ones(users)) for name, own in zip(NAMES, side.T, strict=True)], ids), people
        )
        for side in sides
    )
    return term_differences(before, after, Bootstrap(samples=200)).with_columns(status=pl.lit("solved"))


def answered(rows: pl.DataFrame, rules: Gate) -> list[Answer]:
    questions = [
        beside_baseline(GateQuestion(rule, place, "ALS", "accuracy", row["by"]), row)
        for place, rule in enumerate(rules.rules, start=1)
        for row in rows.iter_rows(named=True)
        if (row["metric"], row["by"]) == (rule.metric, rule.by or "")
    ]
    return list(judged(questions, rules))


ONE = gate_of({"metric": "ndcg", "not_worse_by": 0.02})
TEN = gate_of(*({"metric": name, "by": by, "not_worse_by": 0} for name in NAMES for by in (None, "half")))


def test_with_nothing_changed_a_gate_of_ten_rules_fails_in_at_most_one_of_twenty() -> None:
    rng, draws = np.random.default_rng(5), 200
    found = [answered(drawn(rng), TEN) for _ in range(draws)]
    assert all(len(answers) == 10 for answers in found)
    failed = sum(any(answer.outcome == "failed" for answer in answers) for answers in found)
    assert failed <= stats.binom.ppf(0.999, draws, 0.05)


def test_a_known_effect_is_caught_as_often_as_is_said() -> None:
    rng, draws = np.random.default_rng(6), 200
    typical = float(np.median([answered(drawn(rng), ONE)[0].detectable or np.nan for _ in range(20)]))
    caught = sum(answered(drawn(rng, effect=typical), ONE)[0].outcome == "failed" for _ in range(draws))
    assert 0.001 < stats.binom.cdf(caught, draws, 0.8) < 0.999


def test_at_the_margin_itself_one_of_twenty_is_broken() -> None:
    rng, draws = np.random.default_rng(7), 200
    caught = sum(answered(drawn(rng, 0.02), ONE)[0].outcome == "failed" for _ in range(draws))
    assert 0.001 < stats.binom.cdf(caught, draws, 0.05) < 0.999
