"""What the numbers mean."""

from __future__ import annotations

from recaudit.metrics.metric import Metric

FOLDING = (
    Metric(
        "folding",
        "Folding",
        "How far the model places users nearer to items than they are related to them, on average over all pairs of a "
        "user and an item (Xin et al. 2017, Definition 3.1). Groups that never meet in the data but overlap in the "
        "model's space raise it. Depends on the similarity and the relatedness: values compare only under the same.",
        "mean of max(0, similarity - relatedness)",
        "0 to 1 for cosines; 0: nobody is nearer to anything than related to it; the share of unrelated pairs: "
        "every user points the same way as every item.",
        "lower",
        bounds=(0.0, None),
    ),
    Metric(
        "overshoot_share",
        "Share of pairs that overshoot",
        "The share of all pairs of a user and an item that the model calls similar, and more similar than they are "
        "related.",
        "share of pairs with similarity > relatedness and similarity > 0",
        "0 to 1; 0: similarity never exceeds relatedness.",
        "lower",
        "share",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "shown_folding",
        "Folding of lists@k",
        "Folding over what would be shown alone: each user's k unseen items with the highest scores. The baseline is "
        "folding over all pairs.",
        "mean over the list of max(0, similarity - relatedness), averaged over users",
        "0 to 1 for cosines; 0: everything shown is as related as it is similar.",
        "lower",
        bounds=(0.0, None),
    ),
    Metric(
        "spurious_share",
        "Spurious share@k",
        "The share of the items shown that have hardly anything to do with the user, although the model places them "
        "near: relatedness below 0.1 and similarity above 0.3, unless the settings say otherwise.",
        "items of the list of k with relatedness < unrelated and similarity > similar, over the list's length, "
        "averaged over users",
        "0 to 1; 0: nothing spurious is shown; 1: everything shown is.",
        "lower",
        "share",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "unrelated_share",
        "Unrelated share@k",
        "The share of the items shown that have hardly anything to do with the user, wherever a model places them: "
        "relatedness below 0.1, unless the settings say otherwise. It needs no vectors, so that every model and every "
        "system that shows lists has it.",
        "items of the list of k with relatedness < unrelated, over the list's length, averaged over users",
        "0 to 1; 0: everything shown has to do with the user; 1: nothing has.",
        "lower",
        "share",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "shown_relatedness",
        "Relatedness of lists@k",
        "How much what is shown has to do with the user. It needs no vectors.",
        "mean relatedness over the list of k, averaged over users",
        "0 to 1; 0: nothing shown has anything to do with the user.",
        "higher",
        bounds=(0.0, 1.0),
    ),
)
VECTORS = tuple(metric.name for metric in FOLDING[:4])
"""Those that compare with the similarity of a model's vectors."""

LOG_FOLDING = (
    Metric(
        "log_folding",
        "Folding of lists by the log@k",
        "Folding over lists of k, with relatedness from who rated what alone, whatever the folding audit takes: lists "
        "that were calibrated to categories are not judged by the same categories.",
        "mean over the list of max(0, similarity - relatedness of the log), averaged over users",
        "0 to 1 for cosines; 0: everything shown is as related as it is similar.",
        "lower",
        bounds=(0.0, 1.0),
    ),
)
