"""What each number means, in one place: the docs, the summaries and the report all read it from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final


@final
@dataclass(frozen=True)
class Metric:
    """A metric's definition, for a person who has to defend the number."""

    name: str
    label: str
    definition: str
    formula: str
    span: str
    """The range, and what its ends mean."""
    better: Literal["higher", "lower", "neither"]


_ALL = [
    Metric(
        "rmse",
        "RMSE",
        "How far predicted ratings are from the held-out ones, large misses counting more. Over all held-out "
        "ratings together, predictions clipped to the rating scale.",
        "sqrt(mean((predicted - rating)^2))",
        "0 and up, in rating units; 0: every rating predicted exactly.",
        "lower",
    ),
    Metric(
        "mae",
        "MAE",
        "How far predicted ratings are from the held-out ones on average. Over all held-out ratings together, "
        "predictions clipped to the rating scale.",
        "mean(|predicted - rating|)",
        "0 and up, in rating units; 0: every rating predicted exactly.",
        "lower",
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
    ),
    Metric(
        "recall",
        "Recall@k",
        "The share of the user's relevant held-out items that are in the list of k. Averaged over users.",
        "hits / relevant held-out items",
        "0 to 1; with more than k relevant items 1 cannot be reached.",
        "higher",
    ),
    Metric(
        "precision",
        "Precision@k",
        "The share of the list of k that is relevant and held out. Averaged over users.",
        "hits / k",
        "0 to 1; a user with fewer than k relevant items cannot reach 1.",
        "higher",
    ),
    Metric(
        "map",
        "MAP@k",
        "The precision at each hit, summed and divided by the number of relevant held-out items. Averaged over users.",
        "sum over hits of (hits up to that rank / rank), divided by the number of relevant items",
        "0 to 1; 0: no hit; 1: the list starts with all relevant items.",
        "higher",
    ),
    Metric(
        "mrr",
        "MRR@k",
        "One over the rank of the first relevant item in the list of k, 0 without any. Averaged over users.",
        "1 / rank of the first hit",
        "0 to 1; 1: the first item is relevant for every user.",
        "higher",
    ),
    Metric(
        "coverage",
        "Item coverage@k",
        "The share of the catalogue that is in at least one user's list of k.",
        "distinct items recommended / items",
        "0 to 1; 1: every item is shown to somebody.",
        "higher",
    ),
    Metric(
        "gini",
        "Gini of exposure@k",
        "How unequally recommendations are spread over the items of the catalogue, items never shown included.",
        "Gini coefficient of the number of lists each item is in",
        "0 to 1; 0: every item is shown equally often; near 1: a few items take all places.",
        "lower",
    ),
    Metric(
        "popularity_correlation",
        "Popularity correlation",
        "Whether items that are rated more often in the data are recommended more often.",
        "Spearman correlation of ratings received and lists appeared in, over all items",
        "-1 to 1; 0: exposure has nothing to do with popularity; 1: the same order.",
        "neither",
    ),
    Metric(
        "popularity_lift",
        "Popularity lift",
        "How much more popular what is recommended to a user is than what that user chose before.",
        "mean popularity of the user's list / mean popularity of the user's history, averaged over users, minus 1",
        "-1 and up; 0: as popular as the user's own choices; 0.5: half as popular again.",
        "neither",
    ),
    Metric(
        "novelty",
        "Novelty@k",
        "How surprising the recommended items are, if surprise means that few people know them.",
        "mean over the list of -log2(share of users who rated the item)",
        "0 and up, in bits; 0: everybody knows everything in the list; one bit more: known to half as many.",
        "neither",
    ),
    Metric(
        "share",
        "Share of recommendations",
        "The share of all recommended places that goes to this group of items; the baseline is the group's share "
        "of all ratings in the data.",
        "places in lists of k taken by the group / all places",
        "0 to 1; above the baseline: the recommender amplifies the group; below: it dampens it.",
        "neither",
    ),
    Metric(
        "discovery",
        "Discovery",
        "The share of a user's target items that the user could make likelier than by chance by rating strategically; "
        "the baseline is the share that is so already. Averaged over users (Curmei, Dean, Recht 2021, Equation 3).",
        "share of targets with rho* > 1 / number of items that the policy chooses from",
        "0 to 1; 0: nothing can be made likelier than a uniform draw; 1: everything can.",
        "higher",
    ),
    Metric(
        "availability",
        "Availability",
        "The chance that a target item is shown to a user who does the best for it, averaged over targets and users; "
        "the baseline is the chance without strategy (Curmei, Dean, Recht 2021, Equation 3).",
        "mean of rho*",
        "0 to 1; far below 1 over the number of candidates: an item that hardly anybody can get.",
        "higher",
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
    ),
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
    ),
    Metric(
        "max_instability",
        "Worst instability",
        "How far the one other user who can do most moves what is recommended to a viewer. Averaged over viewers.",
        "mean over viewers of the max over editors of instability",
        "0 and up, as instability; never below it.",
        "lower",
    ),
    Metric(
        "unstable_share",
        "Unstable pairs",
        "The share of pairs of a viewer and another user in which the other can move the viewer's recommendations "
        "farther than a threshold, which is 0.5 where nothing else is said.",
        "pairs with instability above the threshold / pairs",
        "0 to 1; 0: no user depends on another that much.",
        "lower",
    ),
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
    ),
    Metric(
        "overshoot_share",
        "Share of pairs that overshoot",
        "The share of all pairs of a user and an item that the model calls similar, and more similar than they are "
        "related.",
        "share of pairs with similarity > relatedness and similarity > 0",
        "0 to 1; 0: similarity never exceeds relatedness.",
        "lower",
    ),
    Metric(
        "shown_folding",
        "Folding of lists@k",
        "Folding over what would be shown alone: each user's k unseen items with the highest scores. The baseline is "
        "folding over all pairs.",
        "mean over the list of max(0, similarity - relatedness), averaged over users",
        "0 to 1 for cosines; 0: everything shown is as related as it is similar.",
        "lower",
    ),
    Metric(
        "log_folding",
        "Folding of lists by the log@k",
        "Folding over lists of k, with relatedness from who rated what alone, whatever the folding audit takes: lists "
        "that were calibrated to categories are not judged by the same categories.",
        "mean over the list of max(0, similarity - relatedness of the log), averaged over users",
        "0 to 1 for cosines; 0: everything shown is as related as it is similar.",
        "lower",
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
    ),
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
    ),
    Metric(
        "calibration_hellinger",
        "Miscalibration, Hellinger@k",
        "How far the categories of a user's list are from those of the user's history, without smoothing and less "
        "sensitive to small interests than C_KL. Averaged over users.",
        "sqrt(sum over categories of (sqrt p - sqrt q)^2 / 2)",
        "0 to 1; 0: the same proportions; 1: nothing in common.",
        "lower",
    ),
    Metric(
        "calibration_tv",
        "Miscalibration, total variation@k",
        "The share of a user's list that would have to be replaced for its categories to have the proportions of the "
        "user's history. Averaged over users.",
        "sum over categories of |p - q| / 2",
        "0 to 1; 0: the same proportions; 1: nothing in common.",
        "lower",
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
    ),
    Metric(
        "item_calibration_tv",
        "Miscalibration of items@k",
        "The share of all recommended places that would have to go to other items for items to be recommended as often "
        "as they are consumed (Steck 2018, section 7: the item-centric view).",
        "sum over items of |share of places - share of consumption| / 2",
        "0 to 1; 0: an item that is consumed twice as often is recommended twice as often.",
        "neither",
    ),
]


def _over_time(when: Literal["past", "future"]) -> list[Metric]:
    """Agency in hindsight, or from now on: what users can do to their own recommendations, and others to them."""
    name = when.capitalize()
    free = {
        "past": "if the last k ratings had been others, asked of a model that has not seen them",
        "future": "by rating the k items that the system shows next, each rating moving the model before the next item",
    }[when]
    own, others = ("4.2", "4.4") if when == "past" else ("4.1", "4.3")
    made, moved = ("could have made", "could have moved") if when == "past" else ("can make", "can move")
    lift = f"How many times likelier a user {made} an item at best, {free}"
    move = f"How far another user {moved} what a user is recommended, {free}"
    return [
        Metric(
            f"{when}_lift",
            f"{name} lift@k",
            f"{lift}. A geometric mean over items, then users (Causal audit, Definition {own}).",
            "exp(mean of log(best probability / probability without strategy))",
            "0 and up; 1: no likelier than it is anyway; 2: twice as likely.",
            "higher",
        ),
        Metric(
            f"{when}_mean_lift",
            f"{name} mean lift@k",
            f"{lift}. The arithmetic mean that the paper reports, which a few items with tiny chances can carry.",
            "mean of best probability / probability without strategy",
            "0 and up; 1: no likelier than it is anyway.",
            "higher",
        ),
        Metric(
            f"{when}_doubled",
            f"{name} pairs doubled@k",
            f"The share of items that a user {made} at least twice as likely, {free}. Averaged over users.",
            "items with lift of 2 or more / items",
            "0 to 1; 0: nothing can be doubled; 1: everything can.",
            "higher",
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
        ),
        Metric(
            f"{when}_unstable_share",
            f"{name} unstable pairs@k",
            f"The share of pairs in which another user {moved} what a user is recommended farther than 0.5, {free}.",
            "pairs with instability above 0.5 / pairs",
            "0 to 1; 0: no user depends on another that much.",
            "lower",
        ),
    ]


METRICS: dict[str, Metric] = {metric.name: metric for metric in [*_ALL, *_over_time("past"), *_over_time("future")]}
