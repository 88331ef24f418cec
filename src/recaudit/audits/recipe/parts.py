"""The parts of a recipe beside the intervention; `str()` of a part is its name in a sentence."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from recaudit.arguments import check_argument, check_count
from recaudit.errors import InputError
from recaudit.metrics.metric import Metric
from recaudit.solvers.distance.distances import Distance, check_distance
from recaudit.specification import OneOf, Parts

# ---- outcomes ------------------------------------------------------------------------------------------


class Outcome(ABC):
    """What is looked at once the intervention is made, and, as the baseline, without it."""

    words: ClassVar[str]
    about_an_item: ClassVar[bool] = False
    """Whether there is one for each viewer and item, or one for each viewer."""

    def __str__(self) -> str:
        return self.words


@final
@dataclass(frozen=True)
class Probability(Outcome):
    """P(A_u = i): the probability that item i is recommended to the viewer."""

    words, about_an_item = "probability of an item", True


@final
@dataclass(frozen=True)
class Distribution(Outcome):
    """P(A_u): the viewer's recommendation as a distribution over all candidates."""

    words = "recommendations"


@final
@dataclass(frozen=True)
class RecommendedList(Outcome):
    """The k items that the viewer is shown, in order: the best, or drawn by the policy."""

    k: int = 10
    """The length of the list."""
    words = "list of {}"

    def __post_init__(self) -> None:
        check_argument("RecommendedList.k", self.k, int)
        check_count("RecommendedList.k", self.k)

    def __str__(self) -> str:
        return self.words.format(self.k)


@final
@dataclass(frozen=True)
class PredictedRating(Outcome):
    """The rating that the model predicts the viewer would give an item, within the scale of the log."""

    words, about_an_item = "predicted rating", True


@final
@dataclass(frozen=True)
class Similarity(Outcome):
    """s_ui: how near the model places a user and an item, for every pair (paper 002, section 3.5)."""

    words, about_an_item = "similarity", True


@final
@dataclass(frozen=True)
class RatingsReceived(Outcome):
    """O: the ratings that people give to what they were shown."""

    words = "ratings received"


AnyOutcome = Annotated[
    Outcome,
    OneOf(
        Parts(
            "what is looked at",
            probability=Probability,
            distribution=Distribution,
            recommended_list=RecommendedList,
            predicted_rating=PredictedRating,
            similarity=Similarity,
            ratings_received=RatingsReceived,
        )
    ),
]

# ---- functionals ---------------------------------------------------------------------------------------


class Functional(ABC):
    """A number from an outcome, next to its baseline: the same outcome without the intervention."""

    words: ClassVar[str]
    sentence: ClassVar[str]
    """The number of an outcome, without an article; {} is the outcome."""
    fits: ClassVar[tuple[type[Outcome], ...]]
    """The outcomes that it can be taken of."""
    compares: ClassVar[bool] = True
    """Whether it is a comparison with the baseline, so that it says nothing where nothing is changed."""

    def __str__(self) -> str:
        return self.words

    def of(self, outcome: Outcome) -> str:
        """The number in a sentence."""
        return self.sentence.format(outcome, self)


@final
@dataclass(frozen=True)
class Value(Functional):
    """The outcome itself: a probability (0: never shown, 1: always) or a rating on the log's scale.

    With `Max()` on a probability: `rho* = max_a P(i | a)` (paper 000, Equation 1; paper 001, Equations 1 and 2).
    """

    words, sentence, compares = "value", "{}", False
    fits = (Probability, PredictedRating, Similarity)


@final
@dataclass(frozen=True)
class Lift(Functional):
    """How many times likelier than without the intervention: `rho / rho_0`, from 0 on (paper 000, Equation 2).

    1: as likely as before; 2: twice as likely; 0: made impossible. Without meaning where both are 0.
    """

    words, sentence = "lift", "lift of the {}"
    fits = (Probability,)


@final
@dataclass(frozen=True)
class RankGain(Functional):
    """How many places the item climbs: `rank before - rank after` among the candidates (paper 000, section 2.2).

    From 1 - n to n - 1 for n candidates; 0: the same place. A rank is 1 + how many candidates score higher.
    """

    words, sentence = "rank gain", "rank gain of an item"
    fits = (Probability,)


@final
@dataclass(frozen=True)
class Change(Functional):
    """`outcome - baseline`, with its sign and in the outcome's own unit; 0: nothing changes.

    For a probability from -1 to 1; for a rating on a scale from 1 to 5, from -4 to 4. With `Max()`: the change that is
    largest in size, be it up or down.
    """

    words, sentence = "change", "change of the {}"
    fits = (Probability, PredictedRating)


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
    sentence = "{1} by which a user's {0} move"
    fits = (Distribution,)

    def __post_init__(self) -> None:
        check_distance(self.name)

    def __str__(self) -> str:
        return _DISTANCES[self.name]


@final
@dataclass(frozen=True)
class Replaced(Functional):
    """The share of the list that was not in it before: `|after - before| / |after|`.

    From 0, the same items in whatever order, to 1, none of them. What instability looks like to a person who sees
    lists and no probabilities.
    """

    words, sentence = "share replaced", "share of a {} that is replaced"
    fits = (RecommendedList,)


@final
@dataclass(frozen=True)
class Measured(Functional):
    """A metric that an audit defines, of what is: an error, a quality of lists, a distance from the history."""

    metric: Metric
    sentence, compares = "{1} of the {0}", False
    fits = (Probability, Distribution, RecommendedList, PredictedRating, Similarity, RatingsReceived)

    def __str__(self) -> str:
        label = self.metric.titled()
        return label if label[1].isupper() or label.startswith("Gini") else label[0].lower() + label[1:]


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

# ---- quantifiers ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class At:
    """At these ratings and no others."""

    ratings: float | Sequence[float]
    """One number for every rating that is free, or a number for each of them, in the order of the acted-on items."""

    def __post_init__(self) -> None:
        # A list is what people type, and a tuple is what can be hashed.
        given = tuple(self.ratings) if isinstance(self.ratings, tuple | list) else self.ratings
        numbers = given if isinstance(given, tuple) else (given,)
        if not numbers or any(not _is_number(number) for number in numbers):
            raise InputError(
                "At.ratings",
                received=self.ratings,
                expected="a rating, such as At(5), or one for each free rating, such as At((5, 1, 3))",
            )
        object.__setattr__(self, "ratings", given)

    def __str__(self) -> str:
        given = self.ratings if isinstance(self.ratings, Sequence) else [self.ratings]
        return ", ".join(f"{rating:g}" for rating in given)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@final
@dataclass(frozen=True)
class Max:
    """The largest over all allowed ratings."""

    of: AnyFunctional | None = None
    """The functional that is made largest, where that is another one: the number is then taken where `of` is largest.

    Ranks, for instance, are hard to maximise: paper 000 reports the rank gain at the ratings that maximise the
    probability, `Max(of=Value())`.
    """

    def __post_init__(self) -> None:
        if self.of is not None and not isinstance(self.of, Functional):
            raise InputError("Max.of", received=self.of, expected="a functional, such as Value(), or nothing")


Quantifier = At | Max
AnyQuantifier = Annotated[Quantifier, OneOf(Parts("over which ratings", at=At, max=Max))]
