"""What a simulation will take, before it starts: the first steps of each recommender are timed, memory is reckoned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod
from typing import final

from recaudit.runs.simulation import LoopRecommender, SimulationConfiguration
from recaudit.simulate.loop.room import announced
from recaudit.simulate.loop.trial import Loop, timed


@final
@dataclass(frozen=True)
class LoopEstimate:
    """What one recommender takes in one environment, all its trials and folds one after the other.

    Fits are as long as the first one, though logs grow; audits and the population's error are not counted.
    """

    environment: str
    recommender: str
    fit: float
    """Seconds of the first fit."""
    step: float
    """Seconds of a step without a fit."""
    fits: int
    seconds: float


def estimate_simulation(config: SimulationConfiguration) -> Iterator[LoopEstimate]:
    """Time the beginning, a fit and two steps of each recommender in each environment, in this process."""
    for scenario in config.environments:
        scenario.environment.prepare()
        in_trial = ceil(scenario.steps / config.retrain) if config.retrain else 1
        for each in config.recommenders:
            loop = Loop(
                scenario=scenario,
                recommender=each.model.recommender,
                policy=each.policy or config.policy,
                retrain=config.retrain,
                rng=config.seed,
            )
            begin, fit, step = timed(loop)
            fits = config.folds * (1 + _tries(each)) + config.trials * in_trial
            seconds = fits * fit + config.trials * (begin + scenario.steps * step)
            yield LoopEstimate(scenario.name, each.model.label, fit, step, fits, seconds)


def work_lines(config: SimulationConfiguration) -> Iterator[str]:
    """For each environment how much there is to do, and the memory that it takes."""
    for scenario in config.environments:
        workers = getattr(config.engine, "workers", 1) or 1
        yield announced(scenario, len(config.recommenders), config.trials, workers)


def _tries(recommender: LoopRecommender) -> int:
    """How many settings are tried on every fold."""
    grid = recommender.tuning
    return 0 if grid is None else prod(map(len, grid.values.values()))
