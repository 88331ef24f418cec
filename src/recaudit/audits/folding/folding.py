"""Folding: are people and things that have nothing to do with each other neighbours in the model's space?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import polars as pl

from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.folding.metric import Overshoot, overshoot
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.folding.result import Folding
from recaudit.audits.folding.shown import Shown, Spurious, shown
from recaudit.audits.folding.vectors import unit_rows, vectors_of
from recaudit.audits.lists.recommend import check_length
from recaudit.audits.result import Result
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.errors import InputError
from recaudit.metrics.groupings import Grouping, groupings
from recaudit.metrics.intervals import Bootstrap, Ratio, aggregate, mean
from recaudit.metrics.tables import item_table, user_table
from recaudit.models.base import FittedModel
from recaudit.seeding import derive, uniforms

Similarity = Literal["cosine", "dot"]


@checked
def folding(
    model: FittedModel,
    relatedness: Annotated[Relatedness, "Wrap a matrix (users, items) as Relatedness.given(matrix)."] | None = None,
    *,
    similarity: Similarity = "cosine",
    k: int = 10,
    unrelated: float = 0.1,
    similar: float = 0.3,
    sample: int | None = None,
    by: Sequence[str] | None = None,
    confidence: float = 0.95,
    samples: int = 1000,
    rng: int = 0,
    engine: Engine | None = None,
) -> Folding:
    """How far the model's similarity overshoots relatedness (paper 002, Definition 3.1).

    `F_R(S) = mean over all pairs of max(0, s_ij - r_ij)`: s_ij is the similarity of the model's user vector i and item
    vector j (biases have no part in it), r_ij in [0, 1] the `relatedness`, by default that of the model's log
    (`Relatedness.from_log`). 0: nobody is nearer to anything than they are related to it. With cosines and a
    relatedness of 0 or 1 the largest value is the share of unrelated pairs. Values of cosines and of dot products,
    or of two relatednesses, do not compare.

    Beside it, on what would be shown: the mean overshoot over each user's k unseen items with the highest scores, and
    the share of those that are spurious, `r_ij < unrelated` although `s_ij > similar`.

    `sample` takes that many users instead of all, each as likely as any other, against every item: an estimate for
    catalogues with too many pairs. Intervals are bootstrapped over users either way.
    """
    check_length(k, "k")
    rule = _checked_rule(unrelated, similar)
    data = model.data
    U, V = vectors_of(model)
    if similarity == "cosine":
        U, V = unit_rows(U), unit_rows(V)
    elif similarity != "dot":
        raise InputError("similarity", received=similarity, expected="'cosine' or 'dot'")
    relatedness = _checked_relatedness(relatedness, data)
    users = _asked(data, sample, rng)
    engine = engine or Serial()
    slices = groupings(data, by)
    weights = [grouping.weights for grouping in slices if grouping.over == "items"]
    sums = overshoot(U, V, relatedness, users, engine, np.hstack(weights) if weights else None)
    lists = shown(model, U, V, relatedness, users, k, engine)
    frame, groups = aggregate(_ratios(sums, lists, rule, slices), Bootstrap(confidence, samples, rng))
    settings: dict[str, object] = {
        "relatedness": relatedness.label,
        "similarity": similarity,
        "k": k,
        "unrelated": unrelated,
        "similar": similar,
        "sample": sample,
        "confidence": confidence,
        "samples": samples,
        "rng": rng,
    }
    result = Result(
        audit="folding",
        settings=settings,
        frame=frame,
        groups=groups,
        users=user_table(data.user_ids.gather(users), _own(sums, lists, rule)),
        items=_items(data, sums, lists, rule),
        pairs=_pairs(data, lists, rule),
    )
    return Folding(result, model, relatedness, U, V, lists, rule)


def _checked_rule(unrelated: float, similar: float) -> Spurious:
    if not 0 <= unrelated <= 1:
        raise InputError("unrelated", received=unrelated, expected="a relatedness from 0 to 1")
    if not np.isfinite(similar):
        raise InputError("similar", received=similar, expected="a finite similarity")
    return Spurious(unrelated, similar)


def _checked_relatedness(relatedness: Relatedness | None, data: Interactions) -> Relatedness:
    if relatedness is None:
        return Relatedness.from_log(data)
    if relatedness.shape != (data.n_users, data.n_items):
        raise InputError(
            "relatedness",
            received=f"{relatedness!r}",
            expected=f"the {data.n_users:,} users and {data.n_items:,} items of the model's log",
            remedy="Build it from the log that the model was fitted to, model.data.",
        )
    return relatedness


def _asked(data: Interactions, sample: int | None, rng: int) -> IntArray:
    """All users, or as many as asked for; whether one is drawn follows from the ids alone."""
    if sample is None:
        return np.arange(data.n_users)
    if not 2 <= sample <= data.n_users:
        raise InputError("sample", received=sample, expected=f"a number of users from 2 to {data.n_users:,}")
    draws = uniforms(derive(rng, "folding"), data.user_keys, np.zeros(1, dtype=np.uint64))
    return np.sort(np.argsort(draws, kind="stable")[:sample])


def _mean_over_list(values: FloatArray) -> FloatArray:
    """(users,): the mean over each user's list (users, k); NaN for an empty one."""
    places = (~np.isnan(values)).sum(axis=1)
    return np.asarray(np.nansum(values, axis=1) / np.where(places > 0, places, np.nan))


def _own(sums: Overshoot, lists: Shown, rule: Spurious) -> dict[str, FloatArray]:
    """(asked users,) each: every user's own value."""
    items = len(sums.item_sums)
    return {
        "folding": sums.user_sums / items,
        "overshoot_share": sums.user_counts / items,
        "shown_folding": _mean_over_list(lists.overshoot),
        "spurious_share": _mean_over_list(lists.spurious(rule)),
    }


def _ratios(sums: Overshoot, lists: Shown, rule: Spurious, slices: list[Grouping]) -> list[Ratio]:
    """Everything to report: overall, by group of users, by group of items."""
    own = _own(sums, lists, rule)
    ratios = _averages(own, np.ones(len(lists.users)))
    column = 0
    for grouping in slices:
        if grouping.over == "users":
            for group, members in zip(grouping.names, grouping.weights[lists.users].T, strict=True):
                ratios += _averages(own, members, grouping.by, group)
        else:
            totals = sums.group_sums[:, column : column + len(grouping.names)]
            column += len(grouping.names)
            ratios += _of_items(grouping, totals, lists, rule)
    return ratios


def _averages(own: dict[str, FloatArray], members: FloatArray, by: str = "", group: str = "") -> list[Ratio]:
    """Averages over users; what is shown stands beside the value over all pairs."""
    folded = float(own["folding"] @ members / members.sum()) if members.any() else None
    baselines = {"shown_folding": folded}
    return [mean(name, values, members, by, group, baseline=baselines.get(name)) for name, values in own.items()]


def _of_items(grouping: Grouping, totals: FloatArray, lists: Shown, rule: Spurious) -> list[Ratio]:
    """Of each group of items: folding over all pairs with them, and over the places that they take in lists."""
    asked, size = len(totals), grouping.weights.sum(axis=0)
    row, place = np.nonzero(lists.items >= 0)
    belongs = grouping.weights[lists.items[row, place]]
    over, spurious = lists.overshoot[row, place], lists.spurious(rule)[row, place]
    ratios = []
    for g, group in enumerate(grouping.names):
        folded = float(totals[:, g].sum() / (asked * size[g])) if size[g] else None
        places = _by_row(row, belongs[:, g], asked)
        listed = [
            ("shown_folding", _by_row(row, over * belongs[:, g], asked), folded),
            ("spurious_share", _by_row(row, spurious * belongs[:, g], asked), None),
        ]
        ratios.append(Ratio("folding", totals[:, g], np.full(asked, size[g]), asked, by=grouping.by, group=group))
        ratios += [
            Ratio(name, values, places, asked, by=grouping.by, group=group, baseline=baseline)
            for name, values, baseline in listed
        ]
    return ratios


def _by_row(row: IntArray, values: FloatArray, rows: int) -> FloatArray:
    """(rows,): the sum of the values of each row."""
    return np.bincount(row, values, rows).astype(np.float64)


def _items(data: Interactions, sums: Overshoot, lists: Shown, rule: Spurious) -> pl.DataFrame:
    """One row an item: how far users overshoot towards it, and where it is shown."""
    asked = len(lists.users)
    row, place = np.nonzero(lists.items >= 0)
    items, spurious = lists.items[row, place], lists.spurious(rule)[row, place]
    return item_table(data).with_columns(
        folding=sums.item_sums / asked,
        overshoot_share=sums.item_counts / asked,
        recommended=np.bincount(items, minlength=data.n_items),
        spurious=np.bincount(items, spurious, data.n_items).astype(np.int64),
    )


def _pairs(data: Interactions, lists: Shown, rule: Spurious) -> pl.DataFrame:
    """One row a shown item: user, item, rank, relatedness, similarity, overshoot, and whether it is spurious."""
    row, place = np.nonzero(lists.items >= 0)
    return pl.DataFrame(
        {
            "user": data.user_ids.gather(lists.users[row]),
            "item": data.item_ids.gather(lists.items[row, place]),
            "rank": place + 1,
            "relatedness": lists.relatedness[row, place],
            "similarity": lists.similarity[row, place],
            "overshoot": lists.overshoot[row, place],
            "spurious": lists.spurious(rule)[row, place] > 0,
        }
    )
