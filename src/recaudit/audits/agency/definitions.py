"""What the numbers mean."""

from __future__ import annotations

from typing import Literal

from recaudit.metrics.metric import Metric


def _over_time(when: Literal["past", "future"]) -> tuple[Metric, ...]:
    """Agency in hindsight, or from now on: what users can do to their own recommendations, and others to them."""
    name = when.capitalize()
    free = {
        "past": "if the last k ratings had been others, asked of a model that has not seen them",
        "future": "by rating the k items that the system shows next, each rating moving the model before the next item",
    }[when]
    own, others = ("4.2", "4.4") if when == "past" else ("4.1", "4.3")
    made, moved = ("could have made", "could have moved") if when == "past" else ("can make", "can move")
    # What is rated from now on is not recommended again, so that all else becomes likelier with any recommender.
    unmoved = 1.0 if when == "past" else None
    lift = f"How many times likelier a user {made} an item at best, {free}"
    move = f"How far another user {moved} what a user is recommended, {free}"
    return (
        Metric(
            f"{when}_lift",
            f"{name} lift@k",
            f"{lift}. A geometric mean over items, then users (Causal audit, Definition {own}).",
            "exp(mean of log(best probability / probability without strategy))",
            "0 and up; 1: no likelier than it is anyway; 2: twice as likely.",
            "higher",
            "times",
            still=unmoved,
            bounds=(0.0, None),
            average="geometric",
        ),
        Metric(
            f"{when}_mean_lift",
            f"{name} mean lift@k",
            f"{lift}. The arithmetic mean that the paper reports, which a few items with tiny chances can carry.",
            "mean of best probability / probability without strategy",
            "0 and up; 1: no likelier than it is anyway.",
            "higher",
            "times",
            still=unmoved,
            bounds=(0.0, None),
        ),
        Metric(
            f"{when}_doubled",
            f"{name} pairs doubled@k",
            f"The share of items that a user {made} at least twice as likely, {free}. Averaged over users.",
            "items with lift of 2 or more / items",
            "0 to 1; 0: nothing can be doubled; 1: everything can.",
            "higher",
            "share",
            still=None if unmoved is None else 0.0,
            bounds=(0.0, 1.0),
        ),
        Metric(
            f"{when}_instability",
            f"{name} instability@k",
            f"{move}: the largest distance between the recommendation distributions before and after, averaged over "
            f"other users, then over users (Causal audit, Definition {others}).",
            "mean of max over the other's ratings of d(P before, P after)",
            "0 and up; 0: nobody can change anything. At most 1 for Hellinger and total variation: 1 where every other "
            "user can replace all of it.",
            "lower",
            decimals=4,
            still=0.0,
            bounds=(0.0, None),
        ),
        Metric(
            f"{when}_unstable_share",
            f"{name} unstable pairs@k",
            f"The share of the other users who {moved} what a user is recommended farther than 0.5, {free}. Averaged "
            "over users.",
            "mean over users of the share of others with instability above 0.5",
            "0 to 1; 0: no user depends on another that much.",
            "lower",
            "share",
            still=0.0,
            bounds=(0.0, 1.0),
        ),
    )


OWN = ("lift", "mean_lift", "doubled")
"""What is measured of a user's own ratings; each with `past_` or `future_` in front."""
OTHERS = ("instability", "unstable_share")
"""What is measured of another's ratings."""
ITEM_CONTRAST = "popular against intermediate items"
EDITOR_CONTRAST = "active against intermediate editors"
AGENCY = (*_over_time("past"), *_over_time("future"))
