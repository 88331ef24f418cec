"""Models of implicit against implicit itself: its scores, and what it recalculates after an edit."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

pytest.importorskip("implicit", reason="implicit is not installed: pip install recaudit[implicit]")

from implicit.cpu.als import AlternatingLeastSquares
from implicit.cpu.bpr import BayesianPersonalizedRanking
from implicit.cpu.lmf import LogisticMatrixFactorization
from implicit.nearest_neighbours import BM25Recommender, CosineRecommender, TFIDFRecommender

import recaudit as ra
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits import Reachability
from recaudit.data import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import NextK
from recaudit.models import AffineResponse, DifferentiableResponse, FactorVectors, FittedModel
from recaudit.models.adapt import adapt
from recaudit.models.factor.confidence import ConfidenceModel
from recaudit.policies import Softmax
from recaudit.testing.models import EVERYBODY, ITEMS, USERS, some_ratings

pytestmark = pytest.mark.filterwarnings(
    "ignore:OpenBLAS is configured:RuntimeWarning", "ignore:Method expects CSR input"
)

STARS = some_ratings(0)
CLICKS = Interactions.from_frame(
    STARS.frame().filter(pl.col("rating") >= 3).select("user", "item", "time"), rating=None, time="time"
)
LOGS = pytest.mark.parametrize(
    ("data", "alpha"), [(STARS, 2.0), (CLICKS, 5.0), (CLICKS, 1.0)], ids=["stars", "clicks", "clicks of weight 1"]
)
ACTED, VIEWER, EDITOR = np.array([19, 0, 6]), 9, 4


def matrix(data: Interactions) -> sparse.csr_matrix:
    return sparse.csr_matrix(data.csr, copy=True)


def als(data: Interactions, alpha: float = 2.0, **settings: Any) -> Any:
    made = AlternatingLeastSquares(
        **{"factors": 4, "regularization": 0.1, "dtype": np.float64, "random_state": 3, "num_threads": 1, **settings},
        alpha=alpha,
    )
    made.fit(matrix(data), show_progress=False)
    return made


def fitted(kind: type, data: Interactions = STARS, **settings: Any) -> Any:
    made = kind(**settings, num_threads=1)
    made.fit(matrix(data), show_progress=False)
    return made


def library_scores(model: Any, data: Interactions, **options: Any) -> FloatArray:
    """(users, items): what `recommend` says of every item; 0 for what it does not list."""
    scores = np.zeros((data.n_users, data.n_items))
    for user in range(data.n_users):
        told = model.recommend(user, matrix(data)[user], N=data.n_items, filter_already_liked_items=False, **options)
        scores[user, told[0]] = told[1]
    return scores


def edited(data: Interactions, ratings: list[float]) -> sparse.csr_matrix:
    """The matrix in which the editor has rated the acted-on items; no click is no entry."""
    changed = matrix(data).toarray()
    changed[EDITOR, ACTED] = ratings
    return sparse.csr_matrix(changed)


def some_edits(data: Interactions) -> list[list[float]]:
    return [[1.0, 5.0, 2.5], [3.0, 3.0, 4.0]] if data is STARS else [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]


@LOGS
def test_als_scores_are_those_of_recommend_by_either_vectors(data: Interactions, alpha: float) -> None:
    model = als(data, alpha)
    folded, stored = adapt(model, data), adapt(model, data, stored=True)
    np.testing.assert_allclose(folded.scores(EVERYBODY), library_scores(model, data, recalculate_user=True), atol=1e-12)
    np.testing.assert_allclose(stored.scores(EVERYBODY), library_scores(model, data), atol=1e-12)
    assert np.abs(folded.scores(EVERYBODY) - stored.scores(EVERYBODY)).max() > 1e-3
    assert not folded.predicts_ratings


def test_als_in_single_precision_is_as_near_as_that_is() -> None:
    model = als(STARS, dtype=np.float32)
    scores = library_scores(model, STARS, recalculate_user=True)
    np.testing.assert_allclose(adapt(model, STARS).scores(EVERYBODY), scores, atol=1e-5)


@LOGS
def test_own_edits_do_what_recalculate_user_does(data: Interactions, alpha: float) -> None:
    model = als(data, alpha)
    for stored in (False, True):
        response = adapt(model, data, stored=stored).respond(EDITOR, EDITOR, ACTED)
        assert type(response) is (AffineResponse if alpha == 1 else DifferentiableResponse)
        for ratings in some_edits(data):
            expected = model.recalculate_user(EDITOR, edited(data, ratings)[EDITOR]) @ model.item_factors.T
            np.testing.assert_allclose(response.scores(np.array(ratings)), expected, atol=1e-12)


@LOGS
def test_others_edits_move_items_as_recalculate_item_does(data: Interactions, alpha: float) -> None:
    model = als(data, alpha)
    folded, stored = adapt(model, data), adapt(model, data, stored=True)
    unedited = model.recalculate_item(ACTED, sparse.csr_matrix(matrix(data).T)[ACTED])
    for ratings in some_edits(data):
        recalculated = model.recalculate_item(ACTED, sparse.csr_matrix(edited(data, ratings).T)[ACTED])
        expected = library_scores(model, data)[VIEWER]
        expected[ACTED] = recalculated @ model.user_factors[VIEWER]
        np.testing.assert_allclose(
            stored.respond(VIEWER, EDITOR, ACTED).scores(np.array(ratings)), expected, atol=1e-12
        )
        # By default only what the edit moves counts, not what training left unsolved.
        expected = folded.scores(EVERYBODY)[VIEWER]
        expected[ACTED] += (recalculated - unedited) @ folded.user_factors[VIEWER]  # type: ignore[attr-defined]
        np.testing.assert_allclose(
            folded.respond(VIEWER, EDITOR, ACTED).scores(np.array(ratings)), expected, atol=1e-12
        )


def test_ids_may_come_in_any_order_and_a_wrong_one_is_noticed() -> None:
    users, items = np.random.default_rng(0).permutation(USERS), np.random.default_rng(1).permutation(ITEMS)
    shuffled = AlternatingLeastSquares(factors=4, alpha=40.0, random_state=3, num_threads=1)
    shuffled.fit(matrix(CLICKS)[users][:, items], show_progress=False)
    ids = {"user_ids": CLICKS.user_ids.gather(users).to_list(), "item_ids": CLICKS.item_ids.gather(items).to_list()}
    expected = np.zeros((USERS, ITEMS))
    expected[np.ix_(users, items)] = shuffled.user_factors @ shuffled.item_factors.T
    np.testing.assert_allclose(adapt(shuffled, CLICKS, stored=True, **ids).scores(EVERYBODY), expected, atol=1e-6)
    with pytest.raises(InputError, match=r"data: received a log from which other item vectors follow .* user_ids = "):
        adapt(shuffled, CLICKS)
    with pytest.raises(InputError, match=r"item_ids: received no row for 19"):
        adapt(shuffled, CLICKS, item_ids=range(ITEMS - 1))


def test_items_that_the_log_does_not_have_still_count_in_the_fold_in() -> None:
    model = als(STARS)
    fewer = Interactions.from_frame(STARS.frame().filter(pl.col("item") != 7), scale=(1, 5), time="time")
    response = adapt(model, fewer, item_ids=range(ITEMS)).respond(EDITOR, EDITOR, np.array([0]))
    history = matrix(STARS)[EDITOR].tolil()
    history[0, 7], history[0, 0] = 0, 4.0
    expected = model.recalculate_user(EDITOR, history.tocsr()) @ model.item_factors.T
    np.testing.assert_allclose(response.scores(np.array([4.0])), np.delete(expected, 7), atol=1e-12)


@pytest.mark.parametrize(("data", "ratings"), [(STARS, np.linspace(1, 5, 33)), (CLICKS, np.array([0.0, 1.0]))])
def test_instability_is_what_recalculate_item_says(data: Interactions, ratings: FloatArray) -> None:
    model = als(data)
    adapted = adapt(model, data)
    asked: dict[str, Any] = {"edits": NextK(1), "policy": Softmax(beta=20), "candidates": "all", "refits": 0}
    found = ra.instability(adapted, viewers=["u9", "u3"], editors=["u4", "u5"], **asked).pairs
    assert (found["value"] > 1e-4).all()
    for viewer, editor, value in found.select("viewer", "editor", "value").iter_rows():
        looking, rating = data.users_at([viewer, editor])
        item = int(NextK(1).items(adapted, np.array([rating]), 0)[0, 0])
        before = adapted.scores(np.array([looking]))[0]
        raters = sparse.csr_matrix(matrix(data).T)[item].tolil()
        unedited = model.recalculate_item(item, raters.tocsr())
        largest = 0.0
        for given in ratings:
            raters[0, rating] = given
            moved = (model.recalculate_item(item, raters.tocsr()) - unedited) @ adapted.user_factors[looking]  # type: ignore[attr-defined]
            after = before + moved * (np.arange(ITEMS) == item)
            p, q = (softmax(20 * scores) for scores in (before, after))
            largest = max(largest, float(np.sqrt(max(0.0, 1 - np.sqrt(p * q).sum()))))
        assert value == pytest.approx(largest, abs=1e-7)


def softmax(scores: FloatArray) -> FloatArray:
    weights = np.exp(scores - scores.max())
    shares: FloatArray = weights / weights.sum()
    return shares


@pytest.mark.parametrize("alpha", [5.0, 1.0])
def test_reachability_of_clicks_is_the_best_of_clicking_and_not(alpha: float) -> None:
    model = als(CLICKS, alpha)
    adapted = adapt(model, CLICKS)
    user = int(CLICKS.users_at(["u4"])[0])
    items: IntArray = NextK(2).items(adapted, np.array([user]), 0)[0]
    found = ra.reachability(adapted, actions=NextK(2), users=["u4"], policy=Softmax(beta=4), refits=0)
    candidates = np.setdiff1d(np.flatnonzero(~CLICKS.seen(np.array([user]))[0]), items)
    chances = []
    for clicks in ([0, 0], [0, 1], [1, 0], [1, 1]):
        history = matrix(CLICKS)[user].toarray()
        history[0, items] = clicks
        vector = model.recalculate_user(user, sparse.csr_matrix(history))
        chances.append(softmax(4 * (vector @ model.item_factors.T)[candidates]))
    np.testing.assert_allclose(found.pairs["value"], np.max(chances, axis=0), rtol=1e-6)
    assert (found.pairs["status"] == ("solved" if alpha == 1 else "bounded")).all()
    assert (found.pairs["lift"] >= 1 - 1e-9).all()
    assert found.facts["rule"].startswith("implicit's recalculate_user")


@pytest.mark.parametrize("kind", [BayesianPersonalizedRanking, LogisticMatrixFactorization])
@pytest.mark.parametrize("data", [STARS, STARS.subset((STARS.users != 3) & (STARS.items != 5))], ids=["full", "gaps"])
def test_bpr_and_lmf_are_vectors_with_biases_and_without_a_rule(kind: type, data: Interactions) -> None:
    model = fitted(kind, data, factors=4, iterations=5, random_state=2)
    adapted = adapt(model, data)
    np.testing.assert_allclose(adapted.scores(EVERYBODY), library_scores(model, data), atol=1e-6)
    assert isinstance(adapted, FactorVectors)
    if data is STARS:
        assert adapted.user_factors.shape == (USERS, 4)
        assert (adapted.item_bias != 0).all()
    with pytest.raises(NotSupportedError, match=rf"^{kind.__name__}: .*came without the rule"):
        ra.reachability(adapted, actions=NextK(2))
    assert np.abs(again(adapted).scores(EVERYBODY) - adapted.scores(EVERYBODY)).max() < 1e-6
    ra.folding(adapted)


@pytest.mark.parametrize(
    ("kind", "settings"), [(CosineRecommender, {}), (TFIDFRecommender, {}), (BM25Recommender, {"K1": 2.0, "B": 0.5})]
)
def test_neighbours_are_weights_that_recommend_multiplies_histories_with(kind: type, settings: dict[str, Any]) -> None:
    model = fitted(kind, K=5, **settings)
    adapted = adapt(model, STARS)
    np.testing.assert_allclose(adapted.scores(EVERYBODY), library_scores(model, STARS), atol=1e-12)
    ids, scores = model.recommend(
        EDITOR, edited(STARS, [1.0, 5.0, 2.5])[EDITOR], N=ITEMS, filter_already_liked_items=False
    )
    response = adapted.respond(EDITOR, EDITOR, ACTED).scores(np.array([1.0, 5.0, 2.5]))
    np.testing.assert_allclose(response[ids], scores, atol=1e-12)
    assert np.array_equal(again(adapted).scores(EVERYBODY), adapted.scores(EVERYBODY))
    ra.reachability(adapted, actions=NextK(2), users=["u4"])
    with pytest.raises(NotSupportedError, match="another user's ratings move no score"):
        ra.instability(adapted, edits=NextK(2), viewers=["u4"], editors=["u5"])


def again(model: FittedModel) -> FittedModel:
    """The library's own refit, to the same log."""
    assert model.recommender is not None
    return model.recommender.fit(model.data, rng=8)


@LOGS
def test_the_whole_way_through_audits(data: Interactions, alpha: float) -> None:
    adapted = pickle.loads(pickle.dumps(adapt(als(data, alpha), data)))
    assert isinstance(adapted, ConfidenceModel)
    assert np.array_equal(again(adapted).scores(EVERYBODY), adapted.scores(EVERYBODY))
    split = ra.data.splits.leave_last(data, k=1)
    ra.accuracy(adapt(als(split.train, alpha), split.train), split.test)
    ra.exposure(adapted)
    ra.folding(adapted)
    found = ra.fidelity(adapted, audit=Reachability(actions=NextK(2), users=("u4",), policy=Softmax(beta=2.0)), top=1)
    told = dict(found.frame.select("metric", "value").iter_rows())
    assert told["refit_difference"] == 0
    assert told["median_error"] < 0.2


def test_a_refit_keeps_the_settings_and_takes_a_seed_where_the_model_has_none() -> None:
    unseeded = als(STARS, random_state=None, iterations=3, use_cg=False)
    recommender = adapt(unseeded, STARS).recommender
    assert recommender is not None
    one, same, other = (recommender.fit(STARS, rng=rng).scores(EVERYBODY) for rng in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    expected = als(STARS, random_state=1, iterations=3, use_cg=False)
    np.testing.assert_allclose(one, adapt(expected, STARS).scores(EVERYBODY), atol=1e-12)


def test_a_model_on_a_gpu_is_taken_from_there() -> None:
    model = als(STARS)
    there = {"__module__": "implicit.gpu.als", "user_factors": object(), "to_cpu": lambda _: model}
    adapted = adapt(type("AlternatingLeastSquares", (), there)(), STARS)
    assert np.array_equal(adapted.scores(EVERYBODY), adapt(model, STARS).scores(EVERYBODY))


def test_what_is_not_fitted_or_not_known_is_refused() -> None:
    for empty in (AlternatingLeastSquares(), CosineRecommender()):
        with pytest.raises(InputError, match="that was not fitted"):
            adapt(empty, STARS)
    unknown = type("AnnoyModel", (), {"__module__": "implicit.ann.annoy"})()
    with pytest.raises(InputError, match=r"received a implicit.ann.annoy.AnnoyModel; expected one of Alternating"):
        adapt(unknown, STARS)
