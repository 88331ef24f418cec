"""Instability: how far one user can move what another is recommended.

Paper 001, Definitions 4.3 and 4.4: `max over the editor's ratings of d(P(viewer's item) after, P before)`. The editor's
ratings move the vectors of the rated items and nothing else, so that the maximum is exact (`solvers.own_item`), for
every pair of users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from recaudit.audits.candidates import Candidates, candidate_items
from recaudit.audits.inquiry import Baseline
from recaudit.audits.instability_result import PAIR_SCHEMA, Instability, user_groupings
from recaudit.audits.instability_tally import Tally
from recaudit.audits.logs import observed_log
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Actions, Future, Interval, NextK, Past, Stars
from recaudit.models.base import FittedModel
from recaudit.models.response import AffineResponse, EditedItems
from recaudit.policies import Policy, Softmax, Top1
from recaudit.solvers.distances import LARGEST, Distance, check_distance
from recaudit.solvers.own_item import largest_distance
from recaudit.status import Status

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_VIEWERS = 64
"""Viewers solved together: their scores of every editor's items stay in tens of megabytes."""
_SCORES = 8_000_000
"""Scores of edited items in memory at a time; editors are cut accordingly."""
_ROWS = 16
"""Matrix products sum in another order for a handful of rows than for many (see `pad_matmul`)."""
_GRID = 33
"""Ratings tried on an interval where scores are no affine function of them."""
_MOST_PAIRS = 1_000_000
"""Pairs kept where nothing is said."""


def instability(
    model: FittedModel,
    data: Interactions | None = None,
    *,
    edits: Actions | Future | None = None,
    viewers: Iterable[object] | None = None,
    editors: Iterable[object] | None = None,
    distance: Distance = "hellinger",
    policy: Policy | None = None,
    item: object = None,
    candidates: Candidates = "unseen",
    baseline: Baseline | None = None,
    threshold: float = 0.5,
    pairs: bool | None = None,
    best_ratings: bool = False,
    rng: int = 0,
    engine: Engine | None = None,
) -> Instability:
    """The largest distance between a viewer's recommendations before and after an editor's edits, for every pair.

    `edits` says which of the editor's ratings are free (default: the last 5) and within which bounds; a limit on
    changes leaves the other ratings as in the baseline. `viewers` and `editors` are ids; all users where none are
    named. Nobody is their own editor: that is reachability. `distance` is "hellinger", "tv", "l2" or "kl", of the
    distributions over the viewer's `candidates` (the unseen items, or all), or with an `item` (an id) of the two
    outcomes "it is shown" and "it is not". The `policy` is softmax (beta = 1, by default).

    `baseline` is the distribution before: with the editor's ratings as they are in the log ("factual", the default for
    `Past`), at the model's "scores" (the default elsewhere, and what the paper's Algorithm 3 does), or with the edited
    items rated as "predicted" for the editor. `data`, if given, must be the log that the model was fitted to; for
    `Past(k)` also one that has the last k ratings besides, which the model has not seen.

    Sums are kept for every viewer, every editor and groups of them; rows for all `pairs` where they are at most a
    million, or asked for. `threshold` is the value above which a pair counts as unstable. With `best_ratings`, rows
    have the items whose ratings matter to the viewer and the ratings that reach the value.

    Values are exact for stars, and for intervals where scores are affine in ratings; elsewhere 33 ratings of the
    interval are tried, and rows have the status bounded. An editor without a single action, a viewer without
    candidates and an `item` that is none of them have the status not_applicable.
    """
    edits, policy = edits or Past(5), policy or Softmax()
    log = observed_log(model, data, edits)
    baseline = baseline or ("factual" if isinstance(edits, Past) else "scores")
    if baseline not in ("scores", "predicted", "factual"):
        raise InputError("baseline", received=baseline, expected="'scores', 'predicted' or 'factual'")
    if not isinstance(policy, Softmax):
        raise NotSupportedError(
            f"Instability under {policy!r} has no exact solver. Softmax(beta=...) has one; "
            "a large beta comes close to the top item alone."
        )
    actions = _followed(edits)
    if item is not None and actions.changes is not None:
        raise NotSupportedError("A limit on changes has no solver for one item. Leave out item, or the limit.")
    if not (np.isfinite(threshold) and threshold >= 0):
        raise InputError("threshold", received=threshold, expected="a number of 0 or more")
    asked = _positions(log, viewers, "viewers"), _positions(log, editors, "editors")
    kept = len(asked[0]) * len(asked[1]) <= _MOST_PAIRS if pairs is None else pairs
    if best_ratings and not kept:
        raise InputError(
            "best_ratings",
            received="True without pairs",
            expected="a row a pair to hold them",
            remedy="Pass pairs=True, or fewer viewers and editors.",
        )
    question = _Question(
        model,
        log,
        check_distance(distance),
        policy.beta,
        None if item is None else int(log.items_at([item])[0]),
        candidates,
        baseline,
        threshold,
        kept,
        best_ratings,
    )
    work = _SolveOwnItem(question, _Edits.of(question, actions, asked[1], rng))
    frames: list[pl.DataFrame] = []

    def tallies() -> Iterator[Tally]:
        for part in (engine or Serial()).map(work, blocks(asked[0], _VIEWERS), "instability"):
            frames.append(part.frame)
            yield part.tally

    tally = Tally.joined(tallies())
    settings = {
        "edits": repr(edits),
        "policy": repr(policy),
        "distance": distance,
        "item": item,
        "candidates": candidates,
        "baseline": baseline,
        "threshold": threshold,
        "rng": rng,
    }
    frame = pl.concat(frames, rechunk=False)
    return Instability(log, settings, question.distance, frame, tally, work.edits.exact, *asked)


def _positions(log: Interactions, ids: Iterable[object] | None, argument: str) -> IntArray:
    found = np.arange(log.n_users) if ids is None else np.unique(log.users_at(ids))
    if not len(found):
        raise InputError(argument, received="no ids", expected="at least one, or None for all users")
    return found


def _followed(edits: Actions | Future) -> Actions:
    """The editor's actions that the future comes to.

    An editor's ratings move the vectors of the rated items; users' vectors stay (paper 001, appendix D and Algorithm
    4). So they never change how the editor's own unrated items are ranked: whatever ratings are given on the way, the
    k items that a top-1 recommender shows one after the other are the k unseen ones with the highest scores.
    """
    if not isinstance(edits, Future):
        return edits
    if not isinstance(edits.follows, Top1):
        raise NotSupportedError(
            f"Future instability with items drawn by {edits.follows!r} is an expectation over trajectories, which has "
            "no exact solver. Future(k) with follows=Top1() has one."
        )
    return NextK(edits.k, ratings=edits.ratings)


@final
@dataclass(frozen=True, eq=False)
class _Question:
    """What is asked of every pair, however it is answered. Picklable."""

    model: FittedModel
    log: Interactions
    distance: Distance
    beta: float
    target: int | None
    candidates: Candidates
    baseline: Baseline
    threshold: float
    keep_pairs: bool
    best_ratings: bool


@final
@dataclass(frozen=True, eq=False)
class _Edits:
    """What the editors can do, worked out once for all viewers."""

    editors: IntArray
    items: IntArray
    """(editors, actions): -1 for none."""
    grid: FloatArray
    """(ratings,): the ratings tried for each item."""
    exact: bool
    """Whether no other rating that may be given can do more than those of the grid."""
    changes: int | None
    edited: EditedItems
    """At every rating of the grid and, last, at the baseline's."""
    members: FloatArray
    """(editors, groups): how much of each editor belongs to each group of users."""

    @classmethod
    def of(cls, ask: _Question, actions: Actions, editors: IntArray, rng: int) -> _Edits:
        model, log = ask.model, ask.log
        parts = blocks(editors)
        items = np.concatenate([actions.items(model, part, rng, log) for part in parts])
        affine = model.response is AffineResponse
        allowed = actions.ratings or Interval(*log.scale)
        values = allowed.values if isinstance(allowed, Stars) else np.linspace(allowed.low, allowed.high, _GRID)
        # A score that is affine in the rating is lowest at one end and highest at the other.
        grid = values[[0, -1]] if affine else values
        if ask.baseline == "factual":
            own = np.split(items, np.cumsum([len(part) for part in parts])[:-1])
            known = [actions.unchanged(model, part, some, log) for part, some in zip(parts, own, strict=True)]
            before = np.concatenate(known)
        elif ask.baseline == "predicted":
            who = np.repeat(editors, items.shape[1])
            before = model.predict(who, np.maximum(items, 0).ravel()).reshape(items.shape)
        else:
            before = np.full(items.shape, grid[0])  # the model's own scores take its place
        spread = np.broadcast_to(grid, (*items.shape, len(grid)))
        edited = model.edited_items(editors, items, np.concatenate([spread, before[..., None]], axis=2))
        members = np.column_stack([grouping.weights[editors] for grouping in user_groupings(log, None)])
        return cls(editors, items, grid, affine or isinstance(allowed, Stars), actions.changes, edited, members)

    def scores(self, viewers: IntArray, part: slice) -> torch.Tensor:
        """(viewers, editors, actions, ratings + 1): of the items that the editors in `part` edit."""
        some = replace(self.edited, vectors=self.edited.vectors[part], offset=self.edited.offset[part])
        padded = np.concatenate([viewers, np.repeat(viewers[:1], max(0, _ROWS - len(viewers)))])
        return some.scores(padded)[: len(viewers)]


@final
@dataclass(frozen=True, eq=False)
class _Part:
    """What a block of viewers comes to."""

    frame: pl.DataFrame
    tally: Tally


@final
@dataclass(frozen=True, eq=False)
class _SolveOwnItem:
    """A block of viewers in, their pairs with all editors out, by the exact solver; pure and picklable."""

    question: _Question
    edits: _Edits

    def __call__(self, viewers: IntArray) -> _Part:
        ask, edits = self.question, self.edits
        scores = ask.model.scores(viewers)
        nothing = np.zeros((len(viewers), 0), dtype=np.int64)
        allowed = candidate_items(ask.log, viewers, nothing, ask.candidates)
        shown = scores.masked_fill(torch.from_numpy(~allowed), -torch.inf)
        actions = edits.items.shape[1]
        values = np.empty((len(viewers), len(edits.editors)))
        best = np.full((*values.shape, actions), np.nan) if ask.best_ratings else None
        size = max(1, _SCORES // (_VIEWERS * actions * (len(edits.grid) + 1)))
        for start in range(0, len(edits.editors), size):
            part = slice(start, start + size)
            items = edits.items[part]
            edited = edits.scores(viewers, part)
            if ask.baseline == "scores":
                edited[..., -1] = scores[:, torch.from_numpy(np.maximum(items, 0))]
            found = largest_distance(
                ask.distance, shown, items, edited, ask.beta, target=ask.target, changes=edits.changes
            )
            values[:, part] = found.value
            if best is not None:
                best[:, part] = self._ratings(found.choices(actions), edited[..., :-1])
        asked = viewers[:, None] != edits.editors[None, :]
        values[~asked | ~(edits.items >= 0).any(axis=1)] = np.nan
        tally = Tally.of(values, asked, edits.members, ask.distance, ask.threshold)
        return _Part(self._frame(viewers, asked, values, best), tally)

    def _ratings(self, choices: NDArray[np.int8], edited: torch.Tensor) -> FloatArray:
        """(viewers, editors, actions): the ratings that reach the value; NaN where a rating stays or does not matter.

        `choices` (viewers, editors, actions) as in LargestDistance, `edited` (..., actions, ratings).
        """
        lowest, highest = edited.argmin(dim=3).numpy(), edited.argmax(dim=3).numpy()
        at = np.where(choices == 1, lowest, highest)
        return np.where(choices > 0, self.edits.grid[at], np.nan)

    def _frame(self, viewers: IntArray, asked: BoolArray, values: FloatArray, best: FloatArray | None) -> pl.DataFrame:
        """A row for each pair, or none where they are not kept."""
        ask, edits = self.question, self.edits
        row, column = np.nonzero(asked & ask.keep_pairs)
        value = values[row, column]
        known = ~np.isnan(value)
        status = np.where(known, (Status.SOLVED if edits.exact else Status.BOUNDED).value, Status.NOT_APPLICABLE.value)
        upper = value if edits.exact else np.where(known, LARGEST[ask.distance], np.nan)
        ids = ask.log.user_ids
        columns = {
            "viewer": ids.gather(viewers[row]),
            "editor": ids.gather(edits.editors[column]),
            "value": pl.Series(value).fill_nan(None),
            "lower": pl.Series(value).fill_nan(None),
            "upper": pl.Series(upper).fill_nan(None),
            "status": pl.Series(status, dtype=pl.String).cast(PAIR_SCHEMA["status"]),
            "baseline": np.zeros(len(row)),
        }
        frame = pl.DataFrame(columns)
        if best is None:
            return frame
        chosen: list[list[object] | None] = []
        ratings: list[list[float] | None] = []
        item_ids = ask.log.item_ids.to_list()
        for has, items, given in zip(known, edits.items[column], best[row, column], strict=True):
            matters = np.flatnonzero(~np.isnan(given))
            chosen.append([item_ids[item] for item in items[matters]] if has else None)
            ratings.append(given[matters].tolist() if has else None)
        return frame.with_columns(
            pl.Series("action_items", chosen, pl.List(ask.log.item_ids.dtype)),
            pl.Series("action_ratings", ratings, pl.List(pl.Float64)),
        )
