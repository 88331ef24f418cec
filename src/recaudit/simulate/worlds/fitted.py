"""From data: an environment whose people and items are those of a log."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self, final

import numpy as np
from pydantic import ConfigDict, PlainSerializer, PlainValidator, model_validator

from recaudit.arrays import FloatArray, IntArray
from recaudit.data import datasets
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, did_you_mean
from recaudit.models.base import Recommender
from recaudit.registry import MODELS
from recaudit.seeding import generator
from recaudit.simulate.offline.fidelity import SimulationFidelity, fidelity
from recaudit.simulate.worlds.environment import Amount, Population, Size
from recaudit.simulate.worlds.latent import LatentDynamics, LatentPopulation
from recaudit.simulate.worlds.learning import Factors, Learned, learn, levels_of, nearest
from recaudit.specification import OneOf, as_data

FACTORS = 8
"""As in paper 003."""


def _log_or_name(value: object) -> Interactions | str:
    if isinstance(value, Interactions) or (isinstance(value, str) and value in datasets.names()):
        return value
    remedy = did_you_mean(str(value), datasets.names())
    raise InputError("data", received=value, expected="a log, or the name of a data set", remedy=remedy)


def _loaded(data: Interactions | str) -> Interactions:
    return datasets.load(data) if isinstance(data, str) else data


Log = Annotated[
    Interactions | str,
    PlainValidator(_log_or_name),
    PlainSerializer(lambda data: {"name": data} if isinstance(data, str) else {"fingerprint": data.fingerprint}),
]


@final
class FromData(LatentDynamics):
    """`rating = nearest level of (what a model fitted to the log predicts - boredom + noise)`.

    The people are those of the log, whatever the initial seed, which draws the offline log. The model is fitted when
    people are first needed. Look at `fidelity()` before you believe what comes of it: it says what is wrong with it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    data: Log
    """The log, or the name of a data set, which is loaded when it is needed."""
    recommender: Annotated[Recommender | None, OneOf(MODELS)] = None
    """Whose fitted model says what items are worth, any that predicts ratings; affinity and boredom need one that has
    factors. None: of several matrix factorisations, the one that predicts held-out ratings best."""
    factors: Size = FACTORS
    """Of those factorisations."""
    rng: int = 0
    """The seed of the fit."""
    users: Size = 1
    """As in the log."""
    items: Size = 1
    """As in the log."""
    users_per_step: Size = 1
    """How many are online at a step; a fifth of the users where nothing is said."""
    noise: Amount | None = None  # type: ignore[assignment]  # known once people are fitted
    """Standard deviation of what no model explains in a rating. None: as found on held-out ratings."""
    rounded: bool | None = None
    """Whether ratings are rounded to the levels of the log. None: where it has levels."""
    exposure: Literal["log", "uniform"] = "log"
    """Who is online and what offline logs hold: by the log's activity and popularity, or uniformly as in RecLab."""
    offline_log: Literal["made", "real"] = "made"
    """What a recommender begins with: ratings that these people make up, or those they gave."""

    @model_validator(mode="before")
    @classmethod
    def _sizes_of_the_log(cls, value: object) -> object:
        if not isinstance(value, Mapping) or "data" not in value:
            return value
        sizes = dict(value)
        if not {"users", "items"} <= value.keys():
            log = _loaded(_log_or_name(value["data"]))
            sizes = {"users": log.n_users, "items": log.n_items, **value}
        return {"users_per_step": max(1, sizes["users"] // 5) if isinstance(sizes["users"], int) else 1, **sizes}

    @model_validator(mode="after")
    def _fits_the_log(self) -> Self:
        if self.recommender is not None and self.factors != FACTORS:
            raise InputError("factors", received=self.factors, expected="nothing: the recommender says what is fitted")
        return self if isinstance(self.data, str) else self._checked(self.data)

    def _checked(self, log: Interactions) -> Self:
        if (self.users, self.items) != (log.n_users, log.n_items):
            raise InputError(
                "users, items",
                received=f"{self.users:,} and {self.items:,}",
                expected=f"{log.n_users:,} and {log.n_items:,}, those of the log",
                remedy="Take a part of the log to have fewer.",
            )
        if self.rounded and levels_of(log) is None:
            raise InputError("rounded", received=True, expected="False, since the log is rated on a continuous scale")
        return self

    @cached_property
    def log(self) -> Interactions:
        """The log that people are fitted to."""
        return _loaded(self.data)

    @cached_property
    def learned(self) -> Learned:
        """What the log says about its people and items."""
        self._checked(self.log)
        learned = learn(self.log, self.factors, self.recommender, self.rng)
        moved = [setting for setting in self.dynamics.values() if getattr(self, setting) > 0]
        if moved and not isinstance(learned.worth, tuple):
            expected = f"0, since {type(learned.recommender).__name__} has no factors that could move"
            remedy = "Use ALS or BiasedMF, or leave the recommender out."
            raise InputError(", ".join(moved), received="more than 0", expected=expected, remedy=remedy)
        return learned

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FromData) and as_data(self) == as_data(other)

    def __hash__(self) -> int:
        return hash(str(as_data(self)))

    def prepare(self) -> None:
        """Fit people to the log."""
        self.learned  # noqa: B018  fitted now, and kept

    def people_memory(self) -> int:
        """Vectors; what is worth how much without factors is there already."""
        return self.vectors_memory(self.factors)

    def changed(self, **changes: Any) -> Self:
        """As in every environment; another log has its own sizes, and the same one is not fitted again."""
        known = {name: getattr(self, name) for name in type(self).model_fields}
        if "data" in changes:
            known = {name: value for name, value in known.items() if name not in ("users", "items", "users_per_step")}
        made = type(self)(**known | changes)
        if not changes.keys() & {"data", "factors", "recommender", "rng", *self.dynamics.values()}:
            made.__dict__.update({name: self.__dict__[name] for name in ("log", "learned") if name in self.__dict__})
        return made

    @property
    def scale(self) -> tuple[float, float]:
        """That of the log."""
        return self.log.scale

    def population(self, seed: int = 0) -> LogPopulation:
        """The people of the log; the seed makes no difference."""
        worth = self.learned.worth
        return FactorLogPopulation(self, worth) if isinstance(worth, tuple) else ScoredLogPopulation(self, worth)

    def offline(self, ratings: int, seed: int = 0, *, population: Population | None = None) -> Interactions:
        """As in every environment; or so many of the log's own ratings, drawn uniformly, which change nobody again."""
        if self.offline_log == "made":
            return super().offline(ratings, seed, population=population)
        log = self.real_log()
        there = np.flatnonzero((log.users < self.present_users(0)) & (log.items < self.present_items(0)))
        if not 1 <= ratings <= len(there):
            expected = f"a whole number from 1 to {len(there):,}, the log's ratings of what is there at the start"
            raise InputError("ratings", received=ratings, expected=expected)
        rows = np.zeros(len(log), dtype=bool)
        rows[generator(seed, "real").choice(there, ratings, replace=False)] = True
        return log.subset(rows)

    def real_log(self) -> Interactions:
        """The log itself, with times that end at 0, where the simulation begins; those without times are all 0."""
        if self.log.times is None:
            return replace(self.log, times=np.zeros(len(self.log), dtype=np.int64))
        distinct, place = np.unique(self.log.times, return_inverse=True)
        return replace(self.log, times=place.astype(np.int64) - (len(distinct) - 1))

    def fidelity(self, data: Interactions | None = None, rng: int = 0) -> SimulationFidelity:
        """How a log that these people make differs from `data`; without it, from the log that they were fitted to."""
        made = self.model_copy(update={"offline_log": "made"})
        return fidelity(made, self.log if data is None else data, rng)


class LogPopulation(Population, ABC):
    """The people of a log, under their own ids."""

    def describe(self, settings: FromData) -> None:
        """Take over what does not depend on how items are worth something."""
        learned, self.log = settings.learned, settings.log
        self.n_users, self.n_items, self.scale = settings.users, settings.items, settings.scale
        self.noise = learned.noise if settings.noise is None else settings.noise
        self.levels = None if settings.rounded is False else learned.levels
        if settings.exposure == "log":
            self.activity, self.popularity = learned.activity, learned.popularity

    def rate(self, users: IntArray, items: IntArray, noise: FloatArray) -> FloatArray:
        """(n,): the ratings given, at the log's levels where it has them."""
        if self.levels is None:
            return super().rate(users, items, noise)
        return nearest(self.utility(users, items) + self.noise * noise, self.levels)

    def about(self, data: Interactions) -> Interactions:
        """All that the log knows about its users and items: ids, titles, categories, attributes."""
        known = ("user_ids", "item_ids", "titles", "attributes", "category_systems")
        return replace(data, **{name: getattr(self.log, name) for name in known})


@final
class FactorLogPopulation(LogPopulation, LatentPopulation):
    """What items are worth follows from factors, which may move."""

    def __init__(self, settings: FromData, worth: Factors) -> None:
        super().__init__(settings, *worth)
        self.describe(settings)


@final
class ScoredLogPopulation(LogPopulation):
    """Nothing is known but what every item is worth to everybody, (users, items)."""

    def __init__(self, settings: FromData, worth: FloatArray) -> None:
        self.describe(settings)
        self._worth = worth

    def utilities(self, users: IntArray) -> FloatArray:
        """(len(users), items): as given."""
        return self._worth[users]

    def utility(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the same for single pairs."""
        return self._worth[users, items]
