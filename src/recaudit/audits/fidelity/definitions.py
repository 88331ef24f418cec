"""What the numbers mean."""

from __future__ import annotations

from recaudit.metrics.metric import Metric

FIDELITY = (
    Metric(
        "median_error",
        "Median error",
        "How far a refit is from what the model's response promised, as a factor. The median over pairs.",
        "median of |log(realised / promised)|",
        "0 and up; 0: all promises are kept; log 2 = 0.69: half of them are off by a factor of two or more.",
        "lower",
        bounds=(0.0, None),
    ),
    Metric(
        "promise_correlation",
        "Rank correlation",
        "Whether pairs with higher promises have more realised; not applicable where one of the two does not vary.",
        "Spearman's rank correlation of promised and realised",
        "-1 to 1; 1: in the same order.",
        "higher",
        bounds=(-1.0, 1.0),
    ),
    Metric(
        "realised_share",
        "Realised share of the gain",
        "How much of what was promised beyond the baseline a refit gives; not applicable where nothing was promised.",
        "sum (realised - baseline) / sum (promised - baseline)",
        "1: all that was promised; 0: nothing of it; below 0: the opposite.",
        "higher",
    ),
    Metric(
        "refit_difference",
        "Refit of the log as it is",
        "The largest difference between a score of the model and of a refit on the very log that it was fitted to. "
        "Above 0 the errors hold this noise too, or the recommender or seed is not what the model was fitted with.",
        "max |score - score after the refit|",
        "0 and up; 0: the same log and seed give the same model.",
        "lower",
        bounds=(0.0, None),
    ),
)
