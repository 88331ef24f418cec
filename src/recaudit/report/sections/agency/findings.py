"""Who decides what is recommended: what people can change for themselves, and others for them, over time."""

from __future__ import annotations

from collections.abc import Iterator

from recaudit.audits.agency.parts import EDITOR_CONTRAST, ITEM_CONTRAST
from recaudit.metrics.numbers import TIMES, times
from recaudit.report.evidence import Evidence, Group
from recaudit.report.kit.findings import Finding, against, in_logs
from recaudit.report.sections.agency.curves import AUDIT, WHEN, When, agency_of


def own_say(evidence: Evidence) -> Iterator[Finding]:
    """How much do the last ratings decide, and how much the next ones?"""
    model = _first(evidence, "lift")
    if model is None:
        return
    past, future = (evidence.firm(f"{when}_lift").get(model) for when in WHEN)
    k = evidence.list_length(AUDIT)
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
        AUDIT,
        against(in_logs(strongest), 0.0, evidence.confidence),
        strongest.users,
    )


def others_say(evidence: Evidence) -> Iterator[Finding]:
    """How far can others move what people are recommended?"""
    model = _first(evidence, "unstable_share")
    if model is None:
        return
    k, distance = evidence.list_length(AUDIT), str(evidence.settings[AUDIT]["distance"]).capitalize()
    means = [
        f"{estimate.full} {told}"
        for when, told in WHEN.items()
        if (estimate := evidence.firm(f"{when}_instability").get(model)) is not None
    ]
    shares = {
        when: estimate for when in WHEN if (estimate := evidence.firm(f"{when}_unstable_share").get(model)) is not None
    }
    most = max(shares.values(), key=lambda estimate: estimate.value or 0.0)
    worked = agency_of(evidence)[model].worked
    pairs = [f"{worked[when].value:.3f} {WHEN[when]}" for when in shares if when in worked]
    if most.value:
        claim = (
            f"With {model}, {most.text} of users' pairs are unstable: one of them can overturn what the other is shown"
        )
    else:
        claim = f"No user of {model} who was asked about can overturn what another is shown with {k} ratings"
    average = f"{distance} distance on average: {', '.join(means)}; " if means else f"{distance} distance: "
    largest = f" The largest: {', '.join(pairs)}." if pairs else ""
    yield Finding(
        claim,
        f"{average}0.5 would be unstable.{largest}",
        AUDIT,
        against(most, 0.0, evidence.confidence),
        min(estimate.users for estimate in shares.values()),
    )


def popular_items_move(evidence: Evidence) -> Iterator[Finding]:
    """Can popular items be lifted further than others, or less far?"""
    model = _first(evidence, "lift")
    if model is None:
        return
    for when, groups in _contrasts(evidence, model, "lift", ITEM_CONTRAST):
        popular, between, ratio = groups
        if ratio.estimate.above(1) or ratio.estimate.below(1):
            way = "further" if ratio.estimate.above(1) else "less far"
            verb = "could have lifted" if when == "past" else "can lift"
            yield Finding(
                f"Users of {model} {verb} popular items {way} than intermediate ones",
                f"{WHEN[when].capitalize()}: {popular.estimate.full} against {between.estimate.full}, a ratio of "
                f"{times(ratio.estimate.value or 1.0)} {ratio.estimate.interval} on the same users.",
                AUDIT,
                against(in_logs(ratio.estimate), 0.0, evidence.confidence),
                min(group.estimate.users for group in groups),
            )
            return


def active_users_move(evidence: Evidence) -> Iterator[Finding]:
    """Do the most active users move others further?"""
    model = _first(evidence, "instability")
    if model is None:
        return
    for when, groups in _contrasts(evidence, model, "instability", EDITOR_CONTRAST):
        active, between, difference = groups
        if difference.estimate.above(0) or difference.estimate.below(0):
            way = "further" if difference.estimate.above(0) else "less far"
            verb = "could have moved" if when == "past" else "can move"
            yield Finding(
                f"The most active users of {model} {verb} others {way} than users in between",
                f"Instability {WHEN[when]}: {active.estimate.full} against {between.estimate.full}, a difference of "
                f"{difference.estimate.signed} on the same users.",
                AUDIT,
                against(difference.estimate, 0.0, evidence.confidence),
                min(group.estimate.users for group in groups),
            )
            return


def _first(evidence: Evidence, metric: str) -> str | None:
    """The best ranking of the models that have this number for enough users, in hindsight or from now on."""
    firm = {model for when in WHEN for model in evidence.firm(f"{when}_{metric}")}
    return next((model for model in evidence.models if model in firm), None)


def _contrasts(evidence: Evidence, model: str, metric: str, by: str) -> Iterator[tuple[When, list[Group]]]:
    """The two groups and how they differ, the future first, where there are enough users."""
    tenses: tuple[When, ...] = ("future", "past")
    for when in tenses:
        groups = evidence.firm_groups(model, f"{when}_{metric}", by)
        if len(groups) == 3:
            yield when, groups


def _doubled(evidence: Evidence, model: str) -> str:
    shares = [
        f"{estimate.full} of items {told}"
        for when, told in WHEN.items()
        if (estimate := evidence.firm(f"{when}_doubled").get(model)) is not None
    ]
    return f" At least twice as likely: {', '.join(shares)}." if shares else ""
