from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import recaudit as ra
from recaudit.arrays import FloatArray
from recaudit.data import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import NextK
from recaudit.models import AffineResponse, LinearModel, OpaqueResponse, SgdStep, adapt
from recaudit.testing.models import EVERYBODY, ITEMS, USERS, some_ratings

cornac = pytest.importorskip("cornac", reason="needs cornac")

MODELS: dict[str, Any] = {
    "MF": cornac.models.MF(k=3, max_iter=30, learning_rate=0.05, seed=1),
    "MF without biases": cornac.models.MF(k=3, max_iter=30, use_bias=False, seed=1),
    "NMF": cornac.models.NMF(k=3, max_iter=10, seed=1, verbose=False),
    "SVD": cornac.models.SVD(k=3, max_iter=10, seed=1, verbose=False),
    "PMF": cornac.models.PMF(k=3, max_iter=10, seed=1),
    "BPR": cornac.models.BPR(k=3, max_iter=10, seed=1, verbose=False),
    "EASE": cornac.models.EASE(lamb=5, posB=False, verbose=False),
    "ItemKNN": cornac.models.ItemKNN(k=3, verbose=False, seed=1),
    "ItemKNN, Pearson": cornac.models.ItemKNN(k=3, similarity="pearson", amplify=2.0, verbose=False, seed=1),
    "UserKNN": cornac.models.UserKNN(k=3, verbose=False, seed=1),
    "MostPop": cornac.models.MostPop(),
}
RATINGS = ("MF", "MF without biases", "NMF", "SVD", "ItemKNN", "ItemKNN, Pearson", "UserKNN")
VECTORS = ("MF", "MF without biases", "NMF", "SVD", "PMF", "BPR")


def fitted(name: str, data: Interactions) -> Any:
    """Trained on the rows in an order of its own."""
    rows = data.frame().sample(fraction=1.0, shuffle=True, seed=5).select("user", "item", "rating").rows()
    return MODELS[name].clone().fit(cornac.data.Dataset.from_uir(rows))


def own_scores(model: Any, data: Interactions, user: int) -> FloatArray:
    """What Cornac ranks by, in the order of the log."""
    at = np.array([model.iid_map.get(item, -1) for item in data.item_ids])
    scores = np.asarray(model.rank(model.uid_map[data.user_ids[user]], np.arange(model.num_items))[1]).ravel()
    found: FloatArray = np.where(at >= 0, scores[at], scores.min())
    return found


@pytest.mark.parametrize("name", MODELS)
class TestEveryModel:
    def test_scores_are_cornacs_own(self, name: str) -> None:
        data = some_ratings(0)
        model = fitted(name, data)
        made = adapt(model, data)
        expected = np.array([own_scores(model, data, user) for user in range(USERS)])
        # Cornac's vectors and sums are in single precision.
        np.testing.assert_allclose(made.scores(EVERYBODY), expected, rtol=2e-6, atol=2e-6)
        assert made.predicts_ratings == (name in RATINGS)
        assert np.array_equal(pickle.loads(pickle.dumps(made)).scores(EVERYBODY), made.scores(EVERYBODY))

    def test_items_that_cornac_does_not_know_come_last(self, name: str) -> None:
        data = some_ratings(0)
        data = data.subset(data.items != 5)
        model = fitted(name, data)
        made = adapt(model, data)
        expected = np.array([own_scores(model, data, user) for user in range(USERS)])
        scores, others = made.scores(EVERYBODY), np.arange(ITEMS) != 5
        np.testing.assert_allclose(scores[:, others], expected[:, others], rtol=2e-6, atol=2e-6)
        assert (scores[:, 5] <= scores.min(axis=1) + 1e-12).all()
        if made.response is not None:
            rated = made.respond(0, 0, np.array([5, 6])).scores(np.array([5.0, 5.0]))
            assert np.abs(rated - made.respond(0, 0, np.array([6])).scores(np.array([5.0]))).max() < 1e-12

    def test_cornac_trains_the_same_model_again(self, name: str) -> None:
        data = some_ratings(0)
        made = adapt(fitted(name, data), data)
        assert made.recommender is not None
        again = made.recommender.fit(data)
        np.testing.assert_allclose(again.scores(EVERYBODY), made.scores(EVERYBODY), rtol=0, atol=1e-6)
        if name in VECTORS and name != "PMF":
            other = made.recommender.fit(data, 1)
            assert not np.allclose(other.scores(EVERYBODY), made.scores(EVERYBODY), atol=1e-4)

    def test_audits(self, name: str) -> None:
        data = some_ratings(0)
        made = adapt(fitted(name, data), data)
        assert len(ra.accuracy(made, some_ratings(1), k=3).frame)
        assert len(ra.exposure(made, k=3).frame)
        if name in VECTORS:
            assert len(ra.folding(made, k=3).frame)
        if made.response is None:
            with pytest.raises(NotSupportedError):
                ra.reachability(made, actions=NextK(2), users=1)
        else:
            found = ra.reachability(made, actions=NextK(2), users=1, targets=(2,), refits=1, budget=40)
            assert found.facts["fidelity"]["refit_difference"] == pytest.approx(0, abs=1e-6)
        with pytest.raises(NotSupportedError):
            ra.instability(made, viewers=3, editors=3)


def edited(name: str, data: Interactions, log: Interactions) -> Any:
    """What Cornac knows of `data`, with the ratings of another log in its matrix."""
    model, other = fitted(name, data), fitted(name, log)
    order = [other.uid_map[user] for user in model.uid_map], [other.iid_map[item] for item in model.iid_map]
    model.U = other.train_set.matrix[order[0]][:, order[1]]
    if name.startswith("ItemKNN"):
        model.ui_mat, model.mean_arr = other.ui_mat[order[0]][:, order[1]], other.mean_arr[order[0]]
    return model


@pytest.mark.parametrize("name", ["EASE", "ItemKNN", "ItemKNN, Pearson"])
def test_edited_ratings_count_as_in_cornac(name: str) -> None:
    data = some_ratings(0)
    made = adapt(fitted(name, data), data)
    assert made.response is (AffineResponse if name == "EASE" else OpaqueResponse)
    for user in (0, 4):
        seen = data.history(user)[0]
        items = np.array([*seen[[0, -1]], *np.setdiff1d(np.arange(ITEMS), seen)[:2]])
        given = np.array([1.0, 5.0, 4.0, 2.0])
        after = edited(name, data, data.with_ratings(user, items, given))
        expected = own_scores(after, data, user)
        scores = made.respond(user, user, items).scores(given)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12)
        assert np.abs(expected - made.scores(np.array([user]))[0]).max() > 0.1
        with pytest.raises(NotSupportedError):
            made.respond(user, user + 1, items)


def test_a_rule_of_ones_own() -> None:
    data = some_ratings(0)
    made = adapt(fitted("MF", data), data, update=SgdStep(step=0.05))
    assert made.response is AffineResponse
    assert made.recommender is not None
    assert made.recommender.fit(data).response is AffineResponse
    with pytest.raises(InputError, match=r"update: received .* expected nothing beside this model"):
        adapt(fitted("EASE", data), data, update=SgdStep())


def test_users_whom_cornac_does_not_know() -> None:
    data = some_ratings(0)
    data = data.subset(data.users != 7)
    model = fitted("MF", data)
    expected = np.asarray(model.score(-1))[[model.iid_map[item] for item in data.item_ids]]
    np.testing.assert_allclose(adapt(model, data).scores(np.array([7]))[0], expected, atol=1e-6)
    assert not adapt(fitted("EASE", data), data).scores(np.array([7])).any()
    alone = adapt(fitted("UserKNN", data), data).scores(np.array([7]))
    np.testing.assert_allclose(alone, model.default_score(), rtol=1e-6)
    with pytest.raises(InputError, match="the BPR knows"):
        adapt(fitted("BPR", data), data)


def test_weights_are_cornacs() -> None:
    data = some_ratings(0)
    model = fitted("EASE", data)
    made = adapt(model, data)
    assert isinstance(made, LinearModel)
    assert made.weights[2, 7] == model.B[model.iid_map[2], model.iid_map[7]]


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (cornac.models.MF(), some_ratings(0), "a MF that was not fitted"),
        (cornac.metrics.MAE(), some_ratings(0), "Cornac's recommenders"),
        (fitted("MF", some_ratings(0)), some_ratings(1), "the log that the model was trained on"),
    ],
)
def test_refused(model: Any, data: Interactions, message: str) -> None:
    with pytest.raises(InputError, match=message):
        adapt(model, data)


def test_what_is_not_known_must_be_said() -> None:
    class Own(cornac.models.MF):  # type: ignore[misc, name-defined]  # Cornac has no types
        def score(self, user_idx: int, item_idx: int | None = None) -> Any:
            return 2 * super().score(user_idx, item_idx)

    data = some_ratings(0)
    model = Own(k=2, seed=0).fit(cornac.data.Dataset.from_uir(data.frame().select("user", "item", "rating").rows()))
    with pytest.raises(InputError, match="predicts_ratings: received nothing, for a Own"):
        adapt(model, data)
    made = adapt(model, data, predicts_ratings=False)
    np.testing.assert_allclose(made.scores(np.array([3]))[0], own_scores(model, data, 3), atol=1e-6)
