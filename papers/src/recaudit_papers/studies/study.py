"""What a study is: experiments, each a table that follows from its settings, and how they are read beside a paper."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, final

import polars as pl

from recaudit_papers.studies.reading import StudyTable

Size = Literal["tiny", "quick", "paper"]
"""`paper`: as large as the paper, or larger. `quick`: ten minutes on two cores. `tiny`: seconds, on built-in data."""

Measure = Callable[..., pl.DataFrame]
"""A function of a module, which other processes can import: its keywords are an experiment's settings."""


@final
@dataclass(frozen=True)
class Experiment:
    """One measurement: the table that `measure(**settings)` gives."""

    name: str
    """Its own in the study, in words with hyphens, parts divided by slashes: `ml-1m/libfm/next-10`."""
    measure: Measure
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All that the table follows from, seed included; what JSON can hold."""
    data: tuple[str, ...] = ()
    """The data sets it needs, by name."""
    optional: bool = False
    """Whether the study goes on without it where its data are not to be had."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Folders that it is measured with as well, and that no number depends on: they may lie elsewhere tomorrow."""

    @cached_property
    def plan(self) -> dict[str, Any]:
        """What its table follows from, as it is kept."""
        where = f"{self.measure.__module__}.{self.measure.__qualname__}"
        return {"measure": where, "settings": json.loads(json.dumps(dict(self.settings)))}

    def table(self) -> pl.DataFrame:
        """Measure."""
        return self.measure(**self.settings, **self.places)


@final
@dataclass(frozen=True)
class Results(Mapping[str, pl.DataFrame]):
    """The tables of a study's experiments by name."""

    tables: Mapping[str, pl.DataFrame]
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why an experiment was not made, by its name."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    size: Size = "quick"

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def under(self, prefix: str) -> pl.DataFrame:
        """The tables of all experiments whose names begin so, one after the other, with their name first."""
        found = [
            table.select(pl.lit(name).alias("experiment"), pl.all())
            for name, table in self.tables.items()
            if name.startswith(prefix)
        ]
        return pl.concat(found, how="diagonal_relaxed") if found else pl.DataFrame()

    def why_not(self, name: str) -> str:
        """Why there is no table of this name."""
        return self.missing.get(name, f"not measured at this size ({self.size})")


class Study(ABC):
    """The experiments of a paper, or of a question of one's own, beside what is printed."""

    name: ClassVar[str]
    sized: ClassVar[bool] = True
    """Whether it measures something else at another size."""
    title: str
    paper: str = ""
    """Whose numbers ours stand beside."""

    @property
    def arguments(self) -> str:
        """What `recaudit study` is told to carry it out."""
        return self.name

    @abstractmethod
    def experiments(self, size: Size) -> list[Experiment]:
        """What is measured at this size, in order; the same settings at two sizes are measured once."""

    @abstractmethod
    def tables(self, results: Results) -> list[StudyTable]:
        """What was found, a table or figure of the paper each; whatever is missing is said."""

    def notes(self, results: Results) -> list[str]:
        """What has to be known before any number is read: other data, a smaller sample."""
        return []
