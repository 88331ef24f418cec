"""Lists that keep a user's interests in proportion: paper 004's re-ranking, as a policy over any model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self, final

from pydantic import AfterValidator, Field, model_validator

from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.policies.selection import Lister, ListPolicy
from recaudit.registry import LISTERS
from recaudit.specification import Id, Number, Specification

MOST_IMPORTANT = 1e6
"""Of a category system: beyond any ratio that means something, and far from the end of the range of numbers."""

Share = Annotated[Number, Field(ge=0, le=1)]
ScoreTransform = Literal["none", "rank", "zscore", "minmax"]


def _with_importance(categories: str | dict[str, float] | None) -> str | dict[str, float] | None:
    if isinstance(categories, dict):
        importance = categories.values()
        if not all(0 <= value <= MOST_IMPORTANT for value in importance) or not any(importance):
            raise InputError(
                "categories",
                received=repr(categories) if categories else "no category system",
                expected=f"at least one, with an importance from 0 to {MOST_IMPORTANT:g} each, and one above 0",
            )
    return categories


class CalibrationTarget(Specification):
    """What lists are compared with, and how: the interests of each user in categories, p, and those of the list, q."""

    categories: Annotated[str | dict[str, float] | None, AfterValidator(_with_importance)] = None
    """The category system; several by name with their importance; or None, the log's only one (for an audit its
    first)."""
    rank_weights: Literal["none", "mrr", "ndcg"] = "none"
    """How much a place counts in q: the same everywhere, 1 / rank, or 1 / log2(rank + 1)."""
    smoothing: Annotated[Number, Field(gt=0, lt=1)] = 0.01
    """Alpha of Equation 5. Every C_KL depends on it."""
    history_weights: Literal["rating", "recency"] | None = None
    """How much an item of the history counts in p: the same, its rating, or less the older it is."""
    half_life: Annotated[Number, Field(gt=0)] | None = None
    """For "recency": the age at which an item counts half of the user's latest, in the unit of the log's times: with
    times in seconds, as MovieLens has them, 30 days are 30 * 86_400."""
    prior_weight: Share = 0.0
    """Beta of Equation 7: how much of p is the prior, for what the user has not tried yet."""
    prior: Literal["uniform", "population"] | dict[str, Share] = "population"
    """p0: the same for every category, the mean over users, or a probability by category, 0 for those not named."""

    @model_validator(mode="after")
    def _target_agrees(self) -> Self:
        if (self.history_weights == "recency") != (self.half_life is not None):
            raise InputError(
                "half_life",
                received=self.half_life,
                expected='both or neither: half_life belongs to history_weights = "recency"',
                remedy="It is in the unit of the log's times: where these are seconds, 30 days are 30 * 86_400.",
            )
        if not isinstance(self.prior, str) and abs(sum(self.prior.values()) - 1) > 1e-9:
            total = f"probabilities that sum to {sum(self.prior.values()):g}"
            raise InputError("prior", received=total, expected="probabilities that sum to 1")
        return self


@final
class Calibrated(ListPolicy, CalibrationTarget):
    """Lists with a large (1 - lambda) s(I) - lambda C_KL(p, q(I)) (paper 004, Equation 6).

    It makes whole lists out of what a user has not seen, for `recommend`, `exposure`, `calibration` and `rerank`;
    no score alone decides the probability of a single item. A user without history gets the list by score, or one
    that follows the prior where `prior_weight` is above 0.
    """

    weight: Share | Annotated[tuple[Share, ...], Field(min_length=1)] = 0.99
    """Lambda, from 0 (the scores alone) to 1 (calibration alone); or one for each rank, the last holding from there on.
    It weighs the model's scores against C_KL, so that it means something else for scores of another size."""
    size: int = Field(default=50, ge=1)
    """The list's length for `rerank`. Elsewhere who asks says how long lists are."""
    transform: ScoreTransform = "none"
    """What becomes of a user's scores first. "minmax": 0 to 1. "zscore": mean 0, standard deviation 1. "rank": 1 for
    the best falling in equal steps to 1 / n. All keep the order; only the first keeps the model's own differences."""
    horizon: Literal["prefix", "list"] = "list"
    """Whether the list that is asked for is calibrated as a whole, and never worse than the list by score; or every
    beginning of it (the paper's greedy), so that a shorter list is the beginning of a longer one."""
    at_most: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """How many items of a category a list may have."""
    must: tuple[Id, ...] = ()
    """Ids of items that are in every list for which they are candidates, whatever `at_most` says."""
    must_not: tuple[Id, ...] = ()
    """Ids of items that are in no list."""

    @model_validator(mode="after")
    def _items_agree(self) -> Self:
        if both := set(self.must) & set(self.must_not):
            raise InputError("must_not", received=sorted(map(str, both)), expected="ids that must does not name")
        return self

    def lister(self, data: Interactions) -> Lister:
        """Its solver stands in a later room, and is found as every part is."""
        made: Lister = LISTERS["calibrated"](self, data)
        return made

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        # The weight, and what differs from the defaults: it has many fields.
        defaults = type(self)().__dict__
        return [(name, value) for name, value in self if name == "weight" or value != defaults[name]]
