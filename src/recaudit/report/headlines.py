"""The five numbers that come first: on the page as cards, in the terminal as lines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from recaudit.metrics.numbers import signed_percent
from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.kit.numbers import FEWEST_USERS, NOT_AVAILABLE, Estimate, count, plural


@final
@dataclass(frozen=True)
class Headline:
    """One number, and one sentence that says what it means."""

    label: str
    value: str
    meaning: str
    metric: str
    """The metric behind it, by its name."""
    interval: str = ""
    """`[lower, upper]` around the value (around both values of a gap), where there is one."""


def headlines_of(evidence: Evidence) -> list[Headline]:
    """Exactly five: does it rank, what can users change (else: does it predict, or at least find), what does it hide,
    where does it pull, whom does it fail."""
    return [
        _ranking(evidence),
        _say(evidence) or _rating_error(evidence) or _found(evidence),
        _never_shown(evidence),
        _popularity(evidence),
        _widest_gap(evidence),
    ]


def _ranking(evidence: Evidence) -> Headline:
    title, known = "Ranking quality", evidence.known(QUALITY)
    best = known.get(evidence.main)
    if best is None:
        return Headline(title, NOT_AVAILABLE, "The run has no accuracy audit of this model.", QUALITY)
    others = [known[model].value for model in evidence.contestants if model != evidence.main]
    standing = _standing("best", len(others) + 1, "personalise", level=best.value in others)
    beside = f"; {evidence.rival}, which does not, reaches {known[evidence.rival].text}" if evidence.rival else ""
    meaning = f"{evidence.label(QUALITY)} of {evidence.main}{standing}{beside}."
    return Headline(title, best.text, meaning + _few(best), QUALITY, best.interval)


def _standing(word: str, models: int, do: str, *, level: bool) -> str:
    """Where a model stands among those that were measured."""
    if models < 2:
        return ""
    return f", {'with another ' if level else ''}the {word} of {models} models that {do}"


def _few(estimate: Estimate) -> str:
    """A caution where a number rests on too few users to be a finding."""
    return "" if estimate.rests_on_enough else f" It rests on {plural(estimate.users, 'user')} only."


def _say(evidence: Evidence) -> Headline | None:
    """None where reachability was not asked for, or has no answer."""
    title = "What users can change"
    if (model := evidence.front("lift")) is not None:
        lift = evidence.known("lift")[model]
        meaning = f"How many times as likely users of {model} can make an item at best, on average."
        return Headline(title, lift.text, meaning + _few(lift), "lift", lift.interval)
    if (model := evidence.front("discovery")) is not None:
        found = evidence.known("discovery")[model]
        meaning = f"The share of items that users of {model} can make likelier than by chance at best."
        return Headline(title, found.text, meaning + _few(found), "discovery", found.interval)
    return None


def _rating_error(evidence: Evidence) -> Headline | None:
    """None where no model is known to predict ratings."""
    known = evidence.known("rmse")
    if not known:
        return None
    model = evidence.ranked("rmse")[0]
    low, high = evidence.run.manifest.data.scale
    level = [estimate.value for estimate in known.values()].count(known[model].value) > 1
    standing = _standing("lowest", len(known), "predict ratings", level=level)
    meaning = f"RMSE of {model}{standing}, on a scale from {low:g} to {high:g}."
    return Headline("Rating error", known[model].text, meaning + _few(known[model]), "rmse", known[model].interval)


def _found(evidence: Evidence) -> Headline:
    title, found = "Held-out items found", evidence.known("recall").get(evidence.main)
    if found is None:
        return Headline(title, NOT_AVAILABLE, "The run has no accuracy audit of this model.", "recall")
    meaning = (
        f"{evidence.label('recall')} of {evidence.main}: the share of a user's relevant held-out items in the list."
    )
    return Headline(title, found.text, meaning + _few(found), "recall", found.interval)


def _never_shown(evidence: Evidence) -> Headline:
    title, shown = "Catalogue nobody is shown", evidence.known("coverage").get(evidence.main)
    if shown is None or shown.value is None:
        return Headline(title, NOT_AVAILABLE, "The run has no exposure audit of this model.", "coverage")
    hidden = replace(shown, value=1 - shown.value, lower=_rest(shown.upper), upper=_rest(shown.lower))
    items, k = evidence.run.manifest.data.items, evidence.list_length("exposure")
    left = count(round((1 - shown.value) * items))
    meaning = f"{evidence.main} leaves {left} of {plural(items, 'item')} out of every user's list of {k}."
    return Headline(title, hidden.text, meaning + _few(shown), "coverage", hidden.interval)


def _rest(share: float | None) -> float | None:
    return None if share is None else max(0.0, 1 - share)


def _popularity(evidence: Evidence) -> Headline:
    title, metric = "Popularity against own choices", "popularity_lift"
    lift = evidence.known(metric).get(evidence.main)
    if lift is None or lift.value is None:
        return Headline(title, NOT_AVAILABLE, "The run has no exposure audit of this model.", metric)
    size = signed_percent(abs(lift.value)).lstrip("+")
    way = f"{size} {'more' if lift.value > 0 else 'less'} popular than" if size != "0%" else "as popular as"
    meaning = f"On average {evidence.main} shows users what is {way} what they chose before."
    return Headline(title, lift.text, meaning + _few(lift), metric, lift.interval)


def _widest_gap(evidence: Evidence) -> Headline:
    title = "Widest gap between user groups"
    grouped = [evidence.firm_groups(evidence.main, QUALITY, by) for by in evidence.user_groupings]
    gaps = evidence.widest_gaps(evidence.main, QUALITY)
    if not any(len(groups) > 1 for groups in grouped):
        meaning = f"The run has no accuracy by groups of {FEWEST_USERS} users or more."
        return Headline(title, NOT_AVAILABLE, meaning, QUALITY)
    if not gaps:
        meaning = f"{evidence.main} serves no group of {FEWEST_USERS} users or more measurably better than another."
        return Headline(title, "none", meaning, QUALITY)
    worst, best = gaps[0]
    meaning = f"{evidence.label(QUALITY)} of {evidence.main} for {worst.people} and for {best.people}."
    ends = f"{worst.estimate.interval} {best.estimate.interval}"
    return Headline(title, f"{worst.estimate.text} to {best.estimate.text}", meaning, QUALITY, ends)
