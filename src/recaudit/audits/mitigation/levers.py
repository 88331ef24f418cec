"""The levers of a model: what can be turned, from the setting as it is to others, and why a model lacks one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from recaudit.audits.audit import Context, Subject
from recaudit.audits.calibration.calibrator import with_system
from recaudit.audits.spread import BETAS
from recaudit.errors import NotSupportedError
from recaudit.models.base import FittedModel
from recaudit.policies import ListPolicy, Softmax, Top1
from recaudit.policies.calibrated import Calibrated, CalibrationTarget

if TYPE_CHECKING:
    from recaudit.audits.mitigation.audit import Mitigation


@final
@dataclass(frozen=True, eq=False)
class Setting:
    """A lever at one of its values: the model, how lists are made of its scores, and the policy of single items."""

    at: float
    model: FittedModel
    lists: ListPolicy
    chances: Softmax | None
    """With which chance an item is shown; None where only whole lists are made."""


@final
@dataclass(frozen=True, eq=False)
class Lever:
    """One lever: the setting as it is, and others."""

    name: str
    """What is varied: the `over` of a series."""
    aim: str
    """The metric that it is there to improve."""
    before: Setting
    after: tuple[Setting, ...]


def _reranking(audit: Mitigation, subject: Subject, context: Context) -> Lever:
    """Lists that trade scores for the proportions of the history (paper 004): lambda, from 0, the list as it is."""
    model = subject.model
    assert model is not None
    target = with_system(audit, model.data)
    wanted = {name: getattr(target, name) for name in (*CalibrationTarget.model_fields, "transform")}
    others = {weight: Calibrated(weight=weight, **wanted) for weight in audit.weights if weight > 0}
    after = tuple(Setting(weight, model, policy, None) for weight, policy in others.items())
    return Lever("weight", "future_calibration_kl", Setting(0.0, model, Top1(), None), after)


def _refitting(audit: Mitigation, subject: Subject, context: Context) -> Lever:
    """Refits that count pairs without a rating for more or for less (paper 002)."""
    model, recommender = subject.model, subject.recommender
    assert model is not None
    if recommender is None:
        raise NotSupportedError(
            "Nothing is known here that fits the model anew: hand in model.with_recommender(recommender)."
        )
    if "unobserved_weight" not in type(recommender).model_fields:
        raise NotSupportedError(f"{type(recommender).__name__} has no weight of unobserved pairs; WALS has one.")
    own = float(recommender.unobserved_weight)  # type: ignore[attr-defined]  # a setting of this class
    shown = Top1(), audit.softmax
    refits = {
        weight: recommender.with_settings(unobserved_weight=weight).fit(model.data, rng=context.rng)
        for weight in audit.unobserved_weights
        if weight != own
    }
    after = tuple(Setting(weight, made, *shown) for weight, made in refits.items())
    return Lever("unobserved_weight", "log_folding", Setting(own, model, *shown), after)


def _sharpening(audit: Mitigation, subject: Subject, context: Context) -> Lever:
    """Lists that are drawn by a softmax of another beta."""
    model, own = subject.model, audit.softmax
    assert model is not None
    betas = sorted({min(own.fixed_beta * factor, BETAS[1]) for factor in audit.beta_factors} - {own.fixed_beta})
    policies = (own, *(Softmax(beta=beta) for beta in betas))
    before, *after = (Setting(policy.fixed_beta, model, policy, policy) for policy in policies)
    return Lever("beta", "gini", before, tuple(after))


LEVERS: Mapping[str, tuple[str, Callable[[Mitigation, Subject, Context], Lever]]] = {
    "weight": ("weights", _reranking),
    "unobserved_weight": ("unobserved_weights", _refitting),
    "beta": ("beta_factors", _sharpening),
}
"""By what is varied: the setting of the audit that has the values, and what makes the lever."""


def levers_of(audit: Mitigation, subject: Subject, context: Context) -> tuple[list[Lever], dict[str, list[str]]]:
    """The levers that are asked for and that the model has; and by reason those that it lacks."""
    found, lacking = [], dict[str, list[str]]()
    for name, (values, make) in LEVERS.items():
        if not getattr(audit, values):
            continue
        try:
            lever = make(audit, subject, context)
        except NotSupportedError as error:
            lacking.setdefault(str(error), []).append(name)
            continue
        if lever.after:
            found.append(lever)
        else:
            lacking.setdefault(f"{values} names no other value than the model's own.", []).append(name)
    if not found:
        raise NotSupportedError(f"There is no lever to turn: {' '.join(lacking) or 'none was asked for.'}")
    return found, lacking
