"""What every recommender must do; a new recommender's test class inherits this."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from recaudit.arrays import IntArray
from recaudit.data import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.response import AffineResponse, Response
from recaudit.policies import top_items
from recaudit.ties import TieKeys

USERS, ITEMS = 30, 20
EVERYBODY = np.arange(USERS)


def some_ratings(seed: int) -> Interactions:
    """Two tastes, 30 users, 20 items, about half of the pairs rated; everybody and everything has a rating."""
    draw = np.random.default_rng(seed)
    users, items = np.divmod(np.arange(USERS * ITEMS), ITEMS)
    liked = np.where((users + items) % 2 == 0, 4.0, 2.0)
    ratings = np.clip(np.round(liked + draw.normal(0, 1, USERS * ITEMS)), 1, 5)
    rated = (draw.random(USERS * ITEMS) < 0.5) | (items == users % ITEMS)
    names = {"user": [f"u{user}" for user in users], "item": items, "rating": ratings}
    times = {"time": draw.permutation(USERS * ITEMS)}
    return Interactions.from_frame(pl.DataFrame(names | times).filter(pl.Series(rated)), scale=(1, 5), time="time")


class ModelContract:
    """Give it a recommender that fits 30 users and 20 items quickly."""

    recommender: Recommender

    rating_again_as_before_changes_nothing = False
    """Set to True for a model whose response to ratings that equal the old ones is the scores it has."""

    @pytest.fixture(scope="class")
    @classmethod
    def data(cls) -> Interactions:
        return some_ratings(0)

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, data: Interactions) -> FittedModel:
        return cls.recommender.fit(data, rng=3)

    def test_fitting_again_gives_the_same_numbers_and_something_else_leaves_no_trace(
        self, model: FittedModel, data: Interactions
    ) -> None:
        before = model.scores(EVERYBODY).copy()
        self.recommender.fit(some_ratings(1), rng=4)
        assert np.array_equal(model.scores(EVERYBODY), before)
        assert np.array_equal(self.recommender.fit(data, rng=3).scores(EVERYBODY), before)

    def test_the_configuration_is_frozen_and_fitting_does_not_touch_it(self, data: Interactions) -> None:
        before = self.recommender.model_dump()
        self.recommender.fit(data)
        assert self.recommender.model_dump() == before
        for name in type(self.recommender).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(self.recommender, name, before[name])

    def test_an_unknown_setting_is_refused(self) -> None:
        with pytest.raises(InputError, match="surprise: received a key that is not known"):
            type(self.recommender)(**{**self.recommender.model_dump(), "surprise": 1})

    def test_scores_are_finite_doubles_for_every_item(self, model: FittedModel) -> None:
        scores = model.scores(EVERYBODY)
        assert scores.shape == (USERS, ITEMS)
        assert scores.dtype == np.float64
        assert np.isfinite(scores).all()
        assert model.scores(EVERYBODY[:0]).shape == (0, ITEMS)

    @pytest.mark.parametrize(
        "block",
        [
            *([[user] for user in (0, 7, USERS - 1)]),
            [3, 4],
            list(range(17)),
            np.random.default_rng(5).permutation(USERS).tolist(),
            [7] * 40,
            [2, 9, 2],
        ],
        ids=lambda block: f"{len(block)} from {block[0]}",
    )
    def test_a_users_scores_do_not_depend_on_the_block(self, model: FittedModel, block: list[int]) -> None:
        together = model.scores(EVERYBODY)[block]
        apart = model.scores(np.array(block))
        size = float(np.abs(together).max())
        np.testing.assert_allclose(apart, together, rtol=0, atol=1e-12 * size)
        everything = np.ones_like(apart, dtype=bool)
        one, other = (top_items(scores, everything, ITEMS, TieKeys.in_order(ITEMS)) for scores in (apart, together))
        np.testing.assert_array_equal(one, other)

    def test_predictions_are_the_scores_of_the_pairs_in_any_order(self, model: FittedModel) -> None:
        users, items = np.divmod(np.random.default_rng(6).permutation(USERS * ITEMS)[:200], ITEMS)
        expected = model.scores(EVERYBODY)[users, items]
        if model.predicts_ratings:
            expected = np.clip(expected, 1, 5)
        np.testing.assert_allclose(model.predict(users, items), expected, rtol=1e-12)
        np.testing.assert_allclose(model.predict(users[::-1], items[::-1]), expected[::-1], rtol=1e-12)

    def test_users_and_items_without_ratings_get_finite_scores(self, data: Interactions) -> None:
        thinned = data.subset(~np.isin(data.users, [0, 11]) & ~np.isin(data.items, [5, ITEMS - 1]))
        model = self.recommender.fit(thinned)
        assert np.isfinite(model.scores(EVERYBODY)).all()
        assert np.isfinite(model.predict(np.array([0, 11, 1]), np.array([5, 0, 5]))).all()

    def test_a_single_rating_is_enough(self, data: Interactions) -> None:
        model = self.recommender.fit(data.subset(np.arange(len(data)) == 8))
        assert np.isfinite(model.scores(EVERYBODY)).all()

    def test_a_log_without_ratings_is_refused(self, data: Interactions) -> None:
        with pytest.raises(InputError, match="data: received a log without ratings"):
            self.recommender.fit(data.subset(np.zeros(len(data), dtype=bool)))

    def test_a_fitted_model_survives_pickling(self, model: FittedModel) -> None:
        copy = pickle.loads(pickle.dumps(model))
        assert np.array_equal(copy.scores(EVERYBODY), model.scores(EVERYBODY))

    def test_the_order_of_the_rows_does_not_matter(self, model: FittedModel, data: Interactions) -> None:
        shuffled = data.frame().sample(fraction=1.0, shuffle=True, seed=9)
        again = self.recommender.fit(Interactions.from_frame(shuffled, scale=(1, 5), time="time"), rng=3)
        assert np.array_equal(again.scores(EVERYBODY), model.scores(EVERYBODY))

    @pytest.mark.parametrize(("viewer", "editor"), [(4, 4), (4, 9)])
    def test_it_responds_or_says_who_does(self, model: FittedModel, viewer: int, editor: int) -> None:
        items = np.array([19, 0, 6])
        response = self.response(model, viewer, editor, items)
        assert (response is None) == (model.response is None or (viewer != editor and model.others_move == "unknown"))
        edits_items = type(model).edited_items is not FittedModel.edited_items
        assert (model.others_move == "rated items") == edits_items
        if response is None:
            with pytest.raises(NotSupportedError, match="from_factors"):
                model.respond(viewer, editor, items)
            return
        assert response.items.tolist() == items.tolist()
        assert type(response) is model.response
        parts = [response.scores(np.array([1.0, 5.0, 2.5]))]
        if isinstance(response, AffineResponse):
            assert response.slope.shape == (ITEMS, 3)
            parts += [response.slope, response.intercept]
        assert parts[0].shape == (ITEMS,)
        for part in parts:
            assert part.dtype == np.float64
            assert np.isfinite(part).all()

    @pytest.mark.parametrize("items", [[2, 2], [-1], [ITEMS]])
    def test_actions_on_items_that_cannot_be_are_refused(self, model: FittedModel, items: list[int]) -> None:
        if self.response(model, 4, 4, np.array([0])) is not None:
            with pytest.raises(InputError, match="items"):
                model.respond(4, 4, np.array(items))

    def test_rating_again_as_before(self, model: FittedModel) -> None:
        if not self.rating_again_as_before_changes_nothing:
            return
        for user in range(0, USERS, 7):
            seen, ratings = model.data.history(user)
            response = model.respond(user, user, seen[1:4].astype(np.int64))
            np.testing.assert_allclose(response.scores(ratings[1:4]), model.scores(np.array([user]))[0], atol=1e-10)

    @staticmethod
    def response(model: FittedModel, viewer: int, editor: int, items: IntArray) -> Response | None:
        """The response, or None where the model has none."""
        try:
            return model.respond(viewer, editor, items)
        except NotSupportedError:
            return None
