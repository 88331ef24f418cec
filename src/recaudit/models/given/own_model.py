"""Whether a fitted model is one that a configuration can go on from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.base import FittedModel

Kind = TypeVar("Kind", bound=FittedModel)


def own_model(
    model: FittedModel, kind: type[Kind], data: Interactions, differs: Callable[[Kind], str | None], expected: str
) -> Kind:
    """The model, if it is of this kind, of the log's users and items, and `differs` in no setting.

    `differs` says what is different about it, in words; `expected` says what a configuration like this one has.
    """
    received: str | None
    if not isinstance(model, kind):
        received = f"a {type(model).__name__}"
    elif not (model.data.user_ids.equals(data.user_ids) and model.data.item_ids.equals(data.item_ids)):
        received = "a model of other users or items than the log has"
    else:
        received = differs(model)
        if received is None:
            return model
    raise InputError(
        "model",
        received=received,
        expected=f"what a configuration with {expected} fitted to an earlier log of the same users and items",
        remedy="Fit from scratch with fit(data).",
    )
