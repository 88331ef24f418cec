"""Lists that keep a user's interests in proportion: paper 004's re-ranking, as a policy over any model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, NoReturn, Self, final

from pydantic import Field, model_validator
from torch import Tensor

from recaudit.errors import NotSupportedError
from recaudit.policies.base import Policy
from recaudit.specification import Id

MOST_IMPORTANT = 1e6
"""Of a category system: beyond any ratio that means something, and far from the end of the range of numbers."""

Share = Annotated[float, Field(ge=0, le=1)]
Importance = Annotated[float, Field(ge=0, le=MOST_IMPORTANT)]
ScoreTransform = Literal["none", "rank", "zscore", "minmax"]
HistoryWeights = Literal["rating", "recency"]


@final
class Calibrated(Policy):
    """Lists with a large (1 - lambda) s(I) - lambda C_KL(p, q(I)) (paper 004, Equation 6).

    It makes whole lists, out of all items that a user has not seen, and needs to know whose they are: p is the user's
    history. So it stands wherever lists are asked for (`recommend`, `exposure`, `calibration`, `rerank`), and not where
    the chance of a single item is, which no score alone decides: `log_probabilities` is not supported.

    A user without history gets the list by score, or one that follows the prior where `prior_weight` is above 0.
    """

    weight: Share | Annotated[tuple[Share, ...], Field(min_length=1)] = 0.99
    """Lambda, from 0 (the scores alone) to 1 (calibration alone); or one for each rank, the last holding from there on.
    It weighs the model's scores against C_KL, so that it means something else for scores of another size."""
    size: int = Field(default=50, ge=1)
    """The list's length for `rerank`. Elsewhere who asks says how long lists are."""
    categories: str | dict[str, Importance] | None = None
    """The category system to calibrate; several by name with their importance; or None, the only one of the log."""
    rank_weights: Literal["none", "mrr", "ndcg"] = "none"
    """How much a place counts in q: the same everywhere, 1 / rank, or 1 / log2(rank + 1)."""
    smoothing: float = Field(default=0.01, gt=0, lt=1)
    """Alpha of Equation 5."""
    history_weights: HistoryWeights | None = None
    """How much an item of the history counts in p: the same, its rating, or less the older it is."""
    half_life: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """For "recency": the age at which an item counts half of the user's latest, in the unit of the log's times: with
    times in seconds, as MovieLens has them, 30 days are 30 * 86_400."""
    prior_weight: Share = 0.0
    """Beta of Equation 7: how much of p is the prior, for what the user has not tried yet."""
    prior: Literal["uniform", "population"] | dict[str, Share] = "population"
    """p0: the same for every category, the mean over users, or a probability by category, 0 for those not named."""
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
    def _settings_agree(self) -> Self:
        if (self.history_weights == "recency") != (self.half_life is not None):
            raise ValueError('half_life belongs to history_weights = "recency": give both, or neither.')
        if both := set(self.must) & set(self.must_not):
            raise ValueError(f"must and must_not both name {sorted(map(str, both))}.")
        if not isinstance(self.prior, str) and abs(sum(self.prior.values()) - 1) > 1e-9:
            raise ValueError(f"prior: the probabilities sum to {sum(self.prior.values()):g}, not to 1.")
        return self

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        # The weight, and what differs from the defaults: a result's settings show it, and it has many fields.
        defaults = type(self)().__dict__
        return [(name, value) for name, value in self if name == "weight" or value != defaults[name]]

    def _log_probabilities(self, scores: Tensor, allowed: Tensor) -> NoReturn:
        raise NotSupportedError(
            "Calibrated makes whole lists from a user's history: it has no probability of a single item. Questions "
            "about lists take it (recommend, exposure, calibration); for the others choose Top1, Softmax, "
            "EpsilonGreedy or Power."
        )
