"""What the study of folding measures: error and folding of grids of models, and what lies next to a film."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from recaudit.audits import Folding, Relatedness, neighbours
from recaudit.data import Interactions, datasets, splits
from recaudit.data.synthetic import BlockWorld, blocks, toy
from recaudit.engines import Serial
from recaudit.models import FactorModel
from recaudit.plugins import FloatArray, IntArray, derive, folding_overshoot, generator
from recaudit_papers.studies.folding.forms import Form

LISTS = ("shown_folding", "spurious_share")
_PAIRS = 100_000
"""Unrated pairs looked at."""


def block_worlds(
    seeds: Sequence[int],
    world: Mapping[str, Any],
    form: Mapping[str, Any],
    factors: Sequence[int],
    weights: Sequence[float],
    *,
    lists: bool = False,
) -> pl.DataFrame:
    """A row for each world and model (section 4.1): error on what is held out, folding beside the true blocks."""
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        drawn = blocks(**world, rng=seed)
        truth = _truth(drawn)
        for k in factors:
            for alpha in weights:
                model = Form(**form).fit(drawn.data, k, alpha, derive(seed, "model"))
                shown = _lists(model, truth) if lists else {}
                found = {**_errors(model, drawn.held_out), "folding": _folding(model, truth), **shown}
                rows.append({"seed": seed, "factors": k, "weight": alpha, **found})
    return pl.DataFrame(rows)


def off_shares(seeds: Sequence[int], world: Mapping[str, Any]) -> pl.DataFrame:
    """A row for each world: the share of pairs that are not related, which is the largest folding there can be."""
    return pl.DataFrame({"seed": list(seeds), "off_share": [blocks(**world, rng=seed).off_share for seed in seeds]})


def toy_worlds(seeds: Sequence[int], weights: Sequence[float]) -> pl.DataFrame:
    """A row for each small world like that of Figure 1 and weight: who lies near what, with 3 factors, centred."""
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        world = toy(rng=seed)
        genre = world.data.categories["genre"]
        of_item = np.asarray(genre.names)[genre.weights.argmax(axis=1)]
        people = world.data.attributes["group"].to_numpy()
        strangers = ~world.related[world.user_group][:, world.item_group]
        for alpha in weights:
            model = Form(regularization=0.1).fit(world.data, 3, alpha, derive(seed, "model"))
            products = model.user_factors @ model.item_factors.T
            cosine = unit_rows(model.user_factors) @ unit_rows(model.item_factors).T
            row = {"seed": seed, "weight": alpha, "folding": _folding(model, _truth(world))}
            row["overprediction"] = float(np.maximum(0.0, products)[strangers].mean())
            for group, films in (("children", "Horror"), ("action fans", "Japanese"), ("action fans", "Action")):
                row[f"{group} to {films}"] = float(cosine[np.ix_(people == group, of_item == films)].mean())
            rows.append(row)
    return pl.DataFrame(rows)


def ratings(
    data: str,
    seed: int,
    form: Mapping[str, Any],
    factors: Sequence[int],
    weights: Sequence[float],
    ranks: Sequence[int] = (),
    *,
    lists: bool = False,
) -> pl.DataFrame:
    """A row for each model of a log (sections 4.2 and 4.3): error, and folding beside several relatednesses.

    `folding` is beside the log's (its rank: the paper's 30, or fewer in small logs), `folding_genre` beside genres,
    `folding_15` beside the log's of rank 15, and `folding_unrelated` as if nobody were related to anything. `unrated`
    is the root mean square of the products of vectors, `likeness` the correlation of cosine and relatedness, both over
    unrated pairs.
    """
    train, test = _split(data, seed)
    related = {
        "folding": _from_log(data, seed, None),
        "folding_genre": Relatedness.from_categories(train, "genre"),
        **{f"folding_{rank}": _from_log(data, seed, rank) for rank in ranks},
        "folding_unrelated": Relatedness.from_factors(np.zeros((train.n_users, 1)), np.zeros((train.n_items, 1))),
    }
    who, what = _unrated(train, seed)
    rows: list[dict[str, Any]] = []
    for k in factors:
        for alpha in weights:
            model = Form(**form).fit(train, k, alpha, derive(seed, "model"))
            U, V = model.user_factors, model.item_factors
            cosine = np.einsum("nf,nf->n", unit_rows(U)[who], unit_rows(V)[what])
            likeness = np.corrcoef(cosine, related["folding"].pairs(who, what))[0, 1]
            rows.append(
                {
                    "seed": seed,
                    "factors": k,
                    "weight": alpha,
                    **_errors(model, test),
                    **{name: _folding(model, each) for name, each in related.items()},
                    **(_lists(model, related["folding"]) if lists else {}),
                    "unrated": float(np.sqrt(np.mean(np.einsum("nf,nf->n", U[who], V[what]) ** 2))),
                    "likeness": float(likeness),
                }
            )
    return pl.DataFrame(rows)


def relieved(data: str, seed: int, factors: int, weights: Sequence[float]) -> pl.DataFrame:
    """A row for each weight alpha: folding without any weight, but with lambda p / (p + alpha) in place of lambda.

    p is the share of pairs that are rated: see `study.REASONS`.
    """
    train, _ = _split(data, seed)
    share = len(train) / train.n_users / train.n_items
    rows = []
    for alpha in weights:
        form = Form(regularization=Form.regularization * share / (share + alpha))
        folded = _folding(form.fit(train, factors, 0.0, derive(seed, "model")), _from_log(data, seed, None))
        rows.append({"seed": seed, "factors": factors, "weight": alpha, "folding": folded})
    return pl.DataFrame(rows)


def film_neighbours(
    data: str, seed: int, form: Mapping[str, Any], factors: int, weight: float, category: str, query: str, enough: int
) -> pl.DataFrame:
    """A row for each film of a category with `enough` ratings: its 9 nearest under weight 0 and under `weight`.

    `film` is its position; `shared` is the share of them with a genre in common with the film, `jaccard` their genres'
    likeness, `nearest` and `cosine` the first's and the mean cosine; the same with `_weighted`. `query` marks films
    whose title begins so.
    """
    train, test = _split(data, seed)
    first, second = (Form(**form).fit(train, factors, alpha, derive(seed, "model")) for alpha in (0.0, weight))
    genre = train.categories["genre"]
    has = genre.weights.toarray().astype(bool)
    chosen = np.flatnonzero(has[:, list(genre.names).index(category)] & (train.item_counts >= enough))
    titles = train.item_labels(np.arange(train.n_items))
    rows: list[dict[str, Any]] = []
    for item in chosen:
        near = neighbours(first, second, train.item_ids[int(item)]).filter(pl.col("rank") > 0)
        row: dict[str, Any] = {"seed": seed, "film": int(item), "query": titles[item].startswith(query)}
        for side, suffix in (("first", ""), ("second", "_weighted")):
            others = has[train.items_at(near[f"{side}_item"])]
            both = (others & has[item]).sum(axis=1)
            cosine = near[f"{side}_cosine"]
            row |= {
                f"shared{suffix}": float((both > 0).mean()),
                f"jaccard{suffix}": float((both / (others | has[item]).sum(axis=1)).mean()),
                f"nearest{suffix}": cosine[0],
                f"cosine{suffix}": cosine.mean(),
            }
        rows.append(row)
    errors = {f"mse{name}": _errors(model, test)["rmse"] ** 2 for name, model in (("", first), ("_weighted", second))}
    return pl.DataFrame(rows).with_columns(**{name: pl.lit(value) for name, value in errors.items()})


@cache
def _split(data: str, seed: int) -> splits.Split:
    return splits.random(datasets.load(data), 0.1, rng=seed)


@cache
def _from_log(data: str, seed: int, rank: int | None) -> Relatedness:
    return Relatedness.from_log(_split(data, seed).train, rank)


def _truth(world: BlockWorld) -> Relatedness:
    return Relatedness.from_blocks(world.user_group, world.item_group, world.related)


def unit_rows(vectors: FloatArray) -> FloatArray:
    """Divide each row of (rows, d) by its length; a row of zeros, which has no direction, stays zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1.0))


def _errors(model: FactorModel, test: Interactions) -> dict[str, float]:
    """RMSE with predictions clipped to the scale, as the accuracy audit has it, and as they are."""
    predicted = model.pair_scores(test.users.astype(np.int64), test.items.astype(np.int64))
    clipped = np.clip(predicted, *test.scale)
    return {
        name: float(np.sqrt(np.mean((values - test.ratings) ** 2)))
        for name, values in (("rmse", clipped), ("rmse_raw", predicted))
    }


def _folding(model: FactorModel, related: Relatedness) -> float:
    """Definition 3.1 over all pairs."""
    vectors = unit_rows(model.user_factors), unit_rows(model.item_factors)
    sums = folding_overshoot(*vectors, related, np.arange(model.data.n_users), Serial())
    return float(sums.user_sums.sum() / model.data.n_users / model.data.n_items)


def _lists(model: FactorModel, related: Relatedness) -> dict[str, float]:
    """Folding of what would be shown; intervals over users are not asked for."""
    found = Folding(relatedness=(related,)).run(model)
    return {name: found[name] for name in LISTS}


def _unrated(train: Interactions, seed: int) -> tuple[IntArray, IntArray]:
    """(pairs,) users and items, drawn of all pairs that have no rating."""
    draw = generator(derive(seed, "unrated"), "folding")
    who, what = draw.integers(train.n_users, size=_PAIRS), draw.integers(train.n_items, size=_PAIRS)
    unrated = np.asarray(train.csr[who, what]).ravel() == 0
    return who[unrated], what[unrated]
