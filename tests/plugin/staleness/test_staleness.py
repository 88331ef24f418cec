"""What every audit must do, and one answer worked out by hand."""

import polars as pl
import pytest
from recaudit_staleness import Staleness

import recaudit as ra
from recaudit.testing import AuditContract


class TestStaleness(AuditContract):
    audit = Staleness(k=5)


def test_a_known_answer() -> None:
    rows = {"user": ["ann", "ann", "bob", "bob"], "item": ["old", "mid", "old", "new"]}
    log = ra.Interactions.from_frame(
        pl.DataFrame(rows | {"rating": [5.0, 4.0, 3.0, 4.0], "time": [0, 50, 10, 100]}), time="time"
    )
    found = Staleness(k=1).run(ra.models.TopPop().fit(log))
    # Ages: old 1, mid 0.5, new 0. Ann is shown new and chose old and mid; bob is shown mid and chose old and new.
    assert found["age"] == pytest.approx((0 + 0.5) / 2)
    assert found["age_gap"] == pytest.approx(((0 - 0.75) + (0.5 - 0.5)) / 2)


def test_a_log_without_times_is_refused() -> None:
    log = ra.Interactions.from_frame(pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "rating": [1.0, 2.0]}))
    with pytest.raises(ra.errors.NotSupportedError, match="time="):
        Staleness(k=1).run(ra.models.TopPop().fit(log))
