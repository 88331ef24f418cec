"""Whatever a service does wrong costs one user or pair, is told with its cause, and never ends an audit."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recaudit as ra
from models.loopback import ITEMS, Answer, Handler, Reply, Service, log, own_list, serving, users_asked, well
from recaudit.errors import SystemFailedError
from recaudit.interventions import NextK
from recaudit.models import from_http

BAD = "u04"
"""Whose question goes wrong; everybody else is answered."""


def settings(folder: Path, **others: Any) -> dict[str, Any]:
    timeouts = {"connect_timeout": 0.5, "read_timeout": 0.2, "total_timeout": 0.5, "max_bytes": 5000}
    own = {"cache": folder / "cache", "rate": None, "retries": 0, "pause": 0.01, "answer": "recommendations[].id"}
    return {**timeouts, **own, **others}


def for_one(wrong: Callable[[Service, Handler], Reply | None]) -> Answer:
    return lambda service, request: wrong(service, request) if request.user == BAD else well(service, request)


def status(code: int, **headers: str) -> Answer:
    return lambda _, request: request.send(code, b"<html>", **headers)


def content(value: Any) -> Answer:
    return lambda *_: (200, value)


def ids(*names: Any) -> Answer:
    return content({"recommendations": [{"id": name} for name in names]})


def hang(*_: object) -> None:
    time.sleep(0.4)


def drip(_: Service, request: Handler) -> None:
    """A byte now and then: no silence is ever long."""
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    drop(request, 12)


def drip_head(_: Service, request: Handler) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    drop(request, 12)


def drop(request: Handler, times: int) -> None:
    for _ in range(times):
        request.wfile.write(b"x")
        request.wfile.flush()
        time.sleep(0.08)
    request.close_connection = True


def cut(_: Service, request: Handler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(b'{"recommen')
    request.close_connection = True


def endless(_: Service, request: Handler) -> None:
    request.send_response(200)
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    for _chunk in range(1000):
        request.wfile.write(b"400\r\n" + b"x" * 1024 + b"\r\n")


def nonsense(_: Service, request: Handler) -> None:
    request.wfile.write(b"this is no HTTP\r\n\r\n")
    request.close_connection = True


WRONG: dict[str, tuple[Answer, str]] = {
    "unavailable": (status(503), "503 Service Unavailable"),
    "not found": (status(404), "404 Not Found"),
    "no content": (status(204), "204 No Content"),
    "hang": (hang, r"silence for 0\.2 s"),
    "drip": (drip, r"no answer within 0\.5 s"),
    "drip of the head": (drip_head, r"no answer within 0\.5 s"),
    "cut": (cut, "no connection, or one that broke"),
    "no http": (nonsense, "no connection, or one that broke"),
    "html": (content(b"<html>"), "bad JSON"),
    "empty": (content(b""), "bad JSON"),
    "enormous": (content(b"x" * 6000), "more than 5,000 bytes"),
    "endless": (endless, "more than 5,000 bytes"),
    "unknown item": (ids("i05", "new"), "'new', an item that the log does not have"),
    "item twice": (ids("i05", "i06", "i05"), "'i05' more than once"),
    "wrong type": (ids("i05", None), "null at 'recommendations.*' where an item id"),
    "wrong form": (content({"items": []}), "no 'recommendations'"),
    "a list": (content([]), "a list where an object"),
    "other host": (
        status(302, Location="http://localhost:9/x"),
        "another host, http://localhost:9, which is not asked",
    ),
    "other scheme": (status(302, Location="file:///etc/passwd"), "another host"),
    "in circles": (lambda _, request: request.send(307, b"", Location=request.path), "more than 3 redirects"),
}


@pytest.mark.parametrize("case", WRONG)
def test_one_answer_that_is_none_costs_one_user(tmp_path: Path, case: str) -> None:
    wrong, told = WRONG[case]
    train, test = ra.splits.leave_last(log(6))
    with serving(for_one(wrong)) as service:
        model = from_http(f"{service.url}/?user={{user}}", train, **settings(tmp_path))
        accuracy, exposure = ra.accuracy(model, test, k=3), ra.exposure(model, k=3)
    for result, metric in ((accuracy, "ndcg"), (exposure, "novelty")):
        row = result.frame.filter(metric=metric).row(0, named=True)
        assert (row["users"], row["excluded"], row["status"]) == (5, 1, "solved")
        assert list(result.facts["failed"].values()) == [1]
        assert re.search(told, next(iter(result.facts["failed"])))
    assert BAD not in accuracy.users.drop_nulls("ndcg")["user"].to_list()


def test_a_pair_that_fails_says_why(tmp_path: Path) -> None:
    def scores(_: Service, request: Handler) -> Reply:
        return (500, {}) if request.user == BAD else (200, {item: place / 4 for place, item in enumerate(ITEMS)})

    with serving(scores) as service:
        request = {"user": "{user}", "history": "{history}"}
        how = settings(tmp_path, gives="scores", answer="", request=request)
        model = from_http(service.url, log(6), **how)
        found = ra.reachability(model, users=["u03", BAD], targets=["i02"], actions=NextK(1), budget=8).pairs
    assert found["status"].to_list() == ["bounded", "failed"]
    assert "500 Internal Server Error" in found["failure"].to_list()[1]


def test_nobody_answers(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        train, test = ra.splits.leave_last(log(6))
        model = from_http(f"http://127.0.0.1:{taken.getsockname()[1]}/{{user}}", train, **settings(tmp_path))
        results = [ra.accuracy(model, test), ra.exposure(model)]
    for result in results:
        assert result.frame["value"].null_count() == len(result.frame)
        assert set(result.frame["excluded"]) == {6}
        assert list(result.facts["failed"].values()) == [6]
        assert "no connection" in next(iter(result.facts["failed"]))


def test_tls_that_cannot_be_spoken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak_plainly() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

        threading.Thread(target=speak_plainly, daemon=True).start()
        url = f"https://127.0.0.1:{server.getsockname()[1]}/{{user}}"
        with pytest.raises(SystemFailedError, match=r"cannot be trusted \(TLS\).*1 tries"):
            own_list(from_http(url, log(6), **settings(tmp_path, retries=3)))
        server.shutdown(socket.SHUT_RDWR)


class TestAskingAgain:
    @staticmethod
    def after(failures: int, fails: Answer) -> Answer:
        return lambda service, request: fails(service, request) if service.asked <= failures else well(service, request)

    @pytest.mark.parametrize("case", ["unavailable", "hang", "cut", "html"])
    def test_what_may_pass_is_asked_again(self, tmp_path: Path, case: str) -> None:
        with serving(self.after(2, WRONG[case][0])) as service:
            model = from_http(f"{service.url}/?user={{user}}", log(6), **settings(tmp_path, retries=2, total_timeout=5))
            assert len(own_list(model)) == 12
        assert service.asked == 3

    @pytest.mark.parametrize(
        "case", ["not found", "unknown item", "item twice", "wrong type", "enormous", "other host"]
    )
    def test_what_will_not_is_asked_once(self, tmp_path: Path, case: str) -> None:
        with serving(WRONG[case][0]) as service:
            model = from_http(f"{service.url}/?user={{user}}", log(6), **settings(tmp_path, retries=5))
            with pytest.raises(SystemFailedError, match="1 tries"):
                own_list(model)
        assert service.asked == 1

    def test_each_try_is_a_query_of_the_budget(self, tmp_path: Path) -> None:
        with serving(WRONG["unavailable"][0]) as service:
            model = from_http(f"{service.url}/?user={{user}}", log(9), **settings(tmp_path, retries=2, budget=4))
            result = ra.exposure(model)
        assert service.asked == 4
        told = list(result.facts["failed"])
        assert [why for why in told if "503 Service Unavailable; 3 tries" in why]
        assert [why for why in told if "spent: 4 of 4" in why and "503" in why]

    def test_pauses_double_and_follow_from_the_question(self, tmp_path: Path) -> None:
        gaps = []
        for folder in ("one", "other"):
            with serving(WRONG["unavailable"][0]) as service:
                how = settings(tmp_path / folder, retries=3, pause=0.1, total_timeout=5)
                model = from_http(f"{service.url}/?user={{user}}", log(6), **how)
                with pytest.raises(SystemFailedError, match="4 tries"):
                    own_list(model)
            gaps.append([later - earlier for earlier, later in zip(service.times, service.times[1:], strict=False)])
        for gap, full in zip(gaps[0], [0.1, 0.2, 0.4], strict=True):
            assert full / 2 <= gap < full + 0.15

    @pytest.mark.parametrize("wants", ["1", "in a second"])
    def test_a_service_that_wants_a_rest_has_it(self, tmp_path: Path, wants: str) -> None:
        from datetime import UTC, datetime, timedelta
        from email.utils import format_datetime

        at = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
        resting = status(429, Retry_After="1" if wants == "1" else at)
        with serving(self.after(1, resting)) as service:
            model = from_http(f"{service.url}/?user={{user}}", log(6), **settings(tmp_path, retries=1, total_timeout=5))
            own_list(model)
        assert 0.9 < service.times[1] - service.times[0] < 3

    def test_a_service_that_is_down_is_not_asked_again_and_again(self, tmp_path: Path) -> None:
        def down_at_first(service: Service, request: Handler) -> Reply | None:
            return well(service, request) if service.asked > 14 else WRONG["unavailable"][0](service, request)

        with serving(down_at_first) as service:
            model = from_http(f"{service.url}/?user={{user}}", log(12), **settings(tmp_path, retries=3))
            result = ra.exposure(model)
        # Four tries for each of three, then one for each until one is answered.
        assert list(result.facts["failed"].values()) == [3, 2]
        assert service.asked == 3 * 4 + 2 + 7

    def test_a_rest_that_is_too_long_is_a_failure(self, tmp_path: Path) -> None:
        with serving(status(429, Retry_After="3600")) as service:
            model = from_http(f"{service.url}/?user={{user}}", log(6), **settings(tmp_path, retries=5))
            with pytest.raises(SystemFailedError, match="429 Too Many Requests; 1 tries"):
                own_list(model)

    def test_a_question_has_its_time_whatever_the_tries(self, tmp_path: Path) -> None:
        with serving(WRONG["hang"][0]) as service:
            model = from_http(f"{service.url}/?user={{user}}", log(6), **settings(tmp_path, retries=50))
            start = time.monotonic()
            with pytest.raises(SystemFailedError):
                own_list(model)
        assert time.monotonic() - start < 1.5
        assert 2 <= service.asked <= 4


class TestRedirects:
    def test_another_address_of_the_same_host_is_asked(self, tmp_path: Path) -> None:
        def moved(service: Service, request: Handler) -> Reply | None:
            if request.path.startswith("/new"):
                return well(service, request)
            request.send(302, b"", Location=f"/new{request.path}")
            return None

        with serving(moved) as service:
            model = from_http(f"{service.url}/?user={{user}}", log(6), **settings(tmp_path))
            assert len(own_list(model)) == 12
        assert [request.path for request in service.requests] == ["/?user=u00", "/new/?user=u00"]

    def test_another_host_never_sees_the_headers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TOKEN", "abc123")
        with serving(well) as other, serving(status(307, Location=f"{other.url}/?user=u00")) as service:
            how = settings(tmp_path, headers={"Authorization": "Bearer ${TOKEN}"})
            model = from_http(f"{service.url}/?user={{user}}", log(6), **how)
            with pytest.raises(SystemFailedError, match="another host"):
                own_list(model)
        assert other.asked == 0

    @pytest.mark.parametrize(("code", "followed"), [(307, True), (308, True), (301, False), (302, False), (303, False)])
    def test_what_is_posted_is_posted_again_or_not_at_all(self, tmp_path: Path, code: int, followed: bool) -> None:
        def moved(service: Service, request: Handler) -> Reply | None:
            if request.path == "/new":
                return well(service, request)
            request.send(code, b"", Location="/new")
            return None

        with serving(moved) as service:
            model = from_http(f"{service.url}/", log(6), **settings(tmp_path, request={"user": "{user}"}))
            if followed:
                assert len(own_list(model)) == 12
                assert users_asked(service) == {"u00": 2}
            else:
                with pytest.raises(SystemFailedError, match="would drop what was posted"):
                    own_list(model)


def test_cookies_are_not_kept(tmp_path: Path) -> None:
    def tagging(service: Service, request: Handler) -> None:
        request.send(200, well(service, request)[1], Set_Cookie="session=1")

    with serving(tagging) as service:
        ra.recommend(from_http(f"{service.url}/?user={{user}}", log(6), **settings(tmp_path)))
    assert not any("Cookie" in request.headers for request in service.requests)
