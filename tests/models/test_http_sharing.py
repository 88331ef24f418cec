"""What threads and processes share: budget, rate, places, answers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import recaudit as ra
from models.loopback import Handler, Reply, Service, log, serving, users_asked, well
from recaudit.engines import Engine, Processes, Threads
from recaudit.models import BlackBox, from_http
from recaudit.models.given import http_transport
from recaudit.models.given.http_cache import AnswerCache

MADE: list[object] = []
"""Connections that are open as long as the process."""


def slowly(service: Service, request: Handler) -> Reply:
    time.sleep(0.03)
    return well(service, request)


def asked(service: Service, folder: Path, users: int = 48, **settings: Any) -> BlackBox:
    how = {"rate": None, "cache": folder, "answer": "recommendations[].id", **settings}
    return from_http(f"{service.url}/?user={{user}}", log(users), **how)


@pytest.mark.parametrize("engine", [Threads(4), Processes(2)], ids=["threads", "processes"])
def test_all_workers_share_budget_and_places(tmp_path: Path, engine: Engine) -> None:
    with serving(slowly) as service:
        model = asked(service, tmp_path, budget=11, concurrency=1)
        result = ra.exposure(model, engine=engine)
    assert service.asked == 11
    assert service.most == 1
    assert sum(result.facts["failed"].values()) == 48 - 11
    assert AnswerCache(tmp_path).queries == 11


def test_any_number_of_workers_gives_the_same_numbers(tmp_path: Path) -> None:
    with serving(well) as service:
        serial = ra.exposure(asked(service, tmp_path / "serial"))
        other = ra.exposure(asked(service, tmp_path / "other"), engine=Threads(4))
    for name, table in serial.tables.items():
        assert table.equals(other.tables[name])
    assert set(users_asked(service).values()) == {2}


def test_threads_that_begin_at_once_share_their_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow_to_start(pid: int) -> object:
        if not MADE:
            time.sleep(0.05)
            MADE.append(start(pid))
        return MADE[0]

    start = http_transport._service.__wrapped__
    monkeypatch.setattr(http_transport, "_service", slow_to_start)
    with serving(well) as service:
        result = ra.exposure(asked(service, tmp_path), engine=Threads(4))
    assert "failed" not in result.facts
    assert len(MADE) == 1


def test_as_many_are_under_way_as_is_allowed(tmp_path: Path) -> None:
    with serving(slowly) as service:
        ra.recommend(asked(service, tmp_path, concurrency=3), engine=Threads(6))
    assert service.most == 3


def test_the_rate_holds_for_all_threads(tmp_path: Path) -> None:
    with serving(well) as service:
        ra.recommend(asked(service, tmp_path, users=24, rate=40.0), engine=Threads(3))
    span = service.times[-1] - service.times[0]
    assert 23 / 40 * 0.9 <= span < 5


def test_a_clock_that_was_set_back_stops_nobody(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path)
    cache.hold(1e6)
    assert cache.reserve(None, 10.0, furthest=3.0) == pytest.approx(3.0, abs=0.01)
