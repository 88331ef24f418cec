"""A model that has seen what it is tested on is told apart from one that has not."""

from __future__ import annotations

import numpy as np
import pytest

from recaudit.audits.lists.accuracy import accuracy
from recaudit.data import Interactions, splits, synthetic
from recaudit.data.splits import Split
from recaudit.engines import Threads
from recaudit.models import ALS, EASE, TopPop, from_factors, from_system
from recaudit.models.base import Recommender
from recaudit.models.factor.model import FactorVectors


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic.demo_world(rng=3, users=300, items=150).data


@pytest.fixture(scope="module")
def halves(data: Interactions) -> Split:
    return splits.random(data, 0.2)


def exported(model: FactorVectors, train: Interactions) -> FactorVectors:
    """The vectors of a model, as somebody brings them along."""
    return from_factors(
        model.user_factors,
        model.item_factors,
        train,
        user_bias=model.user_bias,
        item_bias=model.item_bias,
        predicts_ratings=True,
        mean=model.mean,
    )


def test_vectors_that_were_trained_on_everything_are_caught(data: Interactions, halves: Split) -> None:
    leaked = exported(ALS(factors=16).fit(data), halves.train)
    with pytest.warns(UserWarning, match="ranks held-out items as it ranks the items that it was trained on"):
        memory = accuracy(leaked, halves.test, samples=2).facts["memory"]
    assert memory["verdict"] == "memory"
    assert memory["lower"] < 1 < memory["upper"] + 0.1
    honest = exported(ALS(factors=16).fit(halves.train), halves.train)
    assert accuracy(honest, halves.test, samples=2).facts["memory"]["verdict"] == "no sign of memory"


@pytest.mark.parametrize("recommender", [ALS(factors=2), EASE(), EASE(regularization=100.0), TopPop()])
def test_who_has_seen_the_training_part_alone_is_not_accused(halves: Split, recommender: Recommender) -> None:
    memory = accuracy(recommender.fit(halves.train).from_elsewhere(), halves.test, samples=2).facts["memory"]
    assert memory["verdict"] in ("no sign of memory", "unknown")
    assert (memory["verdict"] == "unknown") == (memory["trained"] < 0.05)


def test_a_model_that_is_the_same_for_everybody_says_nothing(data: Interactions, halves: Split) -> None:
    memory = accuracy(TopPop().fit(halves.train).from_elsewhere(), halves.test, samples=2).facts["memory"]
    assert memory["why"] == "training items rank hardly higher for their users than for others"


def test_lists_without_scores_and_few_users_say_nothing(halves: Split) -> None:
    train, test = halves
    few = test.subset(np.isin(test.users, np.arange(10)))
    memory = accuracy(ALS(factors=4).fit(train).from_elsewhere(), few, samples=2).facts["memory"]
    assert memory["verdict"] == "unknown"
    assert 0 < memory["users"] <= 10
    shown = train.item_ids.head(10).to_list()
    system = from_system(train, lists=lambda history: shown, repeats=1)
    memory = accuracy(system, few, samples=2).facts["memory"]
    assert memory["verdict"] == "unknown"
    assert memory["why"].startswith("0 users with scores")


def test_who_fits_here_is_not_asked(halves: Split) -> None:
    assert "memory" not in accuracy(ALS(factors=4).fit(halves.train), halves.test, samples=2).facts


def test_the_verdict_does_not_depend_on_the_engine(halves: Split) -> None:
    model = ALS(factors=4).fit(halves.train).from_elsewhere()
    one = accuracy(model, halves.test, samples=2).facts["memory"]
    assert accuracy(model, halves.test, samples=2, engine=Threads(3)).facts["memory"] == one
