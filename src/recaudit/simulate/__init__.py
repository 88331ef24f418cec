"""Closed loops: people who rate what they are shown, and recommenders that learn from it (paper 003)."""

from recaudit.simulate.beta_rank import BetaRank
from recaudit.simulate.choices import Choice, Logit, PicksBest, TakesAll
from recaudit.simulate.comparison import Comparison, compare
from recaudit.simulate.contenders import paper_recommenders
from recaudit.simulate.environment import Environment
from recaudit.simulate.fidelity import fidelity
from recaudit.simulate.fidelity_result import SimulationFidelity
from recaudit.simulate.fitted import FromData, from_data
from recaudit.simulate.latent import Latent
from recaudit.simulate.latent_score import LatentScore
from recaudit.simulate.offline import offline_metrics
from recaudit.simulate.offline_online import OfflineOnline, offline_online
from recaudit.simulate.oracle import Oracle
from recaudit.simulate.population import Population
from recaudit.simulate.population_env import PopulationEnv
from recaudit.simulate.registration import register
from recaudit.simulate.run import run
from recaudit.simulate.scenarios import SCENARIOS, Scenario, paper
from recaudit.simulate.simulation import Simulation
from recaudit.simulate.topics import Topics
from recaudit.simulate.tuning import Grid, Search, tune

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
