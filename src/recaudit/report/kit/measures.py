"""The number on a finding's card: as it was measured, and the same of what does not personalise or does not react."""

from __future__ import annotations

from recaudit.report.evidence import Evidence, GroupEstimate
from recaudit.report.kit.claims import Measure, Touched
from recaudit.report.kit.numbers import Estimate
from recaudit.status import Status

STILL = "A recommender that does not react"
WITHOUT_STRATEGY = "Without strategy"
IN_THE_RATINGS = "Share of the ratings"


def measure(evidence: Evidence, model: str, metric: str, *groups: GroupEstimate, audit: str = "") -> Measure | None:
    """A model's number over all, of one of its groups, or from one group to another; None where it has none."""
    own = _numbers(evidence, model, metric, groups, audit)
    if not own:
        return None
    definition = evidence.definitions[metric]
    beside = {name: _numbers(evidence, name, metric, groups, audit) for name in evidence.references if name != model}
    floors = {name: _from_to([other.text for other in found]) for name, found in beside.items() if found}
    still = _still(evidence, metric, audit)
    if still is not None:
        floors[STILL] = definition.written(still)
    if all(one.before for one in own):
        floors[WITHOUT_STRATEGY] = _from_to([one.before for one in own])
    if metric == "share" and all(one.baseline is not None for one in own):
        floors[IN_THE_RATINGS] = _from_to([one.compared for one in own])
    said = [group.people if group.by in evidence.user_groupings else group.things for group in groups]
    whose = {0: "", 1: ", for ", 2: ", from "}[len(said)] + _from_to(said)
    bound = f", {definition.bound}" if any(one.status == Status.BOUNDED for one in own) else ""
    label = f"{evidence.label(metric, audit)} of {model}{whose}{bound}"
    value, interval = _from_to([one.text for one in own]), _from_to([one.interval for one in own if one.interval])
    return Measure(metric, model, label, value, interval, floors)


def touched(evidence: Evidence, model: str, metric: str, *groups: GroupEstimate) -> Touched | None:
    """The people of these groups, of all for whom a model's number was measured."""
    overall = evidence.overall(model, metric)
    people = sum(group.estimate.users for group in groups)
    return None if overall is None or people >= overall.users else Touched(people, overall.users)


def _numbers(
    evidence: Evidence, model: str, metric: str, groups: tuple[GroupEstimate, ...], audit: str
) -> list[Estimate]:
    """The number over all, or of each of the groups; nothing where one is missing."""
    if not groups:
        overall = evidence.overall(model, metric, audit)
        return [] if overall is None or overall.value is None else [overall]
    named = {
        (group.by, group.name): group.estimate
        for by in dict.fromkeys(group.by for group in groups)
        for group in evidence.groups(model, metric, by, audit)
    }
    found = [named[group.by, group.name] for group in groups if (group.by, group.name) in named]
    return found if len(found) == len(groups) else []


def _still(evidence: Evidence, metric: str, audit: str) -> float | None:
    """What a recommender has that does not react. Items that are rated one after the other are not recommended again,
    so that all else becomes likelier with any recommender: then there is no such number."""
    actions = evidence.settings.get(audit or evidence.owners[metric], {}).get("actions", {})
    return None if actions.get("kind") == "future" else evidence.definitions[metric].still


def _from_to(texts: list[str]) -> str:
    return " to ".join(texts)
