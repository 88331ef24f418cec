"""Can the numbers be trusted: what failed, and who could not be measured."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.findings.finding import Finding
from recaudit.report.kit.effects import of_share
from recaudit.report.kit.numbers import count, listing, percent, plural
from recaudit.status import Status

NOTABLE = 0.05
"""From this share of users on, it is a finding that they could not be measured."""

_NAMED = 5


def failures(evidence: Evidence) -> Iterator[Finding]:
    """Which numbers could not be computed?"""
    failed = [
        f"{evidence.label(metric)} of {model}"
        for (model, metric), row in evidence.summaries.items()
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
