"""Instability: how far one user can move what another is recommended.

Paper 001, Definitions 4.3 and 4.4: `max over the editor's ratings of d(P(viewer's item) after, P before)`. The editor's
ratings move the vectors of the rated items and nothing else, so that the maximum is exact (`solvers.own_item`), for
every pair of users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from recaudit.arguments import checked
from recaudit.arrays import IntArray
from recaudit.audits.candidates import Candidates
from recaudit.audits.clicks import told_ratings
from recaudit.audits.instability.ask import AskPairs
from recaudit.audits.instability.drawn import DrawnEdits
from recaudit.audits.instability.own_item import VIEWERS, Edits, SolveOwnItem
from recaudit.audits.instability.paired import SolvePairs, check_pairwise
from recaudit.audits.instability.question import InstabilityQuestion
from recaudit.audits.instability.result import Instability
from recaudit.audits.instability.tally import Tally
from recaudit.audits.logs import observed_log
from recaudit.audits.reachability.inquiry import Baseline
from recaudit.audits.reachability.search import refuse_many
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Actions, Future, NextK, Past
from recaudit.models.base import FittedModel
from recaudit.models.response import OpaqueResponse
from recaudit.policies import Policy, Softmax, Top1
from recaudit.solvers.distance.distances import Distance, check_distance

_MOST_PAIRS = 1_000_000
"""Pairs kept where nothing is said."""


@checked
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
    budget: int = 200,
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
    interval are tried, and rows have the status bounded. Where a rating moves the scores of many items, each pair is
    solved or bounded by itself. A system that can only be asked gets a `budget` of queries a pair; rows say how many
    `queries` it took, from how many `fresh` answers the value is estimated where answers are chance (it is then not
    above the truth with 97.5% confidence), and which `failure` left a pair without a value. Where items are
    drawn on the way (`Future(k, follows=...)`), the value is an expectation over what is drawn, and beyond one step
    `lower` and `upper` are 95% limits. An editor without a single action, a viewer without candidates and an `item`
    that is none of them have the status not_applicable.
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
    if item is not None and isinstance(edits, Actions) and edits.changes is not None:
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
    ratings = told_ratings(model, log, edits, asked[1], rng)
    question = InstabilityQuestion(
        model,
        log,
        asked[1],
        check_distance(distance),
        policy.beta,
        None if item is None else int(log.items_at([item])[0]),
        candidates,
        baseline,
        threshold,
        kept,
        best_ratings,
    )
    parts = (engine or Serial()).map(
        _solver(question, edits, len(asked[0]), budget, rng), blocks(asked[0], VIEWERS), "instability"
    )
    frames: list[pl.DataFrame] = []
    failed: list[int] = []

    def tallies() -> Iterator[Tally]:
        for part in parts:
            frames.append(part.frame)
            failed.append(part.failed)
            yield part.tally

    tally = Tally.joined(tallies())
    settings = {
        "edits": repr(edits),
        **ratings,
        "policy": repr(policy),
        "distance": distance,
        "item": item,
        "candidates": candidates,
        "baseline": baseline,
        "threshold": threshold,
        "rng": rng,
        **({"budget": budget} if model.response is OpaqueResponse else {}),
    }
    frame = pl.concat(frames, rechunk=False)
    return Instability(log, settings, question.distance, frame, tally, *asked, sum(failed))


def _positions(log: Interactions, ids: Iterable[object] | None, argument: str) -> IntArray:
    found = np.arange(log.n_users) if ids is None else np.unique(log.users_at(ids))
    if not len(found):
        raise InputError(argument, received="no ids", expected="at least one, or None for all users")
    return found


def _solver(
    ask: InstabilityQuestion, edits: Actions | Future, viewers: int, budget: int, rng: int
) -> AskPairs | DrawnEdits | SolveOwnItem | SolvePairs:
    """How the pairs are answered: it depends on what the edits move, and on how their items are chosen.

    An editor's ratings move the vectors of the rated items; users' vectors stay (paper 001, appendix D and Algorithm
    4). So they never change how the editor's own unrated items are ranked: whatever ratings are given on the way, the
    k items that a top-1 recommender shows one after the other are the k unseen ones with the highest scores.
    """
    opaque = ask.model.response is OpaqueResponse
    if isinstance(edits, Future) and opaque:
        raise NotSupportedError(
            f"{type(ask.model).__name__}: the editor's ratings may change what the editor is shown next, and future "
            "instability is for models where they do not. NextK(k) edits the k items that are next as things stand."
        )
    if isinstance(edits, Future) and not isinstance(edits.follows, Top1):
        return DrawnEdits.of(ask, edits, rng)
    actions = NextK(edits.k, ratings=edits.ratings) if isinstance(edits, Future) else edits
    if ask.model.others_move == "rated items":
        return SolveOwnItem(ask, Edits.of(ask, actions, rng), ask.members())
    refuse_many(viewers * len(ask.editors), "viewers, editors", ask.model)
    check_pairwise(ask, actions)
    if opaque:
        return AskPairs.of(ask, actions, budget, rng)
    return SolvePairs.of(ask, actions, rng)
