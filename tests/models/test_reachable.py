"""Proposition 3 of paper 000: every prediction is as before, and all items have one norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import recaudit as ra
from recaudit.data.splits import Split
from recaudit.errors import InputError
from recaudit.models import ALS, EASE, reachable_factors


def test_every_prediction_stays(split: Split) -> None:
    model = ALS(factors=3, iterations=3).fit(split.train)
    after = reachable_factors(model)
    users = np.arange(model.data.n_users)
    np.testing.assert_allclose(after.scores(users), model.scores(users), rtol=0, atol=1e-12)
    assert after.update == model.update
    assert after.data is model.data
    before, now = (ra.accuracy(m, split.test).frame for m in (model, after))
    assert now["value"].to_list() == pytest.approx(before["value"].to_list(), abs=1e-12)


def test_all_items_have_the_same_norm_and_a_second_time_changes_nothing(split: Split) -> None:
    model = ALS(factors=3, iterations=3).fit(split.train)
    after = reachable_factors(model)
    norms = np.linalg.norm(after.item_factors, axis=1)
    np.testing.assert_allclose(norms, np.linalg.norm(model.item_factors, axis=1).max(), rtol=1e-14)
    assert after.item_factors.shape[1] == 4
    assert reachable_factors(after) is after


def test_another_users_edits_do_what_they_did(split: Split) -> None:
    model = ALS(factors=3, iterations=3).fit(split.train)
    old, new = (m.respond(3, 8, np.array([1, 4])) for m in (model, reachable_factors(model)))
    np.testing.assert_allclose(new.slope, old.slope, atol=1e-12)
    np.testing.assert_allclose(new.intercept, old.intercept, atol=1e-12)


def test_other_models_are_refused(split: Split) -> None:
    model: Any = EASE().fit(split.train)
    with pytest.raises(InputError, match=r"model: received LinearModel; expected a factor model.*from_factors"):
        reachable_factors(model)
