"""Who decides what is recommended: what people can change for themselves, and others for them, over time."""

from __future__ import annotations

from collections.abc import Iterator

from recaudit.audits.agency_parts import EDITOR_CONTRAST, ITEM_CONTRAST
from recaudit.report.agency import WHEN, When
from recaudit.report.evidence import Evidence, Group
from recaudit.report.findings.finding import Finding
from recaudit.report.numbers import TIMES, times

_SECTION = "agency"


def own_say(evidence: Evidence) -> Iterator[Finding]:
    """How much do the last ratings decide, and how much the next ones?"""
    model = evidence.front("past_lift") or evidence.front("future_lift")
    if model is None:
        return
    past, future = (evidence.known(f"{when}_lift").get(model) for when in WHEN)
    k = evidence.list_length("agency")
    said = [
        f"{estimate.full} {how}"
        for estimate, how in (
            (past, f"by having rated the last {k} items otherwise"),
            (future, f"by rating the next {k}"),
        )
        if estimate is not None
    ]
    strongest = max((e for e in (past, future) if e is not None), key=lambda estimate: estimate.value or 0.0)
    if not strongest.above(1):
        return
    number = strongest.text.lstrip(TIMES)
    verb = "could have made" if strongest is past else "can make"
    yield Finding(
        f"With {k} ratings, users of {model} {verb} an item {number} times as likely at best, on average",
        f"Lift: {', '.join(said)}.{_doubled(evidence, model)}",
        _SECTION,
    )


def others_say(evidence: Evidence) -> Iterator[Finding]:
    """How far can others move what people are recommended?"""
    model = evidence.front("past_instability") or evidence.front("future_instability")
    if model is None:
        return
    k, distance = evidence.list_length("agency"), str(evidence.settings["agency"]["distance"]).capitalize()
    means = [
        f"{estimate.full} {told}"
        for when, told in WHEN.items()
        if (estimate := evidence.known(f"{when}_instability").get(model)) is not None
    ]
    shares = [
        estimate
        for when in WHEN
        if (estimate := evidence.known(f"{when}_unstable_share").get(model)) is not None and estimate.value is not None
    ]
    most = max(shares, key=lambda estimate: estimate.value or 0.0, default=None)
    worked = evidence.agency[model].worked
    pairs = [f"{worked[when].value:.3f} {told}" for when, told in WHEN.items() if when in worked]
    if most is not None and most.value:
        claim = (
            f"With {model}, {most.text} of users' pairs are unstable: one of them can overturn what the other is shown"
        )
    else:
        claim = f"No user of {model} who was asked about can overturn what another is shown with {k} ratings"
    largest = f" The largest: {', '.join(pairs)}." if pairs else ""
    yield Finding(
        claim, f"{distance} distance on average: {', '.join(means)}; 0.5 would be unstable.{largest}", _SECTION
    )


def popular_items_move(evidence: Evidence) -> Iterator[Finding]:
    """Can popular items be lifted further than others, or less far?"""
    model = evidence.front("future_lift") or evidence.front("past_lift")
    if model is None:
        return
    for when, groups in _contrasts(evidence, model, "lift", ITEM_CONTRAST):
        popular, between, ratio = groups
        if ratio.estimate.above(1) or ratio.estimate.below(1):
            way = "further" if ratio.estimate.above(1) else "less far"
            yield Finding(
                f"Users of {model} can lift popular items {way} than intermediate ones",
                f"{WHEN[when].capitalize()}: {popular.estimate.full} against {between.estimate.full}, a ratio of "
                f"{times(ratio.estimate.value or 1.0)} {ratio.estimate.interval} on the same users.",
                _SECTION,
            )
            return


def active_users_move(evidence: Evidence) -> Iterator[Finding]:
    """Do the most active users move others further?"""
    model = evidence.front("future_instability") or evidence.front("past_instability")
    if model is None:
        return
    for when, groups in _contrasts(evidence, model, "instability", EDITOR_CONTRAST):
        active, between, difference = groups
        if difference.estimate.above(0) or difference.estimate.below(0):
            way = "further" if difference.estimate.above(0) else "less far"
            yield Finding(
                f"The most active users of {model} can move others {way} than users in between",
                f"Instability {WHEN[when]}: {active.estimate.full} against {between.estimate.full}, a difference of "
                f"{difference.estimate.signed} on the same users.",
                _SECTION,
            )
            return


def _contrasts(evidence: Evidence, model: str, metric: str, by: str) -> Iterator[tuple[When, list[Group]]]:
    """The two groups and how they differ, the future first."""
    tenses: tuple[When, ...] = ("future", "past")
    for when in tenses:
        groups = evidence.groups(model, f"{when}_{metric}", by)
        if len(groups) == 3:
            yield when, groups


def _doubled(evidence: Evidence, model: str) -> str:
    shares = [
        f"{estimate.full} {told}"
        for when, told in WHEN.items()
        if (estimate := evidence.known(f"{when}_doubled").get(model)) is not None
    ]
    return f" At least twice as likely: {', '.join(shares)} of items." if shares else ""
