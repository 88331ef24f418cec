"""The people and items of an environment as they are right now: the truth, which only an auditor sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions


class Population(ABC):
    """What a kind of environment has to say: what items are worth to users, and what becomes of users who take them.

    Users and items are positions. Everything random in it comes from the initial seed, when it is made; what happens
    later follows from what is taken, and `rate` is handed its noise. So a population is where it is for a reason,
    and two that were shown the same things are equal.
    """

    n_users: int
    n_items: int
    scale: tuple[float, float]
    noise: float
    """The standard deviation of what no model explains in a rating."""
    clock: int = 0
    """The step that is going on, from 0."""
    activity: FloatArray | None = None
    """(users,): how often each of them comes, relative to the others, above 0. None: all alike."""
    popularity: FloatArray | None = None
    """(items,): how often each comes into people's hands before anything is recommended, above 0. None: all alike."""

    @abstractmethod
    def utilities(self, users: IntArray) -> FloatArray:
        """(len(users), items): the rating that each item would get now, without noise and not cut to the scale."""

    def utility(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the same for single pairs."""
        rows, row = np.unique(users, return_inverse=True)
        values: FloatArray = self.utilities(rows)[row, items]
        return values

    def tastes(self, users: IntArray) -> FloatArray:
        """(len(users), items): utilities without passing moods, such as boredom. Drift is how these change."""
        return self.utilities(users)

    def perceived(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): what users believe these items to be worth before they take one: all of it, where nothing is said."""
        return self.utility(users, items)

    def rate(self, users: IntArray, items: IntArray, noise: FloatArray) -> FloatArray:
        """(n,): the ratings given, with standard normal `noise` (n,)."""
        ratings: FloatArray = np.clip(self.utility(users, items) + self.noise * noise, *self.scale)
        return ratings

    def expected_of(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the ratings that would be given now without noise, inside the scale."""
        ratings: FloatArray = np.clip(self.utility(users, items), *self.scale)
        return ratings

    def expected(self, users: IntArray) -> FloatArray:
        """(len(users), items): the rating that each item would get now, without noise, inside the scale."""
        ratings: FloatArray = np.clip(self.utilities(users), *self.scale)
        return ratings

    def take(self, users: IntArray, items: IntArray) -> None:  # noqa: B027  people who stay as they are need none
        """What becomes of distinct `users` (n,) who take one item (n,) each."""

    def forget(self) -> None:  # noqa: B027  people without a memory have nothing to forget
        """Remember nothing of what was taken; tastes stay as they have become."""

    def drift(self) -> float:
        """Root mean square change of tastes since the beginning, over all pairs, in rating points."""
        return 0.0

    def about(self, data: Interactions) -> Interactions:
        """The log with what a recommender may know about the items, such as their topics; here nothing."""
        return data

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that changes, so that a run can go on where it stopped."""
        return {"clock": np.array(self.clock)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Be as `state` says."""
        self.clock = int(state["clock"])
