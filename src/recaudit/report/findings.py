"""What the tables say in plain sentences, and what they do not say: failures, gaps, who could not be measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import final

from recaudit.metrics.numbers import percent
from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.kit.numbers import FEWEST_USERS, Finding, count, listing, of_share, plural, verb
from recaudit.report.sections.section import sections_of
from recaudit.status import Status

NOTABLE = 0.05
"""From this share of users on, it is a finding that they could not be measured."""
_NAMED = 5


@final
@dataclass(frozen=True)
class Gap:
    """Something that was not measured: of which model, what, and why."""

    model: str
    metrics: list[str]
    """Empty where no model has any number of the audit."""
    reason: str
    audit: str


def gaps(evidence: Evidence) -> list[Gap]:
    """Every number that the run does not have, and why."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for (model, audit, metric), estimate in evidence.summaries.items():
        if estimate.value is None:
            found.setdefault((model, evidence.reason(model, metric, audit), audit), []).append(metric)
    audits = dict.fromkeys([*(audit for _, audit, _ in evidence.summaries), *(audit for _, audit in evidence.skipped)])
    missing = [
        Gap(model, evidence.metrics(audit), evidence.absence(model, audit), audit)
        for model in evidence.models
        for audit in audits
        if audit not in evidence.run.audits(model)
    ]
    return [Gap(model, metrics, reason, audit) for (model, reason, audit), metrics in found.items()] + missing


def left_out_lines(evidence: Evidence) -> list[str]:
    """For how many users a number could not be measured, a sentence for each set of metrics that share it."""
    found: dict[tuple[int, int], dict[str, None]] = {}
    for (_, audit, metric), estimate in evidence.summaries.items():
        if estimate.excluded and estimate.value is not None:
            found.setdefault((estimate.users, estimate.excluded), {})[evidence.label(metric, audit)] = None
    return [
        f"{listing(list(labels))} {verb(list(labels), 'stands', 'stand')} on {plural(users, 'user')}; "
        f"{count(excluded)} had nothing to measure."
        for (users, excluded), labels in found.items()
    ]


def failures(evidence: Evidence) -> Iterator[Finding]:
    """Which numbers could not be computed?"""
    failed = [
        f"{evidence.label(metric, audit)} of {model}"
        for (model, audit, metric), row in evidence.summaries.items()
        if row.status == Status.FAILED
    ]
    if failed:
        others = [plural(len(failed) - _NAMED, "other")] if len(failed) > _NAMED else []
        yield Finding(
            f"{plural(len(failed), 'number')} could not be computed",
            f"{listing([*failed[:_NAMED], *others])} failed; everything else here stands without them.",
            "gaps",
            inf,
        )


def left_out(evidence: Evidence) -> Iterator[Finding]:
    """Does the ranking quality leave a notable part of the users out?"""
    quality = evidence.known(QUALITY).get(evidence.main)
    everybody = 0 if quality is None else quality.users + quality.excluded
    if quality is None or quality.excluded < NOTABLE * everybody:
        return
    yield Finding(
        f"Ranking quality says nothing about {percent(quality.excluded / everybody)} of the users",
        f"{count(quality.excluded)} of {plural(everybody, 'user')} have no relevant held-out item; "
        f"{evidence.label(QUALITY)} stands on the other {count(quality.users)}.",
        "gaps",
        of_share(quality.excluded / everybody),
    )


def findings_of(evidence: Evidence) -> list[Finding]:
    """Everything that the tables have to say: what failed, then the largest effects first."""
    questions = (failures, *(ask for section in sections_of(evidence) for ask in section.questions), left_out)
    found = [finding for question in questions for finding in question(evidence)]
    firm = [finding for finding in found if finding.users is None or finding.users >= FEWEST_USERS]
    return sorted(firm, key=lambda finding: -finding.effect)
