"""What reachability gives back: a row a pair, and what the pairs come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray, IntArray, StatusArray
from recaudit.audits.result import Result, Table
from recaudit.audits.spill import Rows, SpilledRows, lazily, read_part
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.metrics.groupings import Grouping, groupings
from recaudit.metrics.intervals import Ratio, mean, standing
from recaudit.metrics.tables import item_table, user_table
from recaudit.solvers.batches import run_on_cores
from recaudit.status import Status
from recaudit.ties import TIE

if TYPE_CHECKING:
    from recaudit.audits.reachability.audit import Reachability

STATUS = pl.Enum([status.value for status in Status])
MOST_CELLS = 1 << 20
"""Cells of each matrix of users and items that pairs are averaged in, of some users at a time: caches hold them."""
_TOGETHER = 32
"""How many of such parts are worked on before their sums are added up."""


@final
class ReachabilityResult(Result):
    """Every pair's answer, and discovery, availability and lift, overall and by group.

    The columns of `pairs` after `user` and `item`: `value`, rho*, with its certified bounds `lower` and `upper` and its
    `status`; `baseline`, rho without strategy; `lift`, rho* over that; `rank_gain`, how many places the item climbs;
    `candidates`, from how many items the policy chooses for this user. With `best_actions` also `action_items` and
    `action_ratings`; where a system was asked `queries`, `fresh` and `failure` (see `Reachability`). The table
    "example" is the pair that climbs most, with its best action. All but the pairs is computed when first looked at.
    """

    @classmethod
    def of(
        cls,
        audit: Reachability,
        log: Interactions,
        users: IntArray,
        pairs: Rows,
        *,
        rng: int,
        facts: Mapping[str, Any] | None = None,
        example: Table | None = None,
        engine: Engine | None = None,
    ) -> Self:
        """From the rows of these users (positions in the log); the engine averages those that are in files."""
        aggregates = cache(partial(aggregate_pairs, audit, log, users, pairs, engine or Serial()))
        tables: dict[str, Table] = {"pairs": pairs}
        for name in ("summary", "groups", "terms", "people", "users", "items"):
            tables[name] = partial(lambda name: aggregates()[name], name)
        if example is not None:
            tables["example"] = example
        found = cls(audit, tables, rng=rng, facts=facts)
        found.facts["statuses"] = found.counts()
        widths = bound_widths(pairs)
        if len(widths):
            # Of the bounded pairs, in log-probability.
            median, most = np.quantile(widths, [0.5, 0.9], method="higher").tolist()
            found.facts["widths"] = {"pairs": len(widths), "median": median, "90%": most}
        return found

    def counts(self) -> dict[str, int]:
        """How many pairs there are of each status."""
        counted = self.scan("pairs").group_by("status").len()
        found = dict(counted.collect(engine="streaming").iter_rows())
        return {status.value: int(found.get(status.value, 0)) for status in Status}

    def correlations(self) -> pl.DataFrame:
        """Spearman correlations of Tables 4 and 5.

        Over items: of popularity (the mean rating) with prevalence (how often it was rated), baseline availability
        and best-case availability. Over users: of experience (how many ratings) with discovery, baseline and best.
        """
        items, users = self.items.drop_nulls("availability"), self.users.drop_nulls("discovery")
        asked = [
            ("popularity", "prevalence", items["mean_rating"], items["ratings"]),
            ("popularity", "baseline availability", items["mean_rating"], items["baseline_availability"]),
            ("popularity", "best availability", items["mean_rating"], items["availability"]),
            ("experience", "baseline discovery", users["ratings"], users["baseline_discovery"]),
            ("experience", "best discovery", users["ratings"], users["discovery"]),
        ]
        rows = [(a, b, _spearman(x, y), len(x)) for a, b, x, y in asked]
        schema = {"of": pl.String, "with": pl.String, "spearman": pl.Float64, "n": pl.Int64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def summary(self) -> str:
        """How many pairs there are, how they stand, the overall values with their intervals, and the median pair."""
        counts = ", ".join(f"{count:,} {status}" for status, count in self.counts().items() if count)
        told = self.scan("pairs").select(pairs=pl.len(), known=pl.col("value").count(), **_SUMMED).collect()
        row = told.row(0, named=True)
        heading = self.heading()
        metrics = super().summary().splitlines()[len(heading) :]
        lines = [*heading, f"  {row['pairs']:,} pairs: {counts}", *metrics]
        if row["known"]:
            lift = f"lift {row['lift']:.3g}" if row["lifted"] else "no lift: nothing is shown without strategy"
            only = f" (of {row['lifted']:,} pairs with a baseline above 0)" if 0 < row["lifted"] < row["known"] else ""
            widths, between = self.facts.get("widths"), ""
            if widths:
                between = f", of {widths['pairs']:,} bounded pairs {widths['median']:.2g} in the median"
                between += f" and {widths['90%']:.2g} at the 90th percentile"
            lines += [
                f"  medians over pairs: best probability {row['value']:.3g}, without strategy {row['baseline']:.3g}, "
                f"{lift}{only}",
                f"  widest bounds: {row['gap'] or 0.0:.1e} in log-probability{between}",
            ]
        return "\n".join(lines)


_ANSWERED = pl.col("value").is_not_null()
_LIFTS = pl.col("lift").filter(_ANSWERED & (pl.col("baseline") > 0))
_SUMMED = {
    "value": pl.col("value").median(),
    "baseline": pl.col("baseline").filter(_ANSWERED).median().fill_null(np.nan),
    "lift": _LIFTS.median(),
    "lifted": _LIFTS.len(),
    "gap": (pl.col("upper") / pl.col("lower")).filter(pl.col("upper") > pl.col("lower")).log().max(),
}
"""What a summary says of the pairs that have an answer; the gap is infinite where nothing was reached."""


def _spearman(x: pl.Series, y: pl.Series) -> float | None:
    """Spearman's rank correlation; None where one side does not vary."""
    if len(x) < 2 or x.n_unique() < 2 or y.n_unique() < 2:
        return None
    from scipy.stats import spearmanr  # noqa: PLC0415  slow to import

    return float(spearmanr(x.to_numpy(), y.to_numpy()).statistic)


def matrices(pairs: pl.DataFrame, users: pl.Series, items: pl.Series, *columns: str) -> list[FloatArray]:
    """(users, items) each: the columns of these pairs, NaN where there is none; `users` and `items` are ids."""
    return _spread_out(_places(pairs, users, items), (len(users), len(items)), (pairs[name] for name in columns))


def _places(pairs: pl.DataFrame, users: pl.Series, items: pl.Series) -> IntArray:
    """(pairs,): where each pair is in a matrix of these users and items, row by row."""
    # Users come in runs, of which each is looked up once.
    runs = pairs["user"].rle().struct.unnest()
    row = runs["value"].replace_strict(users, np.arange(len(users)), return_dtype=pl.Int64).to_numpy()
    column = pairs["item"].replace_strict(items, np.arange(len(items)), return_dtype=pl.Int64).to_numpy()
    found: IntArray = np.repeat(row * len(items), runs["len"].to_numpy()) + column
    return found


def _spread_out(places: IntArray, shape: tuple[int, int], columns: Iterable[pl.Series]) -> list[FloatArray]:
    """Matrices of this shape with the columns at their places, NaN elsewhere."""
    found = []
    for column in columns:
        matrix = np.full(shape, np.nan)
        matrix.reshape(-1)[places] = column.to_numpy()
        found.append(matrix)
    return found


def marked(pairs: pl.DataFrame, users: pl.Series, items: pl.Series, status: Status) -> BoolArray:
    """(users, items): True at the pairs that have this status."""
    marks, some = np.zeros((len(users), len(items)), dtype=bool), pairs.filter(pl.col("status") == status.value)
    marks.reshape(-1)[_places(some, users, items)] = True
    return marks


def answered(pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs that have a value; the frame itself, not a copy of its millions of rows, where all have."""
    return pairs.filter(pl.col("value").is_not_null()) if pairs["value"].null_count() else pairs


def bound_widths(pairs: Rows) -> FloatArray:
    """(bounded pairs of which something was reached,): log(upper / lower)."""
    bounded = (pl.col("status") == Status.BOUNDED.value) & (pl.col("lower") > 0)
    apart = lazily(pairs).filter(bounded).select((pl.col("upper") / pl.col("lower")).log()).collect()
    return apart.to_series().to_numpy()


def aggregate_pairs(
    audit: Reachability, log: Interactions, users: IntArray, pairs: Rows, engine: Engine
) -> dict[str, Any]:
    """The tables that all audits have, "users" and "items" of these pairs; `users` are positions.

    Pairs without an answer are left out. What stands on a bounded pair is bounded: not above the truth, with an
    interval that says how far it depends on who was asked.
    """
    sliced = groupings(log, audit.by)
    of_items = [grouping for grouping in sliced if grouping.over == "items"]
    if isinstance(pairs, SpilledRows):
        # A part has all pairs of its users, and the parts are in the order of users.
        found = _Totals.joined(engine.map(partial(_part_totals, audit, log, of_items), pairs.places, "averages"))
    else:
        found = _totals(audit, log, users, pairs, of_items)
    own, statuses = found.own, found.statuses
    ratios = _averages(own, statuses, np.ones(len(users)))
    sums = iter(found.of_groups)
    for grouping in sliced:
        if grouping.over == "users":
            for group, members in zip(grouping.names, grouping.weights[users].T, strict=True):
                ratios += _averages(own, statuses, members, grouping.by, group)
        else:
            best, base, counts, marks = next(sums)
            of_group = standing(*(mark > 0 for mark in marks))
            for g, group in enumerate(grouping.names):
                before = float(base[:, g].sum() / counts[:, g].sum()) if counts[:, g].any() else None
                pooled = Ratio("availability", best[:, g], counts[:, g], len(users), baseline=before)
                ratios.append(replace(pooled, by=grouping.by, group=group, status=Status(of_group[g])))
    ids = log.user_ids.gather(users)
    people = user_table(ids, own).with_columns(ratings=pl.Series(log.user_counts[users]))
    return audit.aggregated(ratios, log, users) | {"users": people, "items": found.items(log)}


def _part_totals(audit: Reachability, log: Interactions, slices: list[Grouping], place: Path) -> _Totals:
    """Of the pairs in one file."""
    pairs = read_part(place)
    return _totals(audit, log, log.users_at(pairs["user"].rle().struct.field("value")), pairs, slices)


def _totals(
    audit: Reachability, log: Interactions, users: IntArray, pairs: pl.DataFrame, slices: list[Grouping]
) -> _Totals:
    """Of these pairs of these users (positions), a few users at a time, on all cores."""
    return _Totals.joined(
        total
        for some in _few_people(log, users, pairs)
        for total in run_on_cores(lambda own: _Totals.of(audit, log, *own, slices), some)
    )


def _few_people(
    log: Interactions, users: IntArray, pairs: pl.DataFrame
) -> Iterator[list[tuple[IntArray, pl.DataFrame]]]:
    """Some users and their pairs, so few that a matrix of them and all items has about `MOST_CELLS`; some at a time."""
    runs = pairs["user"].rle().struct.unnest()
    place, ends = np.searchsorted(users, log.users_at(runs["value"])), np.append(0, runs["len"].cum_sum())
    in_order, step = (np.diff(place) > 0).all(), max(1, MOST_CELLS // log.n_items)

    def own(start: int) -> pl.DataFrame:
        if not in_order:
            return pairs.filter(np.repeat((start <= place) & (place < start + step), runs["len"]))
        first, last = ends[np.searchsorted(place, [start, start + step])]
        return pairs.slice(first, last - first)

    starts = range(0, len(users), step)
    for some in (starts[at : at + _TOGETHER] for at in range(0, len(starts), _TOGETHER)):
        yield [(users[start : start + step], own(start)) for start in some]


_OfGroups = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""By group of items, the sums over a user's pairs of the best chance, the chance without strategy and one, (users,
groups) each; and how many pairs are bounded, answered, failed (3, groups)."""


@final
@dataclass(frozen=True, eq=False)
class _Totals:
    """What the pairs of some users come to: what is kept of a part of them."""

    own: dict[str, FloatArray]  # (users,) each, see `_Matrices.own`
    statuses: StatusArray  # (users,)
    of_groups: list[_OfGroups]
    of_items: FloatArray  # (3, items): how many answers, the sum of best chances and of those without strategy
    best: FloatArray  # (items,): 0 without an answer

    @classmethod
    def of(
        cls, audit: Reachability, log: Interactions, users: IntArray, pairs: pl.DataFrame, slices: list[Grouping]
    ) -> _Totals:
        """Of all pairs of these users (positions), by these groupings of items."""
        found = _Matrices(log, users, pairs)
        marks = [mark.sum(axis=0) for mark in (found.bounded, found.known, found.failed)]
        of_groups: list[_OfGroups] = [
            (
                found.filled[0] @ grouping.weights,
                found.filled[1] @ grouping.weights,
                found.known.astype(np.float64) @ grouping.weights,
                np.stack([mark @ grouping.weights for mark in marks]),
            )
            for grouping in slices
        ]
        sums = [np.count_nonzero(found.known, axis=0), *(matrix.sum(axis=0) for matrix in found.filled)]
        best = found.filled[0].max(axis=0)
        return cls(found.own(audit.threshold), found.statuses(), of_groups, np.stack(sums), best)

    @classmethod
    def joined(cls, parts: Iterable[_Totals]) -> _Totals:
        """Of all users from those of parts, in their order; of items one sum is held, whatever the number of parts."""
        own, statuses, of_groups = list[dict[str, FloatArray]](), list[StatusArray](), list[list[_OfGroups]]()
        of_items, best = np.zeros(1), np.zeros(1)
        for part in parts:
            own.append(part.own)
            statuses.append(part.statuses)
            of_groups.append(part.of_groups)
            of_items, best = of_items + part.of_items, np.maximum(best, part.best)
        joined: list[_OfGroups] = [
            (
                np.concatenate([one[0] for one in some]),
                np.concatenate([one[1] for one in some]),
                np.concatenate([one[2] for one in some]),
                np.sum([one[3] for one in some], axis=0),
            )
            for some in zip(*of_groups, strict=True)
        ]
        people = {name: np.concatenate([some[name] for some in own]) for name in own[0]}
        return cls(people, np.concatenate(statuses), joined, of_items, best)

    def items(self, log: Interactions) -> pl.DataFrame:
        """One row an item: its chance of being shown, without and with the user's help."""
        users, value, baseline = self.of_items
        counts = np.where(users > 0, users, np.nan)
        columns = {
            "availability": value / counts,
            "baseline_availability": baseline / counts,
            "best": np.where(users > 0, self.best, np.nan),
        }
        means = {name: pl.Series(values).fill_nan(None) for name, values in columns.items()}
        return item_table(log).with_columns(users=users.astype(np.int64), **means)


@final
class _Matrices:
    """What pairs come to, (asked users, items) each, NaN where there is no answer."""

    def __init__(self, log: Interactions, users: IntArray, pairs: pl.DataFrame) -> None:
        ids, shape = (log.user_ids.gather(users), log.item_ids), (len(users), log.n_items)
        known, names = answered(pairs), ("value", "baseline", "lift")
        self.value, self.baseline, self.lift = _spread_out(_places(known, *ids), shape, (known[name] for name in names))
        self.known = ~np.isnan(self.value)
        self.filled = tuple(np.where(self.known, matrix, 0.0) for matrix in (self.value, self.baseline))
        self.bounded, self.failed = (marked(pairs, *ids, status) for status in (Status.BOUNDED, Status.FAILED))
        own = known.select("user", "candidates").unique("user")
        of_user = pl.DataFrame(ids[0].alias("user")).join(own, on="user", how="left", maintain_order="left")
        # (asked users,): from how many items the policy chooses
        self.candidates = of_user["candidates"].cast(pl.Float64).fill_null(np.nan).to_numpy()

    def statuses(self) -> StatusArray:
        """(asked users,): how what each can reach stands."""
        return standing(*(mark.any(axis=1) for mark in (self.bounded, self.known, self.failed)))

    def own(self, threshold: float | None) -> dict[str, FloatArray]:
        """(asked users,) each: what every user can reach; NaN for users without an answer."""
        count = np.count_nonzero(self.known, axis=1)
        counts = np.where(count > 0, count, np.nan)
        lifted = ~np.isnan(self.lift)
        lifts = np.where(lifted.any(axis=1), lifted.sum(axis=1), np.nan)
        cut = (1 / self.candidates if threshold is None else np.full(len(counts), threshold))[:, None] * (1 + TIE)
        # Where the baseline is 0 a ratio says nothing: a user who can lift such an item is excluded from the mean lift,
        # and counted; an item that stays at 0 has no lift.
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(lifted, np.log(self.lift), 0.0).sum(axis=1)
        return {
            "discovery": (self.value > cut).sum(axis=1) / counts,
            "baseline_discovery": (self.baseline > cut).sum(axis=1) / counts,
            "log_lift": np.where(np.isfinite(logs), logs, np.nan) / lifts,
            "availability": self.filled[0].sum(axis=1) / counts,
            "baseline_availability": self.filled[1].sum(axis=1) / counts,
        }


def _averages(
    own: dict[str, FloatArray], statuses: StatusArray, members: FloatArray, by: str = "", group: str = ""
) -> list[Ratio]:
    """Discovery, availability and lift averaged over these users; `statuses` (users,) say how their own stand."""

    def average(metric: str, values: str, **more: Any) -> Ratio:
        return mean(metric, own[values], members, by, group, statuses=statuses, **more)

    def base(name: str) -> float | None:
        values = own[name][members > 0]
        return float(np.nanmean(values)) if np.isfinite(values).any() else None

    return [
        average("discovery", "discovery", baseline=base("baseline_discovery")),
        average("availability", "availability", baseline=base("baseline_availability")),
        average("lift", "log_lift", scale="geometric"),
    ]
