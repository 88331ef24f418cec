"""Which failures of a system may pass, and what results say of them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import recaudit as ra
from recaudit.audits.failures import causes_of, may_pass, measured_nothing
from recaudit.data import synthetic
from recaudit.errors import BudgetSpentError
from recaudit.interventions import NextK, Stars
from recaudit.models.given.black_box import History, from_system
from recaudit.models.given.queries import Queries


def test_the_own_budget_of_a_pair_does_not_pass() -> None:
    queries = Queries(limit=1)
    queries.add()
    with pytest.raises(BudgetSpentError) as caught:
        queries.add()
    assert not may_pass(str(caught.value))
    assert may_pass("The budget of queries is spent: 7 of 7, counted in the cache for all workers.")
    assert may_pass("The service at http://127.0.0.1 gave 503 Service Unavailable; 4 tries.")


def test_a_pair_whose_budget_went_into_failures_may_be_answered_another_time() -> None:
    def fails() -> None:
        raise OSError("reset by peer")

    from recaudit.models.given.queries import Retry

    with pytest.raises(BudgetSpentError) as caught:
        Retry(retries=5).ask(fails, Queries(limit=2), "ada")
    assert may_pass(str(caught.value))


@pytest.mark.parametrize(
    ("settings", "nothing", "failures"),
    [
        ({}, False, 0),
        ({"failed": {"503": 3}, "answered": {"users": 2, "of": 5}}, False, 3),
        ({"failed": {"503": 5}, "answered": {"users": 0, "of": 5}}, True, 5),
        ({"failed_pairs": {"503": 4}, "answered_pairs": {"pairs": 0, "of": 4}}, True, 4),
        ({"failed_pairs": {"503": 3, "401": 1}, "answered_pairs": {"pairs": 2, "of": 6}}, False, 4),
    ],
)
def test_what_was_answered_is_counted(settings: dict[str, Any], nothing: bool, failures: int) -> None:
    assert measured_nothing(settings) == nothing
    assert sum(causes_of(settings).values()) == failures


def test_pairs_without_an_answer_have_their_causes_in_the_facts() -> None:
    data = synthetic.demo_world(rng=2, users=12, items=20).data
    users = data.user_ids[:3].to_list()

    def scores(history: History) -> list[float]:
        if history.user == users[1]:
            raise ConnectionError("the shard is down")
        return [place + 0.1 * sum(history.ratings) * (7 * place % 5) for place in range(data.n_items)]

    model = from_system(data, scores=scores, retries=0, predicts_ratings=True)
    asked: dict[str, Any] = {"users": users}
    reached = ra.reachability(model, actions=NextK(1), budget=12, **asked)
    effort = ra.recourse(model, goal=ra.AmongFirst(1), items=2, actions=NextK(1, ratings=Stars(1, 5)), **asked)
    for result in (reached, effort):
        [cause] = result.facts["failed_pairs"]
        counts = result.facts["answered_pairs"]
        assert "the shard is down" in cause
        assert 0 < counts["pairs"] < counts["of"]
        failed = result.pairs.filter(pl.col("failure").is_not_null())
        assert set(failed["user"]) == {users[1]}
        assert set(failed["status"]) == {"failed"}
