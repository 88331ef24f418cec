"""Findings that compare groups: each group of users with all other users, and popular with rare items."""

from __future__ import annotations

from collections.abc import Iterator

from recaudit.metrics.inference import PairedDifference
from recaudit.report.evidence import Evidence, GroupEstimate
from recaudit.report.kit.claims import ClaimNumber, Finding, Touched
from recaudit.report.kit.measures import measure
from recaudit.report.kit.numbers import Estimate, count, some
from recaudit.report.significance import GroupTest, compare_groups
from recaudit.status import Status


def group_findings(
    evidence: Evidence,
    model: str,
    metric: str,
    code: str,
    section: str,
    advice: str,
    *,
    about: str = "",
    basis: str = "",
) -> Iterator[Finding]:
    """Name the groups that differ from all other users, one finding for each grouping.

    Args:
        evidence: The run.
        model: Label of the model.
        metric: Name of the metric.
        code: Code of the findings.
        section: Anchor of the section that shows the numbers.
        advice: What to do, with a placeholder for the groups with the lower number (the higher one, if that is worse).
        about: What was sampled, at the end of the claim.
        basis: What the numbers rest on, at the end of the details.
    """
    owner = evidence.owners[metric]
    by_grouping: dict[str, list[GroupTest]] = {}
    for test in compare_groups(evidence):
        if test.is_significant and (test.model, test.audit, test.metric) == (model, owner, metric):
            by_grouping.setdefault(test.by, []).append(test)
    for tests in by_grouping.values():
        groups = {test.group: group for test in tests if (group := find_group(evidence, test)) is not None}
        higher, lower = ([test for test in tests if (test.value > test.rest) == way] for way in (True, False))
        parts = [
            f"{way} for {some([groups[test.group].people for test in some_tests])}"
            for way, some_tests in (("higher", higher), ("lower", lower))
            if some_tests
        ]
        compared = " than for all other users" if len(tests) == 1 else ", each compared with all other users"
        written = evidence.definitions[metric].written
        detail = "; ".join(
            f"{groups[test.group].estimate.full} for {count(test.users)} {groups[test.group].people}, "
            f"{written(test.rest)} for all others"
            for test in tests
        )
        worse = higher if evidence.definitions[metric].better == "lower" else lower
        first = max(worse or tests, key=lambda test: test.effect.size)
        named = groups[first.group]
        yield Finding(
            code,
            f"{evidence.label(metric)} with {model} is {' and '.join(parts)}{compared}{about}",
            f"{evidence.label(metric)}: {detail}.{basis}",
            section,
            max((test.effect for test in tests), key=lambda effect: effect.size),
            measure(evidence, model, metric, named),
            advice.format(some([groups[test.group].people for test in worse or tests])),
            Touched(sum(test.users for test in tests), max(test.users + test.others for test in tests)),
            numbers=tuple(test.number(groups[test.group].estimate) for test in tests),
        )


def find_group(evidence: Evidence, test: GroupTest) -> GroupEstimate | None:
    """Find the group of a test among the numbers of the tables."""
    groups = evidence.groups(test.model, test.metric, test.by, test.audit)
    return next((group for group in groups if group.raw == test.group), None)


def as_estimate(evidence: Evidence, metric: str, difference: PairedDifference) -> Estimate:
    """Write a difference in the format of its metric."""
    ends = {"value": difference.value, "lower": difference.lower, "upper": difference.upper}
    row = {**ends, "status": Status.SOLVED.value, "baseline": None, "users": difference.n, "excluded": 0}
    return Estimate.of(evidence.definitions[metric], row)


def popularity_number(audit: str, metric: str, model: str, group: str, difference: PairedDifference) -> ClaimNumber:
    """Describe the difference between the most popular items and this group of the least popular."""
    return ClaimNumber(
        audit=audit,
        metric=metric,
        model=model,
        by="popularity",
        group=group,
        value=difference.value,
        lower=difference.lower,
        upper=difference.upper,
        reference=0.0,
        p=difference.p,
        users=difference.n,
        reason=difference.reason,
    )
