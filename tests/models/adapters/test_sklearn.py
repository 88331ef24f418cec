"""scikit-learn's factorisations against their own `transform`."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install recaudit[sklearn]")

from sklearn.decomposition import NMF, PCA, MiniBatchNMF, TruncatedSVD

import recaudit as ra
from recaudit.arrays import FloatArray
from recaudit.audits import Reachability
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import NextK
from recaudit.models import AffineResponse, OpaqueResponse
from recaudit.models.adapt import adapt
from recaudit.testing.models import EVERYBODY, ITEMS, USERS, some_ratings

DATA = some_ratings(0)
MATRIX = sparse.csr_matrix(DATA.csr)
ACTED, RATINGS = np.array([19, 0, 6]), np.array([1.0, 5.0, 2.5])
SVD = TruncatedSVD(4, random_state=0)
NONNEGATIVE = [
    NMF(4, init="random", random_state=0, max_iter=1000),
    NMF(4, solver="mu", beta_loss="kullback-leibler", random_state=0, max_iter=1000),
    MiniBatchNMF(4, random_state=0),
]
MODELS = pytest.mark.parametrize("model", [SVD, *NONNEGATIVE], ids=["svd", "nmf", "kullback-leibler", "mini-batch"])


@pytest.fixture(autouse=True)
def fitted(request: pytest.FixtureRequest) -> None:
    """The model of the test, trained; mini-batches say that they would like to go on."""
    if "model" in request.fixturenames:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            request.getfixturevalue("model").fit(MATRIX)


def transformed(model: Any, history: Any) -> FloatArray:
    """(items,): what the library makes of one history."""
    scores: FloatArray = (model.transform(history) @ model.components_)[0]
    return scores


@MODELS
def test_scores_are_its_own_reconstruction_of_each_history(model: Any) -> None:
    adapted = adapt(model, DATA)
    expected = np.stack([transformed(model, MATRIX[[user]]) for user in EVERYBODY])
    np.testing.assert_allclose(adapted.scores(EVERYBODY), expected, atol=1e-10)
    assert not adapted.predicts_ratings
    assert torch.equal(pickle.loads(pickle.dumps(adapted)).scores(EVERYBODY), adapted.scores(EVERYBODY))


@MODELS
def test_own_edits_are_transformed_as_the_library_does(model: Any) -> None:
    adapted = adapt(model, DATA)
    response = adapted.respond(4, 4, ACTED)
    history = MATRIX[[4]].toarray()
    history[0, ACTED] = RATINGS
    np.testing.assert_allclose(response.scores(RATINGS), transformed(model, history), atol=1e-10)
    assert type(response) is (AffineResponse if model is SVD else OpaqueResponse)
    with pytest.raises(NotSupportedError, match="another user's ratings move no score"):
        adapted.respond(9, 4, ACTED)


@MODELS
@pytest.mark.filterwarnings("ignore:Maximum number of iterations")
def test_columns_may_come_in_any_order(model: Any) -> None:
    items = np.random.default_rng(1).permutation(ITEMS)
    shuffled = type(model)(**model.get_params()).fit(MATRIX[:, items])
    adapted = adapt(shuffled, DATA, item_ids=DATA.item_ids.gather(items).to_list())
    expected = np.zeros(ITEMS)
    expected[items] = transformed(shuffled, MATRIX[[4]][:, items])
    np.testing.assert_allclose(adapted.scores(np.array([4]))[0], expected, atol=1e-10)
    history = MATRIX[[4]].toarray()
    history[0, ACTED] = RATINGS
    expected[items] = transformed(shuffled, history[:, items])
    np.testing.assert_allclose(adapted.respond(4, 4, ACTED).scores(RATINGS), expected, atol=1e-10)


@MODELS
def test_the_whole_way_through_audits(model: Any) -> None:
    adapted = adapt(model, DATA)
    assert adapted.recommender is not None
    assert torch.equal(adapted.recommender.fit(DATA, rng=5).scores(EVERYBODY), adapted.scores(EVERYBODY))
    ra.exposure(adapted)
    reach: dict[str, Any] = {"actions": NextK(2), "users": ("u4",), "budget": 30, "refits": 0}
    found = ra.reachability(adapted, **reach)
    assert (found.pairs["value"] > found.pairs["baseline"]).any()
    assert (found.pairs["status"] == ("solved" if model is SVD else "bounded")).all()
    told = ra.fidelity(adapted, audit=Reachability(**reach), top=1).frame
    assert told.filter(told["metric"] == "refit_difference")["value"][0] < 1e-9
    with pytest.raises(NotSupportedError, match="another user's ratings move no score"):
        ra.instability(adapted, edits=NextK(2), viewers=["u4"], editors=["u5"])
    split = ra.data.splits.leave_last(DATA, k=1)
    ra.accuracy(adapted.recommender.fit(split.train), split.test)


def test_nmf_of_a_frame_with_names_answers_without_a_word() -> None:
    import pandas as pd

    named = pd.DataFrame(MATRIX.toarray(), columns=[f"film {item}" for item in range(ITEMS)])
    model = NMF(3, init="random", random_state=0, max_iter=1000).fit(named)
    assert adapt(model, DATA).scores(EVERYBODY).shape == (USERS, ITEMS)
    assert hasattr(model, "feature_names_in_")


def test_one_without_a_seed_takes_the_refits() -> None:
    recommender = adapt(NMF(3, init="random", max_iter=1000).fit(MATRIX), DATA).recommender
    assert recommender is not None
    one, same, other = (recommender.fit(DATA, rng=rng).scores(EVERYBODY) for rng in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_what_is_not_fitted_or_not_known_or_of_other_items_is_refused() -> None:
    with pytest.raises(InputError, match="a NMF that was not fitted"):
        adapt(NMF(), DATA)
    with pytest.raises(InputError, match="expected one of TruncatedSVD, NMF, MiniBatchNMF"):
        adapt(PCA(2).fit(MATRIX.toarray()), DATA)
    for kind in (NMF(3, init="random", random_state=0, max_iter=1000), TruncatedSVD(3, random_state=0)):
        with pytest.raises(InputError, match="expected shape"):
            adapt(kind.fit(MATRIX[:, 1:]), DATA)
