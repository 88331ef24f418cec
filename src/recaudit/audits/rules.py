"""Which rule an answer rests on, and how faithful that is: a few of its promises are tested by refits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from recaudit.audits.audit import Audit, Context, Subject
from recaudit.audits.samples import resolve_users, subsample
from recaudit.data.interactions import Interactions
from recaudit.errors import UNMEASURED
from recaudit.machine import reason_not_measured
from recaudit.models.base import FittedModel, Recommender
from recaudit.registry import AUDITS

if TYPE_CHECKING:
    from recaudit.audits.instability.audit import Instability
    from recaudit.audits.reachability.audit import Reachability


class RuleAudit(Audit):
    """An audit of what ratings bring about, by the model's own rule for new ratings."""

    has_floor = False
    refits: Annotated[int, Field(ge=0)] = 3
    """How many of its promises are tested by training the recommender again, where there is one to train; the result
    says how many were kept. 0 for none."""


def untested(recommender: Recommender | None, refits: int) -> str:
    """Why no promise can be tested by refits; empty where it can."""
    if not refits:
        return "no refits were asked for"
    if recommender is None:
        return (
            "a model alone does not say what fits it anew; hand in model.with_recommender(recommender), if you have it"
        )
    return "the model was made elsewhere, and nothing here fits it anew" if recommender.given else ""


def rule_facts(
    audit: Reachability | Instability, subject: Subject, model: FittedModel, log: Interactions, context: Context
) -> dict[str, Any]:
    """The `rule` in words, and its `fidelity` on a sample: numbers as that audit has them, or why there are none."""
    return {"rule": model.rule, "fidelity": _sampled_fidelity(audit, subject, model, log, context)}


def _sampled_fidelity(
    audit: Reachability | Instability, subject: Subject, model: FittedModel, log: Interactions, context: Context
) -> dict[str, Any]:
    recommender = subject.recommender
    if (why := untested(recommender, audit.refits)) or recommender is None:
        return {"not_measured": why}
    people = ("users",) if "users" in type(audit).model_fields else ("viewers", "editors")
    some = {
        side: tuple(log.user_ids.gather(subsample(chosen, audit.refits, log, context.rng, side)).to_list())
        for side in people
        for chosen in [resolve_users(getattr(audit, side), log, context.rng, side)]
    }
    try:
        asked = AUDITS["fidelity"](audit=audit.model_copy(update={**some, "refits": 0}), top=1)
        found = asked.measure(Subject(model, recommender, log), context)
    except UNMEASURED as error:
        return {"not_measured": reason_not_measured(error)}
    tested: dict[str, Any] = found.facts["fidelity"]
    return tested
