"""Models that another library fitted, taken as they are: its scores, its ids, its rule for new ratings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, final

from pydantic import Field, InstanceOf

from recaudit.arguments import check_argument
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, did_you_mean
from recaudit.models.base import FittedModel, Recommender
from recaudit.registry import ADAPTERS

Train = Callable[[Interactions, int], object]
"""A library's own training of a model of this log, with this seed."""


def adapt(model: object, data: Interactions, **settings: Any) -> FittedModel:
    """A fitted model of another library, ready to be audited.

    `data` is the log that it was trained on. The library is known by the model's class; which ones there are, what each
    knows of itself and which `settings` it takes is in docs/guides/your-own-model.md. Scores are the library's own, and
    so is the rule by which it takes in new ratings; where it has none, audits that need one are refused.
    """
    check_argument("data", data, Interactions)
    for kind in type(model).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in ADAPTERS:
            adapter: Callable[..., FittedModel] = ADAPTERS[library]
            known = list(inspect.signature(adapter).parameters)[2:]
            for name, value in settings.items():
                if name not in known:
                    expected = f"a setting for models of {library}: {', '.join(known)}"
                    raise InputError(name, received=value, expected=expected, remedy=did_you_mean(name, known))
            return adapter(model, data, **settings).from_elsewhere(type(model).__name__)
    kind = type(model)
    raise InputError(
        "model",
        received=f"a {kind.__module__}.{kind.__qualname__}",
        expected=f"a fitted model of one of these libraries: {', '.join(ADAPTERS)}",
        remedy="Take its arrays with models.from_factors or models.from_weights, or ask it with models.from_system.",
    )


@final
class Retrained(Recommender):
    """What fits such a model anew: the library's own training, with the settings of the model that was handed over."""

    library: str
    """The library's name and version."""
    settings: dict[str, Any]
    """What the model was made with, as far as it can be written down."""
    train: InstanceOf[Callable] = Field(exclude=True, repr=False)  # type: ignore[type-arg]  # see `Train`
    options: dict[str, Any] = Field(default_factory=dict, exclude=True, repr=False)
    """What `adapt` was told besides."""

    def fit(self, data: Interactions, rng: int = 0) -> FittedModel:
        """Train on this log, and adapt."""
        return adapt(self.train(data, rng), data, **self.options)


def unknown_model(model: object, known: str) -> InputError:
    """The error of an adapter that does not know this model of its library; `known` are those that it does."""
    return InputError(
        "model",
        received=f"a {type(model).__module__}.{type(model).__qualname__}",
        expected=f"one of {known}",
        remedy="Take its arrays with models.from_factors or models.from_weights, or ask it with models.from_system.",
    )


def not_fitted(model: object) -> InputError:
    """The error of a model that was not trained yet."""
    return InputError("model", received=f"a {type(model).__name__} that was not fitted", expected="a fitted model")
