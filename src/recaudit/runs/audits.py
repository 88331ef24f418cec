"""The audits that a configuration can ask for: one section each, with the settings of its audit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, final

from pydantic import Field, PlainValidator

from recaudit import audits
from recaudit.audits.result import Result
from recaudit.data import Interactions
from recaudit.engines import Engine
from recaudit.models.base import FittedModel
from recaudit.policies import EpsilonGreedy, Policy, Power, Softmax, Top1
from recaudit.runs.sections import Section, by_kind

POLICIES: Mapping[str, type[Policy]] = MappingProxyType(
    {"top-1": Top1, "softmax": Softmax, "epsilon-greedy": EpsilonGreedy, "power": Power}
)


class Audit(Section, ABC):
    """What every audit can be told."""

    k: int = Field(default=10, ge=1)
    """How many items a list has."""
    confidence: float = Field(default=0.95, gt=0, lt=1)
    """The level of the bootstrap intervals."""
    samples: int = Field(default=1000, ge=2)
    """How often users are drawn anew for an interval."""
    by: tuple[str, ...] | None = None
    """The groupings to report: user attributes, category systems, "history", "popularity"; else all."""

    @abstractmethod
    def run(self, model: FittedModel, test: Interactions, rng: int, engine: Engine) -> Result:
        """The answer for this fitted model."""


@final
class Accuracy(Audit):
    """How well held-out ratings are predicted and found again."""

    relevant: float | None = None
    """The rating from which on a held-out item counts as relevant."""

    def run(self, model: FittedModel, test: Interactions, rng: int, engine: Engine) -> Result:
        """Compare with the held-out ratings."""
        return audits.accuracy(
            model,
            test,
            k=self.k,
            relevant=self.relevant,
            by=self.by,
            confidence=self.confidence,
            samples=self.samples,
            rng=rng,
            engine=engine,
        )


@final
class Exposure(Audit):
    """Which items are shown, and how popular they are."""

    policy: Annotated[Policy, PlainValidator(by_kind(POLICIES))] = Top1()
    """How scores become a list."""

    def run(self, model: FittedModel, test: Interactions, rng: int, engine: Engine) -> Result:
        """Look at everybody's list; held-out ratings play no part."""
        return audits.exposure(
            model,
            k=self.k,
            policy=self.policy,
            by=self.by,
            confidence=self.confidence,
            samples=self.samples,
            rng=rng,
            engine=engine,
        )


@final
class Audits(Section):
    """The audits of a run: those that have a table."""

    accuracy: Accuracy | None = None
    exposure: Exposure | None = None

    def chosen(self) -> dict[str, Audit]:
        """The audits asked for, by name."""
        named = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: audit for name, audit in named.items() if audit is not None}
