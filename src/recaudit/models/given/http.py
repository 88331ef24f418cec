"""A recommender behind an address: histories or user ids go out as JSON, lists or scores come back."""

from __future__ import annotations

import hashlib
import inspect
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, final
from urllib.parse import urlsplit

import numpy as np
from pydantic import Field, JsonValue, field_serializer, model_validator

from recaudit.arguments import check_argument
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.datasets.dataset import cache_folder
from recaudit.data.interactions import Interactions
from recaudit.errors import BudgetSpentError, InputError, NotSupportedError, SystemFailedError
from recaudit.models.base import Recommender
from recaudit.models.given.answers import QuerySession, UsedAnswers
from recaudit.models.given.black_box import BlackBox, History, from_system, seeing_others
from recaudit.models.given.http_cache import AnswerCache
from recaudit.models.given.http_template import (
    NoAnswerError,
    as_json,
    check_path,
    check_template,
    fill,
    fill_url,
    follow,
    names_in,
    parse,
    read_ids,
    read_scores,
)
from recaudit.models.given.http_transport import Headers, HttpRequest, Limits, check_installed, fetch
from recaudit.seeding import derive, uniforms
from recaudit.specification import AnyFolder, Count, Some

_DOWN = 3
"""Questions in a row that were lost, after which a service is down: each is then tried once, until one is answered."""
_SENDS_EDITS = ({"history"}, {"items", "ratings"}, {"item", "rating"})
"""Placeholders that tell a service what somebody rated, and how."""


@final
class Http(Recommender):
    """A service asked over HTTP: nothing is fitted. Templates, limits, and what can go wrong: docs/guides/http.md.

    In `url` and `request` these are filled in: {user}, {viewer} (whose recommendations are asked for), {items} and
    {ratings} of the user's history, {history} (a list of {item, rating}), {k}. A list of one element with {item} or
    {rating} in it is repeated for each rating.
    """

    given: ClassVar[bool] = True
    execution_settings: ClassVar[frozenset[str]] = frozenset(
        {
            "headers",
            "budget",
            "rate",
            "concurrency",
            "retries",
            "pause",
            "longest_pause",
            "connect_timeout",
            "read_timeout",
            "total_timeout",
            "max_bytes",
            "cache",
            "max_age",
        }
    )

    url: str
    """The address, http or https; placeholders in it are percent-encoded."""
    request: JsonValue = None
    """What is posted, as JSON; without it the service is asked with GET."""
    answer: str = ""
    """Where in the answer the item ids are, best first: `recommendations[].id`; or an object of scores by id."""
    score: str | None = None
    """Where the scores are, if not in such an object: `recommendations[].score`."""
    gives: Literal["list", "scores", "probabilities"] = "list"
    """What comes back: a ranked list, or a score or a probability of every item."""
    predicts_ratings: bool = False
    """Whether scores estimate ratings on the log's scale."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers; secrets only by reference to environment variables: `Authorization = "Bearer ${TOKEN}"`."""
    k: Count = 100
    """How many items a list is asked for, as {k}: more than an audit's k, where lists hold items that were seen."""
    users: Some | None = None
    """For whom lists are asked: so many users, drawn at random, or those of these ids; else everybody."""
    budget: Count | None = None
    """The most queries in all, tries that failed among them, by everybody who shares the cache."""
    rate: float | None = Field(default=10.0, gt=0, allow_inf_nan=False)
    """The most queries a second, by everybody who shares the cache; None for no limit."""
    concurrency: Count = 4
    """The most queries under way at a time, likewise."""
    retries: int = Field(default=3, ge=0)
    """How often a question is asked again where the service fails in a way that may pass."""
    pause: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    """Seconds before the first of them, twice as many before each further one, less up to half by chance."""
    longest_pause: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    """The longest pause; a service that wants to be left alone for longer has failed."""
    connect_timeout: float = Field(default=5.0, gt=0, allow_inf_nan=False)
    """Seconds to connect."""
    read_timeout: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    """Seconds of silence."""
    total_timeout: float = Field(default=120.0, gt=0, allow_inf_nan=False)
    """Seconds for a question, with all tries and pauses; not with the waiting for `rate` and `concurrency`."""
    max_bytes: Count = 10_000_000
    """The largest answer."""
    cache: AnyFolder | None = None
    """The folder of answers and of the count of queries; else one for each host in ~/.cache/recaudit/http."""
    max_age: float = Field(default=24.0, gt=0, allow_inf_nan=False)
    """Hours after which an answer is asked for again: the service may be another by then."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if _has_user(self.url) or "${" in self.url or "${" in json.dumps(self.request):
            raise InputError(
                "url, request",
                received="a user's name, a password or an environment variable",
                expected="secrets in headers only: the rest is kept with the run",
            )
        if not _is_address(self.url):
            expected = "an address that begins with http:// or https:// and a host"
            raise InputError("url", received=repr(self.url), expected=expected)
        check_template("url", self.url)
        check_template("request", self.request)
        check_path("answer", self.answer)
        check_path("score", self.score or "")
        Headers(self.headers).check()
        if self.gives == "list" and (self.score is not None or self.predicts_ratings):
            raise InputError("gives", received="'list' beside score or predicts_ratings", expected="'scores'")
        if self.gives == "probabilities" and self.predicts_ratings:
            raise InputError("predicts_ratings", received="True beside probabilities", expected="gives = 'scores'")
        return self

    @field_serializer("cache")
    def _name_only(self, cache: Path | None) -> str | None:
        return None if cache is None else cache.name

    def check_log(self, data: Interactions) -> None:
        """Refuse a log that nothing can be measured on, headers without a value, and users that the log lacks."""
        super().check_log(data)
        check_installed()
        Headers(self.headers).resolved()
        if isinstance(self.users, tuple):
            data.users_at(self.users)

    def fit(self, data: Interactions, rng: int = 0) -> BlackBox:
        """The service as a model of this log, which it must know; nothing is asked yet. `rng` draws the `users`."""
        check_installed()
        Headers(self.headers).resolved()
        system = HttpSystem(self, data)
        # The system asks again by itself: it knows which failures may pass, and how long to wait.
        if self.gives == "list":
            model = from_system(data, lists=system, retries=0)
        elif self.gives == "probabilities":
            model = from_system(data, probabilities=system, retries=0)
        else:
            model = from_system(data, scores=system, predicts_ratings=self.predicts_ratings, retries=0)
        if {"user", "viewer"} <= names_in(self.url) | names_in(self.request):
            model = seeing_others(model)
        return replace(model, audited_users=self.sample_users(data, rng))

    def sample_users(self, data: Interactions, seed: int) -> IntArray | None:
        """Positions of `users`, ascending; None for all users."""
        return None if self.users is None or isinstance(self.users, str) else _drawn(self.users, data, seed)


def from_http(url: str, data: Interactions, *, rng: int = 0, **settings: Any) -> BlackBox:
    """A model of a service that is asked over HTTP: `Http(url=url, ...).fit(data)`, with the same settings.

    `data` is the log that the service knows.
    """
    check_argument("data", data, Interactions)
    check_argument("rng", rng, int)
    return Http(url=url, **settings).fit(data, rng)


from_http.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # the settings are stated once, above
    [
        *list(inspect.signature(from_http).parameters.values())[:-1],
        *list(inspect.signature(Http).parameters.values())[1:],
    ],
    return_annotation=BlackBox,
)


@final
class _Seen:
    """What this process has seen of a service."""

    def __init__(self) -> None:
        self._came: Counter[bytes] = Counter()
        self._lost = 0
        self._lock = threading.Lock()

    def times(self, key: bytes) -> int:
        """How often this question came, with this time."""
        with self._lock:
            self._came[key] += 1
            return self._came[key]

    def note(self, *, answered: bool) -> None:
        """Note how a question ended."""
        with self._lock:
            self._lost = 0 if answered else self._lost + 1

    @property
    def is_down(self) -> bool:
        """Whether the last few questions were all lost."""
        return self._lost >= _DOWN


@final
@dataclass(frozen=True, eq=False)
class HttpSystem:
    """Asks the service, or the cache; threads may share it, and workers have one each."""

    one_machine: ClassVar[bool] = True
    """Budget, rate and places are counted in a folder of this machine, which no other shares: engines ask from here."""

    service: Http
    data: Interactions = field(repr=False)
    session: QuerySession = field(default_factory=QuerySession, repr=False)
    _seen: _Seen = field(default_factory=_Seen, init=False, repr=False)

    def __call__(self, history: History) -> list[int | str] | FloatArray:
        """Item ids, best first; or (items,) what the service says of each item.

        A question that comes again is an independent one, as long as the service may be random.
        """
        return self._answer(history, independent=True)

    def recall(self, history: History) -> list[int | str] | FloatArray:
        """The same; an answer to this question that is in the cache already is enough."""
        return self._answer(history, independent=False)

    def used_answers(self, part: int) -> list[UsedAnswers]:
        """The answers that were used in this part of the session and in those after it."""
        return self._cache.used_answers(self.session, part)

    def _answer(self, history: History, *, independent: bool) -> list[int | str] | FloatArray:
        self._check_sent(history)
        question = self._question(history)
        content = [question.url, None if question.body is None else question.body.decode()]
        key = hashlib.sha256(json.dumps(content).encode() + self._identity).digest()
        nth = self._seen.times(key) if independent else 1
        since = max(time.time() - 3600 * self.service.max_age, self.session.not_before)
        kept = self._cache.recall(key, self._identity, nth, since, self.session)
        if kept is None:
            kept = json.dumps(self._ask(question, key)).encode()
            self._cache.keep(key, self._identity, nth, kept, since, self.session)
        ids, numbers = json.loads(kept)
        return ids if self.service.gives == "list" else self._by_item(ids, numbers)

    def _ask(self, question: HttpRequest, key: bytes) -> tuple[list[Any], list[float]]:
        """The answer of the service, asked as often as the settings say."""
        service, left, said, tries = self.service, self.service.total_timeout, "", 0
        headers = Headers(service.headers)
        while True:
            try:
                with self._cache.place(service.concurrency):
                    time.sleep(self._cache.reserve(service.budget, service.rate, self._furthest))
                    start = time.monotonic()
                    limits = Limits(service.connect_timeout, service.read_timeout, left, service.max_bytes)
                    try:
                        answer = self._read(fetch(question, headers.resolved(), limits))
                        self._seen.note(answered=True)
                        return answer
                    finally:
                        left -= time.monotonic() - start
            except BudgetSpentError as spent:
                raise BudgetSpentError(f"{spent} {said}".rstrip()) from None
            except NoAnswerError as failure:
                tries += 1
                pause = self._pause(key, tries)
                said = headers.without(f"The service at {self._origin} gave {failure}; {tries:,} tries.")
                patient = failure.after <= service.longest_pause and pause < left and not self._seen.is_down
                if not (failure.again and tries <= service.retries and patient):
                    self._seen.note(answered=not failure.again)
                    raise SystemFailedError(said) from None
                self._cache.hold(failure.after)
                time.sleep(pause)
                left -= pause

    def _read(self, body: bytes) -> tuple[list[Any], list[float]]:
        """Known item ids, and a number for each where the service gives numbers."""
        service, places, parsed = self.service, self._places, parse(body)
        like, found = next(iter(places)), follow(service.answer, parsed)
        if service.gives == "list":
            ids, numbers = read_ids(found, like, service.answer), list[float]()
        else:
            paths = [service.answer] if service.score is None else [service.answer, service.score]
            scores = None if service.score is None else follow(service.score, parsed)
            ids, numbers = read_scores(found, scores, like, paths)
        if len(set(ids)) < len(ids):
            twice = next(name for name, times in Counter(ids).items() if times > 1)
            raise NoAnswerError(f"an answer with {twice!r} more than once")
        if service.gives == "list":
            strange = next((name for name in ids if name not in places), None)
            if strange is not None:
                raise NoAnswerError(f"a list with {strange!r}, an item that the log does not have")
            return ids, numbers
        known = {name: number for name, number in zip(ids, numbers, strict=True) if name in places}
        lacking = [name for name in places if name not in known]
        if service.gives == "scores" and lacking:
            raise NoAnswerError(f"no score for {len(lacking):,} of {len(places):,} items, {lacking[0]!r} first")
        return list(known), list(known.values())

    def _by_item(self, ids: list[int | str], numbers: list[float]) -> FloatArray:
        """(items,): 0 for items without a number, which have no probability."""
        found = np.zeros(len(self._places))
        found[[self._places[name] for name in ids]] = numbers
        return found

    def _question(self, history: History) -> HttpRequest:
        values: dict[str, JsonValue] = {
            "user": as_json(history.user),
            "viewer": as_json(history.viewer),
            "items": [as_json(item) for item in history.items],
            "ratings": [as_json(rating) for rating in history.ratings],
            "k": self.service.k,
        }
        request = self.service.request
        body = None if request is None else json.dumps(fill(request, values), allow_nan=False).encode()
        return HttpRequest(fill_url(self.service.url, values), body)

    def _check_sent(self, history: History) -> None:
        """Refuse what the request does not tell: the service would answer as if nothing had changed."""
        if any(needed <= self._sent for needed in _SENDS_EDITS):
            return
        user, data = self._users[history.user], self.data
        rows = slice(data.indptr[user], data.indptr[user + 1]) if data.times is None else data.in_time(user)
        if history.ratings != tuple(data.ratings[rows].tolist()):
            raise NotSupportedError(
                "This request does not send what a user rated, so that other ratings cannot be tried. Send {history}, "
                "if the service can answer for a history that it is sent."
            )

    def _pause(self, key: bytes, tries: int) -> float:
        """Seconds; the same for the same question, so that nothing in a run is chance."""
        full = min(self.service.pause * 2.0 ** (tries - 1), self.service.longest_pause)
        return full * (0.5 + 0.5 * derive(0, key.hex(), tries) / 2**64)

    @cached_property
    def _sent(self) -> set[str]:
        return names_in(self.service.url) | names_in(self.service.request)

    @cached_property
    def _identity(self) -> bytes:
        """Of what is asked and how the answer is read, the catalogue included; without headers."""
        service = self.service
        how = [service.url, service.request, service.answer, service.score, service.gives, list(self._places)]
        return hashlib.sha256(json.dumps(how).encode()).digest()

    @cached_property
    def _cache(self) -> AnswerCache:
        host = urlsplit(self.service.url).netloc.replace(":", "_")
        return AnswerCache(self.service.cache or cache_folder() / "http" / host)

    @cached_property
    def _furthest(self) -> float:
        """Seconds that a query may have to wait for its turn: those before it, and a service that wants a rest."""
        turn = 0.0 if self.service.rate is None else 1 / self.service.rate
        return self.service.concurrency * turn + self.service.longest_pause

    @cached_property
    def _origin(self) -> str:
        parts = urlsplit(self.service.url)
        return f"{parts.scheme}://{parts.netloc}"

    @cached_property
    def _places(self) -> dict[int | str, int]:
        return {name: place for place, name in enumerate(self.data.item_ids.to_list())}

    @cached_property
    def _users(self) -> dict[object, int]:
        return {name: place for place, name in enumerate(self.data.user_ids.to_list())}

    def __reduce__(self) -> tuple[type[HttpSystem], tuple[Http, Interactions, QuerySession]]:
        return HttpSystem, (self.service, self.data, self.session)  # a lock does not travel


def _has_user(url: str) -> bool:
    """Whether there is something before an @ where the host should be, in whatever stands for an address."""
    return "@" in (url.partition("//")[2] or url).partition("/")[0]


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return known and not names_in(parts.netloc) and url.isprintable() and " " not in url


def _drawn(some: int | tuple[int | str, ...], data: Interactions, rng: int) -> IntArray:
    """Positions, ascending; those that an audit draws with the same seed."""
    if isinstance(some, tuple):
        return np.unique(data.users_at(some))
    draws = uniforms(derive(rng, "users"), data.user_keys, np.zeros(1, dtype=np.uint64))
    return np.sort(np.argsort(draws)[:some])
