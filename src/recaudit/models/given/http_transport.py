"""One question over HTTP: within its time, of a bounded size, to one host; httpx is imported here and nowhere else."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, final

from recaudit.errors import InputError, NotSupportedError
from recaudit.models.given.http_template import NoAnswerError

if TYPE_CHECKING:
    import httpx

REDIRECTS = 3
"""How often a service may point to another of its addresses."""
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Answers of a service that has no answer now, and may have one later."""
_MOVED = (301, 302, 303, 307, 308)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET = re.compile(r"auth|token|key|secret|cookie|password|session|credential", re.IGNORECASE)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@final
@dataclass(frozen=True)
class HttpRequest:
    """What is sent, without its headers."""

    url: str
    body: bytes | None
    """JSON that is posted; None to get."""


@final
@dataclass(frozen=True)
class Limits:
    """How long a try may take, in seconds, and how large an answer may be."""

    connect: float
    read: float
    total: float
    size: int


@final
@dataclass(frozen=True, repr=False)
class Headers:
    """Headers whose secrets are in environment variables: `Bearer ${TOKEN}`. They are read when they are needed."""

    written: Mapping[str, str]

    def check(self) -> None:
        """That what may be a secret is not written out, and that every header is one."""
        for name, value in self.written.items():
            if not _NAME.fullmatch(name):
                raise InputError("headers", received=name, expected="names of headers")
            if _SECRET.search(name) and not _VARIABLE.search(value):
                raise InputError(
                    f"headers.{name}",
                    received="a value that is written out, and would be kept with the run",
                    expected="a reference to an environment variable, such as 'Bearer ${TOKEN}'",
                )

    def resolved(self) -> dict[str, str]:
        """The headers with the values of this process's environment."""
        found = {}
        for name, value in self.written.items():
            for variable in _VARIABLE.findall(value):
                if not os.environ.get(variable):
                    raise _unset(name, variable, "an environment variable that is not set")
            found[name] = _VARIABLE.sub(lambda match: os.environ[match[1]], value)
            if not (found[name].isascii() and found[name].isprintable() and found[name] == found[name].strip()):
                raise _unset(name, value, "which is no header: line breaks, other scripts, or spaces around it")
        return found

    def without(self, text: str) -> str:
        """The text, in which the name of a variable stands where its value stood."""
        names = {name for value in self.written.values() for name in _VARIABLE.findall(value)}
        for name in sorted(names, key=lambda name: -len(os.environ.get(name, ""))):
            if value := os.environ.get(name):
                text = text.replace(value, f"${{{name}}}")
        return text


def _unset(header: str, variable: str, problem: str) -> InputError:
    remedy = "Set it where recaudit is started, and where its workers are."
    return InputError(f"headers.{header}", received=f"{variable}, {problem}", expected="a value", remedy=remedy)


def fetch(question: HttpRequest, headers: Mapping[str, str], limits: Limits) -> bytes:
    """The body of the answer; `NoAnswerError` for whatever else happens."""
    with _starting:  # two threads that begin at once must not have a loop each
        loop, client = _service(os.getpid())
    waiting = asyncio.run_coroutine_threadsafe(_fetch(client, question, headers, limits), loop)
    try:
        return waiting.result()
    except BaseException:
        waiting.cancel()
        raise


def check_installed() -> None:
    """That httpx is there."""
    try:
        import httpx  # noqa: F401, PLC0415  optional: the extra `http`
    except ImportError:
        raise NotSupportedError(
            "httpx is not installed. Install it with pip install 'recaudit[http]', or ask the service yourself in a "
            "function for from_system."
        ) from None


_starting = threading.Lock()


@cache
def _service(_: int) -> tuple[asyncio.AbstractEventLoop, httpx.AsyncClient]:
    """The loop and the connections of this process: only a loop can give up on a service that answers byte by byte."""
    import httpx  # noqa: PLC0415  optional

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="recaudit-http", daemon=True).start()
    # Cookies would make an answer depend on the questions before it.
    jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    unlimited = httpx.Limits(max_connections=None, max_keepalive_connections=32)
    return loop, httpx.AsyncClient(cookies=jar, follow_redirects=False, limits=unlimited)


async def _fetch(client: httpx.AsyncClient, question: HttpRequest, headers: Mapping[str, str], limits: Limits) -> bytes:
    import httpx  # noqa: PLC0415  optional

    try:
        async with asyncio.timeout(limits.total):
            return await _follow(client, question, headers, limits)
    except TimeoutError:
        raise NoAnswerError(f"no answer within {limits.total:g} s", again=True) from None
    except httpx.TimeoutException as error:
        connecting = isinstance(error, httpx.ConnectTimeout)
        said = f"no connection within {limits.connect:g} s" if connecting else f"silence for {limits.read:g} s"
        raise NoAnswerError(said, again=True) from None
    except httpx.HTTPError as error:
        untrusted = next((one for one in _causes(error) if isinstance(one, ssl.SSLError)), None)
        kind = "a connection that cannot be trusted (TLS)" if untrusted else "no connection, or one that broke"
        cause = str(error if untrusted is None else untrusted) or type(error).__name__
        raise NoAnswerError(f"{kind}: {cause}", again=untrusted is None) from None
    except httpx.InvalidURL as error:
        raise NoAnswerError(f"an address that is none: {error}") from None


async def _follow(
    client: httpx.AsyncClient, question: HttpRequest, headers: Mapping[str, str], limits: Limits
) -> bytes:
    """The answer of the service, or of another address of the same host that it points to."""
    import httpx  # noqa: PLC0415  optional

    url = httpx.URL(question.url)
    sent = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "recaudit", **headers}
    if question.body is not None:
        sent["Content-Type"] = "application/json"
    timeout = httpx.Timeout(limits.total, connect=limits.connect, read=limits.read)
    for _ in range(REDIRECTS + 1):
        method = "GET" if question.body is None else "POST"
        async with client.stream(method, url, content=question.body, headers=sent, timeout=timeout) as response:
            if response.status_code not in _MOVED:
                return await _body(response, limits.size)
            url = _moved(url, response, method)
    raise NoAnswerError(f"more than {REDIRECTS} redirects")


def _moved(url: httpx.URL, response: httpx.Response, method: str) -> httpx.URL:
    """Where a redirect points; only to the same host, which is the one that headers are for."""
    import httpx  # noqa: PLC0415  optional

    try:
        target = url.join(response.headers.get("Location", ""))
    except httpx.InvalidURL:
        raise NoAnswerError(f"a redirect ({response.status_code}) to no address") from None
    same = (target.scheme, target.host, target.port) == (url.scheme, url.host, url.port)
    secured = (url.scheme, target.scheme, target.port) == ("http", "https", None) and url.port is None
    if not same and not (secured and target.host == url.host):
        where = f"{target.scheme}://{target.netloc.decode('ascii', 'replace')}"
        raise NoAnswerError(f"a redirect ({response.status_code}) to another host, {where}, which is not asked")
    if method == "POST" and response.status_code not in (307, 308):
        raise NoAnswerError(f"a redirect ({response.status_code}) that would drop what was posted to it")
    return target


async def _body(response: httpx.Response, most: int) -> bytes:
    """The body of a 200; whatever is larger than `most` bytes is not read."""
    if response.status_code != 200:
        said = f"{response.status_code} {response.reason_phrase}".strip()
        raise NoAnswerError(said, again=response.status_code in _AGAIN, after=_after(response))
    length, parts = 0, []
    async for part in response.aiter_bytes():
        length += len(part)
        if length > most:
            raise NoAnswerError(f"an answer of more than {most:,} bytes")
        parts.append(part)
    return b"".join(parts)


def _after(response: httpx.Response) -> float:
    """Seconds that the service wants to be left alone for; 0 where it says nothing that can be read."""
    said = response.headers.get("Retry-After", "").strip()
    if said.isascii() and said.isdigit():
        return float(said[:9])
    try:
        at = parsedate_to_datetime(said)
    except ValueError:
        return 0.0
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
