from __future__ import annotations

import pickle

import pytest

from recaudit.errors import ConfigError, DataError, InputError


@pytest.mark.parametrize("kind", [InputError, DataError, ConfigError])
def test_an_error_travels_between_processes(kind: type[InputError]) -> None:
    error = kind("k", received=lambda: 1, expected="2", remedy="Say 2.")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.argument == "k"


def test_an_error_names_its_file_once() -> None:
    error = DataError("column 'user'", received="nothing", expected="ids", remedy="Say {}.", settings=[("user", "who")])
    assert error.remedy == "Say user = 'who'."
    inside = error.inside("log.csv", lambda name, value: f"--{name} {value}")
    assert str(inside) == "log.csv, column 'user': received nothing; expected ids. Say --user who."
    assert str(inside.inside("log.csv")) == str(inside)
