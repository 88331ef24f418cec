"""The weighted solve that confidence in ratings leads to, against the same system written out and solved in full."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest
import torch

from recaudit.arrays import FloatArray
from recaudit.data import Interactions
from recaudit.errors import InputError
from recaudit.models import reachable_factors
from recaudit.models.factor.confidence import Confidence, ConfidenceModel, EvenModel, Solves
from recaudit.testing.models import EVERYBODY, ITEMS, USERS, some_ratings

STARS = some_ratings(0)
DISLIKES = Interactions.from_frame(STARS.frame().with_columns(pl.col("rating") - 3), scale=(-2, 2), time="time")
CLICKS = Interactions.from_frame(STARS.frame().filter(pl.col("rating") >= 3).select("user", "item"), rating=None)
THREES = Interactions.from_frame(CLICKS.frame().with_columns(rating=3.0))
LOGS = pytest.mark.parametrize(
    ("data", "alpha"),
    [(STARS, 2.0), (DISLIKES, 2.0), (CLICKS, 5.0), (THREES, 5.0), (CLICKS, 1.0)],
    ids=["stars", "dislikes", "clicks", "clicks of 3", "clicks of weight 1"],
)
ACTED, PENALTY = np.array([19, 0, 6, 7]), 0.3


def made(data: Interactions, alpha: float, jumps: bool = False) -> ConfidenceModel:
    draw = np.random.default_rng(4)
    P, Q = draw.normal(0, 0.5, (USERS, 3)), draw.normal(0, 0.5, (ITEMS, 3))
    confidence = Confidence.of(alpha, data)
    by_user = Solves(Q, Q.T @ Q, PENALTY, confidence)
    by_item = Solves(P, P.T @ P, PENALTY, confidence)
    biases = np.zeros(USERS), np.zeros(ITEMS), 0.0
    kind = EvenModel if confidence.even else ConfidenceModel
    return kind(data, by_user.vectors(data), Q, *biases, by_user, by_item, "solved", jumps, predicts_ratings=False)


def solved(Y: FloatArray, ratings: FloatArray, alpha: float) -> FloatArray:
    """The vector that minimises the weighted squared error over all pairs, by rows; NaN is no rating."""
    confidence = alpha * np.nan_to_num(ratings)
    weight = np.where(np.isnan(ratings), 1.0, np.abs(confidence))
    target = (confidence > 0).astype(float)
    rows = np.vstack([np.sqrt(weight)[:, None] * Y, np.sqrt(PENALTY) * np.eye(Y.shape[1])])
    found: FloatArray = np.linalg.lstsq(rows, np.append(np.sqrt(weight) * target, np.zeros(Y.shape[1])))[0]
    return found


def table(data: Interactions) -> FloatArray:
    """(users, items): NaN where there is no rating."""
    ratings = np.full((USERS, ITEMS), np.nan)
    ratings[data.users, data.items] = data.ratings
    return ratings


def some_edits(data: Interactions) -> FloatArray:
    low, high = data.scale
    if low == high:
        return high * np.array([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    return low + (high - low) * np.array([[0.0, 1.0, 0.3, 0.9], [1.0, 1.0, 1.0, 1.0], [0.1, 0.6, 0.0, 0.4]])


def given(data: Interactions, edit: FloatArray) -> FloatArray:
    """The edit as ratings; in a log of clicks a 0 is none."""
    return np.where(edit == 0, np.nan, edit) if data.scale[0] == data.scale[1] else edit


@LOGS
def test_own_edits_solve_the_users_system_anew(data: Interactions, alpha: float) -> None:
    model = made(data, alpha)
    for user in (4, 11):
        response = model.respond(user, user, ACTED)
        for edit in some_edits(data):
            history = table(data)[user]
            history[ACTED] = given(data, edit)
            expected = model.item_factors @ solved(model.item_factors, history, alpha)
            np.testing.assert_allclose(response.scores(edit), expected, atol=1e-10)


@LOGS
@pytest.mark.parametrize("jumps", [False, True])
def test_others_edits_solve_the_items_systems_anew(data: Interactions, alpha: float, jumps: bool) -> None:
    model, viewer, editor = made(data, alpha, jumps), 9, 4
    P, Q = model.by_item.others, model.item_factors
    response = model.respond(viewer, editor, ACTED)
    for edit in some_edits(data):
        ratings = table(data)
        unedited = np.array([solved(P, ratings[:, item], alpha) for item in ACTED])
        ratings[editor, ACTED] = given(data, edit)
        after = np.array([solved(P, ratings[:, item], alpha) for item in ACTED])
        expected = model.scores(EVERYBODY)[viewer]
        expected[ACTED] = (after if jumps else Q[ACTED] + after - unedited) @ model.user_factors[viewer]
        np.testing.assert_allclose(response.scores(edit), expected, atol=1e-10)


@LOGS
def test_edited_items_are_those_of_the_response(data: Interactions, alpha: float) -> None:
    model = made(data, alpha)
    editors, viewers = np.array([4, 7]), np.array([9, 2])
    items = np.stack([ACTED, np.array([3, -1, 19, -1])])
    edits = some_edits(data)
    ratings = np.broadcast_to(edits.T, (2, *edits.T.shape)).copy()
    scores = model.edited_items(editors, items, ratings).scores(viewers)
    for row, viewer in enumerate(viewers.tolist()):
        for column, editor in enumerate(editors.tolist()):
            acted = items[column] >= 0
            response = model.respond(viewer, editor, items[column, acted])
            for edit in range(len(edits)):
                expected = response.scores(ratings[column, acted, edit])[items[column, acted]]
                np.testing.assert_allclose(scores[row, column, acted, edit], expected, atol=1e-12)


@LOGS
def test_ratings_as_before_move_nothing(data: Interactions, alpha: float) -> None:
    model = made(data, alpha)
    for user in range(0, USERS, 7):
        seen, ratings = data.history(user)
        scores = model.scores(np.array([user]))[0]
        np.testing.assert_allclose(
            model.respond(user, user, seen[:3].astype(np.int64)).scores(ratings[:3]), scores, rtol=0, atol=1e-12
        )
        np.testing.assert_allclose(
            model.respond(user + 1, user, seen[:3].astype(np.int64)).scores(ratings[:3]),
            model.scores(np.array([user + 1]))[0],
            rtol=0,
            atol=1e-12,
        )


def test_gradients_are_those_of_the_scores() -> None:
    model = made(STARS, 2.0)
    for viewer in (4, 9):
        response = model.respond(viewer, 4, ACTED)
        points = torch.tensor(some_edits(STARS), requires_grad=True)
        assert torch.autograd.gradcheck(response.batch_scores, points)  # type: ignore[attr-defined]
        together = response.batch_scores(points).detach()  # type: ignore[attr-defined]
        for point, scores in zip(some_edits(STARS), together, strict=True):
            np.testing.assert_allclose(response.scores(point), scores, rtol=1e-7, atol=1e-12)


def test_a_click_that_weighs_as_much_as_none_has_an_affine_response() -> None:
    even = made(CLICKS, 1.0)
    general = ConfidenceModel(**vars(even))
    for viewer in (4, 9):
        responses = [model.respond(viewer, 4, ACTED) for model in (even, general)]
        assert [type(response) for response in responses] == [even.response, general.response]
        for edit in (*some_edits(CLICKS), np.array([0.2, 0.9, 0.5, 0.0])):
            one, other = (response.scores(edit) for response in responses)
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    assert [Confidence.of(alpha, data).even for data, alpha in ((STARS, 1.0), (CLICKS, 2.0), (THREES, 1 / 3))] == [
        False,
        False,
        True,
    ]


def test_it_survives_pickling_and_refuses_items_that_cannot_be() -> None:
    model = made(STARS, 2.0)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.respond(9, 4, ACTED).scores(np.ones(4)), model.respond(9, 4, ACTED).scores(np.ones(4)))
    assert model.rule == "solved"
    for viewer in (4, 9):
        with pytest.raises(InputError, match="items"):
            model.respond(viewer, 4, np.array([ITEMS]))
    with pytest.raises(InputError, match="item_factors: received 4 factors; expected 3, as in the solves"):
        reachable_factors(model)
