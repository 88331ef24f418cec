from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recaudit.arrays import FloatArray
from recaudit.errors import InputError
from recaudit.simulate.worlds.latent import Latent, LatentPopulation
from recaudit.simulate.worlds.population_env import PopulationEnv
from recaudit.testing.environments import EnvironmentContract

EVERYBODY = np.arange(20)


class TestLatent(EnvironmentContract):
    environment = Latent(
        users=20, items=30, users_per_step=8, factors=4, affinity=0.2, boredom_penalty=1.5, boredom_threshold=0.1
    )
    dynamics = ("affinity", "boredom")


class TestLatentStatic(EnvironmentContract):
    environment = Latent(users=20, items=30, users_per_step=8, factors=4)


def by_hand(**settings: Any) -> LatentPopulation:
    """One user, who likes the first axis, and four items: on each axis, between them, and against the first."""
    P = np.array([[2.0, 0.0]])
    Q = np.array([[1.0, 0.0], [0.0, 3.0], [3.0, 4.0], [-2.0, 0.0]])
    described = Latent(users=1, items=4, users_per_step=1, factors=2, **settings)
    return LatentPopulation(described, P, Q, np.array([3.5]), np.array([0.0, 0.25, -0.5, 1.0]))


def after(people: LatentPopulation, *items: int) -> FloatArray:
    for item in items:
        people.take(np.array([0]), np.array([item]))
    worth: FloatArray = people.utilities(np.array([0]))[0]
    return worth


def test_an_item_is_worth_the_product_and_the_biases() -> None:
    assert after(by_hand()).tolist() == [5.5, 3.75, 9.0, 0.5]
    assert by_hand().expected(np.array([0]))[0].tolist() == [5.0, 3.75, 5.0, 1.0]


def test_affinity_moves_people_towards_what_they_take() -> None:
    people = by_hand(affinity=0.25)
    worth = after(people, 2)
    # 0.75 (2, 0) + 0.25 (3, 4) = (2.25, 1)
    assert people.user_factors.tolist() == [[2.25, 1.0]]
    assert worth.tolist() == [5.75, 6.75, 13.75, 0.0]
    # Changes 0.25, 3, 4.75 and -0.5.
    assert people.drift() == pytest.approx(np.sqrt((0.0625 + 9 + 22.5625 + 0.25) / 4))


def test_boredom_takes_off_what_is_alike_beyond_the_threshold() -> None:
    # Cosines with (3, 4): 0.6, 0.8, 1 and -0.6; a memory of 2 halves the penalty of 4.
    people = by_hand(boredom_penalty=4.0, boredom_threshold=0.5, memory=2)
    np.testing.assert_allclose(after(people) - after(people, 2), [2 * 0.1, 2 * 0.3, 2 * 0.5, 0])


def test_boredom_adds_up_over_the_memory_and_no_further() -> None:
    fresh = after(by_hand())
    people = by_hand(boredom_penalty=4.0, boredom_threshold=0.5, memory=2)
    np.testing.assert_allclose(fresh - after(people, 2, 2), [4 * 0.1, 4 * 0.3, 4 * 0.5, 0])
    # The first two are forgotten; cosines with (1, 0): 1, 0, 0.6 and -1, with (0, 3): 0, 1, 0.8 and 0.
    np.testing.assert_allclose(fresh - after(people, 0, 1), [2 * 0.5, 2 * 0.5, 2 * 0.1 + 2 * 0.3, 0])


def test_boredom_is_a_mood_and_no_drift() -> None:
    people = by_hand(boredom_penalty=4.0)
    after(people, 0, 1)
    assert people.drift() == 0
    assert people.tastes(np.array([0]))[0].tolist() == [5.5, 3.75, 9.0, 0.5]


def test_drift_is_the_root_mean_square_change_of_all_tastes() -> None:
    env = PopulationEnv(TestLatent.environment)
    env.reset(seed=0)
    before = env.population.tastes(EVERYBODY)
    for step in range(5):
        env.step(np.random.default_rng(step).integers(0, 30, (8, 1)))
    change = env.population.tastes(EVERYBODY) - before
    assert env.population.drift() == pytest.approx(np.sqrt((change**2).mean()))


@pytest.mark.parametrize("factors", [5, 100])
def test_the_product_has_variance_a_half_whatever_the_factors(factors: int) -> None:
    people = Latent(factors=factors, user_bias=0, item_bias=0, offset=0).population()
    assert people.utilities(np.arange(943)).var() == pytest.approx(0.5, rel=0.05)


def test_biases_offset_and_factor_variance_are_as_set() -> None:
    people = Latent(factors=50, factor_variance=0.04, user_bias=0.3, item_bias=0.7, offset=2.0).population(1)
    assert people.user_factors.var() == pytest.approx(0.04, rel=0.05)
    assert people.item_factors.var() == pytest.approx(0.04, rel=0.05)
    assert people.user_level.mean() == pytest.approx(2.0, abs=0.05)
    assert people.user_level.std() == pytest.approx(0.3, rel=0.1)
    assert people.item_bias.std() == pytest.approx(0.7, rel=0.1)


def test_dynamics_are_switched_off_one_by_one() -> None:
    both = TestLatent.environment
    assert both.without("affinity") == both.model_copy(update={"affinity": 0.0})
    assert both.without("boredom") == both.model_copy(update={"boredom_penalty": 0.0})


def test_people_with_different_dynamics_are_the_same_at_first() -> None:
    moving, still = TestLatent.environment, TestLatent.environment.without("affinity", "boredom")
    np.testing.assert_array_equal(moving.population(3).utilities(EVERYBODY), still.population(3).utilities(EVERYBODY))


@pytest.mark.parametrize(
    "wrong", [{"affinity": 1.1}, {"boredom_threshold": 2}, {"memory": 0}, {"factors": 0}, {"factor_variance": -1}]
)
def test_impossible_people_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Latent(**wrong)
