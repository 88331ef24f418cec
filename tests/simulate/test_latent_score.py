from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from recaudit.simulate.worlds.environment import PicksBest, TakesAll
from recaudit.simulate.worlds.latent import LatentScore, LatentScorePopulation
from recaudit.simulate.worlds.population_env import PopulationEnv
from recaudit.testing.environments import EnvironmentContract


class TestLatentScore(EnvironmentContract):
    environment = LatentScore(users=20, items=30, users_per_step=8, slate=4)


class TestLatentScoreWithoutChoice(EnvironmentContract):
    environment = LatentScore(users=20, items=30, users_per_step=8, slate=1, choice=TakesAll())


def two_by_three(**settings: object) -> LatentScorePopulation:
    """One unknown factor and one known factor."""
    kind = LatentScore.model_validate(
        {"users": 2, "items": 3, "users_per_step": 1, "slate": 3, "factors": 1, **settings}
    )
    return LatentScorePopulation(
        kind,
        user_level=3 + np.array([0.5, -0.5]),
        item_bias=np.array([0.0, 0.25, 1.0]),
        user_factors=np.array([[1.0, 2.0], [0.0, -1.0]]),
        item_factors=np.array([[0.5, 0.1], [-1.0, 0.3], [0.0, -2.0]]),
    )


def test_a_rating_is_made_of_biases_and_of_what_is_known_and_unknown() -> None:
    people = two_by_three()
    # 3 + 0.5 + b_i + 1 x V_i + 2 x Y_i, and 3 - 0.5 + b_i - Y_i.
    assert people.utilities(np.array([0, 1])) == pytest.approx(np.array([[4.2, 3.35, 0.5], [2.4, 2.45, 5.5]]))
    ratings = people.rate(np.array([0, 0, 1, 0]), np.array([0, 2, 2, 1]), np.array([1.0, 0, 0, -2]))
    assert ratings == pytest.approx([4.4, 1.0, 5.0, 2.95])


def test_users_know_their_own_part_and_nothing_else() -> None:
    people = two_by_three()
    assert people.perceived(np.array([0, 0, 0, 1]), np.array([0, 1, 2, 2])) == pytest.approx([0.2, 0.6, -4.0, 2.0])


def test_users_take_what_is_best_by_what_they_know_and_are_told() -> None:
    kind = LatentScore(users=40, items=30, users_per_step=20, slate=6)
    env = PopulationEnv(kind)
    users = env.reset(seed=0)[0]["users"]
    draw = np.random.default_rng(1)
    items = np.array([draw.permutation(30)[:6] for _ in users])
    scores = draw.normal(3, 0.3, items.shape)
    known = env.population.perceived(np.repeat(users, 6), items.ravel()).reshape(items.shape)
    observation = env.step({"items": items, "scores": scores})[0]
    assert observation["rated"].argmax(axis=1).tolist() == (known + scores).argmax(axis=1).tolist()
    assert (observation["rated"].sum(axis=1) == 1).all()


def test_biases_and_factors_have_the_spread_of_the_paper() -> None:
    people = LatentScore(users=4000, items=3000, factors=10).population(0)
    assert people.user_level.std() == pytest.approx(1 / 3, rel=0.05)
    assert people.item_bias.std() == pytest.approx(1 / 1.5, rel=0.05)
    assert people.user_factors.shape == (4000, 20)
    assert people.user_factors.var() == pytest.approx(0.1, rel=0.02)
    assert people.item_factors.var() == pytest.approx(0.1, rel=0.02)


def test_the_defaults_are_the_papers() -> None:
    kind = LatentScore()
    assert (kind.users, kind.items, kind.users_per_step, kind.slate) == (100, 170, 20, 10)
    assert (kind.noise, kind.choice, kind.repeats) == (0.2, PicksBest(trust=1), "unrated")


@pytest.mark.parametrize(("field", "value"), [("factors", 0), ("user_bias", -1), ("item_bias", -1), ("users", -1)])
def test_settings_are_checked(field: str, value: float) -> None:
    with pytest.raises(ValidationError, match=field):
        LatentScore.model_validate({field: value})
