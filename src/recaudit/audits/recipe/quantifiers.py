"""Over which of the allowed ratings a number is taken: the last part of an audit's recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

from recaudit.audits.recipe.functionals import AnyFunctional, Functional
from recaudit.errors import InputError
from recaudit.specification import OneOf, Parts


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


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
