"""What a run will take, before it starts: every step timed on slices of the log, by the code that will do it.

A model that is fitted in seconds is fitted, and its audits are timed on it. Of others a step is timed on two slices of
users, a small one and one of four times as many, with the whole catalogue. What grows with users is then told from what
does not: `a + b x` where the time grows no faster than the slice, a power of x where it does (pairs of users). A
recommender whose fit grows with the catalogue is timed on slices of items instead, and so are the audits of it: their
maps grow with people's ratings and with the items. Within an audit the first pieces of a map are worked out, and the
others take as long as those did and give the same answers: what follows a map is timed at its full size. Refits are
reckoned from the fit.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple, final

from recaudit.audits.audit import Audit, Subject
from recaudit.audits.lists.recommend import know_lists, known_lists
from recaudit.data.interactions import Interactions
from recaudit.data.splits import Split
from recaudit.engines import track
from recaudit.errors import DownloadError, MachineError, NotSupportedError, RecauditError
from recaudit.machine import check_memory, machine_error
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.checks import check_device
from recaudit.runs.configuration import Configuration
from recaudit.runs.memory import estimate_memory
from recaudit.runs.recommenders import Model
from recaudit.runs.slices import Slice, size_of
from recaudit.runs.timing import Sampled, grown, timed

FIT = "fit"
"""The step that makes a model."""
_RATINGS, _FIT = 2_000_000, 20.0
"""A log of at most so many ratings, and a fit of at most so many seconds: the whole is taken, which says more than a
model of a part of its people, and needs no second slice."""
_FIRST = 5.0
"""Seconds up to which a fit is timed twice: much of the first may be code that is loaded."""
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
            "users": cache(partial(Slice.of, config, data, split, which)),
            "items": cache(partial(Slice.of_items, data, split, which)),
            "all": cache(partial(Slice, data, *split, 1.0)),
        }
        with warnings.catch_warnings(action="ignore"):  # they are about slices
            for own in track(times, "Estimate", len(times)):
                own.take(parts)
        found = [step for own in times for step in own.steps()]
        if sum(step.seconds or 0.0 for step in found) < enough:
            break
    spent = time.perf_counter() - begun
    return RunEstimate(tuple(found), tuple(_advice(config, found, split.train)), spent)


def check_log(config: Configuration, train: Interactions, done: Collection[tuple[str, str]] = ()) -> None:
    """Refuse a log that lacks what audits ask about, or that models cannot learn from, before anything is computed.

    `done` are the (model, audit) that need not be computed again.
    """
    for audit in config.audits.values():
        audit.check(train)
    for model, _ in _left(config, done):
        model.recommender.check_log(train)


def check_room(config: Configuration, train: Interactions, done: Collection[tuple[str, str]] = ()) -> None:
    """That what is left of the run fits into memory, as far as that is known from the shapes."""
    for model, audits in _left(config, done):
        own = estimate_memory(model.recommender, train) or 0
        for name, audit in audits.items():
            remedy = (
                f"Ask about fewer ({audit.drawn[0]} = ...)." if audit.drawn else "Leave out items with few ratings."
            )
            check_memory(own + (estimate_memory(audit, train) or 0), f"{name} of {model.label}", remedy)


def _left(config: Configuration, done: Collection[tuple[str, str]]) -> list[tuple[Model, dict[str, Audit]]]:
    """The models that have something left to do, and what."""
    steps = [
        (model, {name: audit for name, audit in config.steps(model).items() if (model.label, name) not in done})
        for model in config.measured
    ]
    return [(model, audits) for model, audits in steps if audits]


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

    def take(self, parts: Mapping[str, Callable[[], Slice]]) -> None:
        """Time the fit and the audits; what was made elsewhere is neither fitted nor asked.

        What fails on a slice may work on the whole: the run tells. One time is better than none.
        """
        if self.model.recommender.given or FIT in self.failed or self._whole:
            return
        part, whole = parts[self.model.recommender.grows_with](), parts["all"]()
        recommender = self.model.recommender.shrunk(part.share) if self._by_items else self.model.recommender
        try:
            seconds, fitted = self._fitted(recommender, part)
            longest = seconds / part.share ** (3 if self._by_items else 1)
            if not self.shares and len(whole.train) <= _RATINGS and longest <= _FIT:
                part, recommender = whole, self.model.recommender
                seconds, fitted = self._fitted(recommender, part)
        except Exception as error:
            if not self.taken[FIT]:
                self.failed = dict.fromkeys(self.taken, self._failure("the fit", part, error))
            return
        self.shares.append(part.share)
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

    def _fitted(self, recommender: Recommender, part: Slice) -> tuple[float, FittedModel]:
        return timed(partial(recommender.fit, part.train, rng=self.config.seed), short=_FIRST)

    def _failure(self, what: str, part: Slice, error: Exception) -> str:
        """Why a step is not known; what the machine or the installation lacks is raised, since the run lacks it too."""
        if isinstance(error, DownloadError | MachineError) or machine_error(error) is not None:
            raise error
        size = f"{part.train.n_items:,} of the items" if self._by_items else f"{part.train.n_users:,} of the users"
        told = str(error) if isinstance(error, RecauditError) else f"{type(error).__name__}: {error}"
        return f"{what} failed on a slice with {size}; on the whole log it may work, or fail alike. It said: {told}"

    @property
    def _whole(self) -> bool:
        """Whether the whole log was timed."""
        return self.shares[:1] == [1.0]

    @property
    def _by_items(self) -> bool:
        return self.model.recommender.grows_with == "items"

    def steps(self) -> Iterator[StepEstimate]:
        """What the times so far come to."""
        memory: dict[str, int | None] = {FIT: estimate_memory(self.model.recommender, self.train)}
        memory |= {name: estimate_memory(audit, self.train) for name, audit in self.audits.items()}
        for step, taken in self.taken.items():
            seconds, why = None, self.failed.get(step, "")
            if step in self.refused:
                seconds, why = 0.0, "" if self.model.floor else self.refused[step]  # of a floor it is no news
            elif self.model.recommender.given:
                why = "what was made elsewhere is not asked before the run"
            elif step not in self.failed:
                seconds = self._seconds(step, taken) + self._refits(step)
            yield StepEstimate(self.model.label, step, seconds, memory[step], why)

    def _seconds(self, step: str, taken: Sequence[_Taken]) -> float:
        if self._whole:
            return taken[0].seconds
        if self._by_items:
            shares, times = self.shares[: len(taken)][::-1], taken[::-1]
            if step == FIT:
                return grown(shares, [own.seconds for own in times], most=3.0, steeper=True)
            # In maps people are scored: they have more ratings then, and each moves more scores.
            maps = grown(shares, [own.seconds - own.outside for own in times], steeper=True)
            return maps + grown(shares, [own.outside for own in times])
        if (settled := self._settled(step)) is not None:
            return settled
        users, asked = self.train.n_users, self._asked(step)
        if 0 < asked <= size_of(users, 1):  # maps are over the sample, and take as long in the whole
            if self._fits(step):
                fit = self.taken[FIT]
                outside = taken[0].outside * self._seconds(FIT, fit) / max(fit[0].seconds, 1e-9)
            else:
                outside = grown(self.shares[: len(taken)][::-1], [own.outside for own in taken][::-1])
            return taken[0].seconds - taken[0].outside + outside
        whole = min(asked, users) if asked else users
        shares = [min(1.0, share * users / whole) for share in self.shares[: len(taken)]]
        return grown(shares[::-1], [own.seconds for own in taken][::-1])

    def _refits(self, step: str) -> float:
        """What an audit's refits take, of each log one and of the log as it is one more: they are not timed with it."""
        refits = getattr(self.audits.get(step), "refits", 0)
        return (1 + refits) * self._seconds(FIT, self.taken[FIT]) if refits else 0.0

    def _asked(self, step: str) -> int:
        """How many people an audit draws; 0 for all, or where some of its people are all."""
        audit = self.audits.get(step)
        counts = [] if audit is None or audit.measures_all else [getattr(audit, name) for name in audit.drawn]
        return max(counts, default=0) if all(isinstance(count, int) for count in counts) else 0

    def _fits(self, step: str) -> bool:
        """Whether an audit of a sample fits models of its own: what is outside of its maps grows as the fit does."""
        large, audit = size_of(self.train.n_users, 1), self.audits.get(step)
        return audit is not None and "recommender" in audit.needs and 0 < self._asked(step) <= large

    def _settled(self, step: str) -> float | None:
        """The time of an audit of a sample that the large slice holds, if all that may grow with the users is little.

        Its maps are over the sample, and take as long in the whole; what is outside of them grows with the users at
        most.
        """
        users, large = self.train.n_users, size_of(self.train.n_users, 1)
        if self._by_items or self._whole or not self.taken[step] or not 0 < self._asked(step) <= large:
            return None
        least, outside = self.taken[step][0]
        most = least + outside * (users / large - 1)
        return (least + most) / 2 if most <= _CLOSE * least else None


def _of_slice(audit: Audit, users: int) -> Audit:
    """The audit of everybody in a slice, where it draws more people than that has; without refits."""
    many = [name for name in audit.drawn if isinstance(count := getattr(audit, name), int) and count > users]
    return audit.model_copy(update=dict.fromkeys(many, users) | ({"refits": 0} if hasattr(audit, "refits") else {}))


_CLOSE = 1.6
"""Bounds on a time that are no further apart need no second slice."""


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
    except Exception as error:  # an audit that holds answers against pieces: it is timed as it is
        if machine_error(error) is not None:
            raise  # the whole needs no less memory than a part
        seconds, engine = timed(partial(run, whole=True))
    return _Taken(seconds + engine.left_out, max(0.0, seconds - engine.inside))


def _advice(config: Configuration, steps: Sequence[StepEstimate], train: Interactions) -> Iterator[str]:
    """For each audit that takes much of the run: what half of the people would save and lose."""
    total = sum(step.seconds or 0.0 for step in steps)
    for name, audit in config.audits.items():
        if audit.measures_all:
            continue
        own = sum(step.seconds or 0.0 for step in steps if step.step == name)
        counts = {setting: getattr(audit.drawn_from(train), setting) for setting in audit.drawn}
        for setting, asked in counts.items():
            count = train.n_users if asked is None else asked
            if isinstance(count, int) and count > 1 and own > _ADVISED * total:
                yield (
                    f"{name}: {setting} = {math.ceil(count / 2)} instead of {count:,} saves up to half of its "
                    f"{own:,.0f} s, and its intervals are wider by a factor of 1.4."
                )
