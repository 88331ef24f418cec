"""Topics: every item is about one topic, and people like some topics more than others (paper 003, section 4)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal, final

import numpy as np
import polars as pl
from numba import njit
from pydantic import Field

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.seeding import generator
from recaudit.simulate.worlds.environment import Amount, Environment, Population, Size


class Topics(Environment):
    """`rating = clip(preference of the item's topic - boredom + noise)`, preferences uniform in [0.5, 5.5] at first.

    As it stands nobody ever changes: topics-static. With an affinity and a boredom penalty it is topics-dynamic.
    """

    dynamics = MappingProxyType({"affinity": "affinity", "boredom": "boredom_penalty"})

    topics: int = Field(default=19, ge=2)
    """How many topics there are; each item is about one, drawn uniformly."""
    affinity: Amount = 0.0
    """Whoever takes an item likes its topic more by this, and each other topic less by `affinity / (topics - 1)`."""
    boredom_penalty: Amount = 0.0
    """What is taken off the rating of a topic that came too often of late."""
    boredom_threshold: Size = 2
    """How many of the remembered items are too many of one topic: this many or more, as the paper's formula has it.
    RecLab's code asks for more than the number given: its 2 is 3 here."""
    memory: Size = 5
    """How far back people remember."""
    memory_counts: Literal["recommendations", "steps"] = "recommendations"
    """What memory counts: a user's own last items, as RecLab's code does, or steps, as the paper says."""
    bounded: bool = True
    """Whether preferences stay inside the rating scale, as in the paper's formula. Without, as in RecLab's code, they
    grow past it, and whoever likes the topic more than the highest rating changes no more when taking it."""

    def population(self, seed: int = 0) -> TopicsPopulation:
        """Preferences and topics; environments that differ in their dynamics alone have the same."""
        draw = generator(seed, "topics")
        preferences = draw.uniform(0.5, 5.5, (self.users, self.topics))
        return TopicsPopulation(self, preferences, draw.integers(0, self.topics, self.items))

    def people_memory(self) -> int:
        """Preferences, as they are and as they were, and what is remembered, twice."""
        return 8 * self.users * ((2 if self.affinity else 1) * self.topics + 2 * self.remembered)

    @property
    def remembered(self) -> int:
        """How many items a memory holds: in steps, a slate for each of them and one for the step that is going on."""
        return (self.memory + 1) * self.slate if self.memory_counts == "steps" else self.memory


@final
class TopicsPopulation(Population):
    """People by what they think of each topic."""

    def __init__(self, settings: Topics, preferences: FloatArray, topic_of: IntArray) -> None:
        self.settings = settings
        self.n_users, self.n_items = len(preferences), len(topic_of)
        self.scale, self.noise = settings.scale, settings.noise
        self.preferences = preferences
        """(users, topics): as they are now."""
        self.topic_of = topic_of
        """(items,)"""
        self._first = preferences.copy() if settings.affinity else preferences
        self.changing = ("preferences", "recent", "when") if settings.affinity else ("recent", "when")
        self._items_of = np.bincount(topic_of, minlength=settings.topics)
        self.recent = np.full((self.n_users, settings.remembered), -1, dtype=np.int64)
        """(users, remembered): topics, the latest last; -1 where there is nothing yet."""
        self.when = np.full((self.n_users, settings.remembered), -1, dtype=np.int64)

    def utilities(self, users: IntArray) -> FloatArray:
        """(len(users), items): by topic."""
        worth: FloatArray = self.preferences[users]
        if self.settings.boredom_penalty > 0:
            times = (self._remembered(users)[:, :, None] == np.arange(self.settings.topics)).sum(axis=1)
            worth[times >= self.settings.boredom_threshold] -= self.settings.boredom_penalty
        return worth[:, self.topic_of]

    def utility(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): by topic."""
        topics = self.topic_of[items]
        values: FloatArray = self.preferences[users, topics]
        if self.settings.boredom_penalty > 0:
            times = (self._remembered(users) == topics[:, None]).sum(axis=1)
            values[times >= self.settings.boredom_threshold] -= self.settings.boredom_penalty
        return values

    def tastes(self, users: IntArray) -> FloatArray:
        """(len(users), items): preferences, whoever is bored."""
        return self.preferences[users][:, self.topic_of]

    def _remembered(self, users: IntArray) -> IntArray:
        """(len(users), remembered): topics; -1 where there is nothing yet or no more."""
        recent: IntArray = self.recent[users]
        if self.settings.memory_counts == "steps":
            recent[self.when[users] < self.clock - self.settings.memory] = -1
        return recent

    def take(self, users: IntArray, items: IntArray) -> None:
        """Like the topic more and the others less, and remember it."""
        topics = self.topic_of[items]
        for memory, latest in ((self.recent, topics), (self.when, self.clock)):
            memory[users, :-1] = memory[users, 1:]
            memory[users, -1] = latest
        gain = self.settings.affinity
        if gain == 0:
            return
        low, high = self.scale
        if not self.settings.bounded:
            moved = self.preferences[users, topics] <= high
            users, topics = users[moved], topics[moved]
        other = gain / (self.settings.topics - 1)
        self.preferences[users] -= other
        self.preferences[users, topics] += gain + other
        if self.settings.bounded:
            self.preferences[users] = np.clip(self.preferences[users], low, high)

    def forget(self) -> None:
        """No topic was seen of late."""
        self.recent[:], self.when[:] = -1, -1

    def takers(self) -> IntArray:
        """(n,): those who remember something."""
        return np.flatnonzero(self.recent[:, -1] >= 0)

    def drift(self) -> float:
        """Over all pairs: topics count by how many items they have."""
        if self.settings.affinity == 0:
            return 0.0
        squares = _squared_moves(self.preferences, self._first) / self.n_users
        return float(np.sqrt(squares @ self._items_of / self.n_items))

    def about(self, data: Interactions) -> Interactions:
        """The items' topics, as the category system "topic"."""
        names = [f"topic {topic:02d}" for topic in self.topic_of]
        frame = pl.DataFrame({"item": np.arange(self.n_items), "category": names})
        return data.with_categories("topic", frame)


@njit(nogil=True, cache=True)
def _squared_moves(now: FloatArray, before: FloatArray) -> FloatArray:
    """(topics,): `((now - before) ** 2).sum(axis=0)` of (users, topics), row by row as numpy sums, without a copy."""
    out = np.zeros(now.shape[1])
    for user in range(now.shape[0]):
        for topic in range(now.shape[1]):
            moved = now[user, topic] - before[user, topic]
            out[topic] += moved * moved
    return out
