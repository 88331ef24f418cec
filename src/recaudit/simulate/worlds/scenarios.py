"""The paper's experiments by name: environments with a beginning and an end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, NoReturn, Self, final

import gymnasium
from pydantic import Field, model_validator

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, NotSupportedError, did_you_mean
from recaudit.models import FittedModel, Recommender
from recaudit.registry import ENVIRONMENTS
from recaudit.simulate.worlds.environment import Environment, Population, Size
from recaudit.simulate.worlds.fitted import FromData
from recaudit.simulate.worlds.latent import BetaRank, Latent, LatentScore
from recaudit.simulate.worlds.libfm import LibFM
from recaudit.simulate.worlds.population_env import PopulationEnv
from recaudit.simulate.worlds.topics import Topics
from recaudit.specification import OneOf, Specification


class Course(Specification):
    """How a simulation begins, and how long it lasts."""

    ratings: int = Field(default=100_000, ge=1)
    """How many ratings a recommender begins with."""
    steps: Size = 500
    """How many steps follow."""
    lived: bool = False
    """Whether what people rate at the beginning changes their tastes already, as in RecLab's code, which remembers
    nothing of it that could bore them. Without, scenarios that differ in their dynamics alone begin with the same log
    and the same people, as the paper says."""


@final
class Scenario(Course):
    """An environment with a beginning and an end."""

    name: str
    """What it is called; `id` in Gymnasium's registry has it too."""
    environment: Annotated[Environment, OneOf(ENVIRONMENTS)]
    """The people and items."""
    version: int = Field(default=0, ge=0)
    """Goes up when the same seeds come to other numbers."""

    @model_validator(mode="after")
    def _ratings_fit(self) -> Self:
        pairs = self.environment.present_users(0) * self.environment.present_items(0)
        if self.ratings > pairs:
            expected = f"at most {pairs:,}, the pairs of users and items that are there from the start"
            remedy = "Lower it, or raise users or items."
            raise InputError("ratings", received=f"{self.ratings:,}", expected=expected, remedy=remedy)
        return self

    @property
    def id(self) -> str:
        """Its name in Gymnasium's registry, once `register` was called."""
        return f"recaudit/{self.name}-v{self.version}"

    def begin(self, initial: int = 0) -> tuple[Interactions, PopulationEnv]:
        """The log of the initial seed, and the environment of its people, yet to be reset."""
        return self.beginning(initial)[0], self.make(initial)

    def make(self, initial: int = 0) -> PopulationEnv:
        """The environment, of Gymnasium's kind."""
        return PopulationEnv(self.environment, initial, begin=self.beginning)

    def population(self, initial: int = 0) -> Population:
        """The people at step 0."""
        return self.beginning(initial)[1]

    def beginning(self, initial: int) -> tuple[Interactions, Population]:
        """The log of the initial seed, and the people at step 0: as they were made, or as the log has left them."""
        if self.lived:
            people = self.environment.population(initial)
            return self.environment.offline(self.ratings, initial, population=people), people
        # The log first: the people who rate it are gone before those who live on are made.
        return self.environment.offline(self.ratings, initial), self.environment.population(initial)

    def changed(self, **changes: Any) -> Scenario:
        """The same with other settings, of the scenario or of its environment; all are checked."""
        known = [*Course.model_fields, *type(self.environment).model_fields]
        for name in changes:
            if name not in known:
                expected = f"ratings, steps, lived, or a setting of {type(self.environment).__name__}"
                raise InputError("changes", received=name, expected=expected, remedy=did_you_mean(name, known))
        own = {name: changes.pop(name) for name in Course.model_fields if name in changes}
        environment = self.environment.changed(**changes) if changes else self.environment
        # Made anew, since a copy would not be checked.
        return Scenario(**dict(self) | own | {"environment": environment})


LATENT_STEPS = 531
"""188 of 943 users a step, for as many steps as 188.6 of them would take to 100k ratings more."""

_of_paper = partial(Scenario, version=1)
"""Version 1: environments hold to `repeats`, a lived log is not remembered, ml-100k is fitted as LibFM does it."""

_TOPICS_DYNAMIC = Topics(affinity=0.1, boredom_penalty=1.0, boredom_threshold=2, memory=5)

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        scenario.name: scenario
        for scenario in (
            # 100k ratings, then 200 of 1000 users a step until there are 200k.
            _of_paper(name="topics-static", environment=Topics()),
            _of_paper(name="topics-dynamic", environment=_TOPICS_DYNAMIC),
            # What RecLab's code ran under that name: more than 2 of one topic bore, preferences grow past the scale,
            # and people drift while the log is drawn.
            _of_paper(
                name="topics-dynamic-as-run",
                environment=_TOPICS_DYNAMIC.model_copy(update={"boredom_threshold": 3, "bounded": False}),
                lived=True,
            ),
            _of_paper(name="latent-static", environment=Latent(), steps=LATENT_STEPS),
            # RecLab's settings; the paper shows no results of it.
            _of_paper(
                name="latent-dynamic",
                environment=Latent(affinity=0.2, boredom_penalty=2.0, boredom_threshold=0.0, memory=5),
                steps=LATENT_STEPS,
            ),
            # 20 of 100 users a step, each rating one item of the slate: 1000 ratings, then 2000.
            _of_paper(name="latent-score", environment=LatentScore(), ratings=1000, steps=50),
            _of_paper(name="beta-rank", environment=BetaRank(), ratings=1000, steps=50),
            # About one rating a user at the beginning: section 6, exploration.
            _of_paper(name="topics-static-lowdata", environment=Topics(), ratings=1000),
            _of_paper(name="latent-static-lowdata", environment=Latent(), ratings=1000, steps=LATENT_STEPS),
            # People as in RecLab's committed model of MovieLens 100K: all equally active, ratings not in whole stars.
            _of_paper(
                name="ml-100k",
                environment=FromData(
                    data="ml-100k",
                    users=943,
                    items=1682,
                    recommender=LibFM(factors=8, epochs=100, learning_rate=0.005, regularization=0.1, init_std=0.1),
                    noise=0.5,
                    rounded=False,
                    exposure="uniform",
                ),
                steps=LATENT_STEPS,
            ),
        )
    }
)


def paper(name: str, **changes: Any) -> Scenario:
    """The scenario of this name, with the paper's settings but for `changes`: `paper("topics-static", users=500)`."""
    if name not in SCENARIOS:
        remedy = did_you_mean(name, SCENARIOS)
        raise InputError("name", received=name, expected="the name of a scenario", remedy=remedy)
    return SCENARIOS[name].changed(**changes)


def register() -> None:
    """Let `gymnasium.make("recaudit/topics-static-v1")` work, and so for every scenario; twice does no harm."""
    for name, scenario in SCENARIOS.items():
        if scenario.id not in gymnasium.registry:
            where, settings = f"{__name__}:made", {"scenario": name}
            gymnasium.register(scenario.id, entry_point=where, max_episode_steps=scenario.steps, kwargs=settings)


def made(scenario: str, initial: int = 0, **changes: Any) -> PopulationEnv:
    """What `gymnasium.make` calls: its keywords are settings, as in `paper`."""
    if "steps" in changes:
        remedy = "Give gymnasium.make max_episode_steps instead."
        raise InputError("steps", received=changes["steps"], expected="no steps here", remedy=remedy)
    return paper(scenario, **changes).make(initial)


@final
class Oracle(Recommender):
    """What no recommender can beat at a single step; it does not plan ahead. Only in a simulation (paper 003)."""

    def fit(self, data: Interactions, rng: int = 0) -> NoReturn:
        """A log does not tell the truth: `of` takes it from the population."""
        raise NotSupportedError(
            "Oracle knows the people of a simulation, and cannot be fitted to a log. Hand it to ra.simulate.run, "
            "ra.simulate.compare or ra.simulate.offline_online, or call Oracle().of(population, data)."
        )

    def of(self, population: Population, data: Interactions) -> OracleModel:
        """The truth about these people, as it is whenever it is asked."""
        return OracleModel(data, population)


@final
@dataclass(frozen=True, eq=False, repr=False)
class OracleModel(FittedModel):
    """Scores are utilities: ratings without noise, not cut to the scale, so that nothing ties at its top."""

    data: Interactions
    population: Population

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): as they are now."""
        return self.population.utilities(users)
