"""Which errors of a refit mean that a promise cannot be tested, and which end the audit."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import recaudit as ra
from recaudit.data import Interactions
from recaudit.data.synthetic import World
from recaudit.errors import DamagedError, DownloadError, InputError, MachineError, NotSupportedError, SystemFailedError
from recaudit.interventions import HistoryEdits, Stars
from recaudit.models import ALS, FittedModel, Recommender


class FailingRefit(Recommender):
    """Fits one log, and raises an error for every other one."""

    error: ClassVar[BaseException] = NotSupportedError("no refits")
    refitting: ClassVar[bool] = False
    ratings: int

    def fit(self, data: Interactions, rng: int = 0) -> FittedModel:
        if len(data) != self.ratings or self.refitting:
            raise self.error
        return ALS(factors=4).fit(data)


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


AUDITS: dict[str, Callable[[ra.Subject], Any]] = {
    "reachability": lambda subject: ra.reachability(subject, actions=HistoryEdits(2), users=2, targets=3, refits=1),
    "recourse": lambda subject: ra.recourse(
        subject,
        goal=ra.AmongFirst(5),
        actions=HistoryEdits(5, ratings=Stars(1, 5)),
        users=20,
        items=5,
        refits=1,
    ),
}


@pytest.fixture
def subject(world: World, monkeypatch: pytest.MonkeyPatch) -> ra.Subject:
    recommender = FailingRefit(ratings=len(world.data))
    model = recommender.fit(world.data)
    monkeypatch.setattr(FailingRefit, "refitting", True)
    return ra.Subject(model, recommender, world.data)


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize(
    "error",
    [
        MachineError("the disk is full"),
        DownloadError("no network"),
        DamagedError("path", received="a damaged part", expected="the file that was written"),
        caused(InputError("object", received="a function that raised", expected="a model"), MemoryError()),
        OSError(errno.ENOSPC, "No space left on device"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_the_machine_end_the_audit(
    subject: ra.Subject, audit: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FailingRefit, "error", error)
    with pytest.raises(type(error)):
        AUDITS[audit](subject)


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize(
    "error",
    [
        NotSupportedError("no refits here"),
        SystemFailedError("no refits here"),
        InputError("data", received="no refits here", expected="another log"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_refit_that_is_refused_is_not_measured(
    subject: ra.Subject, audit: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FailingRefit, "error", error)
    facts = AUDITS[audit](subject).facts
    assert "no refits here" in str(facts["fidelity"])
    assert "kept" not in facts["fidelity"]
