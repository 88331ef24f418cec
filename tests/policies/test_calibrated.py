"""The policy `Calibrated`: its settings, and the lists that `recommend` makes with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pydantic import TypeAdapter, ValidationError

import recaudit as ra
from contracts.alike import assert_alike
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.errors import InputError
from recaudit.models import ALS, from_factors
from recaudit.policies import AnyPolicy, Calibrated, Top1
from recaudit.specification import as_data, mistakes


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    return ALS(factors=4, iterations=5, regularization=0.1).fit(split.train)


@pytest.fixture(scope="module")
def films() -> Any:
    """Ann has seen 7 romances and 3 action films; all else is new to her, romances with the higher scores.

    Bob has seen what has no genre; cy has rated nothing that is left in the log.
    """
    names = [f"r{i:02d}" for i in range(20)] + [f"x{i:02d}" for i in range(20)] + ["none"]
    seen = ["r00", "r01", "r02", "r03", "r04", "r05", "r06", "x00", "x01", "x02"]
    rows = [("ann", name) for name in seen] + [("bob", "none")] + [("cy", name) for name in names]
    frame = pl.DataFrame(rows, schema=["user", "item"], orient="row").with_columns(rating=pl.lit(1.0))
    genres = pl.DataFrame({"item": names, "genre": ["romance"] * 20 + ["action"] * 20 + [None]})
    data = Interactions.from_frame(frame, scale=(0, 1)).with_items(genres, categories={"genre": "genre"})
    data = data.subset(data.users != 2)
    scores = [1 - i / 100 for i in range(20)] + [0.5 - i / 100 for i in range(20)] + [0.6]
    order = data.items_at(names)
    factors = np.empty((41, 1))
    factors[order, 0] = scores
    return from_factors(np.ones((3, 1)), factors, data, predicts_ratings=False)


def genres_of(lists: pl.DataFrame, user: str) -> list[str]:
    return [item[0] for item in lists.filter(pl.col("user") == user)["item"]]


class TestSettings:
    def test_it_is_frozen_and_refuses_unknown_settings(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            Calibrated().weight = 0.5
        with pytest.raises(InputError, match="surprise: received a key that is not known"):
            Calibrated(surprise=1)  # type: ignore[call-arg]

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"weight": 1.5}, "weight"),
            ({"weight": ()}, "weight"),
            ({"size": 0}, "size"),
            ({"smoothing": 0}, "smoothing"),
            ({"history_weights": "recency"}, "half_life belongs"),
            ({"half_life": 3.0}, "half_life belongs"),
            ({"must": ("a",), "must_not": ("a", "b")}, r"must_not: received \[\'a\'\]"),
            ({"prior": {"romance": 0.7}}, "sum to 0.7"),
            ({"at_most": {"romance": -1}}, "at_most"),
        ],
    )
    def test_wrong_settings_are_named(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            Calibrated(**settings)

    def test_it_shows_what_differs_from_the_defaults(self) -> None:
        assert repr(Calibrated()) == "Calibrated(weight=0.99)"
        assert repr(Calibrated(weight=0.5, at_most={"a": 1})) == "Calibrated(weight=0.5, at_most={'a': 1})"

    @pytest.mark.parametrize("policy", [Calibrated(), {"kind": "calibrated"}])
    def test_a_single_item_has_no_probability(self, policy: object) -> None:
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(AnyPolicy).validate_python(policy)
        (error,) = mistakes(caught.value)
        assert "a probability of each item" in error.expected
        assert error.remedy.startswith("Calibrated makes whole lists")

    @pytest.mark.parametrize("policy", [Calibrated(weight=0.5), {"kind": "calibrated", "weight": 0.5}])
    def test_questions_about_lists_take_it(self, policy: Any) -> None:
        audit = ra.audits.Calibration(policy=policy)
        assert audit.policy == Calibrated(weight=0.5)
        assert as_data(audit)["policy"]["kind"] == "calibrated"


class TestLists:
    def test_accuracy_gives_romance_alone_calibration_seven_to_three(self, films: Any) -> None:
        """Paper 004, section 2."""
        plain = ra.recommend(films, n=10, users=["ann"])
        calibrated = ra.recommend(films, n=10, users=["ann"], policy=Calibrated())
        assert genres_of(plain, "ann") == ["r"] * 10
        assert sorted(genres_of(calibrated, "ann")) == ["r"] * 7 + ["x"] * 3

    def test_within_a_genre_the_best_come_first(self, films: Any) -> None:
        items = ra.recommend(films, n=10, users=["ann"], policy=Calibrated())["item"].to_list()
        assert sorted(items) == [*(f"r{i:02d}" for i in range(7, 14)), "x03", "x04", "x05"]

    def test_users_without_interests_get_the_list_by_score(self, films: Any) -> None:
        """Bob's one item has no genre; cy has no history."""
        plain = ra.recommend(films, n=5)
        calibrated = ra.recommend(films, n=5, policy=Calibrated())
        for user in ("bob", "cy"):
            assert plain.filter(user=user).equals(calibrated.filter(user=user))

    def test_with_a_prior_they_follow_it(self, films: Any) -> None:
        policy = Calibrated(prior_weight=0.1, prior={"romance": 0.5, "action": 0.5})
        lists = ra.recommend(films, n=10, policy=policy, users=["cy"])
        assert sorted(genres_of(lists, "cy")) == ["r"] * 5 + ["x"] * 5
        assert (
            sorted(genres_of(ra.recommend(films, n=10, policy=Calibrated(prior_weight=0.1), users=["cy"]), "cy"))
            == ["r"] * 7 + ["x"] * 3
        )

    @pytest.mark.parametrize("transform", ["none", "rank", "zscore", "minmax"])
    def test_weight_0_is_the_models_ranking(self, model: Any, transform: Any) -> None:
        policy = Calibrated(weight=0, transform=transform)
        # Lists are the same; scores are summed in another order, where a list is made of all of them.
        assert_frame_equal(ra.recommend(model, n=30, policy=policy), ra.recommend(model, n=30), rel_tol=1e-12)

    def test_a_transform_makes_the_size_of_scores_irrelevant(self, films: Any) -> None:
        larger = from_factors(np.full((3, 1), 1000.0), films.item_factors, films.data, predicts_ratings=False)
        raw = [ra.recommend(m, n=10, users=["ann"], policy=Calibrated(weight=0.9)) for m in (films, larger)]
        assert raw[0]["item"].to_list() != raw[1]["item"].to_list()
        for transform in ("rank", "zscore", "minmax"):
            policy = Calibrated(weight=0.9, transform=transform)
            first, second = (ra.recommend(m, n=10, users=["ann"], policy=policy) for m in (films, larger))
            assert first["item"].to_list() == second["item"].to_list()

    def test_a_schedule_starts_with_the_scores_and_ends_calibrated(self, films: Any) -> None:
        genres = genres_of(
            ra.recommend(films, n=10, users=["ann"], policy=Calibrated(weight=(0, 0, 0, 0, 0, 1))), "ann"
        )
        assert genres[:5] == ["r"] * 5
        assert genres.count("x") == 3

    def test_a_shorter_list_is_the_beginning_of_a_longer_one(self, model: Any) -> None:
        policy = Calibrated(weight=0.9, horizon="prefix")
        ten, fifty = (ra.recommend(model, n=n, policy=policy) for n in (10, 50))
        assert ten.equals(fifty.filter(pl.col("rank") <= 10))

    def test_the_list_that_is_asked_for_is_calibrated_as_a_whole(self, films: Any) -> None:
        assert genres_of(ra.recommend(films, n=10, users=["ann"], policy=Calibrated()), "ann").count("x") == 3

    def test_constraints_hold(self, films: Any) -> None:
        policy = Calibrated(at_most={"romance": 2}, must=("x19", "r00"), must_not=("x03",))
        items = ra.recommend(films, n=6, users=["ann"], policy=policy)["item"].to_list()
        assert "x19" in items
        assert "x03" not in items
        assert "r00" not in items  # ann has seen it
        assert [item[0] for item in items].count("r") == 2

    def test_recent_choices_can_count_more(self) -> None:
        frame = pl.DataFrame(
            {"user": ["u"] * 4 + ["v"] * 8, "item": list("abcd") + list("abcdefgh"), "time": [0, 0, 10, 10] + [0] * 8}
        )
        genres = pl.DataFrame({"item": list("abcdefgh"), "genre": ["old", "old", "new", "new"] + ["old", "new"] * 2})
        data = Interactions.from_frame(frame, rating=None, time="time").with_items(genres, categories={"g": "genre"})
        model = from_factors(np.ones((2, 1)), np.ones((8, 1)), data, predicts_ratings=False)
        even = ra.recommend(model, n=4, users=["u"], policy=Calibrated())
        recent = ra.recommend(model, n=1, users=["u"], policy=Calibrated(history_weights="recency", half_life=1))
        kind = dict(genres.iter_rows())
        assert [kind[item] for item in even["item"]] in (["old", "new"] * 2, ["new", "old"] * 2)
        assert [kind[item] for item in recent["item"]] == ["new"]

    def test_engines_and_blocks_do_not_matter(self, model: Any) -> None:
        policy = Calibrated(weight=0.9)
        together = ra.recommend(model, n=10, policy=policy)
        assert together.equals(ra.recommend(model, n=10, policy=policy, engine=ra.engines.Threads(3)))
        alone = ra.recommend(model, n=10, policy=policy, users=["user-010"])
        assert_alike(together.filter(user="user-010"), alone)

    def test_exposure_takes_it(self, model: Any) -> None:
        plain, calibrated = (ra.exposure(model, k=10, policy=p) for p in (Top1(), Calibrated()))
        assert calibrated.settings["policy"]["weight"] == 0.99
        assert not plain.items.equals(calibrated.items)

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            (Calibrated(categories="genr"), "categories: received 'genr'.*Did you mean 'genre'"),
            (Calibrated(at_most={"Drma": 1}), "at_most"),
            (Calibrated(must=("film-9999",)), "must: received row 0: 'film-9999'"),
            (Calibrated(prior_weight=0.1, prior={"Drma": 1.0}), "prior"),
        ],
    )
    def test_names_are_checked_against_the_log(self, model: Any, policy: Calibrated, message: str) -> None:
        with pytest.raises(InputError, match=message):
            ra.recommend(model, policy=policy)

    def test_a_log_without_categories_is_refused(self, tiny: Interactions) -> None:
        with pytest.raises(InputError, match="with_items"):
            ra.recommend(
                from_factors(np.ones((3, 1)), np.ones((4, 1)), tiny, predicts_ratings=False), policy=Calibrated()
            )


def test_several_systems_are_calibrated_side_by_side() -> None:
    """Half of the history is new, half is French; an item is one or the other in each system."""
    names = [f"{a}{b}{i}" for i in range(6) for a in "no" for b in "fe"]
    rows = [("u", name) for name in ("nf0", "oe0")] + [("v", name) for name in names]
    frame = pl.DataFrame(rows, schema=["user", "item"], orient="row")
    kinds = pl.DataFrame({"item": names, "age": [n[0] for n in names], "language": [n[1] for n in names]})
    data = Interactions.from_frame(frame, rating=None).with_items(
        kinds, categories={"age": "age", "language": "language"}
    )
    levels = {"ne": 2.0, "nf": 1.0 + 1e-6}
    scores = np.array([[levels.get(name[:2], 1.0)] for name in data.item_ids])
    model = from_factors(np.ones((2, 1)), scores, data, predicts_ratings=False)
    with pytest.raises(InputError, match="several category systems"):
        ra.recommend(model, policy=Calibrated(), users=["u"])

    def counts(categories: dict[str, float]) -> tuple[int, int]:
        """How many of four items are new, and how many are French."""
        items = ra.recommend(model, n=4, policy=Calibrated(categories=categories), users=["u"])["item"].to_list()
        return sum(item[0] == "n" for item in items), sum(item[1] == "f" for item in items)

    assert counts({"age": 1.0, "language": 1.0}) == (2, 2)
    assert counts({"age": 0.0, "language": 1.0}) == (4, 2)
