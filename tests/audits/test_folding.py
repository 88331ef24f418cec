"""The folding metric: known answers, and the fast path against a dense twin in double precision."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recaudit as ra
from recaudit.audits import FoldingResult, Relatedness, folding
from recaudit.audits.folding.metric import overshoot
from recaudit.data import Interactions, synthetic
from recaudit.data.splits import Split
from recaudit.engines import Engine, Serial, Threads
from recaudit.errors import InputError, NotSupportedError
from recaudit.models import ALS, FactorVectors, TopPop, from_factors


class Travelling(Engine):
    """As an engine in other processes has it: the work arrives as a copy."""

    def map(self, function: Callable[[Any], Any], pieces: Sequence[Any], label: str = "") -> Iterator[Any]:
        return map(pickle.loads(pickle.dumps(function)), pieces)


def unit(rows: Any) -> Any:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1)


def whole(relatedness: Relatedness) -> Any:
    if relatedness.matrix is not None:
        return relatedness.matrix
    return np.clip(relatedness.user_vectors @ relatedness.item_vectors.T, 0, 1)


def dense(model: FactorVectors, relatedness: Relatedness, similarity: str = "cosine") -> Any:
    """The twin: every pair's overshoot as one matrix, in double precision."""
    U, V = model.user_factors, model.item_factors
    if similarity == "cosine":
        U, V = unit(U), unit(V)
    return np.maximum(0, U @ V.T - whole(relatedness))


def log_of(users: int, items: int) -> Interactions:
    """Everybody rated the first item, and somebody every other."""
    user = np.concatenate([np.arange(users), np.arange(items) % users])
    item = np.concatenate([np.zeros(users, dtype=int), np.arange(items)])
    frame = pl.DataFrame({"user": user, "item": item}).unique(maintain_order=True)
    return Interactions.from_frame(frame.with_columns(rating=pl.lit(3.0)), scale=(1, 5))


def random_model(users: int, items: int, rng: int = 0, factors: int = 5) -> FactorVectors:
    draw = np.random.default_rng(rng)
    return from_factors(
        draw.standard_normal((users, factors)),
        draw.standard_normal((items, factors)),
        log_of(users, items),
        predicts_ratings=False,
    )


def random_relatedness(users: int, items: int, rng: int = 1) -> Relatedness:
    draw = np.random.default_rng(rng)
    return Relatedness.from_factors(draw.standard_normal((users, 3)) + 0.5, draw.standard_normal((items, 3)) + 0.5)


@pytest.fixture(scope="module")
def model(split: Split) -> FactorVectors:
    return ALS(factors=4, iterations=5, regularization=0.1).fit(split.train)


@pytest.fixture(scope="module")
def result(model: FactorVectors) -> FoldingResult:
    return folding(model)


class TestKnownAnswers:
    def test_a_case_worked_by_hand(self) -> None:
        """u points along a, and half-way to b; v against a. Relatedness 0.2 everywhere but (u, a)."""
        model = from_factors([[1.0, 0.0], [-2.0, 0.0]], [[3.0, 0.0], [1.0, 1.0]], log_of(2, 2), predicts_ratings=False)
        found = folding(model, relatedness=Relatedness.given([[1.0, 0.2], [0.2, 0.2]]), k=1)
        over = np.sqrt(0.5) - 0.2
        assert found["folding"] == pytest.approx(over / 4)
        assert found["overshoot_share"] == 1 / 4
        assert found.users["folding"].to_list() == pytest.approx([over / 2, 0])
        assert found.items["folding"].to_list() == pytest.approx([0, over / 2])
        assert found.users["overshoot_share"].to_list() == [0.5, 0]

    def test_dot_products_are_not_cut(self) -> None:
        model = from_factors([[2.0], [0.5]], [[3.0], [-1.0]], log_of(2, 2), predicts_ratings=False)
        found = folding(model, relatedness=Relatedness.given(np.full((2, 2), 0.5)), similarity="dot", k=1)
        assert found["folding"] == pytest.approx((5.5 + 1.0) / 4)

    def test_the_largest_value_is_the_share_of_off_blocks(self) -> None:
        world = synthetic.blocks(users=200, items=240, rng=3)
        users, items = world.data.n_users, world.data.n_items
        same = from_factors(np.ones((users, 2)), np.ones((items, 2)), world.data, predicts_ratings=False)
        truth = Relatedness.from_blocks(world.user_group, world.item_group, world.related)
        found = folding(same, relatedness=truth)
        assert found["folding"] == pytest.approx(world.off_share, abs=1e-6)
        assert found["overshoot_share"] == pytest.approx(world.off_share)

    def test_nothing_folds_where_similarity_never_exceeds_relatedness(self) -> None:
        model = random_model(40, 60)
        exact = folding(model, relatedness=Relatedness.from_factors(model.user_factors, model.item_factors))
        anything = folding(model, relatedness=Relatedness.given(np.ones((40, 60))))
        for found in (exact, anything):
            assert [found[name] for name in ("folding", "overshoot_share")] == [0, 0]
        assert anything["spurious_share"] == 0

    def test_negative_similarities_never_contribute(self) -> None:
        model = from_factors(-np.ones((3, 2)), np.ones((5, 2)), log_of(3, 5), predicts_ratings=False)
        found = folding(model, relatedness=Relatedness.given(np.zeros((3, 5))))
        assert (found["folding"], found["overshoot_share"], found["shown_folding"]) == (0, 0, 0)

    def test_blocks_fold_when_there_are_fewer_dimensions_than_blocks(self) -> None:
        """Six groups that never meet: with two dimensions they must overlap, with many they need not."""
        world = synthetic.blocks(
            users=120, items=120, user_groups=6, item_groups=6, on_share=1 / 6, off_density=0.0, stars=(3, 5), rng=1
        )
        truth = Relatedness.from_blocks(world.user_group, world.item_group, world.related)
        flat = folding(ALS(factors=2, iterations=30).fit(world.data), relatedness=truth)["folding"]
        high = np.eye(6)[world.user_group], np.eye(6)[np.flatnonzero(world.related.T)[world.item_group] % 6]
        apart = folding(from_factors(*high, world.data, predicts_ratings=False), relatedness=truth)["folding"]
        assert flat > 0.15
        assert apart == 0

    def test_the_toy_shows_children_horror(self) -> None:
        world = synthetic.toy()
        truth = Relatedness.from_blocks(world.user_group, world.item_group, world.related)
        model = ALS(factors=3, regularization=0.1, per_rating=False, iterations=50).fit(world.data)
        found = folding(model, relatedness=truth, k=8)
        children = [name for name in world.data.user_ids if name.startswith("children")]
        rows = pl.concat([found.spurious(child, n=8) for child in children])
        assert "Horror" in rows.filter("spurious")["categories"].to_list()
        assert not rows.filter("spurious")["categories"].str.contains("Family").any()
        assert found["shown_folding"] > found["folding"] > 0.1


class TestTheFastPath:
    @pytest.mark.parametrize(("users", "items"), [(1, 2), (3, 511), (5, 512), (70, 513), (1030, 90)])
    def test_it_agrees_with_the_dense_twin(self, users: int, items: int) -> None:
        model, relatedness = random_model(users, items), random_relatedness(users, items)
        twin = dense(model, relatedness)
        found = overshoot(unit(model.user_factors), unit(model.item_factors), relatedness, np.arange(users), Serial())
        np.testing.assert_allclose(found.user_sums / items, twin.mean(axis=1), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.item_sums / users, twin.mean(axis=0), rtol=1e-9, atol=1e-9)
        assert found.user_counts.sum() == found.item_counts.sum()
        assert found.user_counts.sum() == pytest.approx((twin > 1e-6).sum(), abs=2)

    @settings(max_examples=40)
    @given(st.integers(1, 12), st.integers(2, 30), st.integers(1, 9), st.integers(0, 999))
    def test_any_shape_and_any_seed(self, users: int, items: int, factors: int, rng: int) -> None:
        model = random_model(users, items, rng, factors)
        relatedness = random_relatedness(users, items, rng + 1)
        found = overshoot(model.user_factors, model.item_factors, relatedness, np.arange(users), Serial())
        twin = dense(model, relatedness, "dot")
        assert found.user_sums.sum() / twin.size == pytest.approx(twin.mean(), abs=1e-5)

    def test_a_given_matrix_and_its_factors_give_the_same(self) -> None:
        model, relatedness = random_model(30, 600), random_relatedness(30, 600)
        given_one = Relatedness.given(whole(relatedness))
        first, second = (folding(model, relatedness=r) for r in (relatedness, given_one))
        assert first["folding"] == pytest.approx(second["folding"], abs=1e-7)
        np.testing.assert_allclose(first.users["folding"], second.users["folding"], atol=1e-6)

    def test_sums_by_group_of_items(self) -> None:
        model, relatedness = random_model(9, 700), random_relatedness(9, 700)
        weights = np.random.default_rng(5).random((700, 3))
        vectors = unit(model.user_factors), unit(model.item_factors)
        found = overshoot(*vectors, relatedness, np.arange(9), Serial(), weights)
        np.testing.assert_allclose(found.group_sums, dense(model, relatedness) @ weights, rtol=1e-5)

    def test_a_users_numbers_do_not_depend_on_the_company(self) -> None:
        model, relatedness = random_model(50, 600), random_relatedness(50, 600)
        vectors = unit(model.user_factors), unit(model.item_factors)
        everybody = overshoot(*vectors, relatedness, np.arange(50), Serial())
        few = np.array([3, 17, 18, 40, 49])
        alone = overshoot(*vectors, relatedness, few, Serial())
        np.testing.assert_allclose(everybody.user_sums[few], alone.user_sums, rtol=1e-9)
        np.testing.assert_array_equal(everybody.user_counts[few], alone.user_counts)

    def test_numbers_do_not_depend_on_the_engine(self) -> None:
        model, relatedness = random_model(2100, 40), random_relatedness(2100, 40)
        first, *others = (
            folding(model, relatedness=relatedness, engine=engine).tables
            for engine in (Serial(), Threads(3), Travelling())
        )
        for tables in others:
            assert all(first[name].equals(table) for name, table in tables.items())


class TestTheResult:
    def test_per_user_and_per_item_values_average_to_the_whole(self, result: FoldingResult) -> None:
        for name in ("folding", "overshoot_share"):
            assert result.users[name].mean() == pytest.approx(result[name], abs=1e-12)
            assert result.items[name].mean() == pytest.approx(result[name], abs=1e-8)

    def test_it_is_that_of_the_log_where_nothing_is_said(self, result: FoldingResult, model: FactorVectors) -> None:
        said = folding(model, relatedness=Relatedness.from_log(model.data))
        assert all(said.tables[name].equals(table) for name, table in result.tables.items())

    def test_what_is_shown_is_judged_by_its_own_pairs(self, result: FoldingResult, model: FactorVectors) -> None:
        twin = dense(model, result.relatedness)
        lists = ra.recommend(model, n=10)
        row, column = model.data.users_at(lists["user"]), model.data.items_at(lists["item"])
        assert result["shown_folding"] == pytest.approx(twin[row, column].mean())
        pairs = result.tables["pairs"]
        assert pairs.select("user", "item", "rank").equals(lists.select("user", "item", "rank"))
        np.testing.assert_allclose(pairs["overshoot"], twin[row, column], atol=1e-12)
        spurious = (pairs["relatedness"] < 0.1) & (pairs["similarity"] > 0.3)
        assert pairs["spurious"].equals(spurious.alias("spurious"))
        assert result["spurious_share"] == pytest.approx(spurious.mean())
        assert result.items["spurious"].sum() == spurious.sum()

    def test_the_value_over_all_pairs_stands_beside_that_of_lists(self, result: FoldingResult) -> None:
        row = result.frame.row(by_predicate=pl.col("metric") == "shown_folding", named=True)
        assert row["baseline"] == pytest.approx(result["folding"])

    def test_groups_of_users_average_to_the_whole(self, result: FoldingResult, model: FactorVectors) -> None:
        rows = result.by("region").filter(pl.col("metric") == "folding")
        sizes = [(model.data.attributes["region"] == group).sum() for group in rows["group"]]
        assert np.average(rows["value"], weights=sizes) == pytest.approx(result["folding"])

    def test_groups_of_items_average_to_the_whole(self, result: FoldingResult, model: FactorVectors) -> None:
        rows = result.by("genre").filter(pl.col("metric") == "folding")
        sizes = model.data.categories["genre"].weights.sum(axis=0)
        assert np.average(rows["value"], weights=sizes) == pytest.approx(result["folding"], abs=1e-6)
        places = result.by("genre").filter(pl.col("metric") == "spurious_share")
        assert places["value"].is_between(0, 1).all()
        assert places["value"].n_unique() > 1

    def test_intervals_enclose_the_values(self, result: FoldingResult) -> None:
        for row in result.frame.iter_rows(named=True):
            assert row["lower"] < row["value"] < row["upper"]

    def test_a_sampled_estimates_interval_covers_the_truth(self) -> None:
        """At 95% about one interval in twenty misses; at 99.9% and ten samples none should."""
        model, relatedness = random_model(400, 50, factors=2), random_relatedness(400, 50)
        truth = folding(model, relatedness=relatedness)["folding"]
        for rng in range(10):
            found = folding(model, relatedness=relatedness, sample=80, confidence=0.999, rng=rng)
            row = found.frame.row(0, named=True)
            assert row["users"] == 80
            assert row["lower"] < truth < row["upper"]
            assert row["value"] != truth

    def test_sampled_users_have_the_values_they_have_among_all(
        self, model: FactorVectors, result: FoldingResult
    ) -> None:
        few = folding(model, sample=20)
        both = few.users.join(result.users, on="user", how="left", suffix="_all")
        assert len(both) == 20
        np.testing.assert_allclose(both["folding"], both["folding_all"], rtol=1e-9)

    def test_users_who_have_seen_everything_have_no_list(self) -> None:
        frame = pl.DataFrame({"user": ["u", "u", "v"], "item": ["a", "b", "a"], "rating": [1.0, 2.0, 3.0]})
        model = from_factors(np.ones((2, 1)), np.ones((2, 1)), Interactions.from_frame(frame), predicts_ratings=False)
        found = folding(model, relatedness=Relatedness.given(np.zeros((2, 2))), k=2)
        row = found.frame.row(by_predicate=pl.col("metric") == "spurious_share", named=True)
        assert (row["users"], row["excluded"], row["value"]) == (1, 1, 1.0)
        assert found["folding"] == 1
        assert found.spurious("u").is_empty()

    def test_the_summary_names_every_number(self, result: FoldingResult) -> None:
        for label in ("Folding ", "Share of pairs that overshoot", "Folding of lists@10", "Spurious share@10"):
            assert label in repr(result)


class TestWhatIsRefused:
    def test_what_needs_the_vectors_of_models_without_them(self, split: Split) -> None:
        found = folding(TopPop().fit(split.train))
        with pytest.raises(NotSupportedError, match="ALS, WALS"):
            found.worst()

    @pytest.mark.parametrize(
        ("wrong", "named"),
        [
            ({"similarity": "euclid"}, "similarity"),
            ({"k": 0}, "k:"),
            ({"sample": 1}, "sample"),
            ({"sample": 10_000}, "sample"),
            ({"unrelated": 1.5}, "unrelated"),
            ({"similar": np.nan}, "similar"),
            ({"by": ["colour"]}, "by"),
            ({"relatedness": np.ones((2, 2))}, "Relatedness.given"),
            ({"relatedness": Relatedness.given(np.ones((2, 2)))}, "users and 80 items"),
        ],
    )
    def test_arguments(self, model: FactorVectors, wrong: dict[str, Any], named: str) -> None:
        with pytest.raises(InputError, match=named):
            folding(model, **wrong)
