"""Tests of a report: what is significant in its three families, and what is never a finding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from recaudit.arrays import FloatArray
from recaudit.metrics.inference import adjust_by_holm, compute_group_p_values, count_permutations, estimate_difference
from recaudit.report.evidence import Evidence
from recaudit.report.findings import claims_of, headlines_of
from recaudit.report.kit.claims import Finding
from recaudit.report.significance import compare_groups, compare_models, find_model_test
from report.crafted_runs import (
    Crafted,
    Data,
    Film,
    Model,
    Pair,
    accuracy,
    exposure,
    groups,
    reachability,
    with_item_groups,
    with_users,
    write_run,
)

RNG = np.random.default_rng(5)


def measured(values: FloatArray, **members: Sequence[str]) -> Crafted:
    mean = float(values.mean())
    result = accuracy((mean, mean - 0.02, mean + 0.02), None, users=len(values))
    return with_users(result, "ndcg", values.tolist(), members)


def evidence_of(path: Path, *models: Model, attributes: tuple[str, ...] = ("region",), items: int = 10) -> Evidence:
    return Evidence(write_run(path, models, Data(attributes=attributes, categories=("genre",), items=items)))


def by_code(evidence: Evidence) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in claims_of(evidence)[0]:
        found.setdefault(finding.code, []).append(finding)
    return found


class TestModels:
    def test_every_pair_and_every_baseline_are_one_family(self, tmp_path: Path) -> None:
        values = {name: RNG.random(200) + 0.1 * place for place, name in enumerate(("Hits", "B", "A"))}
        models = [Model(name, [measured(own)], "top-pop" if name == "Hits" else "ease") for name, own in values.items()]
        tests = compare_models(evidence_of(tmp_path, *models))
        assert [(test.model, test.other) for test in tests] == [("A", "Hits"), ("B", "Hits"), ("A", "B")]
        raw = [estimate_difference(values[test.model], values[test.other]) for test in tests]
        assert [test.difference.value for test in tests] == pytest.approx([own.value for own in raw])
        assert [test.difference.lower for test in tests] == pytest.approx([own.lower for own in raw])
        assert [test.p for test in tests] == pytest.approx(adjust_by_holm([own.p or 1 for own in raw]).tolist())

    def test_the_same_test_the_other_way_round(self, tmp_path: Path) -> None:
        models = [Model("A", [measured(RNG.random(50) + 0.3)]), Model("B", [measured(RNG.random(50))])]
        evidence = evidence_of(tmp_path, *models)
        one, other = (find_model_test(evidence, *pair, "ndcg") for pair in (("A", "B"), ("B", "A")))
        assert one is not None
        assert other is not None
        assert (one.is_above, other.is_below, other.p) == (True, True, one.p)
        assert other.difference.lower == -(one.difference.upper or 0.0)
        assert find_model_test(evidence, "A", "B", "rmse") is None

    def test_not_shown_to_differ_is_a_caution_and_never_no_better(self, tmp_path: Path) -> None:
        base = RNG.random(60)
        same = base + 0.009 + RNG.normal(0, 0.15, 60)
        evidence = evidence_of(tmp_path, Model("A", [measured(same)]), Model("Hits", [measured(base)], "top-pop"))
        findings, cautions = claims_of(evidence)
        assert findings == []
        (caution,) = cautions
        assert caution.code == "accuracy.not-shown-to-differ-from-baseline"
        assert caution.premise
        (number,) = caution.numbers
        assert (number.model, number.baseline, number.metric, number.users) == ("A", "Hits", "ndcg", 60)
        assert number.lower is not None
        assert number.upper is not None
        assert number.lower < 0 < number.upper
        assert "no better" not in caution.claim + caution.detail

    def test_a_model_that_is_below_a_baseline(self, tmp_path: Path) -> None:
        base = RNG.random(60) + 0.3
        evidence = evidence_of(tmp_path, Model("A", [measured(base - 0.3)]), Model("Hits", [measured(base)], "top-pop"))
        (finding,) = by_code(evidence)["accuracy.below-baseline"]
        (number,) = finding.numbers
        assert number.value == pytest.approx(-0.3)
        assert (number.reference, number.users) == (0.0, 60)
        assert finding.premise
        assert "personalise" not in finding.advice  # it is about these users as a whole, not about every one

    @pytest.mark.parametrize("users", [9, 10])
    def test_with_too_few_users_nothing_is_tested(self, tmp_path: Path, users: int) -> None:
        base = RNG.random(users)
        evidence = evidence_of(tmp_path, Model("A", [measured(base + 1)]), Model("Hits", [measured(base)], "top-pop"))
        assert ("accuracy.above-baseline" in by_code(evidence)) == (users == 10)

    def test_models_that_are_not_shown_to_differ_are_not_called_equal(self, tmp_path: Path) -> None:
        same = RNG.random(500)
        evidence = evidence_of(tmp_path, Model("A", [measured(same)]), Model("B", [measured(same)]))
        assert claims_of(evidence)[0] == []


class TestGroups:
    def test_each_group_is_compared_with_all_others_in_one_family(self, tmp_path: Path) -> None:
        values, place = RNG.random(300), np.arange(300)
        region, sex = np.array(["N", "S", "W"])[place // 100], np.array(["f", "m"])[place % 2]
        values[region == "S"] += 0.5
        result = measured(values, region=region.tolist(), sex=sex.tolist())
        tests = compare_groups(evidence_of(tmp_path, Model("A", [result]), attributes=("region", "sex")))
        assert [(test.by, test.group) for test in tests] == [
            *(("region", name) for name in "NSW"),
            *(("sex", name) for name in "fm"),
        ]
        masks = [region == name for name in "NSW"] + [sex == name for name in "fm"]
        assert [test.value for test in tests] == pytest.approx([values[mask].mean() for mask in masks])
        assert [test.rest for test in tests] == pytest.approx([values[~mask].mean() for mask in masks])
        raw = [compute_group_p_values(values[:, None], mask, n_permutations=4_000, seed=1)[0] for mask in masks]
        assert [test.p for test in tests] == pytest.approx(adjust_by_holm(raw).tolist(), abs=0.06)
        assert tests[3].p == tests[4].p  # two groups: one question, which enters twice
        assert [test.is_significant for test in tests] == [True, True, True, False, False]

    def test_a_finding_has_the_group_the_rest_and_how_many_they_are(self, tmp_path: Path) -> None:
        values, region = RNG.random(200), ["N"] * 60 + ["S"] * 140
        values[:60] -= 0.5
        evidence = evidence_of(tmp_path, Model("A", [measured(values, region=region)]))
        (finding,) = by_code(evidence)["accuracy.group-differs"]
        low, high = finding.numbers
        assert (low.by, low.group, low.users, high.users) == ("region", "N", 60, 140)
        assert low.value == pytest.approx(values[:60].mean())
        assert low.reference == high.value == pytest.approx(values[60:].mean())
        assert low.lower is not None
        (headline,) = [own for own in headlines_of(evidence) if own.code == "headline.group-differs"]
        assert headline.numbers[0].group in ("N", "S")

    @pytest.mark.parametrize(("members", "is_tested"), [(9, False), (10, True)])
    def test_a_group_needs_ten_members_and_ten_others(self, tmp_path: Path, members: int, is_tested: bool) -> None:
        values = np.r_[np.ones(members), np.zeros(60)] + RNG.random(members + 60) / 10
        region = ["N"] * members + ["S"] * 60
        tests = compare_groups(evidence_of(tmp_path, Model("A", [measured(values, region=region)])))
        assert [test.p is not None for test in tests] == [is_tested, is_tested]
        assert [test.users for test in tests] == [members, 60]

    def test_the_lowest_of_many_groups_is_not_compared_with_the_highest(self, tmp_path: Path) -> None:
        """On null data with 20 groups, the lowest and the highest group often have intervals apart."""
        rng, n_apart, n_findings = np.random.default_rng(1), 0, 0
        for sample in range(20):
            values = (rng.random(600) < 0.2).astype(float)
            region = [f"r{place:02}" for place in rng.integers(20, size=600)]
            evidence = evidence_of(tmp_path / str(sample), Model("A", [measured(values, region=region)]))
            own = sorted(
                (group.estimate for group in evidence.groups("A", "ndcg", "region")), key=lambda one: one.value or 0.0
            )
            n_apart += own[-1].exceeds(own[0])
            n_findings += "accuracy.group-differs" in by_code(evidence)
        assert n_apart >= 5  # what the report named before
        assert n_findings <= 2  # 5% of 20 are expected at most

    def test_metrics_of_several_models_share_the_family(self, tmp_path: Path) -> None:
        region = ["N", "S"] * 50
        models = [Model(name, [measured(RNG.random(100), region=region)]) for name in "ABC"]
        models.append(Model("Hits", [measured(RNG.random(100), region=region)], "top-pop"))
        tests = compare_groups(evidence_of(tmp_path, *models))
        assert len(tests) == 6  # baselines are compared with, and have no findings of their own
        assert count_permutations(6) == 9_999


class TestReferences:
    def test_shares_of_places_against_shares_of_ratings_are_corrected(self, tmp_path: Path) -> None:
        names = [f"g{place:02}" for place in range(20)]
        shares = groups("genre", "share", dict.fromkeys(names, (0.055, 0.0505, 0.0595)), dict.fromkeys(names, 0.05))
        films = [Film("A", 20, 4.0, 1)]
        one = groups("genre", "share", {"g00": (0.055, 0.0505, 0.0595)}, {"g00": 0.05})
        for rows, is_found in ((one, True), (shares, False)):
            evidence = evidence_of(tmp_path / str(is_found), Model("A", [exposure(films, lift=0.0, by=[rows])]))
            assert ("exposure.categories-differ-from-ratings" in by_code(evidence)) == is_found

    @pytest.mark.parametrize(
        ("lift", "code"),
        [
            ((2.5, 2.0, 3.0), "reachability.influence"),
            ((1.02, 1.01, 1.03), "reachability.little-influence"),
            ((0.8, 0.7, 0.9), "reachability.negative-influence"),
            ((1.05, 0.9, 1.3), None),
        ],
    )
    def test_lift(self, tmp_path: Path, lift: tuple[float, float, float], code: str | None) -> None:
        pairs = (Pair("u", "a", 0.1, 0.6), Pair("u", "b", 0.1, 0.6))
        found = by_code(evidence_of(tmp_path, Model("A", [reachability(pairs, lift=lift)])))
        assert list(found) == ([code] if code else [])

    def test_rare_items_are_compared_with_popular_ones_on_the_same_users(self, tmp_path: Path) -> None:
        rare, popular = (RNG.random(80) < 0.1).astype(float), (RNG.random(80) < 0.5).astype(float)
        values = {"1: 0-9 ratings": rare.tolist(), "2: 10-99 ratings": popular.tolist()}
        result = with_item_groups(accuracy(), "recall", "popularity", values)
        (finding,) = by_code(evidence_of(tmp_path, Model("A", [result])))["accuracy.rare-items-found-less"]
        (number,) = finding.numbers
        assert number.value == pytest.approx(popular.mean() - rare.mean())
        # With 50 blocks of one or two users each, the jackknife is close to the paired t test.
        assert number.p is not None
        assert number.p < 10 * stats.ttest_rel(popular, rare).pvalue + 1e-3


class TestCoverage:
    FILMS = (Film("A", 50, 3.0, 20), *(Film(f"F{place}", 20, 4.0, 0) for place in range(9)))

    def test_what_the_lists_cannot_hold_is_no_finding(self, tmp_path: Path) -> None:
        # 100 users with lists of 10: a catalogue of 2,000 items is bounded at 50%, one of 10 is not.
        for items, is_limited in ((2000, True), (10, False)):
            evidence = evidence_of(tmp_path / str(items), Model("A", [exposure(self.FILMS, lift=0.0)]), items=items)
            findings, cautions = claims_of(evidence)
            assert [own.code for own in findings] == ([] if is_limited else ["exposure.items-never-shown"])
            codes = [own.code for own in cautions]
            assert codes == (["exposure.coverage-limited-by-users"] if is_limited else [])
            if is_limited:
                assert cautions[0].numbers[0].reference == pytest.approx(0.5)
