from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recaudit.data.growth import blank
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.simulate.worlds.environment import PicksBest, Population, TakesAll
from recaudit.simulate.worlds.population_env import PopulationEnv
from recaudit.simulate.worlds.topics import Topics, TopicsPopulation

SMALL = Topics(users=12, items=9, users_per_step=4, slate=2, topics=3)


def begun(environment: Topics = SMALL) -> PopulationEnv:
    env = PopulationEnv(environment)
    env.reset(seed=0)
    return env


def test_nothing_happens_before_the_first_reset() -> None:
    for call in (lambda env: env.step(np.zeros((4, 2), dtype=np.int64)), PopulationEnv.state):
        with pytest.raises(InputError, match=r"env: received a call before the first reset; .* env.reset\(seed="):
            call(PopulationEnv(SMALL))


def test_showing_one_item_for_ever_earns_nothing_for_ever() -> None:
    env = PopulationEnv(Topics(users=4, items=9, users_per_step=4, topics=3))
    env.reset(seed=0)
    rewards = [env.step(np.full((4, 1), 7))[1] for _ in range(3)]
    assert rewards[0] > 0
    assert rewards[1:] == [0, 0]


@pytest.mark.parametrize(
    "action",
    [
        np.zeros((4, 3), dtype=np.int64),
        np.zeros(8, dtype=np.int64),
        np.zeros((4, 2)),
        np.full((4, 2), 9),
        np.full((4, 2), -2),
        np.zeros((4, 2), dtype=bool),
    ],
    ids=["too long", "flat", "not whole", "no such item", "below nothing", "truth values"],
)
def test_actions_that_cannot_be_are_refused(action: Any) -> None:
    with pytest.raises(InputError, match=r"action: .* expected whole numbers of shape \(4, 2\), from -1"):
        begun().step(action)


def test_people_who_see_scores_must_be_given_them() -> None:
    env = begun(SMALL.model_copy(update={"choice": PicksBest(trust=1)}))
    items = np.tile([0, 1], (4, 1))
    for action in (items, {"items": items}):
        with pytest.raises(InputError, match="these users see the recommender's scores"):
            env.step(action)
    with pytest.raises(InputError, match="action"):
        env.step({"items": items, "scores": np.zeros((4, 1))})
    for broken in (np.nan, np.inf, -np.inf, 1e300):
        with pytest.raises(InputError, match="NaN, infinite or enormous"):
            env.step({"items": items, "scores": np.full((4, 2), broken)})
    observation = env.step({"items": items, "scores": np.tile([0.0, 50.0], (4, 1))})[0]
    assert (observation["rated"] == [0, 1]).all()


def test_a_refused_action_changes_nothing() -> None:
    env, other = begun(), begun()
    with pytest.raises(InputError):
        env.step(np.full((4, 2), 99))
    items = np.tile([0, 1], (4, 1))
    np.testing.assert_array_equal(env.step(items)[0]["ratings"], other.step(items)[0]["ratings"])


def test_slates_are_taken_from_the_first_place_on() -> None:
    kind = Topics(
        users=3, items=2, users_per_step=3, slate=2, topics=2, noise=0, boredom_penalty=2, boredom_threshold=1
    )
    preferences = np.full((3, 2), 4.0)
    people = TopicsPopulation(kind, preferences, np.array([0, 0]))
    env = PopulationEnv(kind, begin=lambda _: (blank(3, 2, kind.scale), people))
    env.reset(seed=0)
    # Whoever has had the first is bored by the second, which is about the same topic.
    assert env.step(np.array([[0, 1], [1, -1], [-1, 0]]))[0]["ratings"].tolist() == [[4, 2], [4, 0], [0, 4]]
    assert env.expected.tolist() == [[4, 2], [4, 0], [0, 4]]


def test_people_may_begin_elsewhere() -> None:
    asked = []

    def begin(initial: int) -> tuple[Interactions, Population]:
        asked.append(initial)
        people = SMALL.population(initial)
        people.preferences[:] = 5.0
        return blank(12, 9, SMALL.scale), people

    env = PopulationEnv(SMALL, 3, begin=begin)
    env.reset(seed=0)
    assert (env.population.expected(np.arange(12)) == 5).all()
    env.reset(seed=0, options={"initial": 8})
    env.reset(seed=0)
    assert asked == [3, 8, 8]


def test_without_a_seed_chance_goes_on() -> None:
    env = PopulationEnv(SMALL)
    env.reset(seed=0)
    seeds = [env.seed]
    for _ in range(3):
        env.reset()
        seeds.append(env.seed)
    assert len(set(seeds)) == 4
    env.reset(seed=0)
    env.reset()
    assert env.seed == seeds[1]


def test_everybody_comes_online_now_and_then() -> None:
    env = begun()
    seen: set[int] = set()
    for _ in range(40):
        users = env.step(np.full((4, 2), -1))[0]["users"].tolist()
        assert len(set(users)) == 4
        seen |= set(users)
    assert seen == set(range(12))


def test_a_state_is_a_picture_not_a_window() -> None:
    env = begun(SMALL.model_copy(update={"affinity": 0.5, "choice": TakesAll()}))
    env.step(np.tile([0, 1], (4, 1)))
    state = env.state()
    before = state["preferences"].copy()
    assert len(before) == len(state["takers"]) == 4
    for _ in range(6):  # everybody comes
        env.step(np.tile([3, 4], (4, 1)))
    np.testing.assert_array_equal(state["preferences"], before)
    assert (env.population.drift() or 0.0) > 0


def test_noise_has_the_standard_deviation_that_was_asked_for() -> None:
    kind = Topics(users=2000, items=3, users_per_step=2000, topics=2, noise=0.3, repeats="always")
    people = TopicsPopulation(kind, np.full((2000, 2), 3.0), np.array([0, 1, 0]))
    env = PopulationEnv(kind, begin=lambda _: (blank(2000, 3, kind.scale), people))
    env.reset(seed=0)
    off = np.concatenate([env.step(np.full((2000, 1), 1))[0]["ratings"][:, 0] - 3 for _ in range(3)])
    assert off.mean() == pytest.approx(0, abs=0.02)
    assert off.std() == pytest.approx(0.3, rel=0.03)
