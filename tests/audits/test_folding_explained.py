"""What explains folding: single cases, groups that fold onto each other, and neighbours under two models."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from recaudit.audits import FoldingResult, Relatedness, folding, neighbours
from recaudit.audits.folding import explanations
from recaudit.data import Interactions
from recaudit.errors import DataError, InputError, NotSupportedError
from recaudit.models import FactorVectors, TopPop, from_factors


@pytest.fixture(scope="module")
def two_kinds() -> Interactions:
    """Mia and Max rate cartoons, Zoe and Zed rate chillers; each has left out one of their own kind."""
    rated = {"mia": "abc", "max": "bcd", "zoe": "wxy", "zed": "xyz"}
    frame = pl.DataFrame(
        [(user, item, 5.0) for user, items in rated.items() for item in items],
        schema=["user", "item", "rating"],
        orient="row",
    )
    films = pl.DataFrame(
        {
            "item": list("abcdwxyz"),
            "title": [f"Cartoon {c}" for c in "ABCD"] + [f"Chiller {c}" for c in "WXYZ"],
            "genre": ["Animation|Children"] * 4 + ["Horror"] * 4,
        }
    )
    data = Interactions.from_frame(frame, scale=(1, 5))
    return data.with_items(films, title="title", categories={"genre": "genre"})


@pytest.fixture(scope="module")
def folded(two_kinds: Interactions) -> FactorVectors:
    """One dimension for two kinds: everybody points the same way, but the last chiller the other."""
    items = np.array([[1.0, 0.0]] * 7 + [[-1.0, 0.0]])
    items[:, 1] = [0, 0, 0, 0.1, 0, 0, 0.3, 0]
    return from_factors(np.tile([1.0, 0.0], (4, 1)), items, two_kinds, predicts_ratings=False)


@pytest.fixture(scope="module")
def apart(two_kinds: Interactions) -> FactorVectors:
    """Two dimensions: cartoons along the first, chillers along the second."""
    items = np.array([[1.0, 0.0], [2.0, 0.2], [1.0, 0.3], [1.0, 0.4]] + [[0.0, 1.0]] * 4)
    return from_factors(np.ones((4, 2)), items, two_kinds, predicts_ratings=False)


@pytest.fixture(scope="module")
def result(folded: FactorVectors) -> FoldingResult:
    return folding(folded, relatedness=Relatedness.from_categories(folded.data), k=4)


class TestSpurious:
    def test_the_least_related_come_first_with_the_evidence(self, result: FoldingResult) -> None:
        rows = result.spurious("mia", n=2, min_ratings=1)
        # Unseen and not behind her: d, which is of her own kind, then w and x (cosine 1) and y.
        assert rows["title"].to_list() == ["Chiller W", "Chiller X"]
        first = rows.row(0, named=True)
        assert first["user"] == "mia"
        assert (first["item"], first["rank"], first["categories"]) == ("w", 2, "Horror")
        assert (first["relatedness"], first["similarity"], first["overshoot"]) == (
            0,
            pytest.approx(1),
            pytest.approx(1),
        )
        assert first["spurious"]
        assert first["user_rates"] == "Animation 50%, Children 50%"
        assert first["in_common"] == 0
        assert first["most_related"] == [f"Cartoon {c} [Animation|Children]" for c in "ABC"]
        assert first["relatedness_of_rated"] == pytest.approx(1)
        assert first["nearest_by_model"] == [f"Cartoon {c} [Animation|Children]" for c in "ABC"]
        assert first["model_cosine"] == pytest.approx(1)

    def test_what_is_of_the_users_kind_is_not_spurious(self, result: FoldingResult) -> None:
        rows = result.spurious("mia", n=4, min_ratings=1)
        last = rows.row(-1, named=True)
        assert (last["item"], last["spurious"], last["in_common"]) == ("d", False, 1)
        assert last["relatedness"] == pytest.approx(last["relatedness_of_rated"])

    def test_a_user_outside_the_sample_can_be_asked_about(self, folded: FactorVectors, result: FoldingResult) -> None:
        sampled = folding(folded, relatedness=result.relatedness, k=4, sample=2)
        for user in ("mia", "max", "zoe", "zed"):
            assert sampled.spurious(user).equals(result.spurious(user))

    def test_the_worst_cases_are_spurious_and_name_nobody_and_nothing_twice(self, result: FoldingResult) -> None:
        rows = result.worst(10, min_ratings=1)
        assert len(rows) == 4
        assert rows["spurious"].all()
        assert rows["user"].n_unique() == rows["item"].n_unique() == 4
        assert (rows["in_common"] == 0).all()

    def test_unrelated_both_ways_is_clearer_than_unrelated_by_the_log_alone(self, folded: FactorVectors) -> None:
        # By this relatedness d is as foreign to mia as the chillers; what it is about says otherwise.
        strangers = folding(folded, relatedness=Relatedness.given(np.zeros((4, 8))), k=4)
        assert "d" in strangers.spurious("mia", n=4).filter("spurious")["item"].to_list()
        assert strangers.worst(1, min_ratings=1)["in_common"].to_list() == [0]

    def test_how_many_are_looked_at_first_changes_nothing(
        self, folded: FactorVectors, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        strangers = folding(folded, relatedness=Relatedness.given(np.zeros((4, 8))), k=4)
        rows = [strangers.worst(n, min_ratings=1) for n in (1, 2, 10)]
        monkeypatch.setattr(explanations, "_LOOKED", 1)
        for n, before in zip((1, 2, 10), rows, strict=True):
            assert strangers.worst(n, min_ratings=1).equals(before)

    def test_without_titles_and_categories_there_are_ids(self, two_kinds: Interactions, folded: FactorVectors) -> None:
        bare = Interactions.from_frame(two_kinds.frame(), scale=(1, 5))
        model = from_factors(folded.user_factors, folded.item_factors, bare, predicts_ratings=False)
        row = (
            folding(model, relatedness=Relatedness.given(np.zeros((4, 8))), k=4)
            .worst(1, min_ratings=1)
            .row(0, named=True)
        )
        assert row["title"] == row["item"]
        assert (row["categories"], row["user_rates"], row["in_common"]) == (None, None, None)

    def test_a_user_without_ratings_has_no_evidence(self, two_kinds: Interactions, folded: FactorVectors) -> None:
        without = two_kinds.subset(two_kinds.users != two_kinds.users_at(["mia"])[0])
        model = from_factors(folded.user_factors, folded.item_factors, without, predicts_ratings=False)
        row = (
            folding(model, relatedness=Relatedness.from_categories(without), k=4).spurious("mia", 1).row(0, named=True)
        )
        assert row["relatedness"] == 0
        assert (row["most_related"], row["nearest_by_model"]) == ([], [])
        assert (row["user_rates"], row["relatedness_of_rated"], row["model_cosine"]) == (None, None, None)

    def test_items_with_few_ratings_are_neither_cases_nor_evidence(self, result: FoldingResult) -> None:
        assert set(result.worst(10, min_ratings=2)["item"]) <= set("bcxy")
        assert result.worst(10).is_empty()
        row = result.spurious("mia", n=1, min_ratings=2).row(0, named=True)
        assert row["nearest_by_model"] == [f"Cartoon {c} [Animation|Children]" for c in "BC"]

    def test_without_any_there_are_no_rows(self, folded: FactorVectors) -> None:
        found = folding(folded, relatedness=Relatedness.given(np.ones((4, 8))))
        assert found.worst().is_empty()
        assert found.worst().columns == found.spurious("mia").columns

    def test_what_is_refused(self, result: FoldingResult) -> None:
        with pytest.raises(DataError, match="nobody"):
            result.spurious("nobody")
        with pytest.raises(InputError, match="n:"):
            result.worst(0)
        with pytest.raises(InputError, match="Did you mean 'genre'"):
            result.worst(system="genres")


class TestNeighbours:
    def test_two_models_side_by_side(self, folded: FactorVectors, apart: FactorVectors) -> None:
        rows = neighbours(folded, apart, "a", n=3, min_ratings=1)
        assert rows["rank"].to_list() == [0, 1, 2, 3]
        assert rows["first_title"].to_list() == ["Cartoon A", "Cartoon B", "Cartoon C", "Chiller W"]
        assert rows["second_item"].to_list() == ["a", "b", "c", "d"]
        assert rows["first_categories"].to_list()[3] == "Horror"
        expected = [1, 2 / np.hypot(2, 0.2), 1 / np.hypot(1, 0.3), 1 / np.hypot(1, 0.4)]
        assert rows["second_cosine"].to_list() == pytest.approx(expected)

    def test_items_with_few_ratings_are_no_neighbours(self, folded: FactorVectors, apart: FactorVectors) -> None:
        """b, c, x and y have two ratings, the others one."""
        rows = neighbours(folded, apart, "a", n=7, min_ratings=2)
        assert set(rows["first_item"]) == set(rows["second_item"]) == set("abcxy")
        assert len(neighbours(folded, apart, "a")) == 1

    def test_a_small_catalogue_gives_what_it_has(self, folded: FactorVectors, apart: FactorVectors) -> None:
        assert len(neighbours(folded, apart, "z", n=50, min_ratings=1)) == 8

    def test_what_is_refused(self, folded: FactorVectors, tiny: Interactions) -> None:
        other: Any = from_factors(np.ones((3, 1)), np.ones((4, 1)), tiny, predicts_ratings=False)
        with pytest.raises(InputError, match="same 8 items"):
            neighbours(folded, other, "a")
        with pytest.raises(DataError, match="items"):
            neighbours(folded, folded, "nothing")
        with pytest.raises(NotSupportedError, match="BiasedMF"):
            neighbours(folded, TopPop().fit(folded.data), "a")
