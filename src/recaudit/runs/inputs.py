"""From a configuration to what a run works on: the log, its split, the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recaudit.data import Interactions, datasets, read, splits
from recaudit.data.readers import read_table
from recaudit.data.splits import Split
from recaudit.engines import Engine, Processes, Serial, Threads
from recaudit.errors import DataError
from recaudit.runs.configuration import ByTime, EngineSettings, LeaveLast, NamedData, OwnData, RandomSplit


def load_data(source: NamedData | OwnData) -> Interactions:
    """The log, with everything that the configuration says about users and items."""
    if isinstance(source, NamedData):
        return datasets.load(source.name, source.path)
    with _named(source.file):
        data = read(
            source.file,
            user=source.user,
            item=source.item,
            rating=source.rating or None,
            time=source.time,
            scale=source.scale,
            duplicates=source.duplicates,
        )
    if source.items is not None:
        with _named(source.items):
            data = data.with_items(
                read_table(source.items, {source.item: data.item_ids}),
                item=source.item,
                title=source.title,
                categories=source.categories,
                separator=source.separator,
                unknown="ignore",
            )
    if source.users is not None:
        with _named(source.users):
            data = data.with_users(
                read_table(source.users, {source.user: data.user_ids}),
                user=source.user,
                attributes=source.attributes,
                unknown="ignore",
            )
    return data


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Say of which file a mistake is told: there can be three."""
    try:
        yield
    except DataError as error:
        raise error.inside(file.name) from None


def name_of(source: NamedData | OwnData) -> str:
    """What to call the data in front of a person."""
    return source.name if isinstance(source, NamedData) else source.file.name


def split_data(data: Interactions, split: RandomSplit | LeaveLast | ByTime, seed: int) -> Split:
    """Training and held-out ratings."""
    if isinstance(split, RandomSplit):
        return splits.random(data, split.fraction, rng=seed)
    if isinstance(split, LeaveLast):
        return splits.leave_last(data, split.k)
    return splits.by_time(data, split.fraction)


def make_engine(settings: EngineSettings) -> Engine:
    """The engine that the settings describe."""
    if settings.kind == "threads":
        return Threads(settings.workers)
    if settings.kind == "processes":
        return Processes(settings.workers)
    return Serial()
