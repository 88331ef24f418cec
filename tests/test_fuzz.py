"""A few cases of scripts/fuzz.py; `python scripts/fuzz.py` runs thousands."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("fuzz")


@pytest.mark.parametrize("name", ["frames", "files", "configurations", "calls", "made", "environments"])
def test_every_case_ends_in_a_value_or_in_an_error_that_explains_itself(fuzz: Any, name: str) -> None:
    assert fuzz.fuzz(25, seed=1, only=name) == {}


def test_every_class_is_among_them(fuzz: Any) -> None:
    assert list(fuzz.CLASSES) == ["frames", "files", "configurations", "calls", "made", "environments"]


def _raising(error: BaseException) -> Any:
    def case() -> None:
        raise error

    return case


def test_what_counts_as_a_finding(fuzz: Any) -> None:
    from recaudit.errors import InputError

    assert fuzz.judged(lambda: 1) is None
    assert fuzz.judged(_raising(InputError("k", received=1, expected="2"))) is None
    assert fuzz.judged(_raising(KeyError("k"))) == ("KeyError in outside recaudit", "'k'")
    assert fuzz.judged(_raising(RuntimeWarning("overflow encountered"))) is not None
    assert fuzz.judged(_raising(fuzz.Hanging("no answer"))) is not None
