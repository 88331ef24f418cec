"""Which answers of a service were used: how many, how many came from the cache, when they were given, and to whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, final
from uuid import uuid4


class UsedAnswers(NamedTuple):
    """Answers that were queried by the same run, as they were used: queried at that moment, or read from the cache."""

    run: str
    """The run that queried them."""
    cached: bool
    """Whether they came from the cache."""
    answers: int
    oldest: float
    """When the first of them was given, in seconds since 1970."""
    newest: float


@final
@dataclass
class QuerySession:
    """Whose queries these are, and from when on an answer counts. Workers have a copy of their own."""

    run: str = field(default_factory=lambda: uuid4().hex)
    """Queries are recorded under this id: by it, two runs know that they used the same answers."""
    not_before: float = 0.0
    """Answers that were given earlier are queried again, in seconds since 1970."""
    id: str = field(default_factory=lambda: uuid4().hex)
    """Uses of answers are counted under this id."""
    part: int = 0
    """Counts the parts of the work, so that the answers of one audit are told from those of the one before."""


class AnsweringService(Protocol):
    """A service that remembers its answers."""

    session: QuerySession

    def used_answers(self, part: int) -> list[UsedAnswers]:
        """The answers that were used in this part of the session and in those after it."""


def start_part(service: AnsweringService | None) -> int:
    """Begin a new part of the work with a service, and return its number for `answer_facts`."""
    if service is None:
        return 0
    service.session.part += 1
    return service.session.part


def answer_facts(service: AnsweringService | None, part: int) -> dict[str, Any]:
    """Facts about the answers that were used since `start_part`; none without a service that remembers its answers.

    `answers`: `used` is how many, `cached` how many of them came from the cache, `earlier` how many another run had
    queried, `oldest` and `newest` are when they were given (ISO 8601, UTC), and `runs` has the number of answers by the
    run that queried them.
    """
    used = [] if service is None else service.used_answers(part)
    if service is None or not used:
        return {}
    runs: dict[str, int] = {}
    for some in used:
        runs[some.run] = runs.get(some.run, 0) + some.answers
    facts = {
        "used": sum(some.answers for some in used),
        "cached": sum(some.answers for some in used if some.cached),
        "earlier": sum(count for run, count in runs.items() if run != service.session.run),
        "oldest": _iso(min(some.oldest for some in used)),
        "newest": _iso(max(some.newest for some in used)),
        "runs": runs,
    }
    return {"answers": facts}


def joined_answers(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The `answers` of several audits as one; empty where no audit has any."""
    found = list(parts)
    if not found:
        return {}
    runs: dict[str, int] = {}
    for part in found:
        for run, count in part["runs"].items():
            runs[run] = runs.get(run, 0) + count
    counts = {name: sum(part[name] for part in found) for name in ("used", "cached", "earlier")}
    ends = {"oldest": min(part["oldest"] for part in found), "newest": max(part["newest"] for part in found)}
    return {**counts, **ends, "runs": runs}


def answer_words(answers: Mapping[str, Any]) -> str:
    """The `answers` of a result: "22 answers, 22 from the cache of an earlier run, of 2026-05-04 14:54 UTC"."""
    used, earlier = answers["used"], answers["earlier"]
    oldest, newest = (str(answers[name])[:16].replace("T", " ") for name in ("oldest", "newest"))
    period = oldest if oldest == newest else f"{oldest} to {newest[11:] if oldest[:10] == newest[:10] else newest}"
    source = f"{earlier:,} from the cache of an earlier run" if earlier else "none from an earlier run"
    return f"{used:,} answer{'' if used == 1 else 's'}, {source}, of {period} UTC"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
