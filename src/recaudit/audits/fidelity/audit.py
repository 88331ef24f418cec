"""Fidelity: does a user really get what an audit promises, once the recommender is trained again?

Reachability and instability answer with the model's response: some vectors move as the update rule says, and everything
else stays as fitted. A true refit moves everything, and a recommender that draws random numbers draws others once a
rating is added (`other_rng` shows how much that moves).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, final

import numpy as np
import polars as pl
from pydantic import AfterValidator, BeforeValidator
from scipy.special import log_softmax

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.agency.sweeps import free_ratings_of
from recaudit.audits.audit import Audit, Context, Subject, Verb
from recaudit.audits.fidelity.definitions import FIDELITY
from recaudit.audits.instability.audit import Instability
from recaudit.audits.logs import Fits, audited
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.reachability.result import STATUS
from recaudit.audits.recipe import Recipe
from recaudit.audits.result import Result
from recaudit.audits.samples import candidate_items
from recaudit.data.interactions import Interactions
from recaudit.errors import UNMEASURED, NotSupportedError
from recaudit.interventions import Actions, Future, NextK
from recaudit.machine import reason_not_measured
from recaudit.metrics.tables import SUMMARY_SCHEMA
from recaudit.models.base import FittedModel, Recommender, check_response
from recaudit.models.response import Response
from recaudit.policies import Softmax
from recaudit.registry import AUDITS
from recaudit.solvers.distance.distances import distance_between
from recaudit.specification import Count, OneOf, mistake
from recaudit.status import Status
from recaudit.ties import TieKeys

_RANKS = ("rank_baseline", "rank_promised", "rank_realised")
_GAIN = 1e-9
"""A promise of less than this, over all pairs, is rounding."""
_REALISED = ("realised", "realised_other_rng")


def _check(audit: object) -> object:
    if isinstance(audit, Audit) and not isinstance(audit, Reachability | Instability):
        raise mistake((), AUDITS.kind_of(audit), "reachability or instability")
    if isinstance(audit, Reachability) and isinstance(audit.actions, Future):
        raise mistake(("actions",), audit.actions, "ratings of items that do not depend on ratings, such as NextK(10)")
    return audit


Promising = Annotated[Reachability | Instability, OneOf(AUDITS), BeforeValidator(_check), AfterValidator(_check)]
"""An audit that says what ratings bring about, or the table that describes one."""


@final
class Fidelity(Audit):
    """Whether a refit keeps what the update rule promises.

    The best ratings of some pairs are written into the log, the recommender is fitted again, and both are compared.

    Without a fitted model in the subject the recommender is fitted to the log, for `Past` without the ratings that are
    free. Candidates stay those of the log as it was, and ratings that do not matter stay as they are. Ratings that the
    actions allow must be on the log's scale; in a log of clicks, where every rating is the same, a 0 takes one away.
    Every distinct edit costs a refit, and two with `other_rng`.

    A row of `pairs` has user and item of reachability, viewer and editor of instability, and

    - baseline: the item's probability before anything was rated; the distance before, which is 0;
    - promised: the probability after the best ratings, by the model's response; the largest distance;
    - realised: the probability after a refit on the log with those ratings, or how far that is from a refit on the log
      as it is; realised_other_rng: the same with another seed;
    - error: log(realised / promised), 0 where the promise is kept, below 0 where less came;
    - rank_baseline, rank_promised, rank_realised, of reachability: the item's place among the candidates;
    - status: as the audit has it, or failed where the refit did not succeed, for which the settings have the `causes`.
    """

    metrics = FIDELITY
    needs = ("recommender",)
    has_floor = False
    split_by = ()

    audit: Promising = Reachability(actions=NextK(10), users=5)
    """Whose promises are checked, of which pairs: reachability or instability."""
    top: Count | None = None
    """How many pairs to take, those with the highest promise: for each user of reachability, 3 or all named targets
    where nothing is said; for each editor of instability, else all viewers."""
    other_rng: int | None = None
    """Another seed to refit with as well."""

    def check(self, data: Interactions) -> None:
        """See the audit that promises."""
        super().check(data)
        self.audit.check(data)

    @property
    def recipe(self) -> Recipe | None:
        """That of the audit whose promise is tested."""
        return self.audit.recipe

    def measure(self, subject: Subject, context: Context) -> Result:
        """Compare what the audit says about each pair with refits."""
        recommender, rng = subject.recommender, context.rng
        assert recommender is not None
        if subject.model is not None:
            check_response(subject.model)
        if recommender.given:
            raise NotSupportedError(
                f"{type(recommender).__name__}: it was made elsewhere, and nothing here fits it anew. Give the audit "
                "something that does: a recommender, or a model that models.adapt took from its library."
            )
        actions, own = free_ratings_of(self.audit), isinstance(self.audit, Reachability)
        model, log = audited(subject, actions, rng)
        promises = self._promises(Subject(model=model, data=log), context)
        looking, acting, other = ("user", "user", "item") if own else ("viewer", "editor", "editor")
        people = np.unique(log.users_at(promises[looking]))
        edits = [Edit.of(log, pair[acting], pair) for pair in promises.iter_rows(named=True)]
        acted = actions.items(model, people, rng, log) if own and isinstance(actions, Actions) else None
        allowed = candidate_items(log, people, acted, self.audit.candidates)

        seeds = [rng] if self.other_rng is None else [rng, self.other_rng]
        fits = {seed: Fits(recommender, rng=seed) for seed in seeds}
        scores = model.scores(people)
        noise = np.abs(fits[rng].of(model.data).scores(people) - scores).max(initial=0.0)
        before = [scores if own else fits[seed].of(log).scores(people) for seed in seeds]
        distinct = list(dict.fromkeys(edit for edit in edits if edit is not None))
        refits = [partial(_refit, recommender, log, people, seed) for seed in seeds]
        after = [dict(zip(distinct, context.engine.map(refit, distinct, "fidelity"), strict=True)) for refit in refits]

        rows: list[dict[str, Any]] = []
        for pair, edit in zip(promises.iter_rows(named=True), edits, strict=True):
            rows.append({name: pair[name] for name in ("baseline", "status")})
            if edit is None:
                continue
            at = int(np.searchsorted(people, log.users_at([pair[looking]])[0]))
            asked = allowed[at], int(log.items_at([pair["item"]])[0]) if own else -1
            refitted = [None if isinstance(found := refit[edit], str) else found[at] for refit in after]
            realised = [
                _outcome(self.audit, *asked, start[at], scored, log.tie_keys(people[[at]]))
                for start, scored in zip(before, refitted, strict=True)
            ]
            rows[-1] |= {"promised": pair["value"], **dict(zip(_REALISED, realised, strict=False))}
            if own:
                response = _response(model, actions, edit)
                ranked = scores[at], response.scores(np.array(edit.ratings)), refitted[0]
                rows[-1] |= {name: _rank(*asked, some) for name, some in zip(_RANKS, ranked, strict=True)}
        numbers = dict.fromkeys(("baseline", "promised", *_REALISED, "error"), pl.Float64)
        schema: dict[str, Any] = {**numbers, **(dict.fromkeys(_RANKS, pl.Int64) if own else {}), "status": STATUS}
        promised, gained = pl.col("promised"), pl.col("realised")
        failed = pl.when(promised.is_not_null() & gained.is_null()).then(pl.lit(Status.FAILED.value, STATUS))
        compared = pl.DataFrame(rows, schema).with_columns(
            error=pl.when(gained == promised).then(0.0).otherwise(gained.log() - promised.log()),
            status=failed.otherwise(pl.col("status")),
        )
        pairs = pl.concat([promises.select(looking, other), compared], how="horizontal")
        causes = dict.fromkeys(why for refit in after for why in refit.values() if isinstance(why, str))
        summary = _summary(pairs, float(noise))
        tested = {"pairs": pairs["realised"].count(), **dict(summary.select("metric", "value").iter_rows())}
        facts = {"statuses": dict(pairs["status"].value_counts().iter_rows()), "causes": list(causes)}
        facts["fidelity"] = tested | _shares(pairs)
        return Result(self, {"summary": summary, "pairs": pairs}, rng=rng, facts=facts)

    def _promises(self, subject: Subject, context: Context) -> pl.DataFrame:
        """What the audit says about the pairs that are looked at, with the best ratings."""
        audit = self.audit
        own = isinstance(audit, Reachability)
        told = {"best_actions": True} if own else {"best_ratings": True, "pairs": True}
        asked = audit.model_copy(update={"by": (), "refits": 0, **told})
        pairs = asked.run(subject, rng=context.rng, engine=context.engine).pairs
        top = self.top or (3 if isinstance(audit, Reachability) and audit.targets is None else None)
        if top is None or pairs.is_empty():
            return pairs
        by_person = pairs.partition_by("user" if own else "editor", maintain_order=True)
        highest = [part.sort("value", descending=True, nulls_last=True, maintain_order=True) for part in by_person]
        return pl.concat([part.head(top) for part in highest])


fidelity = Verb(Fidelity, Result)


def _outcome(
    audit: Reachability | Instability,
    allowed: BoolArray,
    item: int,
    before: FloatArray,
    after: FloatArray | None,
    ties: TieKeys,
) -> float | None:
    """The item's probability at the scores `after` (items,), or how far they move the distribution `before`."""
    if after is None:
        return None
    policy = audit.policy
    if isinstance(audit, Reachability):
        return float(np.exp(policy.log_probabilities(after[None], allowed[None], ties)[0, item]))
    assert isinstance(policy, Softmax)
    logits = (policy.fixed_beta * scores[allowed] for scores in (before, after))
    return float(distance_between(audit.distance, *map(log_softmax, logits)))


def _rank(allowed: BoolArray, item: int, scores: FloatArray | None) -> int | None:
    """1 + how many candidates score higher, by more than rounding."""
    if scores is None:
        return None
    return 1 + int((scores[allowed] > scores[item] + 1e-12 * abs(scores[item])).sum())


def _summary(pairs: pl.DataFrame, noise: float) -> pl.DataFrame:
    from scipy import stats  # noqa: PLC0415  slow to import

    known = pairs.drop_nulls("realised")
    baseline, promised, realised, error = (
        known[name].to_numpy() for name in ("baseline", "promised", "realised", "error")
    )
    gain = float((promised - baseline).sum())
    varies = min(known["promised"].n_unique(), known["realised"].n_unique()) > 1
    values = {
        "median_error": float(np.median(np.abs(error))) if len(known) else None,
        "promise_correlation": float(stats.spearmanr(promised, realised).statistic) if varies else None,
        "realised_share": float((realised - baseline).sum()) / gain if gain > _GAIN else None,
        "refit_difference": noise,
    }
    users = known[known.columns[0]].n_unique()
    counts = {"users": users, "excluded": pairs[pairs.columns[0]].n_unique() - users}
    rows = [
        {"metric": name, "value": value, "status": Status.NOT_APPLICABLE if value is None else Status.SOLVED, **counts}
        for name, value in values.items()
    ]
    return pl.DataFrame(rows, SUMMARY_SCHEMA)


def _shares(pairs: pl.DataFrame) -> dict[str, dict[str, float]]:
    """The least, the median and the largest share of its promised gain that a refit gave; none of no promises."""
    gain = pl.col("promised") - pl.col("baseline")
    found = pairs.filter(gain > _GAIN).select((pl.col("realised") - pl.col("baseline")) / gain).to_series().drop_nulls()
    ends = np.quantile(found.to_numpy(), [0.0, 0.5, 1.0]).tolist() if len(found) else []
    return {"shares": dict(zip(("least", "median", "most"), ends, strict=True))} if ends else {}


@final
@dataclass(frozen=True)
class Edit:
    """The ratings that a user writes into the log, by position."""

    user: int
    items: tuple[int, ...]
    ratings: tuple[float, ...]

    @classmethod
    def of(cls, log: Interactions, user: object, row: Mapping[str, Any]) -> Edit | None:
        """The best ratings of a pair's row, given by the user with this id; None where there are none."""
        if row["action_items"] is None:
            return None
        items = log.items_at(row["action_items"]).tolist()
        return cls(int(log.users_at([user])[0]), tuple(items), tuple(row["action_ratings"]))

    def written(self, log: Interactions) -> Interactions:
        """The log with these ratings; in a log of clicks, where every rating is the same, a 0 takes one away."""
        items, ratings = np.array(self.items, dtype=np.int64), np.array(self.ratings)
        gone = (ratings == 0) & (log.scale[0] == log.scale[1])
        if gone.any():
            log = log.subset((log.users != self.user) | ~np.isin(log.items, items[gone]))
        return log.with_ratings(self.user, items[~gone], ratings[~gone])


def _response(model: FittedModel, actions: object, edit: Edit) -> Response:
    """The scores by the model's update rule; the ratings of a future are given one after the other."""
    items = np.array(edit.items)
    if isinstance(actions, Future):
        return model.respond_in_turn(edit.user, items)
    return model.respond(edit.user, edit.user, items)


def _refit(recommender: Recommender, log: Interactions, users: IntArray, rng: int, edit: Edit) -> FloatArray | str:
    """(users, items): the scores of users (positions) after a refit, or why there are none."""
    edited = edit.written(log)
    try:
        scores = recommender.fit(edited, rng).scores(users)
    except UNMEASURED as error:
        return reason_not_measured(error)
    return scores if np.isfinite(scores).all() else "the refitted model has scores that are NaN or infinite"
