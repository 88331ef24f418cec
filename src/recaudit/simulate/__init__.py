"""Closed loops: people who rate what they are shown, and recommenders that learn from it (paper 003)."""

from recaudit.simulate.loop.comparison import Comparison, compare
from recaudit.simulate.loop.contenders import paper_recommenders
from recaudit.simulate.loop.oracle import Oracle
from recaudit.simulate.loop.run import run
from recaudit.simulate.loop.simulation import Simulation
from recaudit.simulate.loop.tuning import Grid, Search, tune
from recaudit.simulate.offline.comparison import OfflineOnline, offline_online
from recaudit.simulate.offline.fidelity import fidelity
from recaudit.simulate.offline.fidelity_result import SimulationFidelity
from recaudit.simulate.offline.metrics import offline_metrics
from recaudit.simulate.worlds.beta_rank import BetaRank
from recaudit.simulate.worlds.choices import Choice, Logit, PicksBest, TakesAll
from recaudit.simulate.worlds.environment import Environment
from recaudit.simulate.worlds.fitted import FromData, from_data
from recaudit.simulate.worlds.latent import Latent
from recaudit.simulate.worlds.latent_score import LatentScore
from recaudit.simulate.worlds.population import Population
from recaudit.simulate.worlds.population_env import PopulationEnv
from recaudit.simulate.worlds.registration import register
from recaudit.simulate.worlds.scenarios import SCENARIOS, Scenario, paper
from recaudit.simulate.worlds.topics import Topics

__all__ = [
    "SCENARIOS",
    "BetaRank",
    "Choice",
    "Comparison",
    "Environment",
    "FromData",
    "Grid",
    "Latent",
    "LatentScore",
    "Logit",
    "OfflineOnline",
    "Oracle",
    "PicksBest",
    "Population",
    "PopulationEnv",
    "Scenario",
    "Search",
    "Simulation",
    "SimulationFidelity",
    "TakesAll",
    "Topics",
    "compare",
    "fidelity",
    "from_data",
    "offline_metrics",
    "offline_online",
    "paper",
    "paper_recommenders",
    "register",
    "run",
    "tune",
]
