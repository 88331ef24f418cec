from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import recaudit as ra
from recaudit.arrays import FloatArray
from recaudit.data import Interactions
from recaudit.errors import InputError
from recaudit.interventions import NextK
from recaudit.models import AffineResponse, OpaqueResponse, adapt
from recaudit.testing.models import EVERYBODY, ITEMS, USERS, some_ratings

pytest.importorskip("river", reason="needs river")

from river import optim, reco

START = optim.initializers.Normal(sigma=0.3, seed=7)
FALLING = optim.SGD(optim.schedulers.InverseScaling(0.3))
MODELS: dict[str, Any] = {
    "BiasedMF": reco.BiasedMF(3, optim.SGD(0.05), optim.SGD(0.1), l2_bias=0.2, l2_latent=0.1, latent_initializer=START),
    "one factor": reco.BiasedMF(1, latent_initializer=START),
    "falling": reco.BiasedMF(3, FALLING, FALLING, latent_initializer=START),
    "FunkMF": reco.FunkMF(3, optim.SGD(0.1), l2=0.1, initializer=START),
    "Baseline": reco.Baseline(optim.SGD(0.1), l2=0.1),
}
ASKED: dict[str, Any] = {
    "Adam": reco.FunkMF(3, optim.Adam(0.05), initializer=START),
    "absolute": reco.BiasedMF(3, loss=optim.losses.Absolute(), latent_initializer=START),
    "clipped": reco.BiasedMF(3, clip_gradient=1.0, latent_initializer=START),
}
EVERY = MODELS | ASKED


def learned(name: str, data: Interactions) -> Any:
    """River's own: a rating at a time, in the order of time."""
    model = EVERY[name].clone()
    for user, item, rating, _ in data.frame().sort("time").iter_rows():
        model.learn_one(user, item, rating)
    return model


def own_scores(model: Any, data: Interactions, user: int) -> FloatArray:
    return np.array([model.predict_one(data.user_ids[user], item) for item in data.item_ids])


@pytest.mark.parametrize("name", EVERY)
def test_scores_are_rivers_own_and_asking_leaves_the_model_alone(name: str) -> None:
    data = some_ratings(0)
    model = learned(name, data)
    made = adapt(model, data)
    expected = np.array([own_scores(model, data, user) for user in range(USERS)])
    np.testing.assert_allclose(made.scores(EVERYBODY), expected, rtol=0, atol=1e-12)
    assert made.predicts_ratings
    assert torch.equal(pickle.loads(pickle.dumps(made)).scores(EVERYBODY), made.scores(EVERYBODY))
    made.respond(0, 0, np.array([1])).scores(np.array([5.0]))
    np.testing.assert_array_equal([own_scores(model, data, user) for user in range(USERS)], expected)


@pytest.mark.parametrize("name", MODELS)
def test_own_ratings_move_the_scores_as_learn_one(name: str) -> None:
    data = some_ratings(0)
    model = learned(name, data)
    made = adapt(model, data)
    for user in (0, 4):
        seen = data.history(user)[0]
        items = np.array([*seen[[0, -1]], *np.setdiff1d(np.arange(ITEMS), seen)[:2]])
        given = np.array([1.0, 5.0, 4.0, 2.0])
        response = made.respond(user, user, items)
        assert isinstance(response, AffineResponse)
        after = copy.deepcopy(model)
        for item, rating in zip(items, given, strict=True):
            after.learn_one(data.user_ids[user], int(item), float(rating))
        others = np.setdiff1d(np.arange(ITEMS), items)  # those that were rated have moved too
        expected = own_scores(after, data, user)[others]
        np.testing.assert_allclose(response.scores(given).numpy()[others], expected, rtol=0, atol=1e-12)
        assert np.abs(expected - made.scores(np.array([user]))[0].numpy()[others]).max() > 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_anothers_rating_moves_the_item_as_learn_one_but_for_the_mean_of_all(name: str) -> None:
    data = some_ratings(0)
    model = learned(name, data)
    made = adapt(model, data)
    for viewer, editor, item in ((0, 1, 3), (4, 9, 0)):
        after = copy.deepcopy(model)
        after.learn_one(data.user_ids[editor], item, 5.0)
        scores = made.respond(viewer, editor, np.array([item])).scores(np.array([5.0])).numpy()
        differences = scores - own_scores(after, data, viewer)
        np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ASKED)
def test_what_no_formula_follows_is_asked(name: str) -> None:
    data = some_ratings(0)
    model = learned(name, data)
    made = adapt(model, data)
    assert made.response is OpaqueResponse
    for viewer, editor in ((4, 4), (4, 9)):
        after, items = copy.deepcopy(model), np.setdiff1d(np.arange(ITEMS), data.history(editor)[0])[:2]
        for item, rating in zip(items, (1.5, 4.5), strict=True):
            after.learn_one(data.user_ids[editor], int(item), rating)
        scores = made.respond(viewer, editor, items).scores(np.array([1.5, 4.5]))
        np.testing.assert_allclose(scores, own_scores(after, data, viewer), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", EVERY)
def test_a_clone_learns_the_same_log_to_the_same_model(name: str) -> None:
    data = some_ratings(0)
    made = adapt(learned(name, data), data)
    assert made.recommender is not None
    again = made.recommender.fit(data)
    np.testing.assert_allclose(again.scores(EVERYBODY), made.scores(EVERYBODY), rtol=0, atol=1e-12)
    if name not in ("Baseline",):
        assert not torch.allclose(made.recommender.fit(data, 1).scores(EVERYBODY), made.scores(EVERYBODY), atol=1e-3)


def test_training_of_ones_own() -> None:
    data = some_ratings(0)
    model = learned("FunkMF", data)

    def train(log: Interactions, seed: int) -> Any:
        return learned("FunkMF", log if seed == 0 else some_ratings(seed))

    made = adapt(model, data, train=train)
    assert made.recommender is not None
    again = made.recommender.fit(data)
    assert again.recommender == made.recommender
    np.testing.assert_allclose(again.scores(EVERYBODY), made.scores(EVERYBODY), rtol=0, atol=1e-12)


def test_who_has_no_ratings_gets_what_river_would_draw_next() -> None:
    data = some_ratings(0)
    data = data.subset(data.items != 5)
    model = learned("BiasedMF", data)
    made = adapt(model, data)
    assert 5 not in model.i_latents
    np.testing.assert_allclose(made.scores(EVERYBODY)[3], own_scores(model, data, 3), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["BiasedMF", "Adam"])
def test_audits(name: str) -> None:
    data = some_ratings(0)
    made = adapt(learned(name, data), data)
    assert len(ra.accuracy(made, some_ratings(1), k=3).frame)
    assert len(ra.exposure(made, k=3).frame)
    found = ra.reachability(made, actions=NextK(2), users=1, targets=(2,), refits=1, budget=40)
    assert found.facts["fidelity"]["refit_difference"] == pytest.approx(0, abs=1e-12)
    if name == "BiasedMF":
        assert "river's learn_one" in found.facts["rule"]
        assert len(ra.instability(made, viewers=3, editors=3, refits=1).frame)
        assert len(ra.folding(made, k=3).frame)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (reco.FunkMF(), "a FunkMF that was not fitted"),
        (
            reco.RandomNormal(),  # type: ignore[no-untyped-call]  # river's
            "river's BiasedMF, FunkMF, Baseline",
        ),
        (learned("FunkMF", some_ratings(0).subset(some_ratings(0).items != 3)), "ratings of 3 .* has not met"),
    ],
)
def test_refused(model: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        adapt(model, some_ratings(0))
