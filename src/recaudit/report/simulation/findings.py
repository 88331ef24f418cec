"""Findings of a simulation: whom users liked, whether metrics on the log predicted it, and how tastes moved.

With fewer than four trials nothing is tested, and no sentence claims a difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import factorial
from typing import final

from recaudit.metrics.inference import MIN_REFITS
from recaudit.report.kit.claims import ClaimNumber, Finding, Headline
from recaudit.report.kit.numbers import NOT_AVAILABLE, Estimate, listing, ordinal, plural, verb
from recaudit.report.simulation.evidence import CHANCE, Arena, Correlation, SimulationStudy
from recaudit.report.simulation.terms import OFFLINE, term

FAR_APART = 2
"""From so many places on, a different standing is worth a sentence though it may be chance."""
_STRENGTHS = (
    (0.9, "almost exactly as people do"),
    (0.7, "much as people do"),
    (0.4, "roughly as people do"),
    (0.0, "only faintly as people do"),
)
"""From which agreement on it is called what."""


def findings_of(study: SimulationStudy) -> list[Finding]:
    """Everything that the study has to say, question by question."""
    questions = (liked_best, foreseen, misjudged, explored, moved)
    found = [finding for question in questions for arena in study.arenas for finding in question(study, arena)]
    return [*found, *unmoved(study)]


def liked_best(study: SimulationStudy, arena: Arena) -> Iterator[Finding]:
    """Who comes first, and by how much over the next?"""
    ranked, liked = arena.ranked("mean_rating", oracle=False), arena.known("mean_rating")
    if len(ranked) < 2:
        return
    first, second = ranked[:2]
    lead = arena.difference(first, second, "mean_rating")
    numbers = f"Mean rating {liked[first].full}; {second}, the next, {liked[second].full}"
    if arena.trials < MIN_REFITS:
        code = "simulation.best-not-tested"
        claim = f"In {_the_trials(arena)} of {arena.name}, {first} had the highest mean rating"
        detail = f"{numbers}. It takes {MIN_REFITS} trials to test a difference."
    elif arena.shows_above(first, second, "mean_rating"):
        code, claim = "simulation.best", f"People in {arena.name} liked what {first} showed best"
        detail = f"{numbers}: {lead.full} less, trial by trial."
    else:
        code = "simulation.best-not-shown"
        others = [name for name in ranked[1:] if not arena.shows_above(first, name, "mean_rating")]
        claim = f"In {arena.name}, {first} is not shown to differ from {listing(others)}"
        detail = f"{numbers}: {lead.full} less, trial by trial."
    told = (_difference_number(arena, first, second, "mean_rating"),)
    yield Finding(code, claim, detail + _ends_of_the_scale(arena, liked), arena.anchor, numbers=told)


def _the_trials(arena: Arena) -> str:
    return "the one trial" if arena.trials == 1 else f"the {arena.trials} trials"


def _difference_number(arena: Arena, name: str, other: str, measure: str) -> ClaimNumber:
    """One recommender minus the other, trial by trial."""
    own = arena.difference(name, other, measure)
    p = arena.p_value(name, other, measure)
    return ClaimNumber(
        audit="simulation",
        metric=measure,
        model=name,
        baseline=other,
        value=own.value,
        lower=own.lower,
        upper=own.upper,
        reference=0.0,
        p=p,
        trials=own.users,
        reason="too_few_refits" if p is None else None,
    )


def _ends_of_the_scale(arena: Arena, liked: dict[str, Estimate]) -> str:
    reached = {name: liked[name].text for name in arena.references if name in liked}
    best = reached.pop(arena.oracle or "", "")
    told = f" {arena.oracle}, which knows what everybody would rate everything, reaches {best}." if best else ""
    others = [f"{name} {text}" for name, text in reached.items()]
    return f"{told} Without personalising: {listing(others)}." if others else told


def foreseen(study: SimulationStudy, arena: Arena) -> Iterator[Finding]:
    """Did metrics on the log foresee the order?"""
    found = {metric: own for metric, own in arena.correlations.items() if own.estimate.value is not None}
    if not found:
        return
    numbers = [
        f"{study.label(metric)} {own.estimate.full}{f' ({p_value_text(own.p_value)})' if arena.trials > 1 else ''}"
        for metric, own in found.items()
    ]
    many = max(own.recommenders for own in found.values())
    detail = f"Spearman with the mean rating over {plural(many, 'recommender')}: {', '.join(numbers)}. "
    detail += "The same order would be 1 for nDCG and \N{MINUS SIGN}1 for RMSE."
    if arena.trials < MIN_REFITS:
        code = "simulation.prediction-not-tested"
        claim = f"Whether offline metrics predict the order in {arena.name} takes {MIN_REFITS} trials to test"
    elif 2 / factorial(many) >= CHANCE:  # not even the same order would be more than chance
        code, too_few = "simulation.prediction-not-tested", f"{plural(many, 'recommender')} are too few to say"
        claim = f"{too_few} whether offline metrics foresee the order in {arena.name}"
    else:
        code, claim = "simulation.prediction", f"In {arena.name}, {_verdicts(study, found)}"
    told = tuple(
        ClaimNumber(
            audit="simulation",
            metric=metric,
            value=own.estimate.value,
            lower=own.estimate.lower,
            upper=own.estimate.upper,
            reference=0.0,
            p=own.p_value,
            trials=arena.trials,
        )
        for metric, own in found.items()
    )
    yield Finding(code, claim, detail, arena.anchor, numbers=told)


def _verdicts(study: SimulationStudy, found: dict[str, Correlation]) -> str:
    """What can be said of each metric; those of which the same can be said share the words."""
    said: dict[str, list[str]] = {}
    for metric, own in found.items():
        said.setdefault(_verdict(own), []).append(study.label(metric))
    first, *others = [(listing(metrics), how) for how, metrics in said.items()]
    return ", ".join([f"{first[0]} ordered recommenders {first[1]}", *(f"{metrics} {how}" for metrics, how in others)])


def _verdict(own: Correlation) -> str:
    if not own.beyond_chance:
        return "with no likeness to people's order beyond chance"
    if own.agreement < 0:
        return "the wrong way round"
    return next(how for least, how in _STRENGTHS if own.agreement >= least)


def p_value_text(p_value: float | None) -> str:
    """A p-value as a person reads it."""
    return "no p-value" if p_value is None else "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


@final
@dataclass(frozen=True)
class Misjudged:
    """A recommender that stands elsewhere with people than on the log."""

    name: str
    metric: str
    offline: int
    """Its place by the metric, from 1."""
    online: int
    other: str | None
    """Somebody whom the metric puts on one side of it and people on the other, both beyond chance."""


def most_misjudged(arena: Arena) -> Misjudged | None:
    """Whose two places are furthest apart: of those that differ beyond chance if there are any, else of all."""
    found = []
    for metric in OFFLINE:
        offline, online = arena.ranked(metric, oracle=False), arena.ranked("mean_rating", oracle=False)
        both = [name for name in online if name in offline and name in arena.comparison.models]
        offline = [name for name in offline if name in both]
        found += [
            Misjudged(name, metric, offline.index(name) + 1, place, _turned(arena, metric, name, both))
            for place, name in enumerate(both, start=1)
        ]
    apart = [own for own in found if own.offline != own.online]
    return max(apart, key=lambda own: (own.other is not None, abs(own.offline - own.online)), default=None)


def _turned(arena: Arena, metric: str, name: str, others: list[str]) -> str | None:
    """The one whom people put furthest on the other side of it, beyond chance twice."""
    turned: dict[str, float] = {}
    for other in others:
        better, worse = arena.shows_above(name, other, metric), arena.shows_above(other, name, metric)
        if term(metric).better == "lower":
            better, worse = worse, better
        liked_more, liked_less = (arena.shows_above(*pair, "mean_rating") for pair in ((name, other), (other, name)))
        if (better and liked_less) or (worse and liked_more):
            turned[other] = abs(arena.difference(name, other, "mean_rating").value or 0.0)
    return max(turned, key=lambda other: turned[other], default=None)


def misjudged(study: SimulationStudy, arena: Arena) -> Iterator[Finding]:
    """Whose order differs most between the log and people?"""
    most = most_misjudged(arena)
    if most is None or (most.other is None and abs(most.offline - most.online) < FAR_APART):
        return
    label, name = study.label(most.metric), most.name
    places = f"{ordinal(most.offline)} by {label}, {ordinal(most.online)} by mean rating"
    if most.other is None:
        claim = f"{name} stands furthest apart offline and with people in {arena.name}: {places}"
        code, numbers = "simulation.order-not-shown-to-differ", tuple[ClaimNumber, ...]()
        detail = "It is not shown that any two recommenders change their order."
    else:
        way = "underrates" if most.offline > most.online else "overrates"
        before = arena.difference(name, most.other, most.metric)
        after = arena.difference(name, most.other, "mean_rating")
        claim = f"{label} {way} {name} in {arena.name}: {places}"
        detail = f"Against {most.other}: {label} {before.signed}, mean rating {after.signed}, each paired."
        code = "simulation.order-differs"
        numbers = tuple(_difference_number(arena, name, most.other, own) for own in (most.metric, "mean_rating"))
    yield Finding(code, claim, detail, arena.anchor, numbers=numbers)


def explored(study: SimulationStudy, arena: Arena) -> Iterator[Finding]:
    """Does it pay to show something else than the highest score?"""
    for greedy, others in arena.explorers.items():
        gains = {name: arena.difference(name, greedy, "final_mean_rating") for name in others}
        gains = {name: gain for name, gain in gains.items() if gain.value is not None}
        if not gains:
            continue
        better = [name for name in gains if arena.shows_above(name, greedy, "final_mean_rating")]
        worse = [name for name in gains if arena.shows_above(greedy, name, "final_mean_rating")]
        if arena.trials < MIN_REFITS:
            code = "simulation.exploring-not-tested"
            claim = f"In {_the_trials(arena)} of {arena.name}, {greedy} was run with and without exploring"
        elif better:
            code, ends = "simulation.exploring-better", verb(better, "ends", "end")
            claim = f"Exploring paid for {greedy} in {arena.name}: {listing(better)} {ends} higher"
        elif len(worse) == len(gains):
            code, claim = "simulation.exploring-worse", f"Exploring did not pay for {greedy} in {arena.name}"
        else:
            code = "simulation.exploring-not-shown"
            claim = f"It is not shown that exploring pays for {greedy} in {arena.name}"
        told = []
        for name, gain in gains.items():
            error = arena.difference(name, greedy, "population_rmse")
            known = "" if error.value is None else f" (population RMSE {error.signed})"
            told.append(f"{name} {gain.signed}{known}")
        detail = f"Against {greedy}, over the last {plural(arena.last, 'rating')}: {'; '.join(told)}."
        numbers = tuple(_difference_number(arena, name, greedy, "final_mean_rating") for name in gains)
        yield Finding(code, claim, detail, arena.anchor, numbers=numbers)


def moved(study: SimulationStudy, arena: Arena) -> Iterator[Finding]:
    """Did tastes move, and with whom most?"""
    drift = arena.known("drift")
    if not arena.drifts:
        return
    ordered = sorted(drift, key=lambda name: drift[name].value or 0.0)
    least, most = ordered[0], ordered[-1]
    code, numbers = "simulation.tastes-moved", tuple[ClaimNumber, ...]()
    claim = f"Tastes in {arena.name} moved by up to {drift[most].text} rating points"
    detail = f"Root mean square over all users and items at the end: {most} {drift[most].full}"
    if len(ordered) > 1:
        gap = arena.difference(most, least, "drift")
        numbers = (_difference_number(arena, most, least, "drift"),)
        if arena.shows_above(most, least, "drift"):
            code, claim = "simulation.tastes-moved-differently", f"Tastes in {arena.name} moved most with {most}"
            detail += f", {least}, the least, {drift[least].full}: {gap.full} apart"
        else:
            detail += f", {least}, the least, {drift[least].full}: {gap.full} apart, which is not shown to differ"
    yield Finding(code, claim, f"{detail}.", arena.anchor, numbers=numbers)


def unmoved(study: SimulationStudy) -> Iterator[Finding]:
    """Where did nobody change?"""
    still = [arena for arena in study.arenas if arena.known("drift") and not arena.drifts]
    if still:
        names = [arena.name for arena in still]
        detail = "From the first step to the last, with every recommender."
        claim = f"Nobody's tastes moved in {listing(names)}"
        yield Finding("simulation.tastes-did-not-move", claim, detail, still[0].anchor)


def headlines_of(study: SimulationStudy) -> list[Headline]:
    """Exactly five: who is liked best, do nDCG and RMSE foresee the order, whom do they misjudge, did tastes move."""
    return [_liked(study), _foreseen(study, "ndcg"), _foreseen(study, "rmse"), _misjudged(study), _moved(study)]


def _liked(study: SimulationStudy) -> Headline:
    title, arena = "Mean rating of the best", study.main
    ranked, liked = arena.ranked("mean_rating", oracle=False), arena.known("mean_rating")
    if not ranked:
        return Headline(
            "headline.mean-rating", title, NOT_AVAILABLE, f"Nobody rated anything in {arena.name}.", "mean_rating"
        )
    first = ranked[0]
    meaning = f"What {first} showed in {arena.name}"
    if len(ranked) > 1:
        lead = arena.difference(first, ranked[1], "mean_rating")
        meaning += f": {lead.full} more than {ranked[1]}, the next"
        meaning += "" if arena.shows_above(first, ranked[1], "mean_rating") else ", which is not shown to differ"
    others = [other.ranked("mean_rating", oracle=False)[:1] for other in study.arenas[1:]]
    if elsewhere := list(dict.fromkeys(name for best in others for name in best)):
        meaning += f". The best elsewhere: {listing(elsewhere)}"
    return Headline(
        "headline.mean-rating", title, liked[first].text, f"{meaning}.", "mean_rating", liked[first].interval
    )


def _foreseen(study: SimulationStudy, metric: str) -> Headline:
    own, label = study.main.correlations[metric], study.label(metric)
    title = f"Does {label} foresee the order?"
    if own.estimate.value is None:
        meaning = f"It takes two recommenders with both numbers, and different ones, in {study.main.name}."
        return Headline(f"headline.prediction-{metric}", title, NOT_AVAILABLE, meaning, "spearman")
    same = "1" if own.better > 0 else "\N{MINUS SIGN}1"
    meaning = f"Spearman with the mean rating in {study.main.name}, over {plural(own.recommenders, 'recommender')}; "
    verdict = (
        f"{'More than' if own.beyond_chance else 'Not shown to be more than'} chance ({p_value_text(own.p_value)})."
    )
    meaning += f"{same}: the same order. {'One trial: no interval.' if study.main.trials == 1 else verdict}"
    others = [arena.correlations[metric].estimate for arena in study.arenas[1:]]
    if known := sorted((other for other in others if other.value is not None), key=lambda other: other.value or 0.0):
        ends = known[0].text if len(known) == 1 else f"{known[0].text} to {known[-1].text}"
        meaning += f" Elsewhere: {ends}."
    return Headline(
        f"headline.prediction-{metric}", title, own.estimate.text, meaning, "spearman", own.estimate.interval
    )


def _misjudged(study: SimulationStudy) -> Headline:
    title, most = "Standing that differs most", most_misjudged(study.main)
    if most is None:
        meaning = f"Offline metrics and people put everybody in the same place in {study.main.name}."
        return Headline("headline.order", title, "none", meaning, "spearman")
    label = study.label(most.metric)
    meaning = f"{most.name} by {label} and by mean rating in {study.main.name}"
    meaning += "." if most.other else "; not shown to differ."
    return Headline("headline.order", title, f"{ordinal(most.offline)} → {ordinal(most.online)}", meaning, most.metric)


def _moved(study: SimulationStudy) -> Headline:
    """Of all environments: where they moved most."""
    title = "How far tastes moved"
    drift = {(arena.name, name): own for arena in study.arenas for name, own in arena.known("drift").items()}
    if not drift:
        return Headline("headline.drift", title, NOT_AVAILABLE, "Tastes were not observed.", "drift")
    where, most = max(drift, key=lambda at: drift[at].value or 0.0)
    found = drift[where, most]
    if not found.value:
        names = listing(list(dict.fromkeys(name for name, _ in drift)))
        return Headline("headline.drift", title, "not at all", f"Nobody's tastes changed in {names}.", "drift")
    meaning = f"Rating points, root mean square, until the end of {where} with {most}, the most."
    return Headline("headline.drift", title, found.text, meaning, "drift", found.interval)
