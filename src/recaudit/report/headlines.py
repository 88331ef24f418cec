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


def _card(title: str, own: Estimate, meaning: str) -> Headline:
    """A number with its interval, and a caution where it rests on too few users to be a finding."""
    few = "" if own.rests_on_enough else f" It rests on {plural(own.users, 'user')} only."
    return Headline(title, own.text, meaning + few, own.metric.name, own.interval)


def _absent(title: str, metric: str, audit: str) -> Headline:
    return Headline(title, NOT_AVAILABLE, f"The run has no {audit} audit of this model.", metric)


def _ranking(evidence: Evidence) -> Headline:
    title, known = "Ranking quality", evidence.known(QUALITY)
    best = known.get(evidence.main)
    if best is None:
        return _absent(title, QUALITY, "accuracy")
    others = [known[model].value for model in evidence.contestants if model != evidence.main]
    standing = _standing("best", len(others) + 1, "personalise", level=best.value in others)
    beside = f"; {evidence.rival}, which does not, reaches {known[evidence.rival].text}" if evidence.rival else ""
    return _card(title, best, f"{evidence.label(QUALITY)} of {evidence.main}{standing}{beside}.")


def _standing(word: str, models: int, do: str, *, level: bool) -> str:
    """Where a model stands among those that were measured."""
    if models < 2:
        return ""
    return f", {'with another ' if level else ''}the {word} of {models} models that {do}"


def _say(evidence: Evidence) -> Headline | None:
    """None where reachability was not asked for, or has no answer."""
    meanings = {
        "lift": "How many times as likely users of {} can make an item at best, on average.",
        "discovery": "The share of items that users of {} can make likelier than by chance at best.",
    }
    for metric, meaning in meanings.items():
        for model, own in evidence.known(metric).items():
            return _card("What users can change", own, meaning.format(model))
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
    return _card("Rating error", known[model], f"RMSE of {model}{standing}, on a scale from {low:g} to {high:g}.")


def _found(evidence: Evidence) -> Headline:
    title, found = "Held-out items found", evidence.known("recall").get(evidence.main)
    if found is None:
        return _absent(title, "recall", "accuracy")
    label = evidence.label("recall")
    return _card(
        title, found, f"{label} of {evidence.main}: the share of a user's relevant held-out items in the list."
    )


def _never_shown(evidence: Evidence) -> Headline:
    title, shown = "Catalogue nobody is shown", evidence.known("coverage").get(evidence.main)
    if shown is None:
        return _absent(title, "coverage", "exposure")
    value, upper, lower = (
        None if end is None else max(0.0, 1 - end) for end in (shown.value, shown.lower, shown.upper)
    )
    items, k = evidence.run.manifest.data.items, evidence.list_length("exposure")
    left = f"{count(round((value or 0.0) * items))} of {plural(items, 'item')}"
    meaning = f"{evidence.main} leaves {left} out of every user's list of {k}."
    return _card(title, replace(shown, value=value, lower=lower, upper=upper), meaning)


def _popularity(evidence: Evidence) -> Headline:
    title, lift = "Popularity against own choices", evidence.known("popularity_lift").get(evidence.main)
    if lift is None or lift.value is None:
        return _absent(title, "popularity_lift", "exposure")
    size = signed_percent(abs(lift.value)).lstrip("+")
    way = f"{size} {'more' if lift.value > 0 else 'less'} popular than" if size != "0%" else "as popular as"
    return _card(title, lift, f"On average {evidence.main} shows users what is {way} what they chose before.")


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
