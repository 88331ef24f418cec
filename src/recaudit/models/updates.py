"""What a factor model does with a new rating: one gradient step, or an exact re-solve.

Both hold everything but one vector fixed, biases included (paper 000, Examples 3 and 4). A user's own edits move
the user's vector; another user's edits move the vectors of the items that were edited.
"""

from __future__ import annotations

from typing import Annotated, Literal, final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from recaudit.models.arrays import FloatArray


class _Update(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


@final
class SgdStep(_Update):
    """One full-batch gradient step on the acted-on ratings alone.

    `v+ = (1 - step * regularization) v + step * X_A^T (a - offset_A - X_A v)`: rows of X_A are the fixed vectors
    on the other side. An edited rating of the history adds a step and does not undo the step once taken for
    the old rating. The paper's audit uses step 0.1 without regularisation.
    """

    rule: Literal["sgd-step"] = "sgd-step"
    step: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    """The step size alpha."""
    regularization: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """The weight of the squared norm in the objective whose gradient is taken."""

    def affine(
        self,
        vector: FloatArray,
        acted: FloatArray,
        acted_offset: FloatArray,
        kept: FloatArray,
        kept_target: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """The new vector as `M @ a + m`, given as (M, m); see `Update`."""
        matrix = self.step * acted.T
        constant = (1 - self.step * self.regularization) * vector - matrix @ (acted_offset + acted @ vector)
        return matrix, constant


@final
class AlsSolve(_Update):
    """The vector that minimises the regularised squared error over all its ratings, old and acted on.

    `v+ = (X^T X + penalty I)^-1 X^T (r - offset)` with X over the union of kept and acted-on ratings; an edited
    rating of the history replaces the old one.
    """

    rule: Literal["als"] = "als"
    regularization: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """The weight of the squared norm."""
    per_rating: bool = False
    """Whether the penalty counts once for each rating of the union, or once."""

    def affine(
        self,
        vector: FloatArray,
        acted: FloatArray,
        acted_offset: FloatArray,
        kept: FloatArray,
        kept_target: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """The new vector as `M @ a + m`, given as (M, m); see `Update`."""
        penalty = self.regularization * (max(1, len(kept) + len(acted)) if self.per_rating else 1)
        gram = kept.T @ kept + acted.T @ acted + penalty * np.eye(len(vector))
        right = np.column_stack([acted.T, kept.T @ kept_target - acted.T @ acted_offset])
        solved: FloatArray = np.linalg.solve(gram, right).astype(np.float64)
        return solved[:, :-1], solved[:, -1]


Update = Annotated[SgdStep | AlsSolve, Field(discriminator="rule")]
"""`affine(vector, acted, acted_offset, kept, kept_target)`:

`vector` (factors,) is where it stands; `acted` (actions, factors) and `acted_offset` (actions,) are the fixed
vectors and the biases of the ratings that are free; `kept` (rows, factors) and `kept_target` (rows,) the vectors
of the other ratings and those ratings minus their biases.
"""
