"""Changes that the comparison of frozen numbers follows: new names, replaced parts, and intended differences.

The cases in `frozen_cases.py` and the recordings of the start commit use the names of the start commit. When something
is renamed, an entry in `NAMES` is all that has to change. When a number is meant to change, the entry that says so is
written before the code changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, final

START_COMMIT = "b01a26a96ed58f2f327d27d6874dcfc8cfa39b86"
"""The commit whose numbers later commits must give."""


@final
@dataclass(frozen=True)
class Names:
    """New names by old names. A name that is not listed has not changed."""

    paths: Mapping[str, str] = field(default_factory=dict)
    """Objects by their dotted path below `recaudit`, or of another package: `{"models.from_factors":
    "models.from_vectors", "audits.geometry": "recaudit_papers.geometry.geometry"}`."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Entry-point groups, without `recaudit.`: `{"models": "recommenders"}`."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Kinds of parts, by group where a name is used twice: `{"models/top-pop": "most-popular", "top": "in-top-k"}`."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings and arguments, by the kind or the last part of the path, or of all of them: `{"instability.edits":
    "actions", "*.rng": "seed"}`."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Tables, by family: `{"instability/editors": "actors"}`."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns, by patterns of family/table: `{"instability/*.viewer": "user", "*/pairs.lower": "bound_lower"}`."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Values of text columns, by column: `{"metric.unstable_share": "unstable_pairs"}`."""

    def path(self, path: str) -> str:
        """Return the new dotted path of an object."""
        return self.paths.get(path, path)

    def group(self, group: str) -> str:
        """Return the new name of an entry-point group."""
        return self.groups.get(group, group)

    def kind(self, kind: str, group: str = "") -> str:
        """Return the new kind of a part."""
        return self.kinds.get(f"{group}/{kind}", self.kinds.get(kind, kind))

    def renamed_settings(self, owner: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a kind or function under their new names, those of nested parts included."""
        new_names = self.settings
        return {
            new_names.get(f"{owner}.{name}", new_names.get(f"*.{name}", name)): self._renamed(value)
            for name, value in settings.items()
        }

    def _renamed(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._renamed(each) for each in value]
        if isinstance(value, dict) and "kind" in value:
            return {**self.renamed_settings(value["kind"], value), "kind": self.kind(value["kind"])}
        return value

    def table(self, family: str, table: str) -> str:
        """Return the new name of a table."""
        return self.tables.get(f"{family}/{table}", table)

    def column(self, family: str, table: str, column: str) -> str:
        """Return the new name of a column; `table` is the old name of its table."""
        for pattern, new in self.columns.items():
            where, _, old = pattern.rpartition(".")
            if old == column and fnmatchcase(f"{family}/{table}", where):
                return new
        return column

    def value_changes(self, column: str) -> dict[str, str]:
        """Return the new values of a text column by its old values; `column` is its old name."""
        prefix = f"{column}."
        return {old.removeprefix(prefix): new for old, new in self.values.items() if old.startswith(prefix)}


OLD = Names()
"""Nothing is renamed: for the package of the start commit."""

NAMES = Names(
    paths={
        "audits.compare_access": "recaudit_papers.access.compare_access",
        "audits.compare_access_instability": "recaudit_papers.access.compare_access_instability",
        "audits.geometry": "recaudit_papers.geometry.geometry",
        "audits.best_beta": "recaudit_papers.geometry.best_beta",
    }
)
"""Names that have changed since the start commit."""


@final
@dataclass(frozen=True)
class Replacement:
    """A declared replacement of a solver or of iterative training."""

    where: str
    """A solver: a pattern of family/table or of case/table, in new names. Training: the recommender's kind, as in the
    cases."""
    reason: str


@final
@dataclass(frozen=True)
class Change:
    """Columns that are meant to change."""

    where: str
    """A pattern of family/table or of case/table, in new names."""
    column: str
    """A pattern of column names, in new names; "*" also allows the table to be missing."""
    reason: str


REPLACED_SOLVERS: tuple[Replacement, ...] = ()
"""Tables whose bounds a new solver makes: [lower, upper] of old and new must overlap in every row."""

REPLACED_TRAINING: tuple[Replacement, ...] = ()
"""Recommenders that are trained in another way: their mean RMSE and nDCG over 20 seeds must stay."""

INTENDED_CHANGES: tuple[Change, ...] = (
    Change("solver-maximize_distance-*/*", "*", "The solver is removed: no model reached it."),
    Change("folding*/co_clusters", "*", "Co-clusters are removed."),
    Change("access-instability/pairs", "black_box", "Queries start from other random ratings in recaudit-papers."),
    Change("geometry/pairs", "margin*", "Iterates stop at a tolerance: rounding moves them by 3e-6."),
    Change("reachability-demo/pairs", "upper", "Bounds of 2 of 400 pairs, which stay open, move by 2e-7 by rounding."),
    *(
        Change(f"composed-prediction/{table}", column, "Of a rise and a fall equal to rounding, the rise counts.")
        for table, column in (
            ("pairs", "value"),
            ("pairs", "lower"),
            ("pairs", "upper"),
            ("terms", "total"),
            ("summary", "value"),
            ("users", "composed"),
        )
    ),
)
"""Columns whose numbers are meant to change."""
