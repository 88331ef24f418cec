"""What an environment is: a frozen description of people, items and what they do, and the data they begin with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializeAsAny, model_validator

from recaudit.arrays import IntArray
from recaudit.data.growth import blank, grown
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.seeding import generator
from recaudit.simulate.loop.exposure import drawn_pairs
from recaudit.simulate.worlds.choices import Choice, TakesAll
from recaudit.simulate.worlds.population import Population
from recaudit.specification import Specification

Repeats = Literal["never", "unrated", "always"]

MOST = 2**31 - 1
"""Most users, items and steps: positions are numbers of 32 bits."""
_BLOCK = 8192
"""How many pairs are rated at once."""


class Environment(Specification, ABC):
    """A frozen, validated description: `population` makes the people, `make` an environment of Gymnasium's kind."""

    users: int = Field(default=1000, ge=1, le=MOST)
    """How many people there are, those who come later included."""
    items: int = Field(default=1700, ge=1, le=MOST)
    """How many items there are, those that come later included."""
    users_per_step: int = Field(default=200, ge=1)
    """How many of those present are online at a step, drawn uniformly or by how active they are."""
    slate: int = Field(default=1, ge=1)
    """How many items are shown to each of them."""
    choice: SerializeAsAny[Choice] = TakesAll()
    """What they do with a slate."""
    noise: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    """Standard deviation of what no model explains in a rating."""
    repeats: Repeats = "never"
    """What may be shown again: nothing, what was not rated, or everything."""
    late_users: int = Field(default=0, ge=0)
    """So many of the users, the last ones, arrive one after the other until `arrival_steps`."""
    late_items: int = Field(default=0, ge=0)
    """So many of the items, the last ones, arrive one after the other until `arrival_steps`."""
    arrival_steps: int = Field(default=100, ge=1)
    """At which step everybody and everything has arrived."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.late_users >= self.users or self.late_items >= self.items:
            raise ValueError(
                f"late_users, late_items: received {self.late_users} of {self.users} users and {self.late_items} of "
                f"{self.items} items; expected fewer than all: somebody and something must be there from the start."
            )
        if self.users_per_step > self.users - self.late_users:
            raise ValueError(
                f"users_per_step: received {self.users_per_step}; expected at most {self.users - self.late_users}, the "
                "users who are there from the start. Lower it, or raise users."
            )
        if self.slate > self.items - self.late_items:
            raise ValueError(
                f"slate: received {self.slate}; expected at most {self.items - self.late_items}, the items that are "
                "there from the start. Lower it, or raise items."
            )
        return self

    @property
    def scale(self) -> tuple[float, float]:
        """The lowest and highest rating that can be given."""
        return (1.0, 5.0)

    @abstractmethod
    def population(self, seed: int = 0) -> Population:
        """The people and items at the beginning: a function of this description and the initial seed alone."""

    def without(self, *dynamics: str) -> Self:
        """The same environment with these dynamics switched off, and everything else as it is."""
        known = self._switches()
        for name in dynamics:
            if name not in known:
                raise InputError(
                    "dynamics",
                    received=name,
                    expected=f"one of {', '.join(known)}" if known else "nothing: this environment has no dynamics",
                )
        changes = {field: value for name in dynamics for field, value in known[name].items()}
        return self.model_copy(update=changes)

    def _switches(self) -> dict[str, dict[str, Any]]:
        """The name of each of the dynamics, and the settings at which it is off."""
        return {}

    @property
    def signature(self) -> str:
        """What the environment is, in full: the same signature and seeds, the same numbers."""
        return f"{type(self).__name__} {self.model_dump_json()} {type(self.choice).__name__}"

    def present_users(self, step: int) -> int:
        """How many users, the first ones, are there at this step."""
        return self.users - self.late_users + _arrived(self.late_users, step, self.arrival_steps)

    def present_items(self, step: int) -> int:
        """How many items, the first ones, are there at this step."""
        return self.items - self.late_items + _arrived(self.late_items, step, self.arrival_steps)

    def offline(self, ratings: int, seed: int = 0, *, population: Population | None = None) -> Interactions:
        """The log that a recommender begins with: so many pairs, drawn without replacement, and rated.

        Drawn uniformly, or by people's activity and items' popularity where the population has them.
        A function of the initial seed. Nobody changes while they rate, so that environments that differ in their
        dynamics alone begin with the very same log. Give a `population` (made with the same seed) to have its people
        live through it instead, each in the order of the draw: what they take changes their tastes, and so their
        ratings. Nobody remembers it, though: what bores people is what they are shown.
        """
        users, items = self.present_users(0), self.present_items(0)
        if not 1 <= ratings <= users * items:
            raise InputError(
                "ratings",
                received=ratings,
                expected=f"a whole number from 1 to {users * items:,}, the pairs of users and items",
            )
        draw = generator(seed, "offline")
        people = population or self.population(seed)
        who, what = drawn_pairs(draw, (users, items), ratings, people.activity, people.popularity)
        noise = draw.standard_normal(ratings)
        values = np.empty(ratings)
        for rows in _rounds(who) if population is not None else _blocks(ratings):
            values[rows] = people.rate(who[rows], what[rows], noise[rows])
            if population is not None:
                people.take(who[rows], what[rows])
                people.forget()
        data = people.about(blank(self.users, self.items, self.scale))
        return grown(data, who, what, values, np.zeros(ratings, dtype=np.int64))


def _arrived(late: int, step: int, steps: int) -> int:
    return late * min(step, steps) // steps


def _blocks(rows: int) -> list[IntArray]:
    """All rows, in blocks that keep memory small."""
    return np.split(np.arange(rows), range(_BLOCK, rows, _BLOCK))


def _rounds(users: IntArray) -> list[IntArray]:
    """Rows in which every user comes at most once, in order: first everybody's first row, then their second, ..."""
    order = np.argsort(users, kind="stable")
    counts = np.bincount(users)
    nth: NDArray[np.int64] = np.arange(len(users)) - np.repeat(np.cumsum(counts) - counts, counts)
    by_round = np.argsort(nth, kind="stable")
    ends = np.cumsum(np.bincount(nth))
    return np.split(order[by_round], ends[:-1])
