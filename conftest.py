"""Data that tests of recaudit and of recaudit-papers share."""

from __future__ import annotations

import os

# Threads that wait give their core to the other processes of the suite. Before torch is imported, which reads it.
os.environ["OMP_WAIT_POLICY"] = os.environ.get("OMP_WAIT_POLICY", "passive")

import polars as pl
import pytest
from hypothesis import settings

from recaudit.data import Interactions, splits, synthetic
from recaudit.data.splits import Split
from recaudit.data.synthetic import World

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("fresh", deadline=None)
settings.load_profile("same")  # `make properties` draws new cases
collect_ignore = ["tests/plugin"]  # packages of their own: test_plugin installs them first


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that a contract states, ours or a shipped one, are marked: `pytest -m contract` runs them."""
    for item in items:
        cls = getattr(item, "cls", None)
        if cls is not None and any(
            base.__module__.startswith(("contracts.", "recaudit.testing.")) for base in cls.__mro__
        ):
            item.add_marker("contract")


@pytest.fixture(scope="session")
def world() -> World:
    return synthetic.demo_world(rng=1, users=120, items=80)


@pytest.fixture(scope="session")
def split(world: World) -> Split:
    return splits.leave_last(world.data, k=3)


@pytest.fixture
def tiny() -> Interactions:
    """Three users, four items; ada has not rated d, cem has rated only d."""
    frame = pl.DataFrame(
        {
            "user": ["bob", "ada", "ada", "ada", "bob", "cem"],
            "item": ["b", "c", "a", "b", "a", "d"],
            "rating": [4.0, 1.0, 5.0, 3.0, 2.0, 5.0],
            "time": [20, 30, 10, 20, 10, 5],
        }
    )
    return Interactions.from_frame(frame, time="time", scale=(1, 5))
