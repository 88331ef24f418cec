"""What two runs cannot be compared in: other users under the same ids, another catalogue, other item counts.

Each run keeps `data/users.parquet`, with a signature of each user's history, and `data/items.parquet`, with the
catalogue and how often each item occurs in the training interactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import polars as pl

from recaudit.audits.audit import Audit
from recaudit.data.signatures import count_same_histories
from recaudit.registry import AUDITS
from recaudit.runs.cautions import RunCaution
from recaudit.runs.changes import changes
from recaudit.runs.folder import ITEM_COUNTS, USER_SIGNATURES, Run

MIN_SAME_HISTORIES = 0.5
"""Smallest share of the common ids whose histories must be those of the same users."""

_OF_CATALOGUE = ("coverage", "gini", "popularity_correlation", "item_calibration_tv")
_OF_POPULARITY = ("novelty", "popularity_lift", "popularity_correlation", "item_calibration_tv")
_UNSAMPLED_SPLITS = ("leave-last", "by-time", "files")
"""Splits that hold out the same interactions with any seed."""


@final
@dataclass(frozen=True)
class Refusal:
    """Why metrics of an audit are not compared."""

    code: str
    reason: str
    metrics: tuple[str, ...]


@final
@dataclass(frozen=True, eq=False)
class Comparability:
    """Two runs, before any number of theirs is compared.

    Attributes:
        before: Run that is compared with.
        after: Run that is compared.
    """

    before: Run
    after: Run

    @property
    def is_one_run(self) -> bool:
        """Whether both are the same run."""
        return self.before.path.resolve() == self.after.path.resolve()

    @property
    def is_same_data(self) -> bool:
        """Whether both runs used the same interactions."""
        return self.before.manifest.data.fingerprint == self.after.manifest.data.fingerprint

    @cached_property
    def cautions(self) -> tuple[RunCaution, ...]:
        """What a reader must know before any number, most important first."""
        return tuple(self._cautions())

    @property
    def refusal(self) -> RunCaution | None:
        """Caution that forbids any comparison of users, or None."""
        codes = ("comparison.other-histories", "comparison.unknown-histories", "comparison.no-common-users")
        return next((caution for caution in self.cautions if caution.code in codes), None)

    def refusals(self, audit: str, *asked: Mapping[str, Any]) -> Iterator[Refusal]:
        """Find the metrics of an audit that other catalogues, or item counts, make incomparable.

        Args:
            audit: Name of the audit.
            *asked: Settings of the audit in both runs.
        """
        kind = AUDITS[audit]
        of_catalogue: list[str] = []
        if self.has_other_catalogue:
            of_targets = _of_targets(kind, asked)
            of_catalogue = [own.name for own in kind.metrics if own.name in (*_OF_CATALOGUE, *of_targets)]
            if of_catalogue:
                reason = "the two runs have other catalogues, on which the number depends"
                yield Refusal("comparison.other-catalogue", reason, tuple(of_catalogue))
        if self.has_other_popularity:
            metrics = [own.name for own in kind.metrics if own.name in _OF_POPULARITY and own.name not in of_catalogue]
            if metrics:
                reason = "items have other counts in the training interactions, on which the number depends"
                yield Refusal("comparison.other-popularity", reason, tuple(metrics))

    def _cautions(self) -> Iterator[RunCaution]:
        if self.is_one_run:
            yield from self._of_unfinished()
            return
        if not self.is_same_data:
            yield from self._of_histories()
        if self.has_other_catalogue:
            old, new = self._catalogues
            yield RunCaution(
                "comparison.other-catalogue",
                f"The catalogues differ: {len(old):,} and {len(new):,} items, of which {self._n_common_items:,} are in "
                "both. Numbers that depend on the catalogue, such as coverage and Gini, are not compared.",
                _OF_CATALOGUE,
            )
        elif self.has_other_popularity:
            yield RunCaution(
                "comparison.other-popularity",
                "Items occur more or less often in the training interactions. Numbers that depend on these counts, "
                "such as novelty, are not compared.",
                _OF_POPULARITY,
            )
        if self.is_same_data and _has_other_split(self.before, self.after):
            yield RunCaution(
                "comparison.other-split",
                "Other interactions may have been held out: a difference may come from these, not from the model.",
            )
        yield from self._of_unfinished()
        versions = [own for own in changes(self.before, self.after, {}) if own.what == "versions"]
        if versions:
            each = "; ".join(f"{own.name} {own.before or 'none'} and {own.after or 'none'}" for own in versions)
            yield RunCaution("comparison.other-versions", f"The runs were made with different versions: {each}.")

    def _of_histories(self) -> Iterator[RunCaution]:
        tables = [_read(run, USER_SIGNATURES) for run in (self.before, self.after)]
        old, new = tables
        if old is None or new is None:
            which = "neither run" if old is None and new is None else "the first run" if old is None else "the second"
            verb = "says" if old is None and new is None else "does not say"
            yield RunCaution(
                "comparison.unknown-histories",
                f"The two runs used different data, and {which} {verb} which histories users had, so that it is not "
                "known whether the same ids are the same users. Run it again with this version.",
            )
            return
        n_common, n_same = count_same_histories(old, new)
        share = n_same / n_common if n_common else None
        told = f"of {old.height:,} and {new.height:,} users, {n_common:,} are in both"
        if share is None:
            yield RunCaution(
                "comparison.no-common-users", f"The two runs used different data without a common user: {told}."
            )
        elif share < MIN_SAME_HISTORIES:
            yield RunCaution(
                "comparison.other-histories",
                f"The same ids have other histories in the two runs: {told}, and {n_same:,} of these ({share:.0%}) "
                "have a history that is more alike than those of two different users. They are not compared: the ids "
                "seem to name other users.",
                users=n_common,
                share=share,
            )
        else:
            yield RunCaution(
                "comparison.other-data",
                f"The two runs used different data: {told}, and {share:.0%} of these have a similar history. Only "
                "they are compared, and a difference may come from the data, not from the model.",
                users=n_common,
                share=share,
            )

    def _of_unfinished(self) -> Iterator[RunCaution]:
        for place, run in (("first", self.before), ("second", self.after)):
            if run.manifest.status != "complete" and (place == "first" or not self.is_one_run):
                text = f"The {place} run is not finished: it is compared as far as it has come."
                yield RunCaution("comparison.unfinished", text)

    @cached_property
    def _catalogues(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Items and their counts; two empty tables if a run has none."""
        tables = [_read(run, ITEM_COUNTS) for run in (self.before, self.after)]
        old, new = tables
        if old is None or new is None:
            empty = pl.DataFrame(schema={"item": pl.String, "count": pl.Int64})
            return empty, empty
        return old, new

    @cached_property
    def _n_common_items(self) -> int:
        old, new = self._catalogues
        return old.join(new, on="item", how="semi").height

    @property
    def has_other_catalogue(self) -> bool:
        """Whether the two runs have other items."""
        old, new = self._catalogues
        return not self.is_one_run and not self._n_common_items == len(old) == len(new)

    @cached_property
    def has_other_popularity(self) -> bool:
        """Whether items have other counts in the training interactions."""
        old, new = self._catalogues
        return not self.is_one_run and old.join(new, on=["item", "count"], how="semi").height < max(len(old), len(new))


def _read(run: Run, name: str) -> pl.DataFrame | None:
    """Read a table whose first column has each id once."""
    table = run.data_table(name)
    return None if table is None else table.unique(table.columns[0], keep="first")


def _of_targets(kind: type[Audit], asked: tuple[Mapping[str, Any], ...]) -> list[str]:
    """The metrics that depend on target items which are not named by id: all, or a sample of the catalogue."""
    targets = [settings.get("targets") for settings in asked]
    field = kind.model_fields.get("targets")
    if field is None or all(isinstance(own, list | tuple) for own in targets):
        return []
    return [metric.name for metric in kind.metrics if "targets" not in metric.free_of]


def _has_other_split(before: Run, after: Run) -> bool:
    """Whether the same data may have been split differently."""
    one, other = (run.manifest.config.get("split", {}) for run in (before, after))
    is_sampled = one.get("kind", "files" if "train" in one else "random") not in _UNSAMPLED_SPLITS
    return one != other or (is_sampled and before.manifest.seed != after.manifest.seed)
