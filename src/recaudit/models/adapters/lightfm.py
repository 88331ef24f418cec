"""Models of LightFM (lightfm-next): vectors and biases, summed over features; no rule for new ratings.

LightFM knows positions only: `user_ids` and `item_ids` say which ids the rows and columns of the matrix stood for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import polars as pl
from scipy import sparse

from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.adapt import Retrained, not_fitted, unknown_model
from recaudit.models.factor.model import FactorVectors
from recaudit.models.given.arrays import from_factors, order_of

Features = sparse.csr_matrix | sparse.csr_array
"""(users or items, features)"""

_KNOWN = "LightFM"


def adapted(
    model: Any,
    data: Interactions,
    *,
    user_features: Features | None = None,
    item_features: Features | None = None,
    user_ids: Iterable[object] | None = None,
    item_ids: Iterable[object] | None = None,
    epochs: int | None = None,
) -> FactorVectors:
    """A model of LightFM. Scores only rank, and no rule says how new ratings would move them.

    `user_features` and `item_features` are the matrices that it was trained with, where there were any. `user_ids` and
    `item_ids` are the ids of the rows and columns of the matrix, where they are not those of `data` in their order.
    `epochs`, which LightFM does not keep, is how long it was trained: with it, audits can train it again.
    """
    if not hasattr(model, "get_user_representations"):
        raise unknown_model(model, _KNOWN)
    if model.user_embeddings is None:
        raise not_fitted(model)
    users, items = (None if ids is None else list(ids) for ids in (user_ids, item_ids))
    f, P = model.get_user_representations(_checked("user", user_features, users, data.n_users, model.user_embeddings))
    g, Q = model.get_item_representations(_checked("item", item_features, items, data.n_items, model.item_embeddings))
    vectors = from_factors(P, Q, data, predicts_ratings=False, user_bias=f, item_bias=g, user_ids=users, item_ids=items)
    if epochs is None:
        return vectors
    settings = {name: value for name, value in model.get_params().items() if name != "random_state"}
    features = {
        "user_features": _in_order("user_ids", user_features, users, data.user_ids),
        "item_features": _in_order("item_ids", item_features, items, data.item_ids),
    }
    train = _LightfmTraining(type(model), settings, features, epochs)
    from lightfm import __version__  # noqa: PLC0415  an extra, and there where a model of it is

    library = f"LightFM {__version__}"
    written = {**settings, "epochs": epochs}
    options = {**features, "epochs": epochs}
    return vectors.with_recommender(Retrained(library=library, settings=written, train=train, options=options))


def _checked(
    side: str, features: Features | None, ids: list[object] | None, known: int, embeddings: Any
) -> Features | None:
    """The features, which a model with other than one embedding a row cannot do without."""
    rows = known if ids is None else len(ids)
    if features is None and len(embeddings) != rows:
        raise InputError(
            f"{side}_features",
            received=f"nothing, beside embeddings of {len(embeddings):,} features for {rows:,} {side}s",
            expected=f"the matrix ({side}s, features) that the model was trained with",
            remedy=f"Pass {side}_features = ..., or {side}_ids = [...] where it knows other {side}s than the log.",
        )
    return features


def _in_order(argument: str, features: Features | None, ids: list[object] | None, known: pl.Series) -> Features | None:
    """The rows of the features in the order of the log's ids."""
    order = order_of(argument, ids, known)
    if features is None or order is None:
        return features
    rows: Features = features.tocsr()[order.rows]
    return rows


@final
@dataclass(frozen=True, eq=False)
class _LightfmTraining:
    """LightFM's own, on one thread: it walks differently on several."""

    kind: type
    settings: dict[str, Any]
    features: dict[str, Features | None]
    epochs: int

    def __call__(self, data: Interactions, rng: int) -> object:
        matrix = sparse.csr_matrix(data.csr, copy=True)
        if data.scale[0] == data.scale[1]:
            matrix.eliminate_zeros()  # no click is no entry
        made = self.kind(**self.settings, random_state=rng)
        return made.fit(matrix.tocoo().astype(np.float32), **self.features, epochs=self.epochs)
