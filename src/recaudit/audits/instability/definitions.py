"""What the numbers mean."""

from __future__ import annotations

from recaudit.metrics.metric import Metric

INSTABILITY = (
    Metric(
        "instability",
        "Instability",
        "How far another user can move what is recommended to a viewer by rating strategically: the largest distance "
        "between the viewer's recommendation distributions before and after, averaged over the other users, then over "
        "viewers (Causal audit, Definitions 4.3 and 4.4).",
        "mean of max over the editor's ratings of d(P before, P after)",
        "0 and up; 0: nobody can change anything. At most 1 for Hellinger and total variation: 1 where every other "
        "user can replace all of it.",
        "lower",
        still=0.0,
        bounds=(0.0, None),
    ),
    Metric(
        "max_instability",
        "Worst instability",
        "How far the one other user who can do most moves what is recommended to a viewer. Averaged over viewers.",
        "mean over viewers of the max over editors of instability",
        "0 and up, as instability; never below it.",
        "lower",
        still=0.0,
        bounds=(0.0, None),
    ),
    Metric(
        "unstable_share",
        "Unstable pairs",
        "The share of the other users who can move a viewer's recommendations farther than a threshold, 0.5 by "
        "default. Averaged over viewers.",
        "mean over viewers of the share of editors with instability above the threshold",
        "0 to 1; 0: no user depends on another that much.",
        "lower",
        still=0.0,
        bounds=(0.0, 1.0),
    ),
)
