"""The five numbers that come first on a simulation's page, all of the first environment."""

from __future__ import annotations

from recaudit.report.findings.simulation import most_misjudged, told_p
from recaudit.report.headlines import Headline
from recaudit.report.numbers import NOT_AVAILABLE, ordinal, plural
from recaudit.report.simulation import Study


def headlines_of(study: Study) -> list[Headline]:
    """Exactly five: who is liked best, do nDCG and RMSE foresee the order, whom do they misjudge, did tastes move."""
    return [_liked(study), _foreseen(study, "ndcg"), _foreseen(study, "rmse"), _misjudged(study), _moved(study)]


def _liked(study: Study) -> Headline:
    title, arena = "Mean rating of the best", study.main
    ranked, liked = arena.ranked("mean_rating", oracle=False), arena.known("mean_rating")
    if not ranked:
        return Headline(title, NOT_AVAILABLE, "Nobody rated anything.", "mean_rating")
    first = ranked[0]
    meaning = f"What {first} showed in {arena.name}"
    if len(ranked) > 1:
        lead = arena.difference(first, ranked[1], "mean_rating")
        meaning += f": {lead.full} more than {ranked[1]}, the next"
        meaning += "" if lead.above(0) else ", which may be chance"
    return Headline(title, liked[first].text, f"{meaning}.", "mean_rating", liked[first].interval)


def _foreseen(study: Study, metric: str) -> Headline:
    own, label = study.main.correlations[metric], study.label(metric)
    title = f"Does {label} foresee the order?"
    if own.estimate.value is None:
        return Headline(title, NOT_AVAILABLE, "It takes two recommenders with both numbers.", "spearman")
    same = "1" if own.better > 0 else "\N{MINUS SIGN}1"
    meaning = f"Spearman with the mean rating over {plural(own.recommenders, 'recommender')}; {same}: the same order. "
    if study.main.trials == 1:
        meaning += "One trial: no interval."
    elif own.beyond_chance:
        meaning += f"More than chance ({told_p(own.p_value)})."
    else:
        meaning += f"It may be chance ({told_p(own.p_value)})."
    return Headline(title, own.estimate.text, meaning, "spearman", own.estimate.interval)


def _misjudged(study: Study) -> Headline:
    title, most = "Standing that differs most", most_misjudged(study.main)
    if most is None:
        return Headline(title, "none", "Offline metrics and people put everybody in the same place.", "spearman")
    label = study.label(most.metric)
    meaning = f"{most.name} by {label} and by mean rating"
    meaning += "." if most.other else "; it may be chance."
    return Headline(title, f"{ordinal(most.offline)} → {ordinal(most.online)}", meaning, most.metric)


def _moved(study: Study) -> Headline:
    title, arena = "How far tastes moved", study.main
    drift = arena.known("drift")
    if not drift:
        return Headline(title, NOT_AVAILABLE, "Tastes were not observed.", "drift")
    if not arena.drifts:
        return Headline(title, "not at all", f"Nobody's tastes changed in {arena.name}.", "drift")
    most = max(drift, key=lambda name: drift[name].value or 0.0)
    meaning = f"Rating points, root mean square, until the end with {most}, the most."
    return Headline(title, drift[most].text, meaning, "drift", drift[most].interval)
