"""What holds for every number of a run's page and of its statement, in words."""

from __future__ import annotations

from recaudit.metrics.intervals import FEWEST_USERS
from recaudit.metrics.numbers import percent
from recaudit.report.evidence import Evidence
from recaudit.report.kit.claims import SMALL
from recaudit.report.kit.numbers import listing
from recaudit.report.sections.exposure import SMALLEST_SHARE
from recaudit.runs import Run


def method_lines(evidence: Evidence) -> list[str]:
    """How intervals are made, when two numbers are called different, and which findings come first."""
    return [
        f"Intervals hold the value with {100 * evidence.confidence:g}% confidence and come from drawing users anew: "
        "they say how far the numbers would move with other users of the same kind, not with other data or another "
        "seed. Two models are compared on the same users: the mean of the differences and its normal interval. Two "
        "groups are called different only if their intervals do not overlap. Many comparisons are made; expect a few "
        "to be named by chance.",
        f"A finding rests on at least {FEWEST_USERS} users: a handful of people says little about others. Numbers of "
        "fewer users stand in the tables, with how many they are. That something differs is said only where the "
        'interval does not hold "no difference"; that it does not differ, only where the interval lies within an '
        f"effect of {SMALL}, which is called small; otherwise nothing is said. How large an effect is, is how far a "
        "mean lies from what it is compared with, in standard deviations between users as its interval implies them "
        "(Cohen's d), or, for shares of things that were counted, Cohen's h.",
        "Findings are in the order of what is sure of their effect (the end of its interval nearest to none) times "
        "the share of people whom they touch; each further one of a section counts half of the one before, so that "
        "the first few are about different things. Whether the best model ranks better than what does not personalise "
        "comes before all others.",
        f"A category is named as amplified or dampened only if it has at least {percent(SMALLEST_SHARE)} of the "
        "ratings and its share lies outside the interval. Groups by history and by popularity are quartiles of users "
        "and of items.",
    ]


def missing_lines(run: Run) -> list[str]:
    """What an unfinished run has not come to, audits of the same models together: `accuracy of ALS and EASE`."""
    audits: dict[str, list[str]] = {}
    for missing in dict.fromkeys(audit for _, audit in run.missing):
        audits.setdefault(listing([model for model, audit in run.missing if audit == missing]), []).append(missing)
    return [f"{listing(same)} of {names}" for names, same in audits.items()]
