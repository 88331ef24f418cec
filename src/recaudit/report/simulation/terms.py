"""What each number on a simulation's page is called and means."""

from __future__ import annotations

from collections.abc import Mapping

from recaudit.metrics.metric import Metric
from recaudit.simulate.loop.simulation import MEASURES

OFFLINE = ("ndcg", "rmse")
"""Measured on the log, by the name of the column of `OfflineOnline.folds`."""

_IN_LOOP = ("mean_rating", "distinct_items", "shown_rmse", "population_rmse", "gini", "drift")
ONLINE: Mapping[str, str] = {name: "rmse" if name == "shown_rmse" else name for name in _IN_LOOP}
"""Measured in the loop: the name on the page, where there is another RMSE, and that of the simulation's measure."""

_DEFINED = (
    Metric(
        "mean_rating",
        "Mean rating",
        MEASURES["mean_rating"] + " Over a trial every rating counts alike; then the mean over trials.",
        "mean(ratings given)",
        "From the lowest rating to the highest.",
        "higher",
    ),
    Metric(
        "ndcg",
        "nDCG@k",
        "Whether each user's held-out items are ranked, among themselves, as that user rated them; earlier "
        "places count more, and the gain of an item is its rating. What the user did not rate plays no part, "
        "so that a random order scores high too: it does not say whether good items are found among all "
        "others. The mean over users, then over folds.",
        "sum over the first k of rating / log2(place + 1), divided by the same sum in the order of the ratings",
        "Above 0, at most 1; 1: ranked as rated.",
        "higher",
    ),
    Metric(
        "rmse",
        "RMSE",
        "How far scores are from held-out ratings, large misses counting more; scores that predict ratings "
        "are cut to the scale, others count as they are. The mean over folds.",
        "sqrt(mean((score - rating)^2))",
        "0 and up, in rating points; 0: every rating predicted exactly.",
        "lower",
    ),
    Metric(
        "spearman",
        "Spearman",
        "Whether a metric on the log puts recommenders in the order in which people like what they show: the "
        "rank correlation of the metric with the mean rating.",
        "correlation of the two rankings",
        "-1 to 1. For nDCG, 1: the same order; for RMSE, where lower is better, -1: the same order. 0: none.",
        "neither",
    ),
    Metric(
        "shown_rmse",
        "RMSE of what was taken",
        MEASURES["rmse"],
        "sqrt(mean((score - rating)^2))",
        "0 and up, in rating points.",
        "lower",
    ),
    Metric(
        "population_rmse",
        "Population RMSE",
        MEASURES["population_rmse"] + " As it stands at the end.",
        "sqrt(mean over all pairs of (score - rating without noise)^2)",
        "0 and up, in rating points; 0: everybody is known exactly.",
        "lower",
    ),
    Metric(
        "distinct_items",
        "Distinct items",
        MEASURES["distinct_items"] + " The mean over steps, then over trials.",
        "number of different items shown at a step",
        "1 and up, at most as many as were shown.",
        "neither",
        decimals=1,
    ),
    Metric(
        "gini",
        "Gini",
        MEASURES["gini"] + " As it stands at the end.",
        "sum over items, least shown first, of (2 place - n - 1) shown / (n sum of shown)",
        "0 to 1.",
        "neither",
    ),
    Metric(
        "drift",
        "Drift",
        MEASURES["drift"] + " As it stands at the end.",
        "sqrt(mean over all pairs of (taste now - taste at first)^2)",
        "0 and up; 0: nobody's tastes have changed.",
        "neither",
    ),
)
TERMS: Mapping[str, Metric] = {metric.name: metric for metric in _DEFINED}
"""In the order of the page's definitions."""


def term(measure: str) -> Metric:
    """What a measure is; that of the last ratings of a trial is the same as that of all."""
    return TERMS[measure.removeprefix("final_")]
