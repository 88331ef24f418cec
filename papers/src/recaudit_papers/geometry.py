"""Who can make which item the top one, and how random a policy should be for that: paper 000, section 4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import polars as pl

from recaudit.engines import Engine, Serial
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Actions, Interval, NextK
from recaudit.models import FactorModel, FactorVectors, FittedModel, reachable_factors
from recaudit.plugins import Candidates, IntArray, Status, as_data, candidate_items
from recaudit.registry import ACTIONS
from recaudit.solvers import best_beta as maximize_beta
from recaudit.solvers import hull_vertices, top1_margin

STATUS = pl.Enum([status.value for status in Status])
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "top1_reachable": pl.Boolean,
    "margin": pl.Float64,
    "margin_upper": pl.Float64,
    "hull_vertex": pl.Boolean,
    "status": STATUS,
}
TIE = 1e-6
"""A lead over the others that is smaller than this, in units of the scores, is called a tie."""


@final
class OwnScores:
    """A user's scores of the candidates, `slope @ a + intercept`, over ratings a with `lower <= a <= upper`."""

    def __init__(self, model: FittedModel, user: int, actions: Actions, candidates: Candidates, rng: int) -> None:
        low, high = model.data.scale
        # Of clicks or plays, which have one rating only, the other choice is none: 0.
        ratings = actions.ratings or (Interval(low, high) if low < high else Interval(min(0.0, low), max(0.0, high)))
        if not isinstance(ratings, Interval):
            raise NotSupportedError(
                f"Geometry is about intervals of ratings; {ratings!r} is not one. "
                "Pass ratings=ra.interventions.Interval(low, high) to the actions."
            )
        self.lower, self.upper = ratings.low, ratings.high
        users = np.array([user])
        items = actions.items(model, users, rng)
        self.acted = items[0][items[0] >= 0]  # positions of the items whose ratings are free; may be empty
        self.candidates = np.flatnonzero(candidate_items(model.data, users, items, candidates)[0])
        response = model.own_responses(users, self.acted[None, :])
        self.slope = response.slope[0][self.candidates]
        self.intercept = response.intercept[0][self.candidates]
        self.ties = model.data.tie_keys(users).columns(self.candidates)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Geometry:
    """What the user's ratings can do to each item's place, and what the model's geometry says about it."""

    settings: Mapping[str, object]
    frame: pl.DataFrame
    """One row a pair: user, item, and

    - top1_reachable: some ratings within the bounds make the item the top candidate; of tied ones one is on top;
    - margin, margin_upper: the most by which it can be ahead of every other candidate lies between them, and is
      `margin` where the item is reachable. 0: it can only tie, as all items do for a user of a factor model without
      biases who can bring their vector to zero. Below 0 it is always behind somebody;
    - hull_vertex: the item's slope is a vertex of the hull of all candidates' slopes. Were ratings any real numbers,
      every vertex would be reachable (Proposition 2); within bounds a vertex may be out of reach. An item that is
      no vertex may be reachable either way;
    - status: solved when both questions are settled, else bounded or failed; not_applicable for an item that is no
      candidate (any item, for a user without candidates), or a user without an action."""
    users: pl.DataFrame
    """One row a user: user, actions (how many ratings are free), rich_actions (Definition 3; of factor models), and
    status: not_applicable for a user without an action and for models that have no factors."""

    def summary(self) -> str:
        """How many pairs are reachable and how many are vertices, and how many users have rich actions."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        known = self.frame.filter(pl.col("status") == Status.SOLVED.value)
        lines = [
            f"geometry ({settings})",
            f"  {len(self.frame):,} pairs of {len(self.users):,} users, {len(known):,} settled",
        ]
        if len(known):
            away = known.filter(pl.col("hull_vertex") & ~pl.col("top1_reachable"))
            ties = known.filter(pl.col("top1_reachable") & (pl.col("margin") < TIE))
            lines += [
                f"  top-1 reachable  {known['top1_reachable'].to_numpy().mean():.1%} of them, {len(ties):,} by a tie",
                f"  hull vertices    {known['hull_vertex'].to_numpy().mean():.1%}, {len(away):,} of them out of reach",
            ]
        asked = self.users["rich_actions"].drop_nulls()
        if len(asked):
            lines.append(f"  rich actions     {asked.sum():,} of {len(asked):,} users")
        return "\n".join(lines)

    __repr__ = summary


def rich_actions(model: FactorVectors, items: IntArray) -> bool:
    """Return whether rating `items` (actions,), positions, can move the user in every direction in which items differ.

    `rank [q_i, v_i] over the acted-on items = rank over all items`, with the vectors of `recaudit.reachable_factors`.
    The right side is the d + 1 of Definition 3 unless the items span less, where less is enough for Proposition 3.
    """
    extended = reachable_factors(model).item_factors
    return len(items) > 0 and bool(np.linalg.matrix_rank(extended[items]) == np.linalg.matrix_rank(extended))


def geometry(
    model: FittedModel,
    *,
    users: Iterable[object],
    actions: Actions | None = None,
    targets: Iterable[object] | None = None,
    candidates: Candidates = "unseen",
    rng: int = 0,
    engine: Engine | None = None,
) -> Geometry:
    """Which targets each of these users can make the top one, and which are vertices of the hull of slopes.

    `users` and `targets` are ids (all candidates where no targets are named); `actions` (default: the next 10
    items) and `candidates` as for `reachability`, with ratings in an interval. Linear programs, some milliseconds
    a pair: for some users, or some targets.
    """
    actions, data = actions or NextK(10), model.data
    positions = data.users_at(users)
    if not len(positions):
        raise InputError("users", received="no users", expected="at least one user id")
    wanted = None if targets is None else data.items_at(targets)
    work = partial(_examine, model, actions, wanted, candidates, rng)
    pairs, rows = zip(*(engine or Serial()).map(work, positions.tolist(), "geometry"), strict=True)
    settings = {"actions": as_data(actions, ACTIONS), "candidates": candidates, "rng": rng}
    return Geometry(settings, pl.concat(pairs), pl.concat(rows))


def _examine(
    model: FittedModel, actions: Actions, targets: IntArray | None, candidates: Candidates, rng: int, user: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of the pairs of the user at this position, and of the user."""
    data, own = model.data, OwnScores(model, user, actions, candidates, rng)
    every = own.candidates if len(own.candidates) else np.arange(data.n_items)
    asked = every if targets is None else targets
    solvable = np.intersect1d(asked, own.candidates) if len(own.acted) else asked[:0]
    ids = {"user": data.user_ids.gather(np.full(len(asked), user)), "item": data.item_ids.gather(asked)}
    found = _pairs(own, solvable).with_columns(item=data.item_ids.gather(solvable))
    pairs = pl.DataFrame(ids).join(found, on="item", how="left", maintain_order="left")
    rich = rich_actions(model, own.acted) if isinstance(model, FactorModel) and len(own.acted) else None
    status = Status.NOT_APPLICABLE if rich is None else Status.SOLVED
    row = {
        "user": data.user_ids.gather([user]),
        "actions": [len(own.acted)],
        "rich_actions": pl.Series([rich], dtype=pl.Boolean),
        "status": pl.Series([status.value], dtype=STATUS),
    }
    return pairs.with_columns(pl.col("status").fill_null(Status.NOT_APPLICABLE.value)), pl.DataFrame(row)


def _pairs(own: OwnScores, targets: IntArray) -> pl.DataFrame:
    """The answers for `targets` (targets,), positions of candidates; null where a question is not settled."""
    if not len(targets):
        return pl.DataFrame(schema=_SCHEMA)
    places = np.searchsorted(own.candidates, targets)
    top = top1_margin(own.slope, own.intercept, places, own.lower, own.upper, ties=own.ties)
    hull = hull_vertices(own.slope, places)
    whole = top.settled & (hull.status == Status.SOLVED.value)
    failed = (top.status == Status.FAILED.value) | (hull.status == Status.FAILED.value)
    unsettled = np.where(failed, Status.FAILED.value, Status.BOUNDED.value)
    columns = {
        "top1_reachable": pl.Series(top.reachable).set(pl.Series(~top.settled), None),
        "margin": top.value,
        "margin_upper": pl.Series(top.upper).fill_nan(None),
        "hull_vertex": pl.Series(hull.vertex).set(pl.Series(hull.status != Status.SOLVED.value), None),
        "status": np.where(whole, Status.SOLVED.value, unsettled),
    }
    return pl.DataFrame(columns, schema=_SCHEMA)


def best_beta(
    model: FittedModel,
    *,
    user: object,
    item: object,
    actions: Actions | None = None,
    candidates: Candidates = "unseen",
    rng: int = 0,
) -> pl.DataFrame:
    """The beta of a softmax policy at which the user's largest probability of the item is largest.

    An item that the user can make the top one is best served without randomness, at beta = inf; for any other there
    is a finite best beta, found with a certificate. `user` and `item` are ids; `actions` (default: the next 10
    items) and `candidates` as for `reachability`. The item must be a candidate, and the user must have an action.

    One row: `beta`, which lies between `beta_lower` and `beta_upper`; the probability reached there with its bounds
    (`value`, `lower`, `upper`); `reachable`: whether some ratings make the item the top one; `status`.
    """
    own = OwnScores(model, int(model.data.users_at([user])[0]), actions or NextK(10), candidates, rng)
    if not len(own.acted):
        raise InputError("user", received=user, expected="a user with at least one rating to change")
    place = np.flatnonzero(own.candidates == model.data.items_at([item])[0])
    if not len(place):
        expected = "a candidate: an item that is not acted on and, unless candidates='all', not seen"
        raise InputError("item", received=item, expected=expected)
    found = maximize_beta(own.slope, own.intercept, int(place[0]), own.lower, own.upper)
    return pl.DataFrame(
        {
            "beta": found.beta,
            "beta_lower": found.bracket[:, 0],
            "beta_upper": found.bracket[:, 1],
            **{name: np.exp(getattr(found, name)) for name in ("value", "lower", "upper")},
            "reachable": found.reachable,
            "status": found.status,
        }
    )
