"""Closed loops: people who rate what they are shown, and recommenders that learn from it (paper 003)."""

from recaudit.simulate.loop.run import compare, run
from recaudit.simulate.loop.simulation import Comparison, Simulation
from recaudit.simulate.offline.comparison import OfflineOnline, offline_online
from recaudit.simulate.offline.cross_validation import GridSearch, offline_metrics, tune
from recaudit.simulate.offline.fidelity import SimulationFidelity, fidelity
from recaudit.simulate.worlds.environment import Choice, Environment, Logit, PicksBest, Population, TakesAll
from recaudit.simulate.worlds.fitted import FromData
from recaudit.simulate.worlds.latent import BetaRank, Latent, LatentScore
from recaudit.simulate.worlds.population_env import PopulationEnv
from recaudit.simulate.worlds.scenarios import SCENARIOS, Oracle, Scenario, paper, paper_recommenders, register
from recaudit.simulate.worlds.topics import Topics

__all__ = [
    "SCENARIOS",
    "BetaRank",
    "Choice",
    "Comparison",
    "Environment",
    "FromData",
    "GridSearch",
    "Latent",
    "LatentScore",
    "Logit",
    "OfflineOnline",
    "Oracle",
    "PicksBest",
    "Population",
    "PopulationEnv",
    "Scenario",
    "Simulation",
    "SimulationFidelity",
    "TakesAll",
    "Topics",
    "compare",
    "fidelity",
    "offline_metrics",
    "offline_online",
    "paper",
    "paper_recommenders",
    "register",
    "run",
    "tune",
]
