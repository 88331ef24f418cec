"""What an audit looks at: the second part of its recipe. `str()` is the outcome's name in a sentence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from recaudit.errors import InputError
from recaudit.specification import OneOf, Parts


class Outcome(ABC):
    """What is looked at once the intervention is made, and, as the baseline, without it."""

    about_an_item: ClassVar[bool]
    """Whether there is one for each viewer and item, or one for each viewer."""

    @abstractmethod
    def __str__(self) -> str: ...


@final
@dataclass(frozen=True)
class Probability(Outcome):
    """P(A_u = i): the probability that item i is recommended to the viewer."""

    about_an_item = True

    def __str__(self) -> str:
        return "probability of an item"


@final
@dataclass(frozen=True)
class Distribution(Outcome):
    """P(A_u): the viewer's recommendation as a distribution over all candidates."""

    about_an_item = False

    def __str__(self) -> str:
        return "recommendations"


@final
@dataclass(frozen=True)
class RecommendedList(Outcome):
    """The k items that the viewer is shown, in order: the best, or drawn by the policy."""

    k: int = 10
    """The length of the list."""
    about_an_item = False

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 1:
            raise InputError("RecommendedList.k", received=self.k, expected="a list length of 1 or more")

    def __str__(self) -> str:
        return f"list of {self.k}"


@final
@dataclass(frozen=True)
class PredictedRating(Outcome):
    """The rating that the model predicts the viewer would give an item, within the scale of the log."""

    about_an_item = True

    def __str__(self) -> str:
        return "predicted rating"


@final
@dataclass(frozen=True)
class Similarity(Outcome):
    """s_ui: how near the model places a user and an item, for every pair (paper 002, section 3.5)."""

    about_an_item = True

    def __str__(self) -> str:
        return "similarity"


@final
@dataclass(frozen=True)
class RatingsReceived(Outcome):
    """O: the ratings that people give to what they were shown."""

    about_an_item = False

    def __str__(self) -> str:
        return "ratings received"


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
