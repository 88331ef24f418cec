"""Proposition 3 of paper 000: every prediction as before, every item within reach."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recaudit.data import Interactions
from recaudit.interventions import GivenItems, Interval
from recaudit.models import AlsSolve, FactorVectors, SgdStep, from_factors, reachable_factors
from recaudit_papers.geometry import best_beta, geometry, rich_actions

ITEMS = 30
WIDE = Interval(-1e5, 1e5)
"""As good as no bounds: the proposition's ratings are any real numbers."""


def random_model(update: SgdStep | AlsSolve, *, biased: bool) -> FactorVectors:
    """Two factors, 30 items, one user who has rated the last two."""
    draw = np.random.default_rng(4)
    frame = pl.DataFrame({"user": ["u"] * ITEMS, "item": list(range(ITEMS)), "rating": [3.0] * ITEMS})
    data = Interactions.from_frame(frame, scale=(1, 5)).subset(np.arange(ITEMS) >= ITEMS - 2)
    bias = draw.standard_normal(ITEMS) if biased else np.zeros(ITEMS)
    P, Q = draw.standard_normal((1, 2)), draw.standard_normal((ITEMS, 2))
    return from_factors(P, Q, data, item_bias=bias, mean=3.0, update=update, predicts_ratings=True)


def margins(model: FactorVectors, ids: tuple[int, ...]) -> np.ndarray:
    """By how much the user can put each item ahead of all others."""
    return geometry(model, users=["u"], actions=GivenItems(ids, WIDE)).frame["margin"].to_numpy()


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("update", [SgdStep(), AlsSolve(regularization=0.5)])
def test_every_item_comes_within_reach_of_a_user_with_rich_actions(update: SgdStep | AlsSolve, biased: bool) -> None:
    before = random_model(update, biased=biased)
    after = reachable_factors(before)
    rich, poor = (0, 1, 2), (0, 1)
    assert (margins(before, rich) < 1e-6).any()
    assert (margins(after, rich) > 1e-3).all()
    # Two ratings move the user in a plane only: rich is d + 1 = 3.
    assert (margins(after, poor) < 1e-6).any()
    for model in (before, after):
        assert [rich_actions(model, np.array(items, dtype=int)) for items in (rich, poor, ())] == [True, False, False]


def test_a_tie_of_everything_is_no_reach() -> None:
    """Without biases a user who can bring their vector to 0 levels all items, and "reaches" each: Proposition 1
    would have rho* tend to 1. The margin tells such ties from items that can be put ahead, and so does best_beta."""
    model = random_model(SgdStep(), biased=False)
    actions = GivenItems((0, 1, 2), WIDE)
    frame = geometry(model, users=["u"], actions=actions).frame
    assert frame["top1_reachable"].all()
    level = frame.filter(pl.col("margin") < 1e-6)
    assert len(level) > 10
    assert not level["hull_vertex"].any()
    assert best_beta(model, user="u", item=level["item"][0], actions=actions)["upper"][0] <= 0.5
    assert best_beta(reachable_factors(model), user="u", item=level["item"][0], actions=actions)["value"][0] == 1


def test_a_rating_scale_takes_it_back() -> None:
    """Erratum 14: inside the scale of the log a vertex need not be reachable."""
    after = reachable_factors(random_model(SgdStep(), biased=True))
    frame = geometry(after, users=["u"], actions=GivenItems((0, 1, 2))).frame
    assert frame["hull_vertex"].all()
    assert not frame["top1_reachable"].all()


def test_of_items_with_equal_vectors_only_the_first_by_tie_key_is_ever_on_top() -> None:
    model = random_model(SgdStep(), biased=False)
    twins = model.item_factors.copy()
    twins[5] = twins[6]
    after = reachable_factors(
        from_factors(model.user_factors, twins, model.data, update=SgdStep(), predicts_ratings=False)
    )
    frame = geometry(after, users=["u"], actions=GivenItems((0, 1, 2), WIDE), targets=[5, 6, 7]).frame
    keys = after.data.tie_keys(after.data.users_at(["u"])).of_row()
    assert frame["top1_reachable"].to_list() == [keys[5] < keys[6], keys[6] < keys[5], True]
    assert frame["hull_vertex"].to_list() == [False, False, True]
    assert frame["margin"].to_list()[:2] == pytest.approx([0, 0], abs=1e-6)


def test_richness_asks_no_more_than_the_items_span() -> None:
    """All items on a line and of equal norm but for the sign: one action spans what there is."""
    model = random_model(SgdStep(), biased=False)
    line = np.outer(np.where(np.arange(ITEMS) % 2, 1.0, -1.0), [3.0, 4.0])
    assert rich_actions(from_factors(model.user_factors, line, model.data, predicts_ratings=False), np.array([9]))
