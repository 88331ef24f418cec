"""What the fidelity of a simulation compares, and from where on it is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

_AGAIN = "falls short of that of two logs by the same people"


@final
@dataclass(frozen=True)
class Statistic:
    """One line of the report: what is compared, and from where on it is wrong."""

    definition: str
    """What `size`, which the limits speak of, is."""
    right: float
    """Right where the size is at most this, or at most twice what it is between two logs of the environment itself."""
    close: float
    """Close where it is at most this; above, wrong."""
    by_chance: bool = True
    """Whether two logs of the environment say what chance does; not where people are compared one by one."""


STATISTICS: Mapping[str, Statistic] = {
    "rating mean": Statistic("|difference| / sd of the real ratings", 0.1, 0.25),
    "rating sd": Statistic("|simulated / real - 1|", 0.05, 0.15),
    "rating levels": Statistic("total variation distance of how often each rating is given", 0.05, 0.15),
    "mean rating by user": Statistic("Wasserstein distance of the users' means / sd of the real ratings", 0.1, 0.25),
    "mean rating by item": Statistic("Wasserstein distance of the items' means / sd of the real ratings", 0.1, 0.25),
    "the same users' mean ratings": Statistic(f"how far the correlation {_AGAIN}", 0.05, 0.15, by_chance=False),
    "the same items' mean ratings": Statistic(f"how far the correlation {_AGAIN}", 0.05, 0.15, by_chance=False),
    "item popularity: Gini": Statistic("|difference|", 0.03, 0.1),
    "item popularity: distribution": Statistic("Kolmogorov-Smirnov distance of the items' counts", 0.1, 0.25),
    "the same items' popularity": Statistic(f"how far the rank correlation {_AGAIN}", 0.05, 0.15, by_chance=False),
    "user activity: Gini": Statistic("|difference|", 0.03, 0.1),
    "user activity: distribution": Statistic("Kolmogorov-Smirnov distance of the users' counts", 0.1, 0.25),
    "the same users' activity": Statistic(f"how far the rank correlation {_AGAIN}", 0.05, 0.15, by_chance=False),
    "popular items are rated higher": Statistic(
        "|difference| of the rank correlation of an item's count and mean", 0.1, 0.2
    ),
    "held-out RMSE": Statistic("|simulated / real - 1| of the reference recommender", 0.05, 0.15),
    "held-out variance explained": Statistic(
        "|difference| of the share that the reference recommender explains", 0.05, 0.1
    ),
    "structure of tastes": Statistic(
        "|simulated / real - 1| of the share of the first five axes of ratings less means", 0.25, 0.5
    ),
    "structure of choices": Statistic(
        "|simulated / real - 1| of the share of the first five axes of who rated what", 0.25, 0.5
    ),
}
"""Every line of the report, in order, with its limits."""

MEANINGS: Mapping[str, tuple[str, str]] = {
    "rating mean": ("people rate lower than the real ones", "people rate higher than the real ones"),
    "rating sd": ("ratings scatter less than the real ones", "ratings scatter more than the real ones"),
    "rating levels": ("some ratings are given too often and others too rarely", ""),
    "mean rating by user": ("generous and strict users are not spread as the real ones", ""),
    "mean rating by item": ("liked and disliked items are not spread as the real ones", ""),
    "the same users' mean ratings": ("who is generous and who is strict is not as in the real log", ""),
    "the same items' mean ratings": ("which items are liked is not as in the real log", ""),
    "item popularity: Gini": (
        "ratings are spread over the items more evenly",
        "ratings are more concentrated on a few items",
    ),
    "item popularity: distribution": ("hits and niche items are not as common as in the real log", ""),
    "the same items' popularity": ("which items are popular is not as in the real log", ""),
    "user activity: Gini": ("users are more alike in how much they rate", "a few users give more of the ratings"),
    "user activity: distribution": ("busy and occasional users are not as common as in the real log", ""),
    "the same users' activity": ("who is busy is not as in the real log", ""),
    "popular items are rated higher": (
        "ratings are missing more at random: popular items are less liked than in the real log",
        "popular items are more liked than in the real log",
    ),
    "held-out RMSE": (
        "the simulated log is easier to predict: recommenders will look better than they are",
        "the simulated log is harder to predict: recommenders will look worse than they are",
    ),
    "held-out variance explained": (
        "less can be learnt from the simulated log than from the real one",
        "more can be learnt from the simulated log than from the real one",
    ),
    "structure of tastes": (
        "tastes have less in common than the real ones",
        "tastes lie on fewer axes than the real ones",
    ),
    "structure of choices": (
        "who rates what follows activity and popularity alone: real people rate what is near their interests",
        "who rates what lies on fewer axes than in the real log",
    ),
}
"""What a wrong statistic says: where the simulated number is the lower one or only a distance is known, and else."""
