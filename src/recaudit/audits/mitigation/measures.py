"""The numbers of one setting of a lever: by the audits that define them, over the same people at every setting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, final

import numpy as np
import polars as pl
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.audit import Context
from recaudit.audits.calibration.calibrator import Target, interests, with_system
from recaudit.audits.calibration.measures import kl
from recaudit.audits.folding.metric import FoldingSpace, JudgedLists
from recaudit.audits.folding.relatedness import HasVectors, Relatedness, unit_rows, vectors_of
from recaudit.audits.instability.audit import Instability
from recaudit.audits.lists.accuracy import Accuracy, check_same_ids
from recaudit.audits.lists.exposure import Exposure, gini, incidence
from recaudit.audits.lists.recommend import lists_of
from recaudit.audits.logs import rating_facts
from recaudit.audits.mitigation.definitions import (
    ACCURATE,
    CHANGING,
    EXPOSED,
    FOLDED,
    FUTURE,
    MOVED,
    ORDER,
    PLACES,
    REACHED,
    REPLACED,
)
from recaudit.audits.mitigation.levers import Setting
from recaudit.audits.mitigation.places import PlaceSearch, ReplacementSearch
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.samples import resolve_items, resolve_users
from recaudit.data.interactions import Interactions
from recaudit.engines.base import blocks
from recaudit.errors import NotSupportedError
from recaudit.interventions import NextK
from recaudit.metrics.intervals import aggregate, estimate_difference_of_lists, mean, paired_difference, row, standing
from recaudit.metrics.tables import SUMMARY_SCHEMA, user_table
from recaudit.models.base import NO_LIST, FittedModel, check_response
from recaudit.models.response import OpaqueResponse
from recaudit.policies import Softmax
from recaudit.policies.calibrated import Calibrated, CalibrationTarget
from recaudit.solvers.lists.objective import list_distribution, rank_weights
from recaudit.status import Status

if TYPE_CHECKING:
    from recaudit.audits.mitigation.audit import Mitigation

WHOLE = "Re-ranked lists have no probability of a single item: what is asked about are places in them."
DRAWN = "Lists that are drawn have no certain places: what is asked about are the chances of single items."
_SEARCHED = 4
"""Users of a piece of work: each is searched for a while."""


@final
@dataclass(frozen=True, eq=False)
class Numbers:
    """What a setting comes to."""

    frame: pl.DataFrame
    """A row a metric, as SUMMARY_SCHEMA."""
    users: pl.DataFrame
    """A row a user: the id, and each metric that users have a value of their own of."""
    pairs: pl.DataFrame = field(default_factory=pl.DataFrame)
    """A row for each place that was searched for: user, item, value, upper, status."""
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """By reason, the metrics that it lacks."""
    lists: IntArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    """(users, k): what everybody is shown; `NO_LIST` where that is not known."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What is to be said of a system that was asked for lists."""

    def only(self, names: Iterable[str]) -> Numbers:
        """The same of these metrics alone."""
        kept = {"user", *names}
        users = self.users.select(name for name in self.users.columns if name in kept)
        return replace(self, frame=self.frame.filter(pl.col("metric").is_in(kept)), users=users)


@final
class Yardstick:
    """What every setting is measured by: the people, the items and the log stay the same."""

    def __init__(self, audit: Mitigation, data: Interactions, test: Interactions, context: Context) -> None:
        check_same_ids(data, test)
        self.audit, self.data, self.test, self.context = audit, data, test, context
        self.common: dict[str, Any] = {"by": (), "confidence": audit.confidence}
        self.users = resolve_users(audit.users, data, context.rng)
        self.targets = resolve_items(audit.targets, data, context.rng)
        self.editors = resolve_users(audit.editors, data, context.rng, "editors")

    @property
    def sampled(self) -> dict[str, int]:
        """Of how many reachability and instability are asked."""
        return {"users": len(self.users), "targets": len(self.targets), "editors": len(self.editors)}

    @cached_property
    def _relatedness(self) -> Relatedness:
        """From who rated what, and never from the categories that lists are calibrated to."""
        return Relatedness.from_log(self.data)

    @cached_property
    def _chosen(self) -> tuple[Target, FloatArray, CalibrationTarget]:
        """The target, whose categories count, what users went on to choose (users, genres), and what is compared."""
        wanted = with_system(self.audit, self.data)
        kept = {name: getattr(wanted, name) for name in ("categories", "rank_weights", "smoothing")}
        plain = CalibrationTarget(**kept)
        target, test = Target(self.data, plain), self.test
        held = sparse.csr_array((np.ones(len(test)), test.items, test.indptr), shape=(test.n_users, test.n_items))
        shares = [interests(held, self.data.categories[name].weights) for name in target.systems]
        return target, np.hstack(shares), plain

    def measure(self, setting: Setting) -> Numbers:
        """Every number that this setting has."""
        rng, engine = self.context.rng, self.context.engine
        lists, facts = lists_of(setting.model, setting.lists, self.audit.k, rng, engine, "mitigation")
        asked = [self._of_lists(setting.model, lists)]
        if setting.chances is None:
            asked.append(_lacking((*REACHED, *MOVED), WHOLE))
        else:
            asked += self._of_chances(setting.model, setting.chances)
        if isinstance(setting.lists, Softmax):
            asked.append(_lacking((*PLACES, *REPLACED), DRAWN))
        else:
            asked += self._of_places(setting, lists)
        return replace(_joined(asked), lists=lists, facts=facts)

    # ---- lists -----------------------------------------------------------------------------------------

    def _of_lists(self, model: FittedModel, lists: IntArray) -> Numbers:
        """Accuracy, calibration, folding and exposure of lists (users, k)."""
        data, rng, audit = self.data, self.context.rng, self.audit
        known = np.flatnonzero((lists != NO_LIST).all(axis=1))
        test = self.test.subset(np.isin(self.test.users, known))
        accurate = Accuracy(k=audit.k, relevant=audit.relevant, **self.common).of_lists(data, test, lists, rng)
        exposed = Exposure(k=audit.k, **self.common).of_lists(data, lists[known], rng, known)
        left_out: dict[str, list[str]] = {}
        own: dict[str, FloatArray] = {}
        try:
            own |= self._future(lists)
        except NotSupportedError as error:
            left_out[str(error)] = [*FUTURE]
        vectors = None
        if isinstance(model, HasVectors):
            U, V = map(unit_rows, vectors_of(model))
            vectors = U, V
        else:
            left_out[f"{model.called} has no user and item vectors, so that nothing can fold."] = [FOLDED[0]]
        judged = JudgedLists(FoldingSpace(model, vectors, self._relatedness), np.arange(len(lists)), lists)
        if vectors is not None:
            own["log_folding"] = judged.folding
        own["log_unrelated_share"] = judged.unrelated_share
        ratios = [mean(name, values, np.ones(data.n_users)) for name, values in own.items()]
        frame, _ = aggregate(ratios, audit.metric_bounds, audit.confidence)
        people = user_table(data.user_ids, own)
        for found, names in ((accurate, ACCURATE), (exposed, EXPOSED)):
            some = [name for name in names if name in found.users.columns]
            people = people.join(found.users.select("user", *some), on="user", how="left", maintain_order="left")
        return Numbers(pl.concat([frame, accurate.frame, exposed.frame]), people, left_out=left_out)

    def _future(self, lists: IntArray) -> dict[str, FloatArray]:
        """(users,) each: how far lists, and histories, are from what users went on to choose."""
        target, chosen, plain = self._chosen
        distance = partial(kl, smoothing=plain.smoothing)
        q = list_distribution(np.maximum(lists, -1), target.shares, rank_weights(plain.rank_weights, lists.shape[1]))
        both = (q, target.interests[:-1])
        values = (target.mean(target.each(distance, chosen, shares)) for shares in both)
        return dict(zip(FUTURE, values, strict=True))

    # ---- chances ---------------------------------------------------------------------------------------

    def _of_chances(self, model: FittedModel, policy: Softmax) -> Iterable[Numbers]:
        """Reachability and instability as those audits have them, of a sample of people."""
        audit, next_k = self.audit, NextK(self.audit.k)
        common: dict[str, Any] = {**self.common, "policy": policy, "refits": 0}
        reach = Reachability(actions=next_k, users=audit.users, targets=audit.targets, **common)
        moves = Instability(edits=next_k, viewers=audit.users, editors=audit.editors, pairs=False, **common)
        for asked, names in ((reach, REACHED), (moves, MOVED)):
            try:
                _check_not_asked(model)
                found = asked.run(model, rng=self.context.rng, engine=self.context.engine)
            except NotSupportedError as error:
                yield _lacking(names, str(error))
                continue
            yield Numbers(found.frame, found.users.select("user", *names))

    # ---- places ----------------------------------------------------------------------------------------

    def _of_places(self, setting: Setting, lists: IntArray) -> Iterable[Numbers]:
        """What users can bring into their lists, and others can replace in them."""
        model, policy, rng = setting.model, setting.lists, self.context.rng
        try:
            _check_not_asked(model)
            check_response(model)
            rating_facts(model, self.data, NextK(self.audit.k), self.users, rng)  # refuses clicks that mean nothing
            self._check_history(policy)
        except NotSupportedError as error:
            yield _lacking((*PLACES, *REPLACED), str(error))
            return
        search = PlaceSearch(model, policy, lists, self.targets, self.audit.budget, rng)
        pieces = blocks(self.users, _SEARCHED)
        yield self._reached(*np.concatenate(list(self.context.engine.map(search, pieces, "places in lists")), axis=1))
        if model.others_move == "unknown":
            why = f"{model.called}: nothing says how another user's ratings move its scores."
            yield _lacking(REPLACED, why)
            return
        others = ReplacementSearch(model, policy, lists, self.editors, rng)
        shares = np.concatenate(list(self.context.engine.map(others, pieces, "others' lists")))
        known = ~np.isnan(shares)
        own = np.nansum(shares, axis=1) / np.where(known.any(axis=1), known.sum(axis=1), np.nan)
        yield self._of_sample(dict.fromkeys(REPLACED, own), np.where(known, Status.BOUNDED, Status.NOT_APPLICABLE))

    def _check_history(self, policy: object) -> None:
        """Refuse lists that are calibrated to a history which depends on the ratings that are searched for."""
        if not isinstance(policy, Calibrated):
            return
        low, high = self.data.scale
        if policy.history_weights == "rating" or low == high:
            raise NotSupportedError(
                "Lists are calibrated to a history that depends on the ratings themselves: what ratings do to their "
                "places is not searched for."
            )

    def _reached(self, reached: FloatArray, possible: FloatArray) -> Numbers:
        """From (users, targets) each."""
        known = ~np.isnan(reached)
        count = np.where(known.any(axis=1), known.sum(axis=1), np.nan)
        status = np.where(reached == possible, Status.SOLVED, Status.BOUNDED)
        status = np.where(known, status, Status.NOT_APPLICABLE)
        own = {
            name: np.nansum(values, axis=1) / count for name, values in zip(PLACES, (reached, possible), strict=True)
        }
        user, column = np.indices(reached.shape).reshape(2, -1)
        pairs = {
            "user": self.data.user_ids.gather(self.users[user]),
            "item": self.data.item_ids.gather(self.targets[column]),
            "value": pl.Series(reached.ravel()).fill_nan(None),
            "upper": pl.Series(possible.ravel()).fill_nan(None),
            "status": pl.Series(status.ravel(), dtype=pl.String),
        }
        found = self._of_sample(own, status, solved=PLACES[1:])
        return replace(found, pairs=pl.DataFrame(pairs))

    def _of_sample(self, own: dict[str, FloatArray], status: FloatArray, solved: tuple[str, ...] = ()) -> Numbers:
        """Means over the users asked about; `status` (users, pairs) says how their pairs stand, but of `solved`."""
        stands = standing(*((status == each).any(axis=1) for each in (Status.BOUNDED, Status.SOLVED, Status.FAILED)))
        ratios = [
            mean(name, values, np.ones(len(values)), statuses=None if name in solved else stands)
            for name, values in own.items()
        ]
        frame, _ = aggregate(ratios, self.audit.metric_bounds, self.audit.confidence)
        return Numbers(frame, user_table(self.data.user_ids.gather(self.users), own))

    # ---- before and after ------------------------------------------------------------------------------

    def change(self, before: Numbers, after: Numbers) -> pl.DataFrame:
        """How much more there is of each metric after than before, over the same people; as SUMMARY_SCHEMA."""
        whole = dict(before.frame.select("metric", "value").iter_rows())
        statuses = {
            name: {before.frame.filter(metric=name)["status"].item(), status}
            for name, status in after.frame.select("metric", "status").iter_rows()
            if name in whole
        }
        names = [name for name in CHANGING if name in after.users.columns and name in before.users.columns]
        level = self.audit.confidence
        frame = pl.DataFrame(
            [paired_difference(after.users, before.users, name, level) for name in names], SUMMARY_SCHEMA
        )
        frame = pl.concat([frame, self._spread(before.lists, after.lists)])
        # Of two lower bounds the difference may be off either way; it is called bounded all the same.
        bounded = [name for name, both in statuses.items() if Status.BOUNDED in both]
        known = pl.col("value").is_not_null() & pl.col("metric").is_in(bounded)
        return frame.with_columns(
            status=pl.when(known).then(pl.lit(Status.BOUNDED.value)).otherwise("status"),
            baseline=pl.col("metric").replace_strict(whole, default=None, return_dtype=pl.Float64),
        )

    def _spread(self, before: IntArray, after: IntArray) -> pl.DataFrame:
        """Compute the difference of coverage and Gini, over the users who have lists before and after."""
        known = ((before != NO_LIST) & (after != NO_LIST)).all(axis=1)
        shown = [incidence(lists[known], self.data.n_items) for lists in (before, after)]
        has_items = sum(np.diff(each.indptr) for each in shown) > 0
        old, new = (sparse.csr_array(each[has_items]) for each in shown)
        differences = estimate_difference_of_lists(_coverage_and_gini, new, old, self.audit.confidence)
        rows = [
            {"metric": name, **row(each, int(known.sum()))} for name, each in zip(EXPOSED[:2], differences, strict=True)
        ]
        return pl.DataFrame(rows, SUMMARY_SCHEMA)


def _check_not_asked(model: FittedModel) -> None:
    """Refuse a system that answers one question at a time: every setting would ask thousands."""
    if model.response is OpaqueResponse:
        raise NotSupportedError(
            f"{model.called} can only be asked, and every setting of a lever would take a search of its own: "
            "the reachability audit has one, within a budget."
        )


def _lacking(names: Iterable[str], why: str) -> Numbers:
    return Numbers(pl.DataFrame(schema=SUMMARY_SCHEMA), pl.DataFrame(), left_out={why: [*names]})


def by_reason(lacking: Iterable[tuple[str, list[str]]]) -> dict[str, list[str]]:
    """The names of all that is missing for the same reason, each once."""
    found: dict[str, dict[str, None]] = {}
    for why, names in lacking:
        found.setdefault(why, {}).update(dict.fromkeys(names))
    return {why: [*names] for why, names in found.items()}


def _joined(parts: list[Numbers]) -> Numbers:
    """All numbers of a setting together, in the order of the definitions."""
    numbers = pl.concat([part.frame for part in parts]).filter(pl.col("metric").is_in(ORDER))
    frame = pl.DataFrame({"metric": ORDER}).join(numbers, on="metric", how="inner", maintain_order="left")
    first, *others = (part.users for part in parts if part.users.width)
    for people in others:
        first = first.join(people, on="user", how="left", maintain_order="left")
    left_out = by_reason(own for part in parts for own in part.left_out.items())
    pairs = next((part.pairs for part in parts if part.pairs.width), pl.DataFrame())
    return Numbers(frame.with_columns(baseline=pl.lit(None, pl.Float64)), first, pairs, left_out)


def _coverage_and_gini(counts: FloatArray) -> FloatArray:
    """Compute coverage and Gini of counts of the items, shape (rows, items), as shape (rows, 2)."""
    return np.column_stack([(counts > 0).mean(axis=1), gini(counts)])
