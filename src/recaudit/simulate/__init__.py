"""Closed loops: people who rate what they are shown, and recommenders that learn from it (paper 003)."""

from recaudit.simulate.choices import Choice, Logit, PicksBest, TakesAll
from recaudit.simulate.environment import Environment
from recaudit.simulate.population import Population
from recaudit.simulate.population_env import PopulationEnv
from recaudit.simulate.topics import Topics

__all__ = [
    "Choice",
    "Environment",
    "Logit",
    "PicksBest",
    "Population",
    "PopulationEnv",
    "TakesAll",
    "Topics",
]
