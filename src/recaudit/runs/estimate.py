"""What a run will take, before it starts: every step timed on slices of the log, by the code that will do it.

A step is timed on two slices of users, a small one and one of four times as many, with the whole catalogue. What grows
with users is then told from what does not: `a + b x` where the time grows no faster than the slice, a power of x where
it does (pairs of users). A recommender whose fit grows with the catalogue is timed on slices of items instead, with all
users, and so are the audits of it. Within an audit the first pieces of a map are worked out, and the others take as
long as those did and give the same answers: what follows a map is timed at its full size.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple, final

import numpy as np

from recaudit.arrays import IntArray
from recaudit.audits.audit import Audit, Subject
from recaudit.audits.lists.recommend import know_lists, known_lists
from recaudit.audits.samples import resolve_users
from recaudit.data.categories import Categories
from recaudit.data.interactions import Interactions
from recaudit.data.splits import Split
from recaudit.engines import track
from recaudit.errors import DownloadError, MachineError, NotSupportedError, RecauditError
from recaudit.machine import check_memory, machine_error
from recaudit.models.checks import check_device
from recaudit.runs.configuration import Configuration
from recaudit.runs.recommenders import Model
from recaudit.runs.timing import Sampled, grown, timed

FIT = "fit"
"""The step that makes a model."""
SLICES = 1 / 64, 1 / 16
"""Shares of the users that steps are timed on."""
USERS = (32, 512), (128, 2048)
"""The fewest and the most users of each slice."""
ITEMS = 1 / 8, 1 / 4
"""Shares of the items, for recommenders that grow with the catalogue; of at least so many items:"""
FEWEST_ITEMS = 100, 200
_LARGE_FIRST = (1, 0)
"""The order of the slices: a model of more people is more like the whole one, and may settle a time alone."""
_ADVISED = 0.1
"""A step with a larger share of the whole has something said about what a smaller sample would save."""


@final
@dataclass(frozen=True)
class StepEstimate:
    """What one step of one model will take."""

    model: str
    step: str
    """An audit's name, or "fit"."""
    seconds: float | None
    """None where nothing can be timed beforehand."""
    memory: int | None
    """Bytes beside the log, reckoned from the shapes; 0 for little, None where it is not known."""
    why: str = ""
    """Why nothing can be timed, or why there will be no answer."""


@final
@dataclass(frozen=True)
class RunEstimate:
    """What a run will take, step by step."""

    steps: tuple[StepEstimate, ...]
    advice: tuple[str, ...]
    """What a smaller sample would cost and lose."""
    spent: float
    """Seconds that the estimate took."""

    @property
    def seconds(self) -> float:
        """Of all steps that could be timed."""
        return sum(step.seconds or 0.0 for step in self.steps)

    @property
    def memory(self) -> int:
        """Bytes beside the log that the largest step needs, with the model that it is about, as far as it is known."""
        fitted = {step.model: step.memory or 0 for step in self.steps if step.step == FIT}
        audits = (fitted.get(step.model, 0) + (step.memory or 0) for step in self.steps if step.step != FIT)
        return max((*fitted.values(), *audits), default=0)

    @property
    def unknown_memory(self) -> tuple[str, ...]:
        """The models whose memory is not known."""
        return tuple(dict.fromkeys(step.model for step in self.steps if step.memory is None))

    @property
    def unknown(self) -> tuple[StepEstimate, ...]:
        """The steps that could not be timed."""
        return tuple(step for step in self.steps if step.seconds is None)

    @property
    def refused(self) -> tuple[StepEstimate, ...]:
        """The steps that will have no result: their model has no answer on the slices."""
        return tuple(step for step in self.steps if step.seconds == 0 and step.why)


def estimate(config: Configuration) -> RunEstimate:
    """What this run will take from the start; the data is read, nothing is written."""
    check_device(config.device)
    data, split = config.split.load(config.data, config.seed)
    check_log(config, split.train)
    return estimate_steps(config, data, split)


def estimate_steps(
    config: Configuration,
    data: Interactions,
    split: Split,
    done: Collection[tuple[str, str]] = (),
    enough: float = 0.0,
) -> RunEstimate:
    """What is left of the run; `done` are the (model, audit) that need not be done again.

    Memory that the machine does not have is refused here, before anything is asked for. A run that takes less than
    `enough` seconds even if all of its time grows with the users is timed on the large slice alone.
    """
    begun = time.perf_counter()
    check_room(config, split.train, done)
    times = [_ModelTimes(config, model, own, split.train) for model, own in _left(config, done)]
    found: list[StepEstimate] = []
    for which in _LARGE_FIRST:
        parts = {
            "users": cache(partial(_Slice.of, config, data, split, which)),
            "items": cache(partial(_Slice.of_items, data, split, which)),
        }
        with warnings.catch_warnings(action="ignore"):  # they are about slices
            for own in track(times, "Estimate", len(times)):
                own.take(parts)
        found = [step for own in times for step in own.steps()]
        if sum(step.seconds or 0.0 for step in found) < enough:
            break
    spent = time.perf_counter() - begun
    return RunEstimate(tuple(found), tuple(_advice(config, found, split.train)), spent)


def check_log(config: Configuration, train: Interactions) -> None:
    """That the log offers what audits ask about, and something to learn from."""
    for audit in config.audits.values():
        audit.check(train)
    for model in config.measured:
        model.recommender.check_log(train)


def check_room(config: Configuration, train: Interactions, done: Collection[tuple[str, str]] = ()) -> None:
    """That what is left of the run fits into memory, as far as that is known from the shapes."""
    for model, audits in _left(config, done):
        own = model.recommender.memory(train) or 0
        for name, audit in audits.items():
            remedy = (
                f"Ask about fewer ({audit.drawn[0]} = ...)." if audit.drawn else "Leave out items with few ratings."
            )
            check_memory(own + audit.memory(train), f"{name} of {model.label}", remedy)


def _left(config: Configuration, done: Collection[tuple[str, str]]) -> list[tuple[Model, dict[str, Audit]]]:
    """The models that have something left to do, and what."""
    steps = [
        (model, {name: audit for name, audit in config.steps(model).items() if (model.label, name) not in done})
        for model in config.measured
    ]
    return [(model, audits) for model, audits in steps if audits]


@final
@dataclass(frozen=True, eq=False)
class _Slice:
    """A part of the run's people, or of its catalogue."""

    data: Interactions
    train: Interactions
    test: Interactions
    share: float
    """Of the people, or of the items."""

    @classmethod
    def of(cls, config: Configuration, data: Interactions, split: Split, which: int) -> _Slice:
        drawn = resolve_users(_size(data.n_users, which), data, config.seed, "estimate")
        # People who are asked about by name are among them.
        named = [getattr(audit, name) for audit in config.audits.values() for name in audit.drawn]
        ids = {one for some in named if isinstance(some, tuple) for one in some}
        users = np.union1d(drawn, np.flatnonzero([one in ids for one in data.user_ids])) if ids else drawn
        whole, train, test = (people(log, users) for log in (data, *split))
        return cls(whole, train, test, _size(data.n_users, which) / data.n_users)

    @classmethod
    def of_items(cls, data: Interactions, split: Split, which: int) -> _Slice:
        # By popularity every fourth, every eighth: as dense as the whole.
        count = min(data.n_items, max(FEWEST_ITEMS[which], round(ITEMS[which] * data.n_items)))
        order = np.argsort(-data.item_counts, kind="stable")
        items = np.sort(order[np.arange(count) * data.n_items // count])
        whole, train, test = (catalogue(log, items) for log in (data, *split))
        return cls(whole, train, test, count / data.n_items)


def people(log: Interactions, users: IntArray) -> Interactions:
    """The log of these users (positions, ascending) alone; the catalogue stays."""
    counts = log.user_counts[users]
    rows = np.concatenate([np.arange(log.indptr[user], log.indptr[user + 1]) for user in users])
    return replace(
        log,
        user_ids=log.user_ids.gather(users),
        indptr=np.concatenate([[0], np.cumsum(counts)]),
        items=log.items[rows],
        ratings=log.ratings[rows],
        times=None if log.times is None else log.times[rows],
        attributes=log.attributes[users] if log.attributes.height else log.attributes,
    ).frozen()


def catalogue(log: Interactions, items: IntArray) -> Interactions:
    """The log of these items (positions, ascending) alone; all users stay."""
    place = np.full(log.n_items, -1, dtype=np.int32)
    place[items] = np.arange(len(items))
    cut = log.subset(place[log.items] >= 0)
    return replace(
        cut,
        item_ids=log.item_ids.gather(items),
        items=place[cut.items],
        titles=None if log.titles is None else log.titles.gather(items),
        category_systems=tuple(
            (name, Categories(system.names, system.weights[items])) for name, system in log.category_systems
        ),
    ).frozen()


class _Taken(NamedTuple):
    """What a step of a slice took, or would have taken with all pieces of its maps."""

    seconds: float
    outside: float
    """Of it, outside of maps."""


@final
class _ModelTimes:
    """The times of one model's steps, slice by slice, and what they come to."""

    def __init__(self, config: Configuration, model: Model, audits: dict[str, Audit], train: Interactions) -> None:
        self.config, self.model, self.train = config, model, train
        # Of a slice they would draw others.
        self.audits = {name: audit.drawn_from(train) for name, audit in audits.items()}
        self.taken: dict[str, list[_Taken]] = {step: [] for step in (FIT, *audits)}
        self.shares: list[float] = []
        self.refused: dict[str, str] = {}
        """Why a step has no answer."""
        self.failed: dict[str, str] = {}
        """Why a step could not be timed."""

    def take(self, parts: Mapping[str, Callable[[], _Slice]]) -> None:
        """Time the fit and the audits; what was made elsewhere is neither fitted nor asked.

        What fails on a slice may work on the whole: the run tells. One time is better than none.
        """
        if self.model.recommender.given or FIT in self.failed:
            return
        part = parts[self.model.recommender.grows_with]()
        recommender = self.model.recommender.shrunk(part.share) if self._by_items else self.model.recommender
        self.shares.append(part.share)

        fit = partial(recommender.fit, part.train, rng=self.config.seed)
        try:
            seconds, fitted = timed(fit)
        except Exception as error:
            if not self.taken[FIT]:
                self.failed = dict.fromkeys(self.taken, self._failure("the fit", part, error))
            return
        self.taken[FIT].append(_Taken(seconds, seconds))
        subject = Subject(fitted, recommender, part.data, part.test)
        for name, audit in self.audits.items():
            if name in self.refused or name in self.failed or self._settled(name) is not None:
                continue
            if self.taken[name] and self._fits(name):
                continue
            try:
                self.taken[name].append(_audited(self.config, _of_slice(audit, part.train.n_users), subject))
            except Exception as error:
                if self.taken[name]:
                    continue
                if isinstance(error, NotSupportedError):
                    self.refused[name] = str(error)
                else:
                    self.failed[name] = self._failure("the audit", part, error)

    def _failure(self, what: str, part: _Slice, error: Exception) -> str:
        """Why a step is not known; what the machine or the installation lacks is raised, since the run lacks it too."""
        if isinstance(error, DownloadError | MachineError) or machine_error(error) is not None:
            raise error
        size = f"{part.train.n_items:,} of the items" if self._by_items else f"{part.train.n_users:,} of the users"
        told = str(error) if isinstance(error, RecauditError) else f"{type(error).__name__}: {error}"
        return f"{what} failed on a slice with {size}; on the whole log it may work, or fail alike. It said: {told}"

    @property
    def _by_items(self) -> bool:
        return self.model.recommender.grows_with == "items"

    def steps(self) -> Iterator[StepEstimate]:
        """What the times so far come to."""
        memory: dict[str, int | None] = {FIT: self.model.recommender.memory(self.train)}
        memory |= {name: audit.memory(self.train) for name, audit in self.audits.items()}
        for step, taken in self.taken.items():
            seconds, why = None, self.failed.get(step, "")
            if step in self.refused:
                seconds, why = 0.0, "" if self.model.floor else self.refused[step]  # of a floor it is no news
            elif self.model.recommender.given:
                why = "what was made elsewhere is not asked before the run"
            elif step not in self.failed:
                seconds = self._seconds(step, taken)
            yield StepEstimate(self.model.label, step, seconds, memory[step], why)

    def _seconds(self, step: str, taken: Sequence[_Taken]) -> float:
        if self._by_items:
            return grown(self.shares[: len(taken)][::-1], [own.seconds for own in taken][::-1], most=3.0)
        if (settled := self._settled(step)) is not None:
            return settled
        users, asked = self.train.n_users, self._asked(step)
        if 0 < asked <= _size(users, 1):  # maps are over the sample, and take as long in the whole
            if self._fits(step):
                fit = self.taken[FIT]
                outside = taken[0].outside * self._seconds(FIT, fit) / max(fit[0].seconds, 1e-9)
            else:
                outside = grown(self.shares[: len(taken)][::-1], [own.outside for own in taken][::-1])
            return taken[0].seconds - taken[0].outside + outside
        whole = min(asked, users) if asked else users
        shares = [min(1.0, share * users / whole) for share in self.shares[: len(taken)]]
        return grown(shares[::-1], [own.seconds for own in taken][::-1])

    def _asked(self, step: str) -> int:
        """How many people an audit draws; 0 for all, or where some of its people are all."""
        audit = self.audits.get(step)
        counts = [] if audit is None else [getattr(audit, name) for name in audit.drawn]
        return max(counts, default=0) if all(isinstance(count, int) for count in counts) else 0

    def _fits(self, step: str) -> bool:
        """Whether an audit of a sample fits models of its own: what is outside of its maps grows as the fit does."""
        large, audit = _size(self.train.n_users, 1), self.audits.get(step)
        return audit is not None and "recommender" in audit.needs and 0 < self._asked(step) <= large

    def _settled(self, step: str) -> float | None:
        """The time of an audit of a sample that the large slice holds, if all that may grow with the users is little.

        Its maps are over the sample, and take as long in the whole; what is outside of them grows with the users at
        most.
        """
        users, large = self.train.n_users, _size(self.train.n_users, 1)
        if self._by_items or not self.taken[step] or not 0 < self._asked(step) <= large:
            return None
        least, outside = self.taken[step][0]
        most = least + outside * (users / large - 1)
        return (least + most) / 2 if most <= _CLOSE * least else None


def _of_slice(audit: Audit, users: int) -> Audit:
    """The audit of everybody in a slice, where it draws more people than that has."""
    many = [name for name in audit.drawn if isinstance(count := getattr(audit, name), int) and count > users]
    return audit.model_copy(update=dict.fromkeys(many, users))


_CLOSE = 1.6
"""Bounds on a time that are no further apart need no second slice."""


def _size(users: int, which: int) -> int:
    """How many people are drawn for a slice."""
    return int(min(np.clip(SLICES[which] * users, *USERS[which]), users))


def _audited(config: Configuration, audit: Audit, subject: Subject) -> _Taken:
    """What an audit of a slice takes, its maps worked out in part."""
    device, model = "cpu" if audit.idle(subject.model) else config.device, subject.model
    assert model is not None
    before = known_lists(model)

    def run(*, whole: bool) -> Sampled:
        know_lists(model, before)  # those that the same audit made the first time are to be made again
        engine = Sampled(config.engine, whole=whole)
        _ = audit.run(subject, rng=config.seed, engine=engine, device=device).tables
        return engine

    try:
        seconds, engine = timed(partial(run, whole=False))
    except RecauditError:
        raise
    except Exception:  # an audit that holds answers against pieces: it is timed as it is
        seconds, engine = timed(partial(run, whole=True))
    return _Taken(seconds + engine.left_out, max(0.0, seconds - engine.inside))


def _advice(config: Configuration, steps: Sequence[StepEstimate], train: Interactions) -> Iterator[str]:
    """For each audit that takes much of the run: what half of the people would save and lose."""
    total = sum(step.seconds or 0.0 for step in steps)
    for name, audit in config.audits.items():
        own = sum(step.seconds or 0.0 for step in steps if step.step == name)
        counts = {setting: getattr(audit.drawn_from(train), setting) for setting in audit.drawn}
        for setting, asked in counts.items():
            count = train.n_users if asked is None else asked
            if isinstance(count, int) and count > 1 and own > _ADVISED * total:
                yield (
                    f"{name}: {setting} = {math.ceil(count / 2)} instead of {count:,} saves up to half of its "
                    f"{own:,.0f} s, and its intervals are wider by a factor of 1.4."
                )
