from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from recaudit.simulate.worlds.environment import PicksBest
from recaudit.simulate.worlds.latent import BetaRank, BetaRankPopulation
from recaudit.simulate.worlds.population_env import PopulationEnv
from recaudit.testing.environments import EnvironmentContract


class TestBetaRank(EnvironmentContract):
    environment = BetaRank(users=20, items=30, users_per_step=8, slate=4)


class TestBetaRankOfUncertainValue(EnvironmentContract):
    environment = BetaRank(users=20, items=30, users_per_step=8, slate=2, topics=3, noise=0.2, item_concentration=5)


def three_items(values: list[float], known: list[float]) -> BetaRankPopulation:
    kind = BetaRank(users=1, items=3, users_per_step=1, slate=3)
    return BetaRankPopulation(kind, np.array([values]), np.array([known]))


def test_a_rating_is_twenty_values_and_one_rounded_and_cut() -> None:
    people = three_items([0.01, 0.11, 0.9], [1.0, 1.0, 1.0])
    users, items = np.zeros(3, dtype=np.int64), np.arange(3)
    assert people.rate(users, items, np.zeros(3)).tolist() == [1, 3, 5]
    assert people.utilities(np.array([0])).tolist() == [[1, 3, 19]]
    # Values are what they are: whatever the noise, the rating is the same.
    assert people.rate(users, items, np.array([9.0, -9, 9])).tolist() == [1, 3, 5]


def test_users_know_a_share_of_the_value() -> None:
    people = three_items([0.5, 0.2, 0.9], [1.0, 0.5, 0.9])
    assert people.perceived(np.zeros(3, dtype=np.int64), np.arange(3)) == pytest.approx([0.5, 0.1, 0.81])


def test_users_look_at_what_comes_first() -> None:
    kind = BetaRank(users=40, items=30, users_per_step=20, slate=6)
    env = PopulationEnv(kind)
    users = env.reset(seed=0)[0]["users"]
    draw = np.random.default_rng(1)
    items = np.array([draw.permutation(30)[:6] for _ in users])
    known = env.population.perceived(np.repeat(users, 6), items.ravel()).reshape(items.shape)
    observation = env.step(items)[0]
    discounted = known * np.arange(1, 7) ** -0.8
    assert observation["rated"].argmax(axis=1).tolist() == discounted.argmax(axis=1).tolist()
    assert discounted.argmax(axis=1).tolist() != known.argmax(axis=1).tolist()


@pytest.mark.parametrize("noise", [1e-5, 0.01])
def test_values_are_spread_around_the_product_of_the_mixtures(noise: float) -> None:
    exact = BetaRank(users=60, items=80, user_concentration=1000, item_concentration=50, noise=0).population(2)
    noisy = BetaRank(users=60, items=80, user_concentration=1000, item_concentration=50, noise=noise).population(2)
    off = noisy.values - exact.values
    assert off.mean() == pytest.approx(0, abs=5 * noise / np.sqrt(off.size))
    assert off.std() == pytest.approx(noise, rel=0.05)
    assert noisy.known.mean() == pytest.approx(0.98, abs=5 * noise / np.sqrt(off.size))
    assert noisy.known.std() == pytest.approx(noise, rel=0.05)
    assert (exact.known == 0.98).all()


def test_values_stay_between_0_and_1_where_the_spread_has_no_room() -> None:
    people = BetaRank(users=50, items=60, topics=2, noise=0.49, item_concentration=0.001).population(0)
    for values in (people.values, people.known):
        assert np.isfinite(values).all()
        assert (values >= 0).all()
        assert (values <= 1).all()
    assert people.known.mean() == pytest.approx(0.98, abs=0.01)


def test_whoever_knows_everything_knows_everything() -> None:
    people = BetaRank(users=10, items=12, users_per_step=5, known=1.0).population(0)
    np.testing.assert_array_equal(people.known, np.ones((10, 12)))


def test_users_are_alike_and_items_are_pure() -> None:
    def spread(**settings: float) -> float:
        people = BetaRank(users=80, items=90, noise=0, **settings).population(0)  # type: ignore[arg-type]
        return float(people.values.std(axis=0).mean())

    assert spread(user_concentration=1000) < spread() < spread(user_concentration=1)
    # The value of a pure item is the user's share of its topic, so that values are far apart between items.
    pure = BetaRank(users=80, items=90, noise=0).population(0).values
    mixed = BetaRank(users=80, items=90, noise=0, item_concentration=1000).population(0).values
    assert pure.std(axis=1).mean() > 5 * mixed.std(axis=1).mean()


def test_the_defaults_are_the_papers() -> None:
    kind = BetaRank()
    assert (kind.users, kind.items, kind.users_per_step, kind.slate, kind.topics) == (100, 170, 20, 10, 5)
    assert (kind.noise, kind.choice, kind.repeats) == (1e-5, PicksBest(position=0.8), "unrated")


@pytest.mark.parametrize(
    ("field", "value"),
    [("topics", 1), ("known", 0), ("known", 1.1), ("user_concentration", 0), ("item_concentration", -1), ("noise", 1)],
)
def test_settings_are_checked(field: str, value: float) -> None:
    with pytest.raises(ValidationError, match=field):
        BetaRank.model_validate({field: value})
