r"""Confidence intervals and tests. Results, reports, comparisons and gates all use these methods.

The sample is users, unless a function names another one. Items, candidates and pairs of one user are averaged within
the user first. Where a method does not apply, an estimate has its value, no interval and the reason as a code.

Mean over users, towards an end b of the metric's range (Gaffke, 2005): give the users, and one more user at b,
uniform Dirichlet weights. The p-value of "the mean is at most m" is the probability that the weighted mean is at most
m, and the end of the interval is the m for which it is 2.5%. With independent exponentials E, this probability is

    P(sum_i E_i (x_i - m) <= 0),

which a saddlepoint approximation computes (Lugannani and Rice, 1980). For shares of users it is the exact binomial
interval. Student's t would be too certain: if all of 20 users have the value 1, it claims that all users of the
population do. Towards an open side: the farther of Student's t and Hall's (1992) t with a correction for skewness.

Difference of two models on the same users: the farther of Student's t and Hall's t, and never more certain than the
exact test that flips signs. If the two models are exchangeable for every user, all signs are equally probable.

Statistics that are not means (coverage, Gini, ratios of sums): a jackknife that leaves out blocks of users.

Groups: each group against all other users, by random relabelling, with Welch's t as the statistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.errors import InputError

MIN_USERS = 10
"""With fewer users an estimate has a value, and neither an interval nor a verdict."""

MIN_CHANGED_USERS = 6
"""With fewer users whose value changed, the sign-flip test cannot reach a p-value of 5%: 2 / 2**5 = 0.0625."""

MIN_REFITS = 4
"""With fewer refits, or trials of a simulation, an estimate has neither an interval nor a verdict."""

JACKKNIFE_BLOCKS = 50
"""Number of blocks of users of the jackknife, or one block for each user if there are fewer users."""

PERMUTATIONS = 9_999
"""Number of random relabellings of a test of groups."""

Bounds = tuple[float | None, float | None]
"""Smallest and largest value of a metric. None without a bound, or if users' values never come near it."""

Average = Literal["arithmetic", "geometric"]

Reason = Literal["too_few_users", "too_few_changes", "too_few_refits"]
"""Code of the reason why an estimate has no interval."""

_RANGE_TOLERANCE = 1e-9
_SIGN_FLIP_STEPS = 5_040
_MAX_SIGN_FLIP_WORK = 10_000_000
_MAX_PERMUTED_MEMBERS = 10_000
_PERMUTATIONS_TOGETHER = 128
_MEMORY_LEVEL, _MIN_MEMORY_EFFECT = 0.001, 0.02


@final
@dataclass(frozen=True, kw_only=True)
class SampleEstimate:
    """Value over a sample, with a confidence interval.

    Attributes:
        value: Estimated value. NaN if the sample is empty.
        lower: Lower end of the interval. None if there is a reason.
        upper: Upper end of the interval. None if there is a reason.
        n: Size of the sample: users, refits or trials.
        reason: Code of the reason why there is no interval, or None.
    """

    value: float
    lower: float | None = None
    upper: float | None = None
    n: int
    reason: Reason | None = None


@final
@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """Difference of two models, new minus old, on the same users.

    Attributes:
        value: Estimated difference. NaN if the sample is empty.
        lower: Lower end of the interval. None if there is a reason.
        upper: Upper end of the interval. None if there is a reason.
        standard_error: Standard error, never smaller than the sign-flip test allows. None if there is a reason.
        degrees_of_freedom: Degrees of freedom of Student's t.
        p: Two-sided p-value of "the models are exchangeable". It is never 0. None if there is a reason.
        n: Number of users with both values.
        n_changed: Number of users whose values, or lists, differ.
        reason: Code of the reason why there is no interval, or None.
    """

    value: float
    lower: float | None = None
    upper: float | None = None
    standard_error: float | None = None
    degrees_of_freedom: int
    p: float | None = None
    n: int
    n_changed: int
    reason: Reason | None = None


# Mean over users


def estimate_mean(
    values: FloatArray,
    bounds: Bounds = (None, None),
    *,
    average: Average = "arithmetic",
    confidence: float = 0.95,
    n_population: int | None = None,
) -> SampleEstimate:
    """Estimate the mean of a metric from a random sample of users.

    Args:
        values: Values of the users, shape (users,), NaN for users without a value.
        bounds: Smallest and largest value that users can have.
        average: Mean to compute. A geometric mean is computed from logarithms.
        confidence: Confidence level of the interval.
        n_population: Number of users of the finite population that the users were sampled from, without replacement,
            and that the statement is about. None for a statement about future users. If all of its users were
            measured, the interval is the value.

    Returns:
        The mean over users that have a value, and its interval.

    Raises:
        InputError: If a value is outside the bounds.
    """
    sample, lowest, highest = _prepare_sample(values, bounds, average)
    restore = math.exp if average == "geometric" else float
    n = len(sample)
    if n == 0:
        return SampleEstimate(value=math.nan, n=0, reason="too_few_users")
    mean = float(sample.mean())
    estimate = SampleEstimate(value=restore(mean), n=n)
    if n_population == n:
        return replace(estimate, lower=estimate.value, upper=estimate.value)
    if n < MIN_USERS:
        return replace(estimate, reason="too_few_users")
    tail = (1 - confidence) / 2
    shrink = 1.0 if n_population is None else math.sqrt(1 - n / n_population)
    lower = mean + shrink * (_lower_end(sample, lowest, tail) - mean)
    upper = mean + shrink * (-_lower_end(-sample, -highest, tail) - mean)
    return replace(estimate, lower=restore(lower), upper=restore(upper))


def compute_exceedance_p_value(
    values: FloatArray, threshold: float, bounds: Bounds = (None, None), *, average: Average = "arithmetic"
) -> float | None:
    """Compute the one-sided p-value of "the mean is at most the threshold", which is small if the mean is above it.

    At confidence c, it is at most (1 - c) / 2 exactly if the lower end of `estimate_mean` is at least the threshold.

    Args:
        values: Values of the users, shape (users,), NaN for users without a value.
        threshold: Value that the mean is compared with.
        bounds: Smallest and largest value that users can have.
        average: Mean to compare.

    Returns:
        The p-value, or None with fewer than `MIN_USERS` users.
    """
    sample, lowest, _ = _prepare_sample(values, bounds, average)
    if len(sample) < MIN_USERS:
        return None
    return _p_above(sample, math.log(threshold) if average == "geometric" else threshold, lowest)


def compute_mean_p_value(
    values: FloatArray, reference: float, bounds: Bounds = (None, None), *, average: Average = "arithmetic"
) -> float | None:
    """Compute the two-sided p-value of "the mean equals the reference".

    At confidence c, it is below 1 - c exactly if the reference is outside the interval of `estimate_mean`.

    Args:
        values: Values of the users, shape (users,), NaN for users without a value.
        reference: Value that the mean is compared with.
        bounds: Smallest and largest value that users can have.
        average: Mean to compare.

    Returns:
        The p-value, or None with fewer than `MIN_USERS` users.
    """
    sample, lowest, highest = _prepare_sample(values, bounds, average)
    if len(sample) < MIN_USERS:
        return None
    threshold = math.log(reference) if average == "geometric" else reference
    return min(1.0, 2 * min(_p_above(sample, threshold, lowest), _p_above(-sample, -threshold, -highest)))


def compute_interval_p_value(
    value: float, lower: float, upper: float, reference: float, degrees_of_freedom: int, *, confidence: float = 0.95
) -> float:
    """Compute the two-sided p-value of "the true value is the reference" from an interval, where only that is known.

    The standard error is that of Student's t, for the side of the interval towards the reference. At the level of the
    interval the decision is that of the interval. At other levels it is exact if the interval is Student's t, such as
    that of the jackknife, and an approximation otherwise.

    Args:
        value: Estimated value.
        lower: Lower end of the interval.
        upper: Upper end of the interval.
        reference: Value that it is compared with.
        degrees_of_freedom: Degrees of freedom of Student's t, 1 or more.
        confidence: Confidence level of the interval.

    Example:
        >>> round(compute_interval_p_value(1.0, 0.0, 2.0, 0.0, 9), 12)
        0.05
    """
    distance = abs(value - reference)
    half_width = value - lower if reference < value else upper - value
    if half_width <= 0:
        return float(distance == 0)
    t = distance / half_width * _t_quantile(0.5 + confidence / 2, degrees_of_freedom)
    return min(1.0, 2 * _t_tail(t, degrees_of_freedom))


# Paired differences


def estimate_difference(
    new_values: FloatArray, old_values: FloatArray, *, average: Average = "arithmetic", confidence: float = 0.95
) -> PairedDifference:
    """Estimate the mean difference of two models on the same users.

    Differences of at most 1e-12 of the largest value are ties.

    Args:
        new_values: Values of the users by the new model, shape (users,), NaN without a value.
        old_values: Values of the same users by the old model, shape (users,).
        average: Mean to compare. For a geometric mean, differences are those of the logarithms.
        confidence: Confidence level of the interval.

    Returns:
        The mean of new minus old over users with both values.
    """
    is_known = ~(np.isnan(new_values) | np.isnan(old_values))
    new, old = new_values[is_known], old_values[is_known]
    if average == "geometric":
        new, old = np.log(new), np.log(old)
    differences = new - old
    largest = max(float(np.abs(side).max(initial=0.0)) for side in (new, old))
    differences[np.abs(differences) <= 1e-12 * largest] = 0.0
    n, n_changed = len(differences), int(np.count_nonzero(differences))
    mean = float(differences.mean()) if n else math.nan
    estimate = PairedDifference(value=mean, degrees_of_freedom=max(n - 1, 0), n=n, n_changed=n_changed)
    if n < MIN_USERS:
        return replace(estimate, reason="too_few_users")
    if n_changed < MIN_CHANGED_USERS:
        return replace(estimate, reason="too_few_changes")
    smallest_p = compute_sign_flip_p_value(differences)
    standard_error = _raise_error(float(differences.std(ddof=1)) / math.sqrt(n), mean, smallest_p, n - 1)
    tail = (1 - confidence) / 2
    half_width = _t_quantile(1 - tail, n - 1) * standard_error
    student_p = 2 * _t_tail(abs(mean) / standard_error, n - 1)
    hall_p = 2 * _hall_p_above(differences if mean > 0 else -differences, 0.0)
    return replace(
        estimate,
        lower=min(mean - half_width, _hall_lower_end(differences, tail)),
        upper=max(mean + half_width, -_hall_lower_end(-differences, tail)),
        standard_error=standard_error,
        p=min(1.0, max(student_p, hall_p)),
    )


def compute_sign_flip_p_value(differences: FloatArray) -> float:
    """Compute the two-sided p-value of the exact test of all signs of the differences that are not 0.

    Absolute differences are rounded to 5,040 steps of the largest, of which tenths and twelfths are multiples, and the
    distribution of their signed sum is computed step by step. The result is never below the exact one. If this is too
    much work (above about 40 different values, never for hits), it is the smallest possible p-value, 2**(1 - m).

    Args:
        differences: Differences of the users, shape (users,).

    Returns:
        The p-value, 1 without a difference that is not 0.
    """
    differences = differences[differences != 0]
    n_changed = len(differences)
    if n_changed == 0:
        return 1.0
    scaled = np.abs(differences) / np.abs(differences).max() * _SIGN_FLIP_STEPS
    steps = np.rint(scaled).astype(np.int64)
    # Rounding moves a signed sum by at most half a step for each difference.
    slack = 0 if np.allclose(steps, scaled, atol=1e-6) else n_changed
    divisor = int(np.gcd.reduce(steps))
    steps = steps // divisor
    if steps.sum() * n_changed > _MAX_SIGN_FLIP_WORK:
        return float(2.0 ** (1 - n_changed))
    probabilities = np.ones(1)  # of the sum of the steps whose sign is positive
    for step in steps.tolist():
        padding = np.zeros(step)
        probabilities = np.append(probabilities, padding) + np.append(padding, probabilities)
        probabilities /= 2
    signed_sums = np.abs(2 * np.arange(len(probabilities)) - steps.sum())
    observed = abs(int((np.sign(differences) * steps).sum()))
    is_as_extreme = signed_sums * divisor >= observed * divisor - slack
    return float(min(1.0, probabilities[is_as_extreme].sum()))


# Statistics that are not means


def assign_blocks(n_users: int, seed: int = 0) -> IntArray:
    """Assign users at random to the blocks of the jackknife.

    The blocks depend on the number of users and the seed alone, so two models on the same users have the same blocks.

    Returns:
        Block of each user, from 0 to the number of blocks minus 1, shape (users,).
    """
    order = np.random.default_rng(seed).permutation(n_users)
    return np.asarray(order % max(1, min(JACKKNIFE_BLOCKS, n_users)), dtype=np.int64)


def compute_jackknife_error(without_block: FloatArray) -> float:
    """Compute the standard error of a statistic from its values without each block of users.

    Args:
        without_block: Value of the statistic without each block, shape (blocks,).
    """
    n_blocks = len(without_block)
    variance = (n_blocks - 1) / n_blocks * float(((without_block - without_block.mean()) ** 2).sum())
    return math.sqrt(variance)


def estimate_statistic(
    value: float, without_block: FloatArray, n_users: int, *, confidence: float = 0.95
) -> SampleEstimate:
    """Estimate a statistic of a sample of users by the jackknife over blocks of users.

    The target is the expected value for this number of users: coverage, Gini and entropy change with it.

    Args:
        value: Statistic of all users.
        without_block: Statistic without each block of `assign_blocks`, shape (blocks,).
        n_users: Number of users that the statistic is computed from.
        confidence: Confidence level of the interval.

    Returns:
        The statistic and its interval by Student's t.
    """
    estimate = SampleEstimate(value=value, n=n_users)
    if n_users < MIN_USERS:
        return replace(estimate, reason="too_few_users")
    half_width = _t_quantile(0.5 + confidence / 2, len(without_block) - 1) * compute_jackknife_error(without_block)
    return replace(estimate, lower=value - half_width, upper=value + half_width)


def estimate_statistic_difference(
    new: float,
    old: float,
    new_without_block: FloatArray,
    old_without_block: FloatArray,
    *,
    n_users: int,
    n_changed: int,
    confidence: float = 0.95,
) -> PairedDifference:
    """Estimate the difference of a statistic between two models on the same users.

    Args:
        new: Statistic of the new model.
        old: Statistic of the old model.
        new_without_block: Statistic of the new model without each block of `assign_blocks`, shape (blocks,).
        old_without_block: Statistic of the old model without the same blocks, shape (blocks,).
        n_users: Number of users.
        n_changed: Number of users whose lists, or values, differ.
        confidence: Confidence level of the interval.

    Returns:
        New minus old, with an error that is never smaller than the sign-flip test allows.
    """
    difference, degrees_of_freedom = new - old, len(new_without_block) - 1
    estimate = PairedDifference(value=difference, degrees_of_freedom=degrees_of_freedom, n=n_users, n_changed=n_changed)
    if n_users < MIN_USERS:
        return replace(estimate, reason="too_few_users")
    if n_changed < MIN_CHANGED_USERS:
        return replace(estimate, reason="too_few_changes")
    standard_error = compute_jackknife_error(new_without_block - old_without_block)
    standard_error = _raise_error(standard_error, difference, 2.0 ** (1 - n_changed), degrees_of_freedom)
    half_width = _t_quantile(0.5 + confidence / 2, degrees_of_freedom) * standard_error
    return replace(
        estimate,
        lower=difference - half_width,
        upper=difference + half_width,
        standard_error=standard_error,
        p=2 * _t_tail(abs(difference) / standard_error, degrees_of_freedom) if difference else 1.0,
    )


# Families and groups


def adjust_by_holm(p_values: Sequence[float] | FloatArray) -> FloatArray:
    """Adjust the p-values of a family by Holm's method.

    Naming only what has an adjusted p-value of at most 5% gives a false statement in at most 5% of families, whatever
    the dependence of the tests.

    Args:
        p_values: P-values of the tests, shape (tests,). NaN for a test that could not be made, which does not count.

    Returns:
        Adjusted p-values, shape (tests,).

    Example:
        >>> adjust_by_holm([0.01, 0.04, float("nan"), 0.03]).tolist()
        [0.03, 0.06, nan, 0.06]
    """
    p_values = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(len(p_values), np.nan)
    order = np.argsort(p_values, kind="stable")  # NaN come last
    order = order[: np.count_nonzero(~np.isnan(p_values))]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p_values[order] * factors))
    return adjusted


def count_permutations(n_tests: int, level: float = 0.05) -> int:
    """Count the relabellings that a family needs: its size times the smallest p-value is a fifth of the level."""
    return max(PERMUTATIONS, math.ceil(5 * n_tests / level) - 1)


def compute_group_p_values(
    values: FloatArray, is_member: BoolArray, *, n_permutations: int = PERMUTATIONS, seed: int = 0
) -> FloatArray:
    """Compute two-sided p-values of "membership in the group does not matter", for several metrics at once.

    The statistic is Welch's t of the members against all other users, its distribution that over random relabellings.
    With more than 10,000 members, or others, it is Student's distribution.

    Args:
        values: Values of the users, shape (users, metrics), without missing values.
        is_member: Mask of the group's members, shape (users,).
        n_permutations: Number of random relabellings.
        seed: Seed of the relabellings.

    Returns:
        P-values, shape (metrics,). NaN with fewer than `MIN_USERS` members or others.
    """
    p_values = compute_p_values_of_groups(values, is_member[:, None], n_permutations=n_permutations, seed=seed)
    return np.asarray(p_values[0])


def compute_p_values_of_groups(
    values: FloatArray, is_member: BoolArray, *, n_permutations: int = PERMUTATIONS, seed: int = 0
) -> FloatArray:
    """Compute the p-values of `compute_group_p_values` for several groups of the same users at once.

    All groups share the relabellings: the first n users of a random order are a random group of n users. The tests
    therefore depend on each other, which Holm's method allows.

    Args:
        values: Values of the users, shape (users, metrics), without missing values.
        is_member: Masks of the groups' members, shape (users, groups).
        n_permutations: Number of random relabellings.
        seed: Seed of the relabellings.

    Returns:
        P-values, shape (groups, metrics). NaN for groups with fewer than `MIN_USERS` members or others.
    """
    (n_users, n_metrics), n_groups = values.shape, is_member.shape[1]
    n_members = is_member.sum(axis=0)
    sizes = np.minimum(n_members, n_users - n_members)
    is_smaller = np.where(n_members == sizes, is_member, ~is_member)
    p_values = np.full((n_groups, n_metrics), np.nan)
    for group in np.flatnonzero(sizes > _MAX_PERMUTED_MEMBERS):
        mask = is_smaller[:, group]
        p_values[group] = _welch_p_values(values[mask], values[~mask])
    permuted = np.flatnonzero((sizes >= MIN_USERS) & (sizes <= _MAX_PERMUTED_MEMBERS))
    if not len(permuted):
        return p_values
    # Centered values keep the sums of squares exact.
    centered = values - values.mean(axis=0)
    sums = np.concatenate([centered, centered**2], axis=1)
    total = sums.sum(axis=0)

    def compute_statistics(members: FloatArray, n: IntArray) -> FloatArray:
        """|t| of groups by their sums, shape (..., groups, 2 * metrics), and sizes, shape (groups, 1)."""
        own, own_squares = members[..., :n_metrics], members[..., n_metrics:]
        t, _ = _welch_t(own, own_squares, n, total[:n_metrics] - own, total[n_metrics:] - own_squares, n_users - n)
        return np.abs(t)

    observed = compute_statistics(is_smaller[:, permuted].T.astype(np.float64) @ sums, sizes[permuted, None])
    observed *= 1 - 1e-9
    distinct, size_of_group = np.unique(sizes[permuted], return_inverse=True)
    starts = np.append(0, distinct[:-1])
    rng = np.random.default_rng(seed)
    n_as_extreme = np.zeros(observed.shape, dtype=np.int64)
    for start in range(0, n_permutations, _PERMUTATIONS_TOGETHER):
        members = np.empty((min(_PERMUTATIONS_TOGETHER, n_permutations - start), len(distinct), sums.shape[1]))
        for relabelled in members:
            order = rng.choice(n_users, distinct[-1], replace=False)
            np.add.reduceat(sums[order], starts, axis=0, out=relabelled)
        statistics = compute_statistics(members.cumsum(axis=1), distinct[:, None])
        n_as_extreme += (statistics[:, size_of_group] >= observed).sum(axis=0)
    p_values[permuted] = (1 + n_as_extreme) / (1 + n_permutations)
    return p_values


# Gates


def compute_gate_p_values(
    differences: FloatArray, margin: float, bounds: Bounds = (-1.0, 1.0)
) -> tuple[float | None, float | None]:
    """Compute the p-values of the rule "not worse by more than the margin".

    Args:
        differences: New minus old of the users, where larger is better, shape (users,).
        margin: Largest loss that the rule accepts.
        bounds: Smallest and largest possible difference.

    Returns:
        P-value of "the mean difference is at most -margin", which is small if the rule is satisfied, and of "it is at
        least -margin", which is small if the rule is violated. None with fewer than `MIN_USERS` users.
    """
    lowest, highest = bounds
    opposite = (None if highest is None else -highest, None if lowest is None else -lowest)
    return (
        compute_exceedance_p_value(differences, -margin, bounds),
        compute_exceedance_p_value(-differences, margin, opposite),
    )


def compute_gate_p_values_of_statistic(
    difference: PairedDifference, margin: float
) -> tuple[float | None, float | None]:
    """Compute the p-values of the rule "not worse by more than the margin" for a statistic such as coverage.

    Args:
        difference: Difference of the statistic, where larger is better.
        margin: Largest loss that the rule accepts.

    Returns:
        P-values as in `compute_gate_p_values`. None if the difference has no standard error.
    """
    error = difference.standard_error
    if error is None:
        return None, None
    distance = difference.value + margin
    if error == 0:
        return float(distance < 0), float(distance > 0)
    t = distance / error
    return _t_tail(t, difference.degrees_of_freedom), _t_tail(-t, difference.degrees_of_freedom)


def compute_detectable_difference(
    standard_error: float, degrees_of_freedom: int, *, level: float = 0.05, power: float = 0.8
) -> float:
    """Compute the true difference that a two-sided test with this standard error finds with the given power."""
    quantiles = _t_quantile(1 - level / 2, degrees_of_freedom) + _t_quantile(power, degrees_of_freedom)
    return quantiles * standard_error


def compute_gate_detectable_difference(
    standard_error: float, degrees_of_freedom: int, *, level: float = 0.05, power: float = 0.8
) -> float:
    """Compute the distance from the margin at which a rule about a statistic is decided with the given power."""
    quantiles = _t_quantile(1 - level, degrees_of_freedom) + _t_quantile(power, degrees_of_freedom)
    return quantiles * standard_error


def compute_gate_detectable_distance(
    differences: FloatArray, bounds: Bounds = (-1.0, 1.0), *, level: float = 0.05, power: float = 0.8
) -> float:
    """Compute the distance from the margin at which a rule about a mean is decided with the given power.

    The distance from the mean to the farther end of its one-sided intervals, which allow for one more user at the
    bound, plus what the mean varies by from sample to sample.

    Args:
        differences: New minus old of the users, shape (users,), `MIN_USERS` users or more.
        bounds: Smallest and largest possible difference.
        level: Level of the test.
        power: Probability of a decision.
    """
    sample, lowest, highest = _prepare_sample(differences, bounds, "arithmetic")
    mean = float(sample.mean())
    half_width = max(mean - _lower_end(sample, lowest, level), -_lower_end(-sample, -highest, level) - mean)
    standard_error = float(sample.std(ddof=1)) / math.sqrt(len(sample))
    return half_width + _t_quantile(power, len(sample) - 1) * standard_error


def count_users_for_margin(margin: float, *, bound_distance: float = 1.0, level: float = 0.05) -> int:
    """Count the users that an unchanged model needs to pass the rule "not worse by more than the margin".

    Args:
        margin: Largest loss that the rule accepts, above 0.
        bound_distance: Distance of no difference from the worst possible one.
        level: Level of the test.

    Example:
        >>> count_users_for_margin(0.02)
        149
    """
    return math.ceil(math.log(level) / math.log1p(-margin / bound_distance))


# Refits and trials


def estimate_mean_of_refits(values: FloatArray, *, confidence: float = 0.95) -> SampleEstimate:
    """Estimate the mean over refits with other seeds, or over trials of a simulation, by Student's t.

    The interval holds if refits are roughly normal. A training that fails one time in ten is not visible in five
    refits.

    Args:
        values: One value for each refit, shape (refits,).
        confidence: Confidence level of the interval.
    """
    n = len(values)
    estimate = SampleEstimate(value=float(values.mean()) if n else math.nan, n=n)
    if n < MIN_REFITS:
        return replace(estimate, reason="too_few_refits")
    half_width = _t_quantile(0.5 + confidence / 2, n - 1) * float(values.std(ddof=1)) / math.sqrt(n)
    return replace(estimate, lower=estimate.value - half_width, upper=estimate.value + half_width)


def compute_refits_p_value(new_values: FloatArray, old_values: FloatArray) -> float | None:
    """Compute the two-sided p-value of "two recommenders have the same mean over their refits".

    It is the larger of that of Welch's t and of the permutation test of Welch's t, which is exact up to 9,999
    permutations and sampled above.

    Args:
        new_values: One value for each refit of one recommender, shape (refits,).
        old_values: One value for each refit of the other, shape (refits,).

    Returns:
        The p-value, or None with fewer than `MIN_REFITS` refits of either.
    """
    from scipy.stats import permutation_test  # noqa: PLC0415  slow to import, and rarely needed

    if min(len(new_values), len(old_values)) < MIN_REFITS:
        return None

    def compute_statistic(new: FloatArray, old: FloatArray, axis: int) -> FloatArray:
        t, _ = _welch_t_of_samples(np.moveaxis(new, axis, 0), np.moveaxis(old, axis, 0))
        return np.abs(t)

    permuted = permutation_test(
        (new_values, old_values),
        compute_statistic,
        n_resamples=PERMUTATIONS,
        alternative="greater",
        vectorized=True,
        rng=0,
    )
    welch_p = float(_welch_p_values(new_values[:, None], old_values[:, None])[0])
    return max(float(permuted.pvalue), welch_p)


def compute_memory_limit(refit_values: FloatArray) -> float | None:
    """Compute the highest value that one more honest refit has: a one-sided prediction interval at 0.1%.

    Args:
        refit_values: Matched share (see `compute_matched_share`) of each refit, shape (refits,).

    Returns:
        The limit, at least 0.02 above the mean, or None with fewer than `MIN_REFITS` refits.
    """
    n = len(refit_values)
    if n < MIN_REFITS:
        return None
    deviation = float(refit_values.std(ddof=1)) * math.sqrt(1 + 1 / n)
    return float(refit_values.mean()) + max(_t_quantile(1 - _MEMORY_LEVEL, n - 1) * deviation, _MIN_MEMORY_EFFECT)


# Helpers


def _prepare_sample(values: FloatArray, bounds: Bounds, average: Average) -> tuple[FloatArray, float, float]:
    """Leave out missing values, check the bounds, and change to the scale of the mean: (sample, lowest, highest)."""
    sample = np.asarray(values, dtype=np.float64)
    sample = sample[~np.isnan(sample)]
    lowest = -math.inf if bounds[0] is None else bounds[0]
    highest = math.inf if bounds[1] is None else bounds[1]
    tolerance = _RANGE_TOLERANCE * max([1.0, *(abs(bound) for bound in bounds if bound is not None)])
    is_outside = (sample < lowest - tolerance) | (sample > highest + tolerance) | np.isinf(sample)
    if average == "geometric":
        is_outside |= sample <= 0
    if is_outside.any():
        raise InputError(
            "values",
            received=f"the value {sample[is_outside][0]:g}",
            expected=f"finite values from {lowest:g} to {highest:g}"
            + (", above 0 for a geometric mean" if average == "geometric" else ""),
            remedy="Correct the formula of the metric, or its bounds.",
        )
    sample = np.clip(sample, lowest, highest)
    if average == "arithmetic":
        return sample, lowest, highest
    return np.log(sample), math.log(lowest) if lowest > 0 else -math.inf, math.log(highest)


def _raise_error(standard_error: float, difference: float, smallest_p: float, degrees_of_freedom: int) -> float:
    """Raise a standard error until Student's t is never more certain than the sign-flip test."""
    quantile = -_t_quantile(smallest_p / 2, degrees_of_freedom)
    return max(standard_error, abs(difference) / quantile if quantile > 0 else 0.0)


def _lower_end(values: FloatArray, minimum: float, tail: float) -> float:
    """Lower end of an interval whose lower side has this end of the range."""
    if math.isfinite(minimum):
        return _gaffke_lower_end(values, minimum, tail)
    student_error = float(values.std(ddof=1)) / math.sqrt(len(values))
    student = float(values.mean()) - _t_quantile(1 - tail, len(values) - 1) * student_error
    return min(student, _hall_lower_end(values, tail))


def _p_above(values: FloatArray, threshold: float, minimum: float) -> float:
    """One-sided p-value of "the mean is at most the threshold"; small if the mean is above it.

    It is at most the tail exactly if `_lower_end` is at least the threshold.
    """
    if math.isfinite(minimum):
        return _gaffke_p_above(values, threshold, minimum)
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    if spread == 0:
        student_p = 0.0 if mean > threshold else 1.0
    else:
        student_p = _t_tail(math.sqrt(len(values)) * (mean - threshold) / spread, len(values) - 1)
    # The last is the smallest p-value of a one-sided sign-flip test.
    return max(student_p, _hall_p_above(values, threshold), 0.5 ** len(values))


def _t_quantile(probability: float, degrees_of_freedom: int) -> float:
    # `scipy.stats` has Student's t too, but is slow to import.
    return float(stdtrit(degrees_of_freedom, probability))


def _t_tail(t: float, degrees_of_freedom: int) -> float:
    return float(stdtr(degrees_of_freedom, -t))


def _skewness(values: FloatArray) -> float:
    deviations = values - values.mean()
    spread = float(np.sqrt((deviations**2).mean()))
    return float((deviations**3).mean()) / spread**3 if spread > 0 else 0.0


def _hall_lower_end(values: FloatArray, tail: float) -> float:
    """Lower end by Hall's transformation of t, which `_hall_p_above` states, inverted."""
    n, skewness = len(values), _skewness(values)
    transformed = _t_quantile(1 - tail, n - 1) / math.sqrt(n) - skewness / (6 * n)
    # The limit at skewness 0 is the transformed value itself.
    if abs(skewness) > 1e-9:
        transformed = 3 * (np.cbrt(1 + skewness * transformed) - 1) / skewness
    return float(values.mean() - values.std(ddof=1) * transformed)


def _hall_p_above(values: FloatArray, threshold: float) -> float:
    """One-sided p-value of Hall's t: T = sqrt(n) (w + g w^2 / 3 + g^2 w^3 / 27 + g / (6 n)).

    Here w = (mean - threshold) / spread, and g is the skewness.
    """
    n, g = len(values), _skewness(values)
    spread = float(values.std(ddof=1))
    if spread == 0:
        return 0.0 if values.mean() > threshold else 1.0
    w = (float(values.mean()) - threshold) / spread
    transformed = w + g * w**2 / 3 + g**2 * w**3 / 27 + g / (6 * n)
    return _t_tail(math.sqrt(n) * transformed, n - 1)


def _gaffke_lower_end(values: FloatArray, minimum: float, tail: float) -> float:
    distances = np.append(values, minimum) - minimum
    largest = float(distances.max())
    if largest == 0:
        return minimum
    quantile = float(ndtri(tail))
    end, _ = _search_gap(distances / largest, lambda end, score: score - quantile)
    return minimum + largest * end


def _gaffke_p_above(values: FloatArray, threshold: float, minimum: float) -> float:
    distances = np.append(values, minimum) - minimum
    largest = float(distances.max())
    threshold = threshold - minimum
    if threshold <= 0:
        return 0.0 if largest > threshold else 1.0
    # From the weighted users' mean on, the p-value is near one half or above, and the other side decides.
    if threshold >= distances.mean():
        return 1.0
    log_target = math.log(threshold / largest)
    _, score = _search_gap(distances / largest, lambda end, score: math.log(end) - log_target)
    return float(ndtr(score))


def _search_gap(distances: FloatArray, compute_residual: Callable[[float, float], float]) -> tuple[float, float]:
    """Search among the thresholds m below the mean, with the normal scores of their probabilities.

    At the saddlepoint of a threshold the weight of a user is proportional to 1 / (distance + gap). The threshold and
    its probability increase with the gap, and both are smooth on the scales of logarithms and normal scores.

    Args:
        distances: Distances of the users from the end of the range, at most 1, shape (users,).
        compute_residual: Increasing function of a threshold and its score, which is 0 at the solution.

    Returns:
        Threshold and score at the solution, or at the end of the search that is closest to it.
    """
    # Metrics such as hits have few different values, each of which is computed once.
    distances, n_equal = np.unique(distances, return_counts=True)
    counts = n_equal.astype(np.float64)
    last = (math.nan, math.nan)

    def compute(log_gap: float) -> float:
        nonlocal last
        gap = math.exp(log_gap)
        weights = counts / (distances + gap)
        threshold = float((weights * distances).sum() / weights.sum())
        last = (threshold, _score_below_zero(distances - threshold, counts, -1 / (gap + threshold)))
        return compute_residual(*last)

    low, high = -16.0, 16.0
    if compute(low) < 0 < compute(high):
        compute(float(brentq(compute, low, high, xtol=1e-12, rtol=1e-12)))
    elif compute(high) > 0:
        compute(low)
    return last


def _score_below_zero(coefficients: FloatArray, counts: FloatArray, saddlepoint: float) -> float:
    """Approximate the normal score of P(coefficients @ E <= 0) for independent exponential variables E.

    Args:
        coefficients: Different coefficients, of both signs, shape (coefficients,).
        counts: Number of variables with each coefficient, shape (coefficients,).
        saddlepoint: Root s of K'(s) = 0, where K(s) = -sum(log(1 - s * coefficients)).
    """
    factors = 1 - saddlepoint * coefficients
    ratios = coefficients / factors
    variance = float((counts * ratios * ratios).sum())
    r = math.copysign(math.sqrt(max(2 * float((counts * np.log(factors)).sum()), 0.0)), saddlepoint)
    if abs(r) < 1e-3:  # limit of the correction below
        correction = float((counts * ratios * ratios * ratios).sum()) / (3 * variance**1.5)
    else:
        correction = math.log(saddlepoint * math.sqrt(variance) / r) / r
    return float(r + correction)


def _welch_t(
    sums: FloatArray,
    squares: FloatArray,
    n: int | IntArray,
    other_sums: FloatArray,
    other_squares: FloatArray,
    n_others: int | IntArray,
) -> tuple[FloatArray, FloatArray]:
    """Welch's t of two samples, and its degrees of freedom, from sums and sums of squares.

    It is infinite without variance, and 0 without variance and difference.
    """
    mean, other_mean = sums / n, other_sums / n_others
    error = np.maximum(squares / n - mean**2, 0) / (n - 1)
    other_error = np.maximum(other_squares / n_others - other_mean**2, 0) / (n_others - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (mean - other_mean) / np.sqrt(error + other_error)
        degrees_of_freedom = (error + other_error) ** 2 / (error**2 / (n - 1) + other_error**2 / (n_others - 1))
    return np.where(np.isnan(t), 0.0, t), np.where(np.isnan(degrees_of_freedom), 1.0, degrees_of_freedom)


def _welch_t_of_samples(sample: FloatArray, others: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`_welch_t` of samples along the first axis."""
    return _welch_t(
        sample.sum(axis=0),
        (sample**2).sum(axis=0),
        len(sample),
        others.sum(axis=0),
        (others**2).sum(axis=0),
        len(others),
    )


def _welch_p_values(sample: FloatArray, others: FloatArray) -> FloatArray:
    center = others.mean(axis=0)
    t, degrees_of_freedom = _welch_t_of_samples(sample - center, others - center)
    return np.asarray(2 * stdtr(degrees_of_freedom, -np.abs(t)))
