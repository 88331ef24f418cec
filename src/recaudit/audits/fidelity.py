"""Fidelity: does a user really get what reachability promises, once the recommender is trained again?

Reachability answers with the model's response: the user's own scores move as the update rule says, and everything
else stays as fitted. A true refit moves everything: the weights, the item vectors, the biases, the other users. And a
recommender that draws random numbers draws others once a rating is added, which moves scores for no reason at all
(`other_rng` shows how much). So the promise is held against the only thing that counts, the recommender
fitted anew to the log with the promised ratings in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import polars as pl
import torch

from recaudit.arguments import checked
from recaudit.audits.candidates import BoolArray, Candidates, FloatArray, IntArray, candidate_items
from recaudit.audits.fidelity_result import SCHEMA, Fidelity
from recaudit.audits.reachability import reachability
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.errors import InputError, RecauditError
from recaudit.interventions import Actions, NextK
from recaudit.models.base import FittedModel, Recommender
from recaudit.policies import Policy, Softmax
from recaudit.seeding import derive, uniforms
from recaudit.status import Status


@checked
def fidelity(
    recommender: Recommender,
    model: FittedModel,
    *,
    actions: Actions | None = None,
    policy: Policy | None = None,
    users: int | Iterable[object] = 5,
    targets: int | Iterable[object] = 3,
    candidates: Candidates = "unseen",
    rng: int = 0,
    other_rng: int | None = None,
    engine: Engine | None = None,
) -> Fidelity:
    """Write the best ratings of some pairs into the log, fit the recommender again, and compare.

    `model` is what `recommender.fit(log, rng)` gave. `users` are ids, or how many to draw at random; `targets` are
    ids, or how many items with the highest promise to take for each user. `actions` (default: the next 10
    items), `policy` (default: softmax with beta = 1) and `candidates` as for `reachability`; the candidates stay
    those of the log as it was. Every distinct action costs a refit, and two with `other_rng`. Ratings that the
    actions allow must be on the log's scale.
    """
    actions, policy, engine, data = actions or NextK(10), policy or Softmax(), engine or Serial(), model.data
    chosen = _drawn(data, users, rng) if isinstance(users, int) else np.unique(data.users_at(users))
    if not len(chosen):
        raise InputError("users", received="no users", expected="at least one user")
    promises = _promises(model, actions, policy, chosen, targets, candidates, rng)
    edits = [_edit(data, row) for row in promises.iter_rows(named=True)]
    distinct = list(dict.fromkeys(edit for edit in edits if edit is not None))

    def refits(seed: int | None) -> dict[_Edit, FloatArray | str]:
        if seed is None:
            return {}
        found = engine.map(_Refit(recommender, data, seed), distinct, "fidelity")
        return dict(zip(distinct, found, strict=True))

    same, other = refits(rng), refits(other_rng)
    allowed = candidate_items(data, chosen, actions.items(model, chosen, rng), candidates)
    before = model.scores(chosen).numpy()
    rows = []
    for promise, edit in zip(promises.iter_rows(named=True), edits, strict=True):
        at = int(np.searchsorted(chosen, data.users_at([promise["user"]])[0]))
        stand = _Stand(policy, allowed[at], int(data.items_at([promise["item"]])[0]))
        rows.append(_compare(promise, stand, model, before[at], edit, same, other))
    control = np.abs(recommender.fit(data, rng).scores(chosen).numpy() - before).max()
    return Fidelity(
        {
            "actions": repr(actions),
            "policy": repr(policy),
            "candidates": candidates,
            "rng": rng,
            "other_rng": other_rng,
        },
        pl.concat([promises.select("user", "item"), pl.DataFrame(rows, SCHEMA)], how="horizontal"),
        float(control),
        tuple(dict.fromkeys(found for found in [*same.values(), *other.values()] if isinstance(found, str))),
    )


@final
@dataclass(frozen=True)
class _Edit:
    """The ratings (positions) that a user writes into the log."""

    user: int
    items: tuple[int, ...]
    ratings: tuple[float, ...]


@final
@dataclass(frozen=True, eq=False)
class _Refit:
    """An edit in, the user's scores (items,) after a refit out, or why there are none; pure and picklable."""

    recommender: Recommender
    data: Interactions
    rng: int

    def __call__(self, edit: _Edit) -> FloatArray | str:
        log = self.data.with_ratings(edit.user, np.array(edit.items), np.array(edit.ratings))
        try:
            scores = self.recommender.fit(log, self.rng).scores(np.array([edit.user]))[0].numpy()
        except RecauditError as error:
            return str(error)
        return scores if np.isfinite(scores).all() else "the refitted model has scores that are NaN or infinite"


@final
@dataclass(frozen=True, eq=False)
class _Stand:
    """How an item stands among a user's candidates under a policy."""

    policy: Policy
    allowed: BoolArray
    item: int

    def probability(self, scores: FloatArray) -> float:
        """The item's probability at these scores (items,)."""
        rows = torch.from_numpy(scores)[None], torch.from_numpy(self.allowed)[None]
        return float(self.policy.log_probabilities(*rows)[0, self.item].exp())

    def rank(self, scores: FloatArray) -> int:
        """1 + how many candidates score higher, by more than rounding."""
        own = scores[self.item]
        return 1 + int((scores[self.allowed] > own + 1e-12 * abs(own)).sum())


def _drawn(data: Interactions, count: int, rng: int) -> IntArray:
    """Positions of `count` users, or of all if there are fewer; the draw follows from the seed and the ids."""
    if count < 1:
        raise InputError("users", received=count, expected="ids, or how many users to draw, 1 or more")
    draws = uniforms(derive(rng, "fidelity"), data.user_keys, np.zeros(1, dtype=np.uint64))
    return np.sort(np.argsort(draws, kind="stable")[:count])


def _promises(
    model: FittedModel,
    actions: Actions,
    policy: Policy,
    users: IntArray,
    targets: int | Iterable[object],
    candidates: Candidates,
    rng: int,
) -> pl.DataFrame:
    """What reachability says about the pairs that are looked at, with the best ratings."""
    if isinstance(targets, int) and targets < 1:
        raise InputError("targets", received=targets, expected="ids, or how many items to take, 1 or more")
    frame = reachability(
        model,
        actions=actions,
        policy=policy,
        users=model.data.user_ids.gather(users),
        targets=None if isinstance(targets, int) else targets,
        candidates=candidates,
        best_actions=True,
        rng=rng,
    ).frame
    if not isinstance(targets, int) or frame.is_empty():
        return frame
    by_user = frame.partition_by("user", maintain_order=True)
    return pl.concat(
        part.sort("value", descending=True, nulls_last=True, maintain_order=True).head(targets) for part in by_user
    )


def _edit(data: Interactions, promise: Mapping[str, Any]) -> _Edit | None:
    """The ratings behind a promise; None where there is no promise."""
    if promise["value"] is None:
        return None
    user, items = data.users_at([promise["user"]])[0], data.items_at(promise["action_items"])
    return _Edit(int(user), tuple(items.tolist()), tuple(promise["action_ratings"]))


def _compare(
    promise: Mapping[str, Any],
    stand: _Stand,
    model: FittedModel,
    before: FloatArray,
    edit: _Edit | None,
    same: Mapping[_Edit, FloatArray | str],
    other: Mapping[_Edit, FloatArray | str],
) -> dict[str, object]:
    """One row of the frame."""
    row: dict[str, object] = {name: promise[name] for name in ("baseline", "status")}
    if edit is None:
        return row
    response = model.respond(edit.user, edit.user, np.array(edit.items))
    row["promised"] = promise["value"]
    row["rank_baseline"] = stand.rank(before)
    row["rank_promised"] = stand.rank(response.scores(np.array(edit.ratings)).numpy())
    after, again = same[edit], other.get(edit)
    if isinstance(again, np.ndarray):
        row["realised_other_rng"] = stand.probability(again)
    if isinstance(after, str):
        return {**row, "status": Status.FAILED.value}
    realised = stand.probability(after)
    with np.errstate(divide="ignore"):
        error = 0.0 if realised == promise["value"] else float(np.log(realised) - np.log(promise["value"]))
    return {**row, "realised": realised, "error": error, "rank_realised": stand.rank(after)}
