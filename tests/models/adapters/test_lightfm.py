"""Models of LightFM against LightFM's own `predict`."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("lightfm", reason="lightfm is not installed: pip install recaudit[lightfm]")

from lightfm import LightFM

import recaudit as ra
from recaudit.arrays import FloatArray
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import NextK
from recaudit.models.adapt import Retrained, adapt
from recaudit.models.factor.model import FactorVectors
from recaudit.testing.models import EVERYBODY, ITEMS, USERS, some_ratings

DATA = some_ratings(0)
USER_FEATURES = sparse.hstack(
    [sparse.identity(USERS), np.arange(USERS)[:, None] % 3 == np.arange(3)], format="csr", dtype=np.float32
)
ITEM_FEATURES = sparse.csr_matrix(np.arange(ITEMS)[:, None] % 4 == np.arange(4), dtype=np.float32)
FEATURES = {"user_features": USER_FEATURES, "item_features": ITEM_FEATURES}


def trained(matrix: Any = None, loss: str = "warp", **features: Any) -> Any:
    interactions = sparse.coo_matrix(DATA.csr if matrix is None else matrix, copy=True)
    return LightFM(no_components=4, loss=loss, random_state=3).fit(interactions, epochs=3, **features)


def predicted(model: Any, **features: Any) -> FloatArray:
    users, items = np.divmod(np.arange(USERS * ITEMS, dtype=np.int32), ITEMS)
    scores: FloatArray = model.predict(users, items, **features).reshape(USERS, ITEMS)
    return scores


@pytest.mark.parametrize("loss", ["warp", "bpr", "logistic"])
@pytest.mark.parametrize("features", [{}, FEATURES], ids=["ids", "features"])
def test_scores_are_what_it_predicts(loss: str, features: dict[str, Any]) -> None:
    model = trained(loss=loss, **features)
    adapted = adapt(model, DATA, **features)
    np.testing.assert_allclose(adapted.scores(EVERYBODY), predicted(model, **features), atol=2e-6)
    assert not adapted.predicts_ratings
    assert np.array_equal(pickle.loads(pickle.dumps(adapted)).scores(EVERYBODY), adapted.scores(EVERYBODY))


@pytest.mark.parametrize("features", [{}, FEATURES], ids=["ids", "features"])
def test_ids_may_come_in_any_order(features: dict[str, Any]) -> None:
    users, items = np.random.default_rng(0).permutation(USERS), np.random.default_rng(1).permutation(ITEMS)
    orders = {"user_features": users, "item_features": items}
    shuffled = {name: matrix[orders[name]] for name, matrix in features.items()}
    model = trained(sparse.csr_matrix(DATA.csr)[users][:, items], **shuffled)
    ids = {"user_ids": DATA.user_ids.gather(users).to_list(), "item_ids": DATA.item_ids.gather(items).to_list()}
    expected = np.zeros((USERS, ITEMS))
    expected[np.ix_(users, items)] = predicted(model, **shuffled)
    adapted = adapt(model, DATA, **ids, **shuffled, epochs=3)
    np.testing.assert_allclose(adapted.scores(EVERYBODY), expected, atol=2e-6)
    # A refit has the log's own order, in which features are sorted too.
    again = adapted.recommender.fit(DATA, rng=3)  # type: ignore[union-attr]
    np.testing.assert_allclose(again.scores(EVERYBODY), predicted(trained(**features), **features), atol=2e-6)


def test_a_refit_needs_the_epochs_and_has_the_same_settings() -> None:
    assert adapt(trained(), DATA).recommender is None
    adapted = adapt(trained(**FEATURES), DATA, epochs=3, **FEATURES)
    assert isinstance(adapted.recommender, Retrained)
    assert np.array_equal(adapted.recommender.fit(DATA, rng=3).scores(EVERYBODY), adapted.scores(EVERYBODY))
    assert not np.array_equal(adapted.recommender.fit(DATA, rng=4).scores(EVERYBODY), adapted.scores(EVERYBODY))
    assert adapted.recommender.settings["loss"] == "warp"


def test_audits_that_need_no_rule_are_answered_and_the_others_refused() -> None:
    adapted = adapt(trained(), DATA)
    assert isinstance(adapted, FactorVectors)
    split = ra.data.splits.leave_last(DATA, k=1)
    model = trained(split.train.csr)
    assert ra.accuracy(adapt(model, split.train), split.test, k=5).frame.height > 0
    ra.exposure(adapted)
    ra.folding(adapted)
    with pytest.raises(NotSupportedError, match="came without the rule"):
        ra.reachability(adapted, actions=NextK(2))
    with pytest.raises(NotSupportedError, match="came without the rule"):
        ra.instability(adapted, edits=NextK(2))


def test_what_is_not_fitted_or_lacks_its_features_is_refused() -> None:
    with pytest.raises(InputError, match="a LightFM that was not fitted"):
        adapt(LightFM(), DATA)
    with pytest.raises(InputError, match="user_features: received nothing, beside embeddings of 33 features for 30"):
        adapt(trained(**FEATURES), DATA, item_features=ITEM_FEATURES)
    with pytest.raises(InputError, match="expected one of LightFM"):
        adapt(type("Dataset", (), {"__module__": "lightfm.data"})(), DATA)
