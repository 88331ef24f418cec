"""What an audit asks (paper 001, section 3.2), with a quantifier: at given ratings, or the largest over all allowed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import UnionType
from typing import final

from recaudit.audits.recipe.parts import At, Functional, Max, Outcome, Quantifier, RatingsReceived
from recaudit.errors import InputError
from recaudit.interventions import Actions, Future, HistoryEdits, Past
from recaudit.interventions.who import Deployed, Intervention, Nothing, Others, Own


class Rung(StrEnum):
    """Pearl's ladder of causation: what kind of question an audit asks."""

    ASSOCIATIONAL = "associational"
    """What is: read off the system as it runs."""
    INTERVENTIONAL = "interventional"
    """What will be, if something is done."""
    COUNTERFACTUAL = "counterfactual"
    """What would be, had something been done otherwise."""


def rung_of(intervention: Intervention) -> Rung:
    """Where questions about an intervention stand on the ladder; `Recipe.rung` says why."""
    match intervention:
        case Nothing():
            return Rung.ASSOCIATIONAL
        case Own(Past() | HistoryEdits()) | Others(Past() | HistoryEdits()):
            return Rung.COUNTERFACTUAL
        case _:
            return Rung.INTERVENTIONAL


@final
@dataclass(frozen=True)
class Recipe:
    """What an audit asks, as a value of four parts.

    `Recipe(Others(Past(5)), PredictedRating(), Change(), Max())` asks how far one person's last five ratings can move
    what is predicted for another. `over` stays out where nobody chooses ratings: with `Nothing()` and `Deployed()`.
    """

    intervention: Intervention
    outcome: Outcome
    functional: Functional
    over: Quantifier | None = None

    def __post_init__(self) -> None:
        self._check_types()
        self._check_sense()

    @property
    def rung(self) -> Rung:
        """Where the question stands on the ladder. It follows from the intervention, so it is never declared.

        - Associational where nothing is changed: the number is a function of the distribution that is observed
          (paper 001, section 3.2).
        - Counterfactual where ratings that were given are changed in hindsight, `Past` and `HistoryEdits`: the items
          are those of the factual history and stay, so the number speaks about what did happen and about what would
          have, which no experiment shows together (section 4.1 after Definition 4.2; Pearl 2009, chapter 7).
        - Interventional otherwise: do() sets something that has not happened yet, or sets it whatever happened. The
          next ratings, of items that the system shows (`NextK`, `Future`: Definitions 4.1 and 4.3) or that are drawn
          from the unseen (`FutureEdits`); the ratings of items that the auditor names, rated before or not
          (`GivenItems`); the recommender itself (`Deployed`: do(A), section 3.2).

        Section 4.1 writes paper 000's reachability with do() whichever items are acted on. Of its action spaces,
        history edits are retrospective and count as counterfactual here.
        """
        return rung_of(self.intervention)

    def __str__(self) -> str:
        number, rung = self.functional.of(self.outcome), f"({self.rung})"
        match self.intervention:
            case Nothing():
                return f"The {number}, with nothing changed {rung}"
            case Deployed():
                return f"The {number}, with the recommender deployed over time {rung}"
            case Own():
                free = f"a user's {self.intervention}"
            case _:
                free = str(self.intervention)
        match self.over:
            case Max(of=None):
                return f"The largest {number} over {free} {rung}"
            case Max(of=Functional() as best):
                return f"The {number} where the {best.of(self.outcome)} is largest over {free} {rung}"
            case _:
                return f"The {number} with {free} set to {self.over} {rung}"

    def _check_types(self) -> None:
        unwrapped = isinstance(self.intervention, Actions | Future)
        parts: list[tuple[str, object, type | UnionType, str]] = [
            ("intervention", self.intervention, Intervention, "Nothing(), Own(...), Others(...) or Deployed()"),
            ("outcome", self.outcome, Outcome, "an outcome, such as Probability() or PredictedRating()"),
            ("functional", self.functional, Functional, "a functional, such as Value() or Moved()"),
            ("over", self.over, Quantifier, "Max() or At(ratings), or nothing"),
        ]
        for field, part, kind, expected in parts:
            if isinstance(part, kind) or (field == "over" and part is None):
                continue
            remedy = f"Say whose ratings they are: Own({part!r}) or Others({part!r})." if unwrapped else ""
            if isinstance(part, type) and issubclass(part, kind):
                remedy = f"Make one of it: {part.__name__}()."
            raise InputError(field, received=part, expected=expected, remedy=remedy)

    def _check_sense(self) -> None:
        """Refuse what no number could answer, with the reason."""
        acts = isinstance(self.intervention, Own | Others)
        if not isinstance(self.outcome, self.functional.fits):
            fitting = ", ".join(outcome.__name__ for outcome in self.functional.fits)
            raise InputError(
                "functional",
                received=f"{self.functional!r} of {self.outcome!r}",
                expected=f"an outcome that has a {self.functional}: {fitting}",
            )
        if self.functional.compares and not acts:
            raise InputError(
                "functional",
                received=f"{self.functional!r} with {self.intervention!r}",
                expected="a functional that compares with nothing, since no ratings are changed",
                remedy="Change ratings, with Own(...) or Others(...), or take another functional.",
            )
        if acts and self.over is None:
            raise InputError(
                "over",
                received=f"nothing, with {self.intervention!r}",
                expected="Max() or At(ratings): which of the allowed ratings is it about?",
            )
        if not acts and self.over is not None:
            raise InputError(
                "over",
                received=f"{self.over!r} with {self.intervention!r}",
                expected="nothing: there are no ratings to choose",
                remedy="Leave it out.",
            )
        if isinstance(self.intervention, Own) and isinstance(self.outcome, RatingsReceived):
            raise InputError(
                "outcome",
                received=f"{self.outcome!r} with {self.intervention!r}",
                expected="something that follows from the ratings: these are the ratings",
                remedy="Look at Probability(), or let others act: Others(...).",
            )
        self._check_quantifier()

    def _check_quantifier(self) -> None:
        best = self.over.of if isinstance(self.over, Max) else None
        if best is not None and (best == self.functional or not isinstance(self.outcome, best.fits)):
            raise InputError(
                "over",
                received=f"{self.over!r} for {self.functional!r} of {self.outcome!r}",
                expected="another functional of the same outcome to be made largest",
                remedy="Max() makes the audit's own functional largest.",
            )
        match self.intervention, self.over:
            case ((Own(Actions(changes=int())) | Others(Actions(changes=int()))), At()):
                raise InputError(
                    "over",
                    received=f"{self.over!r} with {self.intervention!r}",
                    expected="Max(): with the ratings given, nothing is left for a limit on changes to decide",
                    remedy="Leave changes out.",
                )
