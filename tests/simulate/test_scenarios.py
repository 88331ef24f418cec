from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from recaudit.data.synthetic import World
from recaudit.errors import InputError
from recaudit.simulate.worlds.environment import Environment, PicksBest, TakesAll
from recaudit.simulate.worlds.latent import Latent
from recaudit.simulate.worlds.population_env import PopulationEnv
from recaudit.simulate.worlds.scenarios import SCENARIOS, Scenario, paper, register
from recaudit.simulate.worlds.topics import Topics
from recaudit.specification import as_data

SMALL_DYNAMIC: dict[str, Any] = {"users": 20, "items": 30, "users_per_step": 5, "ratings": 400, "topics": 4}


@pytest.fixture
def registered() -> Iterator[None]:
    """Gymnasium's registry with the scenarios, and without them again."""
    before = dict(gymnasium.registry)
    register()
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


@pytest.mark.parametrize(
    ("name", "users", "items", "online", "ratings", "steps"),
    [
        ("topics-static", 1000, 1700, 200, 100_000, 500),
        ("topics-dynamic", 1000, 1700, 200, 100_000, 500),
        ("topics-dynamic-as-run", 1000, 1700, 200, 100_000, 500),
        ("latent-static", 943, 1682, 188, 100_000, 531),
        ("latent-dynamic", 943, 1682, 188, 100_000, 531),
        ("latent-score", 100, 170, 20, 1000, 50),
        ("beta-rank", 100, 170, 20, 1000, 50),
        ("topics-static-lowdata", 1000, 1700, 200, 1000, 500),
        ("latent-static-lowdata", 943, 1682, 188, 1000, 531),
        ("ml-100k", 943, 1682, 188, 100_000, 531),
    ],
)
def test_sizes_are_the_papers(name: str, users: int, items: int, online: int, ratings: int, steps: int) -> None:
    scenario = paper(name)
    kind = scenario.environment
    assert scenario.name == name
    assert (kind.users, kind.items, kind.users_per_step) == (users, items, online)
    assert (scenario.ratings, scenario.steps) == (ratings, steps)


def test_every_scenario_is_looked_at_above() -> None:
    assert len(SCENARIOS) == 10
    assert all(paper(name) == scenario for name, scenario in SCENARIOS.items())


def test_dynamics_are_the_papers() -> None:
    dynamic, as_run = paper("topics-dynamic"), paper("topics-dynamic-as-run")
    assert dynamic.environment == Topics(affinity=0.1, boredom_penalty=1, boredom_threshold=2, memory=5)
    assert dynamic.environment.without("affinity", "boredom") == paper("topics-static").environment == Topics()
    assert as_run.environment == Topics(affinity=0.1, boredom_penalty=1, boredom_threshold=3, memory=5, bounded=False)
    assert (dynamic.lived, as_run.lived) == (False, True)
    assert paper("latent-dynamic").environment.without("affinity", "boredom") == Latent()


def test_changes_are_settings_of_the_scenario_or_of_its_environment() -> None:
    scenario = paper("topics-static", users=50, users_per_step=5, ratings=300, steps=7, choice=PicksBest(), slate=4)
    assert scenario.environment == Topics(users=50, users_per_step=5, choice=PicksBest(), slate=4)
    assert (scenario.ratings, scenario.steps, scenario.name) == (300, 7, "topics-static")
    assert paper("topics-static") == SCENARIOS["topics-static"]
    assert paper("beta-rank", slate=1, choice=TakesAll()).changed(slate=10, choice=PicksBest(position=0.8)) == paper(
        "beta-rank"
    )


def test_unknown_names_are_refused_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match=r"name: received topics-statik; .* Did you mean 'topics-static'\?"):
        paper("topics-statik")
    with pytest.raises(InputError, match=r"name: received x; .* Known: beta-rank, "):
        paper("x")
    with pytest.raises(InputError, match=r"changes: received afinity; .* of Topics. Did you mean 'affinity'\?"):
        paper("topics-dynamic", afinity=0.2)
    with pytest.raises(InputError, match="changes: received version"):
        paper("topics-static", version=3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise": -1}, "noise"),
        ({"users": 100}, "users_per_step: received 200; expected at most 100"),
        ({"slate": 1701}, "slate: received 1701; expected at most 1700"),
        ({"items": -1}, "items"),
        ({"items": 10}, "ratings: received 100,000; expected at most 10,000"),
        ({"ratings": 0}, "ratings"),
        ({"steps": -1}, "steps"),
    ],
)
def test_changes_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        paper("topics-static", **changes)


def everybody(env: PopulationEnv) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return env.population.utilities(np.arange(env.environment.users))


def test_static_and_dynamic_begin_alike() -> None:
    logs, people = [], []
    for name in ("topics-static", "topics-dynamic"):
        log, env = paper(name, **SMALL_DYNAMIC).begin(3)
        env.reset(seed=0)
        logs.append(log.frame())
        people.append(everybody(env))
    assert logs[0].equals(logs[1])
    np.testing.assert_array_equal(people[0], people[1])


def test_a_past_that_is_lived_through_changes_the_log_and_the_people() -> None:
    scenario = paper("topics-dynamic", **SMALL_DYNAMIC)
    log, env = scenario.begin(3)
    lived_log, lived_env = scenario.changed(lived=True).begin(3)
    env.reset(seed=0)
    lived_env.reset(seed=0)
    assert env.population.drift() == 0
    assert (lived_env.population.drift() or 0.0) > 0
    assert lived_log.items.tolist() == log.items.tolist()
    assert lived_log.ratings.tolist() != log.ratings.tolist()

    people = scenario.environment.population(3)
    assert scenario.environment.offline(400, 3, population=people).frame().equals(lived_log.frame())
    np.testing.assert_array_equal(everybody(lived_env), people.utilities(np.arange(20)))


def test_a_lived_past_begins_again_at_every_reset_and_survives_a_state() -> None:
    _, env = paper("topics-dynamic-as-run", **SMALL_DYNAMIC).begin(3)
    env.reset(seed=0)
    before, drift = everybody(env), env.population.drift()
    items = np.arange(5)[:, None]
    env.step(items)
    state = env.state()
    then = env.step(items)[0]["ratings"].tolist()
    env.reset(seed=0)
    np.testing.assert_array_equal(everybody(env), before)
    assert env.population.drift() == drift
    env.restore(state)
    assert env.step(items)[0]["ratings"].tolist() == then


def test_as_data_tells_scenarios_apart_and_reads_back_as_the_same_and_so_do_pickles() -> None:
    scenarios = [*SCENARIOS.values(), paper("topics-static", ratings=5), paper("topics-static", noise=0.1)]
    told = [as_data(scenario) for scenario in scenarios]
    assert len({json.dumps(one) for one in told}) == len(scenarios)
    drawn = [(one, data) for one, data in zip(scenarios, told, strict=True) if one.name != "ml-100k"]
    assert all(Scenario(**data) == one for one, data in drawn)
    assert pickle.loads(pickle.dumps(scenarios)) == scenarios


def test_ml_100k_is_fitted_to_data(world: World) -> None:
    scenario = paper("ml-100k", data=world.data, ratings=500)
    kind = scenario.environment
    assert (kind.users, kind.items, kind.users_per_step, kind.noise) == (120, 80, 24, 0.5)
    assert (scenario.ratings, scenario.steps) == (500, 531)
    log, env = scenario.begin(0)
    assert len(log) == 500
    env.reset(seed=0)
    # Uniform, as in RecLab, whatever the activity and popularity in the log.
    assert (env.population.activity, env.population.popularity) == (None, None)
    assert env.step(env.allowed.argmax(axis=1)[:, None])[0]["rated"].all()


def test_only_people_of_a_log_take_data(world: World) -> None:
    with pytest.raises(InputError, match=r"changes: received data; .* a setting of Topics"):
        paper("topics-static", data=world.data)


# ---- Gymnasium's registry -----------------------------------------------------------------------------


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("name", ["topics-static", "topics-dynamic", "latent-score", "beta-rank"])
def test_gymnasium_makes_and_checks_scenarios(name: str) -> None:
    env = gymnasium.make(f"recaudit/{name}-v1")
    check_env(env.unwrapped)
    assert env.spec is not None
    assert env.spec.max_episode_steps == SCENARIOS[name].steps


@pytest.mark.usefixtures("registered")
def test_every_scenario_is_registered_once() -> None:
    ids = {name for name in gymnasium.registry if name.startswith("recaudit/")}
    register()
    assert {name for name in gymnasium.registry if name.startswith("recaudit/")} == ids
    assert ids == {f"recaudit/{name}-v1" for name in SCENARIOS}


@pytest.mark.usefixtures("registered")
def test_gymnasium_passes_settings_on_and_ends_an_episode() -> None:
    env = gymnasium.make(
        "recaudit/topics-dynamic-v1", max_episode_steps=2, initial=5, users=20, items=30, users_per_step=4, ratings=9
    )
    env.reset(seed=0)
    inside = env.unwrapped
    assert isinstance(inside, PopulationEnv)
    expected: Environment = Topics(
        users=20, items=30, users_per_step=4, affinity=0.1, boredom_penalty=1, boredom_threshold=2
    )
    assert (inside.environment, inside.initial) == (expected, 5)
    action = np.zeros((4, 1), dtype=np.int64)
    assert [env.step(action)[3] for _ in range(2)] == [False, True]


@pytest.mark.usefixtures("registered")
def test_gymnasium_is_told_how_long_an_episode_is_in_its_own_words() -> None:
    with pytest.raises(InputError, match="max_episode_steps instead"):
        gymnasium.make("recaudit/topics-static-v1", steps=3)


@pytest.mark.usefixtures("registered")
def test_gymnasium_makes_the_scenario_that_recaudit_makes() -> None:
    theirs = gymnasium.make("recaudit/beta-rank-v1")
    _, ours = paper("beta-rank").begin(0)
    items = np.arange(200).reshape(20, 10) % 170
    for env in (theirs, ours):
        env.reset(seed=4)
    left, right = theirs.step(items), ours.step(items)
    np.testing.assert_array_equal(left[0]["ratings"], right[0]["ratings"])
    assert left[1] == right[1]


def test_a_scenario_of_ones_own() -> None:
    mine = Scenario(name="mine", environment=Topics(users=5, items=6, users_per_step=2), ratings=10, steps=3)
    log, env = mine.begin(1)
    assert len(log) == 10
    assert env.reset(seed=0)[0]["users"].shape == (2,)
    assert mine.id == "recaudit/mine-v0"
