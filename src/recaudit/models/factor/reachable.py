"""Factors that leave every prediction as it is and every item reachable (paper 000, section 4.2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from recaudit.arrays import FloatArray, IntArray
from recaudit.errors import InputError
from recaudit.models.factor.model import FactorModel


def reachable_factors(model: FactorModel) -> FactorModel:
    """The same predictions, from item vectors that all have the same norm (paper 000, Proposition 3).

    With C the largest norm of an item vector: `Q~ = [Q v]`, `v_i = sqrt(C^2 - |q_i|^2)`, and `P~ = [P 0]`. Every
    item lies on a sphere, hence is a vertex of the hull of all items, and no accuracy is lost. A user whose action
    items are rich (`rich_actions`) and whose ratings are not limited can then make any item the top one, whatever
    the biases. Two things it does not promise: inside a rating scale a vertex may still be out of reach, and items
    with equal vectors, such as items that nobody has rated, can only tie.

    The update rule stays; a model whose item vectors have equal norms already comes back unchanged.
    """
    if not isinstance(model, FactorModel):
        raise InputError(
            "model",
            received=type(model).__name__,
            expected="a FactorModel",
            remedy="Fit BiasedMF or ALS, or bring your own factors with models.from_factors.",
        )
    missing = _missing_norms(model.item_factors)
    if not missing.any():
        return model
    return replace(
        model,
        user_factors=np.column_stack([model.user_factors, np.zeros(len(model.user_factors))]),
        item_factors=np.column_stack([model.item_factors, missing]),
    )


def rich_actions(model: FactorModel, items: IntArray) -> bool:
    """Whether rating `items` (actions,), positions, can move the user in every direction in which items differ.

    `rank [q_i, v_i] over the acted-on items = rank over all items`, v as in `reachable_factors`. The right side is
    the d + 1 of Definition 3 unless the items span less, where less is enough for Proposition 3 to hold.
    """
    extended = np.column_stack([model.item_factors, _missing_norms(model.item_factors)])
    return len(items) > 0 and bool(np.linalg.matrix_rank(extended[items]) == np.linalg.matrix_rank(extended))


def _missing_norms(item_factors: FloatArray) -> FloatArray:
    """(items,): v with |[q_i, v_i]| the same for every item, the largest norm."""
    squares = (item_factors**2).sum(axis=1)
    missing = squares.max() - squares
    # A square root would turn what rounding leaves of equal norms, 1e-16, into a direction of its own, 1e-8.
    rounding = 4 * item_factors.shape[1] * np.finfo(np.float64).eps * squares.max()
    return np.sqrt(np.where(missing > rounding, missing, 0.0))
