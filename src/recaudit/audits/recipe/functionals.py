"""How an outcome becomes a number: the third part of an audit's recipe. `str()` is the number's short name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from recaudit.audits.recipe.outcomes import (
    Distribution,
    Outcome,
    PredictedRating,
    Probability,
    RatingsReceived,
    RecommendedList,
    Similarity,
)
from recaudit.metrics.metric import Metric
from recaudit.solvers.distance.distances import Distance, check_distance
from recaudit.specification import OneOf, Parts


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


_DISTANCES: dict[Distance, str] = {
    "hellinger": "Hellinger distance",
    "tv": "total variation distance",
    "l2": "L2 distance",
    "kl": "KL divergence",
}


@final
@dataclass(frozen=True)
class Moved(Functional):
    """d(p, q) of the recommendations without (p) and with (q) the intervention (paper 001, Equations 3 and 4).

    "hellinger" `sqrt(1 - sum sqrt(p q))` and "tv" `sum |p - q| / 2`: 0 for the same recommendations, 1 for none in
    common. "l2" `sqrt(sum (p - q)^2)`: 0 to sqrt(2). "kl" `sum q log(q / p)`: from 0 on, without a largest value.
    """

    name: Distance = "hellinger"
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
class Measured(Functional):
    """A metric that an audit defines, of what is: an error, a quality of lists, a distance from the history."""

    metric: Metric
    fits = (Probability, Distribution, RecommendedList, PredictedRating, Similarity, RatingsReceived)

    def __str__(self) -> str:
        label = self.metric.titled()
        return label if label[1].isupper() or label.startswith("Gini") else label[0].lower() + label[1:]

    def of(self, outcome: Outcome) -> str:
        """See `Functional`."""
        return f"{self} of the {outcome}"


AnyFunctional = Annotated[
    Functional,
    OneOf(
        Parts(
            "how it becomes a number",
            value=Value,
            lift=Lift,
            rank_gain=RankGain,
            change=Change,
            moved=Moved,
            replaced=Replaced,
        )
    ),
]
"""What can be composed; a `Measured` metric has an audit of its own."""
