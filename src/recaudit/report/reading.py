"""A comparison in words: the verdict, the differences that matter most, what they rest on, and whose lists changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import polars as pl

from recaudit.metrics.groupings import told_names
from recaudit.metrics.inference import MIN_USERS
from recaudit.report.differences import SHOWN, Difference, metric_of, ranked
from recaudit.report.evidence import Evidence, GroupEstimate
from recaudit.report.kit.claims import ClaimNumber
from recaudit.report.kit.comparisons import MOST_ROWS
from recaudit.report.kit.numbers import Estimate, finite, listing, plural
from recaudit.runs import Run
from recaudit.runs.comparison import RunComparison

MOST_FINDINGS = 5
_MOST_HIDDEN = 1
"""Findings of groups that a number about everybody hides."""


class Point(NamedTuple):
    """One thing worth knowing: its code, the claim, its numbers, and the section that shows them."""

    code: str
    claim: str
    detail: str
    section: str
    audit: str
    numbers: tuple[ClaimNumber, ...] = ()


@final
@dataclass(frozen=True)
class ListChange:
    """What became of the lists of one pair of models."""

    model: str
    lists: int
    changed: int
    gone: float
    """How many items of a list are not in the second, on average."""
    length: int
    parts: Mapping[str, int]
    """How many lists, by how far they changed."""


@final
@dataclass(frozen=True, eq=False)
class ComparisonReading:
    """A comparison, ready to be told."""

    comparison: RunComparison

    @cached_property
    def evidence(self) -> Evidence:
        """The second run: it names metrics and groups."""
        return Evidence(self.comparison.after)

    @property
    def names(self) -> tuple[str, str]:
        """What the two sides are called: their folders, or two models of one run."""
        before, after = self.comparison.before, self.comparison.after
        if before.path.resolve() == after.path.resolve():
            return next(iter(self.comparison.models.values()))
        one, other = folder_names([before, after])
        return one, other

    @cached_property
    def differences(self) -> list[Difference]:
        """Every number, in the order of the table, groups in their own order."""
        return [*self._read(self.comparison.frame)]

    @cached_property
    def overall(self) -> list[Difference]:
        """Those about everybody."""
        return [own for own in self.differences if not own.by]

    @cached_property
    def groups(self) -> list[Difference]:
        """Those about a group."""
        return [own for own in self.differences if own.by]

    def _read(self, frame: pl.DataFrame) -> Iterator[Difference]:
        slices = frame.group_by("audit", "by", maintain_order=True)
        names = {of: told_names(own["group"].unique(maintain_order=True).to_list()) for of, own in slices}
        metrics = {name: metric_of(name) for name in frame["metric"].unique()}
        for row in frame.iter_rows(named=True):
            metric = metrics[row["metric"]]
            change = Estimate.of(metric, {**row, "value": row["difference"], "baseline": None, "excluded": 0})
            group = names[row["audit"], row["by"]][row["group"]]
            yield Difference(
                row["model"],
                self.comparison.models[row["model"]][1],
                row["audit"],
                metric.titled(self.evidence.list_length(row["audit"])),
                self._who(row["by"], group, change),
                row["by"],
                group,
                metric,
                finite(row["before"]),
                finite(row["after"]),
                change,
                finite(row["error"]),
                finite(row["adjusted"]),
                row["verdict"],
            )

    def _who(self, by: str, name: str, change: Estimate) -> str:
        data, group = self.comparison.after.manifest.data, GroupEstimate(by, name, change)
        if by in ("history", *data.attributes):
            return group.people
        return group.things if by in ("popularity", *data.categories) else f"{by} {name}".strip()

    @cached_property
    def notes(self) -> list[str]:
        """What has to be known before any number is read."""
        return [caution.text for caution in self.comparison.cautions]

    @property
    def not_compared(self) -> list[str]:
        """Models that stand in no pair, and where they are."""
        before, after = self.comparison.before, self.comparison.after
        if before.path.resolve() == after.path.resolve():
            return []
        used = zip(*self.comparison.models.values(), strict=True)
        sides = zip(("first", "second"), (before, after), used, strict=True)
        return [f"{label} of the {place} run" for place, run, own in sides for label in run.models if label not in own]

    @property
    def people(self) -> int:
        """On how many people the comparison stands at most."""
        return max((own.users for own in self.overall), default=0)

    @property
    def what(self) -> str:
        """What was compared, in a sentence."""
        first, second = self.names
        pairs = list(self.comparison.models)
        of = f" ({listing(pairs)})" if (first, second) not in self.comparison.models.values() else ""
        on = "" if self.comparison.same_data else ", on different data"
        return (
            f"{second} against {first}{of}: {plural(len(self.overall), 'number')} about everybody and "
            f"{len(self.groups):,} about groups, on up to {plural(self.people, 'person', 'people')}{on}."
        )

    @cached_property
    def verdict(self) -> str:
        """Whether the second is worse, and for whom, in two or three sentences."""
        if self.comparison.is_refused:
            return "Nothing is compared."
        counts = Counter(own.verdict for own in self.overall)
        worse, better = counts["worse"], counts["better"]
        second, total = self.names[1], f"{plural(len(self.overall), 'number')} about everybody"
        if worse:
            told = f"{second} is worse in {worse:,} of {total}, and "
            told += f"better in {better:,}." if better else "shown to be better in none."
        elif better:
            told = f"{second} is better in {better:,} of {total}, and shown to be worse in none."
        else:
            told = f"{second} is shown to be neither better nor worse in any of {total}."
        others = [f"{counts[verdict]:,} {words}" for verdict, words in _OTHERS.items() if counts[verdict]]
        if others:
            told += f" {'The others' if worse or better else 'Of these'}: {', '.join(others)}."
        return f"{told} {self._for_whom}".rstrip()

    @property
    def _for_whom(self) -> str:
        worse, every, hidden = (
            {(own.by, own.group) for own in some} for some in (ranked(self.groups, "worse"), self.groups, self._hidden)
        )
        if not worse:
            return "No group is shown to be worse off." if every else ""
        told = f"Some number is worse for {len(worse):,} of {plural(len(every), 'group')}"
        beside = f", for {len(hidden):,} of them one that is not shown to be worse for everybody" if hidden else ""
        return f"{told}{beside}."

    @cached_property
    def _hidden(self) -> list[Difference]:
        """Groups that are worse in a number that is not worse for everybody, of enough people."""
        worse = {own.question for own in self.overall if own.verdict == "worse"}
        return [own for own in ranked(self.groups, "worse") if own.question not in worse and own.users >= MIN_USERS]

    @cached_property
    def findings(self) -> list[Point]:
        """The differences that matter most, at most one of each audit and model, and groups that those hide."""
        firm = [own for own in ranked(self.overall, *SHOWN) if own.users >= MIN_USERS]
        first: dict[tuple[str, str], Difference] = {}
        for own in sorted(firm, key=lambda own: own.verdict == "changed"):
            first.setdefault((own.model, own.audit), own)
        beside = self._hidden[:_MOST_HIDDEN]
        chosen = sorted(first.values(), key=lambda own: (own.verdict == "changed", -own.size))
        order = sorted(chosen[: MOST_FINDINGS - len(beside)], key=lambda own: SHOWN.index(own.verdict))
        return [*map(self._finding, order), *map(self._finding, beside)]

    def _finding(self, own: Difference) -> Point:
        p = own.p if own.p.startswith("<") else f"= {own.p}"
        after = "" if self.comparison.correction == "none" else " after correction"
        on = plural(own.users, "person", "people")
        detail = f"The difference is {own.text} {own.interval}, p {p}{after}, on {on}."
        if own.by:
            whole = next((o for o in self.overall if o.question == own.question), None)
            told = "" if whole is None else f" For everybody it is {whole.way}: {whole.verdict}."
            claim = f"{own.named} is {own.verdict}: {own.way}"
            return Point("comparison.group-worse", claim, detail + told, "groups", own.audit, (_number(own),))
        claim = f"{own.named} {_IS[own.verdict]}: {own.way}"
        detail += self._spread_over(own)
        return Point(f"comparison.{own.verdict}", claim, detail, "overall", own.audit, (_number(own),))

    def _spread_over(self, own: Difference) -> str:
        """How many groups share the verdict, and where the difference is largest."""
        each = [group for group in self.groups if group.question == own.question]
        alike = [group for group in each if group.verdict == own.verdict]
        if not alike:
            return " No group alone is shown to be." if each else ""
        most = max(alike, key=lambda group: abs(group.change.value or 0.0))
        return f" So it is in {len(alike):,} of {plural(len(each), 'group')}, by most for {most.who} ({most.way})."

    @cached_property
    def lists(self) -> list[ListChange]:
        """What became of lists, by pair of models."""
        return [
            _list_change(str(name[0]), rows)
            for name, rows in self.comparison.lists.group_by("model", maintain_order=True)
        ]

    def most_changed(self, model: str) -> list[dict[str, Any]]:
        """The lists that changed most: user, and both lists as (title, whether it is in this list alone)."""
        rows = self.comparison.lists.filter((pl.col("model") == model) & (pl.col("moved") > 0)).head(MOST_ROWS)
        return [
            {
                "user": row["user"],
                "new": sum(title not in row["before"] for title in row["after"]),
                "before": [(title, title not in row["after"]) for title in row["before"]],
                "after": [(title, title not in row["before"]) for title in row["after"]],
            }
            for row in rows.iter_rows(named=True)
        ]


_OTHERS = {
    "changed": "changed, of metrics without a better",
    "not shown": "may differ by chance alone",
    "same": "the same",
    "not known": "cannot be judged",
}
_IS = {"worse": "is worse", "better": "is better", "changed": "changed"}


def _number(own: Difference) -> ClaimNumber:
    """The difference, second minus first, as data."""
    return ClaimNumber(
        audit=own.audit,
        metric=own.metric.name,
        model=own.model,
        by=own.by or None,
        group=own.group or None,
        value=own.change.value,
        lower=own.change.lower,
        upper=own.change.upper,
        reference=0.0,
        p=own.adjusted,
        users=own.users,
    )


def folder_names(runs: Iterable[Run]) -> tuple[str, ...]:
    """The names of run folders, with as many of the folders around them as it takes to tell them apart."""
    parts = [run.path.resolve().parts for run in runs]
    depth = next(n for n in range(1, 1 + max(map(len, parts))) if len({own[-n:] for own in parts}) == len(parts))
    return tuple("/".join(own[-depth:]) for own in parts)


def _list_change(model: str, rows: pl.DataFrame) -> ListChange:
    moved, gone = pl.col("moved") > 0, pl.col("replaced")
    parts = {
        "unchanged": ~moved,
        "in another order": moved & (gone == 0),
        "up to half gone": moved & (gone > 0) & (gone <= 0.5),
        "more than half gone": moved & (gone > 0.5) & (gone < 1),
        "all gone": moved & (gone == 1),
    }
    length = pl.col("before").list.len()
    numbers = rows.select(changed=moved.sum(), gone=(gone * length).mean(), length=length.max()).row(0, named=True)
    counts = rows.select(part.sum().alias(name) for name, part in parts.items()).row(0, named=True)
    return ListChange(model, len(rows), parts=counts, **numbers)
