"""The scenarios in Gymnasium's registry, for programs that make their environments by name."""

from __future__ import annotations

from typing import Any

import gymnasium

from recaudit.errors import InputError
from recaudit.simulate.worlds.population_env import PopulationEnv
from recaudit.simulate.worlds.scenarios import LATENT_STEPS, ML_100K, SCENARIOS, VERSION, paper


def register() -> None:
    """Let `gymnasium.make("recaudit/topics-static-v1")` work, and so for every scenario; twice does no harm."""
    for scenario in SCENARIOS.values():
        _add(scenario.id, scenario.name, scenario.steps)
    _add(f"recaudit/{ML_100K}-v{VERSION}", ML_100K, LATENT_STEPS)  # its data are loaded when it is made


def _add(name: str, scenario: str, steps: int) -> None:
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=f"{__name__}:made", max_episode_steps=steps, kwargs={"scenario": scenario})


def made(scenario: str, initial: int = 0, **changes: Any) -> PopulationEnv:
    """What `gymnasium.make` calls: its keywords are settings, as in `paper`."""
    if "steps" in changes:
        raise InputError(
            "steps",
            received=changes["steps"],
            expected="no steps here",
            remedy="Give gymnasium.make max_episode_steps instead.",
        )
    return paper(scenario, **changes).make(initial)
