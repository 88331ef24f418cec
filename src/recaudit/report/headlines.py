"""The five numbers that come first: on the page as cards, in the terminal as lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from recaudit.report.evidence import QUALITY, Evidence, Group, widest_gap
from recaudit.report.numbers import NOT_AVAILABLE, Estimate, count, plural, signed_percent


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
    """`[lower, upper]` around the value, where there is one."""


def headlines_of(evidence: Evidence) -> list[Headline]:
    """Exactly five: how well the model ranks, how well it predicts, what it hides, where it pushes, whom it fails."""
    return [
        _ranking(evidence),
        _rating_error(evidence),
        _never_shown(evidence),
        _popularity(evidence),
        _widest_gap(evidence),
    ]


def _ranking(evidence: Evidence) -> Headline:
    known = evidence.known(QUALITY)
    label = evidence.label(QUALITY)
    best = known.get(evidence.main)
    if best is None:
        return Headline("Ranking quality", NOT_AVAILABLE, "The run has no accuracy audit of this model.", QUALITY)
    beside = f"; {evidence.rival} reaches {known[evidence.rival].text}" if evidence.rival else ""
    standing = f", the best of {plural(len(evidence.personalised), 'model')}" if len(evidence.personalised) > 1 else ""
    return Headline(
        "Ranking quality", best.text, f"{label} of {evidence.main}{standing}{beside}.", QUALITY, best.interval
    )


def _rating_error(evidence: Evidence) -> Headline:
    known = evidence.known("rmse")
    if not known:
        return Headline("Rating error", NOT_AVAILABLE, "No model of this run was asked to predict ratings.", "rmse")
    model = evidence.ranked("rmse")[0]
    low, high = evidence.run.manifest.data.scale
    standing = f", the lowest of {len(known)} models that predict ratings" if len(known) > 1 else ""
    meaning = f"RMSE of {model}{standing}, on a scale from {low:g} to {high:g}."
    return Headline("Rating error", known[model].text, meaning, "rmse", known[model].interval)


def _never_shown(evidence: Evidence) -> Headline:
    title = "Catalogue nobody is shown"
    shown = evidence.known("coverage").get(evidence.main)
    if shown is None or shown.value is None:
        return Headline(title, NOT_AVAILABLE, "The run has no exposure audit of this model.", "coverage")
    hidden = Estimate("coverage", 1 - shown.value, _rest(shown.upper), _rest(shown.lower), shown.status, None, 0, 0)
    items = evidence.run.manifest.data.items
    k = evidence.list_length("exposure")
    missing = round(hidden.value * items) if hidden.value is not None else 0
    meaning = (
        f"{evidence.main} leaves {count(missing)} of {plural(items, 'item')} out of every user's "
        f"{f'top {k}' if k else 'list'}."
    )
    return Headline(title, hidden.text, meaning, "coverage", hidden.interval)


def _rest(share: float | None) -> float | None:
    return None if share is None else 1 - share


def _popularity(evidence: Evidence) -> Headline:
    title = "Pull towards the popular"
    lift = evidence.known("popularity_lift").get(evidence.main)
    if lift is None or lift.value is None:
        return Headline(title, NOT_AVAILABLE, "The run has no exposure audit of this model.", "popularity_lift")
    way = "more" if lift.value >= 0 else "less"
    size = signed_percent(abs(lift.value)).lstrip("+")
    meaning = f"What {evidence.main} shows is on average {size} {way} popular than what the same users chose before."
    return Headline(title, lift.text, meaning, "popularity_lift", lift.interval)


def _widest_gap(evidence: Evidence) -> Headline:
    title = "Widest gap between user groups"
    grouped = [evidence.groups(evidence.main, QUALITY, by) for by in evidence.user_groupings]
    gaps = [gap for groups in grouped if (gap := widest_gap(groups)) is not None]
    if not any(grouped):
        return Headline(title, NOT_AVAILABLE, "The run has no accuracy by group of users.", QUALITY)
    if not gaps:
        meaning = f"{evidence.main} serves no group of users measurably better than another."
        return Headline(title, "none", meaning, QUALITY)
    worst, best = max(gaps, key=_width)
    meaning = (
        f"{evidence.label(QUALITY)} of {evidence.main}: {worst.estimate.full} for {worst.people}, "
        f"{best.estimate.full} for {best.people}."
    )
    return Headline(title, f"{worst.estimate.text} to {best.estimate.text}", meaning, QUALITY)


def _width(gap: tuple[Group, Group]) -> float:
    return (gap[1].estimate.value or 0.0) - (gap[0].estimate.value or 0.0)
