"""One pair is worked out: the one that climbs most, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.arrays import IntArray
from recaudit.audits.audit import Subject
from recaudit.audits.reachability.audit import Reachability, worked_example
from recaudit.audits.reachability.pairs import Method
from recaudit.audits.result import Result
from recaudit.data import Interactions
from recaudit.data.synthetic import World
from recaudit.errors import InputError
from recaudit.interventions import NextK, Past, Stars
from recaudit.models import ALS, as_black_box
from recaudit.policies import Softmax

Rows = Sequence[tuple[str, str, float | None, int | None]]


class Solved(Method):
    """Every pair that it is asked about, with an action that names it."""

    def __call__(self, users: IntArray) -> pl.DataFrame:
        assert self.audit.best_actions
        assert self.targets is not None
        user, item = self.log.user_ids[int(users[0])], self.log.item_ids[int(self.targets[0])]
        return pl.DataFrame({"user": [user], "item": [item], "action_items": [["x", f"{user} {item}"]]})


def worked(rows: Rows) -> pl.DataFrame:
    """The example of these pairs: user, item, value, rank_gain."""
    schema = {"user": pl.String, "item": pl.String, "value": pl.Float64, "rank_gain": pl.Int32}
    pairs = pl.DataFrame(rows, schema, orient="row")
    log = Interactions.from_frame(pairs.select("user", "item", rating=pl.lit(3.0)), scale=(1, 5))
    model = ra.models.from_factors(np.ones((log.n_users, 1)), np.ones((log.n_items, 1)), log, predicts_ratings=False)
    return worked_example(Solved(Reachability(), model, log, None, 0), pairs)


@pytest.mark.parametrize(
    ("rows", "taken"),
    [
        ([("u", "a", 0.9, 3), ("u", "b", 0.1, 7), ("v", "a", 0.5, 6)], "u b"),
        ([("u", "a", 0.1, 7), ("v", "b", 0.3, 7), ("w", "c", 0.3, 7)], "v b"),  # the best chance, then the first row
        ([("u", "a", 0.3, 7), ("v", "b", 0.3 * (1 + 1e-14), 7)], "u a"),  # differ by rounding: equal
        ([("u", "a", None, None), ("u", "b", 0.1, 1)], "u b"),
    ],
)
def test_the_pair_that_climbs_most(rows: Rows, taken: str) -> None:
    assert worked(rows)["action_items"].to_list() == [["x", taken]]


def test_where_nothing_climbs_nothing_is_worked_out() -> None:
    assert worked([("u", "a", 0.9, 0), ("u", "b", 0.1, -2), ("v", "a", None, None)]).width == 0


@pytest.mark.parametrize("actions", [NextK(3), Past(2)], ids=str)
def test_it_is_the_pairs_own_row_with_the_best_action(world: World, actions: Any) -> None:
    """Whether solved again or, where all pairs have theirs, taken from them."""
    model = ALS(factors=3, iterations=3).fit(world.data)
    plain, full = (ra.reachability(model, actions=actions, users=4, best_actions=best) for best in (False, True))
    (row,) = plain.table("example").to_dicts()
    assert row["rank_gain"] == plain.pairs["rank_gain"].max()
    (own,) = full.pairs.filter(pl.col("user") == row["user"], pl.col("item") == row["item"]).to_dicts()
    assert full.table("example").to_dicts() == [row]
    assert row["action_items"] == own["action_items"]
    assert row["action_ratings"] == pytest.approx(own["action_ratings"])
    assert row["value"] == pytest.approx(own["value"], rel=1e-12)


def test_a_system_is_not_asked_once_more(world: World) -> None:
    box = as_black_box(ALS(factors=3, iterations=3).fit(world.data))
    found = ra.reachability(box, users=1, targets=3, budget=10)
    asked = box.queries.asked
    assert "example" not in found.tables
    assert box.queries.asked == asked


def test_a_run_fits_the_model_of_a_past(world: World) -> None:
    """With a recommender at hand, the model is one that has not seen the last ratings; else it is taken as it is."""
    data, recommender = world.data, ALS(factors=3, iterations=3)
    audit = Reachability(actions=Past(2), users=3, policy=Softmax(beta=2.0))
    train, before = Past(5).before(data), recommender.fit(Past(2).before(data), rng=4)
    found = audit.run(Subject(recommender.fit(train, rng=4), recommender, data), rng=4)
    assert found.pairs.equals(audit.run(Subject(before, data=data), rng=4).pairs)
    own = Reachability(users=3)
    assert own.run(Subject(before, recommender, data)).pairs.equals(own.run(before).pairs)


def test_a_result_comes_back_as_it_was_kept(world: World, tmp_path: Path) -> None:
    model = ALS(factors=3, iterations=3).fit(world.data)
    found = ra.reachability(model, actions=NextK(3), users=4)
    found.save(tmp_path / "kept")
    again = Result.load(tmp_path / "kept")
    assert isinstance(again, ra.audits.ReachabilityResult)
    assert again.audit == found.audit
    assert again.summary() == found.summary()
    assert again.correlations().equals(found.correlations())
    for name, table in found.tables.items():
        assert again.table(name).equals(table)


def test_a_table_of_a_configuration_is_the_same_audit() -> None:
    table = {
        "actions": {"kind": "past", "k": 3, "ratings": {"kind": "stars", "low": 1, "high": 5}, "changes": 2},
        "policy": {"kind": "softmax", "beta": 1.5},
        "users": 7,
        "targets": ["film-001", "film-002"],
    }
    audit = Reachability.model_validate(table)
    actions = Past(3, ratings=Stars(1, 5), changes=2)
    assert audit == Reachability(actions=actions, policy=Softmax(beta=1.5), users=7, targets=("film-001", "film-002"))
    assert audit.resolved_baseline == "factual"
    assert audit.recipe.rung == "counterfactual"


def test_a_past_is_refused_in_a_loop() -> None:
    Reachability().check_loop()
    with pytest.raises(InputError, match=r"actions.kind: received past; expected another kind: a past needs a model"):
        Reachability(actions=Past(2)).check_loop()
