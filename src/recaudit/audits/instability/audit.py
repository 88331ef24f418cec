"""Instability: how far one user can move what another is recommended (paper 001, Definitions 4.3 and 4.4)."""

from __future__ import annotations

from functools import cache, partial
from typing import Annotated, Any, final

import numpy as np
from pydantic import Field

from recaudit.arrays import IntArray
from recaudit.audits import spill
from recaudit.audits.audit import Context, Subject, Verb
from recaudit.audits.instability.definitions import INSTABILITY
from recaudit.audits.instability.pairs import PairSolver, PairTotals, WritesPairs
from recaudit.audits.instability.result import InstabilityResult, averages, histogram, people
from recaudit.audits.instability.solvers import (
    VIEWERS,
    BlackBoxSolver,
    DrawnItemsSolver,
    NoEffectSolver,
    OwnItemSolver,
    PairwiseSolver,
)
from recaudit.audits.logs import audited, rating_facts
from recaudit.audits.reachability.search import refuse_many
from recaudit.audits.recipe import Distribution, Max, Moved, Others, Recipe
from recaudit.audits.result import Table
from recaudit.audits.rules import RuleAudit, rule_facts
from recaudit.audits.samples import Baseline, Candidates, Effort, count_of, draw_facts, resolve_users
from recaudit.audits.spill import Part, SpilledRows, numbered_parts
from recaudit.data.interactions import Interactions
from recaudit.engines.base import blocks
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Actions, AnyActions, Future, NextK, Past
from recaudit.metrics.groupings import groupings
from recaudit.metrics.inference import Bounds
from recaudit.metrics.metric import Metric
from recaudit.models.base import FittedModel
from recaudit.models.response import AffineResponse, OpaqueResponse
from recaudit.policies import AnyPolicy, Softmax, Top1
from recaudit.solvers.distance.distances import Distance, largest_distance
from recaudit.specification import Count, Id, Number, Some

_NO_EFFECT = (
    "the model sees the target user's own ratings only, so another user's ratings have no effect until it is trained "
    "again; every distance is 0 without a query"
)
_MOST_PAIRS = 1_000_000
"""Pairs kept where nothing is said."""
_MOST_ASKED = 40_000_000
"""Pairs asked about where nothing is said: all those of MovieLens 1M, half a microsecond each."""


@final
class Instability(RuleAudit):
    """How far one user can move what another is recommended by changing ratings.

    The largest distance between a viewer's recommendations before and after an editor's edits, for every pair.

    Values are exact for stars, and for intervals where scores are affine in ratings; elsewhere 33 ratings of the
    interval are tried, and rows have the status bounded. Where a rating moves the scores of many items, each pair is
    solved or bounded by itself. A system that can only be asked is searched within a budget; rows say how many
    `queries` it took, from how many `fresh` answers the value is estimated where answers are chance (it is then not
    above the truth with 97.5% confidence), and which `failure` left a pair without a value. Where items are
    drawn on the way (`Future(k, follows=...)`), the value is an expectation over what is drawn, and beyond one step
    `lower` and `upper` are 95% limits. An editor without a single action, a viewer without candidates and an `item`
    that is none of them have the status not_applicable.
    """

    metrics = INSTABILITY
    drawn = ("viewers", "editors")
    split_by = ("users",)
    result = InstabilityResult

    edits: AnyActions = Past(5)
    """Which of the editor's ratings are free, and within which bounds; a limit on changes leaves the others as in the
    baseline."""
    viewers: Some | None = None
    """Whose recommendations are looked at: a count, drawn at random and the same for every model, ids, or "all". Where
    nothing is said all, or of those whose pairs with the editors would be more than 40 million so many, drawn by
    history."""
    editors: Some | None = None
    """Who rates; all users where nothing is said. Nobody is their own editor: that is reachability."""
    distance: Distance = "hellinger"
    """Of the distributions over the viewer's candidates."""
    policy: AnyPolicy = Softmax()
    """How scores become a recommendation: softmax."""
    item: Id | None = None
    """The distance is that of two outcomes alone: this item is shown, or it is not."""
    candidates: Candidates = "unseen"
    """What is chosen from: the items that the viewer has not rated, or all."""
    baseline: Baseline | None = None
    """The distribution before: with the editor's ratings as they are in the log ("factual", the default for `Past`), at
    the model's "scores" (the default elsewhere, and what the paper's Algorithm 3 does), or with the edited items rated
    as "predicted" for the editor."""
    threshold: Annotated[Number, Field(ge=0)] = 0.5
    """The value above which a pair counts as unstable."""
    pairs: bool | None = None
    """Whether to keep a row for each pair; where nothing is said, up to a million of them."""
    best_ratings: bool = False
    """Whether rows have the items whose ratings matter to the viewer, and the ratings that reach the value."""
    budget: Count = 200
    """Queries a pair, for a system that can only be asked."""

    @property
    def recipe(self) -> Recipe:
        """The largest distance over another user's ratings."""
        return Recipe(Others(self.edits), Distribution(), Moved(self.distance), Max())

    @property
    def resolved_baseline(self) -> Baseline:
        """The baseline, where nothing is said the default for these edits."""
        return self.baseline or ("factual" if isinstance(self.edits, Past) else "scores")

    def bounds_of(self, metric: Metric) -> Bounds:
        """See `Audit`: some distances have a largest value.

        Mean instability has no upper bound here, because an average over all editors never comes near it.
        """
        return (0.0, largest_distance(self.distance)) if metric.name == "max_instability" else metric.bounds

    def asking_effort(self, data: Interactions) -> Effort:
        """See `Audit`: a viewer is looked at beside every editor."""
        return Effort(count_of(self.editors, data.n_users), _MOST_ASKED, _MOST_ASKED)

    def measure(self, subject: Subject, context: Context) -> InstabilityResult:
        """Solve every pair, and add up."""
        rng = context.rng
        if subject.model is not None:  # before others are fitted, or logs made for them
            _check_follows(subject.model)
        model, log = audited(subject, self.edits, rng)
        if not isinstance(self.policy, Softmax):
            raise NotSupportedError(
                f"Instability under {self.policy!r} has no exact solver. Softmax(beta=...) has one; "
                "a large beta comes close to the top item alone."
            )
        if self.item is not None and isinstance(self.edits, Actions) and self.edits.changes is not None:
            raise NotSupportedError("A limit on changes has no solver for one item. Leave out item, or the limit.")
        grouped = groupings(log, self.by, self.split_by)
        editors = resolve_users(self.editors, log, rng, "editors")
        viewers = resolve_users(self.viewers, log, rng, "viewers", self.asking_effort(log))
        kept = len(viewers) * len(editors) <= _MOST_PAIRS if self.pairs is None else self.pairs
        if self.best_ratings and not kept:
            expected, remedy = "a row a pair to hold them", "Pass pairs=True, or fewer viewers and editors."
            raise InputError("best_ratings", received="True without pairs", expected=expected, remedy=remedy)
        ratings = rating_facts(model, log, self.edits, editors, rng)
        solver = _solver(self.model_copy(update={"pairs": kept}), model, log, len(viewers), editors, rng)
        pieces, most = blocks(viewers, VIEWERS), len(viewers) * len(editors)
        if kept and most > spill.MOST_ROWS:
            table = SpilledRows.begun(self, "pairs", context.engine)
            writes = context.engine.map(WritesPairs(solver, table.folder), numbered_parts(pieces, most), "instability")
            totals = PairTotals.joined(writes, table)
            table.note()
        else:
            totals = PairTotals.joined(context.engine.map(solver, pieces, "instability"))
        assert not isinstance(totals.pairs, Part)
        looking, rating = log.user_ids.gather(viewers), log.user_ids.gather(editors)

        @cache
        def averaged() -> dict[str, Any]:
            return self.aggregated(averages(totals, viewers, grouped), log, viewers)

        tables: dict[str, Table] = {
            **{name: partial(lambda name: averaged()[name], name) for name in ("summary", "groups", "terms", "people")},
            "users": people(totals.viewers, looking, "user", rating, "editor"),
            "editors": people(totals.editors, rating, "editor", looking, "viewer"),
            "histogram": histogram(totals.bins, self.distance),
            "pairs": totals.pairs,
        }
        ratings |= rule_facts(self, subject, model, log, context)
        if model.others_move == "nothing":
            ratings["rule"] = _NO_EFFECT
        facts = {**ratings, "baseline": self.resolved_baseline, "statuses": totals.statuses()}
        facts |= draw_facts(self.viewers, len(viewers), log)
        return InstabilityResult(self, tables, rng=rng, facts=facts)


instability = Verb(Instability, InstabilityResult)


def _check_follows(model: FittedModel) -> None:
    """Check that scores follow others' ratings in a way that has a solver; raise NotSupportedError if they do not."""
    if model.response is AffineResponse and model.others_move == "any item":
        raise NotSupportedError(
            f"{model.called}: instability does not support affine responses in which a rating of another user moves "
            "the scores of many items. Affine responses are supported if a rating moves the score of its own item "
            "only. Query the model as a black box instead: ra.models.as_black_box(model), with a budget."
        )
    if model.response is not OpaqueResponse and model.others_move != "rated items":
        model.respond(1, 0, np.zeros(1, dtype=np.int64))


def _solver(
    audit: Instability, model: FittedModel, log: Interactions, viewers: int, editors: IntArray, rng: int
) -> PairSolver:
    """How the pairs are answered: it depends on what the edits move, and on how their items are chosen.

    An editor's ratings move the vectors of the rated items; users' vectors stay (paper 001, appendix D and Algorithm
    4). So they never change how the editor's own unrated items are ranked: whatever ratings are given on the way, the
    k items that a top-1 recommender shows one after the other are the k unseen ones with the highest scores.
    """
    if model.others_move == "nothing":
        return NoEffectSolver(audit, model, log, editors, rng)
    opaque, edits = model.response is OpaqueResponse, audit.edits
    if isinstance(edits, Future):
        if opaque:
            raise NotSupportedError(
                f"{model.called}: the editor's ratings may change what the editor is shown next, and future "
                "instability is for models where they do not. NextK(k) edits the k items that are next as things stand."
            )
        if not isinstance(edits.follows, Top1):
            return DrawnItemsSolver(audit, model, log, editors, rng)
        edits = NextK(edits.k, ratings=edits.ratings)
        audit = audit.model_copy(update={"edits": edits})
    if model.others_move == "rated items":
        return OwnItemSolver(audit, model, log, editors, rng)
    _check_follows(model)
    refuse_many(viewers * len(editors), "viewers, editors", model)
    if audit.item is not None or edits.changes is not None:
        raise NotSupportedError(
            f"{model.called}: a rating of another user may move many scores, and then neither one item "
            "alone nor a limit on changes has a solver. Leave out item and changes."
        )
    return (BlackBoxSolver if opaque else PairwiseSolver)(audit, model, log, editors, rng)
