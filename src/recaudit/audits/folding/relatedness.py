"""What folding compares: a model's user and item vectors, and the relatedness r_ij in [0, 1] (paper 002, 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import svds

from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.categories import Categories
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, NotSupportedError, did_you_mean
from recaudit.models.base import FittedModel
from recaudit.models.checks import checked_array
from recaudit.models.factor.wals import WALS
from recaudit.seeding import generator

RANK = 30
"""The paper's l: 15, 30 and 35 lead to the same conclusions on MovieLens."""
MIN_RATINGS = 5
"""Items with fewer ratings are no evidence: hardly anything holds their vectors in place."""


@runtime_checkable
class HasVectors(Protocol):
    """A fitted model with a vector for every user and every item, whose products make its scores."""

    @property
    def user_factors(self) -> FloatArray:
        """(users, factors)"""

    @property
    def item_factors(self) -> FloatArray:
        """(items, factors)"""


def vectors_of(model: FittedModel) -> tuple[FloatArray, FloatArray]:
    """The user vectors (users, factors) and item vectors (items, factors) of a model; biases have no part in them."""
    if not isinstance(model, HasVectors):
        raise NotSupportedError(
            f"{model.called}: it has no user and item vectors, so that nothing can fold. Models that have "
            "them: BiasedMF, ALS, WALS, what models.from_factors returns, and any other with user_factors and "
            "item_factors."
        )
    U = checked_array("model.user_factors", model.user_factors, (model.data.n_users, "factors"))
    return U, checked_array("model.item_factors", model.item_factors, (model.data.n_items, U.shape[1]))


def unit_rows(vectors: FloatArray) -> FloatArray:
    """(rows, d): each row divided by its length; a row of zeros, which points nowhere, stays zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1.0))


@final
@dataclass(frozen=True, eq=False, repr=False)
class Relatedness:
    """How related every user and item are, how likely to meet at all: 0 strangers, 1 as close as can be.

    `from_log`, `from_categories`, `from_factors` (vectors of your own), `from_blocks` (known groups) and `given`
    make one.
    """

    user_vectors: FloatArray
    """(users, d): users with the same relations have the same vector; what users are clustered by."""
    item_vectors: FloatArray
    """(items, d'): items with the same relations have the same vector; what items are compared and clustered by."""
    label: str
    """What it was made from, in words."""
    matrix: FloatArray | None = None
    """(users, items): the relatedness where it was given as a whole; else it is `min(1, max(0, x_i . y_j))`."""

    @property
    def shape(self) -> tuple[int, int]:
        """(users, items)"""
        return len(self.user_vectors), len(self.item_vectors)

    def pairs(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the relatedness of each pair of `users` (n,) and `items` (n,), positions."""
        if self.matrix is not None:
            return np.asarray(self.matrix[users, items])
        products: FloatArray = np.einsum("nd,nd->n", self.user_vectors[users], self.item_vectors[items])
        return np.clip(products, 0.0, 1.0)

    def __repr__(self) -> str:
        users, items = self.shape
        return f"Relatedness({self.label}; {users:,} users x {items:,} items)"

    @staticmethod
    def from_factors(user_vectors: ArrayLike, item_vectors: ArrayLike, *, label: str = "given vectors") -> Relatedness:
        """`max(0, cosine(x_i, y_j))` of vectors in one space (paper 002, Equation 3); zeros are related to nothing."""
        X = checked_array("user_vectors", user_vectors, ("users", "d"))
        Y = checked_array("item_vectors", item_vectors, ("items", X.shape[1]))
        return Relatedness(unit_rows(X), unit_rows(Y), label)

    @staticmethod
    @checked
    def from_log(
        data: Interactions, rank: int | None = None, *, method: Literal["svd", "wals"] = "svd", rng: int = 0
    ) -> Relatedness:
        """From who rated what, ratings left out: the cosine of a rank-l factorisation X Y^T of the indicator matrix.

        "svd": the truncated singular value decomposition, each side taking the square root of the singular
        values, as the minimiser of the regularised squared error does. "wals": weighted alternating least
        squares in which a rated pair weighs 2 and any other 1 (paper 002, section 4.2). The rank is the paper's
        30 or, for small logs, a fortieth of the users or the items, whichever are fewer.
        """
        smaller = min(data.n_users, data.n_items)
        chosen = min(RANK, max(2, smaller // 40), smaller - 1) if rank is None else rank
        if not 1 <= chosen < smaller:
            raise InputError(
                "rank",
                received=chosen,
                expected=f"1 to {smaller - 1}, below the smaller of {data.n_users} users and {data.n_items} items",
            )
        if method == "wals":
            fitted = WALS(factors=chosen, unobserved_weight=1.0, values="ones", regularization=0.1).fit(data, rng)
            X, Y = fitted.user_factors, fitted.item_factors
        else:  # 1_Omega ~ (U sqrt(S)) (V sqrt(S))^T; the start is fixed, so that the same log gives the same numbers
            start = generator(0, "relatedness").standard_normal(smaller)
            left, values, right = svds(_indicator(data), k=chosen, v0=start)
            X, Y = left * np.sqrt(values), right.T * np.sqrt(values)
        return Relatedness(unit_rows(X), unit_rows(Y), f"log, {method} of rank {chosen}")

    @staticmethod
    def from_categories(data: Interactions, system: str = "genre") -> Relatedness:
        """From what items are about: the cosine of an item's categories with those that the user has rated.

        An item is 1 in each of its categories and 0 elsewhere; a user is the share of their items in each category
        (paper 002, section 4.3). An item without categories, and a user who rated no other, is related to nothing.
        """
        belongs = category_system(data, system).weights.astype(bool).astype(np.float64)
        return Relatedness(
            unit_rows((_indicator(data) @ belongs).toarray()), unit_rows(belongs.toarray()), f"categories, {system}"
        )

    @staticmethod
    def from_blocks(user_group: ArrayLike, item_group: ArrayLike, related: ArrayLike) -> Relatedness:
        """1 where the user's and the item's groups are related and 0 elsewhere.

        `user_group` (users,) and `item_group` (items,) are group numbers from 0, `related` (user groups, item groups)
        says True or False.
        """
        table = np.asarray(related)
        if table.ndim != 2 or not np.isin(table, (0, 1)).all():
            received = f"an array of shape {table.shape}"
            raise InputError("related", received=received, expected="(user groups, item groups) of booleans")
        rows = _group_numbers("user_group", user_group, table.shape[0])
        columns = _group_numbers("item_group", item_group, table.shape[1])
        # related[g_i, g_j] as a product: the row of the user's group times the indicator of the item's.
        label = f"blocks, {table.shape[0]} x {table.shape[1]}"
        return Relatedness(table.astype(np.float64)[rows], np.eye(table.shape[1])[columns], label)

    @staticmethod
    def given(matrix: ArrayLike) -> Relatedness:
        """A whole matrix (users, items) of numbers from 0 to 1: for small worlds whose truth is known."""
        values = checked_array("matrix", matrix, ("users", "items"))
        if ((values < 0) | (values > 1)).any():
            raise InputError(
                "matrix",
                received=f"values from {values.min():g} to {values.max():g}",
                expected="numbers from 0 (strangers) to 1",
                remedy="Clip or rescale it.",
            )
        return Relatedness(values, np.ascontiguousarray(values.T), "given matrix", values)


def category_system(data: Interactions, system: str) -> Categories:
    """The categories of this name."""
    if system not in data.categories:
        none = "This log has none: add one with data.with_items or data.with_categories."
        remedy = did_you_mean(system, data.categories) if data.categories else none
        raise InputError("system", received=system, expected="a category system of the log", remedy=remedy)
    return data.categories[system]


def _indicator(data: Interactions) -> sparse.csr_array:
    """(users, items): 1 at each rated pair."""
    rated = data.csr.copy()
    rated.data = np.ones_like(rated.data)
    return rated


def _group_numbers(name: str, values: ArrayLike, groups: int) -> IntArray:
    """Group numbers (units,) from 0 to groups - 1."""
    numbers = np.asarray(values)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or ((numbers < 0) | (numbers >= groups)).any():
        raise InputError(
            name,
            received=f"an array of {numbers.dtype} of shape {numbers.shape}",
            expected=f"one whole number from 0 to {groups - 1} for each, as `related` has rows or columns",
        )
    return numbers.astype(np.int64)
