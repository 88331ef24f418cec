"""What the numbers mean."""

from __future__ import annotations

from recaudit.metrics.metric import Metric

_OF_LISTS = ("k", "policy", "relevant")
"""Settings of lists, without which ratings are predicted."""
ACCURACY = (
    Metric(
        "rmse",
        "RMSE",
        "How far predicted ratings are from the held-out ones, large misses counting more. Over all held-out "
        "ratings together, predictions clipped to the rating scale.",
        "sqrt(mean((predicted - rating)^2))",
        "0 and up, in rating units; 0: every rating predicted exactly.",
        "lower",
        free_of=_OF_LISTS,
        bounds=(0.0, None),
    ),
    Metric(
        "mae",
        "MAE",
        "How far predicted ratings are from the held-out ones on average. Over all held-out ratings together, "
        "predictions clipped to the rating scale.",
        "mean(|predicted - rating|)",
        "0 and up, in rating units; 0: every rating predicted exactly.",
        "lower",
        free_of=_OF_LISTS,
        bounds=(0.0, None),
    ),
    Metric(
        "ndcg",
        "nDCG@k",
        "Whether the user's relevant held-out items stand near the top of the list of k, earlier places counting "
        "more. Items seen in training are not candidates; every other item is. Gain 1 for a relevant item. "
        "Averaged over users with at least one relevant held-out item.",
        "sum over hits of 1/log2(rank + 1), divided by the same sum for a perfect list",
        "0 to 1; 0: no relevant item in the list; 1: the list starts with all of them.",
        "higher",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "recall",
        "Recall@k",
        "The share of the user's relevant held-out items that are in the list of k. Averaged over users.",
        "hits / relevant held-out items",
        "0 to 1; with more than k relevant items 1 cannot be reached.",
        "higher",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "precision",
        "Precision@k",
        "The share of the list of k that is relevant and held out. Averaged over users.",
        "hits / k",
        "0 to 1; a user with fewer than k relevant items cannot reach 1.",
        "higher",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "map",
        "MAP@k",
        "The precision at each hit, summed and divided by the number of relevant held-out items. Averaged over users.",
        "sum over hits of (hits up to that rank / rank), divided by the number of relevant items",
        "0 to 1; 0: no hit; 1: the list starts with all relevant items.",
        "higher",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "mrr",
        "MRR@k",
        "One over the rank of the first relevant item in the list of k, 0 without any. Averaged over users.",
        "1 / rank of the first hit",
        "0 to 1; 1: the first item is relevant for every user.",
        "higher",
        bounds=(0.0, 1.0),
    ),
)

_POPULARITY = (
    "Popularity is how often an item was rated in this dataset, and is taken as given: values of two datasets are not "
    "comparable."
)
EXPOSURE = (
    Metric(
        "coverage",
        "Item coverage@k",
        "The share of the catalogue that is in at least one user's list of k.",
        "distinct items recommended / items",
        "0 to 1; 1: every item is shown to somebody.",
        "higher",
        "share",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "gini",
        "Gini of exposure@k",
        "How unequally recommendations are spread over the items of the catalogue, items never shown included.",
        "Gini coefficient of the number of lists each item is in",
        "0 to 1; 0: every item is shown equally often; near 1: a few items take all places.",
        "lower",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "popularity_correlation",
        "Popularity correlation",
        f"Whether items that are rated more often in the data are recommended more often. {_POPULARITY}",
        "Spearman correlation of ratings received and lists appeared in, over all items",
        "-1 to 1; 0: exposure has nothing to do with popularity; 1: the same order.",
        "neither",
        bounds=(-1.0, 1.0),
    ),
    Metric(
        "popularity_lift",
        "Popularity lift",
        "How much more popular what is recommended to a user is than what that user chose before. Averaged over users. "
        f"{_POPULARITY}",
        "mean popularity of the user's list / mean popularity of the user's history, averaged over users, minus 1",
        "-1 and up; 0: as popular as the user's own choices; 0.5: half as popular again.",
        "neither",
        "signed share",
        bounds=(-1.0, None),
    ),
    Metric(
        "novelty",
        "Novelty@k",
        "How surprising the recommended items are, if surprise means that few users know them. Averaged over users. An "
        f"item that nobody rated counts as rated once. {_POPULARITY}",
        "mean over the list of -log2(share of users who rated the item)",
        "0 and up, in bits; 0: everybody knows everything in the list; one bit more: known to half as many.",
        "neither",
        "bits",
        bounds=(0.0, None),
    ),
    Metric(
        "share",
        "Share of recommendations",
        "The share of all recommended places that goes to this group of items; the baseline is the group's share "
        "of all ratings in the data.",
        "places in lists of k taken by the group / all places",
        "0 to 1; above the baseline: the recommender amplifies the group; below: it dampens it.",
        "neither",
        "share",
        bounds=(0.0, 1.0),
    ),
)
