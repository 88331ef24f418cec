"""Adapted scorers of LensKit, held against LensKit itself, which computes in single precision: to 1e-5."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray

import recaudit as ra
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits import Reachability
from recaudit.data import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import GivenItems, NextK
from recaudit.models.base import FittedModel
from recaudit.models.response import AffineResponse, DifferentiableResponse, OpaqueResponse
from recaudit.policies import Softmax
from recaudit.testing.models import EVERYBODY, ITEMS, USERS, some_ratings

pytest.importorskip("lenskit", reason="LensKit needs pandas 2: `make lenskit` tests it in an environment of its own")

from lenskit.als import BiasedMFScorer, ImplicitMFScorer
from lenskit.basic import BiasScorer, PopScorer
from lenskit.data import ItemList, RecQuery, from_interactions_df
from lenskit.knn import EASEScorer, ItemKNNScorer, UserKNNScorer
from lenskit.pipeline import topn_pipeline
from lenskit.training import TrainingOptions

SMALL: dict[str, Any] = {"embedding_size": 3, "epochs": 3}
SCORERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "mf": (BiasedMFScorer, SMALL),
    "mf-damped": (BiasedMFScorer, {**SMALL, "damping": {"user": 2.0, "item": 0.5}, "regularization": 0.3}),
    "mf-two-penalties": (BiasedMFScorer, {**SMALL, "regularization": {"user": 0.05, "item": 0.5}}),
    "mf-forgets-users": (BiasedMFScorer, {**SMALL, "user_embeddings": False}),
    "mf-stored": (BiasedMFScorer, {**SMALL, "user_embeddings": "prefer"}),
    "implicit": (ImplicitMFScorer, {**SMALL, "weight": 10}),
    "implicit-graded": (ImplicitMFScorer, {**SMALL, "weight": 3, "use_ratings": True, "regularization": 1.0}),
    "implicit-stored": (ImplicitMFScorer, {**SMALL, "user_embeddings": "prefer"}),
    "ease": (EASEScorer, {"regularization": 5.0}),
    "items": (ItemKNNScorer, {"max_nbrs": 3, "min_nbrs": 2}),
    "items-clicked": (ItemKNNScorer, {"max_nbrs": 4, "feedback": "implicit"}),
    "users": (UserKNNScorer, {"max_nbrs": 4, "min_nbrs": 2}),
    "users-clicked": (UserKNNScorer, {"max_nbrs": 4, "feedback": "implicit"}),
    "bias": (BiasScorer, {"damping": 3.0}),
    "bias-undamped": (BiasScorer, {}),
    "bias-of-items": (BiasScorer, {"entities": ["item"]}),
    "popularity": (PopScorer, {}),
}
UNTRAINED_USERS, UNTRAINED_ITEMS = [0, 11], [5, ITEMS - 1]
FIXED = {"mf-stored", "implicit-stored", "bias-of-items", "popularity"}
"""What LensKit answers from training, whatever the history is."""
PREDICTS = {"mf", "mf-damped", "mf-two-penalties", "mf-forgets-users", "mf-stored", "items", "users"}
PREDICTS |= {"bias", "bias-undamped", "bias-of-items"}
FAILS = (ImplicitMFScorer, ItemKNNScorer)
"""What raises where the history has an item that it was not trained on."""

lenskit_divides_by_zero = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning:lenskit")


@pytest.fixture(scope="module")
def data() -> Interactions:
    """Two users and two items have no ratings."""
    full = some_ratings(0)
    return full.subset(~np.isin(full.users, UNTRAINED_USERS) & ~np.isin(full.items, UNTRAINED_ITEMS))


@pytest.fixture(scope="module")
def clicks(data: Interactions) -> Interactions:
    return replace(data, ratings=np.ones(len(data)), scale=(1.0, 1.0)).frozen()


def trained(name: str, log: Interactions, seed: int = 3) -> Any:
    """LensKit's own training, with rows in another order than the log's."""
    frame = (
        log.frame().sample(fraction=1.0, shuffle=True, seed=5).select(user_id="user", item_id="item", rating="rating")
    )
    kind, settings = SCORERS[name]
    scorer = kind(**settings)
    scorer.train(from_interactions_df(frame.to_pandas()), TrainingOptions(rng=seed))
    return scorer


def asked(scorer: Any, log: Interactions, user: int, items: NDArray[Any], ratings: FloatArray) -> FloatArray:
    """(items,): LensKit's own answer, NaN where it has none."""
    if isinstance(scorer, FAILS):
        known = np.array([item in scorer.items for item in items], dtype=bool)
        items, ratings = items[known], ratings[known]
    history = ItemList(item_ids=items.tolist(), rating=ratings)
    query = {} if isinstance(scorer, PopScorer) else {"query": RecQuery(log.user_ids[user], history_items=history)}
    known = np.arange(ITEMS) if not isinstance(scorer, ItemKNNScorer) else np.array(list(scorer.items))
    scores = np.full(ITEMS, np.nan)
    given = scorer(items=ItemList(item_ids=known.tolist()), **query).scores()
    scores[known] = np.nan if given is None else given
    return scores


def assert_alike(model: FittedModel, got: FloatArray, wanted: FloatArray, tolerance: float = 1e-5) -> None:
    shown = model.may_show(got)
    np.testing.assert_array_equal(shown, np.isfinite(wanted))
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got[shown], wanted[shown], atol=tolerance, rtol=0)


def edited(log: Interactions, user: int, items: IntArray, ratings: FloatArray) -> tuple[IntArray, FloatArray]:
    seen, old = log.history(user)
    kept = ~np.isin(seen, items)
    return np.concatenate([seen[kept], items]), np.concatenate([old[kept], ratings])


@lenskit_divides_by_zero
@pytest.mark.parametrize("name", SCORERS)
def test_scores_are_lenskits_own_and_what_it_does_not_score_is_not_shown(name: str, data: Interactions) -> None:
    scorer = trained(name, data)
    model = ra.models.adapt(scorer, data)
    wanted = np.array([asked(scorer, data, user, *data.history(user)) for user in range(USERS)])
    assert_alike(model, model.scores(EVERYBODY), wanted)
    assert model.scores(EVERYBODY).dtype == np.float64
    assert model.scores(EVERYBODY[:0]).shape == (0, ITEMS)
    assert model.predicts_ratings == (name in PREDICTS)
    if not name.startswith("bias"):
        assert np.isnan(wanted[:, UNTRAINED_ITEMS]).all()


@pytest.mark.parametrize("name", sorted(set(SCORERS) - FIXED))
@pytest.mark.parametrize("items", [[1, 6, 12], [3, 5, 8]], ids=["trained", "one-untrained"])
def test_the_response_is_lenskits_answer_to_the_edited_history(name: str, items: list[int], data: Interactions) -> None:
    scorer, acted = trained(name, data), np.array(items)
    model = ra.models.adapt(scorer, data)
    for user in (0, 4, 9):  # the first one has no ratings yet
        response = model.respond(user, user, acted)
        assert type(response) is model.response
        for ratings in (np.array([1.0, 5.0, 2.5]), np.array([4.0, 1.0, 5.0])):
            wanted = asked(scorer, data, user, *edited(data, user, acted, ratings))
            assert_alike(model, response.scores(ratings), wanted)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mf", AffineResponse),
        ("implicit", AffineResponse),
        ("implicit-graded", DifferentiableResponse),
        ("ease", AffineResponse),
        ("items", AffineResponse),
        ("users", OpaqueResponse),
    ],
)
def test_responses_are_as_exact_as_the_rule_allows(name: str, kind: type, data: Interactions) -> None:
    assert ra.models.adapt(trained(name, data), data).response is kind


@pytest.mark.parametrize("name", ["implicit", "implicit-graded", "ease", "items-clicked", "users-clicked"])
def test_in_a_log_of_clicks_a_0_takes_one_away(name: str, clicks: Interactions) -> None:
    scorer, acted = trained(name, clicks), np.array([1, 6, 12])
    model = ra.models.adapt(scorer, clicks)
    wanted = np.array([asked(scorer, clicks, user, *clicks.history(user)) for user in range(USERS)])
    assert_alike(model, model.scores(EVERYBODY), wanted)
    for user in (4, 9):
        for ratings in (np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])):
            items, given = edited(clicks, user, acted, ratings)
            wanted = asked(scorer, clicks, user, items[given > 0], given[given > 0])
            assert_alike(model, model.respond(user, user, acted).scores(ratings), wanted)


def test_the_search_can_follow_the_gradient_of_graded_confidence(data: Interactions) -> None:
    model = ra.models.adapt(trained("implicit-graded", data), data)
    response = model.respond(4, 4, np.array([1, 6]))
    assert isinstance(response, DifferentiableResponse)
    at = torch.tensor([[2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    shown = model.may_show(response.scores(np.array([2.0, 4.0])))
    assert torch.autograd.gradcheck(lambda ratings: response.batch_scores(ratings)[:, shown], at)


@pytest.mark.parametrize("name", SCORERS)
def test_lenskit_trains_it_anew(name: str, data: Interactions) -> None:
    scorer = trained(name, data)
    model = pickle.loads(pickle.dumps(ra.models.adapt(scorer, data)))
    assert np.array_equal(model.scores(EVERYBODY), ra.models.adapt(scorer, data).scores(EVERYBODY))
    again = model.recommender.fit(data, 3)
    np.testing.assert_allclose(again.scores(EVERYBODY), model.scores(EVERYBODY), atol=1e-5, rtol=0)
    told = model.recommender.model_dump()
    assert told["library"].startswith("lenskit 2")
    assert told["settings"]["scorer"] == SCORERS[name][0].__name__
    edit = data.with_ratings(4, np.array([1, 6]), np.array([5.0, 1.0]))
    refitted = model.recommender.fit(edit, 3)
    wanted = np.array([asked(trained(name, edit), edit, 4, *edit.history(4))])
    assert_alike(refitted, refitted.scores(np.array([4])), wanted)


@pytest.mark.parametrize("name", ["mf", "implicit", "implicit-graded", "ease", "items", "items-clicked", "bias"])
def test_a_refit_says_how_faithful_the_rule_is(name: str, data: Interactions) -> None:
    model = ra.models.adapt(trained(name, data), data)
    reach = Reachability(actions=NextK(2), users=("u4", "u7"), policy=Softmax(beta=2))
    found = dict(ra.fidelity(model, audit=reach, top=1, rng=3).frame.select("metric", "value").iter_rows())
    assert found["refit_difference"] < 1e-5
    assert np.isfinite(found["median_error"])


@pytest.mark.parametrize("name", SCORERS)
def test_audits_of_lists_take_every_scorer(name: str, data: Interactions) -> None:
    model = ra.models.adapt(trained(name, data), data)
    full = some_ratings(0)
    held_out = full.subset(np.isin(full.users, UNTRAINED_USERS) | np.isin(full.items, UNTRAINED_ITEMS))
    found = ra.accuracy(model, held_out)
    rmse = found.frame.filter(metric="rmse")["value"][0]
    if name.startswith("bias"):
        assert np.isfinite(rmse)
        assert "not_predicted" not in found.settings
    else:  # LensKit predicts none of these
        assert rmse is None
        shown = ra.recommend(model, n=ITEMS)
        assert not set(shown["item"]) & set(UNTRAINED_ITEMS)
    assert 0 < ra.exposure(model).frame.filter(metric="coverage")["value"][0] <= 1


def test_pairs_without_a_prediction_are_left_out_of_the_error_and_counted(data: Interactions) -> None:
    scorer, full = trained("mf", data), some_ratings(0)
    held_out = full.subset((full.users == 4) & ~np.isin(full.items, [1, 2, 3]))
    items, ratings = held_out.history(4)
    wanted = np.clip(asked(scorer, data, 4, *data.history(4)), 1, 5)[items]
    known = np.isfinite(wanted)
    assert 0 < (~known).sum() < len(items)
    found = ra.accuracy(ra.models.adapt(scorer, data), held_out)
    rmse = np.sqrt(((wanted - ratings)[known] ** 2).mean())
    assert found.frame.filter(metric="rmse")["value"][0] == pytest.approx(rmse, abs=1e-5)
    assert found.settings["not_predicted"] == (~known).sum()


@pytest.mark.parametrize("name", ["mf", "implicit", "implicit-graded", "ease", "items", "bias"])
def test_reachability_names_lenskits_rule_and_never_promises_an_item_without_a_score(
    name: str, data: Interactions
) -> None:
    model = ra.models.adapt(trained(name, data), data)
    found = ra.reachability(model, actions=NextK(2), users=("u4", "u7"), policy=Softmax(beta=2), refits=0)
    assert found.settings["rule"].startswith("LensKit's ")
    untrained = found.pairs.filter(found.pairs["item"].is_in(UNTRAINED_ITEMS))["value"]
    assert len(untrained) > 0
    assert (untrained > 0).any() == (name == "bias")
    assert found.pairs["value"].to_numpy().max() > 0.1


def test_a_scorer_that_can_only_be_asked_is_asked(data: Interactions) -> None:
    model = ra.models.adapt(trained("users", data), data)
    (user,), unseen = data.users_at(["u4"]), int(ra.recommend(model, users=["u4"], n=1)["item"][0])
    targets, rated = (unseen, UNTRAINED_ITEMS[0]), int(data.history(user)[0][0])
    policy = Softmax(beta=2)
    found = ra.reachability(
        model, actions=GivenItems((rated,)), users=("u4",), targets=targets, policy=policy, budget=60, refits=0
    )
    assert found.settings["rule"] == "the system itself answers about the edited history"
    reached = dict(found.pairs.select("item", "value").iter_rows())
    assert reached[targets[0]] > 0.05
    assert reached[targets[1]] == 0


@pytest.mark.parametrize("name", SCORERS)
def test_what_waits_for_the_next_training_is_refused(name: str, data: Interactions) -> None:
    model = ra.models.adapt(trained(name, data), data)
    match = "from what training stored" if name in FIXED else "until the next training|until LensKit is trained again"
    with pytest.raises(NotSupportedError, match=match):
        ra.instability(model, viewers=("u4",), editors=("u7",))
    if name in FIXED:
        with pytest.raises(NotSupportedError, match=match):
            ra.reachability(model, users=("u4",))


@pytest.mark.parametrize("name", ["mf", "mf-stored", "implicit", "implicit-graded"])
def test_vectors_can_fold(name: str, data: Interactions) -> None:
    assert ra.folding(ra.models.adapt(trained(name, data), data)).frame["value"].is_finite().all()


def test_what_has_no_vectors_is_judged_by_what_it_shows(data: Interactions) -> None:
    for name in ("ease", "items", "bias", "popularity"):
        found = ra.folding(ra.models.adapt(trained(name, data), data))
        known = dict(found.frame.select("metric", pl.col("value").is_not_null()).iter_rows())
        assert known["unrelated_share"]
        assert not known["folding"]


def test_a_pipeline_is_taken_for_its_scorer(data: Interactions) -> None:
    kind, settings = SCORERS["mf"]
    pipeline = topn_pipeline(kind(**settings), predicts_ratings=True)
    with pytest.raises(InputError, match="BiasedMFScorer that was not fitted"):
        ra.models.adapt(pipeline, data)
    frame = data.frame().select(user_id="user", item_id="item", rating="rating")
    pipeline.train(from_interactions_df(frame.to_pandas()), TrainingOptions(rng=3))
    model = ra.models.adapt(pipeline, data)
    own = ra.models.adapt(pipeline.component("scorer"), data)
    assert np.array_equal(model.scores(EVERYBODY), own.scores(EVERYBODY))
    given = pipeline.run("scorer", query="u4", items=ItemList(item_ids=list(range(ITEMS)))).scores()
    at = data.users_at(["u4"])
    assert_alike(model, model.scores(at), np.array([given]))
    fallback = pickle.loads(pickle.dumps(ra.models.adapt(pipeline, data, scorer="fallback-predictor")))
    for trained_in_it in (model, fallback):
        assert trained_in_it.recommender is not None
        again = trained_in_it.recommender.fit(data, 3)
        np.testing.assert_allclose(again.scores(EVERYBODY), trained_in_it.scores(EVERYBODY), atol=1e-5, rtol=0)
    with pytest.raises(InputError, match=r"scorer: received score; expected a component of the pipeline: .*ranker"):
        ra.models.adapt(pipeline, data, scorer="score")
    with pytest.raises(InputError, match="TopNRanker"):
        ra.models.adapt(pipeline, data, scorer="ranker")


def test_another_log_is_refused(data: Interactions) -> None:
    frame = data.frame().with_columns(item=data.frame()["item"].cast(str))
    with pytest.raises(InputError, match="item ids such as '0', none of which the scorer was trained on"):
        ra.models.adapt(trained("mf", data), Interactions.from_frame(frame, time="time"))


def test_an_untrained_scorer_is_refused(data: Interactions) -> None:
    for kind, settings in SCORERS.values():
        with pytest.raises(InputError, match="not fitted"):
            ra.models.adapt(kind(**settings), data)


def test_what_is_no_scorer_is_refused(data: Interactions) -> None:
    log = from_interactions_df(data.frame().select(user_id="user", item_id="item").to_pandas())
    with pytest.raises(InputError, match=r"lenskit\..*Dataset; expected one of BiasedMFScorer, ImplicitMFScorer"):
        ra.models.adapt(log, data)
