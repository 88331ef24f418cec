"""Recourse: the least that users must do to bring an outcome about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import polars as pl
from scipy import sparse

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.asking import FAILURES, Visit
from recaudit.audits.audit import Context, Subject, Verb
from recaudit.audits.calibration.calibrator import interests, systems_of
from recaudit.audits.failures import cause_of
from recaudit.audits.fidelity.audit import Edit
from recaudit.audits.logs import audited, rating_facts
from recaudit.audits.reachability.search import refuse_many
from recaudit.audits.recipe.recipe import Rung, rung_of
from recaudit.audits.recourse.definitions import RECOURSE
from recaudit.audits.recourse.goals import AmongFirst, AnyEffort, AnyGoal, CategoryShare, Changes, OutOfFirst, Sight
from recaudit.audits.recourse.result import RecourseResult
from recaudit.audits.rules import RuleAudit, untested
from recaudit.audits.samples import Candidates, candidate_items, resolve_users
from recaudit.data.interactions import Interactions
from recaudit.engines import track
from recaudit.engines.base import blocks
from recaudit.errors import UNMEASURED, InputError, NotSupportedError, did_you_mean
from recaudit.interventions import Actions, AnyActions, Future, Interval, NextK, Stars
from recaudit.interventions.ratings import free_ratings, observed_stars
from recaudit.interventions.who import Own
from recaudit.machine import reason_not_measured
from recaudit.metrics.groupings import BOTH, Grouping, groupings
from recaudit.models.base import FittedModel, check_response
from recaudit.models.given.black_box import BlackBox
from recaudit.models.response import AffineResponse
from recaudit.ranking import top_items
from recaudit.seeding import derive, uniforms
from recaudit.solvers.recourse.least import Certainty, Choices, LeastEffort
from recaudit.solvers.recourse.programs import FreeRatings, interval_effort
from recaudit.solvers.recourse.search import searched_effort
from recaudit.specification import Count, Some
from recaudit.status import Status

_USERS = 4
"""Users that are answered together."""
_GRID = 5
"""So many ratings of an interval are tried where scores can only be asked for."""
_STATUS = {
    Certainty.LEAST: Status.SOLVED,
    Certainty.SOME: Status.BOUNDED,
    Certainty.NONE: Status.BOUNDED,
    Certainty.IMPOSSIBLE: Status.IMPOSSIBLE,
}


@final
class Recourse(RuleAudit):
    """The least that users must do to bring an outcome about.

    For every user and item (or every user, where the goal is about a list): the smallest effort, with a lower bound,
    and the changes that do it.

    Exact where scores are affine in the ratings: solved where no smaller effort does it, impossible where it is proved
    that no allowed ratings do, and bounded where the budget ended before either was known; the value is then the
    smallest effort found, if any. For other models ratings are changed one after the other while that helps: rows are
    bounded, never impossible, and solved where the cheapest change is enough.

    A rating that is not changed stays as it is; an item that was not rated yet counts as rated as the model predicts.
    Items whose ratings are free are not recommended.
    """

    metrics = RECOURSE
    drawn = ("users",)
    result = RecourseResult

    goal: AnyGoal = AmongFirst(10)
    """What is to be brought about."""
    effort: AnyEffort = Changes()
    """What counts as effort."""
    actions: AnyActions | None = None
    """Which ratings are free, and what they may become; by default the next 10 items. If the actions name no ratings,
    users can give the whole or half steps in which the dataset's ratings are."""
    users: Some | None = 100
    """Whose ratings are free: a count, drawn at random and the same for every model, or ids."""
    items: Some | None = 20
    """The items asked about: a count, of the candidates of each user, drawn at random, or ids; all candidates where it
    is None. To be kept out of a list, the first so many of the list as it is. Without meaning for goals about lists."""
    candidates: Candidates = "unseen"
    """What lists are made of: items that are neither seen nor acted on (films), or all but the acted on (music,
    news)."""
    categories: str | None = None
    """The category system of goals about lists; the log's only one where nothing is said."""
    budget: Count = 200_000
    """How many nodes of the search trees may be looked at for a pair; of a system that can only be asked, 200 queries
    where nothing is said."""

    @property
    def rung(self) -> Rung:
        """That of the ratings that are free; a least effort is no recipe's number."""
        return rung_of(Own(self.actions or NextK(10)))

    def measure(self, subject: Subject, context: Context) -> RecourseResult:
        """The least effort of every user and item asked about."""
        rng = context.rng
        model, log = audited(subject, self.actions or NextK(10), rng)
        audit = self.model_copy(update={"actions": self._actions(log)})
        self.groupings(log)
        check_response(model)
        users = resolve_users(audit.users, log, rng)
        method = RecourseMethod.of(audit, model, log, rng)
        if not method.exact:
            refuse_many(len(users) * method.each, "users, items", model)
        facts = {**rating_facts(model, log, method.actions, users, rng), "rule": model.rule}
        parts = list(context.engine.map(method, blocks(users, _USERS), "recourse"))
        pairs = pl.concat(parts, rechunk=False)
        facts["fidelity"] = method.refitted(subject, pairs, audit.refits)
        return RecourseResult.of(audit, log, users, pairs, rng=rng, facts=facts)

    def check(self, data: Interactions) -> None:
        """Groupings, and the categories that the goal names."""
        super().check(data)
        self.groupings(data)
        if self.goal.needs_categories:
            _category_shares(self, data)

    def groupings(self, data: Interactions) -> list[Grouping]:
        """Those to report; where the goal is about no item, of users alone."""
        return groupings(data, self.by, BOTH if self.goal.about_an_item else ("users",))

    def _actions(self, log: Interactions) -> Actions:
        """The actions, with ratings that users can give if none are named."""
        if isinstance(self.actions, Future):
            raise NotSupportedError(
                "Which items a future is about depends on the ratings: recourse takes NextK, Past, HistoryEdits, "
                "FutureEdits and GivenItems."
            )
        if self.actions is not None:
            if self.actions.changes is not None:
                remedy = "LeastEffort says how many are changed; its curve has the share within each number of changes."
                raise InputError("actions.changes", received=self.actions.changes, expected="none", remedy=remedy)
            actions: Actions = self.actions
        else:
            actions = NextK(10)
        if actions.ratings is not None:
            return actions
        return replace(actions, ratings=_givable_ratings(log))  # type: ignore[type-var]  # all actions are dataclasses


recourse = Verb(Recourse, RecourseResult)


def _givable_ratings(log: Interactions) -> Stars | Interval:
    """Ratings that users can give: the steps of the ratings that there are, else whole or half steps of the scale."""
    if (stars := observed_stars(log.ratings, log.scale)) is not None:
        return stars
    ratings = free_ratings(None, log.scale)
    for step in (1.0, 0.5):
        if isinstance(ratings, Interval) and (ratings.high - ratings.low) % step == 0 and ratings.low % step == 0:
            return Stars(ratings.low, ratings.high, step)
    return ratings


def _category_shares(audit: Recourse, data: Interactions) -> FloatArray:
    """(items, categories): how much of each item belongs to the categories that the goal is about."""
    system = data.categories[next(iter(systems_of(data, audit.categories)))]
    shares: FloatArray = system.weights.toarray()
    if isinstance(audit.goal, CategoryShare):
        if audit.goal.category not in system.names:
            remedy = did_you_mean(audit.goal.category, system.names)
            raise InputError("goal.category", received=audit.goal.category, expected="a category", remedy=remedy)
        shares = shares[:, [system.names.index(audit.goal.category)]]
    return shares


@final
@dataclass(frozen=True, eq=False)
class RecourseMethod:
    """A block of users (positions) in, a row for each of their pairs out. Pure and picklable."""

    audit: Recourse
    actions: Actions
    model: FittedModel
    log: Interactions
    rng: int
    named: IntArray | None  # positions of the items asked about; None where they are drawn for each user
    shares: FloatArray  # (items, categories)
    interests: FloatArray  # (users, categories)

    @classmethod
    def of(cls, audit: Recourse, model: FittedModel, log: Interactions, rng: int) -> RecourseMethod:
        """With ids looked up."""
        assert isinstance(audit.actions, Actions)
        if isinstance(model, BlackBox) and model.lists is not None:
            raise NotSupportedError("Recourse goes by scores, and this system gives lists alone.")
        named = audit.items if isinstance(audit.items, tuple | list) else None
        shares, own = np.zeros((log.n_items, 0)), np.zeros((log.n_users, 0))
        if audit.goal.needs_categories:
            shares = _category_shares(audit, log)
            system = log.categories[next(iter(systems_of(log, audit.categories)))]
            own = interests(
                sparse.csr_array((np.ones(len(log)), log.items, log.indptr), shape=(log.n_users, log.n_items)),
                system.weights,
            )
        found = None if named is None else np.unique(log.items_at(named))
        return cls(audit, audit.actions, model, log, rng, found, shares, own)

    @property
    def exact(self) -> bool:
        """Whether scores are affine in the ratings."""
        return self.model.response is AffineResponse

    @property
    def each(self) -> int:
        """How many outcomes are asked about for each user."""
        if not self.audit.goal.about_an_item:
            return 1
        if self.named is not None:
            return len(self.named)
        return self.audit.items if isinstance(self.audit.items, int) else self.log.n_items

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """The rows of these users (positions)."""
        rows: list[dict[str, Any]] = []
        if self.exact:
            rows = self._rows(users)
        else:
            for user in users.tolist():
                try:
                    rows += self._rows(np.array([user]))
                except FAILURES as error:
                    rows += self._failed_rows(user, cause_of(error))
        names = {"user": self.log.user_ids.dtype, "item": self.log.item_ids.dtype}
        schema: dict[str, Any] = {
            **(names if self.audit.goal.about_an_item else {"user": names["user"]}),
            **dict.fromkeys(("value", "lower", "upper"), pl.Float64),
            "status": pl.Enum([status.value for status in Status]),
            "changes": pl.Int32,
            "action_items": pl.List(names["item"]),
            **dict.fromkeys(("before_ratings", "action_ratings"), pl.List(pl.Float64)),
            "nodes": pl.Int64,
            **({} if self.exact else {"failure": pl.String}),
        }
        return pl.DataFrame(rows, schema, orient="row")

    def _rows(self, users: IntArray) -> list[dict[str, Any]]:
        items = self.actions.items(self.model, users, self.rng, self.log)
        now = self.actions.unchanged(self.model, users, items, self.log)
        allowed = candidate_items(self.log, users, items, self.audit.candidates)
        responses = self.model.own_responses(users, items) if self.exact else None
        rows: list[dict[str, Any]] = []
        for row, user in enumerate(users.tolist()):
            free = np.flatnonzero(items[row] >= 0)
            among = self._among(user, allowed[row])
            mine = items[row, free], now[row, free]
            if responses is not None:
                slope = responses.slope[row][among][:, free]
                scores = responses.intercept[row][among] + slope @ mine[1]
                sight = self._sight(user, np.ascontiguousarray(slope), scores, among)
                rows += self._answers(user, sight, among, *mine)
            else:
                rows += self._searches(user, among, *mine)
        return rows

    def _failed_rows(self, user: int, cause: str) -> list[dict[str, Any]]:
        """Rows for a user about whom the system gave no answer."""
        among = np.flatnonzero(candidate_items(self.log, np.array([user]), None, self.audit.candidates)[0])
        failed = {"status": Status.FAILED.value, "failure": cause}
        return [self._row(user, item, **failed) for item in self._targets(user, among).tolist()]

    def _among(self, user: int, allowed: BoolArray) -> IntArray:
        """Positions of the candidates, of `allowed` (items,), in the order in which tied ones go: solvers follow it."""
        among = np.flatnonzero(allowed)
        return among[self.log.tie_keys(np.array([user])).columns(among).order()]

    def _sight(self, user: int, slope: FloatArray, scores: FloatArray, among: IntArray) -> Sight:
        return Sight(slope, scores, self.shares[among], self.interests[user])

    def _targets(self, user: int, among: IntArray) -> IntArray:
        """Positions of the items asked about; -1 for the list."""
        if not self.audit.goal.about_an_item:
            return np.array([-1])
        if self.named is not None:
            return self.named
        if not isinstance(self.audit.items, int):
            return np.sort(among)
        if isinstance(self.audit.goal, OutOfFirst):  # of what is in the list: nothing else has to be kept out
            scores, n = self.model.scores(np.array([user])), self.audit.goal.n
            allowed = np.zeros(scores.shape, dtype=np.bool_)
            allowed[0, among] = True
            shown = top_items(scores, allowed, min(n, len(among)), self.model.data.tie_keys(np.array([user])))[0]
            return np.sort(shown[: self.each])
        draws = uniforms(derive(self.rng, "recourse"), self.log.user_keys[[user]][:, None], self.log.item_keys[among])
        return np.sort(among[np.argsort(draws.ravel(), kind="stable")[: self.each]])

    def _row(self, user: int, item: int, **more: Any) -> dict[str, Any]:
        row = {"user": self.log.user_ids[user]} | ({"item": self.log.item_ids[item]} if item >= 0 else {})
        return row | {"status": Status.NOT_APPLICABLE.value} | more

    def _askable(self, user: int, among: IntArray, items: IntArray) -> Iterator[tuple[int, int | None]]:
        """The items asked about, and where they stand among the candidates; None where there is nothing to answer."""
        measurable = len(items) > 0 and len(among) > 0
        if self.audit.goal.needs_categories:
            measurable &= bool(self.interests[user].sum() > 0)
        order = np.argsort(among)
        for item in self._targets(user, among):
            at = -1
            if item >= 0:
                place = int(np.searchsorted(among, item, sorter=order))
                at = int(order[place]) if place < len(among) and among[order[place]] == item else -1
            yield int(item), at if measurable and (at >= 0 or item < 0) else None

    def _answers(
        self, user: int, sight: Sight, among: IntArray, items: IntArray, now: FloatArray
    ) -> list[dict[str, Any]]:
        audit, ratings = self.audit, free_ratings(self.actions.ratings, self.log.scale)
        ids = self.log.item_ids.gather(items).to_list()
        costs, found = audit.effort.costs(ids), []
        for item, at in self._askable(user, among, items):
            if at is None:
                found.append(self._row(user, item))
            elif isinstance(ratings, Stars):
                choices = self._choices(now, ratings.values, costs)
                answer = audit.goal.by_stars(sight, at, choices, audit.budget)
                found.append(self._told(user, item, answer, choices, ids, now))
            else:
                free = FreeRatings(now, ratings.low, ratings.high, costs)
                wide = interval_effort(audit.goal.program(sight, at, free), free, audit.budget)
                found.append(self._row(user, item, **_numbers(wide.found, wide.value, wide.lower, wide.nodes)))
                if wide.value < np.inf:
                    found[-1] |= _edits(ids, now, wide.moves)
        return found

    def _choices(self, now: FloatArray, values: FloatArray, costs: FloatArray | None) -> Choices:
        return Choices.of_stars(
            now, values, lambda moves: np.abs(moves) if costs is None else np.repeat(costs[:, None], len(values), 1)
        )

    def _told(
        self, user: int, item: int, answer: LeastEffort, choices: Choices, ids: list[object], now: FloatArray
    ) -> dict[str, Any]:
        row = self._row(user, item, **_numbers(answer.found, answer.value, answer.lower, answer.nodes))
        if answer.value < np.inf:
            moves = np.where(answer.option >= 0, choices.moves[np.arange(len(now)), answer.option], 0.0)
            row |= _edits(ids, now, moves)
        return row

    def _searches(self, user: int, among: IntArray, items: IntArray, now: FloatArray) -> list[dict[str, Any]]:
        """Where scores can only be asked for."""
        audit, ratings = self.audit, free_ratings(self.actions.ratings, self.log.scale)
        values = ratings.values if isinstance(ratings, Stars) else np.linspace(ratings.low, ratings.high, _GRID)
        ids, found = self.log.item_ids.gather(items).to_list(), []
        choices = self._choices(now, values, costs := audit.effort.costs(ids))
        # Of an interval a few ratings are tried: how far one has to move at least they do not say.
        least = choices.least if costs is not None or isinstance(ratings, Stars) else 0.0
        budget = audit.budget if "budget" in audit.model_fields_set else 200
        for item, at in self._askable(user, among, items):
            if at is None:
                found.append(self._row(user, item))
                continue
            asked = Visit.of(self.model, budget).model if isinstance(self.model, BlackBox) else self.model
            response = asked.respond(user, user, items)

            def height(moves: FloatArray, response: Any = response, at: int = at) -> float:
                scores = response.scores(now + moves)[among]
                return audit.goal.height(self._sight(user, np.zeros((len(among), 1)), scores, among), at)

            try:
                answer = searched_effort(height, choices, budget, least)
            except FAILURES as error:
                found.append(self._row(user, item, status=Status.FAILED.value, failure=cause_of(error)))
                continue
            found.append(self._told(user, item, answer, choices, ids, now))
        return found

    def refitted(self, subject: Subject, pairs: pl.DataFrame, refits: int) -> dict[str, Any]:
        """How many of `refits` randomly sampled promises a refit on the log with the changed ratings keeps."""
        recommender = subject.recommender
        if (why := untested(recommender, refits)) or recommender is None:
            return {"not_measured": why}
        promised = pairs.filter(pl.col("value") > 0)
        users = self.log.user_keys[self.log.users_at(promised["user"])]
        items = self.log.item_keys[self.log.items_at(promised["item"])] if "item" in promised.columns else users
        # A random sample of the promises: the easiest ones are kept more often.
        order = np.argsort(uniforms(derive(self.rng, "recourse refits"), users, items), kind="stable")
        tested = promised[order[:refits]]
        kept = 0
        for pair in track(tested.iter_rows(named=True), "refits", len(tested)):
            edit = Edit.of(self.log, pair["user"], pair)
            assert edit is not None
            user = np.array([edit.user])
            acted = self.actions.items(self.model, user, self.rng, self.log)
            among = self._among(edit.user, candidate_items(self.log, user, acted, self.audit.candidates)[0])
            try:
                scores = recommender.fit(edit.written(self.log), self.rng).scores(user)[0][among]
            except UNMEASURED as error:
                return {"not_measured": reason_not_measured(error)}
            at = int(np.flatnonzero(among == self.log.items_at([pair["item"]])[0])[0]) if "item" in pair else -1
            sight = self._sight(edit.user, np.zeros((len(among), 1)), scores, among)
            kept += self.audit.goal.height(sight, at) >= 0
        if tested.is_empty():
            return {"not_measured": "nothing is within reach with any effort"}
        return {"pairs": len(tested), "kept": kept, "mean_effort": tested["value"].mean()}


def _numbers(found: Certainty, value: float, lower: float, nodes: int) -> dict[str, Any]:
    known: dict[str, Any] = {"status": _STATUS[found].value, "nodes": nodes}
    if found is not Certainty.IMPOSSIBLE:
        known["lower"] = lower
    if value < np.inf:
        known |= {"value": value, "upper": value}
    return known


def _edits(ids: list[object], now: FloatArray, moves: FloatArray) -> dict[str, Any]:
    """The ratings that change."""
    changed = np.flatnonzero(moves)
    return {
        "changes": len(changed),
        "action_items": [ids[place] for place in changed],
        "before_ratings": now[changed].tolist(),
        "action_ratings": (now + moves)[changed].tolist(),
    }
