"""Known answers of the inference methods: closed forms, enumeration, scipy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special, stats

from recaudit.arrays import FloatArray
from recaudit.errors import InputError
from recaudit.metrics import inference
from recaudit.metrics.inference import (
    adjust_by_holm,
    assign_blocks,
    compute_detectable_difference,
    compute_exceedance_p_value,
    compute_gate_detectable_difference,
    compute_gate_detectable_distance,
    compute_gate_p_values,
    compute_gate_p_values_of_statistic,
    compute_group_p_values,
    compute_interval_p_value,
    compute_jackknife_error,
    compute_mean_p_value,
    compute_memory_limit,
    compute_p_values_of_groups,
    compute_refits_p_value,
    compute_sign_flip_p_value,
    count_permutations,
    count_users_for_margin,
    estimate_difference,
    estimate_mean,
    estimate_mean_of_refits,
    estimate_statistic,
    estimate_statistic_difference,
)

SHARE = (0.0, 1.0)


def hits(n: int, n_hits: int) -> FloatArray:
    return (np.arange(n) < n_hits).astype(np.float64)


def known(value: float | None) -> float:
    assert value is not None
    return value


def test_gaffke_of_hits_is_the_exact_binomial_p_value() -> None:
    for n, k, p in itertools.product((10, 30, 100, 1000), (1, 2, 5, 9, 10), (0.4, 0.1, 0.05, 0.025, 0.0025, 1e-5)):
        threshold = stats.beta.ppf(p, k, n - k + 1)
        if threshold >= k / (n + 1):  # the other side of the test decides
            continue
        ratio = known(compute_exceedance_p_value(hits(n, k), threshold, SHARE)) / p
        assert 0.995 < ratio < 1.06, (n, k, p, ratio)


@pytest.mark.parametrize(("n", "k"), [(10, 0), (10, 10), (30, 3), (200, 100), (1000, 20)])
def test_interval_of_hits_is_clopper_pearson(n: int, k: int) -> None:
    exact = stats.binomtest(k, n).proportion_ci(0.95, "exact")
    estimate = estimate_mean(hits(n, k), SHARE)
    assert estimate.lower == pytest.approx(exact.low, abs=0.002)
    assert estimate.upper == pytest.approx(exact.high, abs=0.002)


def test_no_hit_is_the_rule_of_three() -> None:
    estimate = estimate_mean(np.zeros(100), SHARE, confidence=0.9)
    assert estimate.lower == 0.0
    assert estimate.upper == pytest.approx(1 - 0.05 ** (1 / 100), rel=0.01)


def test_gaffke_is_the_share_of_dirichlet_weights() -> None:
    rng = np.random.default_rng(2)
    x = np.round(rng.beta(1.5, 3, 20) * (rng.random(20) < 0.6), 3)
    means = rng.dirichlet(np.ones(21), 400_000)[:, :20] @ x
    for threshold in np.quantile(means, [0.01, 0.025, 0.05, 0.3]):
        p = known(compute_exceedance_p_value(x, threshold, (0.0, None)))
        # Four standard errors of the share, and the saddlepoint's 2%.
        assert p == pytest.approx((means <= threshold).mean(), abs=4 * math.sqrt(p / 400_000), rel=0.02)


def test_interval_and_p_value_of_a_mean_agree() -> None:
    rng = np.random.default_rng(3)
    for bounds in (SHARE, (None, None), (0.0, None), (None, 1.0)):
        x = rng.random(40)
        estimate = estimate_mean(x, bounds)
        for end in (estimate.lower, estimate.upper):
            assert compute_mean_p_value(x, known(end), bounds) == pytest.approx(0.05, rel=1e-5)
        assert compute_exceedance_p_value(x, known(estimate.lower), bounds) == pytest.approx(0.025, rel=1e-5)


def test_interval_is_symmetric_in_the_bounds() -> None:
    x = np.random.default_rng(3).random(40)
    estimate, mirrored = estimate_mean(x, SHARE), estimate_mean(1 - x, SHARE)
    assert [estimate.lower, estimate.upper] == pytest.approx(
        [1 - known(mirrored.upper), 1 - known(mirrored.lower)], rel=1e-9
    )


def test_interval_of_many_users_is_that_of_student() -> None:
    x = np.random.default_rng(4).random(100_000)
    estimate = estimate_mean(x, SHARE)
    half_width = 1.96 * x.std() / np.sqrt(len(x))
    assert 0.99 < (x.mean() - known(estimate.lower)) / half_width < 1.03
    assert 0.99 < (known(estimate.upper) - x.mean()) / half_width < 1.03


def test_values_outside_the_bounds_are_refused() -> None:
    with pytest.raises(InputError) as refused:
        estimate_mean(np.array([0.5] * 10 + [-0.1]), SHARE)
    assert refused.value.argument == "values"


def test_hall_p_value_is_the_polynomial() -> None:
    x = np.random.default_rng(5).lognormal(0, 1, 30)
    n, g, s = len(x), stats.skew(x), x.std(ddof=1)
    w = (x.mean() - 1.2) / s
    polynomial = np.sqrt(n) * (w + g * w**2 / 3 + g**2 * w**3 / 27 + g / (6 * n))
    assert inference._hall_p_above(x, 1.2) == pytest.approx(stats.t.sf(polynomial, n - 1), rel=1e-9)
    assert inference._hall_p_above(x, inference._hall_lower_end(x, 0.025)) == pytest.approx(0.025, rel=1e-9)


def test_unbounded_interval_is_the_farther_of_student_and_hall() -> None:
    x = np.random.default_rng(6).lognormal(0, 1, 30)
    student = stats.ttest_1samp(x, 0).confidence_interval(0.95)
    hall = inference._hall_lower_end(x, 0.025), -inference._hall_lower_end(-x, 0.025)
    assert hall[0] > student.low
    assert hall[1] > student.high
    estimate = estimate_mean(x)
    assert [estimate.lower, estimate.upper] == pytest.approx([student.low, hall[1]], rel=1e-9)


def test_geometric_mean_is_the_mean_of_logarithms() -> None:
    x = np.random.default_rng(7).lognormal(0.4, 1, 50)
    estimate, logarithms = estimate_mean(x, (0.0, None), average="geometric"), estimate_mean(np.log(x))
    assert estimate.value == pytest.approx(stats.gmean(x), rel=1e-12)
    assert np.log([known(estimate.lower), known(estimate.upper)]) == pytest.approx(
        [logarithms.lower, logarithms.upper], rel=1e-12
    )


def test_finite_population() -> None:
    x = np.random.default_rng(7).random(50)
    infinite, finite = estimate_mean(x, SHARE), estimate_mean(x, SHARE, n_population=100)
    widths, shorter = (
        np.array([each.value - known(each.lower), known(each.upper) - each.value]) for each in (infinite, finite)
    )
    assert widths == pytest.approx(math.sqrt(2) * shorter, rel=1e-12)
    everyone = estimate_mean(x, SHARE, n_population=50)
    assert everyone.lower == everyone.value == everyone.upper


def test_few_users_have_no_interval_and_no_p_value() -> None:
    estimate = estimate_mean(np.arange(9.0))
    assert (estimate.value, estimate.lower, estimate.upper, estimate.reason) == (4.0, None, None, "too_few_users")
    assert compute_exceedance_p_value(np.arange(9.0), 1.0) is None
    assert compute_mean_p_value(np.arange(9.0), 1.0) is None


def test_users_without_a_value_are_left_out() -> None:
    x = np.random.default_rng(7).random(30)
    assert estimate_mean(np.append(x, [np.nan] * 5), SHARE) == estimate_mean(x, SHARE)


def test_sign_flips_by_enumeration() -> None:
    rng = np.random.default_rng(8)
    samples = (
        rng.normal(0.5, 1, 10),
        rng.integers(-3, 4, 11) / 5,
        rng.choice([-1.0, 1.0, 0.0], 12),
        rng.normal(0.2, 1, 7),
    )
    for sample in samples:
        differences = sample[sample != 0]
        signs = np.array(list(itertools.product((-1, 1), repeat=len(differences))))
        exact = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9)
        assert exact - 1e-12 <= compute_sign_flip_p_value(differences) <= exact + 0.005


@pytest.mark.parametrize(("better", "worse"), [(37, 22), (6, 0), (200, 150), (7, 7)])
def test_sign_flips_of_hits_are_the_binomial_test(better: int, worse: int) -> None:
    differences = np.concatenate([np.ones(better), -np.ones(worse), np.zeros(30)])
    exact = stats.binomtest(better, better + worse).pvalue
    assert compute_sign_flip_p_value(differences) == pytest.approx(exact, rel=1e-9)


def test_paired_difference_is_student_for_symmetric_differences() -> None:
    half = np.random.default_rng(9).normal(0, 1, 100)
    differences = np.concatenate([half, -half]) + 0.2
    estimate, exact = estimate_difference(differences, np.zeros(200)), stats.ttest_1samp(differences, 0)
    assert estimate.p == pytest.approx(exact.pvalue, rel=1e-6)
    assert [estimate.lower, estimate.upper] == pytest.approx(list(exact.confidence_interval(0.95)), rel=1e-6)


def test_equal_changes_are_as_certain_as_sign_flips_allow() -> None:
    def change(changes: FloatArray, unchanged: int = 0) -> inference.PairedDifference:
        differences = np.concatenate([changes, np.zeros(unchanged)])
        return estimate_difference(differences, np.zeros(len(differences)))

    assert change(np.full(3, 0.1)).reason == "too_few_users"
    assert change(np.full(5, 0.1), unchanged=100).reason == "too_few_changes"
    assert change(np.full(10, 0.1)).p == pytest.approx(2 / 2**10, rel=1e-9)
    assert change(np.full(6, 0.1), unchanged=50).p == pytest.approx(2 / 2**6, rel=1e-9)
    same = change(np.zeros(20))
    assert (same.n_changed, same.value, same.p, same.lower) == (0, 0.0, None, None)


def test_interval_and_p_value_of_a_difference_agree() -> None:
    rng = np.random.default_rng(10)
    for _ in range(300):
        estimate = estimate_difference(rng.lognormal(0, 0.7, 15), np.full(15, rng.uniform(0.7, 1.9)))
        assert (known(estimate.p) < 0.05) == (known(estimate.lower) > 0 or known(estimate.upper) < 0)


def test_difference_counts_users_with_both_values() -> None:
    rng = np.random.default_rng(11)
    new, old = rng.random((2, 40))
    new[:3], old[2:5] = np.nan, np.nan
    estimate = estimate_difference(new, old)
    assert estimate == estimate_difference(new[5:], old[5:])
    assert (estimate.n, estimate.n_changed) == (35, 35)


def jackknife(values: FloatArray, statistic: Callable[[FloatArray], float]) -> tuple[float, FloatArray]:
    """Statistic of all values, and of those outside of each block."""
    blocks = assign_blocks(len(values))
    return statistic(values), np.array([statistic(values[blocks != block]) for block in range(blocks.max() + 1)])


def test_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = np.random.default_rng(13).random(40)
    value, without_block = jackknife(values, np.mean)
    assert compute_jackknife_error(without_block) == pytest.approx(stats.sem(values), rel=1e-9)
    estimate = estimate_statistic(value, without_block, 40)
    half_width = stats.t.ppf(0.975, 39) * stats.sem(values)
    assert [estimate.lower, estimate.upper] == pytest.approx([value - half_width, value + half_width], rel=1e-9)


def test_paired_jackknife_of_a_mean_is_the_paired_t() -> None:
    new, old = np.random.default_rng(14).random((2, 50))
    (new_mean, new_without), (old_mean, old_without) = jackknife(new, np.mean), jackknife(old, np.mean)
    estimate = estimate_statistic_difference(new_mean, old_mean, new_without, old_without, n_users=50, n_changed=50)
    assert estimate.p == pytest.approx(stats.ttest_rel(new, old).pvalue, rel=1e-6)


def test_blocks_of_the_jackknife() -> None:
    for n_users, n_blocks in ((20, 20), (50, 50), (1000, 50)):
        counts = np.bincount(assign_blocks(n_users))
        assert len(counts) == n_blocks
        assert counts.max() - counts.min() <= 1
    assert np.array_equal(assign_blocks(333, seed=4), assign_blocks(333, seed=4))
    assert not np.array_equal(assign_blocks(333, seed=4), assign_blocks(333, seed=5))


def test_a_statistic_without_variance_is_as_certain_as_sign_flips_allow() -> None:
    equal = np.full(20, 0.5)
    changed = estimate_statistic_difference(0.75, 0.5, equal + 0.25, equal, n_users=20, n_changed=7)
    assert changed.p == pytest.approx(2 / 2**7, rel=1e-9)
    few = estimate_statistic_difference(0.75, 0.5, equal + 0.25, equal, n_users=20, n_changed=5)
    assert (few.reason, few.p) == ("too_few_changes", None)
    assert estimate_statistic(0.5, np.full(9, 0.5), 9).reason == "too_few_users"


def test_holm_by_hand() -> None:
    assert adjust_by_holm([0.01, math.nan, 0.04, 0.03]) == pytest.approx([0.03, math.nan, 0.06, 0.06], nan_ok=True)
    assert adjust_by_holm([0.5, 0.9]).tolist() == [1.0, 1.0]
    assert adjust_by_holm([]).tolist() == []


def test_group_by_enumeration() -> None:
    x = np.random.default_rng(16).lognormal(0, 1, 20)
    x[:10] += 1.2
    observed = abs(stats.ttest_ind(x[:10], x[10:], equal_var=False).statistic)
    subsets = np.array(list(itertools.combinations(range(20), 10)))
    inside = np.zeros((len(subsets), 20), bool)
    np.put_along_axis(inside, subsets, values=True, axis=1)
    members, others = (np.broadcast_to(x, inside.shape)[mask].reshape(-1, 10) for mask in (inside, ~inside))
    t = np.abs(stats.ttest_ind(members, others, axis=1, equal_var=False).statistic)
    exact = (t >= observed * (1 - 1e-9)).mean()
    p = compute_group_p_values(x[:, None], np.arange(20) < 10, n_permutations=20_000)[0]
    assert abs(p - exact) < 4 * np.sqrt(exact / 20_000)


def test_group_and_others_are_one_test_and_small_groups_have_none() -> None:
    values, numbers = np.random.default_rng(18).random((60, 3)), np.arange(60)
    p = compute_group_p_values(values, numbers < 20)
    assert np.array_equal(p, compute_group_p_values(values, numbers >= 20))
    assert p[1] == compute_group_p_values(values[:, 1:2], numbers < 20)[0]
    for n_members in (9, 51):
        assert np.isnan(compute_group_p_values(values, numbers < n_members)).all()


def test_large_groups_use_welch() -> None:
    x, members = np.random.default_rng(19).random(30_000), np.arange(30_000) < 12_000
    exact = stats.ttest_ind(x[members], x[~members], equal_var=False).pvalue
    assert compute_group_p_values(x[:, None], members)[0] == pytest.approx(exact, rel=1e-9)


def test_permutations_reach_the_corrected_level() -> None:
    assert count_permutations(10) == 9_999
    assert 1_000 / (1 + count_permutations(1_000)) <= 0.05 / 5


@pytest.mark.parametrize(("margin", "n_users"), [(0.1, 29), (0.05, 59), (0.02, 149), (0.01, 299)])
def test_unchanged_model_passes_from_the_exact_number_of_users(margin: float, n_users: int) -> None:
    assert count_users_for_margin(margin) == n_users
    assert (1 - margin) ** n_users <= 0.05 < (1 - margin) ** (n_users - 1)
    # The saddlepoint approximation needs up to three users more.
    assert known(compute_gate_p_values(np.zeros(n_users + 4), margin)[0]) <= 0.05
    assert known(compute_gate_p_values(np.zeros(n_users - 1), margin)[0]) > 0.05


def test_gate_of_lost_hits_is_the_binomial_test() -> None:
    p_pass, _ = compute_gate_p_values(-hits(400, 3), 0.02)
    assert p_pass == pytest.approx(stats.binom.cdf(3, 400, 0.02), rel=0.02)
    _, p_fail = compute_gate_p_values(-hits(400, 20), 0.02, (-1.0, 0.0))
    assert p_fail == pytest.approx(stats.binom.sf(19, 400, 0.02), rel=0.02)


def test_gate_of_a_statistic() -> None:
    difference = inference.PairedDifference(
        value=-0.03, standard_error=0.01, degrees_of_freedom=49, n=100, n_changed=100
    )
    p_values = compute_gate_p_values_of_statistic(difference, 0.01)
    assert p_values == pytest.approx((stats.t.sf(-2, 49), stats.t.sf(2, 49)), rel=1e-9)
    few = inference.PairedDifference(value=-0.03, degrees_of_freedom=4, n=5, n_changed=5, reason="too_few_users")
    assert compute_gate_p_values_of_statistic(few, 0.01) == (None, None)


def test_detectable_difference_has_the_power() -> None:
    for n in (10, 30, 300):
        detectable = compute_detectable_difference(1 / np.sqrt(n), n - 1)
        noncentral = stats.nct(n - 1, detectable * np.sqrt(n))
        critical = stats.t.ppf(0.975, n - 1)
        assert noncentral.sf(critical) + noncentral.cdf(-critical) == pytest.approx(0.8, abs=0.02)
    assert compute_detectable_difference(1.0, 10**9) == pytest.approx(1.959964 + 0.841621, rel=1e-5)
    assert compute_gate_detectable_difference(0.01, 10**9) == pytest.approx(0.01 * (1.644854 + 0.841621), rel=1e-5)


def test_detectable_distance_of_a_gate_allows_for_a_user_at_the_bound() -> None:
    for n in (30, 149, 598):
        unchanged = compute_gate_detectable_distance(np.zeros(n))
        assert unchanged == pytest.approx(1 - 0.05 ** (1 / n), rel=0.1)
        assert count_users_for_margin(unchanged) == pytest.approx(n, rel=0.1)
    rng = np.random.default_rng(3)
    many = 0.1 * rng.standard_normal(100_000)
    error = float(many.std(ddof=1)) / np.sqrt(len(many))
    assert compute_gate_detectable_distance(many) == pytest.approx(error * (1.644854 + 0.841621), rel=0.02)


@pytest.mark.parametrize("spread", [0.06, 0.13])
def test_detectable_distance_of_a_gate_has_the_power(spread: float) -> None:
    rng = np.random.default_rng(4)
    samples = spread * rng.uniform(-np.sqrt(3), np.sqrt(3), (300, 100))
    distance = float(np.median([compute_gate_detectable_distance(sample) for sample in samples[:40]]))
    p_pass = np.array([known(compute_gate_p_values(sample, distance)[0]) for sample in samples])
    p_fail = np.array([known(compute_gate_p_values(sample - 2 * distance, distance)[1]) for sample in samples])
    assert (p_pass <= 0.05).mean() > 0.73  # 0.8 less three standard errors
    assert (p_fail <= 0.05).mean() > 0.65  # the bound is farther from a model that is worse


def test_refits() -> None:
    a, b = np.array([1.0, 2.0, 3.0, 4.0]), np.array([11.0, 12.0, 13.0, 14.0])
    assert compute_refits_p_value(a, b) == pytest.approx(2 / special.comb(8, 4), rel=1e-9)
    c = np.array([1.5, 2.9, 3.1, 4.2, 2.2])
    assert known(compute_refits_p_value(a, c)) >= stats.ttest_ind(a, c, equal_var=False).pvalue - 1e-12
    assert compute_refits_p_value(a[:3], b) is None
    estimate, exact = estimate_mean_of_refits(c), stats.ttest_1samp(c, 0).confidence_interval(0.95)
    assert [estimate.lower, estimate.upper] == pytest.approx(list(exact), rel=1e-9)
    assert estimate_mean_of_refits(c[:3]).reason == "too_few_refits"


def test_memory_limit_is_the_prediction_interval() -> None:
    values = np.array([0.61, 0.70, 0.66, 0.58, 0.64])
    expected = values.mean() + stats.t.isf(0.001, 4) * values.std(ddof=1) * np.sqrt(1 + 1 / 5)
    assert compute_memory_limit(values) == pytest.approx(expected, rel=1e-9)
    assert compute_memory_limit(np.full(4, 0.6)) == pytest.approx(0.62, rel=1e-12)
    assert compute_memory_limit(values[:3]) is None


def test_groups_together_are_those_of_each_alone() -> None:
    rng = np.random.default_rng(20)
    values, group = rng.random((90, 2)), np.arange(90) // 30
    values[group == 2, 0] += 0.3
    masks = np.column_stack([group == 0, group == 1, group == 2, group >= 1, np.arange(90) < 9, np.arange(90) % 2 == 0])
    p = compute_p_values_of_groups(values, masks, n_permutations=4_000)
    assert np.array_equal(p[0], p[3])  # the same question
    assert np.isnan(p[4]).all()
    for own, mask in zip(p, masks.T, strict=True):
        assert own == pytest.approx(compute_group_p_values(values, mask, n_permutations=4_000), abs=0.04, nan_ok=True)
    assert p[2, 0] < 0.002


def test_p_value_of_an_interval_is_that_of_its_t_test() -> None:
    x = np.random.default_rng(21).normal(0.4, 1, 25)
    half_width = stats.t.ppf(0.975, 24) * x.std(ddof=1) / 5
    ends = x.mean() - half_width, x.mean() + half_width
    for reference in (0.0, 0.3, 2.0):
        p = compute_interval_p_value(x.mean(), *ends, reference, 24)
        assert p == pytest.approx(stats.ttest_1samp(x, reference).pvalue, rel=1e-9)
    assert compute_interval_p_value(x.mean(), *ends, ends[1], 24) == pytest.approx(0.05)
    assert compute_interval_p_value(0.5, 0.5, 0.5, 0.5, 24) == 1
    assert compute_interval_p_value(0.5, 0.5, 0.5, 0.4, 24) == 0
