"""The beta of `Softmax(perplexity=n)`: that with which a model's recommendations are spread over n items.

The perplexity of a user's recommendations is exp(entropy), so many equally likely items, and that of a model's exp of
the mean entropy over users, as it is of texts: a few users for whom all scores are close, and who have thousands of
items at any beta, do not decide it. It falls with beta, from the number of candidates to the number of items that share
the highest score, and takes a value in between at one beta alone. Users for whom a model tells no item from another
have the same perplexity at every beta: they say nothing about it, and are left out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np
import torch
from scipy.optimize import brentq

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.asking import FAILURES
from recaudit.audits.samples import Candidates, candidate_items, resolve_users
from recaudit.engines import Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Future
from recaudit.models.base import FittedModel
from recaudit.models.given.black_box import BlackBox
from recaudit.models.response import OpaqueResponse
from recaudit.policies import ListPolicy, Softmax
from recaudit.policies.selection import check_finite
from recaudit.ties import TIE

if TYPE_CHECKING:
    from recaudit.audits.audit import Audit, Context, Subject

BETAS = (1e-9, 1e4)
"""Between which beta is looked for; no softmax has a larger one."""
USERS = 1000
"""Over how many users the mean is taken at most, drawn by their ids and the same for every model."""
ASKED = 20
"""The same for a system that can only be asked: a question for each."""
_MOST_SCORES = 2**25
"""Scores that are kept meanwhile, 256 MiB: fewer users, where a catalogue has more than 33,000 items."""
_STEPS, _TOLERANCE = 100, 1e-13
"""Of Brent's method on log(beta): at most so many, until beta is known to this share of itself. It takes about ten."""

AnyAudit = TypeVar("AnyAudit", bound="Audit")


def resolved(audit: AnyAudit, subject: Subject, context: Context) -> tuple[AnyAudit, dict[str, Any]]:
    """The audit with a beta for each perplexity, and what a result says of it; as it is, where it names none.

    Beta is that of the subject's own model, where it has none of the recommender fitted to the whole log. Facts:
    `perplexity`, the `beta` found, over how many users (`spread_users`) and how many were left out because all that
    they may be shown has one score (`same_scores`); under `follows` the same of what is shown on the way.
    """
    update: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    candidates: Candidates = getattr(audit, "candidates", "unseen")

    def found(policy: Softmax) -> tuple[Softmax, dict[str, Any]]:
        made, own = resolve(policy, _model(subject, context), candidates, context.rng)
        assert isinstance(made, Softmax)
        return made, own

    for name, value in audit:
        if _open(value):
            update[name], own = found(value)
            facts |= own
        elif isinstance(value, Future) and _open(value.follows):
            follows, facts["follows"] = found(value.follows)
            update[name] = replace(value, follows=follows)
        elif hasattr(value, "measure"):  # an audit inside another, as fidelity has
            inner, own = resolved(value, subject, context)
            update |= {name: inner} if own else {}
            facts |= own
    return (audit.model_copy(update=update) if update else audit), facts


def resolve(
    policy: ListPolicy, model: FittedModel, candidates: Candidates, rng: int
) -> tuple[ListPolicy, dict[str, Any]]:
    """The policy for this model, with facts as `resolved` has them; any but a softmax with a perplexity as it is.

    What a user is recommended is chosen from what they have not rated or, where `candidates` are "all", from every
    item. Users who have nothing to choose from, those for whom everything scores the same, and those about whom a
    system gives no answer are left out.
    """
    if not isinstance(policy, Softmax) or policy.perplexity is None:
        return policy, {}
    if isinstance(model, BlackBox) and model.gives_probabilities:
        raise NotSupportedError(
            "This system gives its own probabilities, whose spread is its own: they have no other policy than "
            f"Softmax(beta=1), and {policy!r} was received."
        )
    every = _below_best(model, candidates, rng)
    extents = np.array([-row.min() for row in every])
    told_apart = extents > TIE * extents.max(initial=0.0)
    below_best = [row for row, own in zip(every, told_apart, strict=True) if own] or every
    beta = _beta_of(policy.perplexity, below_best, model.called)
    facts = {"perplexity": policy.perplexity, "beta": beta, "spread_users": len(below_best)}
    left_out = len(every) - len(below_best)
    return Softmax(beta=beta), facts | ({"same_scores": left_out} if left_out else {})


def _open(value: object) -> TypeGuard[Softmax]:
    return isinstance(value, Softmax) and value.perplexity is not None


def _model(subject: Subject, context: Context) -> FittedModel:
    if subject.model is not None:
        return subject.model
    if subject.recommender is None or subject.data is None:
        expected = "a model whose recommendations can be spread over so many items, or a beta"
        raise InputError("policy", received="a perplexity without a model", expected=expected)
    return subject.recommender.fit(subject.data, rng=context.rng)


def _below_best(model: FittedModel, candidates: Candidates, rng: int) -> list[FloatArray]:
    """For each user who has candidates (candidates,): how far each one's score is below the highest."""
    data, asked = model.data, model.response is OpaqueResponse
    most = ASKED if asked else max(1, min(USERS, _MOST_SCORES // data.n_items))
    users = resolve_users(most, data, rng, "spread")
    parts = Serial().map(partial(_rows, model, candidates), blocks(users, 1) if asked else blocks(users), "spread")
    return [row for part in parts for row in part if len(row)]


def _rows(model: FittedModel, candidates: Candidates, users: IntArray) -> list[FloatArray]:
    try:
        scores = model.scores(users)
    except FAILURES:
        return []
    allowed = torch.from_numpy(candidate_items(model.data, users, None, candidates)) & model.may_show(scores)
    check_finite(scores, allowed)
    rows = (own[mask] for own, mask in zip(scores.numpy(), allowed.numpy(), strict=True))
    return [own - own.max(initial=-np.inf) for own in rows]


def _perplexity(log_beta: float, below_best: list[FloatArray]) -> float:
    """With p_i = exp(beta d_i) / Z, where d_i <= 0 is how far i is below the best: H = log Z - beta sum of p_i d_i."""
    beta, total = np.exp(log_beta), 0.0
    for row in below_best:
        weights = np.exp(beta * row)
        normaliser = weights.sum()
        total += np.log(normaliser) - beta * (weights * row).sum() / normaliser
    return float(np.exp(total / len(below_best)))


def _beta_of(perplexity: float, below_best: list[FloatArray], name: str) -> float:
    """The one beta of this perplexity."""
    if not below_best:
        raise NotSupportedError(
            f"{name}: nobody is known to have a choice of items, so that perplexity has no meaning."
        )
    low, high = (float(np.log(beta)) for beta in BETAS)
    most, least = (_perplexity(end, below_best) for end in (low, high))
    if not least < perplexity < most:
        why = "users have no more to choose from" if perplexity >= most else "their scores are too close to each other"
        raise NotSupportedError(
            f"{name}: its recommendations cannot be spread over {perplexity:g} items on average; {why}. With a beta "
            f"from {BETAS[0]:g} to {BETAS[1]:g}, perplexity is between {least:.6g} and {most:.6g}."
        )

    def above(log_beta: float) -> float:
        return float(np.log(_perplexity(log_beta, below_best) / perplexity))

    return float(np.exp(brentq(above, low, high, xtol=_TOLERANCE, maxiter=_STEPS)))
