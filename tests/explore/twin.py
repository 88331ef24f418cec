"""What the page computes, in Python: from the page's data and the state of its controls."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from explore.explored import array
from recaudit.arrays import FloatArray, IntArray
from recaudit.policies import Softmax, top_items
from recaudit.solvers.lists.calibrated import calibrated_lists
from recaudit.solvers.lists.objective import CategoryVectors, divergence, list_distribution
from recaudit.ties import TieKeys


class PageState(NamedTuple):
    """What is chosen: places in the payload; `stars` has None where a rating is as it was."""

    person: int
    model: int
    editor: int
    stars: list[int | None]
    beta: float
    weight: float


class Twin(NamedTuple):
    """What follows from it."""

    scores: FloatArray  # (rows,)
    order: IntArray  # rows, best first
    chances: FloatArray  # (rows,)
    list: IntArray  # rows
    apart: float


def twin(payload: dict[str, Any], state: PageState) -> Twin:
    """Scores are summed from the first rating to the last, so that they are the same bits in any language."""
    views = [person["views"][state.model] for person in payload["people"]]
    view, editing, model = views[state.person], views[state.editor], payload["models"][state.model]
    rows, free = array(view["rows"], np.uint32).astype(np.int64), np.ones(len(array(view["base"])), dtype=bool)
    given = zip(state.stars, editing["now"], strict=True)
    ratings = [now if star is None else model["stars"][star] for star, now in given]
    if state.editor == state.person:
        scores = _summed(view["slope"], view["intercept"], ratings)
        free[np.isin(rows, view["acted"])] = False
    else:
        other = view["others"][str(state.editor)]
        scores = array(view["base"]).copy()
        scores[other["moved"]] = _summed(other["slope"], other["intercept"], ratings)
    values, allowed = scores[None], free[None]
    ties = TieKeys(
        array(payload["people"][state.person]["key"], np.uint64), array(payload["items"]["keys"], np.uint64)[rows]
    )
    order = top_items(values, allowed, int(free.sum()), ties)[0]
    shown = order[: model["n"]]
    shares, p = _shares(payload["items"]), array(payload["people"][state.person]["interests"])[None]
    if state.weight > 0:
        vectors = CategoryVectors.of(shares[rows])
        settings: dict[str, Any] = {"weight": state.weight, "size": model["n"], "horizon": "prefix", "ties": ties}
        made = calibrated_lists(scores[None], free[None], vectors, p, **settings).lists[0]
        shown = made[made >= 0]
    chances = np.exp(Softmax(beta=state.beta).log_probabilities(values, allowed)[0])
    q = list_distribution(rows[shown][None], shares)
    return Twin(scores, order, chances, shown, float(divergence(p, q)[0]))


def _summed(slope: str, intercept: str, ratings: list[float]) -> FloatArray:
    scores = array(intercept).copy()
    for place, column in enumerate(array(slope).reshape(len(scores), -1).T):
        scores += column * ratings[place]
    return scores


def _shares(items: dict[str, Any]) -> sparse.csr_array:
    parts = (array(items["shares"]), array(items["indices"], np.uint32).astype(np.int64))
    indptr = array(items["indptr"], np.uint32).astype(np.int64)
    return sparse.csr_array((*parts, indptr), shape=(len(items["titles"]), len(items["genres"])))


def random_states(payload: dict[str, Any], count: int, rng: int = 0) -> list[PageState]:
    """States of the models whose lists the page computes."""
    draw = np.random.default_rng(rng)
    models = [place for place, model in enumerate(payload["models"]) if model["kind"] == "affine"]
    found = []
    for _ in range(count):
        person, model = int(draw.integers(len(payload["people"]))), int(draw.choice(models))
        others = [int(other) for other in payload["people"][person]["views"][model].get("others", {})]
        editor = int(draw.choice([person, *others])) if draw.random() < 0.4 else person
        editing, values = payload["people"][editor]["views"][model], payload["models"][model]["stars"]
        stars = [int(draw.integers(len(values))) if draw.random() < 0.5 else None for _ in editing["acted"]]
        beta = float(payload["models"][model]["beta"] * 2 ** draw.uniform(-4, 4))
        weight = float(draw.choice([0.0, 0.0, round(draw.uniform(0.01, 1), 2), 1.0]))
        found.append(PageState(person, model, editor, stars, beta, weight))
    return found
