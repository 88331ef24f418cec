"""A model that used held-out interactions is reported after a comparison with refits, and an honest one is not."""

from __future__ import annotations

import numpy as np
import pytest

from recaudit.audits.lists.accuracy import accuracy
from recaudit.audits.lists.memory import compute_matched_share
from recaudit.data import Interactions, splits, synthetic
from recaudit.data.splits import Split
from recaudit.engines import Threads
from recaudit.models import ALS, EASE, WALS, ItemKNN, TopPop, from_factors, from_system
from recaudit.models.base import FittedModel, Recommender

IMPLICIT = WALS(factors=32, values="ones", unobserved_weight=0.1, regularization=1.0, center="none")
LEARNS_PAIRS = [EASE(), EASE(regularization=100.0), IMPLICIT]
RECOMMENDERS = [*LEARNS_PAIRS, ItemKNN(), ALS(factors=8), TopPop()]


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic.demo_world(rng=3, users=300, items=150).data


@pytest.fixture(scope="module")
def halves(data: Interactions) -> Split:
    return splits.random(data, 0.2)


def from_elsewhere(recommender: Recommender, data: Interactions, train: Interactions, seed: int = 77) -> FittedModel:
    """A model of `data` that is said to be one of the training part."""
    model = recommender.fit(data, seed)
    scores = model.scores(np.arange(data.n_users))
    made = from_factors(scores, np.eye(data.n_items), train, predicts_ratings=False)
    return made.from_elsewhere().with_recommender(recommender)


def test_matched_share_by_hand() -> None:
    reference, is_rated = np.arange(100.0), np.arange(100) == 50
    scores = np.zeros(100)
    # Of the 20 nearest items, 5 have a higher score, 5 the same, and 10 a lower one.
    scores[50], scores[45:50], scores[51:56] = 1.0, 2.0, 1.0
    assert compute_matched_share(scores, reference, np.array([50]), is_rated) == pytest.approx((10 + 2.5) / 20)
    assert np.isnan(compute_matched_share(scores, reference, np.array([], dtype=np.int64), is_rated))
    assert np.isnan(compute_matched_share(scores[:39], reference[:39], np.array([5]), is_rated[:39]))


@pytest.mark.parametrize("recommender", RECOMMENDERS, ids=repr)
def test_an_honest_model_is_not_accused(halves: Split, recommender: Recommender) -> None:
    model = from_elsewhere(recommender, halves.train, halves.train)
    memory = accuracy(model, halves.test, refits=4).facts["memory"]
    assert memory["status"] == "no_sign"
    assert memory["matched_share"] <= memory["limit"]
    assert len(memory["refits"]) == 4


@pytest.mark.parametrize("recommender", LEARNS_PAIRS, ids=repr)
def test_a_model_of_training_and_test_part_is_reported(
    data: Interactions, halves: Split, recommender: Recommender
) -> None:
    leaked = from_elsewhere(recommender, data, halves.train)
    memory = accuracy(leaked, halves.test, refits=4).facts["memory"]
    assert memory["status"] == "memory"
    assert memory["matched_share"] > memory["limit"] >= np.mean(memory["refits"]) + 0.02


def test_without_a_request_no_model_is_tested(halves: Split) -> None:
    model = from_elsewhere(EASE(), halves.train, halves.train)
    assert accuracy(model, halves.test).facts["memory"] == {"status": "not_requested"}
    assert "memory" not in accuracy(ALS(factors=4).fit(halves.train), halves.test).facts


def test_reasons_for_no_answer(halves: Split) -> None:
    train, test = halves
    shown = train.item_ids.head(10).to_list()
    system = from_system(train, lists=lambda history: shown, repeats=1)
    assert accuracy(system, test, refits=5).facts["memory"] == {"status": "not_retrainable"}
    model = from_elsewhere(EASE(), train, train)
    assert accuracy(model, test, refits=3).facts["memory"] == {"status": "too_few_refits", "needed": 4}
    assert accuracy(system.with_recommender(TopPop()), test, refits=4).facts["memory"] == {"status": "no_scores"}


def test_the_result_does_not_depend_on_the_engine(halves: Split) -> None:
    model = from_elsewhere(ALS(factors=4), halves.train, halves.train)
    serial = accuracy(model, halves.test, refits=4).facts["memory"]
    assert accuracy(model, halves.test, refits=4, engine=Threads(3)).facts["memory"] == serial
