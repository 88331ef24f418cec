"""Worlds of groups that meet and groups that do not (paper 002, sections 3.1 and 4.1): folding has a truth here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from recaudit.arguments import checked
from recaudit.arrays import BoolArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.seeding import generator

Bounds = tuple[int, int]
_MOST_PAIRS = 10**10
"""Each pair of a user and an item is drawn."""


@final
@dataclass(frozen=True, eq=False)
class BlockWorld:
    """A log of groups that meet and groups that do not, and the truth behind it.

    `Relatedness.from_blocks(world.user_group, world.item_group, world.related)` is the true relatedness.
    """

    data: Interactions
    """What a model may see: related pairs, and noise."""
    held_out: Interactions
    """What it is tested on: related pairs, no noise; empty for the toy."""
    user_group: IntArray
    """(users,)"""
    item_group: IntArray
    """(items,)"""
    related: BoolArray
    """(user groups, item groups): the on-blocks."""
    noise: BoolArray
    """(ratings of `data`,): True for a rating across groups that are not related."""

    @property
    def off_share(self) -> float:
        """The share of pairs that are not related: the largest folding that cosines can have here."""
        return 1 - float(self.related[self.user_group][:, self.item_group].mean())


@checked
def blocks(
    users: int = 5000,
    items: int = 6000,
    user_groups: int = 5,
    item_groups: int = 10,
    *,
    user_sizes: Bounds | None = None,
    item_sizes: Bounds | None = None,
    on_share: float = 0.25,
    cuts: int = 2,
    stars: Bounds = (1, 5),
    on_density: float = 0.25,
    off_density: float = 0.025,
    held_out: float = 0.25,
    rng: int = 0,
) -> BlockWorld:
    """The generator of paper 002, section 4.1; as it stands about 2 million ratings.

    Users and items fall into groups of random sizes within `user_sizes` and `item_sizes` (by default the paper's 400
    to 1600 and 100 to 1400, scaled with the number of users and items). A share `on_share` of the blocks (user group x
    item group), rounded, is on, drawn so that every group is in one. Each block is cut into `cuts` x `cuts` parts with
    one random rating each. Each pair in an on-block is rated with probability `on_density`; each pair in an off-block
    with `off_density`, with a random rating: noise. Of the ratings in on-blocks a share `held_out` is for testing.

    Users and items are in the order of their groups; ids are whole numbers. Users and items without any rating, which
    only tiny worlds have, are left out.
    """
    shares = {"on_share": on_share, "on_density": on_density, "off_density": off_density}
    for name, value, fits, expected in (
        ("user_groups", user_groups, 1 <= user_groups <= users, f"a number of groups from 1 to {users}"),
        ("item_groups", item_groups, 1 <= item_groups <= items, f"a number of groups from 1 to {items}"),
        ("users, items", (users, items), users * items <= _MOST_PAIRS, f"at most {_MOST_PAIRS:,} pairs of them"),
        ("cuts", cuts, 1 <= cuts <= min(users, items), f"a whole number from 1 to {min(users, items)}"),
        ("stars", stars, stars[0] <= stars[1], "the lowest and the highest rating"),
        *((name, share, 0 <= share <= 1, "a share from 0 to 1") for name, share in shares.items()),
        ("held_out", held_out, 0 <= held_out < 1, "a share of 0 or more and below 1"),
    ):
        if not fits:
            raise InputError(name, received=value, expected=expected)
    draw = generator(rng, "blocks")
    user_bounds = user_sizes or (max(1, round(0.4 * users / user_groups)), round(1.6 * users / user_groups))
    item_bounds = item_sizes or (max(1, round(items / item_groups / 6)), round(7 * items / item_groups / 3))
    user_counts = _sizes(draw, "user_sizes", users, user_groups, user_bounds)
    item_counts = _sizes(draw, "item_sizes", items, item_groups, item_bounds)
    related = _on_blocks(draw, user_groups, item_groups, on_share)
    levels = draw.integers(stars[0], stars[1] + 1, (user_groups * cuts, item_groups * cuts))
    user_part, item_part = _parts(user_counts, cuts), _parts(item_counts, cuts)
    user_group, item_group = user_part // cuts, item_part // cuts

    rated: list[tuple[IntArray, IntArray, IntArray, BoolArray]] = []
    start = 0
    for group, count in enumerate(user_counts):
        on = related[group][item_group]
        chance = np.where(on, on_density, off_density).astype(np.float32)
        user, item = np.nonzero(draw.random((count, items), dtype=np.float32) < chance)
        noise = ~on[item]
        rating = levels[user_part[start + user], item_part[item]]
        rating[noise] = draw.integers(stars[0], stars[1] + 1, int(noise.sum()))
        rated.append((start + user, item, rating, noise))
        start += count
    user, item, rating, noise = (np.concatenate(column) for column in zip(*rated, strict=True))
    tested = ~noise & (draw.random(len(noise)) < held_out)

    log = pl.DataFrame({"user": user, "item": item, "rating": rating.astype(np.float64)})
    everything = Interactions.from_frame(log, scale=stars)
    kept_users, kept_items = everything.user_ids.to_numpy(), everything.item_ids.to_numpy()
    everything = everything.with_items(
        pl.DataFrame({"item": kept_items, "group": [f"items {g + 1}" for g in item_group[kept_items]]}),
        categories={"group": "group"},
    ).with_users(
        pl.DataFrame({"user": kept_users, "group": [f"users {g + 1}" for g in user_group[kept_users]]}),
        attributes=["group"],
    )
    return BlockWorld(
        data=everything.subset(~tested),
        held_out=everything.subset(tested),
        user_group=user_group[kept_users],
        item_group=item_group[kept_items],
        related=related,
        noise=noise[~tested],
    )


def _sizes(draw: np.random.Generator, name: str, total: int, groups: int, bounds: Bounds) -> IntArray:
    """(groups,): random sizes within the bounds that sum to the total."""
    low, high = bounds
    if not (1 <= low <= high and groups * low <= total <= groups * high):
        raise InputError(
            name,
            received=bounds,
            expected=f"bounds of at least 1 between which {groups} groups can have {total:,} members together",
        )
    sizes, rest = [], total
    for left in range(groups - 1, -1, -1):
        size = int(draw.integers(max(low, rest - left * high), min(high, rest - left * low) + 1))
        sizes.append(size)
        rest -= size
    return draw.permutation(np.array(sizes))


def _on_blocks(draw: np.random.Generator, rows: int, columns: int, share: float) -> BoolArray:
    """(rows, columns): random blocks, as many as the share says, at least one in each row and each column."""
    wanted = round(share * rows * columns)
    more, fewer = max(rows, columns), min(rows, columns)
    if wanted < more:
        raise InputError(
            "on_share",
            received=share,
            expected=f"at least {more / (rows * columns):.3g}, so that each of the {more} groups can be in an on-block",
        )
    # One block for each group of the longer side, together in all of the shorter; then the rest anywhere.
    partner = np.concatenate([draw.permutation(fewer), draw.integers(0, fewer, more - fewer)])
    on = np.zeros((more, fewer), dtype=bool)
    on[draw.permutation(more), partner] = True
    off = np.flatnonzero(~on)
    on.flat[draw.choice(off, wanted - more, replace=False)] = True
    return on if rows >= columns else np.ascontiguousarray(on.T)


def _parts(sizes: IntArray, cuts: int) -> IntArray:
    """(units,): group * cuts + part, each group cut into as equal parts as can be."""
    return np.concatenate([group * cuts + np.arange(size) * cuts // size for group, size in enumerate(sizes)])


_TOY_USERS = ("children", "action fans", "romantics", "horror fans", "bilingual")
_TOY_FILMS = {
    "Family": ("The Paper Kite", "Otter and Owl", "A Bear Named Tuesday", "The Little Lighthouse", "Moon Parade",
               "Seven Kittens"),
    "Action": ("Full Throttle Nine", "The Last Convoy", "Iron Canyon", "Night Pursuit", "Zero Hour Express",
               "Red Runway"),
    "Romance": ("Letters from Lyon", "The Second Waltz", "Until October", "A Table for Two", "Slow Train to Rome",
                "Rain on Sunday"),
    "Horror": ("The Cellar Door", "Whispers Below", "House of Ash", "The Thirteenth Guest", "Cold Marrow",
               "They Wait"),
    "Japanese": ("Ame no Machi", "Kaze to Tori", "Natsu no Owari", "Yuki no Michi", "Hoshi no Eki",
                 "Tsuki no Koe"),
}  # fmt: skip
_TOY_CROSSING = ("Family", "Action", "Romance")
_TOY_POPULAR = 2
"""The first films of these genres are popular: groups other than their own rate them too."""
_TOY_MEMBERS = 6
"""Users in a group."""
_TOY_GROUPS = (*(f"{popular}{genre}" for genre in _TOY_CROSSING for popular in ("", "popular ")), "Horror", "Japanese")
_TOY_RELATED = {
    "children": ("Family", "popular Family"),
    "action fans": ("Action", "popular Action", "popular Family"),
    "romantics": ("Romance", "popular Romance", "popular Family", "popular Action"),
    "horror fans": ("Horror", "popular Action", "popular Romance"),
    "bilingual": ("Japanese", "popular Action", "popular Romance"),
}


@checked
def toy(rng: int = 0) -> BlockWorld:
    """The world of paper 002, Figure 1, as far as its text says: 30 users and 30 films, to be fitted with 3 factors.

    Films are grouped by genre, or by language; users by what they watch. Children have rated nothing but family films;
    only bilingual users have rated Japanese ones; some popular films of Family, Action and Romance are rated across
    groups. People mostly rate what they enjoy, 4 or 5 stars, and a group is much of one mind about a film. Nothing is
    held out, nothing is noise.
    """
    draw = generator(rng, "toy")
    films = [(title, genre, place) for genre, titles in _TOY_FILMS.items() for place, title in enumerate(titles)]
    item_group = np.array(
        [
            _TOY_GROUPS.index(f"popular {g}" if g in _TOY_CROSSING and place < _TOY_POPULAR else g)
            for _, g, place in films
        ]
    )
    user_group = np.repeat(np.arange(len(_TOY_USERS)), _TOY_MEMBERS)
    related = np.array([[group in _TOY_RELATED[people] for group in _TOY_GROUPS] for people in _TOY_USERS])

    pairs = related[user_group][:, item_group]
    opinion = draw.choice([5, 4, 2], (len(_TOY_USERS), len(films)), p=[0.5, 0.3, 0.2])[user_group]
    enjoyed = np.clip(opinion + draw.choice([-1, 0, 1], pairs.shape, p=[0.15, 0.7, 0.15]), 1, 5)
    user, item = np.nonzero(pairs & (draw.random(pairs.shape) < 0.75))
    names = [f"{people} {number + 1}" for people in _TOY_USERS for number in range(_TOY_MEMBERS)]
    log = pl.DataFrame(
        {
            "user": [names[u] for u in user],
            "item": [films[i][0] for i in item],
            "rating": enjoyed[user, item].astype(np.float64),
        }
    )
    catalogue = pl.DataFrame(
        {"item": [t for t, _, _ in films], "title": [t for t, _, _ in films], "genre": [g for _, g, _ in films]}
    )
    people = pl.DataFrame({"user": names, "group": [_TOY_USERS[g] for g in user_group]})
    data = Interactions.from_frame(log, scale=(1, 5))
    data = data.with_items(catalogue, title="title", categories={"genre": "genre"}, unknown="ignore")
    data = data.with_users(people, attributes=["group"], unknown="ignore")
    kept_users = np.array([names.index(name) for name in data.user_ids])
    kept_items = np.array([catalogue["item"].to_list().index(title) for title in data.item_ids])
    return BlockWorld(
        data=data,
        held_out=data.subset(np.zeros(len(data), dtype=bool)),
        user_group=user_group[kept_users],
        item_group=item_group[kept_items],
        related=related,
        noise=np.zeros(len(data), dtype=bool),
    )
