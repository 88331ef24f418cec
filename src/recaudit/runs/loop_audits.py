"""Audits inside a simulation: the sections of `recaudit audit`, asked again and again while a recommender learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NoReturn, TypeVar, final

import numpy as np
from pydantic import AfterValidator, Field, ValidationError, model_validator

from recaudit.audits.calibration.audit import calibration
from recaudit.audits.result import Result
from recaudit.data import Interactions
from recaudit.engines import Serial
from recaudit.errors import NotSupportedError
from recaudit.interventions import Past
from recaudit.models.base import FittedModel, Recommender
from recaudit.runs.audits import Audit, Calibration, Exposure, Folding, Reachability, Subject
from recaudit.runs.calibration_tables import category_system
from recaudit.runs.problems import problem, together
from recaudit.runs.sections import Section

AnyAudit = TypeVar("AnyAudit", bound=Audit)

_REFUSED = {
    "accuracy": "a loop holds no ratings out, and what it measures offline and at each step is told anyway",
    "agency": "agency fits many models for every answer",
}
"""Audits that cannot be asked in a loop, and why."""
_RERANKING = ("weight", "transform", "curve", "relevant")
"""What a calibration audit is told about making lists anew, which a loop does not do."""


def _of_everybody(audit: AnyAudit) -> AnyAudit:
    if audit.by:
        raise problem(("by",), list(audit.by), "nothing: over time, numbers of all users are kept, not of groups")
    return audit.model_copy(update={"by": ()})


def _without_past(audit: Reachability) -> Reachability:
    if isinstance(audit.actions, Past):
        raise problem(("actions", "kind"), "past", "another kind: a past needs a model that was fitted without it")
    return audit


def _without_tradeoff(audit: Folding) -> Folding:
    if audit.unobserved_weights:
        weights = list(audit.unobserved_weights)
        raise problem(("unobserved_weights",), weights, "nothing: in a loop no model is fitted for an audit")
    return audit


def _without_reranking(audit: Calibration) -> Calibration:
    for name in _RERANKING:
        if name in audit.model_fields_set:
            raise problem((name,), getattr(audit, name), "nothing: in a loop lists are audited as they are shown")
    return audit


@final
class LoopAudits(Section):
    """The audits of every recommender while it learns: those that have a table."""

    every: int = Field(default=0, ge=0)
    """Ask every so many steps, and at the last; 0: at the last alone."""
    exposure: Annotated[Exposure, AfterValidator(_of_everybody)] | None = None
    reachability: Annotated[Reachability, AfterValidator(_of_everybody), AfterValidator(_without_past)] | None = None
    folding: Annotated[Folding, AfterValidator(_of_everybody), AfterValidator(_without_tradeoff)] | None = None
    calibration: Annotated[Calibration, AfterValidator(_of_everybody), AfterValidator(_without_reranking)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _can_be_asked(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        known = [name for name in cls.model_fields if name != "every"]
        wrong: list[ValidationError] = [
            problem((name,), value[name], f"one of {', '.join(known)}: {reason}")
            for name, reason in _REFUSED.items()
            if name in value
        ]
        if wrong:
            raise together(wrong)
        return value

    def chosen(self) -> dict[str, Audit]:
        """The audits asked for, by name."""
        named = {name: getattr(self, name) for name in type(self).model_fields if name != "every"}
        return {name: audit for name, audit in named.items() if audit is not None}

    def observers(self, rng: int) -> dict[str, Observing]:
        """The same, as a loop asks them."""
        return {name: Observing(audit, rng) for name, audit in self.chosen().items()}


@final
class _Loop(Recommender):
    """The recommender of a loop, in the eyes of an audit: models come from the loop, and nothing else is fitted."""

    def fit(self, data: Interactions, rng: int = 0) -> NoReturn:
        """Not for an audit to do."""
        raise NotSupportedError("An audit inside a simulation cannot fit further models: ask it of a run instead.")


@final
@dataclass(frozen=True)
class Observing:
    """A model in, the audit's result out; the same words for the same settings in every process."""

    audit: Audit
    rng: int

    def __call__(self, model: FittedModel) -> Result:
        """Ask about the model and the log that it was fitted to; nothing is held out."""
        audit, data = self.audit, model.data
        if isinstance(audit, Calibration):
            return calibration(
                model,
                k=audit.k,
                categories=category_system(audit.categories, data),
                rank_weights=audit.rank_weights,
                smoothing=audit.smoothing,
                tested=audit.tested,
                by=audit.by,
                confidence=audit.confidence,
                samples=audit.samples,
                rng=self.rng,
            )
        nothing = data.subset(np.zeros(len(data), dtype=bool))
        return audit.run(Subject(_Loop(), model, data, nothing), self.rng, Serial())
