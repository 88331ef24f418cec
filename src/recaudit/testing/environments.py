"""What every environment must do; a new environment's test class inherits this."""

from __future__ import annotations

import io
import json
import pickle
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray
from pydantic import ValidationError

from recaudit.arrays import IntArray
from recaudit.errors import InputError
from recaudit.registry import ENVIRONMENTS
from recaudit.simulate.worlds.environment import Choice, Environment, Logit, PicksBest, TakesAll
from recaudit.simulate.worlds.population_env import PopulationEnv
from recaudit.specification import as_data

CHOICES = [
    *(TakesAll(), PicksBest(), PicksBest(trust=1), PicksBest(position=0.8)),
    *(Logit(temperature=0.5), Logit(trust=0.5, nothing=3)),
]


def changed(environment: Environment, **changes: Any) -> Environment:
    """The same environment with other settings, checked."""
    return environment.changed(**changes)


def some_slates(environment: Environment, seed: int) -> IntArray:
    """(users a step, slate): distinct items for everybody."""
    draw = np.random.default_rng(seed)
    rows = [draw.permutation(environment.items)[: environment.slate] for _ in range(environment.users_per_step)]
    return np.array(rows, dtype=np.int64)


def as_action(environment: Environment, items: IntArray) -> Any:
    """Slates as an action, with scores where users see them."""
    return {"items": items, "scores": 3 + np.cos(items)} if environment.choice.uses_scores else items


def live(env: PopulationEnv, slates: list[int]) -> list[dict[str, Any]]:
    """A step with each of these slates; the observations, with the reward among them."""
    out = []
    for seed in slates:
        observation, reward, *_ = env.step(as_action(env.environment, some_slates(env.environment, seed)))
        out.append(observation | {"reward": reward})
    return out


def assert_same(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    """Bit for bit."""
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def through_a_file(state: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """A state, written and read."""
    file = io.BytesIO()
    np.savez(file, **state)  # type: ignore[arg-type]  # numpy's stub takes the keywords for its own allow_pickle
    file.seek(0)
    with np.load(file, allow_pickle=False) as read:
        return dict(read)


class EnvironmentContract:
    """Give it an environment."""

    environment: Environment
    """A small one: some 20 users and 30 items, fewer online, all dynamics on."""
    dynamics: tuple[str, ...] = ()
    """The names that `without` knows."""
    people_are_given = False
    """Set to True for an environment whose people are those of a log, whatever the initial seed."""

    @pytest.fixture
    def env(self) -> PopulationEnv:
        env = PopulationEnv(self.free)
        env.reset(seed=1)
        return env

    @property
    def free(self) -> Environment:
        """The same, but everything may come again: all is shown that is asked for."""
        return changed(self.environment, repeats="always")

    @property
    def everybody(self) -> IntArray:
        return np.arange(self.environment.users)

    # ---- Gymnasium ------------------------------------------------------------------------------------

    def test_gymnasium_has_nothing_to_complain_of(self) -> None:
        check_env(PopulationEnv(self.environment), skip_render_check=True)  # there is nothing to render

    # ---- seeds ----------------------------------------------------------------------------------------

    def test_the_same_seeds_give_the_same_observations(self, env: PopulationEnv) -> None:
        other = PopulationEnv(self.free)
        other.reset(seed=1)
        assert_same(live(env, [3, 4, 5, 6]), live(other, [3, 4, 5, 6]))

    def test_another_seed_brings_other_chance_to_the_same_people(self, env: PopulationEnv) -> None:
        other = PopulationEnv(self.free)
        first = other.reset(seed=2)[0]
        np.testing.assert_array_equal(
            env.population.expected(self.everybody), other.population.expected(self.everybody)
        )
        assert first["users"].tolist() != env.reset(seed=1)[0]["users"].tolist()

    def test_another_initial_seed_makes_other_people(self, env: PopulationEnv) -> None:
        before = env.population.utilities(self.everybody)
        env.reset(seed=1, options={"initial": 1})
        assert np.array_equal(env.population.utilities(self.everybody), before) == self.people_are_given

    def test_going_on_does_not_touch_the_next_beginning(self, env: PopulationEnv) -> None:
        once = live(env, [3, 4])
        env.reset(seed=1)
        assert env.population.drift() in (0, None)
        assert_same(live(env, [3, 4]), once)

    # ---- common random numbers ------------------------------------------------------------------------

    def test_who_is_online_does_not_depend_on_what_was_shown(self, env: PopulationEnv) -> None:
        other = PopulationEnv(self.free)
        other.reset(seed=1)
        for left, right in zip(live(env, [3, 4, 5]), live(other, [6, 7, 8]), strict=True):
            np.testing.assert_array_equal(left["users"], right["users"])

    def test_chance_does_not_depend_on_what_was_shown_before(self) -> None:
        still = self.free.without(*self.dynamics)
        last = []
        for before in ([3, 4], [6, 7]):
            env = PopulationEnv(still)
            env.reset(seed=1)
            live(env, before)
            last.append(live(env, [5]))
        assert_same(*last)

    def test_what_one_user_is_shown_means_nothing_to_another(self, env: PopulationEnv) -> None:
        other = PopulationEnv(self.free)
        other.reset(seed=1)
        items = some_slates(self.environment, 3)
        changes = items.copy()
        changes[1:] = some_slates(self.environment, 4)[1:]
        left = env.step(as_action(self.environment, items))[0]
        right = other.step(as_action(self.environment, changes))[0]
        assert left["ratings"][0].tolist() == right["ratings"][0].tolist()
        assert left["rated"][0].tolist() == right["rated"][0].tolist()

    # ---- what is observed -----------------------------------------------------------------------------

    def test_ratings_are_inside_the_scale_and_the_reward_is_their_mean(self, env: PopulationEnv) -> None:
        low, high = self.environment.scale
        for observation in live(env, list(range(10))):
            rated = observation["rated"].astype(bool)
            ratings = observation["ratings"][rated]
            assert rated.any()
            assert (ratings >= low).all()
            assert (ratings <= high).all()
            assert (observation["ratings"][~rated] == 0).all()
            assert observation["reward"] == ratings.mean()

    def test_before_anything_is_rated_an_observation_says_nothing_about_the_people(self) -> None:
        env = PopulationEnv(self.free)
        here, info = env.reset(seed=1)
        there, _ = env.reset(seed=1, options={"initial": 1})
        assert_same([here], [there])
        assert info["allowed"].all()
        assert {name: len(values) for name, values in info["log"].items()} == {"users": 0, "items": 0, "ratings": 0}

    def test_nothing_of_the_truth_is_observed(self, env: PopulationEnv) -> None:
        online = env.reset(seed=1)[0]["users"]
        items = some_slates(self.environment, 3)
        observation, _, _, _, info = env.step(as_action(self.environment, items))
        assert set(observation) == {"users", "available", "shown_to", "shown", "ratings", "rated"}
        assert set(info) == {"allowed"}
        np.testing.assert_array_equal(observation["shown_to"], online)
        np.testing.assert_array_equal(observation["shown"], items)

    def test_what_is_observed_is_the_observers_own(self, env: PopulationEnv) -> None:
        other = PopulationEnv(self.free)
        observation, info = other.reset(seed=1)
        for array in (*observation.values(), *info["log"].values(), info["allowed"]):
            array[...] = 0
        assert_same(live(env, [3]), live(other, [3]))

    # ---- what may come again --------------------------------------------------------------------------

    @pytest.mark.parametrize("repeats", ["never", "unrated", "always"])
    def test_what_may_not_come_again_is_not_shown(self, repeats: str) -> None:
        kind = changed(self.environment, repeats=repeats, slate=3, choice=PicksBest())
        log = kind.offline(60)
        env = PopulationEnv(kind, begin=lambda initial: (log, kind.population(initial)))
        observation, info = env.reset(seed=1)
        np.testing.assert_array_equal(info["log"]["items"], log.items)
        gone: set[tuple[int, int]] = set(zip(log.users.tolist(), log.items.tolist(), strict=True))
        for step in range(12):
            users, items = observation["users"], some_slates(kind, step % 2)
            free = np.array([[(u, i) not in gone for i in range(kind.items)] for u in users.tolist()])
            np.testing.assert_array_equal(info["allowed"], free | (repeats == "always"))
            observation, _, _, _, info = env.step(items)
            wanted = np.take_along_axis(free | (repeats == "always"), items, axis=1)
            np.testing.assert_array_equal(observation["shown"], np.where(wanted, items, -1))
            assert not observation["rated"][~wanted].any()
            kept = observation["rated"].astype(bool) if repeats == "unrated" else wanted
            rows, places = np.nonzero(kept)
            gone |= set(zip(users[rows].tolist(), items[rows, places].tolist(), strict=True))

    def test_what_may_not_come_again_survives_a_state(self) -> None:
        env, other = (PopulationEnv(self.environment) for _ in range(2))
        env.reset(seed=1)
        live(env, [3, 4, 3])
        other.restore(through_a_file(env.state()))
        np.testing.assert_array_equal(other.allowed, env.allowed)
        assert_same(live(other, [3, 4]), live(env, [3, 4]))

    # ---- the truth ------------------------------------------------------------------------------------

    def test_the_truth_is_the_same_for_pairs_and_for_rows(self, env: PopulationEnv) -> None:
        live(env, list(range(12)))
        people = env.population
        users, items = np.divmod(np.random.default_rng(2).permutation(people.n_users * people.n_items), people.n_items)
        together = people.utilities(self.everybody)
        assert together.shape == (people.n_users, people.n_items)
        np.testing.assert_allclose(people.utility(users, items), together[users, items], atol=1e-12)
        np.testing.assert_allclose(people.utilities(self.everybody[[4, 2]]), together[[4, 2]], atol=1e-12)
        np.testing.assert_array_equal(people.expected(self.everybody), np.clip(together, *people.scale))

    def test_without_noise_a_rating_is_the_truth(self) -> None:
        env = PopulationEnv(changed(self.free, noise=0.0, slate=1, choice=TakesAll()))
        users = env.reset(seed=1)[0]["users"]
        for seed in range(6):
            items = some_slates(env.environment, seed)
            truth = env.population.expected(users)[np.arange(len(users)), items[:, 0]]
            observation = env.step(items)[0]
            np.testing.assert_allclose(observation["ratings"][:, 0], truth, atol=1e-12)
            users = observation["users"]

    @pytest.mark.parametrize("choice", [TakesAll(), PicksBest()], ids=repr)
    def test_what_was_expected_is_the_truth_when_it_was_rated(self, choice: Choice) -> None:
        env = PopulationEnv(changed(self.free, noise=0.0, slate=4, choice=choice))
        users = env.reset(seed=1)[0]["users"]
        for seed in range(6):
            items = some_slates(env.environment, seed)
            before = np.take_along_axis(env.population.expected(users), items, axis=1)
            observation = env.step(items)[0]
            rated = observation["rated"].astype(bool)
            np.testing.assert_allclose(env.expected[rated], observation["ratings"][rated], atol=1e-12)
            np.testing.assert_allclose(env.expected[~rated], before[~rated], atol=1e-12)
            users = observation["users"]

    def test_people_drift_only_as_they_live(self, env: PopulationEnv) -> None:
        assert env.population.drift() in (0, None)
        live(env, list(range(5)))
        drift = env.population.drift()
        assert drift is None or (drift > 0) == ("affinity" in self.dynamics)
        still = PopulationEnv(self.free.without(*self.dynamics))
        still.reset(seed=1)
        before = still.population.utilities(self.everybody)
        live(still, list(range(5)))
        assert still.population.drift() in (0, None)
        np.testing.assert_array_equal(still.population.utilities(self.everybody), before)

    def test_only_known_dynamics_can_be_switched_off(self) -> None:
        with pytest.raises(InputError, match="dynamics: received gravity"):
            self.environment.without("gravity")
        assert self.environment.without() == self.environment

    # ---- stop and go on -------------------------------------------------------------------------------

    def test_it_goes_on_from_its_state_as_if_nothing_had_been(self, env: PopulationEnv) -> None:
        env.reset(seed=2**63 + 5, options={"initial": 4})
        before = live(env, [3, 4, 5])
        state = env.state()
        after = live(env, [6, 7, 8])
        resumed = PopulationEnv(self.free)
        first = resumed.restore(through_a_file(state))
        np.testing.assert_array_equal(first["users"], before[-1]["users"])
        assert_same(live(resumed, [6, 7, 8]), after)
        assert resumed.population.drift() == env.population.drift()

    def test_it_survives_pickling(self, env: PopulationEnv) -> None:
        live(env, [3, 4])
        copy = pickle.loads(pickle.dumps(env))
        assert copy.environment == self.free
        assert_same(live(copy, [5, 6]), live(env, [5, 6]))

    # ---- slates and arrivals --------------------------------------------------------------------------

    @pytest.mark.parametrize("choice", CHOICES, ids=repr)
    def test_slates_and_choices_work(self, choice: Choice) -> None:
        environment = changed(self.free, slate=3, choice=choice)
        env = PopulationEnv(environment)
        env.reset(seed=1)
        for observation in live(env, [3, 4, 5]):
            taken = observation["rated"].sum(axis=1)
            assert (taken == 3).all() if isinstance(choice, TakesAll) else (taken <= 1).all()

    def test_nothing_and_repetitions_are_not_rated(self) -> None:
        env = PopulationEnv(changed(self.free, slate=3, choice=TakesAll()))
        env.reset(seed=1)
        items = np.tile([5, -1, 5], (self.environment.users_per_step, 1))
        observation = env.step(items)[0]
        assert (observation["rated"] == [1, 0, 0]).all()
        observation, reward, *_ = env.step(np.full_like(items, -1))
        assert not observation["rated"].any()
        assert reward == 0

    def test_nobody_and_nothing_is_there_before_it_arrives(self) -> None:
        late_users, late_items = 4, 6
        environment = changed(
            self.free, late_users=late_users, late_items=late_items, arrival_steps=3, slate=1, choice=TakesAll()
        )
        env = PopulationEnv(environment)
        observation = env.reset(seed=1)[0]
        there = []
        for step in range(40):
            early, present = self.environment.users - late_users, observation["available"].sum()
            assert observation["available"].tolist() == [1] * present + [0] * (self.environment.items - present)
            assert observation["users"].max() < early + (late_users * min(step, 3)) // 3
            there.append((present, observation["users"].max()))
            items = some_slates(environment, step)
            observation = env.step(items)[0]
            assert (observation["rated"] == (items < present)).all()
        everything = self.environment.items
        assert [present for present, _ in there[:4]] == [everything - 6, everything - 4, everything - 2, everything]
        assert max(user for _, user in there) == self.environment.users - 1
        log = environment.offline(environment.present_users(0) * environment.present_items(0))
        assert log.users.max() == self.environment.users - late_users - 1
        assert log.items.max() == everything - late_items - 1

    # ---- the log --------------------------------------------------------------------------------------

    def test_the_log_has_so_many_different_pairs_of_everybody_and_everything(self) -> None:
        log = self.environment.offline(50, seed=3)
        low, high = self.environment.scale
        assert len(log) == len({*zip(log.users.tolist(), log.items.tolist(), strict=True)}) == 50
        assert (log.n_users, log.n_items) == (self.environment.users, self.environment.items)
        assert log.scale == (low, high)
        assert ((log.ratings >= low) & (log.ratings <= high)).all()
        assert log.times is not None
        everything = self.environment.offline(self.environment.users * self.environment.items)
        assert len(everything) == self.environment.users * self.environment.items

    def test_the_log_follows_from_the_initial_seed(self) -> None:
        first, again, other = (self.environment.offline(50, seed=seed) for seed in (3, 3, 4))
        assert first.frame().equals(again.frame())
        assert not first.frame().equals(other.frame())

    def test_the_log_is_the_same_whichever_dynamics_are_on(self) -> None:
        log = self.environment.offline(80, seed=3).frame()
        for count in range(1, len(self.dynamics) + 1):
            for names in combinations(self.dynamics, count):
                assert self.environment.without(*names).offline(80, seed=3).frame().equals(log)

    @pytest.mark.parametrize("ratings", [0, -5, 10**9])
    def test_a_log_of_an_impossible_size_is_refused(self, ratings: int) -> None:
        with pytest.raises(InputError, match="ratings: received"):
            self.environment.offline(ratings)

    # ---- settings -------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("noise", -0.1),
            ("noise", float("nan")),
            ("users_per_step", 0),
            ("users_per_step", 10**6),
            ("slate", -1),
            ("slate", 10**6),
            ("late_users", -1),
            ("late_users", 10**6),
            ("late_items", 10**6),
            ("arrival_steps", 0),
            ("repeats", "sometimes"),
        ],
    )
    def test_settings_that_cannot_be_are_refused_by_name(self, field: str, value: Any) -> None:
        with pytest.raises(InputError, match=field):
            changed(self.environment, **{field: value})

    def test_it_is_frozen_and_refuses_unknown_settings(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            self.environment.noise = 0.1
        with pytest.raises(InputError, match="surprise: received a key that is not known"):
            changed(self.environment, surprise=1)

    def test_as_data_tells_settings_apart_and_reads_back(self) -> None:
        told = [
            as_data(changed(self.environment, **changes), ENVIRONMENTS)
            for changes in ({}, {"noise": 0.1}, {"choice": Logit()}, {"choice": PicksBest(trust=2)}, {"slate": 7})
        ]
        assert len({json.dumps(one) for one in told}) == 5
        assert ENVIRONMENTS[told[0]["kind"]] is type(self.environment)
