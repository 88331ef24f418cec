"""The benchmark of error rates runs every part, and its bounds are those of the method."""

from __future__ import annotations

import importlib.util
import sys
from math import sqrt
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load() -> ModuleType:
    name = "error_rates"
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RATES = load()
FAMILIES = {
    "report, models",
    "report, groups",
    "comparison, all users",
    "comparison, groups",
    "gate fails",
    "gate passes",
    "refits",
    "memory",
}


def test_a_quick_run_measures_errors_and_power_of_all_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RATES, "SAMPLES_QUICK", 1)
    monkeypatch.setattr(RATES, "KINDS", ("EASE",))
    studies = list(RATES.studies(1, 1, 1))
    assert {study.name.split()[0] for study in studies} >= {"end", "memory", "groups", "comparison", "gate", "refits"}
    rates = RATES.measure([study for study in studies if "300" not in study.name], RATES.SEED, 1)
    assert {rate.part.family for rate in rates if not rate.part.is_power} == FAMILIES
    assert {rate.part.family for rate in rates if rate.part.is_power} >= FAMILIES - {"comparison, groups"}
    assert all(rate.tests > 0 for rate in rates)


@pytest.mark.parametrize(
    ("stated", "is_power", "is_exact", "is_within"),
    [
        (28, False, False, True),  # 5% and two standard errors of 400 samples are 7.18%
        (29, False, False, False),
        (280, True, False, True),
        (279, True, False, False),
        (0, False, True, True),
        (1, False, True, False),
    ],
)
def test_bounds(stated: int, is_power: bool, is_exact: bool, is_within: bool) -> None:
    level = 0.0 if is_exact else RATES.MIN_POWER if is_power else RATES.LEVEL
    part = RATES.Part("family", "setting", is_power=is_power, level=level, is_exact=is_exact)
    rate = RATES.Rate(part, stated, 400, 1.0)
    if not is_power and not is_exact:
        assert rate.bound == pytest.approx(0.05 + 2 * sqrt(0.05 * 0.95 / 400))
    assert rate.is_within == is_within


def test_an_exceeded_bound_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    part = RATES.Part("family", "setting")
    for stated, code in ((0, 0), (400, 1)):
        rate = RATES.Rate(part, stated, 400, 1.0)
        monkeypatch.setattr(RATES, "measure", lambda *_, rate=rate: [rate])
        assert RATES.main([]) == code


def test_samples_depend_on_the_seed_only() -> None:
    (study,) = (own for own in RATES.studies(3, 1, 1) if own.name == "refits 5")
    one, same, other = (RATES.run_task((study, seed, range(3))) for seed in (1, 1, 2))
    assert one == same
    assert [list(own) for own in one] == [list(own) for own in other]
