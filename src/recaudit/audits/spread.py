"""Beta of `Softmax(beta="auto")`, at which a model's recommendations are spread over 20 effective items.

The effective items of a user's recommendations are exp(entropy), as many equally likely items, and those of a model exp
of the mean entropy over users: a few users for whom all scores are close, and who have thousands of items at any beta,
do not decide it. They decrease with beta, from the number of candidates to the number of items that share the highest
score, and have each value in between at one beta alone. Scores times c give beta divided by c. Users whose candidates
all have one score have the same effective items at every beta, and are left out.

`Softmax(perplexity=n)` requests n effective items.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np
from scipy.optimize import brentq

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.asking import FAILURES
from recaudit.audits.samples import Candidates, candidate_items, resolve_users, subsample
from recaudit.data.interactions import Interactions
from recaudit.engines import Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError, NotSupportedError, RecauditError
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
"""Smallest and largest beta of the search; no softmax has a larger one."""
EFFECTIVE_ITEMS = 20.0
"""Effective items of `Softmax(beta="auto")`. Half of the candidates (geometric mean), where these are fewer than 40."""
USERS = 500
"""Maximum number of users over which the mean is taken, sampled by their ids and the same for every model."""
QUERIED_USERS = 20
"""The same for a black box, from the users that the audit queries anyway."""
_MOST_SCORES = 2**25
"""Scores that are kept meanwhile, 256 MiB: fewer users, where a catalogue has more than 33,000 items."""
_STEPS, _TOLERANCE = 100, 1e-13
"""Of Brent's method on log(beta): at most so many, until beta is known to this share of itself. It takes about ten."""

AnyAudit = TypeVar("AnyAudit", bound="Audit")


def resolved(audit: AnyAudit, subject: Subject, context: Context) -> tuple[AnyAudit, dict[str, Any]]:
    """Choose beta wherever a policy of the audit leaves it open.

    Beta is that of the subject's own model, or of the recommender fitted to all interactions if there is no model.

    Returns:
        The audit with numbers for beta, and the facts of its result: `beta`, the `perplexity` (effective items) at
        which it was chosen, the number of users (`spread_users`), and of those left out because their candidates have
        one score (`same_scores`); under `follows` the same for what is shown on the way.
    """
    if subject.model is None and (subject.recommender is None or subject.data is None):
        return audit, {}  # the audit refuses what it lacks
    update: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    candidates: Candidates = getattr(audit, "candidates", "unseen")

    def choose(policy: Softmax) -> tuple[Softmax, dict[str, Any]]:
        model = _model(subject, context)
        users = _audited_users(audit, model.data, context.rng) if model.response is OpaqueResponse else None
        made, own = resolve(policy, model, candidates, context.rng, users)
        assert isinstance(made, Softmax)
        return made, own

    for name, value in audit:
        if _is_open(value):
            update[name], own = choose(value)
            facts |= own
        elif isinstance(value, Future) and _is_open(value.follows):
            follows, facts["follows"] = choose(value.follows)
            update[name] = replace(value, follows=follows)
        elif hasattr(value, "measure"):  # an audit inside another, as fidelity has
            inner, own = resolved(value, subject, context)
            update |= {name: inner} if own else {}
            facts |= own
    return (audit.model_copy(update=update) if update else audit), facts


def _audited_users(audit: Audit, data: Interactions, rng: int) -> IntArray | None:
    """Positions of the users that the audit samples or names; None if it measures all."""
    for name in audit.drawn:
        chosen = getattr(audit, name)
        if chosen is not None:
            return resolve_users(chosen, data, rng, name)
    return None


def resolve(
    policy: ListPolicy, model: FittedModel, candidates: Candidates, rng: int, users: IntArray | None = None
) -> tuple[ListPolicy, dict[str, Any]]:
    """Choose the beta of a softmax policy for this model.

    Users who have nothing to choose from, those whose candidates all have one score, and those about whom a black box
    gives no answer are left out.

    Args:
        policy: Policy; any but a softmax whose beta is open is returned as it is.
        model: Model whose scores are used.
        candidates: "unseen" if recommendations are chosen from the items that a user has not rated, or "all".
        rng: Seed of the sample of users.
        users: Positions of the users that an audit of a black box queries; None for all.

    Returns:
        The policy with a number for beta, and the facts that `resolved` describes.
    """
    if not _is_open(policy):
        return policy, {}
    if isinstance(model, BlackBox):
        if model.lists is not None and model.lists.repeats in (None, 1):
            raise NotSupportedError(
                f"{model.called}: policy: received {policy!r}, expected a policy for lists: lists have no scores from "
                "which beta could be chosen. Use Top1() for a system that repeats its lists, Softmax(beta=1) for one "
                "whose lists are random."
            )
        if model.gives_probabilities:
            if policy.perplexity is None:
                return Softmax(beta=1.0), {"beta": 1.0}
            raise NotSupportedError(
                "This system gives its own probabilities, whose spread is its own: they have no other policy than "
                f"Softmax(beta=1), and {policy!r} was received."
            )
    every = _below_best(model, candidates, rng, users)
    extents = np.array([-row.min() for row in every])
    told_apart = extents > TIE * extents.max(initial=0.0)
    below_best = [row for row, own in zip(every, told_apart, strict=True) if own] or every
    effective_items = policy.perplexity
    if effective_items is None and below_best:
        mean_candidates = float(np.exp(np.mean([np.log(len(row)) for row in below_best])))
        effective_items = min(EFFECTIVE_ITEMS, mean_candidates / 2)
    beta = _beta_of(effective_items or EFFECTIVE_ITEMS, below_best, model.called)
    facts = {"perplexity": effective_items, "beta": beta, "spread_users": len(below_best)}
    left_out = len(every) - len(below_best)
    return Softmax(beta=beta), facts | ({"same_scores": left_out} if left_out else {})


def _is_open(value: object) -> TypeGuard[Softmax]:
    return isinstance(value, Softmax) and value.beta == "auto"


def _model(subject: Subject, context: Context) -> FittedModel:
    if subject.model is not None:
        return subject.model
    if subject.recommender is None or subject.data is None:
        expected = "a model for which beta can be chosen, or a number for beta"
        raise InputError("policy", received="Softmax(beta='auto') without a model", expected=expected)
    return subject.recommender.fit(subject.data, rng=context.rng)


def _below_best(
    model: FittedModel, candidates: Candidates, rng: int, users: IntArray | None = None
) -> list[FloatArray]:
    """For each sampled user with candidates (candidates,): how far each one's score is below the highest."""
    data, asked = model.data, model.response is OpaqueResponse
    most = QUERIED_USERS if asked else max(1, min(USERS, _MOST_SCORES // data.n_items))
    if users is None:
        users = resolve_users(most, data, rng, "spread")
    elif len(users) > most:
        users = subsample(users, most, data, rng, "spread")
    model = model.with_earlier_answers if isinstance(model, BlackBox) else model
    pieces = blocks(users, 1) if asked else blocks(users)
    rows, failures = list[FloatArray](), list[RecauditError]()
    for part in Serial().map(partial(_rows, model, candidates), pieces, "spread"):
        if isinstance(part, RecauditError):
            failures.append(part)
        else:
            rows += [row for row in part if len(row)]
    if len(failures) == len(pieces):
        raise failures[0]
    return rows


def _rows(model: FittedModel, candidates: Candidates, users: IntArray) -> list[FloatArray] | RecauditError:
    try:
        scores = model.scores(users)
    except FAILURES as failure:
        return failure
    allowed = candidate_items(model.data, users, None, candidates) & model.may_show(scores)
    check_finite(scores, allowed)
    rows = (own[mask] for own, mask in zip(scores, allowed, strict=True))
    return [own - own.max(initial=-np.inf) for own in rows]


def _perplexity(log_beta: float, below_best: list[FloatArray]) -> float:
    """With p_i = exp(beta d_i) / Z, where d_i <= 0 is how far i is below the best: H = log Z - beta sum of p_i d_i."""
    beta, total = np.exp(log_beta), 0.0
    for row in below_best:
        weights = np.exp(beta * row)
        normaliser = weights.sum()
        total += np.log(normaliser) - beta * (weights * row).sum() / normaliser
    return float(np.exp(total / len(below_best)))


def _beta_of(effective_items: float, below_best: list[FloatArray], name: str) -> float:
    """The one beta at which recommendations are spread over so many items."""
    remedy = "Pass a number: Softmax(beta=...)."
    if not below_best:
        raise NotSupportedError(f"{name}: beta cannot be chosen, since no user has a choice of items. {remedy}")
    low, high = (float(np.log(beta)) for beta in BETAS)
    most, least = (_perplexity(end, below_best) for end in (low, high))
    if not least < effective_items < most:
        why = "users have no more candidates" if effective_items >= most else "scores are too close to each other"
        raise NotSupportedError(
            f"{name}: recommendations cannot be spread over {effective_items:g} items, since {why}: with a beta from "
            f"{BETAS[0]:g} to {BETAS[1]:g}, they are spread over {least:.6g} to {most:.6g}. {remedy}"
        )

    def above(log_beta: float) -> float:
        return float(np.log(_perplexity(log_beta, below_best) / effective_items))

    return float(np.exp(brentq(above, low, high, xtol=_TOLERANCE, maxiter=_STEPS)))
