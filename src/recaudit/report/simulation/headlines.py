"""The five numbers that come first on a simulation's page: each says which environment it is of."""

from __future__ import annotations

from recaudit.report.headlines import Headline
from recaudit.report.kit.numbers import NOT_AVAILABLE, listing, ordinal, plural
from recaudit.report.simulation.evidence import Study
from recaudit.report.simulation.findings import most_misjudged, told_p


def headlines_of(study: Study) -> list[Headline]:
    """Exactly five: who is liked best, do nDCG and RMSE foresee the order, whom do they misjudge, did tastes move."""
    return [_liked(study), _foreseen(study, "ndcg"), _foreseen(study, "rmse"), _misjudged(study), _moved(study)]


def _liked(study: Study) -> Headline:
    title, arena = "Mean rating of the best", study.main
    ranked, liked = arena.ranked("mean_rating", oracle=False), arena.known("mean_rating")
    if not ranked:
        return Headline(title, NOT_AVAILABLE, f"Nobody rated anything in {arena.name}.", "mean_rating")
    first = ranked[0]
    meaning = f"What {first} showed in {arena.name}"
    if len(ranked) > 1:
        lead = arena.difference(first, ranked[1], "mean_rating")
        meaning += f": {lead.full} more than {ranked[1]}, the next"
        meaning += "" if lead.above(0) else ", which may be chance"
    others = [other.ranked("mean_rating", oracle=False)[:1] for other in study.arenas[1:]]
    if elsewhere := list(dict.fromkeys(name for best in others for name in best)):
        meaning += f". The best elsewhere: {listing(elsewhere)}"
    return Headline(title, liked[first].text, f"{meaning}.", "mean_rating", liked[first].interval)


def _foreseen(study: Study, metric: str) -> Headline:
    own, label = study.main.correlations[metric], study.label(metric)
    title = f"Does {label} foresee the order?"
    if own.estimate.value is None:
        meaning = f"It takes two recommenders with both numbers, and different ones, in {study.main.name}."
        return Headline(title, NOT_AVAILABLE, meaning, "spearman")
    same = "1" if own.better > 0 else "\N{MINUS SIGN}1"
    meaning = f"Spearman with the mean rating in {study.main.name}, over {plural(own.recommenders, 'recommender')}; "
    meaning += f"{same}: the same order. "
    if study.main.trials == 1:
        meaning += "One trial: no interval."
    elif own.beyond_chance:
        meaning += f"More than chance ({told_p(own.p_value)})."
    else:
        meaning += f"It may be chance ({told_p(own.p_value)})."
    others = [arena.correlations[metric].estimate for arena in study.arenas[1:]]
    if known := sorted((other for other in others if other.value is not None), key=lambda other: other.value or 0.0):
        ends = known[0].text if len(known) == 1 else f"{known[0].text} to {known[-1].text}"
        meaning += f" Elsewhere: {ends}."
    return Headline(title, own.estimate.text, meaning, "spearman", own.estimate.interval)


def _misjudged(study: Study) -> Headline:
    title, most = "Standing that differs most", most_misjudged(study.main)
    if most is None:
        meaning = f"Offline metrics and people put everybody in the same place in {study.main.name}."
        return Headline(title, "none", meaning, "spearman")
    label = study.label(most.metric)
    meaning = f"{most.name} by {label} and by mean rating in {study.main.name}"
    meaning += "." if most.other else "; it may be chance."
    return Headline(title, f"{ordinal(most.offline)} → {ordinal(most.online)}", meaning, most.metric)


def _moved(study: Study) -> Headline:
    """Of all environments: where they moved most."""
    title = "How far tastes moved"
    drift = {(arena.name, name): own for arena in study.arenas for name, own in arena.known("drift").items()}
    if not drift:
        return Headline(title, NOT_AVAILABLE, "Tastes were not observed.", "drift")
    where, most = max(drift, key=lambda at: drift[at].value or 0.0)
    found = drift[where, most]
    if not found.value:
        names = listing(list(dict.fromkeys(name for name, _ in drift)))
        return Headline(title, "not at all", f"Nobody's tastes changed in {names}.", "drift")
    meaning = f"Rating points, root mean square, until the end of {where} with {most}, the most."
    return Headline(title, found.text, meaning, "drift", found.interval)
