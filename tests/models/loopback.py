"""A service on this machine that recommends, and misbehaves as it is told."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import polars as pl

from recaudit.arrays import IntArray
from recaudit.data import Interactions
from recaudit.models import BlackBox

Reply = tuple[int, Any]
"""A status, and what is sent: JSON, or bytes as they are."""
Answer = Callable[["Service", "Handler"], Reply | None]


@dataclass(frozen=True)
class Asked:
    """A request, as it came."""

    path: str
    headers: Mapping[str, str]
    sent: Any = None

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}

    @property
    def user(self) -> str:
        return str(self.sent["user"]) if self.sent else self.query["user"]


class Service:
    """Remembers what it was asked; `answer` makes the reply, or takes over the connection and gives None."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[Asked] = []
        self.times: list[float] = []
        self.under_way = self.most = 0
        self.lock = threading.Lock()
        self.url = ""

    @property
    def asked(self) -> int:
        return len(self.requests)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: the second would wait for the first to be acknowledged
    service: Service
    request_read: Asked

    def do_GET(self) -> None:
        self.reply(Asked(self.path, dict(self.headers)))

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply(Asked(self.path, dict(self.headers), sent))

    @property
    def user(self) -> str:
        return self.request_read.user

    def reply(self, asked: Asked) -> None:
        service, self.request_read = self.service, asked
        with service.lock:
            service.requests.append(asked)
            service.times.append(time.monotonic())
            service.under_way += 1
            service.most = max(service.most, service.under_way)
        try:
            said = service.answer(service, self)
            if said is not None:
                self.send(*said)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with service.lock:
                service.under_way -= 1

    def send(self, status: int, content: Any, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as the base class has it
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, handler: type[Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.connections: list[socket.socket] = []

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def server_close(self) -> None:
        """Hang up: the next service may have the same port, and must not be answered for by this one."""
        super().server_close()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that gave up are part of the game."""


@contextmanager
def serving(answer: Answer) -> Iterator[Service]:
    """The service at `service.url`, until the block ends."""
    service = Service(answer)
    server = _Server(type("Bound", (Handler,), {"service": service}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


ITEMS = [f"i{place:02}" for place in range(12)]


def log(users: int = 20) -> Interactions:
    """Each user has rated three items that follow one another; six users have rated all of them."""
    pairs = [(user, step) for user in range(users) for step in range(3)]
    rows = [(f"u{user:02}", ITEMS[(2 * user + step) % 12], 3.0 + step % 3, step) for user, step in pairs]
    frame = pl.DataFrame(rows, ["user", "item", "rating", "time"], orient="row")
    return Interactions.from_frame(frame, time="time", scale=(1, 5))


def turned(user: str) -> list[str]:
    """What the well-behaved service recommends: the items in their order, from another start for each user."""
    start = sum(map(ord, user)) % 12
    return ITEMS[start:] + ITEMS[:start]


def well(_: Service, request: Handler) -> Reply:
    scored = [{"id": item, "score": 12.0 - place} for place, item in enumerate(turned(request.user))]
    return 200, {"recommendations": scored}


def users_asked(service: Service) -> Counter[str]:
    return Counter(request.user for request in service.requests)


def own_list(model: BlackBox) -> IntArray:
    """(length,): positions of what the first user is shown."""
    lists = model.own_lists(np.array([0]))
    assert lists is not None
    shown: IntArray = lists[0][lists[0] >= 0]
    return shown
