"""Numbers that an environment came to when it was made: it must come to them for ever.

They are what published results stand on. When one of them must change (a mistake in an environment, a better draw),
raise `version` of every scenario it changes, so that "recaudit/topics-static-v1" becomes "-v2" in the registry, put
the new numbers here, and say it in the changelog. Never change the numbers alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recaudit.simulate.worlds.scenarios import SCENARIOS, Scenario, paper

CHANGES: dict[str, dict[str, Any]] = {"latent-static": {"ratings": 2000}, "latent-dynamic": {"ratings": 2000}}
"""Scenarios are as in the paper, but for logs that take long to make."""
STEPS = 5

GOLDEN: dict[str, dict[str, list[float]]] = {
    "topics-static": {
        "log": [84873053855.0, 2.9934800711825376, 3.0588096687876276, 3.063666488102804, 5.0],
        "people": [2.994898796001618, 2.994898796001618, 0.0],
        "rewards": [3.0103247893300082, 2.885533658231979, 3.015908346900316, 3.0278700772872686, 3.0684414075560875],
        "online": [191, 441, 822],
    },
    "topics-dynamic": {
        "log": [84873053855.0, 2.9934800711825376, 3.0588096687876276, 3.063666488102804, 5.0],
        "people": [2.994898796001618, 2.9942640997166974, 0.10895967302627084],
        "rewards": [3.0103247893300082, 2.885275836430266, 3.0159053984517503, 3.0245580591857277, 3.063519495960557],
        "online": [191, 441, 822],
    },
    "topics-dynamic-as-run": {
        "log": [84873053855.0, 3.0022859328003473, 3.0588096687876276, 3.063666488102805, 5.0],
        "people": [3.023492608743531, 3.0235802912321486, 0.24695189630492503],
        "rewards": [3.035665709701627, 2.888271620632063, 3.0290297389612464, 3.017113215437798, 3.080733544267171],
        "online": [191, 441, 822],
    },
    "latent-static": {
        "log": [1596441068.0, 3.0090065255878717, 2.2986021687863856, 1.309758587149811, 2.4122947827544547],
        "people": [3.0030630925150295, 3.0030630925150295, 0.0],
        "rewards": [3.0455098185581297, 2.896521238814469, 3.07022019474083, 2.962007296794219, 2.903519960042769],
        "online": [467, 402, 248],
    },
    "latent-dynamic": {
        "log": [1596441068.0, 3.0090065255878717, 2.2986021687863856, 1.309758587149811, 2.4122947827544547],
        "people": [3.0030630925150295, 2.987635404496397, 0.2140486978076592],
        "rewards": [3.0455098185581297, 2.895653717717025, 3.0590000024825303, 2.965866245699882, 2.887390984031991],
        "online": [467, 402, 248],
    },
    "latent-score": {
        "log": [8368149.0, 2.876956148113309, 2.43526531483877, 3.341645132615156, 2.076701762946356],
        "people": [2.912675019731496, 2.912675019731496, 0.0],
        "rewards": [3.4909884424055306, 3.3888269802429876, 3.1547888595619615, 3.275124615273696, 3.1967232111418626],
        "online": [8, 26, 9],
    },
    "beta-rank": {
        "log": [8368149.0, 3.868, 5.0, 1.0, 1.0],
        "people": [3.9291764705882355, 3.9291764705882355, 0.0],
        "rewards": [5.0, 4.95, 4.8, 5.0, 4.85],
        "online": [8, 26, 9],
    },
    "topics-static-lowdata": {
        "log": [839413888.0, 3.0142461519222965, 2.261742294322095, 5.0, 3.0014662015592606],
        "people": [2.994898796001618, 2.994898796001618, 0.0],
        "rewards": [3.03159979253286, 2.914041083107487, 2.982866545632586, 3.0581688238557114, 3.020156610410053],
        "online": [191, 441, 822],
    },
    "latent-static-lowdata": {
        "log": [783623933.0, 3.0053170711922084, 2.4835198771882183, 2.7963563070281463, 3.236280152499499],
        "people": [3.0030630925150295, 3.0030630925150295, 0.0],
        "rewards": [3.0455098185581297, 2.896521238814469, 3.07022019474083, 2.962007296794219, 2.903519960042769],
        "online": [467, 402, 248],
    },
}


def numbers(scenario: Scenario) -> dict[str, list[float]]:
    """A few numbers of the log, of the people, and of five steps with slates that follow from the user and the step."""
    log, env = scenario.begin(0)
    kind = scenario.environment
    observation = env.reset(seed=0)[0]
    mean = float(env.population.expected(np.arange(kind.users)).mean())
    rewards = []
    for step in range(STEPS):
        items = (observation["users"][:, None] * 7 + step * 13 + np.arange(kind.slate) * 31) % kind.items
        scores = 3 + (items % 5) / 10
        observation, reward, *_ = env.step({"items": items, "scores": scores} if kind.choice.uses_scores else items)
        rewards.append(reward)
    return {
        "log": [
            float(np.sum(log.users * kind.items + log.items)),
            float(log.ratings.mean()),
            *log.ratings[:3].tolist(),
        ],
        "people": [mean, float(env.population.expected(np.arange(kind.users)).mean()), env.population.drift()],
        "rewards": rewards,
        "online": observation["users"][:3].tolist(),
    }


def test_every_scenario_has_its_numbers() -> None:
    assert GOLDEN.keys() == SCENARIOS.keys() - {"ml-100k"}  # which follows from its data
    assert all(scenario.version == 1 for scenario in SCENARIOS.values())


@pytest.mark.parametrize("name", GOLDEN)
def test_an_environment_never_changes_silently(name: str) -> None:
    found = numbers(paper(name, **CHANGES.get(name, {})))
    for part, expected in GOLDEN[name].items():
        assert found[part] == pytest.approx(expected, rel=1e-12, abs=1e-12), part
