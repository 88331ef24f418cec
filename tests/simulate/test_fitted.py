from __future__ import annotations

import json
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.models import ALS, EASE, ItemKNN, TopPop
from recaudit.registry import ENVIRONMENTS, MODELS
from recaudit.simulate.worlds.fitted import FromData
from recaudit.simulate.worlds.latent import Latent
from recaudit.simulate.worlds.learning import balanced, noise_of
from recaudit.simulate.worlds.population_env import PopulationEnv
from recaudit.specification import as_data
from recaudit.testing.environments import EnvironmentContract, changed
from simulate.fitted_worlds import ACTIVITY, RATINGS, TRUTH, fitted, log

SMALL = Latent(users=20, items=30, users_per_step=8, factors=2, noise=0.3).offline(560)


class OfTheSamePeople(EnvironmentContract):
    """The people are those of the log, so that one test of the contract asks for the opposite."""

    def test_another_initial_seed_makes_other_people(self, env: PopulationEnv) -> None:
        before = env.population.utilities(self.everybody)
        env.reset(seed=1, options={"initial": 1})
        np.testing.assert_array_equal(env.population.utilities(self.everybody), before)


def prepared(environment: FromData) -> FromData:
    environment.prepare()
    return environment


class TestFromData(OfTheSamePeople):
    environment = prepared(
        FromData(data=SMALL, recommender=ALS(factors=2), users_per_step=8, affinity=0.2, boredom_penalty=1.0)
    )
    dynamics = ("affinity", "boredom")


class TestFromDataWithoutFactors(OfTheSamePeople):
    environment = prepared(
        FromData(data=SMALL, recommender=ItemKNN(neighbours=10), users_per_step=8, exposure="uniform")
    )


@cache
def made() -> Interactions:
    return fitted(rounded=True).offline(RATINGS, seed=4)


# ---- what is learnt -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rounded", [False, True])
def test_the_noise_is_found_again_whether_or_not_ratings_were_rounded(rounded: bool) -> None:
    assert fitted(rounded=rounded).learned.noise == pytest.approx(TRUTH.noise, rel=0.1)


@pytest.mark.parametrize("rounded", [False, True])
def test_what_items_are_worth_is_found_again(rounded: bool) -> None:
    truth = TRUTH.population(0).utilities(np.arange(200))
    found = fitted(rounded=rounded).population().utilities(np.arange(200))
    assert np.corrcoef(truth.ravel(), found.ravel())[0, 1] > 0.95
    assert found.mean() == pytest.approx(truth.mean(), abs=0.1)


def test_activity_and_popularity_are_those_of_the_log() -> None:
    learned = fitted().learned
    expected = 1 - np.exp(-np.outer(learned.activity, learned.popularity))
    np.testing.assert_allclose(expected.sum(axis=1), log().user_counts, rtol=1e-3)
    np.testing.assert_allclose(expected.sum(axis=0), log().item_counts, rtol=1e-3)
    assert stats.spearmanr(learned.activity, ACTIVITY).statistic > 0.95


def test_levels_are_the_log_s_own_where_it_has_them() -> None:
    assert fitted().learned.levels is None
    assert fitted().population().levels is None
    levels = fitted(rounded=True).learned.levels
    assert levels is not None
    assert levels.tolist() == [1, 2, 3, 4, 5]


def test_factors_have_the_same_worth_and_both_sides_are_alike() -> None:
    model = ALS(factors=3, regularization=0.05).fit(log())
    scores = model.scores(np.arange(200))
    users, items, level, bias = balanced(model)
    np.testing.assert_allclose(users @ items.T + level[:, None] + bias, scores, atol=1e-10)
    assert (users**2).sum(axis=1).mean() == pytest.approx((items**2).sum(axis=1).mean())
    for side in (users, items):
        gram = side.T @ side
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-8)


@pytest.mark.parametrize("levels", [None, np.array([1.0, 2, 3, 4, 5])], ids=["clipped", "rounded"])
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_noise_is_found_through_the_ends_of_the_scale(levels: Any, noise: float) -> None:
    draw = np.random.default_rng(0)
    worth = draw.uniform(0.5, 5.5, 40_000)
    ratings = np.clip(worth + noise * draw.standard_normal(40_000), 1, 5)
    ratings = ratings if levels is None else np.rint(ratings)
    assert noise_of(worth, ratings, (1, 5), levels) == pytest.approx(noise, rel=0.03)


def test_no_noise_is_found_where_there_is_none() -> None:
    worth = np.linspace(1, 5, 1001)
    assert noise_of(worth, worth, (1, 5), None) == 0
    assert noise_of(worth, np.rint(worth), (1, 5), np.arange(1.0, 6)) == 0


def test_the_recommender_given_says_what_items_are_worth() -> None:
    recommender = ItemKNN(neighbours=20)
    environment = FromData(data=log(rounded=True), recommender=recommender)
    scores = recommender.fit(log(rounded=True)).scores(np.arange(200))
    people = environment.population()
    np.testing.assert_array_equal(people.utilities(np.arange(200)), scores)
    assert people.utility(np.array([3, 5]), np.array([7, 9])).tolist() == [scores[3, 7], scores[5, 9]]


def test_a_better_recommender_leaves_less_noise() -> None:
    crude = FromData(data=log(), recommender=TopPop(by="mean"))
    assert crude.learned.noise > 1.2 * fitted().learned.noise
    assert crude.learned.error > fitted().learned.error


# ---- what is made -------------------------------------------------------------------------------------


def test_a_made_log_carries_all_that_is_known_about_users_and_items() -> None:
    data, real = made(), log(rounded=True)
    assert data.user_ids.equals(real.user_ids)
    assert data.item_ids.equals(real.item_ids)
    everything = np.arange(real.n_items)
    assert data.item_labels(everything) == real.item_labels(everything) == [id_.upper() for id_ in real.item_ids]
    assert data.attributes.equals(real.attributes)
    assert data.categories["genre"].names == real.categories["genre"].names
    assert data.scale == (1, 5)


def test_ratings_are_rounded_only_where_that_is_wanted() -> None:
    assert set(made().ratings) == {1, 2, 3, 4, 5}
    smooth = fitted(rounded=True).model_copy(update={"rounded": False}).offline(1000)
    assert len(np.unique(smooth.ratings)) > 500


def test_made_logs_follow_activity_and_popularity_and_uniform_ones_do_not() -> None:
    real = log(rounded=True)
    uniform = fitted(rounded=True).model_copy(update={"exposure": "uniform"}).offline(RATINGS, seed=4)
    for counts in ("item_counts", "user_counts"):
        assert stats.spearmanr(getattr(made(), counts), getattr(real, counts)).statistic > 0.9
        assert abs(stats.spearmanr(getattr(uniform, counts), getattr(real, counts)).statistic) < 0.3


def test_busy_users_are_online_more_often() -> None:
    seen = {}
    for exposure in ("log", "uniform"):
        env = PopulationEnv(fitted().model_copy(update={"exposure": exposure}))
        online = [env.reset(seed=seed)[0]["users"] for seed in range(60)]
        seen[exposure] = stats.spearmanr(np.bincount(np.concatenate(online), minlength=200), log().user_counts)
    assert seen["log"].statistic > 0.8
    assert -0.3 < seen["uniform"].statistic < 0.3


def test_the_real_log_ends_where_the_simulation_begins() -> None:
    real = fitted(rounded=True).real_log()
    assert real.times is not None
    assert log(rounded=True).times is not None
    assert real.times.max() == 0
    np.testing.assert_array_equal(np.argsort(real.times), np.argsort(log(rounded=True).times))  # type: ignore[arg-type]  # not None
    np.testing.assert_array_equal(real.ratings, log(rounded=True).ratings)


def test_a_log_without_times_has_them_all_at_the_beginning() -> None:
    timeless = Interactions.from_frame(log().frame(), scale=(1, 5))
    assert set(FromData(data=timeless, recommender=TopPop(by="mean")).real_log().times) == {0}  # type: ignore[arg-type]  # not None


def test_real_ratings_may_be_the_offline_log() -> None:
    environment = fitted(rounded=True).model_copy(update={"offline_log": "real"})
    part, real = environment.offline(500, seed=2), log(rounded=True)
    assert len(part) == 500
    assert part.frame().join(real.frame(), on=["user", "item", "rating"]).height == 500
    assert environment.offline(RATINGS).frame().drop("time").equals(real.frame().drop("time"))
    assert not environment.offline(500, seed=3).frame().equals(part.frame())
    with pytest.raises(InputError, match="ratings: received 12001; expected a whole number from 1 to 12,000"):
        environment.offline(RATINGS + 1)


def test_only_those_who_are_there_are_in_a_real_offline_log() -> None:
    environment = changed(fitted(rounded=True), offline_log="real", late_users=50, late_items=30)
    there = (log().users < 150) & (log().items < 120)
    part = environment.offline(int(there.sum()))
    assert (part.users.max(), part.items.max()) == (149, 119)
    with pytest.raises(InputError, match="there at the start"):
        environment.offline(int(there.sum()) + 1)


# ---- what it is ---------------------------------------------------------------------------------------


def test_as_data_says_which_log_and_which_model() -> None:
    here = fitted()
    others = [
        fitted(rounded=True),
        FromData(data=log(), recommender=TopPop(by="mean")),
        FromData(data=log(), recommender=TopPop(by="mean"), rng=1),
        here.without("affinity").model_copy(update={"exposure": "uniform"}),
    ]
    told = [as_data(one, ENVIRONMENTS) for one in (here, *others)]
    assert told[0]["data"] == {"fingerprint": log().fingerprint}
    assert told[2]["recommender"] == as_data(TopPop(by="mean"), MODELS)
    assert len({json.dumps(one) for one in told}) == 5
    assert as_data(FromData(data=log(), factors=3), ENVIRONMENTS) == told[0]


def test_it_survives_pickling_and_its_arrays_cannot_be_written_to() -> None:
    fitted().prepare()
    copy: FromData = pickle.loads(pickle.dumps(fitted()))
    assert as_data(copy) == as_data(fitted())
    assert "learned" in copy.__dict__  # and is not fitted again
    assert copy.offline(200, seed=1).frame().equals(fitted().offline(200, seed=1).frame())
    worth = fitted().learned.worth
    assert isinstance(worth, tuple)
    for array in (*worth, fitted().learned.activity):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_other_settings_do_not_fit_it_again_and_other_people_do() -> None:
    fitted().prepare()
    assert fitted().changed(slate=3, noise=0.1).learned is fitted().learned
    assert fitted().changed(rng=1, recommender=TopPop(by="mean"), factors=8).learned is not fitted().learned


def test_a_data_set_by_name_is_loaded_when_it_is_needed() -> None:
    named = FromData(data="ml-100k", users=943, items=1682)
    assert (named.users_per_step, as_data(named)["data"]) == (188, {"name": "ml-100k"})
    with pytest.raises(InputError, match=r"data: received ml-100; .*Did you mean 'ml-100k'"):
        FromData(data="ml-100")


def test_people_who_live_leave_the_description_as_it_is() -> None:
    environment = FromData(data=SMALL, factors=2, affinity=0.5)
    env = PopulationEnv(environment)
    env.reset(seed=0)
    before = environment.population().utilities(np.arange(20))
    env.step(np.zeros((environment.users_per_step, 1), dtype=np.int64))
    assert (env.population.drift() or 0.0) > 0
    np.testing.assert_array_equal(environment.population().utilities(np.arange(20)), before)


def test_a_fifth_of_the_users_is_online_where_nothing_is_said() -> None:
    assert fitted().users_per_step == 40


# ---- what is refused ----------------------------------------------------------------------------------


def test_an_implicit_log_is_refused() -> None:
    implicit = Interactions.from_frame(log().frame(), rating=None)
    with pytest.raises(InputError, match="every rating is 1; expected ratings that differ"):
        FromData(data=implicit).prepare()


def test_a_log_of_a_few_ratings_is_refused() -> None:
    with pytest.raises(InputError, match="a log of 499 ratings; expected at least 500"):
        FromData(data=log().subset(np.arange(RATINGS) < 499)).prepare()


def test_a_recommender_that_only_ranks_is_refused() -> None:
    with pytest.raises(NotSupportedError, match="EASE: its scores rank items"):
        FromData(data=log(), recommender=EASE(center="none")).prepare()


def test_dynamics_need_factors() -> None:
    with pytest.raises(InputError, match=r"affinity: received more than 0.*TopPop has no factors"):
        FromData(data=log(), recommender=TopPop(by="mean"), affinity=0.1).prepare()


def test_sizes_are_those_of_the_log() -> None:
    with pytest.raises(InputError, match="users, items: received 100 and 150; expected 200 and 150"):
        changed(fitted(), users=100)


def test_factors_are_those_of_the_recommender_given() -> None:
    with pytest.raises(InputError, match="factors: received 3; expected nothing"):
        FromData(data=log(), recommender=ALS(), factors=3)


def test_a_continuous_log_has_no_levels_to_round_to() -> None:
    with pytest.raises(InputError, match="rounded: received True"):
        FromData(data=log(), recommender=TopPop(by="mean"), rounded=True)
