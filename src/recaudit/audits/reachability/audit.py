"""Reachability: the highest probability with which a user can get an item recommended by changing ratings.

Paper 000, Equation 1: `rho*(u, i) = max over the allowed actions a of P(item i is shown to u after a)`, where scores
after the action are `slope @ a + intercept` (the model's response). Every pair is solved, not a sample, and every
value has certified bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import polars as pl

from recaudit.arguments import check_count, checked
from recaudit.audits.candidates import Candidates
from recaudit.audits.clicks import told_ratings
from recaudit.audits.logs import observed_log
from recaudit.audits.reachability.ask import Ask, AskFuture
from recaudit.audits.reachability.best_response import check_device
from recaudit.audits.reachability.future import Follow
from recaudit.audits.reachability.inquiry import Baseline, Inquiry
from recaudit.audits.reachability.result import Reachability
from recaudit.audits.reachability.search import Search, check_pairs
from recaudit.audits.reachability.search_future import SearchFuture
from recaudit.audits.reachability.solve import Solve
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError
from recaudit.interventions import Actions, Future, NextK, Past
from recaudit.models.base import FittedModel, no_response
from recaudit.models.response import AffineResponse, OpaqueResponse
from recaudit.policies import Policy, Softmax

Solver = Literal["exact", "gradient"]

_USERS = 16
"""Users solved together on a CPU: their responses fit in the cache's neighbourhood, and progress is visible."""


@checked
def reachability(
    model: FittedModel,
    data: Interactions | None = None,
    *,
    actions: Actions | Future | None = None,
    policy: Policy | None = None,
    users: Iterable[object] | None = None,
    targets: Iterable[object] | None = None,
    candidates: Candidates = "unseen",
    baseline: Baseline | None = None,
    slate: int = 1,
    tolerance: float = 1e-6,
    solver: Solver = "exact",
    budget: int = 200,
    best_actions: bool = False,
    rng: int = 0,
    device: str = "cpu",
    engine: Engine | None = None,
) -> Reachability:
    """The largest probability of every target item for every user, with certified bounds.

    `actions` says which ratings are free (default: the next 10 items that the system would show) and within which
    bounds; `policy` how scores become a recommendation (default: softmax with beta = 1). `candidates` are what the
    policy chooses from: the items that are neither seen nor acted on (films), or all but the acted on (music, news).
    `users` and `targets` are ids; all users, and all candidates, where none are named. `baseline` is the probability
    without strategy: at the model's "scores" (the paper's text, and the default), after the acted-on items were rated
    as "predicted" (the authors' code), or as they are in the log ("factual", the default for `Past`). `data`, if given,
    must be the log that the model was fitted to; for `Past(k)` also one that has the last k ratings besides, which the
    model has not seen.

    With a `slate` of n items, drawn without replacement, the probability is that of being among them: for softmax, a
    value that is surely reached below one that is surely not exceeded; the baseline is then 1 - (1 - rho)^n, which
    the true one is not below.

    A user without a single action, and a target that is no candidate, have the status not_applicable. A pair is
    solved when its bounds on log-probability are `tolerance` apart or less.

    Where scores are no affine function of the ratings, each pair is searched for instead, by gradient ascent or, for
    a system that can only be asked, within a `budget` of queries a pair: a lower bound, with the status bounded. Then
    there are three columns more. `queries`: how many were asked for the pair, of whatever kind, never more than the
    budget. `fresh`: 0 where the system gave the same answer twice; else its answers are chance, `value` is the average
    of so many fresh answers about the best ratings found, and `lower` what its expectation is not below with 97.5%
    confidence. `failure`: what the system said when it failed for good; the pair has the status failed.
    `solver="gradient"` does the same for every model: the method of paper 001, for comparison. A `device` other than
    the CPU serves the exact solver of softmax, and is refused elsewhere.
    """
    actions, policy = actions or NextK(10), policy or Softmax()
    log = observed_log(model, data, actions)
    baseline = baseline or ("factual" if isinstance(actions, Past) else "scores")
    if baseline not in ("scores", "predicted", "factual"):
        raise InputError("baseline", received=baseline, expected="'scores', 'predicted' or 'factual'")
    check_count("slate", slate)
    positions = np.arange(log.n_users) if users is None else np.unique(log.users_at(users))
    wanted = None if targets is None else np.unique(log.items_at(targets))
    for argument, asked in (("users", positions), ("targets", wanted)):
        if asked is not None and not len(asked):
            raise InputError(argument, received="no ids", expected=f"at least one, or None for all {argument}")
    inquiry = Inquiry(
        model, log, actions, policy, wanted, candidates, baseline, slate, tolerance, best_actions, rng, device
    )
    if solver not in ("exact", "gradient"):
        raise InputError("solver", received=solver, expected="'exact' or 'gradient'")
    if model.response is None:
        raise no_response(model)
    affine = model.response is AffineResponse
    exact = affine and solver == "exact" and not isinstance(actions, Future)
    check_device(device, policy, actions, slate, exact)
    ratings = told_ratings(model, log, actions, positions, rng)
    work: Ask | AskFuture | Follow | Search | SearchFuture | Solve
    if not affine or (solver == "gradient" and not isinstance(actions, Future)):
        check_pairs(inquiry, positions)
    if model.response is OpaqueResponse:
        work = AskFuture(inquiry, actions, budget) if isinstance(actions, Future) else Ask(inquiry, actions, budget)
    elif isinstance(actions, Future):
        work = Follow(inquiry, actions, solver) if affine else SearchFuture(inquiry, actions)
    elif exact:
        work = Solve(inquiry, actions)
    else:
        paper = solver == "gradient"
        work = Search(inquiry, actions, restarts=0 if paper else 3, polish=not paper)
    size = _USERS if device == "cpu" else 16 * _USERS
    parts = list((engine or Serial()).map(work, blocks(positions, size), "reachability"))
    settings = {
        "actions": repr(actions),
        **ratings,
        "policy": repr(policy),
        "candidates": candidates,
        "baseline": baseline,
        "slate": slate,
        "tolerance": tolerance,
        "solver": solver,
        "rng": rng,
        **({"budget": budget} if model.response is OpaqueResponse else {}),
    }
    return Reachability(log, settings, pl.concat(parts, rechunk=False), positions)
