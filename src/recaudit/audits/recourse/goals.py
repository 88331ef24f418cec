"""What users want to bring about, and what counts as effort."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from recaudit.arrays import FloatArray, IntArray
from recaudit.errors import InputError
from recaudit.solvers.lists.objective import SMOOTHING
from recaudit.solvers.recourse.least import Choices, LeastEffort
from recaudit.solvers.recourse.outcomes import (
    ROUNDING,
    calibrated_effort,
    divergence_of,
    first_items,
    item_chance,
    likely_effort,
    share_effort,
)
from recaudit.solvers.recourse.places import item_effort, rank_after
from recaudit.solvers.recourse.programs import ChanceProgram, FreeRatings, ListProgram, PlaceProgram, Wanted
from recaudit.specification import Count, Id, Number, OneOf, Parts, specified


class Sight(NamedTuple):
    """What one user is recommended from, as a function of the ratings that are free."""

    slope: FloatArray  # (candidates, ratings)
    scores: FloatArray  # (candidates,): as the ratings are now
    shares: FloatArray  # (candidates, categories): how much of each belongs to each category; none where none counts
    interests: FloatArray  # (categories,): of the user


class Goal(ABC):
    """An outcome that is there or not."""

    about_an_item: ClassVar[bool] = True
    """Whether it is asked for one item at a time."""

    @property
    def needs_categories(self) -> bool:
        """Whether the log must have categories."""
        return not self.about_an_item

    @abstractmethod
    def by_stars(self, sight: Sight, target: int, choices: Choices, budget: int) -> LeastEffort:
        """The least effort in stars."""

    @abstractmethod
    def program(self, sight: Sight, target: int, free: FreeRatings) -> Wanted:
        """The same question for intervals."""

    @abstractmethod
    def height(self, sight: Sight, target: int) -> float:
        """How near it is at the scores as they are: 0 or more where it is there."""


@specified
class _Place(Goal, ABC):
    n: Count = 10
    """How long the list is."""
    inside: ClassVar[bool]

    def by_stars(self, sight: Sight, target: int, choices: Choices, budget: int) -> LeastEffort:
        """See `Goal`."""
        return item_effort(sight.slope, sight.scores, target, self.n, self.inside, choices, budget)

    def program(self, sight: Sight, target: int, free: FreeRatings) -> Wanted:
        """See `Goal`."""
        return PlaceProgram(sight.slope, sight.scores, target, self.n, self.inside, free)

    def height(self, sight: Sight, target: int) -> float:
        """See `Goal`: the distance of its score from the one that decides."""
        scores, none = sight.scores, np.zeros(sight.slope.shape[1])
        others = np.sort(np.delete(scores, target))[::-1]
        ahead = float(scores[target] - others[min(self.n, len(others)) - 1]) if len(others) else 0.0
        there = (rank_after(sight.slope, scores, target, none) <= self.n) == self.inside
        return abs(ahead) if there else min(-abs(ahead), -ROUNDING)


@final
@specified
class AmongFirst(_Place):
    """An item among the first n of the list."""

    inside = True


@final
@specified
class OutOfFirst(_Place):
    """An item out of the first n of the list."""

    inside = False


@final
@specified
class LikelyShown(Goal):
    """An item that softmax shows with the probability p or more."""

    p: Annotated[Number, Field(gt=0, lt=1)] = 0.01
    """The probability."""
    beta: Annotated[Number, Field(gt=0)] = 2.0
    """The policy is softmax with this beta."""

    def by_stars(self, sight: Sight, target: int, choices: Choices, budget: int) -> LeastEffort:
        """See `Goal`."""
        return likely_effort(sight.slope, sight.scores, target, self.beta, self.p, choices, budget)

    def program(self, sight: Sight, target: int, free: FreeRatings) -> Wanted:
        """See `Goal`."""
        return ChanceProgram(sight.slope, sight.scores, target, self.beta, self.p)

    def height(self, sight: Sight, target: int) -> float:
        """See `Goal`: in log-probability."""
        return item_chance(sight.scores, target, self.beta) - float(np.log(self.p)) + ROUNDING


@final
@specified
class CategoryShare(Goal):
    """A list of n of which at least, or at most, a part is of one category."""

    category: str
    """Its name."""
    at_least: Annotated[Number, Field(ge=0, le=1)] | None = None
    """The smallest part of the list; this, or `at_most`."""
    at_most: Annotated[Number, Field(ge=0, le=1)] | None = None
    """The largest part of the list."""
    n: Count = 10
    """How long the list is."""
    about_an_item = False

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            received = f"at_least={self.at_least}, at_most={self.at_most}"
            raise InputError("at_least, at_most", received=received, expected="one of the two")

    @property
    def _bound(self) -> float:
        return float(self.at_most if self.at_least is None else self.at_least)  # type: ignore[arg-type]  # one is given

    def by_stars(self, sight: Sight, target: int, choices: Choices, budget: int) -> LeastEffort:
        """See `Goal`."""
        asked = (sight.slope, sight.scores, self.n, sight.shares[:, 0], self._bound, self.at_least is not None)
        return share_effort(*asked, choices, budget)

    def program(self, sight: Sight, target: int, free: FreeRatings) -> Wanted:
        """See `Goal`."""
        n, sign = min(self.n, len(sight.scores)), -1.0 if self.at_most is None else 1.0
        weights, most = sign * sight.shares[:, 0], sign * n * self._bound
        return ListProgram(
            sight.slope,
            sight.scores,
            n,
            free,
            lambda chosen: bool(weights[chosen].sum() <= most + ROUNDING),
            lambda _: [(weights, most)],
        )

    def height(self, sight: Sight, target: int) -> float:
        """See `Goal`: in parts of the list."""
        chosen = first_items(sight.scores, min(self.n, len(sight.scores)))
        held = float(sight.shares[chosen, 0].sum()) / len(chosen)
        return (held - self._bound if self.at_most is None else self._bound - held) + ROUNDING


@final
@specified
class CalibratedWithin(Goal):
    """A list of n whose C_KL from the user's interests, as the log has them, is c or less (Steck 2018)."""

    c: Annotated[Number, Field(gt=0)] = 0.5
    """The largest divergence, in nats."""
    n: Count = 10
    """How long the list is."""
    smoothing: Annotated[Number, Field(gt=0, lt=1)] = SMOOTHING
    """The paper's alpha."""
    about_an_item = False

    def by_stars(self, sight: Sight, target: int, choices: Choices, budget: int) -> LeastEffort:
        """See `Goal`."""
        n = min(self.n, len(sight.scores))
        asked = (sight.slope, sight.scores, n, sight.shares, sight.interests, self.smoothing, self.c)
        return calibrated_effort(*asked, choices, budget)

    def program(self, sight: Sight, target: int, free: FreeRatings) -> Wanted:
        """See `Goal`."""
        n, p, alpha = min(self.n, len(sight.scores)), sight.interests, self.smoothing

        def tangent(inside: FloatArray) -> list[tuple[FloatArray, float]]:
            """The divergence is convex in what the list holds: C(q) + slope.(q' - q) <= c for every q' that will do."""
            q = inside @ sight.shares / n
            slope = np.where(p > 0, -(1 - alpha) * p / ((1 - alpha) * q + alpha * p + (p <= 0)), 0.0)
            most = self.c - divergence_of(p, q, alpha) + float(slope @ q)
            return [(sight.shares @ slope / n, most)]

        return ListProgram(
            sight.slope, sight.scores, n, free, lambda chosen: self._missing(sight, chosen) <= ROUNDING, tangent
        )

    def height(self, sight: Sight, target: int) -> float:
        """See `Goal`: in nats."""
        return -self._missing(sight, first_items(sight.scores, min(self.n, len(sight.scores)))) + ROUNDING

    def _missing(self, sight: Sight, chosen: IntArray) -> float:
        held = sight.shares[chosen].sum(axis=0) / len(chosen)
        return float(divergence_of(sight.interests, held, self.smoothing)) - self.c


GOALS = Parts(
    "what is to be brought about",
    top=AmongFirst,
    out=OutOfFirst,
    likely=LikelyShown,
    share=CategoryShare,
    calibrated=CalibratedWithin,
)
AnyGoal = Annotated[Goal, OneOf(GOALS)]


class EffortKind(ABC):
    """What counts as effort."""

    unit: ClassVar[str]

    @abstractmethod
    def costs(self, items: list[object]) -> FloatArray | None:
        """(ratings,): what a change of each item's rating costs, whatever it is; None where it is how far it moves."""


@final
@specified
class Changes(EffortKind):
    """How many ratings change."""

    unit = "ratings changed"

    def costs(self, items: list[object]) -> FloatArray | None:
        """See `EffortKind`."""
        return np.ones(len(items))


@final
@specified
class TotalChange(EffortKind):
    """How far ratings move in all, on the log's scale."""

    unit = "rating points"

    def costs(self, items: list[object]) -> FloatArray | None:
        """See `EffortKind`."""
        return None


@final
@specified
class ItemCosts(EffortKind):
    """A cost for changing the rating of each item: what it takes to see a film, say."""

    by_item: Mapping[Id, Annotated[Number, Field(gt=0)]]
    """The cost of each item, by id."""
    otherwise: Annotated[Number, Field(gt=0)] = 1.0
    """The cost of all others."""
    unit = "cost"

    def costs(self, items: list[object]) -> FloatArray | None:
        """See `EffortKind`."""
        known = {**self.by_item}
        return np.array([float(known.get(item, self.otherwise)) for item in items])  # type: ignore[call-overload]  # ids


EFFORTS = Parts("what counts as effort", changes=Changes, total=TotalChange, costs=ItemCosts)
AnyEffort = Annotated[EffortKind, OneOf(EFFORTS)]
