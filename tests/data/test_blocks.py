from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recaudit.data import synthetic
from recaudit.data.synthetic import BlockWorld
from recaudit.errors import InputError


def small(rng: int = 0, **changes: Any) -> BlockWorld:
    return synthetic.blocks(**{"users": 300, "items": 360, "rng": rng, **changes})


@pytest.fixture(scope="module")
def paper() -> BlockWorld:
    """As section 4.1 has it."""
    return synthetic.blocks()


def is_related(world: BlockWorld, log: Any) -> Any:
    return world.related[world.user_group[log.users], world.item_group[log.items]]


class TestThePapersWorld:
    def test_shape_and_group_sizes(self, paper: BlockWorld) -> None:
        assert (paper.data.n_users, paper.data.n_items) == (5000, 6000)
        people, things = np.bincount(paper.user_group), np.bincount(paper.item_group)
        assert (len(people), len(things)) == (5, 10)
        assert people.min() >= 400
        assert people.max() <= 1600
        assert things.min() >= 100
        assert things.max() <= 1400

    def test_a_quarter_of_the_blocks_is_on_and_every_group_is_in_one(self, paper: BlockWorld) -> None:
        assert paper.related.sum() == round(50 / 4)
        assert paper.related.any(axis=0).all()
        assert paper.related.any(axis=1).all()

    def test_densities(self, paper: BlockWorld) -> None:
        pairs = 5000 * 6000
        off = paper.off_share
        on_rated = len(paper.held_out) + int((~paper.noise).sum())
        assert on_rated / (pairs * (1 - off)) == pytest.approx(0.25, rel=0.01)
        assert paper.noise.sum() / (pairs * off) == pytest.approx(0.025, rel=0.01)
        assert len(paper.held_out) / on_rated == pytest.approx(0.25, rel=0.01)

    def test_noise_is_what_crosses_groups_and_none_of_it_is_held_out(self, paper: BlockWorld) -> None:
        np.testing.assert_array_equal(is_related(paper, paper.data), ~paper.noise)
        assert is_related(paper, paper.held_out).all()

    def test_an_on_block_has_four_parts_with_a_rating_each(self, paper: BlockWorld) -> None:
        data = paper.data
        group, other = np.argwhere(paper.related)[0]
        inside = (paper.user_group[data.users] == group) & (paper.item_group[data.items] == other)
        own, theirs = np.flatnonzero(paper.user_group == group), np.flatnonzero(paper.item_group == other)
        upper = data.users[inside] < own[(len(own) + 1) // 2]
        left = data.items[inside] < theirs[(len(theirs) + 1) // 2]
        ratings = data.ratings[inside]
        for half in (upper, ~upper):
            for part in (left, ~left):
                assert len(np.unique(ratings[half & part])) == 1

    def test_noise_has_ratings_of_every_kind(self, paper: BlockWorld) -> None:
        shares = np.bincount(paper.data.ratings[paper.noise].astype(int), minlength=6)[1:] / paper.noise.sum()
        np.testing.assert_allclose(shares, 0.2, atol=0.01)


def test_train_and_test_share_ids_but_no_pair() -> None:
    world = small()
    assert world.data.item_ids.equals(world.held_out.item_ids)
    seen, tested = (log.users.astype(np.int64) * 360 + log.items for log in (world.data, world.held_out))
    assert len(tested)
    assert not np.isin(tested, seen).any()


def test_the_seed_decides() -> None:
    assert small(3).data.fingerprint == small(3).data.fingerprint
    assert small(3).data.fingerprint != small(4).data.fingerprint


def test_groups_have_names() -> None:
    world = small()
    first = world.data.attributes["group"][0]
    assert first == f"users {world.user_group[0] + 1}"
    assert set(world.data.categories["group"].names) == {f"items {g + 1}" for g in range(10)}


def test_without_noise_nobody_leaves_their_blocks() -> None:
    world = small(off_density=0.0)
    assert not world.noise.any()
    assert is_related(world, world.data).all()


def test_users_who_rated_nothing_are_left_out_of_the_truth_too() -> None:
    world = small(users=40, items=40, item_groups=5, on_density=0.05, off_density=0.0)
    assert world.data.n_users < 40
    assert (len(world.user_group), len(world.item_group)) == (world.data.n_users, world.data.n_items)
    assert is_related(world, world.data).all()


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(1, 6), st.floats(0, 1), st.integers(0, 99))
def test_every_group_is_in_an_on_block_whatever_their_number(rows: int, columns: int, share: float, rng: int) -> None:
    wanted = round(share * rows * columns)
    make = {"user_groups": rows, "item_groups": columns, "on_share": share, "users": 60, "items": 60}
    if wanted < max(rows, columns):
        with pytest.raises(InputError, match="on_share"):
            small(rng, **make)
        return
    world = small(rng, **make)
    assert world.related.sum() == wanted
    assert world.related.any(axis=0).all()
    assert world.related.any(axis=1).all()
    assert (np.bincount(world.user_group) > 0).all()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"user_groups": 0}, "user_groups"),
        ({"item_groups": 400}, "item_groups"),
        ({"user_sizes": (1, 10)}, "user_sizes"),
        ({"cuts": 0}, "cuts"),
        ({"stars": (5, 1)}, "stars"),
        ({"off_density": 2.0}, "off_density"),
        ({"held_out": 1.0}, "held_out"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        small(**wrong)


class TestToy:
    def test_children_rate_nothing_but_family_films(self) -> None:
        data = synthetic.toy().data
        rows = data.frame().filter(data.frame()["user"].str.starts_with("children"))
        family = {i for i, g in zip(data.item_ids, genres(data), strict=True) if g == "Family"}
        assert set(rows["item"]) <= family

    def test_only_bilingual_users_rate_japanese_films(self) -> None:
        data = synthetic.toy().data
        japanese = [i for i, g in zip(data.item_ids, genres(data), strict=True) if g == "Japanese"]
        users = data.frame().filter(data.frame()["item"].is_in(japanese))["user"]
        assert users.str.starts_with("bilingual").all()

    def test_popular_films_are_rated_across_groups(self) -> None:
        world = synthetic.toy()
        raters = [
            len(np.unique(world.user_group[world.data.users[world.data.items == item]]))
            for item in range(world.data.n_items)
        ]
        popular = (world.related.sum(axis=0) > 1)[world.item_group]
        assert popular.sum() == 6
        assert min(np.array(raters)[popular]) > 1
        assert set(np.array(raters)[~popular]) == {1}

    def test_people_mostly_rate_what_they_enjoy(self) -> None:
        assert (synthetic.toy().data.ratings >= 4).mean() > 0.6


def genres(data: Any) -> list[str]:
    system = data.categories["genre"]
    return [system.names[g] for g in system.weights.indices]
