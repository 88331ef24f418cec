"""From data: an environment whose people and items are those of a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, field_serializer, model_validator

from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.base import Recommender
from recaudit.seeding import generator
from recaudit.simulate.loop.learning import Factors, Learned, learn, nearest
from recaudit.simulate.offline.fidelity import fidelity
from recaudit.simulate.offline.fidelity_result import SimulationFidelity
from recaudit.simulate.worlds.choices import Choice, TakesAll
from recaudit.simulate.worlds.environment import Repeats
from recaudit.simulate.worlds.latent import LatentDynamics, LatentPopulation
from recaudit.simulate.worlds.population import Population

Exposure = Literal["log", "uniform"]
OfflineLog = Literal["made", "real"]


@final
class FromData(LatentDynamics):
    """`rating = nearest level of (what the fitted model predicts - boredom + noise)`: build it with `from_data`.

    The people are those of the log, whatever the initial seed, which draws the offline log. Items are worth to them
    what a model fitted to their ratings says; affinity and boredom need one that has factors.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    learned: Learned
    """What the log says."""
    rounded: bool = True
    """Whether ratings are rounded to the levels of the log."""
    exposure: Exposure = "log"
    """Who is online and what offline logs hold: by the log's activity and popularity, or uniformly as in RecLab."""
    offline_log: OfflineLog = "made"
    """What a recommender begins with: ratings that these people make up, or those they gave."""

    @model_validator(mode="after")
    def _fits_the_log(self) -> Self:
        log = self.learned.log
        if (self.users, self.items) != (log.n_users, log.n_items):
            raise ValueError(
                f"users, items: received {self.users:,} and {self.items:,}; expected {log.n_users:,} and "
                f"{log.n_items:,}, those of the log. Take a part of the log to have fewer."
            )
        if self.rounded and self.learned.levels is None:
            raise ValueError("rounded: received True; expected False, since the log is rated on a continuous scale.")
        moved = {"affinity": self.affinity, "boredom_penalty": self.boredom_penalty}
        named = [name for name, value in moved.items() if value > 0]
        if named and not isinstance(self.learned.worth, Factors):
            kind = type(self.learned.recommender).__name__
            raise ValueError(
                f"{', '.join(named)}: received more than 0; expected 0, since {kind} has no factors that could move. "
                "Use ALS or BiasedMF, or leave the recommender out."
            )
        return self

    @field_serializer("learned")
    def _source(self, learned: Learned) -> str:
        return learned.signature

    @property
    def scale(self) -> tuple[float, float]:
        """That of the log."""
        return self.learned.log.scale

    def population(self, seed: int = 0) -> LogPopulation:
        """The people of the log; the seed makes no difference."""
        return LogPopulation(self)

    def offline(self, ratings: int, seed: int = 0, *, population: Population | None = None) -> Interactions:
        """As in every environment; or so many of the log's own ratings, drawn uniformly, where `offline_log` is real.

        People have lived through the log, to which they were fitted: its own ratings do not change them once more.
        """
        if self.offline_log == "made":
            return super().offline(ratings, seed, population=population)
        log = self.real_log()
        there = np.flatnonzero((log.users < self.present_users(0)) & (log.items < self.present_items(0)))
        if not 1 <= ratings <= len(there):
            raise InputError(
                "ratings",
                received=ratings,
                expected=f"a whole number from 1 to {len(there):,}, the log's ratings of what is there at the start",
            )
        rows = np.zeros(len(log), dtype=bool)
        rows[generator(seed, "real").choice(there, ratings, replace=False)] = True
        return log.subset(rows)

    def real_log(self) -> Interactions:
        """The log itself, with times that end at 0, where the simulation begins; those without times are all 0."""
        log = self.learned.log
        if log.times is None:
            return replace(log, times=np.zeros(len(log), dtype=np.int64))
        distinct, place = np.unique(log.times, return_inverse=True)
        return replace(log, times=place.astype(np.int64) - (len(distinct) - 1))

    def fidelity(self, data: Interactions | None = None, rng: int = 0) -> SimulationFidelity:
        """How a log that these people make differs from `data`; without it, from the log that they were fitted to."""
        made = self.model_copy(update={"offline_log": "made"})
        return fidelity(made, self.learned.log if data is None else data, rng)


@final
class LogPopulation(Population):
    """The people of a log, under their own ids."""

    def __init__(self, settings: FromData) -> None:
        learned = settings.learned
        self.log = learned.log
        self.n_users, self.n_items = settings.users, settings.items
        self.scale, self.noise = settings.scale, settings.noise
        self.levels = learned.levels if settings.rounded else None
        if settings.exposure == "log":
            self.activity, self.popularity = learned.activity, learned.popularity
        worth = learned.worth
        self._people: Population
        if isinstance(worth, Factors):
            self._people = LatentPopulation(settings, worth.users, worth.items, worth.level, worth.bias)
        else:
            self._people = _Scored(worth)

    def utilities(self, users: IntArray) -> FloatArray:
        """(len(users), items): what the model predicts, less boredom."""
        return self._people.utilities(users)

    def utility(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the same for single pairs."""
        return self._people.utility(users, items)

    def tastes(self, users: IntArray) -> FloatArray:
        """(len(users), items): what the model predicts, whoever is bored."""
        return self._people.tastes(users)

    def rate(self, users: IntArray, items: IntArray, noise: FloatArray) -> FloatArray:
        """(n,): the ratings given, at the log's levels where it has them."""
        if self.levels is None:
            return super().rate(users, items, noise)
        return nearest(self.utility(users, items) + self.noise * noise, self.levels)

    def take(self, users: IntArray, items: IntArray) -> None:
        """As people who are vectors do; others stay as they are."""
        self._people.take(users, items)

    def forget(self) -> None:
        """As people who are vectors do."""
        self._people.forget()

    def drift(self) -> float:
        """Over all pairs."""
        return self._people.drift()

    def about(self, data: Interactions) -> Interactions:
        """All that the log knows about its users and items: ids, titles, categories, attributes."""
        log = self.log
        return replace(
            data,
            user_ids=log.user_ids,
            item_ids=log.item_ids,
            titles=log.titles,
            attributes=log.attributes,
            category_systems=log.category_systems,
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """Vectors and memories, where there are any."""
        return self._people.state() | super().state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Be as `state` says."""
        super().restore(state)
        self._people.restore(state)


@final
class _Scored(Population):
    """People of whom nothing is known but what every item is worth to them."""

    def __init__(self, worth: FloatArray) -> None:
        self.n_users, self.n_items = worth.shape
        self._worth = worth

    def utilities(self, users: IntArray) -> FloatArray:
        """(len(users), items): as given."""
        return self._worth[users]

    def utility(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): as given."""
        values: FloatArray = self._worth[users, items]
        return values


@checked
def from_data(
    data: Interactions,
    *,
    factors: int = 8,
    recommender: Recommender | None = None,
    users_per_step: int | None = None,
    noise: float | None = None,
    rounded: bool | None = None,
    exposure: Exposure = "log",
    offline_log: OfflineLog = "made",
    slate: int = 1,
    choice: Choice | None = None,
    repeats: Repeats = "never",
    affinity: float = 0.0,
    boredom_penalty: float = 0.0,
    boredom_threshold: float = 0.0,
    memory: int = 5,
    rng: int = 0,
) -> FromData:
    """An environment fitted to a log: what its people would rate, how noisily, what they come across and how often.

    What items are worth is predicted by `recommender`, any whose fitted model predicts ratings; without one, by that of
    several matrix factorisations with so many `factors` which predicts held-out ratings best (paper 003 has 8).
    `noise` is found on ratings held out from it. `rounded=None` rounds to the log's levels where it has them, and
    `users_per_step=None` has a fifth of the users online. The other settings are those of `FromData`.

    Look at `environment.fidelity()` before you believe what comes of it: it says what the environment gets wrong.
    """
    learned = learn(data, factors, recommender, rng)
    return FromData(
        learned=learned,
        users=data.n_users,
        items=data.n_items,
        users_per_step=max(1, data.n_users // 5) if users_per_step is None else users_per_step,
        noise=learned.noise if noise is None else noise,
        rounded=learned.levels is not None if rounded is None else rounded,
        exposure=exposure,
        offline_log=offline_log,
        slate=slate,
        choice=choice or TakesAll(),
        repeats=repeats,
        affinity=affinity,
        boredom_penalty=boredom_penalty,
        boredom_threshold=boredom_threshold,
        memory=memory,
    )
