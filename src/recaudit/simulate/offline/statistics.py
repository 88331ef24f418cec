"""What the fidelity of a simulation compares, and from where on it is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Statistic:
    """One line of the report: what is compared, and from where on it is wrong."""

    name: str
    definition: str
    """What `size`, which the limits speak of, is."""
    right: float
    """Right where the size is at most this, or at most twice what it is between two logs of the environment itself."""
    close: float
    """Close where it is at most this; above, wrong."""
    low: str
    """What it means when the simulated number is the lower one, or where there is a distance only."""
    high: str = ""
    by_chance: bool = True
    """Whether two logs of the environment say what chance does; not where people are compared one by one."""


STATISTICS: Mapping[str, Statistic] = {
    one.name: one
    for one in (
        Statistic(
            "rating mean",
            "|difference| / sd of the real ratings",
            0.1,
            0.25,
            "people rate lower than the real ones",
            "people rate higher than the real ones",
        ),
        Statistic(
            "rating sd",
            "|simulated / real - 1|",
            0.05,
            0.15,
            "ratings scatter less than the real ones",
            "ratings scatter more than the real ones",
        ),
        Statistic(
            "rating levels",
            "total variation distance of how often each rating is given",
            0.05,
            0.15,
            "some ratings are given too often and others too rarely",
        ),
        Statistic(
            "mean rating by user",
            "Wasserstein distance of the users' means / sd of the real ratings",
            0.1,
            0.25,
            "generous and strict users are not spread as the real ones",
        ),
        Statistic(
            "mean rating by item",
            "Wasserstein distance of the items' means / sd of the real ratings",
            0.1,
            0.25,
            "liked and disliked items are not spread as the real ones",
        ),
        Statistic(
            "the same users' mean ratings",
            "how far the correlation falls short of that of two logs by the same people",
            0.05,
            0.15,
            "who is generous and who is strict is not as in the real log",
            by_chance=False,
        ),
        Statistic(
            "the same items' mean ratings",
            "how far the correlation falls short of that of two logs by the same people",
            0.05,
            0.15,
            "which items are liked is not as in the real log",
            by_chance=False,
        ),
        Statistic(
            "item popularity: Gini",
            "|difference|",
            0.03,
            0.1,
            "ratings are spread over the items more evenly",
            "ratings are more concentrated on a few items",
        ),
        Statistic(
            "item popularity: distribution",
            "Kolmogorov-Smirnov distance of the items' counts",
            0.1,
            0.25,
            "hits and niche items are not as common as in the real log",
        ),
        Statistic(
            "the same items' popularity",
            "how far the rank correlation falls short of that of two logs by the same people",
            0.05,
            0.15,
            "which items are popular is not as in the real log",
            by_chance=False,
        ),
        Statistic(
            "user activity: Gini",
            "|difference|",
            0.03,
            0.1,
            "users are more alike in how much they rate",
            "a few users give more of the ratings",
        ),
        Statistic(
            "user activity: distribution",
            "Kolmogorov-Smirnov distance of the users' counts",
            0.1,
            0.25,
            "busy and occasional users are not as common as in the real log",
        ),
        Statistic(
            "the same users' activity",
            "how far the rank correlation falls short of that of two logs by the same people",
            0.05,
            0.15,
            "who is busy is not as in the real log",
            by_chance=False,
        ),
        Statistic(
            "popular items are rated higher",
            "|difference| of the rank correlation of an item's count and mean",
            0.1,
            0.2,
            "ratings are missing more at random: popular items are less liked than in the real log",
            "popular items are more liked than in the real log",
        ),
        Statistic(
            "held-out RMSE",
            "|simulated / real - 1| of the reference recommender",
            0.05,
            0.15,
            "the simulated log is easier to predict: recommenders will look better than they are",
            "the simulated log is harder to predict: recommenders will look worse than they are",
        ),
        Statistic(
            "held-out variance explained",
            "|difference| of the share that the reference recommender explains",
            0.05,
            0.1,
            "less can be learnt from the simulated log than from the real one",
            "more can be learnt from the simulated log than from the real one",
        ),
        Statistic(
            "structure of tastes",
            "|simulated / real - 1| of the share of the first five axes of ratings less means",
            0.25,
            0.5,
            "tastes have less in common than the real ones",
            "tastes lie on fewer axes than the real ones",
        ),
        Statistic(
            "structure of choices",
            "|simulated / real - 1| of the share of the first five axes of who rated what",
            0.25,
            0.5,
            "who rates what follows activity and popularity alone: real people rate what is near their interests",
            "who rates what lies on fewer axes than in the real log",
        ),
    )
}
"""Every line of the report, in order, with its limits."""
