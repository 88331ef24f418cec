"""What holds for every number of a run's page and of its statement, in words."""

from __future__ import annotations

from recaudit.metrics.inference import MIN_USERS
from recaudit.metrics.numbers import percent
from recaudit.report.evidence import Evidence
from recaudit.report.kit.claims import LEVEL
from recaudit.report.kit.numbers import listing
from recaudit.report.significance import MIN_SHARE_OF_RATINGS
from recaudit.runs import Run


def method_lines(evidence: Evidence) -> list[str]:
    """How intervals and tests are made, what the findings promise, and which come first."""
    level = 100 * evidence.confidence
    return [
        f"Intervals have {level:g}% confidence: of 100 of them, about {100 - level:g} miss their value. "
        "They say how far the numbers would move with other users of the same kind, not with other data or another "
        "seed. They are not corrected for how many there are.",
        "Findings are tested. Two models are compared on the same users, and a group of users with all other users, by "
        "random relabelling. The p-values are corrected by Holm's method within three families: all pairs of models, "
        "all groups of users, and all numbers that are compared with a constant or with a share of the ratings. If "
        f"there is no difference at all, at most {100 * LEVEL:g}% of reports have a false finding of one family: at "
        f"most {200 * LEVEL:g}% about models or groups. What is not significant is not shown to differ, which does not "
        "mean that it is equal.",
        f"Below {MIN_USERS} users a number has no interval and is not tested.",
        "Findings are in the order of the end of their effect's interval nearest to no effect, times the share of "
        "users they are about; each further finding of a section counts half of the one before. An effect is the "
        "distance of a mean from what it is compared with, in standard deviations between users (Cohen's d), or, for "
        "shares that were counted, Cohen's h. Whether the best model ranks better than the baselines comes first.",
        "A category is compared with its share of the ratings only if that is at least "
        f"{percent(MIN_SHARE_OF_RATINGS)}. Groups by history and by popularity are quartiles of users and of items.",
    ]


def missing_lines(run: Run) -> list[str]:
    """What an unfinished run has not come to, audits of the same models together: `accuracy of ALS and EASE`."""
    audits: dict[str, list[str]] = {}
    for missing in dict.fromkeys(audit for _, audit in run.missing):
        audits.setdefault(listing([model for model, audit in run.missing if audit == missing]), []).append(missing)
    return [f"{listing(same)} of {names}" for names, same in audits.items()]
