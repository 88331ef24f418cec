"""How often a system that can only be asked is asked: counted, limited, asked again where it fails, and remembered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar, final

from scipy import special

from recaudit.arrays import FloatArray
from recaudit.errors import BudgetSpentError, MachineError, NotSupportedError, SystemFailedError
from recaudit.machine import machine_error

CONFIDENCE = 0.975
"""With which an estimate from random answers is not below its lower limit."""

PAIR_BUDGET_SPENT = "The audit's budget of queries for a pair is spent"
"""How the message of an error begins after the last query of `Queries.limit`: it would be spent the next time too."""
SYSTEM_FAILED = "The system failed"
"""How the sentence about a failure begins; it may pass."""

_REMEMBERED = 1000
"""Answers kept for the next pair: those that pairs share come first, and each is a number for every item."""

Answer = TypeVar("Answer")


@final
class Queries:
    """How often a system was asked, in this process, and how often it may be."""

    def __init__(self, limit: int | None = None, within: Queries | None = None, asked: int = 0) -> None:
        self.asked = asked
        self.limit = limit
        """One more question raises a BudgetSpentError; None for no limit."""
        self.within = within
        """Where each question counts as well."""
        self._lock = threading.Lock()

    def add(self, count: int = 1) -> None:
        """Count so many questions that are about to be asked."""
        self.charge(count)
        if self.within is not None:
            self.within.add(count)

    def charge(self, count: int) -> None:
        """Count so many questions here alone: the system has answered them before."""
        with self._lock:
            if self.limit is not None and self.asked + count > self.limit:
                raise BudgetSpentError(f"{PAIR_BUDGET_SPENT}: {self.asked:,} of {self.limit:,}.")
            self.asked += count

    @contextmanager
    def holding_back(self, count: int) -> Iterator[None]:
        """With so many questions kept for later."""
        assert self.limit is not None
        self.limit -= count
        try:
            yield
        finally:
            self.limit += count

    @property
    def left(self) -> int:
        """How many more may be asked."""
        assert self.limit is not None
        return self.limit - self.asked

    def __reduce__(self) -> tuple[type[Queries], tuple[int | None, Queries | None, int]]:
        return Queries, (self.limit, self.within, self.asked)  # a lock does not travel

    def __repr__(self) -> str:
        return f"{self.asked:,} queries"


@final
@dataclass(frozen=True)
class Retry:
    """What is done when a system fails: raises, or gives back what is no answer."""

    retries: int = 2
    """How often the same question is asked again."""
    pause: float = 0.0
    """Seconds before the first time; twice as many before each further one."""

    def ask(self, question: Callable[[], Answer], queries: Queries, who: object) -> Answer:
        """The answer; each try is a query. What the system raised last is the cause of the error."""
        failure, said = None, ""
        for tries in range(self.retries + 1):
            if tries and self.pause:
                time.sleep(self.pause * 2 ** (tries - 1))
            try:
                queries.add()
            except BudgetSpentError as spent:
                raise BudgetSpentError(f"{spent} {said}".rstrip()) from failure
            try:
                return question()
            except (BudgetSpentError, NotSupportedError, SystemFailedError):
                raise  # a system that counts and asks again by itself, or cannot be asked this
            except Exception as error:
                if isinstance(error, MachineError) or machine_error(error) is not None:
                    raise  # it is not the system that failed
                failure, cause = error, f"{type(error).__name__}: {error}"
                said = f"{SYSTEM_FAILED} {tries + 1:,} times in a row, asked about {who!r}: {cause}"
        raise SystemFailedError(said) from failure


@final
@dataclass(frozen=True)
class ListSampling:
    """How probabilities are estimated from lists."""

    repeats: int
    """How many lists are asked for."""
    places: int
    """How many places of each count."""

    def at_least(self, share: float) -> float:
        """What the true share is not below, given the share estimated from `repeats` lists.

        A list has an item or has not, independently of the others, so that how many have it is binomial. An item that
        has a place in each list has a share of `1 / places`.
        """
        return binomial_at_least(round(share * self.repeats * self.places), self.repeats) / self.places


def binomial_at_least(had: int, of: int) -> float:
    """What a probability is not below that showed itself `had` times in `of` (Clopper and Pearson)."""
    return float(special.betaincinv(had, of - had + 1, 1 - CONFIDENCE)) if had else 0.0


@final
@dataclass(frozen=True, eq=False)
class Memory:
    """Answers, and how many queries each took; and which of them whoever asks has paid for."""

    known: dict[bytes, tuple[FloatArray, int]] = field(default_factory=dict)
    paid: set[bytes] = field(default_factory=set)

    def shared(self) -> Memory:
        """The same answers for somebody else, who has paid for as many; the oldest of them, where there are many."""
        for key in list(self.known)[_REMEMBERED:]:
            del self.known[key]
        return Memory(self.known, set(self.paid))

    def recall(self, key: bytes, ask: Callable[[], FloatArray], queries: Queries) -> FloatArray:
        """The answer to a question. It is asked for once, and counts once for everybody who needs it."""
        if key not in self.known:
            before = queries.asked
            self.known[key] = ask(), queries.asked - before
        elif key not in self.paid:
            queries.charge(self.known[key][1])
        self.paid.add(key)
        return self.known[key][0]
