"""What the numbers mean."""

from __future__ import annotations

from recaudit.audits.folding.definitions import LOG_FOLDING
from recaudit.audits.instability.definitions import INSTABILITY
from recaudit.audits.lists.definitions import ACCURACY, EXPOSURE
from recaudit.audits.reachability.definitions import REACHABILITY
from recaudit.metrics.metric import Metric

MITIGATION = (
    Metric(
        "future_calibration_kl",
        "Miscalibration to what came next@k",
        "How far the categories of a user's list are from those of the user's held-out ratings, which no re-ranking "
        "has seen. Averaged over users. Few held-out ratings a user raise the level, and not the difference between "
        "two lists of the same users.",
        "sum over categories of p log(p / q~), q~ = (1 - smoothing) q + smoothing p, p the shares of the held-out "
        "ratings, q the list's; natural logarithm",
        "0 to log(1 / smoothing), 4.6 for 0.01; 0: the list has the proportions of what the user went on to choose.",
        "lower",
        bounds=(0.0, None),
    ),
    Metric(
        "history_future_kl",
        "Miscalibration of the history to what came next",
        "The same of the history in the place of a list: how far what users chose is from what they went on to "
        "choose. What lists that keep the history's proportions exactly would have.",
        "as the miscalibration to what came next, q the shares of the history",
        "0 to log(1 / smoothing); 0: everybody goes on as before.",
        "neither",
        bounds=(0.0, None),
    ),
    Metric(
        "log_unrelated_share",
        "Unrelated share by the log@k",
        "The share of the items shown that have hardly anything to do with the user by who rated what, whatever the "
        "folding audit takes for relatedness: below 0.1. It needs no vectors.",
        "items of the list of k with relatedness of the log < 0.1, over the list's length, averaged over users",
        "0 to 1; 0: everything shown has to do with the user; 1: nothing has.",
        "lower",
        "share",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "list_reach",
        "Reachable places@k",
        "The share of a user's target items that are in the user's list of k, or that the user can bring into the "
        "next one by rating the items of this one. Searched for, and so a lower bound. Averaged over users.",
        "share of unseen targets that are in the list, or in the list after some ratings of it",
        "0 to 1; 0: nothing that is asked about is shown, whatever the user does; 1: everything can be.",
        "higher",
        "share",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "list_reach_limit",
        "Reachable places@k, at most",
        "The share of a user's target items that are not ruled out: fewer than k items are ranked above them whatever "
        "the ratings; in re-ranked lists, fewer than k of the same categories. Averaged over users.",
        "share of unseen targets that are in the list, or that no k items keep out of the next",
        "0 to 1; never below what was found.",
        "neither",
        "share",
        bounds=(0.0, 1.0),
    ),
    Metric(
        "list_instability",
        "Replaceable share of lists@k",
        "The largest share of a viewer's list that another user was found to replace by rating the items of their own "
        "list, averaged over the other users, then over viewers. Searched for, and so a lower bound.",
        "mean of max over the ratings tried of 1 - items in both lists / items in the list before",
        "0 to 1; 0: nobody changes anything in another's list; 1: everybody can replace all of it.",
        "lower",
        "share",
        bounds=(0.0, 1.0),
    ),
)

_KNOWN = {
    metric.name: metric
    for metrics in (ACCURACY, MITIGATION, LOG_FOLDING, EXPOSURE, REACHABILITY, INSTABILITY)
    for metric in metrics
}
ACCURATE = ("ndcg", "recall")
EXPOSED = ("coverage", "gini", "popularity_lift")
FUTURE = ("future_calibration_kl", "history_future_kl")
FOLDED = ("log_folding", "log_unrelated_share")
REACHED = ("discovery", "availability")
MOVED = ("instability",)
PLACES = ("list_reach", "list_reach_limit")
REPLACED = ("list_instability",)
ORDER = (*ACCURATE, *FUTURE, *FOLDED, *EXPOSED, *REACHED, *PLACES, *MOVED, *REPLACED)
"""Every metric, in the order in which tables have them."""
CHANGING = tuple(name for name in ORDER if name not in ("history_future_kl", "list_reach_limit"))
"""Those whose change says something: what the others are compared with does not change, or is no number of a model."""
EVERYBODYS = (*ACCURATE, FUTURE[0], *FOLDED, "popularity_lift")
"""Those that every user has a value of their own of, and not only a sample."""
METRICS = tuple(_KNOWN[name] for name in ORDER)
BORROWED = frozenset(ORDER) - {metric.name for metric in MITIGATION}
"""Those that another audit defines."""
