"""Worlds in which a table of all users and items would not fit: what replaces it agrees with it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recaudit as ra
from recaudit import machine, simulate
from recaudit.data.growth import blank, grown
from recaudit.errors import MachineError
from recaudit.policies import EpsilonGreedy, Top1
from recaudit.seeding import generator
from recaudit.simulate.loop import simulation, trial
from recaudit.simulate.loop.room import check_room, trial_memory
from recaudit.simulate.worlds import latent, pairs
from recaudit.simulate.worlds.learning import learn
from recaudit.simulate.worlds.pairs import PairSet, drawn_pairs, drawn_users

TOP_POP = ra.models.TopPop(by="mean")
LARGE: dict[str, Any] = {"users": 20_000, "items": 20_000, "users_per_step": 100}
"""A fiftieth of a million users: who may be shown what would be a table of 400 MB."""
DENSE = 20_000 * 20_000


@pytest.mark.parametrize(
    ("environment", "recommender"),
    [
        (simulate.Topics(**LARGE, affinity=0.1, boredom_penalty=1.0), TOP_POP),
        (simulate.Latent(**LARGE, factors=8, affinity=0.2, boredom_penalty=2.0), simulate.Oracle()),
        (simulate.LatentScore(**LARGE), TOP_POP),
    ],
    ids=["topics", "latent", "latent-score"],
)
def test_no_table_of_all_pairs_is_made(
    environment: simulate.Environment,
    recommender: ra.models.Recommender,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulation, "MOST_PAIRS", 2**20)
    scenario = simulate.Scenario(name="large", environment=environment, ratings=50_000, steps=3)
    tracemalloc.start()
    found = simulate.run(scenario, recommender, out=tmp_path / "run")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.steps) == 3
    assert peak < DENSE / 2  # the smallest table of all pairs has a byte for each
    assert peak < trial_memory(scenario)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < DENSE / 50


class TestPairSet:
    def test_is_the_table_without_the_table(self) -> None:
        draw = np.random.default_rng(0)
        found, table = PairSet(7), np.zeros((40, 7), dtype=bool)
        for _ in range(30):
            users, items = draw.integers(0, 40, 9), draw.integers(0, 7, 9)
            found.add(users, items)
            table[users, items] = True
            asked = draw.permutation(40)[:25]
            np.testing.assert_array_equal(found.rows(asked), table[asked])
        keys = found.keys()
        np.testing.assert_array_equal(keys, np.flatnonzero(table.ravel()))
        np.testing.assert_array_equal(PairSet(7, keys).rows(np.arange(40)), table)

    def test_an_empty_one_has_nothing(self) -> None:
        assert not PairSet(3).rows(np.array([0, 5])).any()
        assert PairSet(3).keys().tolist() == []

    def test_has_few_runs(self) -> None:
        found = PairSet(1)
        for user in range(1000):
            found.add(np.array([user]), np.array([0]))
        assert len(found._runs) <= 10

    @pytest.mark.parametrize(
        "keys", [np.array([6]), np.array([-1]), np.array([[1]]), np.array([1.0]), np.zeros(9, bool)]
    )
    def test_a_state_of_another_world_is_refused(self, keys: Any) -> None:
        env = simulate.PopulationEnv(simulate.Topics(users=2, items=3, users_per_step=1))
        env.reset(seed=0)
        with pytest.raises(ra.errors.InputError, match="pairs than those of 2 users and 3 items"):
            env.restore(env.state() | {"hidden": keys})


class TestDraws:
    def test_of_users_are_the_first_of_all(self) -> None:
        activity = np.random.default_rng(1).gamma(0.5, size=500) + 1e-3
        times = np.random.default_rng(2).standard_exponential(500) / activity
        assert drawn_users(np.random.default_rng(2), activity, 60).tolist() == np.argsort(times)[:60].tolist()

    def test_one_by_one_follow_the_law_of_the_race(self, monkeypatch: pytest.MonkeyPatch) -> None:
        activity, popularity = np.array([2.0, 7.0]), np.array([3.0, 1.0])
        rates = np.outer(activity, popularity).ravel() / 36
        # Of the first two pairs of four: p_a p_b / (1 - p_a).
        law = np.array([[a * b / (1 - a) if i != j else 0.0 for j, b in enumerate(rates)] for i, a in enumerate(rates)])
        monkeypatch.setattr(pairs, "_TABLE", 0)
        monkeypatch.setattr(pairs, "_DRAWN", 3)
        found = np.zeros((4, 4))
        for seed in range(4000):
            who, what = drawn_pairs(np.random.default_rng(seed), (2, 2), 2, activity, popularity)
            found[tuple(who * 2 + what)] += 1 / 4000
        np.testing.assert_allclose(found, law, atol=0.03)

    def test_one_by_one_are_distinct_and_as_many_as_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pairs, "_TABLE", 0)
        monkeypatch.setattr(pairs, "_DRAWN", 5)
        who, what = drawn_pairs(np.random.default_rng(0), (30, 20), 600, np.arange(1.0, 41.0), None)
        assert sorted(who * 20 + what) == list(range(600))


class TestDrift:
    ENVIRONMENT = simulate.Latent(users=50, items=30, users_per_step=10, factors=6, affinity=0.3)

    def test_user_by_user_is_that_of_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        people = self.ENVIRONMENT.population(0)
        for step in range(4):
            people.take(np.arange(10) * 5 % 50, np.arange(10) + step)
            whole = people.drift()
            with monkeypatch.context() as patch:
                patch.setattr(latent, "_WHOLE", 0)
                assert people.drift() == pytest.approx(whole, rel=1e-12)

    def test_is_the_same_after_a_kill(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(latent, "_WHOLE", 0)
        people, other = self.ENVIRONMENT.population(0), self.ENVIRONMENT.population(0)
        for step in range(5):
            people.take(np.arange(step, 50, 7), np.arange(step, 50, 7) % 30)
            people.drift()
        other.restore(people.state())
        assert other.drift() == people.drift() > 0

    def test_a_state_has_no_more_than_what_changes(self) -> None:
        moving, still = (
            kind.population(0).state() for kind in (self.ENVIRONMENT, self.ENVIRONMENT.without("affinity"))
        )
        assert moving.keys() - still.keys() == {"user_factors"}


class TestSamples:
    ENVIRONMENT = simulate.Topics(users=60, items=80, topics=5, users_per_step=12)

    def test_the_error_of_a_large_population_is_that_of_a_sample(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(simulation, "MOST_PAIRS", 25 * 80)
        found = simulate.run(self.ENVIRONMENT, TOP_POP, ratings=400, steps=1)
        seed = trial.Loop(scenario=simulate.paper("topics-static"), recommender=TOP_POP).seeds(0)[1]
        users = np.sort(generator(seed, "measured", 0).choice(60, 25, replace=False))
        model = TOP_POP.fit(self.ENVIRONMENT.offline(400))
        error = model.scores(users) - self.ENVIRONMENT.population(0).expected(users)
        assert found["population_rmse"] == pytest.approx(np.sqrt((error**2).mean()))
        assert "population_rmse is of 25 users drawn from 60." in found.summary()

    def test_slates_are_made_some_users_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model = ra.models.ItemKNN().fit(self.ENVIRONMENT.offline(900))
        allowed = np.random.default_rng(0).random((60, 80)) < 0.5
        for policy in (Top1(), EpsilonGreedy(epsilon=0.5)):
            whole = trial.slates(model, policy, np.arange(60), allowed, 3, 1)
            with monkeypatch.context() as patch:
                patch.setattr(trial, "SCORED", 7 * 80)
                for one, other in zip(trial.slates(model, policy, np.arange(60), allowed, 3, 1), whole, strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-12)

    def test_pairs_are_worth_what_rows_say_some_rows_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        people = self.ENVIRONMENT.population(0)
        monkeypatch.setattr("recaudit.simulate.worlds.environment._ROWS", 7 * 80)
        users, items = np.random.default_rng(0).integers(0, (60, 80), (200, 2)).T
        found = simulate.Population.utility(people, users, items)
        np.testing.assert_array_equal(found, people.utilities(users)[np.arange(200), items])


class TestRoom:
    def test_where_a_table_is_the_world_it_must_fit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "available_memory", lambda: 2**30)
        world = simulate.BetaRank(users=1_000_000, items=20_000)
        for ask in (world.population, lambda: simulate.run(world, TOP_POP, ratings=1000, steps=1)):
            with pytest.raises(MachineError, match=r"needs 1,19\d\.\d GiB .* without a table of all pairs: topics"):
                ask()

    def test_a_million_users_need_no_table(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "available_memory", lambda: 4 * 2**30)
        world = simulate.Topics(users=1_000_000, items=20_000, users_per_step=1000, affinity=0.1)
        check_room(simulate.Scenario(name="large", environment=world, ratings=10_000_000, steps=1000))

    def test_models_without_factors_make_a_table(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = ra.datasets.load("demo")
        monkeypatch.setattr(machine, "available_memory", lambda: 1000)
        with pytest.raises(MachineError, match=r"by UserKNN needs .* Use a recommender with factors"):
            learn(data, 8, ra.models.UserKNN(), 0)

    def test_many_of_all_pairs_are_drawn_from_a_table(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "available_memory", lambda: 1000)
        with pytest.raises(MachineError, match=r"Drawing 21 .* up to a fiftieth of the pairs"):
            drawn_pairs(np.random.default_rng(0), (100, 10), 21, None, None)
        assert len(drawn_pairs(np.random.default_rng(0), (100, 10), 20, None, None)[0]) == 20


def test_a_log_takes_ratings_where_they_belong() -> None:
    draw = np.random.default_rng(3)
    log, known = blank(25, 12, (1, 5)), dict[tuple[int, int], tuple[float, int]]()
    for step in range(20):
        users, items, ratings = draw.integers(0, 25, 15), draw.integers(0, 12, 15), draw.uniform(1, 5, 15)
        log = grown(log, users, items, ratings, np.full(15, step))
        known |= {(u, i): (r, step) for u, i, r in zip(users.tolist(), items.tolist(), ratings, strict=True)}
    assert log.frame().rows() == [(*pair, *known[pair]) for pair in sorted(known)]
