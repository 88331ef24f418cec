"""scikit-learn's factorisations of the log, users by items with 0 where there is no rating: TruncatedSVD and NMF."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.models.adapt import Retrained, not_fitted, unknown_model
from recaudit.models.base import FittedModel, check_own_edits
from recaudit.models.checks import check_actions, checked_array
from recaudit.models.given.arrays import from_weights, order_of
from recaudit.models.linear.model import check_square
from recaudit.models.response import OpaqueResponse, Response

_KNOWN = "TruncatedSVD, NMF, MiniBatchNMF"


def adapted(model: Any, data: Interactions, *, item_ids: Iterable[object] | None = None) -> FittedModel:
    """A TruncatedSVD or NMF of scikit-learn, fitted to the ratings, with 0 where there is none: scores only rank.

    A user is scored by `inverse_transform(transform(history))`. `item_ids` are the ids of the columns of the matrix,
    where they are not those of `data` in their order.
    """
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if not kinds & {"TruncatedSVD", "NMF", "MiniBatchNMF"}:
        raise unknown_model(model, _KNOWN)
    if not hasattr(model, "components_"):
        raise not_fitted(model)
    components = model.components_
    made: FittedModel
    if "TruncatedSVD" in kinds:
        check_square(components.shape[1], 3, "TruncatedSVD as a model of weights")
        made = from_weights(components.T @ components, data, predicts_ratings=False, item_ids=item_ids)
    else:
        order = order_of("item_ids", item_ids, data.item_ids)
        columns = np.arange(data.n_items) if order is None else order.rows
        checked_array("components_", components, ("factors", data.n_items if order is None else order.given))
        fold_in = copy.copy(model)
        vars(fold_in).pop("feature_names_in_", None)  # of a frame: it would ask every history for them
        made = TransformedHistories(data, fold_in, columns)
    from sklearn import __version__  # noqa: PLC0415  an extra, and there where a model of it is

    plain = str | int | float | None
    settings = {name: value for name, value in model.get_params().items() if isinstance(value, plain)}
    return made.with_recommender(
        Retrained(library=f"scikit-learn {__version__}", settings=settings, train=_SklearnTraining(model))
    )


@final
@dataclass(frozen=True, eq=False, repr=False)
class TransformedHistories(FittedModel):
    """A factorisation that is asked: `transform` solves for a user's vector, which times the components is scores."""

    data: Interactions
    factorisation: Any
    """Fitted: with `transform` and `components_`."""
    columns: IntArray
    """(items,): where the log's items are among the columns of the components."""
    predicts_ratings: bool = False

    response: ClassVar[type[Response]] = OpaqueResponse

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return (
            f"scikit-learn's {type(self.factorisation).__name__}.transform of the edited history; components are held"
        )

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items): each history by itself, since `transform` stops when all of its rows are near."""
        rows = [self._scores(*self.data.history(int(user))) for user in users]
        return torch.from_numpy(np.array(rows).reshape(len(users), self.data.n_items))

    def respond(self, viewer: int, editor: int, items: IntArray) -> OpaqueResponse:
        """The response to own edits: the edited history is transformed."""
        items = check_actions(items, self.data.n_items)
        why = "another user's ratings move no score while the components are held, and nothing says how they move these"
        check_own_edits(self, viewer, editor, why)
        seen, ratings = self.data.history(viewer)
        kept = ~np.isin(seen, items)
        rated = np.concatenate([seen[kept].astype(np.int64), items])

        def query(given: FloatArray) -> Tensor:
            return torch.from_numpy(self._scores(rated, np.append(ratings[kept], given)))

        return OpaqueResponse(items, query)

    def _scores(self, items: NDArray[np.int32] | IntArray, ratings: FloatArray) -> FloatArray:
        components = self.factorisation.components_
        row = np.zeros((1, components.shape[1]), dtype=components.dtype)
        row[0, self.columns[items]] = ratings
        with _said_before():
            own = self.factorisation.transform(row)
        return np.asarray((own @ components)[0, self.columns], dtype=np.float64)


@final
@dataclass(frozen=True, eq=False)
class _SklearnTraining:
    """scikit-learn's own, with the model's seed where it has one."""

    model: Any

    def __call__(self, data: Interactions, rng: int) -> object:
        from sklearn.base import clone  # noqa: PLC0415  see above

        made = clone(self.model)
        if made.random_state is None:
            made.set_params(random_state=rng)
        with _said_before():
            return made.fit(sparse.csr_matrix(data.csr))


@contextmanager
def _said_before() -> Iterator[None]:
    """Without the warning that a solve stopped early: the model's own training gave it, and every solve would."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Maximum number of iterations")
        yield
