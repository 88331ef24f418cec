"""What the numbers mean."""

from __future__ import annotations

from recaudit.metrics.metric import Metric

RECOURSE = (
    Metric(
        "within_reach",
        "Within reach",
        "The share of the outcomes asked about that a user can bring about with the ratings that are free, whatever "
        "the effort; the baseline is the share that is there already. What could be neither found nor excluded within "
        "the budget counts as out of reach. Averaged over users.",
        "share of outcomes with a finite least effort",
        "0 to 1; 0: nothing that people do brings it about; 1: everybody can have everything that was asked about.",
        "higher",
        "share",
        best_case=True,
        bounds=(0.0, 1.0),
    ),
    Metric(
        "effort",
        "Effort",
        "The least that users must do for an outcome that they can bring about: how many ratings they must change, how "
        "far, or at which cost, as the audit's effort says. Over all such outcomes together, those without any effort "
        "left out.",
        "mean of the least effort, of outcomes that are within reach and not there already",
        "above 0; small: little is enough. Where the least was not proved it may be smaller. To be read beside what is "
        "within reach: where only what is near can be had at all, it takes little.",
        "lower",
        decimals=2,
        least=True,
        bounds=(0.0, None),
    ),
)
