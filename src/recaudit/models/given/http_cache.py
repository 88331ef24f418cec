"""What all workers of a run share: answers on disk, a count of queries, a rate, and places for questions under way."""

from __future__ import annotations

import hashlib
import sqlite3
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar, final

from recaudit import lock
from recaudit.errors import BudgetSpentError, DamageWarning, InputError
from recaudit.models.given.answers import QuerySession, UsedAnswers

Found = TypeVar("Found")

NAME = "answers.sqlite"
CHECKED = 10
"""How many questions that come again are really asked again, to see whether a service repeats itself."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_POLL = 0.01
_BUSY = 60.0
_TABLES = (
    "CREATE TABLE IF NOT EXISTS answers (key BLOB, nth INTEGER, service BLOB, at REAL, digest BLOB, body BLOB,"
    " run TEXT NOT NULL DEFAULT '', PRIMARY KEY (key, nth)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS again ON answers (service) WHERE nth = 2",
    "CREATE TABLE IF NOT EXISTS random (service BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS asked (one INTEGER PRIMARY KEY CHECK (one = 1), queries INTEGER, next REAL)",
    "INSERT OR IGNORE INTO asked VALUES (1, 0, 0)",
    "CREATE TABLE IF NOT EXISTS uses (session TEXT, part INTEGER, run TEXT, cached INTEGER, answers INTEGER,"
    " oldest REAL, newest REAL, last REAL, PRIMARY KEY (session, part, run, cached)) WITHOUT ROWID",
)
_USES_KEPT = 30 * 86400.0
"""Seconds for which it is kept how often answers were used: audits read it when they end."""


@final
@dataclass(frozen=True)
class AnswerCache:
    """A folder with a database, which threads and processes use at the same time, and which outlives a kill."""

    folder: Path

    def recall(
        self, key: bytes, service: bytes, nth: int, since: float, session: QuerySession | None = None
    ) -> bytes | None:
        """The answer to a question that comes for the `nth` time here, not older than `since`; None to ask.

        Its use is counted for the `session`.

        Of a service that repeats itself the one answer; of a random one as many answers as there were questions. Which
        of the two it is, is seen when questions come again: the first few are asked once more.
        """

        def look(database: sqlite3.Connection) -> bytes | None:
            place = nth
            if nth > 1 and not _is_random(database, service):
                counted = "SELECT count(*) FROM answers WHERE service = ? AND nth = 2 AND at >= ?"
                again = database.execute(counted, (service, since))
                known = _stored(database, key, 2, since) is not None or again.fetchone()[0] >= CHECKED
                if not known:
                    return None
                place = 1
            stored = _stored(database, key, place, since)
            if stored is None:
                return None
            if session is not None:
                _count_use(database, session, stored.run, cached=True, at=stored.at)
            return stored.body

        return self._do(look)

    def used_answers(self, session: QuerySession, part: int) -> list[UsedAnswers]:
        """How often answers were used in this part of a session and in those after it."""

        def look(database: sqlite3.Connection) -> list[UsedAnswers]:
            rows = database.execute(
                "SELECT run, cached, sum(answers), min(oldest), max(newest) FROM uses WHERE session = ? AND part >= ?"
                " GROUP BY run, cached ORDER BY run, cached",
                (session.id, part),
            )
            return [UsedAnswers(run, bool(cached), *others) for run, cached, *others in rows.fetchall()]

        return self._do(look)

    def keep(
        self,
        key: bytes,
        service: bytes,
        nth: int,
        body: bytes,
        since: float,
        session: QuerySession | None = None,
    ) -> None:
        """Keep an answer that was asked for because `recall` had none, and count its use for the `session`."""

        def write(database: sqlite3.Connection) -> None:
            place = nth
            if nth > 1 and not _is_random(database, service):
                first = _stored(database, key, 1, since)
                place = 1 if first is None else 2  # the first time it came, the service may have failed
                if first is not None and first.body != body:
                    database.execute("INSERT OR IGNORE INTO random VALUES (?)", (service,))
            run, at = "" if session is None else session.run, time.time()
            row = key, place, service, at, hashlib.sha256(body).digest(), zlib.compress(body, 1), run
            database.execute(
                "INSERT OR REPLACE INTO answers (key, nth, service, at, digest, body, run)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            if session is not None:
                _count_use(database, session, run, cached=False, at=at)

        self._do(write)

    @property
    def queries(self) -> int:
        """How many queries were made in all."""
        return self._do(lambda database: int(database.execute("SELECT queries FROM asked").fetchone()[0]))

    def reserve(self, budget: int | None, rate: float | None, furthest: float) -> float:
        """Count a query, and say in how many seconds it may be made: at most `furthest`, if clocks go right."""

        def count(database: sqlite3.Connection) -> float:
            queries, following = database.execute("SELECT queries, next FROM asked").fetchone()
            if budget is not None and queries >= budget:
                raise BudgetSpentError(
                    f"The budget of queries is spent: {queries:,} of {budget:,}, counted in the cache for all workers."
                )
            now = time.time()
            start = min(max(now, float(following)), now + furthest)
            step = 0.0 if rate is None else 1 / rate
            database.execute("UPDATE asked SET queries = queries + 1, next = ?", (start + step,))
            return start - now

        return self._do(count)

    def hold(self, seconds: float) -> None:
        """Let nobody ask for so long."""
        self._do(lambda database: database.execute("UPDATE asked SET next = max(next, ?)", (time.time() + seconds,)))

    @contextmanager
    def place(self, places: int) -> Iterator[None]:
        """One of so many places for questions under way; whoever holds one and is killed leaves it."""
        folders = [self.folder / f"place-{place}" for place in range(places)]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        with _one_of(folders):
            yield

    def _do(self, work: Callable[[sqlite3.Connection], Found]) -> Found:
        """Do this in one transaction; a damaged database is set aside first, and told."""
        self._ready  # noqa: B018  made on first use
        try:
            return self._transaction(work)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                raise
        self._mend()
        return self._transaction(work)

    def _transaction(self, work: Callable[[sqlite3.Connection], Found]) -> Found:
        # A connection each time: none is left open in a thread that ends, or on a file that was set aside.
        with closing(sqlite3.connect(self.folder / NAME, timeout=_BUSY, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = OFF")  # a kill loses nothing; a power cut may cost the cache
            database.execute("BEGIN IMMEDIATE")
            try:
                done = work(database)
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
            return done

    @cached_property
    def _ready(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._mend()

    def _mend(self) -> None:
        """Make the database where there is none, or none that can be read."""
        with _one_of([self.folder]):
            try:
                self._make()
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                    raise
                aside = self._set_aside()
                self._make()
            else:
                return
        warnings.warn(
            f"{self.folder / NAME} is damaged and was set aside as {aside}: its answers are asked for again, and "
            "queries are counted from 0.",
            DamageWarning,
            stacklevel=2,
        )

    def _make(self) -> None:
        with closing(sqlite3.connect(self.folder / NAME, timeout=_BUSY, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = OFF")
            database.execute("PRAGMA journal_mode = WAL")
            for statement in _TABLES:
                database.execute(statement)
            if "run" not in [column[1] for column in database.execute("PRAGMA table_info(answers)")]:  # before 0.3
                with suppress(sqlite3.OperationalError):  # another process has just added it
                    database.execute("ALTER TABLE answers ADD COLUMN run TEXT NOT NULL DEFAULT ''")
            database.execute("DELETE FROM uses WHERE last < ?", (time.time() - _USES_KEPT,))
            problem = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            damaged = sqlite3.DatabaseError(problem)
            damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damaged

    def _set_aside(self) -> str:
        name = next(name for n in range(1, 10_000) if not (self.folder / (name := f"{NAME}.damaged-{n}")).exists())
        for suffix in ("-wal", "-shm", ""):
            with suppress(FileNotFoundError):
                (self.folder / f"{NAME}{suffix}").replace(self.folder / f"{name}{suffix}")
        return name


@contextmanager
def _one_of(folders: Sequence[Path]) -> Iterator[None]:
    """Hold the lock of one of the folders, the first that is free."""
    with ExitStack() as held:
        while not any(_take(held, folder) for folder in folders):
            time.sleep(_POLL)
        yield


def _take(held: ExitStack, folder: Path) -> bool:
    with suppress(InputError):  # somebody else's
        held.enter_context(lock.alone(folder))
        return True
    return False


class _Stored(NamedTuple):
    """An answer of the database."""

    body: bytes
    at: float
    """When it was given."""
    run: str
    """The run that queried it."""


def _stored(database: sqlite3.Connection, key: bytes, nth: int, since: float) -> _Stored | None:
    """An answer that is there, is not too old, and is as it was written."""
    row = database.execute(
        "SELECT digest, body, at, run FROM answers WHERE key = ? AND nth = ? AND at >= ?", (key, nth, since)
    ).fetchone()
    if row is None:
        return None
    with suppress(zlib.error):
        body = zlib.decompress(row[1])
        return _Stored(body, row[2], row[3]) if hashlib.sha256(body).digest() == row[0] else None
    return None


def _count_use(database: sqlite3.Connection, session: QuerySession, run: str, *, cached: bool, at: float) -> None:
    """Count an answer that is used now, was given at `at` and was queried by `run`."""
    database.execute(
        "INSERT INTO uses VALUES (?, ?, ?, ?, 1, ?, ?, ?) ON CONFLICT (session, part, run, cached) DO UPDATE SET"
        " answers = answers + 1, oldest = min(oldest, excluded.oldest), newest = max(newest, excluded.newest),"
        " last = excluded.last",
        (session.id, session.part, run, int(cached), at, at, time.time()),
    )


def _is_random(database: sqlite3.Connection, service: bytes) -> bool:
    return database.execute("SELECT 1 FROM random WHERE service = ?", (service,)).fetchone() is not None
