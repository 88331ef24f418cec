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
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.candidates import Candidates, candidate_items
from recaudit.audits.fidelity.refits import Edit, Refit, causes, log_error
from recaudit.audits.fidelity.result import SCHEMA, Fidelity
from recaudit.audits.reachability.audit import reachability
from recaudit.audits.samples import resolve_users
from recaudit.engines import Engine, Serial
from recaudit.errors import InputError
from recaudit.interventions import Actions, NextK
from recaudit.models.base import FittedModel, Recommender
from recaudit.policies import Policy, Softmax
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
    actions allow must be on the log's scale; in a log of clicks, where every rating is the same, a 0 takes one away.
    """
    actions, policy, engine, data = actions or NextK(10), policy or Softmax(), engine or Serial(), model.data
    chosen = resolve_users(users, data, rng)
    promises = _promises(model, actions, policy, chosen, targets, candidates, rng)
    edits = [Edit.of(data, row["user"], row) for row in promises.iter_rows(named=True)]
    same = Refit(recommender, data, chosen, rng).all(edits, engine)
    other = {} if other_rng is None else Refit(recommender, data, chosen, other_rng).all(edits, engine)
    allowed = candidate_items(data, chosen, actions.items(model, chosen, rng), candidates)
    before = model.scores(chosen).numpy()
    rows = []
    for promise, edit in zip(promises.iter_rows(named=True), edits, strict=True):
        at = int(np.searchsorted(chosen, data.users_at([promise["user"]])[0]))
        stand = _Stand(policy, allowed[at], int(data.items_at([promise["item"]])[0]))
        rows.append(_compare(promise, stand, model, before, at, edit, same, other))
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
        causes(same, other),
    )


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
    ).pairs
    if not isinstance(targets, int) or frame.is_empty():
        return frame
    by_user = frame.partition_by("user", maintain_order=True)
    return pl.concat(
        part.sort("value", descending=True, nulls_last=True, maintain_order=True).head(targets) for part in by_user
    )


def _compare(
    promise: Mapping[str, Any],
    stand: _Stand,
    model: FittedModel,
    before: FloatArray,
    at: int,
    edit: Edit | None,
    same: Mapping[Edit, FloatArray | str],
    other: Mapping[Edit, FloatArray | str],
) -> dict[str, object]:
    """One row of the frame; `before` and what the refits give are (users, items), with the pair's user in row `at`."""
    row: dict[str, object] = {name: promise[name] for name in ("baseline", "status")}
    if edit is None:
        return row
    response = model.respond(edit.user, edit.user, np.array(edit.items))
    row["promised"] = promise["value"]
    row["rank_baseline"] = stand.rank(before[at])
    row["rank_promised"] = stand.rank(response.scores(np.array(edit.ratings)).numpy())
    after, again = same[edit], other.get(edit)
    if isinstance(again, np.ndarray):
        row["realised_other_rng"] = stand.probability(again[at])
    if isinstance(after, str):
        return {**row, "status": Status.FAILED.value}
    realised = stand.probability(after[at])
    told = {"realised": realised, "error": log_error(realised, promise["value"])}
    return {**row, **told, "rank_realised": stand.rank(after[at])}
