"""Where a factor model goes on from when its log has grown."""

from __future__ import annotations

import numpy as np

from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.models.base import FittedModel
from recaudit.models.factor.model import FactorModel
from recaudit.models.given.own_model import own_model

Parameters = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""P (users, factors), Q (items, factors), f (users,), g (items,)."""


def fitted_factors(
    model: FittedModel, data: Interactions, mean: float, *, factors: int, init_std: float, draw: np.random.Generator
) -> Parameters:
    """The parameters of `model`, free to be changed, for a log of the same users and items that has grown.

    They predict what the model predicts, with `mean` for the model's own. Who had no ratings, and so no vector, gets a
    random one: of two vectors of zeros neither moves.
    """
    old = _own(model, data, factors)
    P, Q = old.user_factors.copy(), old.item_factors.copy()
    for vectors, counts in ((P, old.data.user_counts), (Q, old.data.item_counts)):
        drawn = init_std * draw.standard_normal(vectors.shape)
        vectors[counts == 0] = drawn[counts == 0]
    return P, Q, old.user_bias + (old.mean - mean), old.item_bias.copy()


def _own(model: FittedModel, data: Interactions, factors: int) -> FactorModel:
    def differs(own: FactorModel) -> str | None:
        width = own.item_factors.shape[1]
        return f"a model with {width} factors" if width != factors else None

    return own_model(model, FactorModel, data, differs, f"{factors} factors")
