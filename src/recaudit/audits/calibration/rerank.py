"""Re-ranking: lists in, calibrated lists out. Frames at once, files of any size batch by batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from recaudit import atomic
from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.calibration.calibrator import Calibrator
from recaudit.data.frames import check_columns
from recaudit.data.interactions import Interactions, Unknown
from recaudit.data.lists import GivenLists, ListColumns, given_lists, places_in
from recaudit.data.readers import reading, scan_table, with_typed_ids
from recaudit.engines.base import BLOCK
from recaudit.engines.progress import track
from recaudit.errors import DataError, InputError
from recaudit.policies.calibrated import Calibrated

CELLS = 4_000_000
"""Scores of a block of lists, users x items, that are held at a time."""
BATCH = 500_000
"""Rows of a file that are held at a time; a list that is longer is held whole."""


@checked
def rerank(
    lists: object,
    data: Interactions,
    policy: Calibrated | None = None,
    *,
    columns: ListColumns | None = None,
    unknown: Unknown = "error",
    certify: bool = False,
) -> pl.DataFrame:
    """Calibrated lists out of the items that each user's list has: user, item, rank, score, before.

    `lists` is a frame, or a .parquet, .csv or .tsv file, with columns user, item, and score or rank; a list is the
    pool that `policy.size` items are taken from. `data` holds the histories and the categories. The relevance of an
    item is its score; without scores, or where they contradict the ranks (a warning counts such lists), it follows
    from the ranks, as with `transform="rank"`. `before` is the place that the item had. A user without history
    keeps the list by score, cut at the size. With `certify`, `may_miss` is by how much at most the list's
    objective, `(1 - weight) score - weight C_KL`, is below that of the best list of its length.
    """
    given = given_lists(lists, data, columns, unknown)
    if given.emptied:
        warnings.warn(f"{given.emptied:,} users have no list any more: the log knows none of its items.", stacklevel=2)
    if count := int(given.against_rank.sum()):
        contradict = f"{count:,} lists have scores that contradict their ranks: the ranks decide there, and relevance"
        warnings.warn(f"{contradict} falls with them in equal steps.", stacklevel=2)
    return _reranked(given, Calibrator(policy or Calibrated(), data), columns or ListColumns(), certify=certify)


@final
@dataclass(frozen=True)
class Reranked:
    """What became of a file."""

    path: Path
    users: int
    rows: int
    without_history: int
    """Users whose list is calibrated to no history of their own."""
    left_out: int
    """Rows whose items the log does not know."""
    emptied: int
    """Users who have no list any more, because none of its rows was left."""
    against_rank: int
    """Lists whose scores contradict their ranks: the ranks decide."""


@checked
def rerank_file(
    source: str | Path,
    data: Interactions,
    out: str | Path,
    policy: Calibrated | None = None,
    *,
    columns: ListColumns | None = None,
    unknown: Unknown = "error",
    batch: int = BATCH,
) -> Reranked:
    """`rerank` for a file of any size: .parquet, .csv or .tsv in, .parquet or .csv out, about `batch` rows at a time.

    The rows of a user must stand together. `out` appears whole when everything is done, or not at all.
    """
    source, out = Path(source), Path(out)
    if not source.is_file():
        raise DataError("lists", received=str(source), expected="a file that exists", remedy="Check the spelling.")
    if source.suffix.lower() not in (".parquet", ".csv", ".tsv"):
        raise DataError("lists", received=str(source), expected="a file that ends in .parquet, .csv or .tsv")
    if out.suffix.lower() not in (".parquet", ".csv"):
        raise InputError("out", received=str(out), expected="a file that ends in .parquet or .csv")
    if out.is_dir():
        raise InputError("out", received=f"{out}, a folder", expected="a file")
    columns = columns or ListColumns()
    calibrator = Calibrator(policy or Calibrated(), data)
    out.parent.mkdir(parents=True, exist_ok=True)
    counts, before = np.zeros(6, dtype=np.int64), 0
    with atomic.workspace(out.parent) as aside:
        for number, table in enumerate(_whole_lists(source, data, columns, batch)):
            given = given_lists(table, data, columns, unknown, before)
            before += len(table)
            made = _reranked(given, calibrator, columns)
            made.write_parquet(aside / f"{number:08d}.parquet")
            without = (np.where(given.at >= 0, data.user_counts[given.at], 0) == 0).sum()
            missing = given.left_out, given.emptied, given.against_rank.sum()
            counts += np.array([len(given.user_ids), len(made), without, *missing])
        with atomic.file(out) as whole:
            lists = pl.scan_parquet(sorted(aside.glob("*.parquet")))
            (lists.sink_csv if out.suffix.lower() == ".csv" else lists.sink_parquet)(whole)
    return Reranked(out, *counts.tolist())


def _reranked(
    given: GivenLists, calibrator: Calibrator, columns: ListColumns, *, certify: bool = False
) -> pl.DataFrame:
    """The calibrated lists as rows, made in blocks such that users x items stays within CELLS."""
    lengths = np.bincount(given.rows, minlength=len(given.user_ids))
    relevance = by_rank = np.asarray(1 - (places_in(given.rows) - 1) / lengths[given.rows])  # falls in equal steps
    if given.scores is not None:
        relevance = np.where(given.against_rank[given.rows], by_rank, given.scores)
    step = max(1, min(BLOCK, int(np.sqrt(CELLS / lengths.max(initial=1)))))
    made, missed = [np.zeros((3, 0), dtype=np.int64)], []
    for start in range(0, len(lengths), step):
        block, gap = _block(given, calibrator, relevance, slice(start, start + step), certify=certify)
        made.append(block)
        missed += [] if gap is None else [gap]
    lists, items, rows = np.concatenate(made, axis=1)
    scores = pl.Series(np.full(len(rows), np.nan) if given.scores is None else given.scores[rows]).fill_nan(None)
    frame = pl.DataFrame(
        {
            columns.user: given.user_ids.gather(lists),
            columns.item: calibrator.data.item_ids.gather(items),
            columns.rank: places_in(lists),
            columns.score: scores,
            "before": given.places[rows],
        }
    )
    return frame.with_columns(may_miss=np.concatenate(missed)[lists]) if missed else frame


def _block(
    given: GivenLists, calibrator: Calibrator, relevance: FloatArray, block: slice, *, certify: bool
) -> tuple[IntArray, FloatArray | None]:
    """(3, places) of some lists: the list, the item, the row that it had; and what each list may miss."""
    users, rows = given.at[block], np.arange(*np.searchsorted(given.rows, (block.start, block.stop)))
    list_of = given.rows[rows] - block.start
    pool, column = np.unique(given.items[rows], return_inverse=True)
    scores = np.zeros((len(users), len(pool)))
    row_of = np.full(scores.shape, -1, dtype=np.int64)
    scores[list_of, column], row_of[list_of, column] = relevance[rows], rows
    n = min(calibrator.policy.size, int(np.bincount(list_of).max()))
    ties = calibrator.data.tie_keys_of(given.user_ids[block])
    made = calibrator.solve(scores, row_of >= 0, users, n, ties=ties, pool=pool, certify=certify)
    which, rank = np.nonzero(made.lists >= 0)
    column = made.lists[which, rank]
    missed = None if made.certificate is None else made.certificate.gap
    return np.stack([which + block.start, pool[column], row_of[which, column]]), missed


# ---- files ---------------------------------------------------------------------------------------------


def _whole_lists(source: Path, data: Interactions, columns: ListColumns, batch: int) -> Iterator[pl.DataFrame]:
    """The file in pieces of about `batch` rows that end where a user's rows end."""
    ids = {columns.user: data.user_ids, columns.item: data.item_ids}

    def typed(table: pl.DataFrame) -> pl.DataFrame:
        return table if source.suffix.lower() == ".parquet" else with_typed_ids(table, ids)

    with reading(source):
        lazy = scan_table(source, ids)
        held_names = lazy.collect_schema().names()
        check_columns([columns.user, columns.item], held_names)
        wanted = (columns.user, columns.item, columns.rank, columns.score)
        lazy = lazy.select(name for name in dict.fromkeys(wanted) if name in held_names)
        total = int(lazy.select(pl.len()).collect().item())
        held = lazy.head(0).collect()
        seen = held[columns.user]
        if not total:
            yield held  # told as such where lists are read
            return
        pieces = (lazy.slice(start, batch).collect() for start in range(0, total, batch))
        for piece in track(pieces, "lists", -(-total // batch)):
            table = pl.concat([held, piece])
            users = table[columns.user]
            others = (users != users[-1]).fill_null(value=True).arg_true()
            end = int(others[-1]) + 1 if len(others) else 0
            if end:
                seen = _check_together(users[:end], seen)
                yield typed(table[:end])
            held = table[end:]
        if len(held):
            _check_together(held[columns.user], seen)
            yield typed(held)


def _check_together(ids: pl.Series, seen: pl.Series) -> pl.Series:
    """That no user comes back after another one's rows, here or after those `seen`: the list would be cut in two."""
    runs = ids.filter((ids != ids.shift(1)).fill_null(value=True))
    again = runs.filter(runs.is_duplicated() | runs.is_in(seen.implode()))
    if len(again):
        raise DataError(
            f"column {ids.name!r}",
            received=f"{again[0]!r} again after another user's rows",
            expected="the rows of each user together: the file is read in one pass",
            remedy=f"Sort it first: pl.scan_parquet(file).sort({ids.name!r}).sink_parquet(sorted_file).",
        )
    return seen.append(runs)
