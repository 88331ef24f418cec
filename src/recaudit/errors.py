"""What can go wrong, as one tree.

RecauditError
├── InputError        an argument is not what it must be (also a ValueError)
│   ├── DataError     a table, file or id is not what it must be
│   ├── ConfigError   a configuration file is not what it must be
│   └── DamagedError  a file of a run folder is not as it was written
├── NotSupportedError the model cannot answer this question; says which ones can
├── SystemFailedError a system that is asked did not answer; says how often it was tried, and why it failed
├── BudgetSpentError  the next question to a system would be one too many
├── MachineError      the machine lacks what the work needs: memory, room on the disk, permission; a killed worker
└── DownloadError     a data set could not be fetched; says where to put it by hand

Every message names the argument, what was received, what was expected, and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any


class RecauditError(Exception):
    """The root of every error that recaudit raises on purpose."""


def setting(name: str, value: str) -> str:
    """How a remedy names a setting: as in a call of Python, and in a configuration."""
    return f"{name} = {value!r}"


class InputError(RecauditError, ValueError):
    """An argument is not what it must be. A remedy that names settings has a `{}` for each, which `written` fills."""

    def __init__(
        self,
        argument: str,
        *,
        received: object,
        expected: str,
        remedy: str = "",
        settings: Sequence[tuple[str, str]] = (),
        written: Callable[[str, str], str] = setting,
    ) -> None:
        self.argument = argument
        self.received = received if isinstance(received, str) else repr(received)
        self.expected, self.remedy = expected, remedy
        for named in settings:
            self.remedy = self.remedy.replace("{}", written(*named), 1)
        told = {"received": self.received, "expected": expected, "remedy": remedy, "settings": settings}
        self._told: dict[str, Any] = {**told, "written": written}
        super().__init__(f"{argument}: received {self.received}; expected {expected}. {self.remedy}".rstrip())

    def __reduce__(self) -> tuple[partial[InputError], tuple[str]]:
        # An error in a worker travels to the process that waits for it.
        return partial(type(self), **self._told), (self.argument,)


class DataError(InputError):
    """A table, a file or an id is not what it must be."""

    def inside(self, file: str, written: Callable[[str, str], str] | None = None) -> DataError:
        """The same error, told of a part of this file, perhaps with settings written in another way."""
        argument = self.argument if file in str(self) else f"{file}, {self.argument}"
        return DataError(argument, **self._told | ({} if written is None else {"written": written}))


@contextmanager
def reading_from(file: str, written: Callable[[str, str], str] | None = None) -> Iterator[None]:
    """Data errors of the block, told of this file: see `DataError.inside`."""
    try:
        yield
    except DataError as error:
        raise error.inside(file, written) from None


class ConfigError(InputError):
    """A configuration file is not what it must be."""


class DamagedError(InputError):
    """A file of a run folder is not as it was written: changed, cut short, another's or gone."""


class DamageWarning(UserWarning):
    """A file of a run folder is not as it was written, and what it said is worked out again."""


class NotSupportedError(RecauditError):
    """The model cannot answer this question; the message says which ones can."""


class SystemFailedError(RecauditError):
    """A system that is asked did not answer, however often it was tried; what it raised last is the cause."""


class BudgetSpentError(RecauditError):
    """The next question to a system would be one too many."""


class MachineError(RecauditError):
    """The machine lacks what the work needs; the message says what, and what to do. Nothing finished is lost."""


class DownloadError(RecauditError):
    """A data set could not be fetched; the message says where to put which files by hand."""


UNMEASURED = (NotSupportedError, SystemFailedError, BudgetSpentError, InputError)
"""Errors that may mean that something optional cannot be measured, such as a refit; `machine.reason_not_measured` has
the reason. All others are about the machine, the installation or the network."""

_LENGTHS = {"k", "n"}
"""How long a list is: `k` in audits, whose metrics are called so, and `n` where lists are made."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest known word as a sentence, or the list of all of them when none is near."""
    known = sorted(known)
    return nearest_word(word, known) or f"Known: {', '.join(known)}."


def nearest_word(word: str, known: Iterable[str]) -> str:
    """The nearest known word as a sentence, empty when none is near."""
    known = sorted(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6) or [
        other for other in known if {word, other} == _LENGTHS
    ]
    return f"Did you mean {near[0]!r}?" if near else ""
