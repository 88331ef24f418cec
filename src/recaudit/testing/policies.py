"""What every policy must do; a new policy's test class inherits this."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from pydantic import ValidationError

from recaudit.arrays import BoolArray, FloatArray
from recaudit.errors import InputError
from recaudit.policies import Policy
from recaudit.ties import TieKeys

ROWS, ITEMS = 6, 9
TIES = TieKeys.in_order(ITEMS)


class PolicyContract:
    """Give it a policy."""

    policy: Policy

    @pytest.fixture
    def scores(self) -> FloatArray:
        return np.random.default_rng(0).uniform(0.5, 5, (ROWS, ITEMS))

    @pytest.fixture
    def allowed(self) -> BoolArray:
        mask = np.random.default_rng(1).random((ROWS, ITEMS)) < 0.7
        mask[0] = False
        mask[1] = False
        mask[1, 4] = True
        return mask

    def test_probabilities_sum_to_one_over_the_allowed(self, scores: FloatArray, allowed: BoolArray) -> None:
        logs = self.policy.log_probabilities(scores, allowed, TIES)
        assert (logs[~allowed] == -np.inf).all()  # so in the first row, where nothing is allowed, everywhere
        assert logs[1, 4] == pytest.approx(0)  # the only allowed item of its row
        np.testing.assert_allclose(np.exp(logs[1:]).sum(axis=1), 1.0)

    def test_a_better_item_is_never_less_likely(self, scores: FloatArray, allowed: BoolArray) -> None:
        logs = self.policy.log_probabilities(scores, allowed, TIES)
        for row in range(1, ROWS):
            inside = allowed[row]
            order = np.argsort(scores[row][inside])
            likely = logs[row][inside][order]
            assert (likely[1:] >= likely[:-1]).all()

    @pytest.mark.parametrize("size", [1e-300, 1e-6, 1e6, 1e300])
    def test_scores_of_any_size_are_safe(self, allowed: BoolArray, size: float) -> None:
        scores = size * np.random.default_rng(2).uniform(-1, 1, (ROWS, ITEMS))
        probabilities = np.exp(self.policy.log_probabilities(scores, allowed, TIES))
        assert not np.isnan(probabilities).any()
        np.testing.assert_allclose(probabilities[1:].sum(axis=1), 1.0)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
    def test_broken_scores_are_refused_where_they_count(self, scores: FloatArray, value: float) -> None:
        allowed = np.ones_like(scores, dtype=bool)
        scores[2, 3] = value
        with pytest.raises(InputError, match="scores"):
            self.policy.log_probabilities(scores, allowed, TIES)
        allowed[2, 3] = False
        assert self.policy.log_probabilities(scores, allowed, TIES)[2, 3] == -np.inf

    def test_draws_do_not_depend_on_the_block(self, scores: FloatArray, allowed: BoolArray) -> None:
        users, items = np.arange(10, 10 + ROWS).astype(np.uint64), np.arange(ITEMS).astype(np.uint64)
        ties = TieKeys(users, items)
        together = self.policy.sample(scores, allowed, 3, 7, users, items, ties)
        for row in range(ROWS):
            one = slice(row, row + 1)
            alone = self.policy.sample(scores[one], allowed[one], 3, 7, users[one], items, ties.rows(one))
            np.testing.assert_array_equal(together[one], alone)

    def test_a_list_has_each_allowed_item_at_most_once(self, scores: FloatArray, allowed: BoolArray) -> None:
        users, items = np.arange(ROWS).astype(np.uint64), np.arange(ITEMS).astype(np.uint64)
        lists = self.policy.sample(scores, allowed, ITEMS, 0, users, items, TIES)
        for row in range(ROWS):
            listed = lists[row][lists[row] >= 0]
            assert sorted(listed) == np.flatnonzero(allowed[row]).tolist()

    def test_the_first_draw_follows_the_probabilities(self, scores: FloatArray) -> None:
        n = 20_000
        row = np.broadcast_to(scores[3], (n, ITEMS))
        allowed = np.ones_like(row, dtype=bool)
        users, items = np.arange(n).astype(np.uint64), np.arange(ITEMS).astype(np.uint64)
        drawn = self.policy.sample(row, allowed, 1, 11, users, items, TIES)[:, 0]
        shares = np.bincount(drawn, minlength=ITEMS) / n
        expected = np.exp(self.policy.log_probabilities(row[:1], allowed[:1], TIES))[0]
        np.testing.assert_allclose(shares, expected, atol=4 * np.sqrt(0.25 / n))

    def test_every_place_follows_the_probabilities_among_what_is_left(self) -> None:
        n, scores = 20_000, np.array([[3.0, -1.0, 2.0, -2.0]])
        users, items = np.arange(n).astype(np.uint64), np.arange(4).astype(np.uint64)
        rows = np.broadcast_to(scores, (n, 4))
        ties = TieKeys.in_order(4)
        drawn = self.policy.sample(rows, np.ones_like(rows, dtype=bool), 3, 13, users, items, ties)
        for slate in permutations(range(4), 3):
            left, expected = np.ones((1, 4), dtype=bool), 1.0
            for item in slate:
                expected *= np.exp(self.policy.log_probabilities(scores, left, ties)[0, item])
                left[0, item] = False
            assert (drawn == slate).all(axis=1).mean() == pytest.approx(expected, abs=4 * np.sqrt(0.25 / n))

    def test_it_is_frozen_and_refuses_unknown_settings(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            self.policy.anything = 1  # type: ignore[attr-defined]
        with pytest.raises(InputError, match="surprise: received a key that is not known"):
            type(self.policy)(**{**self.policy.model_dump(), "surprise": 1})
