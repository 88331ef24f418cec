"""The audits that a configuration can ask for: one section each, with the settings of its audit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Literal, final

from pydantic import BeforeValidator, Field, NonNegativeInt, PlainValidator, PositiveFloat, PositiveInt

from recaudit import audits
from recaudit.audits.agency.audit import agency
from recaudit.audits.agency.fits import Fits
from recaudit.audits.agency.sweeps import BETAS, HORIZONS
from recaudit.audits.calibration.curve import WEIGHTS
from recaudit.audits.candidates import Candidates
from recaudit.audits.folding.bench import Bench
from recaudit.audits.folding.vectors import vectors_of
from recaudit.audits.result import Result
from recaudit.audits.samples import asked_users
from recaudit.data import Interactions
from recaudit.engines import Engine
from recaudit.interventions import (
    Actions,
    Future,
    FutureEdits,
    GivenItems,
    HistoryEdits,
    Interval,
    NextK,
    Past,
    Stars,
)
from recaudit.metrics.groupings import groupings
from recaudit.metrics.intervals import Bootstrap
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.factor.wals import WALS
from recaudit.policies import EpsilonGreedy, Policy, Power, Softmax, Top1
from recaudit.policies.calibrated import Calibrated, ScoreTransform
from recaudit.runs.calibration_tables import Reranking, category_system
from recaudit.runs.folding_tables import (
    LOG,
    check_relatedness,
    relatedness_of,
    with_each_relatedness,
    with_evidence,
    with_tradeoff,
)
from recaudit.runs.sections import Section, by_kind
from recaudit.runs.worked_example import with_worked_example
from recaudit.solvers.distance.distances import Distance

POLICIES: Mapping[str, type[Policy]] = MappingProxyType(
    {"top-1": Top1, "softmax": Softmax, "epsilon-greedy": EpsilonGreedy, "power": Power}
)
ACTIONS: Mapping[str, type[Actions | Future]] = MappingProxyType(
    {
        "next-k": NextK,
        "history-edits": HistoryEdits,
        "future-edits": FutureEdits,
        "given-items": GivenItems,
        "past": Past,
        "future": Future,
    }
)
RATINGS: Mapping[str, type[Interval | Stars]] = MappingProxyType({"interval": Interval, "stars": Stars})
SOFTMAX_ONLY: Mapping[str, type[Softmax]] = MappingProxyType({"softmax": Softmax})


@final
@dataclass(frozen=True, eq=False)
class Subject:
    """What is audited: a recommender, fitted to a part of a log."""

    recommender: Recommender
    model: FittedModel
    """Fitted to the training part."""
    data: Interactions
    """The whole log."""
    test: Interactions
    """The part that was held out."""


class Audit(Section, ABC):
    """What every audit can be told."""

    confidence: float = Field(default=0.95, gt=0, lt=1)
    """The level of the bootstrap intervals."""
    samples: int = Field(default=1000, ge=2)
    """How often users are drawn anew for an interval."""
    by: tuple[str, ...] | None = None
    """The groupings to report: user attributes, category systems, "history", "popularity"; else all."""

    def check(self, data: Interactions) -> None:
        """That the data offers what the settings name: told before anything is fitted."""
        groupings(data, self.by)

    @abstractmethod
    def run(self, subject: Subject, rng: int, engine: Engine) -> Result:
        """The answer for this fitted model; `NotSupportedError` where the model has none."""


class ListAudit(Audit, ABC):
    """What every audit of lists can be told."""

    k: int = Field(default=10, ge=1)
    """How many items a list has."""


@final
class Accuracy(ListAudit):
    """How well held-out ratings are predicted and found again."""

    relevant: float | None = None
    """The rating from which on a held-out item counts as relevant."""

    def run(self, subject: Subject, rng: int, engine: Engine) -> Result:
        """Compare with the held-out ratings."""
        return audits.accuracy(
            subject.model,
            subject.test,
            k=self.k,
            relevant=self.relevant,
            by=self.by,
            confidence=self.confidence,
            samples=self.samples,
            rng=rng,
            engine=engine,
        )


@final
class Exposure(ListAudit):
    """Which items are shown, and how popular they are."""

    policy: Annotated[Policy, PlainValidator(by_kind(POLICIES))] = Top1()
    """How scores become a list."""

    def run(self, subject: Subject, rng: int, engine: Engine) -> Result:
        """Look at everybody's list; held-out ratings play no part."""
        return audits.exposure(
            subject.model,
            k=self.k,
            policy=self.policy,
            by=self.by,
            confidence=self.confidence,
            samples=self.samples,
            rng=rng,
            engine=engine,
        )


@final
class Reachability(Audit):
    """What users can get recommended by changing their ratings."""

    actions: Annotated[
        Actions | Future,
        PlainValidator(by_kind(ACTIONS, ratings=by_kind(RATINGS), follows=by_kind(POLICIES))),
    ] = NextK(10)
    """Which ratings are free, and within which bounds. For "past", the model is one without those ratings."""
    policy: Annotated[Policy, PlainValidator(by_kind(POLICIES))] = Softmax(beta=2.0)
    """How scores become a recommendation."""
    users: int | None = Field(default=None, ge=1)
    """How many users to ask, drawn at random, the same for every model; all where nothing is said."""
    candidates: Candidates = "unseen"
    """What is chosen from: items that are neither seen nor acted on, or all but the acted on."""
    tolerance: float = Field(default=1e-6, gt=0)
    """How far apart the bounds on a solved pair's log-probability may be."""

    def run(self, subject: Subject, rng: int, engine: Engine) -> Result:
        """Solve every pair of the users asked; held-out ratings play no part but as somebody's past."""
        model, data = subject.model, None
        if isinstance(self.actions, Past):
            data = subject.data
            model = Fits(subject.recommender, [model], rng).of(self.actions.before(data))
        ask = partial(
            audits.reachability,
            model,
            data,
            actions=self.actions,
            policy=self.policy,
            candidates=self.candidates,
            tolerance=self.tolerance,
            rng=rng,
            engine=engine,
        )
        found = ask(users=None if self.users is None else asked_users(model.data, self.users, rng))
        result = found.aggregate(by=self.by, confidence=self.confidence, samples=self.samples, rng=rng)
        return with_worked_example(
            result, lambda user, item: ask(users=[user], targets=[item], best_actions=True).frame
        )


@final
class Agency(Audit):
    """What users can do to their own recommendations, and others to them, in hindsight and from now on."""

    k: PositiveInt = 5
    """How many ratings are free. With the split leave-last and the same k, hindsight needs no other model."""
    horizons: tuple[PositiveInt, ...] = HORIZONS
    """Other numbers of ratings, for the curves; the model is fitted again for each."""
    betas: tuple[PositiveFloat, ...] = BETAS
    """Other betas of the policy, for the curves."""
    policy: Annotated[Softmax, PlainValidator(by_kind(SOFTMAX_ONLY))] = Softmax(beta=2.0)
    """How scores become a recommendation."""
    distance: Distance = "hellinger"
    """How far apart two distributions are."""
    users: PositiveInt = 100
    """How many users to ask, drawn at random, the same for every model."""
    followed: PositiveInt = 20
    """How many of them to follow into the future, which takes the longest."""
    targets: PositiveInt = 100
    """How many items to ask about."""
    editors: PositiveInt = 100
    """How many others to ask about."""

    def run(self, subject: Subject, rng: int, engine: Engine) -> Result:
        """Ask about the whole log: its last ratings are the past, what comes after it the future."""
        return agency(
            subject.recommender,
            subject.data,
            k=self.k,
            horizons=self.horizons,
            betas=self.betas,
            policy=self.policy,
            distance=self.distance,
            users=self.users,
            followed=self.followed,
            targets=self.targets,
            editors=self.editors,
            fitted=[subject.model],
            by=self.by,
            confidence=self.confidence,
            samples=self.samples,
            rng=rng,
            engine=engine,
        )


def _several(names: object) -> object:
    """A single name stands for a list of one."""
    return [names] if isinstance(names, str) else names


@final
class Folding(ListAudit):
    """How much nearer the model places users to items than they are related to them."""

    relatedness: Annotated[tuple[str, ...], BeforeValidator(_several), Field(min_length=1)] = (LOG,)
    """From who rated what ("log"), or from what items are about (the name of a category system); of several the first
    is what the numbers stand on, the others are set beside it."""
    similarity: Literal["cosine", "dot"] = "cosine"
    """Of the model's user and item vectors."""
    unrelated: float = Field(default=0.1, ge=0, le=1)
    """A shown item is spurious if its relatedness to the user is below this..."""
    similar: float = Field(default=0.3, allow_inf_nan=False)
    """...although its similarity is above this."""
    sample: int | None = Field(default=None, ge=2)
    """How many users to take, drawn at random; all where nothing is said."""
    unobserved_weights: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] = ()
    """For WALS models, the trade-off: the model is fitted again with each of these weights of unrated pairs."""

    def check(self, data: Interactions) -> None:
        """Groupings and category systems."""
        super().check(data)
        check_relatedness(self.relatedness, data)

    def run(self, subject: Subject, rng: int, engine: Engine) -> Result:
        """Look at all pairs and everybody's list; held-out ratings only count for the trade-off."""
        data = subject.model.data
        vectors_of(subject.model)  # a model without vectors is told before any work is done
        related = {name: relatedness_of(name, data) for name in self.relatedness}
        ask = partial(
            audits.folding,
            subject.model,
            similarity=self.similarity,
            k=self.k,
            unrelated=self.unrelated,
            similar=self.similar,
            sample=self.sample,
            confidence=self.confidence,
            samples=self.samples,
            rng=rng,
            engine=engine,
        )
        first, *others = self.relatedness
        found = ask(related[first], by=self.by)
        result = with_evidence(found, self.relatedness, rng, engine)
        if others:
            beside = {name: ask(related[name], by=()).result for name in others}
            result = with_each_relatedness(result, {first: found.result, **beside})
        if self.unobserved_weights and isinstance(subject.recommender, WALS):
            measured_by = {first: related[first]}
            bench = Bench(data, subject.test, measured_by, self.similarity, self.k, None, engine)
            result = with_tradeoff(result, bench, subject.recommender, self.unobserved_weights, rng)
        return result


@final
class Calibration(Audit):
    """Whether lists keep users' interests in proportion, and what becomes of everything else if they are made to."""

    k: PositiveInt = 50
    """How many items a list has."""
    categories: str | None = None
    """The category system; the log's first where nothing is said."""
    weight: float = Field(default=0.99, ge=0, le=1)
    """Lambda of the re-ranked lists: from 0, the scores alone, to 1, calibration alone."""
    transform: ScoreTransform = "minmax"
    """What becomes of a user's scores before they are weighed: on one scale, a weight means much the same for all."""
    smoothing: float = Field(default=0.01, gt=0, lt=1)
    """Alpha of C_KL, which depends on it."""
    rank_weights: Literal["none", "mrr", "ndcg"] = "none"
    """How much a place of the list counts."""
    curve: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=2)] = WEIGHTS
    """Lambdas along which recall and calibration are measured."""
    relevant: float | None = None
    """The rating from which on a held-out item counts as relevant."""
    tested: NonNegativeInt = 1000
    """How many users to test for a difference between list and taste beyond chance."""

    def check(self, data: Interactions) -> None:
        """Groupings and the category system."""
        super().check(data)
        if self.categories is not None:
            category_system(self.categories, data)

    def run(self, subject: Subject, rng: int, engine: Engine) -> Result:
        """Look at everybody's list as ranked and re-ranked; held-out ratings count for accuracy alone."""
        data = subject.model.data
        policy = Calibrated(
            weight=self.weight,
            size=self.k,
            categories=category_system(self.categories, data),
            rank_weights=self.rank_weights,
            smoothing=self.smoothing,
            transform=self.transform,
        )
        bootstrap = Bootstrap(self.confidence, self.samples, rng)
        parts = (self.relevant, self.tested, self.by, bootstrap, engine)
        return Reranking(subject.model, subject.test, policy, *parts).result(self.curve)


@final
class Audits(Section):
    """The audits of a run: those that have a table."""

    accuracy: Accuracy | None = None
    exposure: Exposure | None = None
    reachability: Reachability | None = None
    agency: Agency | None = None
    folding: Folding | None = None
    calibration: Calibration | None = None

    def chosen(self) -> dict[str, Audit]:
        """The audits asked for, by name."""
        named = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: audit for name, audit in named.items() if audit is not None}
