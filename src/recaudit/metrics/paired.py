r"""Numbers that two results have for the same users, paired user by user, and their differences.

A mean over users is paired by the users' values (`PairedMean`). A ratio of sums, such as RMSE, and a statistic of
lists, such as coverage, are paired by their values without each block of users (`PairedStatistic`). Users that only
one of the two results measured are counted and left out. All tests are those of `recaudit.metrics.inference`.

The difference of two geometric means is tested on logarithms. With D the mean difference of the logarithms and G the
geometric mean of the two numbers, the difference of the numbers is 2 G sinh(D / 2), and the ends of the interval are
the same function of the ends for D.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, final

import numpy as np
import polars as pl
from scipy import sparse

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.metrics.inference import (
    PairedDifference,
    adjust_by_holm,
    assign_blocks,
    compute_detectable_difference,
    estimate_difference,
    estimate_statistic_difference,
)
from recaudit.metrics.intervals import SCALES, Scale
from recaudit.metrics.terms import QUESTION, Terms

ROUNDING = 1e-6
"""Two numbers that differ by at most this share of the larger are equal: other machines round differently."""

_TIE = 1e-12
"""Two users' contributions that differ by at most this share of the largest are equal."""

Functional = Callable[[FloatArray], FloatArray]
Correction = Literal["holm", "benjamini-hochberg", "none"]

DIFFERENCE_SCHEMA = {
    "by": pl.String,
    "group": pl.String,
    "metric": pl.String,
    **dict.fromkeys(("before", "after", "difference", "lower", "upper", "error", "p", "detectable"), pl.Float64),
    **dict.fromkeys(("users", "changed", "left_out"), pl.Int64),
    "reason": pl.String,
}
"""Columns of a table of differences.

`before` and `after` are the numbers of the users that both results measured, `difference` is after - before, `lower`
and `upper` its interval, `error` its standard error, `p` the two-sided p-value of "the two models are exchangeable",
and `detectable` the true difference that a test with this error finds in 80% of samples. `users` counts the users of
both results, `changed` those of them whose value or list differs, `left_out` those that only one result measured.
Without an interval, `reason` is its code: `too_few_users` or `too_few_changes`.
"""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class PairedStatistic:
    """A number of both results that is not a mean over users, with and without each block of users.

    Attributes:
        metric: Name of the metric.
        by: Grouping, empty for all users.
        group: Group, empty for all users.
        old: Number of the users of both results, in the first.
        new: The same in the second.
        old_without_block: The first number without each block of users, shape (blocks,).
        new_without_block: The second number without the same blocks, shape (blocks,).
        n_users: Number of users of both results.
        n_changed: Number of users whose values, or lists, differ.
        n_left_out: Number of users that only one result measured.
    """

    metric: str
    by: str = ""
    group: str = ""
    old: float
    new: float
    old_without_block: FloatArray
    new_without_block: FloatArray
    n_users: int
    n_changed: int
    n_left_out: int = 0

    def estimate(self, confidence: float = 0.95, *, old_factor: float = 1.0) -> PairedDifference:
        """Estimate new - old_factor * old.

        Args:
            confidence: Confidence level of the interval.
            old_factor: Factor of the first number.
        """
        return estimate_statistic_difference(
            self.new,
            old_factor * self.old,
            self.new_without_block,
            old_factor * self.old_without_block,
            n_users=self.n_users,
            n_changed=self.n_changed,
            confidence=confidence,
        )


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class PairedMean:
    """A mean over users that both results have.

    Attributes:
        metric: Name of the metric.
        by: Grouping, empty for all users.
        group: Group, empty for all users.
        old_values: Values of the users of both results in the first, shape (users,). Logarithms for a geometric mean.
        new_values: Values of the same users in the second, shape (users,).
        is_geometric: If True, the number is the exponential of the mean of the values.
        n_left_out: Number of users that only one result measured.
    """

    metric: str
    by: str = ""
    group: str = ""
    old_values: FloatArray
    new_values: FloatArray
    is_geometric: bool = False
    n_left_out: int = 0

    @property
    def n_users(self) -> int:
        """Number of users of both results."""
        return len(self.old_values)

    @property
    def n_changed(self) -> int:
        """Number of users whose values differ."""
        return int(_differs(self.old_values, self.new_values).sum())

    @property
    def old(self) -> float:
        """First number of the users of both results."""
        return self._number(self.old_values.mean()) if self.n_users else math.nan

    @property
    def new(self) -> float:
        """Second number of the users of both results."""
        return self._number(self.new_values.mean()) if self.n_users else math.nan

    @cached_property
    def statistic(self) -> PairedStatistic:
        """The same number for the jackknife."""
        ones = np.ones(self.n_users)
        restore = SCALES["geometric" if self.is_geometric else "mean"]
        sides = [restore(_without_blocks(values, ones)) for values in (self.old_values, self.new_values)]
        return PairedStatistic(
            metric=self.metric,
            by=self.by,
            group=self.group,
            old=self.old,
            new=self.new,
            old_without_block=sides[0],
            new_without_block=sides[1],
            n_users=self.n_users,
            n_changed=self.n_changed,
            n_left_out=self.n_left_out,
        )

    def estimate(self, confidence: float = 0.95) -> PairedDifference:
        """Estimate the mean of new - old; of the logarithms for a geometric mean.

        Args:
            confidence: Confidence level of the interval.
        """
        return estimate_difference(self.new_values, self.old_values, confidence=confidence)

    def _number(self, mean: float) -> float:
        return math.exp(mean) if self.is_geometric else float(mean)


PairedNumber = PairedMean | PairedStatistic


def pair_terms(before: pl.DataFrame, after: pl.DataFrame) -> Iterator[PairedNumber]:
    """Pair the numbers that two tables of terms both have, in the order of the first.

    A number of which all users have the same weight is a mean over users, unless it is a root.

    Args:
        before: Terms of the first result, columns as in `TERM_SCHEMA`, users as text.
        after: Terms of the second result.
    """
    columns = [*QUESTION, "scale"]
    shared = after.select(columns).unique()
    questions = before.select(columns).unique(maintain_order=True).join(shared, on=columns, maintain_order="left")
    users = pl.concat([before["user"], after["user"]]).unique().sort()
    sides = [Terms(rows, users, questions) for rows in (before, after)]
    for place, question in enumerate(questions.iter_rows(named=True)):
        (old_users, *old), (new_users, *new) = (side.of_question(place) for side in sides)
        _, old_places, new_places = np.intersect1d(old_users, new_users, assume_unique=True, return_indices=True)
        old, new = [column[old_places] for column in old], [column[new_places] for column in new]
        n_left_out = len(old_users) + len(new_users) - 2 * len(old_places)
        if len(old_places):
            yield _paired_number(question, old, new, n_left_out)


def _paired_number(
    question: dict[str, str], old: list[FloatArray], new: list[FloatArray], n_left_out: int
) -> PairedNumber:
    named = {name: question[name] for name in QUESTION}
    scale: Scale = question["scale"]  # type: ignore[assignment]  # the table has one of them
    (old_totals, old_weights), (new_totals, new_weights) = old, new
    has_equal_weights = all((weights == weights[0]).all() for weights in (old_weights, new_weights))
    if has_equal_weights and scale != "root":
        return PairedMean(
            **named,
            old_values=old_totals / old_weights,
            new_values=new_totals / new_weights,
            is_geometric=scale == "geometric",
            n_left_out=n_left_out,
        )
    restore = SCALES[scale]

    def compute(totals: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
        whole = restore(np.array([totals.sum() / weights.sum()]))[0]
        return float(whole), restore(_without_blocks(totals, weights))

    old_number, old_without_block = compute(old_totals, old_weights)
    new_number, new_without_block = compute(new_totals, new_weights)
    return PairedStatistic(
        **named,
        old=old_number,
        new=new_number,
        old_without_block=old_without_block,
        new_without_block=new_without_block,
        n_users=len(old_totals),
        n_changed=int((_differs(old_totals, new_totals) | _differs(old_weights, new_weights)).sum()),
        n_left_out=n_left_out,
    )


@final
@dataclass(frozen=True, eq=False)
class ListCounts:
    """Lists of users, and a statistic of how often they show each item.

    Attributes:
        lists: Lists, columns user and item.
        items: Ids of the catalogue.
        functional: Function of counts, shape (rows, items), that returns statistics, shape (rows, metrics).
    """

    lists: pl.DataFrame
    items: pl.Series
    functional: Functional

    def incidence(self, users: pl.Series) -> sparse.csr_array:
        """Compute which items the lists of these users show, shape (items, users)."""
        placed = self.lists.join(pl.DataFrame({"user": users}).with_row_index("place"), on="user").join(
            pl.DataFrame({"item": self.items}).with_row_index("which"), on="item"
        )
        at = placed["which"].to_numpy(), placed["place"].to_numpy()
        return sparse.csr_array((np.ones(len(placed)), at), shape=(len(self.items), len(users)))

    def evaluate(self, shown: sparse.csr_array, blocks: IntArray) -> FloatArray:
        """Compute the statistics of all users, and without each block, shape (1 + blocks, metrics)."""
        counts = np.asarray(shown.sum(axis=1), dtype=np.float64)
        members = sparse.csr_array((np.ones(len(blocks)), (np.arange(len(blocks)), blocks)))
        without_block = counts - (shown @ members).toarray().T
        return np.asarray(self.functional(np.ascontiguousarray(np.vstack([counts, without_block]))))


def pair_counts(metrics: Sequence[str], before: ListCounts, after: ListCounts) -> Iterator[PairedStatistic]:
    """Pair the statistics of the lists of users that have one in both results.

    Args:
        metrics: Names of the statistics that the functionals compute.
        before: Lists of the first result.
        after: Lists of the second result, about the same catalogue.
    """
    sides = [side.lists["user"].unique() for side in (before, after)]
    users = sides[0].filter(sides[0].is_in(sides[1].implode())).sort()
    if users.is_empty() or not metrics:
        return
    first, second = before.incidence(users), after.incidence(users)
    blocks = assign_blocks(len(users))
    old, new = before.evaluate(first, blocks), after.evaluate(second, blocks)
    pairs = [
        side.lists.select("user", "item").join(pl.DataFrame({"user": users}), on="user") for side in (before, after)
    ]
    changed = [one.join(other, on=["user", "item"], how="anti")["user"] for one, other in (pairs, reversed(pairs))]
    n_changed = pl.concat(changed).n_unique()
    for place, metric in enumerate(metrics):
        yield PairedStatistic(
            metric=metric,
            old=float(old[0, place]),
            new=float(new[0, place]),
            old_without_block=old[1:, place],
            new_without_block=new[1:, place],
            n_users=len(users),
            n_changed=n_changed,
            n_left_out=len(sides[0]) + len(sides[1]) - 2 * len(users),
        )


def difference_table(numbers: Iterable[PairedNumber], confidence: float = 0.95) -> pl.DataFrame:
    """Estimate the difference of each number, rows as in `DIFFERENCE_SCHEMA`.

    Args:
        numbers: Numbers of two results.
        confidence: Confidence level of the intervals.
    """
    return pl.DataFrame([_difference_row(number, confidence) for number in numbers], DIFFERENCE_SCHEMA)


def _difference_row(number: PairedNumber, confidence: float) -> dict[str, object]:
    estimate = number.estimate(confidence)
    restore = _difference_of_logarithms(number) if _is_geometric(number) else float
    error, detectable = estimate.standard_error, None
    if error is not None:
        detectable = compute_detectable_difference(error, estimate.degrees_of_freedom)
    ends = {"lower": estimate.lower, "upper": estimate.upper, "detectable": detectable}
    scale = math.sqrt(number.old * number.new) if _is_geometric(number) else 1.0
    is_same = are_equal(number.old, number.new)
    return {
        **{name: getattr(number, name) for name in QUESTION},
        "before": _known(number.old),
        "after": _known(number.new),
        "difference": _known(number.new - number.old),
        **{name: None if end is None else _known(restore(end)) for name, end in ends.items()},
        "error": None if error is None else _known(scale * error),
        "p": None if estimate.p is None else 1.0 if is_same else _known(estimate.p),
        "users": number.n_users,
        "changed": number.n_changed,
        "left_out": number.n_left_out,
        "reason": estimate.reason,
    }


def are_equal(old: float, new: float) -> bool:
    """Return True if two numbers differ by rounding at most."""
    return abs(new - old) <= ROUNDING * max(abs(old), abs(new))


def corrected(p: FloatArray, correction: Correction) -> FloatArray:
    """Adjust the p-values of a family so that each can be compared with the level; NaN stays.

    Args:
        p: P-values of the family, shape (tests,), NaN for a test that could not be made, which does not count.
        correction: With "holm", the probability that any difference is named without being one stays below the level,
            whatever the dependence of the tests. With "benjamini-hochberg", the expected share of such differences
            among those named does.
    """
    p = np.array(p, dtype=np.float64)
    if correction == "none":
        return p
    if correction == "holm":
        return adjust_by_holm(p)
    known = np.flatnonzero(np.isfinite(p))
    n = len(known)
    order = known[np.argsort(p[known], kind="stable")]
    adjusted = np.minimum.accumulate((p[order] * n / np.arange(1, n + 1))[::-1])[::-1]
    p[order] = np.minimum(adjusted, 1.0)
    return p


def _is_geometric(number: PairedNumber) -> bool:
    return isinstance(number, PairedMean) and number.is_geometric


def _difference_of_logarithms(number: PairedNumber) -> Callable[[float], float]:
    middle = math.sqrt(number.old * number.new)
    return lambda logarithm: 2 * middle * math.sinh(logarithm / 2)


def _differs(old: FloatArray, new: FloatArray) -> BoolArray:
    largest = max(float(np.abs(side).max(initial=0.0)) for side in (old, new))
    return np.asarray(np.abs(new - old) > _TIE * largest)


def _without_blocks(totals: FloatArray, weights: FloatArray) -> FloatArray:
    """Compute the ratio of the sums without each block of users, shape (blocks,)."""
    blocks = assign_blocks(len(totals))
    others = 1 - np.eye(blocks.max() + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((others @ np.bincount(blocks, totals)) / (others @ np.bincount(blocks, weights)))


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
