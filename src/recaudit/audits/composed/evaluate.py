"""How a recipe is run: by the audit's own verb, in closed form, or by plugging in the ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from recaudit.audits.composed.extremes import largest
from recaudit.audits.composed.given import at_given
from recaudit.audits.composed.scene import Scene, Setting
from recaudit.audits.instability.audit import instability
from recaudit.audits.reachability.audit import reachability
from recaudit.audits.recipe.functionals import Change, Lift, Moved, RankGain, Replaced, Value
from recaudit.audits.recipe.outcomes import Distribution, PredictedRating, Probability, RecommendedList
from recaudit.audits.recipe.quantifiers import At, Max
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Actions
from recaudit.interventions.who import Others, Own
from recaudit.policies import EpsilonGreedy, Power, Softmax, Top1
from recaudit.solvers.distance.distances import Distance

if TYPE_CHECKING:
    from recaudit.audits.recipe.recipe import Recipe

_RUNNABLE = (
    "With Max(): over one's own ratings, Value() and Lift() of Probability(), its RankGain() with Max(of=Value()), and "
    "Value() and Change() of PredictedRating(); over another's, Moved() of Distribution(), Value(), Lift() and "
    "Change() of Probability(), and Value() and Change() of PredictedRating(). With At(ratings): all of these for "
    "anybody's ratings, and Replaced() of RecommendedList()."
)


def evaluate(audit: Recipe, setting: Setting) -> pl.DataFrame:
    """The rows of `Audit.run`."""
    who = audit.intervention
    if not isinstance(who, Own | Others):
        raise NotSupportedError(
            f"Recipes are run where ratings are changed, and here that is {who}. What changes nothing has verbs of its "
            "own, such as ra.accuracy and ra.exposure: see ra.audits.catalog()."
        )
    _check_arguments(audit, who, setting)
    if isinstance(audit.over, Max):
        return _at_its_largest(audit, who, audit.over, setting)
    seen = isinstance(audit.outcome, Probability | PredictedRating | Distribution | RecommendedList)
    measured = isinstance(audit.functional, Value | Lift | RankGain | Change | Moved | Replaced)
    if isinstance(audit.over, At) and seen and measured:
        scene = Scene.of(who, setting)
        if isinstance(audit.outcome, PredictedRating):
            _check_predicts(scene)
        return at_given(audit.outcome, audit.functional, audit.over, scene).frame(scene)
    raise _not_runnable(audit)


def _at_its_largest(audit: Recipe, who: Own | Others, over: Max, setting: Setting) -> pl.DataFrame:
    recipe = audit.outcome, audit.functional, over.of
    if isinstance(who, Own):
        match recipe:
            case (Probability(), Value() | Lift(), None) | (Probability(), RankGain(), Value()):
                return _by_reachability(audit, who, setting)
    else:
        match recipe:
            case Distribution(), Moved(name), None:
                return _by_instability(name, who, setting)
            case Probability(), Value() | Lift() | Change(), None:
                return _in_closed_form(audit, who, setting)
    match recipe:
        case PredictedRating(), Value() | Change(), None:
            return _in_closed_form(audit, who, setting)
    raise _not_runnable(audit)


def _by_reachability(audit: Recipe, who: Own, setting: Setting) -> pl.DataFrame:
    found = reachability(
        setting.model,
        setting.data,
        actions=who.actions,
        policy=setting.policy,
        users=setting.viewers,
        targets=setting.items,
        candidates=setting.candidates,
        rng=setting.rng,
    ).pairs.rename({"user": "viewer"})
    if isinstance(audit.functional, Lift):
        bounds = (pl.col(name) / pl.col("baseline") for name in ("lower", "upper"))
        found = found.with_columns(pl.col("lift").alias("value"), *bounds)
    elif isinstance(audit.functional, RankGain):
        # The bounds are those of the probability; the places climbed at the best ratings found have none.
        unknown = (pl.lit(None, pl.Float64).alias(name) for name in ("lower", "upper"))
        found = found.with_columns(pl.col("rank_gain").cast(pl.Float64).alias("value"), *unknown)
    return found.select("viewer", "item", "value", "lower", "upper", "status", "baseline")


def _by_instability(distance: Distance, who: Others, setting: Setting) -> pl.DataFrame:
    found = instability(
        setting.model,
        setting.data,
        edits=who.actions,
        viewers=setting.viewers,
        editors=setting.editors,
        distance=distance,
        policy=setting.policy,
        candidates=setting.candidates,
        pairs=True,
        rng=setting.rng,
    )
    return found.frame.select("viewer", "editor", "value", "lower", "upper", "status", "baseline")


def _in_closed_form(audit: Recipe, who: Own | Others, setting: Setting) -> pl.DataFrame:
    scene = Scene.of(who, setting)
    if isinstance(audit.outcome, PredictedRating):
        _check_predicts(scene)
    elif not isinstance(setting.policy, Softmax | Top1 | EpsilonGreedy | Power):
        raise NotSupportedError(
            f"Whether {setting.policy!r} shows an item more often when its score grows is not known. Softmax, Top1, "
            "EpsilonGreedy and Power do, so that the largest probability is known for them."
        )
    if isinstance(who.actions, Actions) and who.actions.changes is not None:
        raise NotSupportedError(
            f"{audit}: no closed form has a limit on changes. Leave changes out; ra.reachability takes it."
        )
    return largest(audit.outcome, audit.functional, scene).frame(scene)


def _check_arguments(audit: Recipe, who: Own | Others, setting: Setting) -> None:
    if setting.editors is not None and isinstance(who, Own):
        raise InputError(
            "editors",
            received="ids, with Own(...)",
            expected="nothing: everybody acts for themselves",
            remedy="Name the viewers, or let others act: Others(...).",
        )
    if setting.items is not None and not audit.outcome.about_an_item:
        raise InputError(
            "items",
            received=f"ids, with {audit.outcome!r}",
            expected="nothing: the outcome is not about single items",
        )


def _check_predicts(scene: Scene) -> None:
    if not scene.model.predicts_ratings:
        raise NotSupportedError(
            f"The scores of this {type(scene.model).__name__} only rank: it predicts no ratings. BiasedMF, ALS, "
            "ItemKNN and EASE(center='item') do, and arrays of your own if you say predicts_ratings=True; "
            "Probability() can be looked at for any model."
        )


def _not_runnable(audit: Recipe) -> NotSupportedError:
    return NotSupportedError(f"{audit}: nothing here computes that. {_RUNNABLE}")
