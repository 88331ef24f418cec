from __future__ import annotations

import numpy as np
import pytest

from recaudit.data.splits import Split
from recaudit.errors import InputError, NotSupportedError
from recaudit.models import ALS, AlsSolve, BiasedMF, FactorVectors, ItemKNN, SgdStep

UPDATES = [
    AlsSolve(regularization=0.3),
    AlsSolve(regularization=0.05, per_rating=True),
    SgdStep(step=0.1),
    SgdStep(step=0.5, regularization=0.02),
]
RATINGS = np.array([1.0, 2.5, 5.0])


@pytest.fixture(scope="module")
def fitted(split: Split) -> FactorVectors:
    return ALS(factors=5, iterations=4, regularization=0.1).fit(split.train)


def edits(model: FactorVectors, editors: np.ndarray, known: int, new: int) -> np.ndarray:
    """(editors, known + new): items that each editor has rated, and items that they have not."""
    rows = []
    for editor in editors:
        rated = model.data.history(int(editor))[0]
        unrated = np.setdiff1d(np.arange(model.data.n_items), rated)
        rows.append(np.concatenate([rated[:known], unrated[:new]]))
    return np.array(rows, dtype=np.int64)


@pytest.mark.parametrize("update", UPDATES, ids=repr)
def test_the_scores_are_those_of_one_response_after_another(fitted: FactorVectors, update: AlsSolve | SgdStep) -> None:
    model = fitted.with_update(update)
    editors, viewers = np.array([3, 40, 77, 5]), np.array([0, 9, 118])
    items = edits(model, editors, 2, 2)
    block = model.edited_items(editors, items, np.broadcast_to(RATINGS, (4, 4, 3)))
    scores = block.scores(viewers)
    for v, viewer in enumerate(viewers):
        for e, editor in enumerate(editors):
            response = model.respond(int(viewer), int(editor), items[e])
            assert model.others_move == "rated items"
            for g, rating in enumerate(RATINGS):
                expected = response.scores(np.full(4, rating))[items[e]]
                np.testing.assert_allclose(scores[v, e, :, g], expected, rtol=0, atol=1e-9)


def test_an_item_that_nobody_has_rated_follows_its_first_rater(split: Split) -> None:
    # Item 0 loses all its ratings: its only rating is the edit, q = p (o - biases) / (p.p + penalty).
    data = split.train.subset(split.train.items != 0)
    model = ALS(factors=3, iterations=2).fit(data).with_update(AlsSolve(regularization=0.7))
    block = model.edited_items(np.array([4]), np.array([[0]]), np.array([[[4.0]]]))
    p = model.user_factors[4]
    expected = p * (4 - model.mean - model.user_bias[4] - model.item_bias[0]) / (p @ p + 0.7)
    np.testing.assert_allclose(block.vectors[0, 0, 0], expected, atol=1e-12)


def test_an_unfilled_place_changes_no_other(fitted: FactorVectors) -> None:
    editors = np.array([3, 40])
    full = edits(fitted, editors, 1, 1)
    short = np.column_stack([np.full(2, -1), full])
    ratings = np.broadcast_to(RATINGS, (2, 3, 3))
    viewers = np.array([7])
    with_filler = fitted.edited_items(editors, short, ratings).scores(viewers)
    without = fitted.edited_items(editors, full, ratings[:, 1:]).scores(viewers)
    np.testing.assert_allclose(with_filler[:, :, 1:], without, rtol=1e-12)


def test_shapes_that_do_not_fit_are_an_error(fitted: FactorVectors) -> None:
    with pytest.raises(InputError, match=r"items, ratings.*\(editors, actions\)"):
        fitted.edited_items(np.array([1, 2]), np.array([[0]]), np.ones((1, 1, 2)))


def test_models_that_do_not_know_say_so(split: Split) -> None:
    model = ItemKNN().fit(split.train)
    with pytest.raises(NotSupportedError, match=r"ItemKNN|Neighbour"):
        model.edited_items(np.array([0]), np.array([[1]]), np.ones((1, 1, 2)))


def test_sgd_models_answer_too(split: Split) -> None:
    model = BiasedMF(factors=3, epochs=3).fit(split.train)
    block = model.edited_items(np.array([2]), np.array([[5]]), np.array([[[1.0, 5.0]]]))
    low, high = block.scores(np.array([9]))[0, 0, 0].tolist()
    response = model.respond(9, 2, np.array([5]))
    assert [low, high] == pytest.approx([float(response.scores(np.array([x]))[5]) for x in (1.0, 5.0)])
