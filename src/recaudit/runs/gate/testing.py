r"""Tests of one rule: margins towards a baseline, and thresholds for the run itself.

A test has a loss-free direction: with d = new - old where larger is better and old - new where smaller is, the rule
"not worse by more than the margin M" has two one-sided p-values. `p_pass` of "the mean of d is at most -M" is small if
the rule is satisfied, `p_fail` of "the mean of d is at least -M" is small if it is violated. The other rules are
rewritten to this one:

    relative margin s       d = new - (1 - s) old, or (1 + s) old - new, and M = 0
    threshold x             d = value - x, or x - value, and M = 0
    geometric mean          d of the logarithms

A statistic of lists of which fewer than six users' lists changed has no standard error. If its range is bounded, the
rule passes if the share of users whose lists change is too small for the margin: a change of a share q of the lists
moves coverage, Gini and total variation by at most 2 q of their range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from scipy.special import bdtr

from recaudit.arrays import FloatArray
from recaudit.metrics.inference import (
    MIN_CHANGED_USERS,
    MIN_USERS,
    Bounds,
    PairedDifference,
    compute_gate_detectable_difference,
    compute_gate_detectable_distance,
    compute_gate_p_values,
    compute_gate_p_values_of_statistic,
    compute_jackknife_error,
    count_users_for_margin,
)
from recaudit.metrics.paired import PairedMean, PairedNumber, PairedStatistic
from recaudit.runs.gate.rules import Rule

_LARGEST_LOGARITHM = 700.0


@final
@dataclass(frozen=True, kw_only=True)
class GateTest:
    """Result of the two tests of a rule.

    Attributes:
        p_pass: One-sided p-value that is small if the rule is satisfied. None if there is a reason.
        p_fail: One-sided p-value that is small if the rule is violated. None if there is a reason.
        standard_error: Standard error of the mean of d. None if there is a reason.
        detectable: Distance from the margin or threshold at which the rule is decided in 80% of samples.
        users_needed: Users that an unchanged model needs to pass. None for thresholds, and without a bound.
        has_bound: If True, the metric has a bound on the side of the loss, and the error rates are guaranteed.
        reason: Code of the reason why there is no test, or None.
    """

    p_pass: float | None = None
    p_fail: float | None = None
    standard_error: float | None = None
    detectable: float | None = None
    users_needed: int | None = None
    has_bound: bool = True
    reason: str | None = None


def compute_margin_test(rule: Rule, number: PairedNumber, bounds: Bounds, level: float = 0.05) -> GateTest:
    """Test a rule about a change since the baseline.

    Args:
        rule: Rule with a margin.
        number: Number of both runs.
        bounds: Bounds of the metric.
        level: Level of the tests, for the detectable difference.
    """
    direction, share = (-1 if rule.rising else 1), rule.limit if rule.relative else 0.0
    factor = 1 + math.copysign(share, number.old) * (1 if rule.rising else -1)
    margin = 0.0 if rule.relative else rule.limit
    if isinstance(number, PairedMean) and number.is_geometric:
        if not rule.relative:
            return _of_statistic(number.statistic, direction, 1.0, margin, bounds, level)
        logarithm = math.log(factor) if factor > 0 else -_LARGEST_LOGARITHM
        differences = direction * (number.new_values - number.old_values - logarithm)
        limits = _combine(_logarithms(bounds), direction, 1.0, direction * logarithm)
        tested = _of_mean(differences, 0.0, limits, direction * -logarithm, level)
        return replace(tested, detectable=_restored(tested.detectable, number.new))
    if isinstance(number, PairedMean):
        differences = direction * (number.new_values - factor * number.old_values)
        return _of_mean(
            differences, margin, _combine(bounds, direction, factor), margin + share * abs(number.old), level
        )
    return _of_statistic(number, direction, factor, margin, bounds, level)


def compute_threshold_test(rule: Rule, number: PairedNumber, bounds: Bounds, level: float = 0.05) -> GateTest:
    """Test a rule about the run itself: "at least x" or "at most x".

    Args:
        rule: Rule with a threshold.
        number: Number of the run; that of the second result is tested.
        bounds: Bounds of the metric.
        level: Level of the tests, for the detectable difference.
    """
    direction, threshold = (-1 if rule.rising else 1), rule.limit
    if isinstance(number, PairedMean):
        if number.is_geometric and threshold <= 0:
            return GateTest(p_pass=float(rule.rising), p_fail=float(not rule.rising), standard_error=0.0)
        if number.is_geometric:
            threshold, bounds = math.log(threshold), _logarithms(bounds)
        limits = _oriented(tuple(None if end is None else end - threshold for end in bounds), direction)
        tested = _of_mean(direction * (number.new_values - threshold), 0.0, limits, None, level)
        if number.is_geometric:
            return replace(tested, detectable=_restored(tested.detectable, number.new))
        return tested
    if number.n_users < MIN_USERS:
        return GateTest(reason="too_few_users")
    difference = PairedDifference(
        value=direction * (number.new - threshold),
        standard_error=compute_jackknife_error(number.new_without_block),
        degrees_of_freedom=len(number.new_without_block) - 1,
        n=number.n_users,
        n_changed=number.n_users,
    )
    return _from_difference(difference, 0.0, _oriented(bounds, direction)[0] is not None, level)


def _of_mean(
    differences: FloatArray, margin: float, bounds: Bounds, loss_allowed: float | None, level: float
) -> GateTest:
    """Test the mean of d; `loss_allowed` is the margin that an unchanged model has to pass."""
    n = len(differences)
    has_bound = bounds[0] is not None
    if n < MIN_USERS:
        return GateTest(reason="too_few_users", has_bound=has_bound)
    p_pass, p_fail = compute_gate_p_values(differences, margin, bounds)
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    needed = None
    if loss_allowed is not None and bounds[0] is not None:
        worst = (loss_allowed - margin) - bounds[0]
        needed = _count_users(loss_allowed, worst, level)
    return GateTest(
        p_pass=p_pass,
        p_fail=p_fail,
        standard_error=error,
        detectable=compute_gate_detectable_distance(differences, bounds, level=level),
        users_needed=needed,
        has_bound=has_bound,
    )


def _of_statistic(
    number: PairedStatistic, direction: int, factor: float, margin: float, bounds: Bounds, level: float
) -> GateTest:
    has_bound = None not in bounds
    estimate = number.estimate(old_factor=factor)
    if estimate.reason == "too_few_changes":
        return _of_few_changes(number, margin + abs(1 - factor) * abs(number.old), bounds, has_bound=has_bound)
    if estimate.reason is not None:
        return GateTest(reason=estimate.reason, has_bound=has_bound)
    return _from_difference(replace(estimate, value=direction * estimate.value), margin, has_bound, level)


def _from_difference(difference: PairedDifference, margin: float, has_bound: bool, level: float) -> GateTest:
    error = difference.standard_error
    if error is None or not math.isfinite(error):
        return GateTest(reason="not_measured", has_bound=has_bound)
    p_pass, p_fail = compute_gate_p_values_of_statistic(difference, margin)
    detectable = compute_gate_detectable_difference(error, difference.degrees_of_freedom, level=level)
    return GateTest(p_pass=p_pass, p_fail=p_fail, standard_error=error, detectable=detectable, has_bound=has_bound)


def _of_few_changes(number: PairedStatistic, loss_allowed: float, bounds: Bounds, *, has_bound: bool) -> GateTest:
    """Test whether more users can change than the margin allows, if at most five of the sample did."""
    lowest, highest = bounds
    n, n_changed = number.n_users, number.n_changed
    assert n_changed < MIN_CHANGED_USERS
    if loss_allowed <= 0:
        return GateTest(reason="too_few_changes", has_bound=has_bound)
    if lowest is not None and highest is not None:
        share = min(1.0, loss_allowed / (2 * (highest - lowest)))
        needed = _count_users(share, 1.0, 0.05)
        p_pass = float(bdtr(n_changed, n, share))
        return GateTest(p_pass=p_pass, p_fail=1.0, users_needed=needed, has_bound=has_bound)
    if n_changed == 0:
        # The smallest p-value of a one-sided sign-flip test, as for means without a bound.
        return GateTest(p_pass=0.5**n, p_fail=1.0, has_bound=has_bound)
    return GateTest(reason="too_few_changes", has_bound=has_bound)


def _count_users(margin: float, bound_distance: float, level: float) -> int | None:
    if margin <= 0:
        return None
    return 1 if margin >= bound_distance else count_users_for_margin(margin, bound_distance=bound_distance, level=level)


def _combine(bounds: Bounds, direction: int, factor: float, shift: float = 0.0) -> Bounds:
    """Bounds of direction * (new - factor * old) - shift, for new and old within the bounds."""
    ends: list[float | None] = []
    for side in (0, 1):
        new, old = bounds[side], bounds[1 - side if factor >= 0 else side]
        ends.append(None if new is None or (old is None and factor) else new - factor * (old or 0.0))
    lowest, highest = _oriented((ends[0], ends[1]), direction)
    return (None if lowest is None else lowest - shift, None if highest is None else highest - shift)


def _oriented(bounds: Any, direction: int) -> Bounds:
    lowest, highest = bounds
    if direction > 0:
        return lowest, highest
    return None if highest is None else -highest, None if lowest is None else -lowest


def _logarithms(bounds: Bounds) -> Bounds:
    lowest, highest = bounds
    return math.log(lowest) if lowest else None, None if highest is None else math.log(highest)


def _restored(logarithm: float | None, value: float) -> float | None:
    """Change a distance of logarithms to one of the number."""
    return None if logarithm is None else float(value * np.expm1(min(logarithm, _LARGEST_LOGARITHM)))
