"""One pair is worked out: the one that climbs most, and no other."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from recaudit.audits.result import Result
from recaudit.runs.worked_example import with_worked_example


def result(rows: Sequence[tuple[str, str, float | None, int | None]]) -> Result:
    """A result with these pairs: user, item, value, rank_gain."""
    schema = {"user": pl.String, "item": pl.String, "value": pl.Float64, "rank_gain": pl.Int32}
    pairs = pl.DataFrame(rows, schema, orient="row")
    return Result("reachability", {}, pl.DataFrame(), pl.DataFrame(), pl.DataFrame(), pl.DataFrame(), pairs)


def solve(user: object, item: object) -> pl.DataFrame:
    return pl.DataFrame({"action_items": [["x", f"{user} {item}"]], "action_ratings": [[5.0, 1.0]]})


def worked(rows: Sequence[tuple[str, str, float | None, int | None]]) -> list[list[str] | None]:
    return with_worked_example(result(rows), solve).pairs["action_items"].to_list()


def test_the_pair_that_climbs_most() -> None:
    rows = [("u", "a", 0.9, 3), ("u", "b", 0.1, 7), ("v", "a", 0.5, 6)]
    assert worked(rows) == [None, ["x", "u b"], None]


def test_among_equals_the_best_chance_and_then_the_first_row() -> None:
    assert worked([("u", "a", 0.1, 7), ("v", "b", 0.3, 7), ("w", "c", 0.3, 7)]) == [None, ["x", "v b"], None]


def test_chances_that_differ_by_rounding_are_equal() -> None:
    assert worked([("u", "a", 0.3, 7), ("v", "b", 0.3 * (1 + 1e-14), 7)]) == [["x", "u a"], None]


def test_a_pair_without_an_answer_is_never_taken() -> None:
    assert worked([("u", "a", None, None), ("u", "b", 0.1, 1)]) == [None, ["x", "u b"]]


def test_pairs_keep_their_order_and_their_columns() -> None:
    before = result([("u", "a", 0.9, 3), ("u", "b", 0.1, 7)])
    after = with_worked_example(before, solve)
    assert after.pairs.drop("action_items", "action_ratings").equals(before.pairs)
    assert after.pairs["action_ratings"].to_list() == [None, [5.0, 1.0]]


def test_where_nothing_climbs_nothing_is_worked_out() -> None:
    def never(user: object, item: object) -> pl.DataFrame:
        raise AssertionError

    still = result([("u", "a", 0.9, 0), ("u", "b", 0.1, -2), ("v", "a", None, None)])
    assert with_worked_example(still, never) is still
