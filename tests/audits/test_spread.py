"""`Softmax(perplexity=n)`: the beta that it means for a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq
from scipy.special import entr, softmax

import recaudit as ra
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits import spread
from recaudit.audits.audit import Context, Subject
from recaudit.audits.fidelity.audit import Fidelity
from recaudit.audits.lists.exposure import Exposure
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.spread import resolve, resolved
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.engines import Threads
from recaudit.errors import NotSupportedError, SystemFailedError
from recaudit.interventions import Future, NextK
from recaudit.models import ALS, EASE
from recaudit.models.base import FittedModel
from recaudit.models.given.black_box import History, as_black_box, from_system
from recaudit.models.given.queries import Queries
from recaudit.models.response import AffineResponse, Response
from recaudit.policies import ListPolicy, Softmax, Top1


@dataclass(frozen=True, eq=False)
class Fixed(FittedModel):
    """Scores as they are given."""

    data: Interactions
    matrix: FloatArray

    def scores(self, users: IntArray) -> FloatArray:
        return self.matrix[users]


@dataclass(frozen=True, eq=False)
class Scaled(FittedModel):
    """A model whose scores lie on another scale."""

    model: FittedModel
    factor: float
    response: ClassVar[type[Response]] = AffineResponse

    @property
    def data(self) -> Interactions:  # type: ignore[override]
        return self.model.data

    def scores(self, users: IntArray) -> FloatArray:
        return self.factor * self.model.scores(users)

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        own = self.model.respond(viewer, editor, items)
        assert isinstance(own, AffineResponse)
        return AffineResponse(items, self.factor * own.slope, self.factor * own.intercept)


@pytest.fixture(scope="module")
def als(split: Split) -> FittedModel:
    return ALS(factors=4, iterations=3).fit(split.train)


def log_of(users: int, items: int) -> Interactions:
    """Everybody has rated the one item that comes last, and has `items` to choose from."""
    rows = [(f"u{user}", f"i{item}") for user in range(users) for item in range(items + 1)]
    frame = pl.DataFrame(rows, schema=["user", "item"], orient="row").with_columns(rating=pl.lit(3.0))
    data = Interactions.from_frame(frame, scale=(1, 5))
    return data.subset(data.items == items)


def beta_of(model: FittedModel, perplexity: float, rng: int = 0) -> float:
    policy, facts = resolve(Softmax(perplexity=perplexity), model, "unseen", rng)
    assert policy == Softmax(beta=facts["beta"])
    return float(facts["beta"])


def test_two_items_have_a_closed_form() -> None:
    """With a gap of d, P = 1 / (1 + exp(-beta d)): the entropy says which P, and P says which beta."""
    gap, perplexity = 0.7, 1.4
    share = brentq(lambda p: np.exp(entr(p) + entr(1 - p)) - perplexity, 0.5, 1 - 1e-12, xtol=1e-15)
    model = Fixed(log_of(2, 2), np.array([[1.0, 1.0 + gap, 9.0]] * 2))
    assert beta_of(model, perplexity) == pytest.approx(np.log(share / (1 - share)) / gap, rel=1e-9)


def test_it_is_the_mean_entropy_of_what_users_may_choose_from(als: FittedModel) -> None:
    beta = beta_of(als, 7.5)
    everybody = np.arange(als.data.n_users)
    unseen = ~als.data.seen(everybody)
    shares = np.exp(Softmax(beta=beta).log_probabilities(als.scores(everybody), unseen))
    assert np.exp(entr(shares).sum(axis=1).mean()) == pytest.approx(7.5, rel=1e-9)
    policy, facts = resolve(Softmax(perplexity=7.5), als, "all", 0)
    assert facts["spread_users"] == als.data.n_users
    assert policy != Softmax(beta=beta)


def test_a_larger_perplexity_has_a_smaller_beta(als: FittedModel) -> None:
    betas = [beta_of(als, perplexity) for perplexity in (1.5, 3, 10, 30)]
    assert betas == sorted(betas, reverse=True)


@pytest.mark.parametrize(
    ("scores", "perplexity", "range_"),
    [
        ([2.0] * 5, 3, "spread over 5 to 5"),
        ([4.0, 3.0, 2.0, 1.0, 0.0], 6, "spread over 1 to 5"),
        ([4.0, 4.0, 4.0, 1.0, 0.0], 2, "spread over 3 to 5"),
    ],
)
def test_what_is_out_of_reach_is_refused_with_what_is_not(scores: list[float], perplexity: int, range_: str) -> None:
    model = Fixed(log_of(3, 5), np.array([[*scores, 9.0]] * 3))
    with pytest.raises(NotSupportedError, match=range_):
        beta_of(model, perplexity)


def test_who_has_nothing_to_choose_from_is_left_out() -> None:
    frame = pl.DataFrame({"user": ["a", "a", "a", "b"], "item": [1, 2, 3, 1], "rating": [1.0, 2.0, 1.0, 1.0]})
    scores = np.array([[0.0, 1.0, 5.0], [2.0, 0.0, 1.0]])
    data = Interactions.from_frame(frame)
    assert resolve(Softmax(perplexity=1.5), Fixed(data, scores), "unseen", 0)[1]["spread_users"] == 1
    assert resolve(Softmax(perplexity=1.5), Fixed(data, scores), "all", 0)[1]["spread_users"] == 2
    seen = Interactions.from_frame(frame.filter(pl.col("user") == "a"))
    with pytest.raises(NotSupportedError, match="no user has a choice"):
        beta_of(Fixed(seen, scores[:1]), 1.5)


def test_few_users_with_close_scores_do_not_decide() -> None:
    """Their mean number of items would stay above any perplexity but a large one, whatever beta is."""
    scores = np.tile(np.append(np.linspace(0, 5, 500), 9.0), (50, 1))
    scores[0] *= 1e-6
    assert 1 < beta_of(Fixed(log_of(50, 500), scores), 5) < 100


def test_users_for_whom_nothing_is_told_apart_are_left_out() -> None:
    """No beta concentrates what they are shown; to rounding, beside the scores of others."""
    scores = np.array([[4.0, 3.0, 2.0, 1.0, 0.0, 9.0]] * 4)
    scores[1], scores[2] = 0.0, 1e-15 * np.arange(6)
    policy, facts = resolve(Softmax(perplexity=2), Fixed(log_of(4, 5), scores), "unseen", 0)
    assert policy == resolve(Softmax(perplexity=2), Fixed(log_of(2, 5), scores[[0, 3]]), "unseen", 0)[0]
    assert (facts["spread_users"], facts["same_scores"]) == (2, 2)


@pytest.mark.parametrize("factor", [1e-3, 7.3, 4000.0])
def test_a_scaled_copy_of_a_model_gets_the_same_numbers(als: FittedModel, factor: float) -> None:
    audit = Reachability(policy=Softmax(perplexity=5), actions=NextK(3), users=5, by=())
    one, other = (audit.run(model) for model in (als, Scaled(als, factor)))
    assert other.settings["beta"] * factor == pytest.approx(one.settings["beta"], rel=1e-9)
    for column in ("value", "baseline"):
        np.testing.assert_allclose(other.pairs[column].to_numpy(), one.pairs[column].to_numpy(), rtol=1e-9, atol=0)


def test_large_logs_are_sampled_by_ids(als: FittedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "USERS", 10)
    facts = [resolve(Softmax(perplexity=5), als, "unseen", rng)[1] for rng in (0, 0, 1)]
    assert facts[0] == facts[1] != facts[2]
    assert facts[0]["spread_users"] == 10
    monkeypatch.setattr(spread, "_MOST_SCORES", 4 * als.data.n_items + 1)
    assert resolve(Softmax(perplexity=5), als, "unseen", 0)[1]["spread_users"] == 4


def test_a_system_is_asked_about_a_few_users_only(als: FittedModel) -> None:
    system = as_black_box(als)
    _, facts = resolve(Softmax(perplexity=5), system, "unseen", 0)
    assert facts["spread_users"] == system.queries.asked == spread.QUERIED_USERS
    assert resolve(Softmax(perplexity=5), system.counting(Queries(7)), "unseen", 0)[1]["spread_users"] == 7


def test_users_about_whom_a_system_fails_are_left_out(tiny: Interactions) -> None:
    def scores(history: History) -> FloatArray:
        if history.user == "bob":
            raise OSError("down")
        return np.arange(4.0)

    system = from_system(tiny, scores=scores, retries=0)
    assert resolve(Softmax(perplexity=1.5), system, "all", 0)[1]["spread_users"] == 2


def test_a_system_with_probabilities_of_its_own_is_refused(tiny: Interactions) -> None:
    system = from_system(tiny, probabilities=lambda history: np.full(4, 0.25))
    with pytest.raises(NotSupportedError, match=r"Softmax\(beta=1\)"):
        resolve(Softmax(perplexity=2), system, "unseen", 0)


@pytest.mark.parametrize("policy", [Top1(), Softmax(beta=3.0)])
def test_other_policies_stay_as_they_are(als: FittedModel, policy: ListPolicy) -> None:
    assert resolve(policy, als, "unseen", 0) == (policy, {})


class TestAuto:
    """`Softmax(beta="auto")`, the default."""

    def test_beta_spreads_recommendations_over_20_items(self, als: FittedModel) -> None:
        policy, facts = resolve(Softmax(), als, "unseen", 0)
        assert facts["perplexity"] == 20
        assert policy == Softmax(beta=beta_of(als, 20))

    def test_few_candidates_have_half_of_them_as_effective_items(self) -> None:
        scores = np.random.default_rng(22).normal(size=(5, 13))
        model = Fixed(log_of(5, 12), scores)
        policy, facts = resolve(Softmax(), model, "unseen", 0)
        assert facts["perplexity"] == pytest.approx(6)
        assert isinstance(policy, Softmax)
        shares = softmax(policy.fixed_beta * scores[:, :12], axis=1)
        assert np.exp(entr(shares).sum(axis=1).mean()) == pytest.approx(6, rel=1e-9)

    def test_beta_is_inverse_to_the_scale_of_the_scores(self) -> None:
        scores = np.random.default_rng(21).normal(size=(10, 301))
        first, second = (
            resolve(Softmax(), Fixed(log_of(10, 300), factor * scores + shift), "unseen", 0)[1]["beta"]
            for factor, shift in ((1.0, 0.0), (0.01, 7.0))
        )
        assert second == pytest.approx(100 * first, rel=1e-6)

    def test_ties_at_the_top_need_a_number(self) -> None:
        tied = np.array([[*([1.0] * 50), *([0.0] * 50), 9.0]] * 3)
        with pytest.raises(NotSupportedError, match=r"Pass a number: Softmax\(beta"):
            resolve(Softmax(), Fixed(log_of(3, 100), tied), "unseen", 0)

    def test_a_black_box_is_queried_about_the_users_of_the_audit(self, als: FittedModel) -> None:
        users: list[object] = []

        def scores(history: History) -> FloatArray:
            users.append(history.user)
            own: FloatArray = als.scores(als.data.users_at([history.user]))[0]
            return own

        system = from_system(als.data, scores=scores)
        audited = als.data.user_ids[[3, 8]].to_list()
        found = ra.reachability(system, users=audited, targets=2, actions=ra.interventions.HistoryEdits(2), budget=10)
        assert set(users) == set(audited)
        assert found.facts["spread_users"] == 2

    def test_a_system_with_its_own_probabilities_keeps_them(self, tiny: Interactions) -> None:
        system = from_system(tiny, probabilities=lambda history: np.full(4, 0.25))
        assert resolve(Softmax(), system, "unseen", 0) == (Softmax(beta=1.0), {"beta": 1.0})

    def test_lists_have_no_beta_and_are_not_queried(self, tiny: Interactions) -> None:
        system = from_system(tiny, lists=lambda history: ["a"])
        with pytest.raises(NotSupportedError, match="Top1"):
            ra.reachability(system, users=["bob"])
        assert system.queries.asked == 0

    def test_a_system_that_fails_for_all_users_has_its_cause(self, tiny: Interactions) -> None:
        def scores(history: History) -> FloatArray:
            raise OSError("the service is down")

        with pytest.raises(SystemFailedError, match="the service is down"):
            resolve(Softmax(), from_system(tiny, scores=scores, retries=0), "unseen", 0)


class TestInAudits:
    def test_the_result_says_what_was_used(self, als: FittedModel) -> None:
        found = ra.exposure(als, policy=Softmax(perplexity=4))
        beta = beta_of(als, 4)
        assert found.audit == Exposure(policy=Softmax(beta=beta))
        assert found.settings["policy"] == {"kind": "softmax", "beta": beta}
        assert {name: found.settings[name] for name in ("perplexity", "beta")} == {"perplexity": 4.0, "beta": beta}

    def test_any_engine_gives_the_same_beta(self, als: FittedModel) -> None:
        audit = Exposure(policy=Softmax(perplexity=4))
        one, other = (audit.run(als, engine=engine) for engine in (None, Threads(2)))
        assert one.settings == other.settings

    def test_it_is_resolved_wherever_an_audit_has_it(self, als: FittedModel) -> None:
        ahead = Reachability(actions=Future(1, follows=Softmax(perplexity=3)), policy=Softmax(perplexity=6))
        made, facts = resolved(ahead, Subject(als), Context())
        assert made.policy == Softmax(beta=beta_of(als, 6))
        assert made.actions == Future(1, follows=Softmax(beta=beta_of(als, 3)))
        assert (facts["perplexity"], facts["follows"]["perplexity"]) == (6, 3)
        inside = Fidelity(audit=Reachability(policy=Softmax(perplexity=6), users=2))
        assert resolved(inside, Subject(als), Context())[0].audit.policy == made.policy

    def test_a_recommender_is_fitted_where_there_is_no_model(self, split: Split) -> None:
        audit = Reachability(policy=Softmax(perplexity=5))
        made, _ = resolved(audit, Subject(recommender=EASE(), data=split.train), Context(rng=2))
        assert made.policy == Softmax(beta=beta_of(EASE().fit(split.train, 2), 5, rng=2))
        # Without either, the policy stays open, and the audit refuses what it lacks.
        assert resolved(audit, Subject(), Context()) == (audit, {})
