"""What the numbers mean."""

from __future__ import annotations

from recaudit.metrics.metric import Metric

REACHABILITY = (
    Metric(
        "discovery",
        "Discovery",
        "The share of a user's target items that the user could make likelier than by chance by rating strategically; "
        "the baseline is the share that is so already. Averaged over users (Curmei, Dean, Recht 2021, Equation 3).",
        "share of targets with rho* > 1 / number of items that the policy chooses from",
        "0 to 1; 0: nothing can be made likelier than a uniform draw; 1: everything can.",
        "higher",
        "share",
        best_case=True,
        bounds=(0.0, 1.0),
    ),
    Metric(
        "availability",
        "Availability",
        "The chance that a target item is shown to a user who does the best for it, averaged over targets and users; "
        "the baseline is the chance without strategy (Curmei, Dean, Recht 2021, Equation 3).",
        "mean of rho*",
        "0 to 1; far below 1 over the number of candidates: an item that hardly anybody can get.",
        "higher",
        "chance",
        best_case=True,
        bounds=(0.0, None),
    ),
    Metric(
        "lift",
        "Lift",
        "How many times likelier a user can make a target item, at best. A geometric mean over targets and users "
        "(Curmei, Dean, Recht 2021, Equation 2).",
        "exp(mean of log(rho* / rho))",
        "0 and up; 1: no likelier than now; 2: twice as likely. Below 1: having to rate at all costs more than the "
        "best ratings gain.",
        "higher",
        "times",
        still=1.0,  # save where what is rated is not recommended again, which makes all else likelier
        bounds=(0.0, None),
        average="geometric",
    ),
)
