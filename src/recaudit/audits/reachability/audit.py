"""Reachability: the highest probability with which a user can get an item recommended by changing ratings.

Paper 000, Equation 1: `rho*(u, i) = max over the allowed actions a of P(item i is shown to u after a)`, where scores
after the action are `slope @ a + intercept` (the model's response).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, final

import polars as pl
from pydantic import Field

from recaudit.audits.asking import system_facts
from recaudit.audits.audit import Context, Subject, Verb
from recaudit.audits.logs import audited, rating_facts
from recaudit.audits.reachability.ask import AskActions, AskFuture, AskMethod
from recaudit.audits.reachability.definitions import REACHABILITY
from recaudit.audits.reachability.pairs import Method
from recaudit.audits.reachability.result import ReachabilityResult
from recaudit.audits.reachability.search import SearchActions, SearchFuture, SearchMethod
from recaudit.audits.reachability.solve import SolveActions, SolveFuture
from recaudit.audits.recipe import Max, Own, Probability, Recipe, Value
from recaudit.audits.rules import RuleAudit, rule_facts
from recaudit.audits.samples import (
    DRAWN_SCORES,
    DRAWN_TARGETS,
    EVERYBODY,
    MOST_SCORES,
    Baseline,
    Candidates,
    Effort,
    SomeIds,
    count_of,
    draw_facts,
    resolve_items,
    resolve_users,
)
from recaudit.audits.spill import Rows, lazily, worked_out
from recaudit.data.interactions import Interactions
from recaudit.engines.base import blocks
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import AnyActions, Future, GivenItems, NextK, Past
from recaudit.interventions.actions import CountedActions
from recaudit.interventions.ratings import observed_stars
from recaudit.models.base import FittedModel, check_response
from recaudit.models.response import AffineResponse, OpaqueResponse
from recaudit.policies import AnyPolicy, Softmax
from recaudit.specification import Count, Number, Some

USERS = 16
"""Users solved together: their responses fit in the cache's neighbourhood, and progress is visible."""


@final
class Reachability(RuleAudit):
    """What users can get recommended by changing their ratings.

    The largest probability of every target item for every user, with certified bounds.

    A user without a single action, and a target that is no candidate, have the status not_applicable. The log, if
    given, must be the one that the model was fitted to; for `Past(k)` also one that has the last k ratings besides,
    which the model has not seen.

    Where scores are no affine function of the ratings, each pair is searched for instead, by gradient ascent or, for
    a system that can only be asked, within a `budget` of queries a pair: a lower bound, with the status bounded. Then
    there are three columns more. `queries`: how many were asked for the pair, of whatever kind, never more than the
    budget. `fresh`: 0 where the system gave the same answer twice; else its answers are chance, `value` is the average
    of so many fresh answers about the best ratings found, and `lower` what its expectation is not below with 97.5%
    confidence. `failure`: what the system said when it failed for good; the pair has the status failed.
    """

    metrics = REACHABILITY
    drawn = ("users",)
    result = ReachabilityResult

    actions: AnyActions = NextK(10)
    """Which ratings are free, and within which bounds. For "past", the model is one without those ratings."""
    policy: AnyPolicy = Softmax()
    """How scores become a recommendation."""
    users: Some | None = None
    """Whose ratings are free: a count, drawn at random and the same for every model, ids, or "all". Where nothing is
    said all, as long as users x targets x items are at most 10^11 (MovieLens 1M); of larger logs so many users that
    they are 10^9, but at least 100, drawn by history: fewer targets leave room for more users."""
    targets: Some | None = None
    """The items whose probability is asked about: a count, ids, or "all", which are all candidates. By default all, or
    a random sample of 1,000 where users x items x items are more than 10^11."""
    candidates: Candidates = "unseen"
    """What the policy chooses from: items that are neither seen nor acted on (films), or all but the acted on (music,
    news)."""
    baseline: Baseline | None = None
    """The probability without strategy: at the model's "scores" (the paper's text, and the default), after the acted-on
    items were rated as "predicted" (the authors' code), or as they are in the log ("factual", the default for past)."""
    slate: Count = 1
    """How many items are shown, drawn without replacement: the probability is that of being among them. For softmax, a
    value that is surely reached below one that is surely not exceeded; the baseline is then 1 - (1 - rho)^slate, which
    the true one is not below."""
    tolerance: Annotated[Number, Field(gt=0)] = 1e-6
    """How far apart the bounds on a solved pair's log-probability may be."""
    solver: Literal["exact", "gradient"] = "exact"
    """Certified, or for every model gradient ascent, a lower bound: the method of paper 001, for comparison."""
    budget: Count = 200
    """Queries that a pair may take, of a system that can only be asked."""
    sequences: Count = 10_000
    """Where the items depend on the ratings (future): how many sequences of them the exact solvers follow at a step,
    for a user. Beyond, answers are bounded, from both sides."""
    best_actions: bool = False
    """Whether rows have the acted-on items and the ratings that reach the value."""
    threshold: Annotated[Number, Field(ge=0)] | None = None
    """The probability above which an item counts as discovered; by default better than uniform, 1 over the number of
    items that the policy chooses from, whichever of them are targets (paper 000, Equation 3)."""

    @property
    def recipe(self) -> Recipe:
        """The largest probability over one's own ratings."""
        return Recipe(Own(self.actions), Probability(), Value(), Max())

    @property
    def resolved_baseline(self) -> Baseline:
        """The baseline, where nothing is said the default for these actions."""
        return self.baseline or ("factual" if isinstance(self.actions, Past) else "scores")

    def free_ratings(self, data: Interactions) -> int:
        """Number of ratings that are free, at most."""
        match self.actions:
            case GivenItems():
                return min(len(self.actions.ids), data.n_items)
            case CountedActions() | Future():
                return min(self.actions.k, data.n_items)
        return int(data.user_counts.max(initial=0))

    def asking_effort(self, data: Interactions) -> Effort:
        """See `Audit`: every target is looked at beside all items."""
        targets = self.resolved_targets(data)
        most = MOST_SCORES if targets == self.targets else DRAWN_SCORES
        return Effort(count_of(targets, data.n_items) * data.n_items, most, DRAWN_SCORES)

    def drawn_from(self, data: Interactions) -> Reachability:
        """See `Audit`; and how many targets."""
        return super().drawn_from(data).model_copy(update={"targets": self.resolved_targets(data)})

    def resolved_targets(self, data: Interactions) -> SomeIds:
        """The targets that are asked about: by default all, unless they would cost too much for these users."""
        if self.targets is None and data.n_items > DRAWN_TARGETS:
            users = count_of(self.users, data.n_users)
            if users * data.n_items**2 > MOST_SCORES:
                return DRAWN_TARGETS
        return self.targets

    def check_loop(self) -> None:
        """See `Audit`; a past needs a model of its own."""
        super().check_loop()
        if isinstance(self.actions, Past):
            expected = "another kind: a past needs a model that was fitted without it"
            raise InputError("actions.kind", received="past", expected=expected)

    def measure(self, subject: Subject, context: Context) -> ReachabilityResult:
        """Solve every pair of the users asked about."""
        rng = context.rng
        model, log = audited(subject, self.actions, rng)
        method = self.method(model, log, rng)
        targets = log.n_items if method.targets is None else len(method.targets)
        users = resolve_users(self.users, log, rng, effort=self.asking_effort(log))
        if isinstance(method, SearchMethod):
            method.check_pairs(users)
        facts = {"baseline": self.resolved_baseline, **rating_facts(model, log, self.actions, users, rng)}
        facts |= rule_facts(self, subject, model, log, context)
        facts |= system_facts(model) | draw_facts(
            self.users, len(users), log, None if isinstance(self.targets, tuple) else targets
        )
        pairs = worked_out(self, context.engine, method, blocks(users, USERS), len(users) * targets)
        spent = isinstance(method, AskMethod) and not self.best_actions  # its budget: the system is not asked again
        example = None if spent else lambda: worked_example(method, pairs)
        return ReachabilityResult.of(
            self, log, users, pairs, rng=rng, facts=facts, example=example, engine=context.engine
        )

    def method(self, model: FittedModel, log: Interactions, rng: int) -> Method:
        """What answers: it follows from the response that the model says it has, and refuses what it does not know."""
        check_response(model)
        some = self.resolved_targets(log)
        targets = None if some in (None, EVERYBODY) else resolve_items(some, log, rng)
        asked = (self, model, log, targets, rng)
        future, affine = isinstance(self.actions, Future), model.response is AffineResponse
        if affine and self.solver == "exact" and not future:
            return SolveActions(*asked)
        if model.response is OpaqueResponse:
            return AskFuture(*asked) if future else AskActions(*asked)
        if future:
            return SolveFuture(*asked) if affine else SearchFuture(*asked)
        return SearchActions(*asked)


reachability = Verb(Reachability, ReachabilityResult)


def worked_example(method: Method, pairs: Rows) -> pl.DataFrame:
    """The pair that climbs the most places, with its best action; without columns where none climbs.

    The larger best chance decides among equals. Chances that differ by rounding alone are equal, so that the same pair
    is taken on every machine. For all pairs the actions would be many times the size of everything else.

    If all ratings of the dataset are whole or half steps, the best action of the pair is one of such ratings, as advice
    must name ratings that users can give; its value can be below that of the pair, for which any number is allowed.
    """
    climbing = lazily(pairs).filter(pl.col("rank_gain") > 0).with_row_index("row")
    rounded = pl.col("value").round_sig_figs(9)
    best = (
        climbing.sort(pl.col("rank_gain"), rounded, "row", descending=[True, True, False])
        .head(1)
        .collect(engine="streaming")
    )
    if best.is_empty():
        return pl.DataFrame()
    is_said = method.audit.actions.ratings is not None
    stars = None if is_said else observed_stars(method.log.ratings, method.log.scale)
    if method.audit.best_actions and stars is None:
        return best.drop("row")
    audit = method.audit.model_copy(update={"best_actions": True})
    user, target = method.log.users_at(best["user"]), method.log.items_at(best["item"])
    if stars is None:
        return replace(method, audit=audit, targets=target)(user)
    actions: Any = audit.actions  # all actions are dataclasses
    audit = audit.model_copy(update={"actions": replace(actions, ratings=stars)})
    try:
        example = replace(method, audit=audit, targets=target)(user)
    except NotSupportedError:  # no solver for ratings in steps
        return pl.DataFrame()
    return example.filter(pl.col("rank_gain") > 0) if "rank_gain" in example.columns else example
