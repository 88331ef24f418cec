"""The closed loop: what happens in it, and what is written down."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

import recaudit as ra
from recaudit import simulate
from recaudit.audits.audit import Audit
from recaudit.audits.lists.exposure import Exposure
from recaudit.data import Interactions
from recaudit.engines import Processes, Threads
from recaudit.errors import InputError, NotSupportedError
from recaudit.models import FittedModel
from recaudit.policies import EpsilonGreedy, Power, Softmax
from recaudit.registry import AUDITS
from recaudit.simulate.loop.simulation import interval
from simulate.own_audits import SEEN, Broken, Fingerprint, LogSize, Look, Refuses

SMALL = simulate.Topics(users=60, items=80, topics=5, users_per_step=12, affinity=0.1, boredom_penalty=1.0)
STATIC = SMALL.without("affinity", "boredom")
TOP_POP = ra.models.TopPop(by="mean")
run = partial(simulate.run, ratings=400, steps=12)


class TestWhatHappens:
    def test_every_step_has_a_rating_for_everybody_online(self) -> None:
        found = run(SMALL, TOP_POP)
        assert found.steps["step"].to_list() == list(range(12))
        assert (found.steps["ratings"] == 12).all()
        assert found.steps["mean_rating"].is_between(1, 5).all()

    def test_nothing_is_shown_twice_and_nothing_that_was_rated(self, tmp_path: Path) -> None:
        shown = run(SMALL, TOP_POP, steps=40, out=tmp_path / "run").slates().collect()
        pairs = set(shown.select("user", "item").iter_rows())
        assert len(pairs) == len(shown)
        assert not pairs & set(SMALL.offline(400).frame().select("user", "item").iter_rows())

    def test_what_may_repeat_does(self, tmp_path: Path) -> None:
        free = SMALL.model_copy(update={"repeats": "always"})
        shown = run(free, simulate.Oracle(), steps=60, out=tmp_path / "run").slates().collect()
        assert shown.select("user", "item").n_unique() < len(shown)

    def test_unrated_items_may_come_again_where_users_choose(self, tmp_path: Path) -> None:
        choosing = STATIC.model_copy(update={"slate": 5, "choice": simulate.PicksBest(), "repeats": "unrated"})
        shown = run(choosing, TOP_POP, steps=40, out=tmp_path / "run").slates().collect()
        assert shown.select("user", "item").n_unique() < len(shown)
        rated = shown.filter(pl.col("rating").is_not_null())
        assert rated.select("user", "item").n_unique() == len(rated) == 40 * 12
        again = shown.join(rated, on=["user", "item"], suffix="_rated")
        assert (again["step"] <= again["step_rated"]).all()

    def test_a_catalogue_that_runs_out_ends_in_empty_slates(self) -> None:
        tiny = simulate.Topics(users=4, items=6, topics=2, users_per_step=4)
        found = run(tiny, TOP_POP, ratings=8, steps=10)
        assert found.steps["ratings"].sum() == 4 * 6 - 8
        assert found.steps["mean_rating"][-1] is None

    def test_people_and_items_that_come_later_are_met_later(self, tmp_path: Path) -> None:
        growing = simulate.Topics(
            users=40, items=50, topics=4, users_per_step=10, late_users=20, late_items=30, arrival_steps=20
        )
        shown = run(growing, ra.models.Random(), ratings=100, steps=30, out=tmp_path / "run").slates().collect()
        early = shown.filter(pl.col("step") == 0)
        assert early["user"].max() < 20  # type: ignore[operator]
        assert early["item"].max() < 20  # type: ignore[operator]
        assert shown["user"].n_unique() > 30
        assert shown["item"].max() >= 40  # type: ignore[operator]

    def test_the_oracle_shows_the_best_there_is(self, tmp_path: Path) -> None:
        found = run(STATIC, simulate.Oracle(), steps=1, out=tmp_path / "run")
        shown = found.slates().collect()
        truth = STATIC.population(0).expected(np.arange(60))
        seen = SMALL.offline(400).seen(np.arange(60))
        best = np.where(seen, -np.inf, truth).max(axis=1)
        assert shown["expected"].to_list() == best[shown["user"].to_numpy()].tolist()
        assert found["population_rmse"] == 0

    def test_the_oracle_cannot_be_fitted(self) -> None:
        with pytest.raises(NotSupportedError, match="simulate"):
            simulate.Oracle().fit(SMALL.offline(400))

    def test_a_better_recommender_gets_better_ratings(self) -> None:
        oracle, random = run(SMALL, simulate.Oracle(), steps=30), run(SMALL, ra.models.Random(), steps=30)
        assert oracle["mean_rating"] > random["mean_rating"] + 0.5

    def test_calibrated_lists_can_be_shown(self) -> None:
        policy = ra.policies.Calibrated(weight=0.5, size=5, categories="topic")
        slates = STATIC.model_copy(update={"slate": 5})
        assert run(slates, ra.models.ItemKNN(), policy, steps=3).steps["ratings"].to_list() == [60, 60, 60]


class Counting(ra.models.Recommender):
    """Says what it was fitted to."""

    def fit(self, data: Interactions, rng: int = 0) -> FittedModel:
        FITS.append(("cold", len(data), rng))
        return TOP_POP.fit(data, rng)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> FittedModel:
        FITS.append(("warm", len(data), rng))
        return TOP_POP.fit(data, rng)


FITS: list[tuple[str, int, int]] = []


class TestLearning:
    @pytest.fixture(autouse=True)
    def _nothing_yet(self) -> None:
        FITS.clear()

    def test_from_scratch_at_every_step(self) -> None:
        run(SMALL, Counting(), steps=4)
        assert [(kind, n) for kind, n, _ in FITS] == [("cold", 400 + 12 * step) for step in range(4)]

    def test_every_so_many_steps(self) -> None:
        run(SMALL, Counting(), steps=7, retrain=3)
        assert [n for _, n, _ in FITS] == [400, 436, 472]

    def test_once(self) -> None:
        run(SMALL, Counting(), steps=7, retrain=0)
        assert [n for _, n, _ in FITS] == [400]

    def test_from_the_model_before(self) -> None:
        run(SMALL, Counting(), steps=3, warm=True)
        assert [kind for kind, _, _ in FITS] == ["cold", "warm", "warm"]

    def test_the_log_knows_when(self) -> None:
        SEEN.clear()
        run(SMALL, TOP_POP, steps=3, audits={"look": Look()}, audit_every=1)
        assert len(SEEN) == 3
        assert np.unique(SEEN[-1].times).tolist() == [0, 1, 2]  # type: ignore[arg-type]


class TestMeasures:
    def test_by_hand(self, tmp_path: Path) -> None:
        found = run(SMALL, ra.models.ItemKNN(), steps=5, out=tmp_path / "run", population_every=2)
        shown = found.slates().collect()
        for row in found.steps.iter_rows(named=True):
            part = shown.filter(pl.col("step") == row["step"])
            assert row["mean_rating"] == pytest.approx(part["rating"].mean())
            error = np.clip(part["score"].to_numpy(), 1, 5) - part["rating"].to_numpy()
            assert row["rmse"] == pytest.approx(np.sqrt((error**2).mean()))
            assert row["distinct_items"] == part["item"].n_unique()
            so_far = shown.filter(pl.col("step") <= row["step"])["item"].to_numpy()
            counts = np.sort(np.bincount(so_far, minlength=80))
            lorenz = 2 * (np.arange(1, 81) * counts).sum() / (80 * counts.sum()) - 81 / 80
            assert row["gini"] == pytest.approx(lorenz)
        assert found.steps["population_rmse"].is_null().to_list() == [False, True, False, True, False]

    def test_the_population_is_everybody_with_everything(self) -> None:
        found = run(STATIC, TOP_POP, steps=1)
        model = TOP_POP.fit(STATIC.offline(400))
        error = model.scores(np.arange(60)) - STATIC.population(0).expected(np.arange(60))
        assert found["population_rmse"] == pytest.approx(np.sqrt((error**2).mean()))

    def test_tastes_drift_only_where_there_are_dynamics(self) -> None:
        assert run(STATIC, TOP_POP)["drift"] == 0
        assert run(SMALL, TOP_POP)["drift"] > 0.01

    def test_over_all_ratings_and_over_the_last(self) -> None:
        found = run(SMALL, TOP_POP, steps=4)
        means = found.steps["mean_rating"].to_numpy()
        assert found["mean_rating"] == pytest.approx(means.mean())
        assert found.by_trial("mean_rating", last=12)[0] == pytest.approx(means[-1])
        assert found.by_trial("mean_rating", last=18)[0] == pytest.approx((12 * means[-1] + 6 * means[-2]) / 18)

    def test_intervals_are_students(self) -> None:
        half_width = 3.18244631 * np.std([1, 2, 3, 4], ddof=1) / 2
        assert interval(np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(
            {"value": 2.5, "lower": 2.5 - half_width, "upper": 2.5 + half_width, "trials": 4}
        )
        assert interval(np.array([1.0, 2.0, 3.0]))["lower"] is None

    def test_audits_are_asked_when_it_is_time(self) -> None:
        audits: dict[str, Audit] = {"exposure": Exposure(k=3), "mine": LogSize()}
        found = run(SMALL, ra.models.ALS(factors=4), steps=5, audits=audits, audit_every=2)
        assert found.audits["step"].unique().sort().to_list() == [0, 2, 4]
        assert set(found.audits["audit"]) == {"exposure", "mine"}
        assert found.audits.filter(pl.col("audit") == "mine")["value"].to_list() == [400, 424, 448]

    def test_an_audit_that_does_not_apply_says_so(self) -> None:
        found = run(SMALL, TOP_POP, steps=1, audits={"reach": AUDITS["reachability"](), "mine": Refuses()})
        assert found.audits["status"].to_list() == ["not_applicable", "not_applicable"]

    def test_what_is_no_number_has_failed(self) -> None:
        found = run(SMALL, TOP_POP, steps=1, audits={"mine": Broken()}).audits
        assert found["status"].to_list() == ["failed", "failed", "solved"]
        assert found["value"].to_list() == [None, None, 1.0]

    def test_reachability_over_time(self) -> None:
        audit = AUDITS["reachability"](users=[0, 1], targets=[3, 4])
        found = run(SMALL, ra.models.ALS(factors=3), steps=3, audits={"reach": audit}, audit_every=2)
        assert found.audits.filter(pl.col("metric") == "availability")["value"].is_between(0, 1).all()


class TestPropensities:
    @pytest.mark.parametrize("policy", [EpsilonGreedy(epsilon=0.3), Softmax(beta=2.0), Power(power=8.0)])
    def test_are_those_of_the_policy(self, policy: Any, tmp_path: Path) -> None:
        shown = run(STATIC, TOP_POP, policy, steps=1, out=tmp_path / "run").slates().collect()
        model, data = TOP_POP.fit(STATIC.offline(400)), STATIC.offline(400)
        users, items = shown["user"].to_numpy(), shown["item"].to_numpy()
        allowed = ~data.seen(users)
        logs = policy.log_probabilities(model.scores(users), allowed, data.tie_keys(users))
        np.testing.assert_allclose(shown["propensity"], np.exp(logs[np.arange(len(users)), items]))

    def test_of_a_slate_are_those_of_drawing_without_replacement(self, tmp_path: Path) -> None:
        policy = Softmax(beta=1.0)
        slates = simulate.Topics(users=30, items=6, topics=3, users_per_step=30, slate=3)
        shown = run(slates, TOP_POP, policy, ratings=30, steps=1, out=tmp_path / "run").slates().collect()
        scores = TOP_POP.fit(slates.offline(30)).item_scores
        for (user,), part in shown.group_by("user"):
            left = set(np.flatnonzero(~slates.offline(30).seen(np.array([user]))[0]))
            for item, propensity in part.sort("place").select("item", "propensity").iter_rows():
                weights = {i: np.exp(scores[i]) for i in left}
                assert propensity == pytest.approx(weights[item] / sum(weights.values()))
                left.remove(item)

    def test_of_a_slate_that_explores_are_those_of_its_places(self, tmp_path: Path) -> None:
        kind = simulate.Topics(users=300, items=6, topics=3, users_per_step=300, slate=2, repeats="always")
        policy = EpsilonGreedy(epsilon=0.4)
        shown = run(kind, TOP_POP, policy, ratings=9, steps=1, out=tmp_path / "run").slates().collect()
        for place, left in enumerate((6, 5)):
            own = shown.filter(pl.col("place") == place)["propensity"]
            assert set(own.round(9)) == {0.6, round(0.4 / (left - 1), 9)}
            assert (own > 0.5).mean() == pytest.approx(0.6, abs=0.12)

    def test_inverse_propensities_estimate_what_another_policy_would_get(self, tmp_path: Path) -> None:
        # The uniform policy's mean rating, from the log of a policy that is anything but.
        found = run(STATIC, TOP_POP, Softmax(beta=1.0), steps=150, retrain=0, out=tmp_path / "run")
        shown = found.slates().collect()
        left = 80 - STATIC.offline(400).user_counts[shown["user"].to_numpy()] - _shown_before(shown)
        weights = 1 / (left * shown["propensity"].to_numpy())
        estimate = (weights * shown["expected"].to_numpy()).sum() / weights.sum()
        uniform = run(STATIC, ra.models.Random(), steps=150)
        assert estimate == pytest.approx(uniform["mean_rating"], abs=0.15)


def _shown_before(shown: pl.DataFrame) -> np.ndarray[Any, np.dtype[np.int64]]:
    return shown.select(pl.int_range(pl.len()).over("user")).to_series().to_numpy()


class TestChance:
    def test_the_same_settings_the_same_numbers_on_any_engine(self) -> None:
        ask = partial(run, SMALL, ra.models.BiasedMF(factors=3, epochs=3), EpsilonGreedy(), steps=4, trials=3)
        once = ask()
        for engine in (None, Threads(2), Processes(2)):
            assert ask(engine=engine).steps.equals(once.steps)

    def test_trials_differ_and_begin_with_the_same_log(self) -> None:
        audits = {"data": Fingerprint()}
        found = run(SMALL, TOP_POP, steps=2, trials=2, audits=audits, audit_every=1)
        first = found.audits.filter(pl.col("step") == 0)["value"].to_list()
        assert first[0] == first[1]
        assert found.by_trial("mean_rating")[0] != found.by_trial("mean_rating")[1]
        other = run(SMALL, TOP_POP, steps=2, trials=2, audits=audits, audit_every=1, same_people=False)
        assert other.audits.filter(pl.col("step") == 0)["value"].n_unique() == 2

    def test_two_recommenders_meet_the_same_people_at_the_same_time(self, tmp_path: Path) -> None:
        users = [
            run(SMALL, recommender, out=tmp_path / type(recommender).__name__).slates().collect()["user"].to_list()
            for recommender in (TOP_POP, ra.models.ItemKNN())
        ]
        assert users[0] == users[1]

    def test_static_and_dynamic_begin_alike(self) -> None:
        audits = {"data": Fingerprint()}
        both = [run(e, TOP_POP, steps=1, audits=audits).audits["value"].to_list() for e in (SMALL, STATIC)]
        assert both[0] == both[1]


class TestBadSettings:
    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"steps": -1}, "steps"),
            ({"ratings": 10**9}, "ratings"),
            ({"trials": 0}, "trials"),
            ({"retrain": -1}, "retrain"),
            ({"audit_every": -2}, "audit_every"),
        ],
    )
    def test_are_named(self, changes: dict[str, Any], named: str) -> None:
        with pytest.raises((InputError, ValidationError), match=named):
            run(SMALL, TOP_POP, **changes)

    def test_more_users_a_step_than_users(self) -> None:
        with pytest.raises(InputError, match="users_per_step: received 100; expected at most 60"):
            simulate.Topics(users=60, users_per_step=100)

    def test_an_environment_needs_a_beginning_and_an_end(self) -> None:
        with pytest.raises(InputError, match="ratings"):
            simulate.run(SMALL, TOP_POP)

    def test_a_recommender_is_no_fitted_model(self) -> None:
        with pytest.raises(InputError, match="recommender"):
            run(SMALL, TOP_POP.fit(SMALL.offline(400)))  # type: ignore[arg-type]  # that is the mistake

    def test_what_was_shown_needs_a_folder(self) -> None:
        with pytest.raises(InputError, match="out"):
            run(SMALL, TOP_POP).slates()

    def test_a_function_is_no_audit(self) -> None:
        with pytest.raises(InputError, match=r"audits: .* expected a mapping of a text to an Audit"):
            run(SMALL, TOP_POP, audits={"nothing": lambda model: 3})  # type: ignore[dict-item]  # that is the mistake

    def test_an_audit_that_a_loop_cannot_run(self) -> None:
        with pytest.raises(InputError, match=r"by: received .*; expected nothing: over time"):
            run(SMALL, TOP_POP, audits={"shown": Exposure(by=("history",))})

    def test_an_unknown_measure(self) -> None:
        with pytest.raises(InputError, match="mean_rating"):
            run(SMALL, TOP_POP).curve("mean_ratings")
