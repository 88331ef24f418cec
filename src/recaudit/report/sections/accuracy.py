"""Does it work, and whom does it fail: models against each other, and group by group of users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from recaudit.report.evidence import QUALITY, Evidence, GroupEstimate
from recaudit.report.kit.claims import Caution, Claim, Finding, between
from recaudit.report.kit.comparisons import by_group, figures_by_model, overview
from recaudit.report.kit.measures import measure, touched
from recaudit.report.kit.notes import memory_of
from recaudit.report.kit.numbers import Estimate, listing, ordinal, some, verb
from recaudit.report.sections.section import Section


def beats_reference(evidence: Evidence) -> Iterator[Claim]:
    """Does each personalised model rank better than the best model that does not personalise?"""
    rival, known = evidence.rival, evidence.known(QUALITY)
    if rival is None:
        return
    found = {model: evidence.difference(model, rival, QUALITY) for model in evidence.personalised}
    gains = {model: gain for model, gain in found.items() if gain is not None and gain.rests_on_enough}
    if not gains:
        return
    ahead = [model for model, gain in gains.items() if gain.above(0)]
    behind = [model for model, gain in gains.items() if gain.below(0)]
    level = [model for model, gain in gains.items() if _level(evidence, gain)]
    told = [*ahead, *level, *behind]
    open_ = [model for model in gains if model not in told]
    detail = f"{rival} reaches {evidence.label(QUALITY)} {known[rival].full}. Difference to it on the same users: "
    detail += f"{_each(gains, [*told, *open_])}."
    if told and open_:
        detail += f" Of {some(open_)} it cannot be told whether {verb(open_, 'it ranks', 'they rank')} better."
    if evidence.main in open_:
        claim = f"Whether {some(open_)} {verb(open_, 'ranks', 'rank')} better than {rival} cannot be told from chance"
        yield Caution(claim, detail, "accuracy", premise=True)
    if told:
        everybody = len(told) == len(found)
        decided = [gains[model] for model in ahead + behind]
        yield Finding(
            _standing(ahead, level, behind, rival, everybody=everybody),
            detail,
            "accuracy",
            evidence.size(*decided) if decided else evidence.size(*(gains[model] for model in level), equal=True),
            measure(evidence, told[0], QUALITY),
            _worth(ahead, level + behind, rival, everybody=everybody),
            premise=evidence.main in told,
        )


def _standing(ahead: list[str], level: list[str], behind: list[str], rival: str, *, everybody: bool) -> str:
    """Which models rank better than one that does not personalise, which worse, and which no better."""
    parts = [f"{some(ahead)} {verb(ahead, 'ranks', 'rank')} better than {rival}"] if ahead else []
    if not ahead and everybody:
        return f"No model ranks better than {rival}, which does not personalise"
    parts += [f"{some(level)} {verb(level, 'ranks', 'rank')} no better"] if level else []
    parts += [f"{some(behind)} {verb(behind, 'ranks', 'rank')} worse"] if behind else []
    return "; ".join(parts) if ahead else f"{'; '.join(parts)} than {rival}, which does not personalise"


def _worth(ahead: list[str], others: list[str], rival: str, *, everybody: bool) -> str:
    if not ahead and everybody:
        return f"Use {rival}, or find more data or another model: nothing here is a reason to personalise."
    best = f"Use {ahead[0]}. " if ahead else ""
    if others:
        return f"{best}Leave {some(others)} out: {rival} is simpler, and ranks no worse."
    return f"{best}Personalising pays; keep {rival} in every run as what has to be beaten."


def _level(evidence: Evidence, gain: Estimate) -> bool:
    """Whether a difference may be none and is known to be small, if there is one."""
    return evidence.negligible(gain) and not gain.above(0) and not gain.below(0)


def memorised(evidence: Evidence) -> Iterator[Claim]:
    """Whose accuracy is probably memory? Everything that is said of the main model rests on it."""
    for model in evidence.models:
        if text := memory_of(evidence, model) if "accuracy" in evidence.run.audits(model) else "":
            claim = f"The accuracy of {model} is probably memory"
            yield Caution(claim, text, "accuracy", premise=model == evidence.main)


def lead(evidence: Evidence) -> Iterator[Claim]:
    """Do other models rank as well as the best?"""
    known = evidence.known(QUALITY)
    first, *others = evidence.contestants or [""]
    found = {model: gap for model in others if (gap := evidence.difference(first, model, QUALITY)) is not None}
    ties = {model: gap for model, gap in found.items() if _level(evidence, gap)}
    if ties:
        claim = f"{some([first, *ties])} rank equally well"
        detail = f"{first} has {evidence.label(QUALITY)} {known[first].full}. Its difference on the same users, which "
        detail += f"is too small to matter wherever in its interval it lies: {_each(ties, list(ties), 'to ')}."
        advice = "Take the simplest of them, or the one that the other sections speak for."
        effect = evidence.size(*ties.values(), equal=True)
        yield Finding(claim, detail, "accuracy", effect, measure(evidence, first, QUALITY), advice)


def two_orders(evidence: Evidence) -> Iterator[Claim]:
    """Does the model with the lowest rating error also rank best?"""
    error, quality = evidence.known("rmse"), evidence.known(QUALITY)
    by_error = [model for model in evidence.ranked("rmse") if model in quality]
    by_ranking = evidence.ranked(QUALITY)
    if len(by_error) < 2 or by_error[0] == by_ranking[0]:
        return
    predicts, ranks = by_error[0], by_ranking[0]
    gap = evidence.difference(ranks, predicts, QUALITY)
    if gap is None or not gap.above(0) or (ranks in error and not evidence.predicts_better(predicts, ranks)):
        return
    other = f"RMSE {error[ranks].full}" if ranks in error else "which predicts no ratings"
    claim = "The best model at predicting ratings is not the best at ranking"
    detail = f"{predicts} has the lowest RMSE, {error[predicts].full}, but comes "
    detail += f"{ordinal(by_ranking.index(predicts) + 1)} of {len(by_ranking)} by {evidence.label(QUALITY)}: "
    detail += f"{quality[predicts].full}, against {quality[ranks].full} for {ranks} ({other})."
    advice = "Where people are shown lists, choose by how models rank: a low rating error does not stand for it."
    yield Finding(claim, detail, "accuracy", evidence.size(gap), measure(evidence, predicts, QUALITY), advice)


def _each(gains: dict[str, Estimate], models: list[str], to: str = "") -> str:
    return some([f"{to}{model} {gains[model].signed}" for model in models])


def best_and_worst_served(evidence: Evidence) -> Iterator[Claim]:
    """Which users get the worst lists, which the best?"""
    gaps = evidence.widest_gaps(evidence.main, QUALITY)
    if gaps:
        worst, best = gaps[0]
        other = f"{evidence.rival} or " if evidence.rival else ""
        yield Finding(
            f"{evidence.main} ranks better for {best.people} than for {worst.people}",
            f"{evidence.label(QUALITY)}: {_numbers(gaps)}.",
            "people",
            evidence.size_of_gap(worst, best),
            measure(evidence, evidence.main, QUALITY, worst, best),
            f"Try {other}a model of their own for {worst.people}, and audit it by the same groups.",
            touched(evidence, evidence.main, QUALITY, worst),
        )


def no_gain(evidence: Evidence) -> Iterator[Claim]:
    """For which users is the model no better than what does not personalise, though it is for others?"""
    rival = evidence.rival
    if rival is None:
        return
    for by in evidence.user_groupings:
        beside = {group.name: group.estimate for group in evidence.firm_groups(rival, QUALITY, by)}
        groups = [group for group in evidence.firm_groups(evidence.main, QUALITY, by) if group.name in beside]
        gained = [group for group in groups if group.estimate.exceeds(beside[group.name])]
        effects = {}
        for group in groups:
            own, other = group.estimate, beside[group.name]
            if not own.exceeds(other):
                effects[group.name] = between(own, other, evidence.confidence, equal=not other.exceeds(own))
        without = [group for group in groups if group.name in effects and effects[group.name].sure > 0]
        if without and gained:
            numbers = [f"{group.name} {group.estimate.full} against {beside[group.name].full}" for group in without]
            named = some([group.people for group in without])
            yield Finding(
                f"{evidence.main} is no gain over {rival} for {named}",
                f"{evidence.label(QUALITY)}: {listing(numbers)}. It is one for {some([g.people for g in gained])}.",
                "people",
                max((effects[group.name] for group in without), key=lambda effect: (not effect.equal, effect.size)),
                measure(evidence, evidence.main, QUALITY, without[0]),
                f"Show {named} what {rival} would: it is simpler, and ranks no worse for them.",
                touched(evidence, evidence.main, QUALITY, *without),
            )


def rare_items(evidence: Evidence) -> Iterator[Claim]:
    """Are held-out items found again less often when they are rare?"""
    groups = evidence.firm_groups(evidence.main, "recall", "popularity")
    if len(groups) < 2:
        return
    least, most = groups[0], groups[-1]
    if most.estimate.exceeds(least.estimate):
        yield Finding(
            f"{evidence.main} finds {least.things} less often than {most.things}",
            f"{evidence.label('recall')}: {least.estimate.full} against {most.estimate.full}.",
            "accuracy",
            evidence.size_of_gap(least, most),
            measure(evidence, evidence.main, "recall", least, most),
            f"Where {least.things} are to be found, damp popularity in training or re-rank, and look at recall by "
            "popularity again.",
            touched(evidence, evidence.main, "recall", least),
        )


def pushed_most(evidence: Evidence) -> Iterator[Claim]:
    """Whose lists are pulled furthest from their own choices, towards the popular or away from it?"""
    gaps = evidence.widest_gaps(evidence.main, "popularity_lift")
    if gaps:
        least, most = gaps[0]
        pulled = most if abs(most.estimate.value or 0.0) > abs(least.estimate.value or 0.0) else least
        yield Finding(
            f"{evidence.main} {_pulled(least, most)}",
            f"{evidence.label('popularity_lift')}: {_numbers(gaps)}.",
            "people",
            evidence.size_of_gap(least, most),
            measure(evidence, evidence.main, "popularity_lift", least, most),
            f"Re-rank the lists of {pulled.people} towards what they chose themselves, and look at the same groups "
            "again.",
            touched(evidence, evidence.main, "popularity_lift", pulled),
        )


def _pulled(least: GroupEstimate, most: GroupEstimate) -> str:
    """What two groups whose intervals are apart have done to them: a lift above 0 is a pull towards the popular."""
    towards, away = f"pulls {most.people} towards the popular", f"leads {least.people} away from the popular"
    if not most.estimate.above(0):
        return f"{away} more than {most.people}"
    return (
        f"{towards}, and {least.people} away from it"
        if least.estimate.below(0)
        else f"{towards} more than {least.people}"
    )


def _numbers(gaps: list[tuple[GroupEstimate, GroupEstimate]]) -> str:
    said = [(f"{own.estimate.full} for {own.people}" for own in gap) for gap in gaps]
    return "; ".join(", ".join(both) for both in said)


@final
class AccuracySection(Section):
    """How well each model predicts held-out ratings, and how well its lists find held-out items."""

    audits = ("accuracy",)
    anchor, title, template, place = "accuracy", "Accuracy", "accuracy.html.j2", 10
    questions = (memorised, beats_reference, two_orders, lead)

    def content(self) -> dict[str, Any] | None:
        """Numbers by model, and which items are found."""
        if not self.evidence.metrics("accuracy"):
            return None
        return {
            "overview": overview(self.evidence, "accuracy", everybody=True, marked=True),
            "figures": figures_by_model(self.evidence, "accuracy"),
            "found_items": by_group(self.evidence, "recall", self.evidence.item_groupings),
        }


@final
class PeopleSection(Section):
    """Who is served how well, and whose lists are pulled towards the popular."""

    audits = ("accuracy", "exposure")
    anchor, title, template, place = "people", "People", "people.html.j2", 20
    questions = (no_gain, best_and_worst_served, rare_items, pushed_most)

    def content(self) -> dict[str, Any] | None:
        """A part for each metric that is known by group of users."""
        groupings = self.evidence.user_groupings
        parts = [by_group(self.evidence, metric, groupings) for metric in (QUALITY, "popularity_lift")]
        return {"parts": [part for part in parts if part], "quality": QUALITY} if any(parts) else None
