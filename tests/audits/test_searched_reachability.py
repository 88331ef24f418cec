from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
import polars as pl
import pytest
import torch
from scipy.special import log_softmax

import recaudit as ra
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.reachability.pairs import Method
from recaudit.audits.reachability.search import SearchMethod, search_distance
from recaudit.data import Interactions, synthetic
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Actions, Interval, NextK, Past, Stars
from recaudit.models import ALS, AffineResponse, DifferentiableResponse, FittedModel, Response
from recaudit.models.given.black_box import BlackBox, History, as_black_box, from_system
from recaudit.policies import EpsilonGreedy, Policy, Softmax, Top1
from recaudit.solvers.distance.distances import Distance, distance_between

USERS = np.array([0, 5, 11])
PAST = Past(4)


@final
@dataclass(frozen=True, eq=False)
class Smooth(FittedModel):
    """A model whose responses can be differentiated and tell nothing else of themselves."""

    data: Interactions
    model: FittedModel
    response: ClassVar[type[Response]] = DifferentiableResponse

    def scores(self, users: IntArray) -> FloatArray:
        return self.model.scores(users)

    def respond(self, viewer: int, editor: int, items: IntArray) -> DifferentiableResponse:
        affine = self.model.respond(viewer, editor, items)
        assert isinstance(affine, AffineResponse)
        slope, intercept = torch.tensor(affine.slope), torch.tensor(affine.intercept)
        return DifferentiableResponse(items, lambda a: a @ slope.T + intercept)


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic.demo_world(users=30, items=40).data


@pytest.fixture(scope="module")
def model(data: Interactions) -> FittedModel:
    return ALS(factors=4, iterations=5).fit(PAST.before(data))


def asking(
    model: FittedModel,
    log: Interactions,
    actions: Actions = PAST,
    policy: Policy | None = None,
    baseline: Any = "factual",
    **rest: Any,
) -> Method:
    """What answers for this model."""
    policy = policy or Softmax(beta=2)
    audit = Reachability(actions=actions, policy=policy, baseline=baseline, best_actions=True, **rest)
    return audit.method(model, log, rng=0)


def exact(model: FittedModel, data: Interactions, actions: Actions = PAST, **rest: Any) -> pl.DataFrame:
    users = data.user_ids.gather(USERS)
    return ra.reachability(model, data, actions=actions, policy=Softmax(beta=2), users=users, **rest).pairs


@pytest.mark.parametrize("actions", [PAST, Past(4, ratings=Stars())])
def test_ascent_reaches_the_certified_optimum(model: FittedModel, data: Interactions, actions: Past) -> None:
    certified = exact(model, data, actions)
    found = asking(Smooth(model.data, model), data, actions)(USERS)
    np.testing.assert_allclose(found["value"].log(), certified["value"].log(), atol=1e-3)
    assert (found["value"] <= certified["upper"] * (1 + 1e-9)).all()
    for name in ("user", "item", "rank_gain"):
        assert found[name].to_list() == certified[name].to_list()
    np.testing.assert_allclose(found["baseline"], certified["baseline"], rtol=1e-9)
    assert set(found["status"]) == {"bounded"}
    assert found["lower"].equals(found["value"], check_names=False)
    assert set(found["upper"]) == {1.0}


def test_the_papers_algorithm_is_ascent_from_the_factual_ratings(model: FittedModel, data: Interactions) -> None:
    certified = exact(model, data)
    found = asking(model, data, solver="gradient")(USERS)
    assert (found["value"] <= certified["upper"] * (1 + 1e-9)).all()
    assert (found["lift"] >= 1 - 1e-12).all()  # from the baseline it only goes up
    assert "queries" not in found.columns


class TestAsking:
    @pytest.mark.parametrize("actions", [PAST, Past(4, ratings=Stars(1, 5))])
    def test_never_above_the_exact_value_and_within_the_budget(
        self, model: FittedModel, data: Interactions, actions: Past
    ) -> None:
        certified = exact(model, data, actions)
        hidden = as_black_box(model)
        found = asking(hidden, data, actions, budget=60)(USERS)
        assert (found["value"] <= certified["upper"] * (1 + 1e-9)).all()
        assert (found["value"] / certified["value"]).to_numpy().mean() > 0.8
        assert (found["lift"] >= 1 - 1e-12).all()
        assert found["queries"].dtype == pl.Int32
        assert 58 <= max(found["queries"].to_list()) <= 60
        assert hidden.queries.asked <= found["queries"].sum()  # what pairs share is asked for once

    def test_the_ratings_given_reach_the_value(self, model: FittedModel, data: Interactions) -> None:
        found = asking(as_black_box(model), data, budget=40)(USERS[:1])
        items = PAST.items(model, USERS[:1], 0, data)[0]
        response = model.respond(0, 0, items)
        free = np.flatnonzero(~data.seen(USERS[:1])[0])
        for row in found.iter_rows(named=True):
            logs = log_softmax(2 * response.scores(np.array(row["action_ratings"]))[free])
            place = free.tolist().index(data.items_at([row["item"]])[0])
            assert row["value"] == pytest.approx(np.exp(logs[place]), rel=1e-9)
            assert row["action_items"] == data.item_ids.gather(items).to_list()

    def test_a_pairs_answer_does_not_depend_on_its_company(self, model: FittedModel, data: Interactions) -> None:
        together = asking(as_black_box(model), data, budget=30)(USERS)
        target = together.filter(pl.col("user") == data.user_ids[5])["item"][3]
        row = asking(as_black_box(model), data, targets=[target], budget=30)(USERS[1:2])
        expected = together.filter((pl.col("user") == data.user_ids[5]) & (pl.col("item") == target))
        assert row["queries"].to_list() == expected["queries"].to_list()
        np.testing.assert_allclose(row["value"], expected["value"], rtol=1e-12)

    def test_any_policy_of_scores_can_be_asked(self, model: FittedModel, data: Interactions) -> None:
        users = data.user_ids.gather(USERS[:1])
        for policy in (Top1(), EpsilonGreedy(epsilon=0.2)):
            certified = ra.reachability(model, data, actions=PAST, policy=policy, users=users).pairs
            found = asking(as_black_box(model), data, policy=policy, budget=50)(USERS[:1])
            assert (found["value"] <= certified["upper"] + 1e-12).all()
            assert found["value"].max() == certified["value"].max()

    def test_it_can_travel(self, model: FittedModel, data: Interactions) -> None:
        search = asking(as_black_box(model), data, budget=10)
        assert pickle.loads(pickle.dumps(search))(USERS).equals(search(USERS))


class TestSystems:
    """One user with a rated item a and two others, b and c; b is shown with probability (a - 1) / 4, else c."""

    @pytest.fixture
    def log(self) -> Interactions:
        rows = {"user": ["u", "u", "v", "v"], "item": ["z", "a", "b", "c"], "rating": [3.0] * 4, "time": [1, 2, 3, 4]}
        return Interactions.from_frame(pl.DataFrame(rows), time="time", scale=(1, 5))

    @staticmethod
    def chance(history: History) -> float:
        return (dict(zip(history.items, history.ratings, strict=True))["a"] - 1) / 4

    def search(self, system: BlackBox, budget: int = 40) -> pl.DataFrame:
        return asking(system, system.data, Past(1), Softmax(beta=1), budget=budget)(np.array([0]))

    def test_probabilities(self, log: Interactions) -> None:
        system = from_system(log, probabilities=lambda h: [0, self.chance(h), 1 - self.chance(h), 0])
        found = self.search(system)
        assert found["item"].to_list() == ["b", "c"]
        assert found["baseline"].to_list() == pytest.approx([0.5, 0.5])
        assert found["value"].to_list() == pytest.approx([1, 1])
        assert found["action_ratings"].to_list() == [[5], [1]]

    def test_what_is_never_shown_has_probability_zero(self, log: Interactions) -> None:
        found = self.search(from_system(log, probabilities=lambda _: [0.3, 0, 0.7, 0]))
        assert found["value"].to_list() == [0, 1]
        # Nothing among the candidates is shown: neither is likely, not each with 1/2.
        found = self.search(from_system(log, probabilities=lambda _: [1, 0, 0, 0]))
        assert found["value"].to_list() == [0, 0]
        assert found["baseline"].to_list() == [0, 0]

    def test_lists(self, log: Interactions) -> None:
        draw = np.random.default_rng(0)
        system = from_system(log, lists=lambda h: "bc" if draw.random() < self.chance(h) else "cb", repeats=40)
        found = self.search(system, budget=1000)
        assert (found["queries"] <= 1000).all()
        assert (found["queries"] % 40 == 0).all()
        assert found["value"].to_list() == pytest.approx([1, 1], abs=0.05)
        assert (found["lower"] < found["value"]).all()
        assert found["lower"][0] == pytest.approx(0.025 ** (1 / 40), abs=0.05)

    def test_the_luckiest_of_many_estimates_is_not_the_value(self, log: Interactions) -> None:
        # Ratings change nothing and b is shown half of the time: the best of 50 estimates from 8 lists is near 1.
        draw = np.random.default_rng(1)
        values = []
        for _ in range(20):
            system = from_system(log, lists=lambda _: "b" if draw.random() < 0.5 else "c", repeats=8)
            values += self.search(system, budget=400)["value"].to_list()
        assert np.mean(values) == pytest.approx(0.5, abs=0.1)

    def test_a_system_is_its_own_policy(self, log: Interactions) -> None:
        system = from_system(log, probabilities=lambda _: [0.3, 0, 0.7, 0])
        with pytest.raises(NotSupportedError, match="Softmax"):
            asking(system, log, Past(1), Softmax(beta=2))

    def test_a_budget_below_two_answers_from_lists(self, log: Interactions) -> None:
        system = from_system(log, lists=lambda _: "b", repeats=30)
        with pytest.raises(InputError, match="budget"):
            self.search(system, budget=59)


class TestWhatDoesNotApply:
    def test_a_user_without_a_past_does_not_stop_the_others(self, data: Interactions) -> None:
        thin = data.subset(data.users != 5)
        model = as_black_box(ALS(factors=3, iterations=3).fit(thin))
        found = asking(model, thin, budget=8)(USERS)
        nobody = found.filter(pl.col("user") == data.user_ids[5])
        assert set(nobody["status"]) == {"not_applicable"}
        assert nobody["value"].null_count() == len(nobody) == thin.n_items
        assert nobody["baseline"].null_count() == 0
        assert set(nobody["queries"]) == {1}  # for the baseline
        assert set(found.filter(pl.col("user") != data.user_ids[5])["status"]) == {"bounded"}

    def test_scores_that_are_no_ratings_have_no_predicted_ones(self, data: Interactions) -> None:
        system = from_system(data, scores=lambda _: np.zeros(data.n_items))
        with pytest.raises(NotSupportedError, match="predicted"):
            asking(system, data, NextK(2), baseline="predicted")
        found = asking(system, data, NextK(2), baseline="scores", budget=5)(USERS[:1])
        assert found["lift"].to_list() == pytest.approx([1.0] * len(found))

    def test_baselines_are_those_of_the_exact_audit(self, data: Interactions) -> None:
        model = ALS(factors=3, iterations=3).fit(data)
        for baseline in ("scores", "predicted"):
            certified = exact(model, data, NextK(2), baseline=baseline)
            found = asking(as_black_box(model), data, NextK(2), baseline=baseline, budget=5)(USERS)
            np.testing.assert_allclose(found["baseline"], certified["baseline"], rtol=1e-9)

    def test_what_search_cannot_do_is_said(self, model: FittedModel, data: Interactions) -> None:
        with pytest.raises(NotSupportedError, match="differentiated"):
            asking(model, data, policy=Top1(), solver="gradient")
        with pytest.raises(NotSupportedError, match="slate=3"):
            asking(model, data, slate=3, solver="gradient")
        limited = Past(4, ratings=Stars(), changes=2)
        with pytest.raises(NotSupportedError, match="changes=2"):
            asking(model, data, limited, solver="gradient")
        with pytest.raises(InputError, match="budget"):
            asking(as_black_box(model), data, budget=0)

    def test_too_many_pairs_are_refused_with_their_number(self, model: FittedModel, data: Interactions) -> None:
        users = np.arange(30)
        method = asking(model, data, solver="gradient")
        assert isinstance(method, SearchMethod)
        method.check_pairs(users)
        with pytest.raises(InputError, match=r"120,000 pairs.*FactorModel needs a search"):
            replace(method, targets=np.arange(4)).check_pairs(np.tile(users, 1000))


class TestDistance:
    @pytest.mark.parametrize("distance", ["hellinger", "tv", "l2", "kl"])
    @pytest.mark.parametrize("ratings", [Interval(1, 5), Stars(1, 5)])
    def test_dense_responses_against_a_fine_grid(self, distance: Distance, ratings: Interval | Stars) -> None:
        draw = np.random.default_rng(4)
        slope, intercept = draw.normal(size=(9, 2)), draw.normal(size=9)
        response = AffineResponse(np.array([0, 1]), slope, intercept)
        allowed = np.arange(9) != 3
        start = np.array([2.0, 4.0])
        baseline = response.scores(start)
        values = ratings.values if isinstance(ratings, Stars) else np.linspace(1, 5, 81)
        grid = np.stack(np.meshgrid(values, values), axis=-1).reshape(-1, 2)
        after = log_softmax((0.7 * (grid @ slope.T + intercept))[:, allowed], axis=1)
        best = distance_between(distance, log_softmax(0.7 * baseline[allowed]), after).max()

        found = search_distance(response, baseline, allowed, 0.7, ratings, distance, start=start, rng=1)
        assert found.value == pytest.approx(best, abs=2e-3)
        assert found.value <= found.upper
        reached = log_softmax(0.7 * response.scores(found.actions[0])[allowed])
        before = log_softmax(0.7 * baseline[allowed])
        assert float(distance_between(distance, before, reached)) == pytest.approx(found.value, abs=1e-12)

    def test_from_the_factual_ratings_alone_ascent_goes_nowhere(self) -> None:
        response = AffineResponse(np.array([0]), np.array([[1.0], [0.0]]), np.zeros(2))
        start, everything = np.array([3.0]), np.ones(2, dtype=np.bool_)
        baseline = response.scores(start)
        stuck = search_distance(
            response, baseline, everything, 1.0, Interval(1, 4), "hellinger", start=start, restarts=0, polish=False
        )
        assert stuck.value == 0
        found = search_distance(response, baseline, everything, 1.0, Interval(1, 4), "tv", start=start)
        assert found.value == pytest.approx(1 / (1 + np.exp(-3)) - 1 / (1 + np.exp(-1)))
        assert found.actions[0].tolist() == [1]
