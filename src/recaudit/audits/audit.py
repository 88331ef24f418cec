"""What an audit is: a frozen specification that is run on a recommender and gives a result.

Verb, table of a configuration file, audit inside a simulation's loop, catalogue, definitions and help follow from it.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, final

import numpy as np
import polars as pl
from pydantic import Field

from recaudit.arguments import check_argument
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.failures import failed_pair_facts
from recaudit.audits.overlap import describe_overlap
from recaudit.audits.recipe.recipe import Recipe, Rung
from recaudit.audits.result import Result, Table
from recaudit.audits.samples import Effort
from recaudit.audits.spill import Rows, gathered
from recaudit.audits.spread import resolved
from recaudit.data.interactions import Interactions
from recaudit.data.lists import may_hold_lists
from recaudit.engines import Engine, Serial
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Past
from recaudit.metrics.groupings import BOTH, Units, groupings
from recaudit.metrics.inference import Bounds
from recaudit.metrics.intervals import Ratio, aggregate, mean
from recaudit.metrics.metric import Metric
from recaudit.metrics.tables import people_table, user_table
from recaudit.metrics.terms import term_parts
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.checks import check_device
from recaudit.models.given.answers import answer_facts, start_part
from recaudit.registry import AUDITS
from recaudit.specification import Specification


@final
@dataclass(frozen=True, eq=False)
class Subject:
    """What is audited: a fitted model, and what else is known about it."""

    model: FittedModel | None = None
    recommender: Recommender | None = None
    """What fits such models: for audits that need others than the one at hand."""
    data: Interactions | None = None
    """The whole log; the model's own where it is None."""
    test: Interactions | None = None
    """What was held out."""
    lists: object | None = None
    """Lists that a system has shown, in the place of a model: a frame or a file with user, item, and rank or score."""
    history: Interactions | None = None
    """The log that lists are compared with; the model's own where it is None."""


@final
@dataclass(frozen=True)
class Context:
    """How the work is done: the seed that chance follows from, and what computes; only the seed changes a number."""

    rng: int = 0
    engine: Engine = field(default_factory=Serial)
    device: str = "cpu"


_ALWAYS = ("k", "policy", "actions", "edits")
"""Settings that are told even where they are the default."""
AnyResult = TypeVar("AnyResult", bound=Result)
CountMetrics = tuple[Sequence[str], Callable[[FloatArray], FloatArray]]


class Audit(Specification, ABC):
    """A question about a recommender, with everything that its answer depends on."""

    metrics: ClassVar[tuple[Metric, ...]] = ()
    """What it measures."""
    borrowed: ClassVar[frozenset[str]] = frozenset()
    """The names of those metrics that another audit defines, and this one reports as well."""
    needs: ClassVar[tuple[str, ...]] = ("model",)
    """What a subject must have: "model", "test" (held-out ratings), "recommender" (to fit others), "data" (a log)."""
    second: ClassVar[str] = "data"
    """What the verb's second argument is: "data", "test" or "history"."""
    takes_lists: ClassVar[bool] = False
    """Whether it can be asked about lists without their model."""
    uses_device: ClassVar[bool] = False
    """Whether it can be computed on another device than the CPU; `idle` says with which settings it cannot."""
    drawn: ClassVar[tuple[str, ...]] = ()
    """Settings that may be a number of people to draw: two results with other draws are about the same population."""
    measures_all: ClassVar[bool] = False
    """Whether everybody is measured whoever is drawn: only some of its questions are about those people alone."""
    has_floor: ClassVar[bool] = True
    """Whether a random and a most-popular recommender are put to it too: not where it asks what a change would do."""
    split_by: ClassVar[tuple[Units, ...]] = BOTH
    """What its numbers can be split by: groups of "users", of "items", or nothing. Another `by` is refused."""
    not_in_loop: ClassVar[tuple[str, ...]] = ()
    """Settings that ask for more than a model, and so have no meaning inside a simulation's loop."""
    result: ClassVar[type[Result]] = Result
    """What it gives back."""

    by: tuple[str, ...] | None = None
    """The groupings to report: user attributes, category systems, "history", "popularity"; else all."""
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence level of the intervals."""

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """What differs from the defaults, and what a reader always wants to know: it has many settings."""
        fields = type(self).model_fields
        return [
            (name, value)
            for name, value in self
            if name in _ALWAYS or value != fields[name].get_default(call_default_factory=True)
        ]

    @property
    def recipe(self) -> Recipe | None:
        """Who changes what, what is looked at, how it becomes a number, over which ratings: the rung follows."""
        return None

    @property
    def rung(self) -> Rung | None:
        """Where the question stands on the causal ladder; None where the audit does not say."""
        return None if self.recipe is None else self.recipe.rung

    def check(self, data: Interactions) -> None:
        """That the log offers what the settings name: known before anything is fitted."""
        self._check_split()
        groupings(data, self.by, self.split_by)
        self._check_times(data)

    def _check_times(self, data: Interactions) -> None:
        """Refuse a log without times if a setting is about the last ratings."""
        if data.times is not None:
            return
        for name, value in self:
            actions = getattr(value, "actions", value)  # those of an intervention
            if isinstance(actions, Past):
                default = "" if name in self.model_fields_set else ", the default,"
                raise InputError(
                    name,
                    received=f"the last ratings{default} of a log without times",
                    expected="a log with times, or ratings of other items",
                    remedy="Name the column of times (time = 'timestamp', for instance), or choose other ratings: "
                    f"{{kind = 'next-k', k = {actions.k}}}, in Python NextK({actions.k}).",
                )

    def _check_split(self) -> None:
        if self.by and not self.split_by:
            expected = f"nothing: the numbers of {AUDITS.kind_of(self)} are of everybody, and cannot be split"
            raise InputError("by", received=list(self.by), expected=expected, remedy="Leave it out.")

    def drawn_from(self, data: Interactions) -> Self:
        """The same audit, which says how many people it draws from this log where nothing was said."""
        effort = self.asking_effort(data)
        if effort is None or getattr(self, self.drawn[0]) is not None:
            return self
        count = effort.people(data.n_users)
        return self if count == data.n_users else self.model_copy(update={self.drawn[0]: count})

    def bounds_of(self, metric: Metric) -> Bounds:
        """Return the smallest and largest value that a user can have of a metric with these settings.

        By default those that the metric declares. An audit whose settings set a bound overrides it: a Hellinger
        distance is at most 1, a Kullback-Leibler divergence has no upper bound.
        """
        return metric.bounds

    @property
    def metric_bounds(self) -> Mapping[str, Bounds]:
        """Smallest and largest value that a user can have, by metric."""
        return {metric.name: self.bounds_of(metric) for metric in self.metrics}

    def asking_effort(self, data: Interactions) -> Effort | None:
        """What it costs to ask about somebody, by which people are drawn where nothing is said; None where all are."""
        return None

    def idle(self, model: FittedModel | None) -> str:
        """Why another device than the CPU would stand idle, as the end of a sentence; empty where it is used."""
        return "" if self.uses_device else f"is not used by {AUDITS.kind_of(self)}, which is computed on the CPU"

    def check_loop(self) -> None:
        """That nothing is asked for that a simulation's loop cannot give."""
        lacking = [_NEEDED[need] for need in self.needs if need != "model"]
        kind = AUDITS.kind_of(self)
        if lacking:
            needs = " and ".join(lacking)
            expected = f"one of {', '.join(loop_audits())}: {kind} needs {needs}, which a loop does not have"
            raise InputError(kind, received="an audit inside a simulation", expected=expected)
        if self.by:
            raise InputError("by", received=list(self.by), expected="nothing: over time, numbers of all users are kept")
        for name in self.not_in_loop:
            if name in self.model_fields_set and getattr(self, name):
                reason = "nothing: in a loop no other model or list is made for an audit"
                raise InputError(name, received=getattr(self, name), expected=reason)

    @final
    def run(
        self, subject: Subject | FittedModel, *, rng: int = 0, engine: Engine | None = None, device: str = "cpu"
    ) -> Result:
        """The answer for this model; `NotSupportedError` where the model has none, or the device would stand idle.

        The same seed gives the same numbers, whatever the engine and its workers; a GPU's differ in their last digits.
        """
        subject = subject if isinstance(subject, Subject) else Subject(model=subject)
        check_argument("model", subject.model, FittedModel | None)
        check_argument("rng", rng, int)
        check_argument("device", device, str)
        if subject.recommender is None and subject.model is not None:
            subject = replace(subject, recommender=subject.model.recommender)
        for need in self.needs:
            instead = need == "model" and self.takes_lists and subject.lists is not None
            if getattr(subject, need) is None and not instead:
                raise InputError(
                    need, received="nothing", expected=f"{_NEEDED[need]}, which {type(self).__name__} needs"
                )
        if device != "cpu":
            if idle := self.idle(subject.model):
                raise NotSupportedError(f"device={device!r} {idle}: leave device out.")
            check_device(device)
        self._check_split()
        context = Context(rng, engine or Serial(), device)
        log = subject.data or (None if subject.model is None else subject.model.data)
        if log is not None:
            self._check_times(log)
        service = getattr(subject.model, "service", None)
        part = start_part(service)
        audit, facts = resolved(self, subject, context)
        result = audit.measure(subject, context)
        result.facts.update(facts | failed_pair_facts(subject.model, result) | answer_facts(service, part))
        if subject.test is not None and "test" in self.needs:
            train = (subject.data or subject.history) if subject.model is None else subject.model.data
            assert train is not None
            result.facts["overlap"] = describe_overlap(train, subject.test)
        return result

    @abstractmethod
    def measure(self, subject: Subject, context: Context) -> Result:
        """The answer; the subject has what the audit needs."""

    def observe(self, model: FittedModel, rng: int) -> Result:
        """The answer inside a simulation's loop, about a model that has just learned; nothing is held out."""
        return self.model_copy(update={"by": ()}).run(model, rng=rng)

    def per_user(self, data: Interactions, values: Mapping[str, FloatArray], rng: int, **tables: Table) -> Result:
        """A result of metrics that each user has a value of (users,), NaN for none: means, and means by group of users.

        `tables` are further ones, by name.
        """
        ratios = [mean(name, own, np.ones(data.n_users)) for name, own in values.items()]
        ratios += [
            mean(name, own, members, grouping.by, group)
            for grouping in groupings(data, self.by, ["users"])
            for group, members in zip(grouping.names, grouping.weights.T, strict=True)
            for name, own in values.items()
        ]
        users = user_table(data.user_ids, values)
        return self.result(self, self.aggregated(ratios, data) | {"users": users, **tables}, rng=rng)

    def aggregated(
        self,
        ratios: list[Ratio],
        data: Interactions | None,
        at: IntArray | None = None,
        ids: pl.Series | None = None,
    ) -> dict[str, Any]:
        """The tables "summary" and "groups" of these numbers, and what two results are compared by, user for user.

        These are the "terms" that each user adds to a number, and "people", who belongs to which group. `at` (users,)
        are positions in the log of those whom the ratios are about, -1 for who is not in it, and all of its users by
        default; `ids` are theirs, as the log has them by default.
        """
        slices = [] if data is None else [each for each in groupings(data, self.by) if each.over == "users"]
        if data is not None:
            at = np.arange(data.n_users) if at is None else at
            ids = data.user_ids.gather(at) if ids is None else ids
        assert ids is not None
        summary, groups = aggregate(ratios, self.metric_bounds, self.confidence)
        people = people_table(ids, at, slices)
        kept = [ratio for ratio in ratios if ratio.by not in people.columns]
        return {"summary": summary, "groups": groups, "terms": partial(_terms, kept, ids), "people": people}

    def of_counts(self, items: pl.DataFrame) -> CountMetrics:
        """Which of its metrics are made of how often each item is shown, and how, by its table of `items`.

        The function makes (rows, metrics) of counts (rows, items); the table "lists" has the lists.
        """
        return (), np.asarray


def _terms(ratios: list[Ratio], ids: pl.Series) -> Rows:
    """What each user adds to each number: in files, where that is much."""
    return gathered(term_parts(ratios, ids))


_LISTS = "Or hand in lists that were shown: a pandas, polars or pyarrow data frame, or the path of a file."
_NEEDED = {
    "model": "a fitted model",
    "test": "held-out ratings",
    "recommender": "a recommender that fits further models",
    "data": "a log",
}


class ListAudit(Audit, ABC):
    """An audit of lists."""

    k: Annotated[int, Field(ge=1)] = 10
    """How many items a list has."""


def loop_audits() -> list[str]:
    """The names of the audits that a simulation's loop can ask."""
    return [name for name, audit in AUDITS.items() if audit.needs == ("model",)]


def definitions() -> dict[str, Metric]:
    """Every metric of every audit, by name."""
    return {metric.name: metric for audit in AUDITS.values() for metric in audit.metrics}


@final
class Verb(Generic[AnyResult]):
    """An audit as a function: `reachability(model, policy=...)` is `Reachability(policy=...).run(model)`."""

    def __init__(self, audit: type[Audit], result: type[AnyResult]) -> None:
        self.audit = audit
        self.__name__ = self.__qualname__ = re.sub(r"\B(?=[A-Z])", "_", audit.__name__).lower()
        self.__doc__ = _documented(audit)
        kinds = inspect.Parameter
        first = "recommender" if "model" not in audit.needs else "model"
        required = audit.second in audit.needs
        self.__signature__ = inspect.Signature(
            [
                kinds(first, kinds.POSITIONAL_OR_KEYWORD),
                kinds(audit.second, kinds.POSITIONAL_OR_KEYWORD, default=kinds.empty if required else None),
                *inspect.signature(audit).parameters.values(),
                kinds("rng", kinds.KEYWORD_ONLY, default=0, annotation=int),
                kinds("engine", kinds.KEYWORD_ONLY, default=None, annotation=Engine | None),
                kinds("device", kinds.KEYWORD_ONLY, default="cpu", annotation=str),
            ],
            return_annotation=result,
        )

    def __call__(
        self,
        model: FittedModel | Recommender | Subject | Any,
        data: Interactions | None = None,
        *,
        rng: int = 0,
        engine: Engine | None = None,
        device: str = "cpu",
        **settings: Any,
    ) -> AnyResult:
        """Make the audit and run it."""
        if self.audit.second in settings:
            data = settings.pop(self.audit.second)
        check_argument(self.audit.second, data, Interactions | None)
        audit = self.audit(**settings)
        if not isinstance(model, Subject):
            second: dict[str, Any] = {self.audit.second: data}
            if self.audit.takes_lists and may_hold_lists(model):
                model = Subject(lists=model, **second)
            else:
                hint: Any = FittedModel | Recommender
                check_argument("model", model, Annotated[hint, _LISTS] if self.audit.takes_lists else hint)
                fitted, recommender = (None, model) if isinstance(model, Recommender) else (model, None)
                model = Subject(model=fitted, recommender=recommender, **second)
        return audit.run(model, rng=rng, engine=engine, device=device)  # type: ignore[return-value]  # its own class

    def __repr__(self) -> str:
        return f"<audit {self.__name__}>"


def _documented(audit: type[Audit]) -> str:
    """The audit's docstring, and its settings with theirs."""
    lines = [inspect.getdoc(audit) or "", "", "Settings:"]
    for name, about in audit.model_fields.items():
        lines.append(f"    {name} (default: {about.get_default(call_default_factory=True)!r})")
        lines.append(f"        {about.description or ''}")
    return "\n".join(lines)
