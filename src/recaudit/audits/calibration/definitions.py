"""What the numbers mean."""

from __future__ import annotations

from recaudit.metrics.metric import Metric

CALIBRATION = (
    Metric(
        "calibration_kl",
        "Miscalibration C_KL@k",
        "How far the categories of a user's list are from those of the user's history, small interests that the list "
        "leaves out counting most (Steck 2018, Equations 4 and 5). Averaged over users. Depends on the smoothing: "
        "values compare only under the same.",
        "sum over categories of p log(p / q~), q~ = (1 - smoothing) q + smoothing p, p the history's shares, q the "
        "list's; natural logarithm",
        "0 to log(1 / smoothing), 4.6 for 0.01; 0: every interest has its share of the list.",
        "lower",
        bounds=(0.0, None),
    ),
    Metric(
        "calibration_hellinger",
        "Miscalibration, Hellinger@k",
        "How far the categories of a user's list are from those of the user's history, without smoothing and less "
        "sensitive to small interests than C_KL. Averaged over users.",
        "sqrt(sum over categories of (sqrt p - sqrt q)^2 / 2)",
        "0 to 1; 0: the same proportions; 1: nothing in common.",
        "lower",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "calibration_tv",
        "Miscalibration, total variation@k",
        "The share of a user's list that would have to be replaced for its categories to have the proportions of the "
        "user's history. Averaged over users.",
        "sum over categories of |p - q| / 2",
        "0 to 1; 0: the same proportions; 1: nothing in common.",
        "lower",
        "share",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "uncalibrated_share",
        "Users with another list than taste",
        "The share of users whose list differs from their history by more than chance: the G-test at the 5% level, its "
        "p-value from drawing lists at random out of list and history together, so that short lists do no harm. Of a "
        "sample of users where there are many.",
        "users with p-value <= 0.05 / users tested",
        "0 to 1; about 0.05 or less if lists were random draws from the users' own taste.",
        "lower",
        "share",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "item_calibration_tv",
        "Miscalibration of items@k",
        "The share of all recommended places that would have to go to other items for items to be recommended as often "
        "as they are consumed (Steck 2018, section 7: the item-centric view).",
        "sum over items of |share of places - share of consumption| / 2",
        "0 to 1; 0: an item that is consumed twice as often is recommended twice as often.",
        "neither",
        "share",
        bounds=(0.0, 1.0),
    ),
)
