"""The five numbers that come first: on the page as cards, in the terminal as lines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from recaudit.report.evidence import QUALITY, Evidence, widest_gaps
from recaudit.report.numbers import NOT_AVAILABLE, count, plural, signed_percent


@final
@dataclass(frozen=True)
class Headline:
    """One number, and one sentence that says what it means."""

    label: str
    value: str
    meaning: str
    metric: str
    """The metric behind it, by its name in `METRICS`."""
    interval: str = ""
    """`[lower, upper]` around the value (around both values of a gap), where there is one."""


def headlines_of(evidence: Evidence) -> list[Headline]:
    """Exactly five: does it rank, what can users change (else: does it predict), what does it hide, where does it pull,
    whom does it fail."""
    return [
        _ranking(evidence),
        _say(evidence) or _rating_error(evidence),
        _never_shown(evidence),
        _popularity(evidence),
        _widest_gap(evidence),
    ]


def _ranking(evidence: Evidence) -> Headline:
    title, known = "Ranking quality", evidence.known(QUALITY)
    best = known.get(evidence.main)
    if best is None:
        return Headline(title, NOT_AVAILABLE, "The run has no accuracy audit of this model.", QUALITY)
    others = len(evidence.personalised)
    standing = f", the best of {others} models that personalise" if others > 1 else ""
    beside = f"; {evidence.rival}, which does not, reaches {known[evidence.rival].text}" if evidence.rival else ""
    meaning = f"{evidence.label(QUALITY)} of {evidence.main}{standing}{beside}."
    return Headline(title, best.text, meaning, QUALITY, best.interval)


def _say(evidence: Evidence) -> Headline | None:
    """None where reachability was not asked for, or has no answer."""
    title = "What users can change"
    if (model := evidence.front("lift")) is not None:
        lift = evidence.known("lift")[model]
        meaning = f"How many times as likely users of {model} can make an item at best, on average."
        return Headline(title, lift.text, meaning, "lift", lift.interval)
    if (model := evidence.front("discovery")) is not None:
        found = evidence.known("discovery")[model]
        meaning = f"The share of items that users of {model} can make likelier than by chance at best."
        return Headline(title, found.text, meaning, "discovery", found.interval)
    return None


def _rating_error(evidence: Evidence) -> Headline:
    title, known = "Rating error", evidence.known("rmse")
    if not known:
        return Headline(title, NOT_AVAILABLE, "No model of this run predicts ratings.", "rmse")
    model = evidence.ranked("rmse")[0]
    low, high = evidence.run.manifest.data.scale
    standing = f", the lowest of {len(known)} models that predict ratings" if len(known) > 1 else ""
    meaning = f"RMSE of {model}{standing}, on a scale from {low:g} to {high:g}."
    return Headline(title, known[model].text, meaning, "rmse", known[model].interval)


def _never_shown(evidence: Evidence) -> Headline:
    title, shown = "Catalogue nobody is shown", evidence.known("coverage").get(evidence.main)
    if shown is None or shown.value is None:
        return Headline(title, NOT_AVAILABLE, "The run has no exposure audit of this model.", "coverage")
    hidden = replace(shown, value=1 - shown.value, lower=_rest(shown.upper), upper=_rest(shown.lower))
    items, k = evidence.run.manifest.data.items, evidence.list_length("exposure")
    left = count(round((1 - shown.value) * items))
    meaning = f"{evidence.main} leaves {left} of {plural(items, 'item')} out of every user's list of {k}."
    return Headline(title, hidden.text, meaning, "coverage", hidden.interval)


def _rest(share: float | None) -> float | None:
    return None if share is None else max(0.0, 1 - share)


def _popularity(evidence: Evidence) -> Headline:
    title, metric = "Pull towards the popular", "popularity_lift"
    lift = evidence.known(metric).get(evidence.main)
    if lift is None or lift.value is None:
        return Headline(title, NOT_AVAILABLE, "The run has no exposure audit of this model.", metric)
    size = signed_percent(abs(lift.value)).lstrip("+")
    way = "more" if lift.value >= 0 else "less"
    meaning = f"On average {evidence.main} shows users what is {size} {way} popular than what they chose before."
    return Headline(title, lift.text, meaning, metric, lift.interval)


def _widest_gap(evidence: Evidence) -> Headline:
    title = "Widest gap between user groups"
    grouped = [evidence.groups(evidence.main, QUALITY, by) for by in evidence.user_groupings]
    gaps = widest_gaps(evidence, evidence.main, QUALITY)
    if not any(grouped):
        return Headline(title, NOT_AVAILABLE, "The run has no accuracy by group of users.", QUALITY)
    if not gaps:
        meaning = f"{evidence.main} serves no group of users measurably better than another."
        return Headline(title, "none", meaning, QUALITY)
    worst, best = gaps[0]
    meaning = f"{evidence.label(QUALITY)} of {evidence.main} for {worst.people} and for {best.people}."
    ends = f"{worst.estimate.interval} {best.estimate.interval}"
    return Headline(title, f"{worst.estimate.text} to {best.estimate.text}", meaning, QUALITY, ends)
