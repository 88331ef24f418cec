"""Closed loops: people who rate what they are shown, and recommenders that learn from it (paper 003)."""

from recaudit.simulate.loop.run import compare, run
from recaudit.simulate.loop.simulation import Comparison, Simulation
from recaudit.simulate.offline.comparison import OfflineOnline, offline_online
from recaudit.simulate.offline.cross_validation import GridSearch, offline_metrics, tune
from recaudit.simulate.offline.fidelity import SimulationFidelity, fidelity
from recaudit.simulate.worlds.environment import Choice, Environment, Logit, PicksBest, Population, TakesAll
from recaudit.simulate.worlds.fitted import FromData
from recaudit.simulate.worlds.latent import BetaRank, Latent, LatentPopulation, LatentScore
from recaudit.simulate.worlds.libfm import LibFM
from recaudit.simulate.worlds.population_env import PopulationEnv
from recaudit.simulate.worlds.scenarios import SCENARIOS, Oracle, Scenario, paper, register
from recaudit.simulate.worlds.topics import Topics, TopicsPopulation

__all__ = [
    "SCENARIOS",
    "BetaRank",
    "Choice",
    "Comparison",
    "Environment",
    "FromData",
    "GridSearch",
    "Latent",
    "LatentPopulation",
    "LatentScore",
    "LibFM",
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
    "TopicsPopulation",
    "compare",
    "fidelity",
    "offline_metrics",
    "offline_online",
    "paper",
    "register",
    "run",
    "tune",
]
