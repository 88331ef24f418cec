"""How an outcome becomes a number: the third part of an audit's recipe. `str()` is the number's short name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, final

from recaudit.audits.recipe.outcomes import (
    Distribution,
    Outcome,
    PredictedRating,
    Probability,
    RatingsReceived,
    RecommendedList,
    Similarity,
)
from recaudit.errors import InputError, did_you_mean
from recaudit.metrics.metric import METRICS
from recaudit.solvers.distance.distances import Distance as DistanceName
from recaudit.solvers.distance.distances import check_distance


class Functional(ABC):
    """A number from an outcome, next to its baseline: the same outcome without the intervention."""

    fits: ClassVar[tuple[type[Outcome], ...]]
    """The outcomes that it can be taken of."""
    compares: ClassVar[bool] = False
    """Whether it is a comparison with the baseline, so that it says nothing where nothing is changed."""

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def of(self, outcome: Outcome) -> str:
        """The number in a sentence, without an article."""


@final
@dataclass(frozen=True)
class Value(Functional):
    """The outcome itself: a probability (0: never shown, 1: always) or a rating on the log's scale.

    With `Max()` on a probability: `rho* = max_a P(i | a)` (paper 000, Equation 1; paper 001, Equations 1 and 2).
    """

    fits = (Probability, PredictedRating, Similarity)

    def __str__(self) -> str:
        return "value"

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return str(outcome)


@final
@dataclass(frozen=True)
class Lift(Functional):
    """How many times likelier than without the intervention: `rho / rho_0`, from 0 on (paper 000, Equation 2).

    1: as likely as before; 2: twice as likely; 0: made impossible. Without meaning where both are 0.
    """

    fits = (Probability,)
    compares = True

    def __str__(self) -> str:
        return "lift"

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return f"lift of the {outcome}"


@final
@dataclass(frozen=True)
class RankGain(Functional):
    """How many places the item climbs: `rank before - rank after` among the candidates (paper 000, section 2.2).

    From 1 - n to n - 1 for n candidates; 0: the same place. A rank is 1 + how many candidates score higher.
    """

    fits = (Probability,)
    compares = True

    def __str__(self) -> str:
        return "rank gain"

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return "rank gain of an item"


@final
@dataclass(frozen=True)
class Change(Functional):
    """`outcome - baseline`, with its sign and in the outcome's own unit; 0: nothing changes.

    For a probability from -1 to 1; for a rating on a scale from 1 to 5, from -4 to 4. With `Max()`: the change that is
    largest in size, be it up or down.
    """

    fits = (Probability, PredictedRating)
    compares = True

    def __str__(self) -> str:
        return "change"

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return f"change of the {outcome}"


_DISTANCES: dict[DistanceName, str] = {
    "hellinger": "Hellinger distance",
    "tv": "total variation distance",
    "l2": "L2 distance",
    "kl": "KL divergence",
}


@final
@dataclass(frozen=True)
class Distance(Functional):
    """d(p, q) of the recommendations without (p) and with (q) the intervention (paper 001, Equations 3 and 4).

    "hellinger" `sqrt(1 - sum sqrt(p q))` and "tv" `sum |p - q| / 2`: 0 for the same recommendations, 1 for none in
    common. "l2" `sqrt(sum (p - q)^2)`: 0 to sqrt(2). "kl" `sum q log(q / p)`: from 0 on, without a largest value.
    """

    name: DistanceName = "hellinger"
    """Which distance."""
    fits = (Distribution,)
    compares = True

    def __post_init__(self) -> None:
        check_distance(self.name)

    def __str__(self) -> str:
        return _DISTANCES[self.name]

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return f"{self} by which a user's {outcome} move"


@final
@dataclass(frozen=True)
class Replaced(Functional):
    """The share of the list that was not in it before: `|after - before| / |after|`.

    From 0, the same items in whatever order, to 1, none of them. What instability looks like to a person who sees
    lists and no probabilities.
    """

    fits = (RecommendedList,)
    compares = True

    def __str__(self) -> str:
        return "share replaced"

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return f"share of a {outcome} that is replaced"


@final
@dataclass(frozen=True)
class Miscalibration(Functional):
    """How far the genres of the list, q(g|u), are from those of the user's history, p(g|u).

    "kl": `C_KL = sum p log(p / q~)` with `q~ = (1 - alpha) q + alpha p` (paper 004, Equations 4 and 5), from 0 on.
    "hellinger": `C_H = |sqrt p - sqrt q| / sqrt 2` (section 3; printed with 1/2 there), 0 to 1. 0: the list has every
    genre in proportion.
    """

    distance: Literal["kl", "hellinger"] = "kl"
    """Which distance."""
    by: str = "genre"
    """The category system whose shares are compared."""
    smoothing: float = 0.01
    """alpha of Equation 5, for "kl": every number depends on it."""
    fits = (RecommendedList,)

    def __post_init__(self) -> None:
        _check_name("Miscalibration.distance", self.distance, ("kl", "hellinger"))
        if not 0 < self.smoothing < 1:
            raise InputError("Miscalibration.smoothing", received=self.smoothing, expected="a number between 0 and 1")

    def __str__(self) -> str:
        return f"{_DISTANCES[self.distance].split()[0]} to history"

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return f"{_DISTANCES[self.distance]} of a {outcome} from the {self.by}s of the user's history"


@final
@dataclass(frozen=True)
class Overshoot(Functional):
    """`max(0, s_ui - r_ui)`: similarity above relatedness, averaged over all pairs (paper 002, Definition 3.1).

    0: nobody is placed near something they have nothing to do with. 1, for cosines: nothing is related to anybody, and
    everything is taken for a perfect match.
    """

    fits = (Similarity,)

    def __str__(self) -> str:
        return "mean overshoot"

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return f"mean overshoot of {outcome} above relatedness"


@final
@dataclass(frozen=True)
class Error(Functional):
    """How far predicted ratings are from the true ones: "rmse" or "mae", as in `METRICS`; 0: all exact."""

    name: Literal["rmse", "mae"] = "rmse"
    """Which error."""
    fits = (PredictedRating,)

    def __post_init__(self) -> None:
        _check_name("Error.name", self.name, ("rmse", "mae"))

    def __str__(self) -> str:
        return _label(self.name)

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return f"{self} of {outcome}s"


@final
@dataclass(frozen=True)
class Ranking(Functional):
    """How well the list finds what the user went on to choose; 0: nothing of it, 1: perfectly.

    "ndcg", "recall", "precision", "map" or "mrr", as in `METRICS`.
    """

    name: Literal["ndcg", "recall", "precision", "map", "mrr"] = "ndcg"
    """Which metric."""
    fits = (RecommendedList,)

    def __post_init__(self) -> None:
        _check_name("Ranking.name", self.name, ("ndcg", "recall", "precision", "map", "mrr"))

    def __str__(self) -> str:
        return _label(self.name)

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return f"{self} of a {outcome}"


@final
@dataclass(frozen=True)
class Exposure(Functional):
    """How everybody's lists together treat the catalogue.

    "coverage", "gini", "popularity_correlation", "popularity_lift" or "novelty": definitions and ranges in `METRICS`.
    """

    name: Literal["coverage", "gini", "popularity_correlation", "popularity_lift", "novelty"] = "coverage"
    """Which metric."""
    fits = (RecommendedList,)

    def __post_init__(self) -> None:
        known = ("coverage", "gini", "popularity_correlation", "popularity_lift", "novelty")
        _check_name("Exposure.name", self.name, known)

    def __str__(self) -> str:
        return _label(self.name)

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return f"{self} over everybody's {outcome}"


@final
@dataclass(frozen=True)
class Mean(Functional):
    """The mean over people, and at each step: how well they like what they are shown (paper 003, section 5).

    On the log's scale; the lowest and the highest rating are its ends.
    """

    fits = (RatingsReceived,)

    def __str__(self) -> str:
        return "mean"

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return f"mean of the {outcome}"


def _label(metric: str) -> str:
    """The metric's name inside a sentence: small, unless it is an abbreviation or a person's name."""
    label = METRICS[metric].label.removesuffix("@k")
    return label if label[1].isupper() or metric == "gini" else label[0].lower() + label[1:]


def _check_name(field: str, name: str, known: Iterable[str]) -> None:
    known = tuple(known)
    if name not in known:
        remedy = did_you_mean(str(name), known)
        raise InputError(field, received=name, expected=f"one of {list(known)}", remedy=remedy)
