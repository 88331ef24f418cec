from __future__ import annotations

from typing import Any, Literal

import numpy as np
import polars as pl
import pytest

from recaudit.audits import Relatedness
from recaudit.data import Interactions, synthetic
from recaudit.data.synthetic import World
from recaudit.errors import InputError


def whole(relatedness: Relatedness) -> Any:
    if relatedness.matrix is not None:
        return relatedness.matrix
    return np.clip(relatedness.user_vectors @ relatedness.item_vectors.T, 0, 1)


@pytest.fixture(scope="module")
def two_camps() -> Interactions:
    """Twelve users and ten films: the first half of each belong together, and the second."""
    rows = [(u, i) for u in range(12) for i in range(10) if (u < 6) == (i < 5) and (u + 2 * i) % 5]
    frame = pl.DataFrame(rows, schema=["user", "item"], orient="row")
    data = Interactions.from_frame(frame, rating=None)
    genre = ["Drama"] * 5 + ["Horror|Comedy"] * 4 + [""]
    return data.with_items(pl.DataFrame({"item": range(10), "genre": genre}), categories={"genre": "genre"})


class TestFromFactors:
    def test_it_is_the_cosine_cut_at_zero(self) -> None:
        found = whole(Relatedness.from_factors([[2.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [-3.0, 0.0], [0.0, 5.0]]))
        np.testing.assert_allclose(found, [[1, 0, 0], [np.sqrt(0.5), 0, np.sqrt(0.5)]])

    def test_a_vector_of_zeros_is_related_to_nothing(self) -> None:
        found = whole(Relatedness.from_factors([[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0]]))
        np.testing.assert_array_equal(found, [[0], [1]])

    def test_vectors_must_fit_each_other(self) -> None:
        with pytest.raises(InputError, match="item_vectors"):
            Relatedness.from_factors(np.ones((2, 3)), np.ones((4, 2)))
        with pytest.raises(InputError, match="NaN"):
            Relatedness.from_factors([[np.nan]], [[1.0]])


class TestFromLog:
    @pytest.mark.parametrize("method", ["svd", "wals"])
    def test_who_never_meet_are_strangers(self, two_camps: Interactions, method: Literal["svd", "wals"]) -> None:
        found = whole(Relatedness.from_log(two_camps, 2, method=method))
        same = np.equal.outer(np.arange(12) < 6, np.arange(10) < 5)
        assert found[same].min() > 0.8
        assert found[~same].max() < 0.05

    def test_svd_is_that_of_the_indicator_whatever_the_ratings(self, world: World) -> None:
        left, values, right = np.linalg.svd(world.data.csr.toarray() != 0)
        X, Y = left[:, :3] * np.sqrt(values[:3]), right[:3].T * np.sqrt(values[:3])
        X, Y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (X, Y))
        np.testing.assert_allclose(whole(Relatedness.from_log(world.data, 3)), np.maximum(0, X @ Y.T), atol=1e-9)

    def test_both_factorisations_agree_on_who_is_near(self) -> None:
        world = synthetic.blocks(users=150, items=150, item_groups=5, on_share=0.3, rng=2)
        first, second = (
            whole(Relatedness.from_log(world.data, 5, method=method)).ravel() for method in ("svd", "wals")
        )
        assert np.corrcoef(first, second)[0, 1] > 0.9
        truth = world.related[world.user_group][:, world.item_group].ravel()
        assert first[truth].mean() > 3 * first[~truth].mean()

    def test_small_logs_get_a_small_rank(self, tiny: Interactions) -> None:
        assert "rank 2" in Relatedness.from_log(tiny).label
        with pytest.raises(InputError, match="rank"):
            Relatedness.from_log(tiny, 3)

    def test_the_same_log_gives_the_same_numbers(self, two_camps: Interactions) -> None:
        first, again = (whole(Relatedness.from_log(two_camps)) for _ in range(2))
        np.testing.assert_array_equal(first, again)

    def test_unknown_method(self, two_camps: Interactions) -> None:
        with pytest.raises(InputError, match="'svd' or 'wals'"):
            Relatedness.from_log(two_camps, method="pca")  # type: ignore[arg-type]


class TestFromCategories:
    def test_users_are_the_share_of_their_items_in_each_category(self, two_camps: Interactions) -> None:
        found = whole(Relatedness.from_categories(two_camps))
        # The first camp rated Drama alone; the second's films are Horror and Comedy, or nothing at all.
        np.testing.assert_allclose(found[:6, :5], 1)
        np.testing.assert_allclose(found[6:, 5:9], 1)
        assert not found[:6, 5:].any()
        assert not found[6:, :5].any()
        assert not found[:, 9].any()

    def test_a_case_worked_by_hand(self) -> None:
        """u rated a (Drama, Horror) and b (Drama): shares Drama 1, Horror 1/2."""
        frame = pl.DataFrame({"user": ["u", "u", "v"], "item": ["a", "b", "c"], "rating": [1.0, 5.0, 3.0]})
        genre = pl.DataFrame({"item": ["a", "b", "c"], "genre": ["Drama|Horror", "Drama", "Horror"]})
        data = Interactions.from_frame(frame).with_items(genre, categories={"genre": "genre"})
        length = np.sqrt(1 + 1 / 4)
        expected = [1.5 / length / np.sqrt(2), 1 / length, 0.5 / length]
        np.testing.assert_allclose(whole(Relatedness.from_categories(data))[0], expected)

    def test_unknown_system(self, two_camps: Interactions, tiny: Interactions) -> None:
        with pytest.raises(InputError, match="Did you mean 'genre'"):
            Relatedness.from_categories(two_camps, "gener")
        with pytest.raises(InputError, match="with_categories"):
            Relatedness.from_categories(tiny)


class TestFromBlocks:
    def test_it_is_the_table_of_groups(self) -> None:
        table = np.array([[True, False, True], [False, True, True]])
        people, things = [1, 0, 0], [2, 0, 1, 1]
        found = whole(Relatedness.from_blocks(people, things, table))
        np.testing.assert_array_equal(found, table[people][:, things])

    @pytest.mark.parametrize(
        ("people", "things", "table", "named"),
        [
            ([0, 2], [0], [[1, 0], [0, 1]], "user_group"),
            ([0], [0.5], [[1]], "item_group"),
            ([0], [-1], [[1]], "item_group"),
            ([0], [0], [[0.5]], "related"),
            ([0], [0], [1], "related"),
        ],
    )
    def test_what_does_not_fit(self, people: Any, things: Any, table: Any, named: str) -> None:
        with pytest.raises(InputError, match=named):
            Relatedness.from_blocks(people, things, table)


class TestGiven:
    def test_rows_and_pairs(self) -> None:
        matrix = np.arange(6).reshape(2, 3) / 5
        found = Relatedness.given(matrix)
        np.testing.assert_array_equal(whole(found), matrix)
        np.testing.assert_array_equal(found.pairs(np.array([1, 0]), np.array([2, 1])), [1.0, 0.2])

    def test_numbers_outside_zero_to_one(self) -> None:
        with pytest.raises(InputError, match="from 0"):
            Relatedness.given([[1.5, 0.0]])


@pytest.mark.parametrize("kind", ["log", "categories", "blocks", "given"])
def test_pairs_are_entries_of_the_rows(two_camps: Interactions, kind: str) -> None:
    made = {
        "log": lambda: Relatedness.from_log(two_camps),
        "categories": lambda: Relatedness.from_categories(two_camps),
        "blocks": lambda: Relatedness.from_blocks(np.arange(12) % 2, np.arange(10) % 3, np.eye(3)[:2] > 0),
        "given": lambda: Relatedness.given(np.random.default_rng(0).random((12, 10))),
    }[kind]()
    assert made.shape == (12, 10)
    rows, users, items = whole(made), np.array([3, 11, 0]), np.array([9, 0, 4])
    assert rows.min() >= 0
    assert rows.max() <= 1
    np.testing.assert_allclose(made.pairs(users, items), rows[users, items], atol=1e-12)
    assert "12 users x 10 items" in repr(made)
