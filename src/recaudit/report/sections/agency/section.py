"""Who decides what is recommended: what people can do to their own recommendations, and others to them, over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from recaudit.audits.agency.parts import EDITOR_CONTRAST, ITEM_CONTRAST
from recaudit.metrics.numbers import TIMES, times
from recaudit.report.evidence import Evidence
from recaudit.report.kit.findings import Finding, against, in_logs
from recaudit.report.kit.numbers import Estimate, written
from recaudit.report.kit.tables import Row, Table, group_tables, overview, user_cell
from recaudit.report.sections.agency.curves import AUDIT, WHEN, When, agency_of, curve, moved_pairs
from recaudit.report.sections.section import Section

LIFTS, INSTABILITIES = ["past_lift", "future_lift"], ["past_instability", "future_instability"]
MAIN = [*LIFTS, *INSTABILITIES]
_VERBS = {"lift": ("can lift", "could have lifted"), "instability": ("can move", "could have moved")}
"""Of the future, and of the past."""


def own_say(evidence: Evidence) -> Iterator[Finding]:
    """How much do the last ratings decide, and how much the next ones?"""
    model, lifts = _firm(evidence, "lift")
    strongest = max(lifts, key=lambda when: lifts[when].value or 0.0, default=None)
    if strongest is None or not lifts[strongest].above(1):
        return
    most, k = lifts[strongest], evidence.list_length(AUDIT)
    how = {"past": f"by having rated the last {k} items otherwise", "future": f"by rating the next {k}"}
    verb = "could have made" if strongest == "past" else "can make"
    said = ", ".join(f"{estimate.full} {how[when]}" for when, estimate in lifts.items())
    doubled = [f"{own.full} of items {WHEN[when]}" for when, own in _firm(evidence, "doubled", model)[1].items()]
    yield Finding(
        f"With {k} ratings, users of {model} {verb} an item {most.text.lstrip(TIMES)} times as likely at best, "
        "on average",
        f"Lift: {said}." + (f" At least twice as likely: {', '.join(doubled)}." if doubled else ""),
        AUDIT,
        against(in_logs(most), 0.0, evidence.confidence),
        most.users,
    )


def others_say(evidence: Evidence) -> Iterator[Finding]:
    """How far can others move what people are recommended?"""
    model, shares = _firm(evidence, "unstable_share")
    if model is None:
        return
    distance = f"{str(evidence.settings[AUDIT]['distance']).capitalize()} distance"
    means = [f"{own.full} {WHEN[when]}" for when, own in _firm(evidence, "instability", model)[1].items()]
    most = max(shares.values(), key=lambda estimate: estimate.value or 0.0)
    worked = agency_of(evidence)[model].worked
    pairs = [f"{worked[when].value:.3f} {WHEN[when]}" for when in shares if when in worked]
    claim = f"With {model}, {most.text} of users' pairs are unstable: one of them can overturn what the other is shown"
    if not most.value:
        claim = f"No user of {model} who was asked about can overturn what another is shown with "
        claim += f"{evidence.list_length(AUDIT)} ratings"
    average = f"{distance} on average: {', '.join(means)}; " if means else f"{distance}: "
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
    for model, when, (popular, between, ratio), verb, way in _contrasts(evidence, "lift", ITEM_CONTRAST, 1.0):
        yield Finding(
            f"Users of {model} {verb} popular items {way} than intermediate ones",
            f"{WHEN[when].capitalize()}: {popular.full} against {between.full}, a ratio of "
            f"{times(ratio.value or 1.0)} {ratio.interval} on the same users.",
            AUDIT,
            against(in_logs(ratio), 0.0, evidence.confidence),
            min(estimate.users for estimate in (popular, between, ratio)),
        )


def active_users_move(evidence: Evidence) -> Iterator[Finding]:
    """Do the most active users move others further?"""
    for model, when, (active, between, difference), verb, way in _contrasts(
        evidence, "instability", EDITOR_CONTRAST, 0.0
    ):
        yield Finding(
            f"The most active users of {model} {verb} others {way} than users in between",
            f"Instability {WHEN[when]}: {active.full} against {between.full}, a difference of "
            f"{difference.signed} on the same users.",
            AUDIT,
            against(difference, 0.0, evidence.confidence),
            min(estimate.users for estimate in (active, between, difference)),
        )


def _contrasts(
    evidence: Evidence, metric: str, by: str, level: float
) -> Iterator[tuple[str, When, list[Estimate], str, str]]:
    """Of the model in front: the two groups and how they differ, where that is apart from `level`; the future first."""
    model, _ = _firm(evidence, metric)
    tenses: tuple[When, ...] = ("future", "past")
    for when, verb in zip(tenses, _VERBS[metric], strict=True):
        groups = [] if model is None else evidence.firm_groups(model, f"{when}_{metric}", by)
        estimates = [group.estimate for group in groups]
        if model is not None and len(groups) == 3 and (estimates[2].above(level) or estimates[2].below(level)):
            yield model, when, estimates, verb, "further" if estimates[2].above(level) else "less far"
            return


def _firm(evidence: Evidence, metric: str, model: str | None = None) -> tuple[str | None, dict[When, Estimate]]:
    """A metric in hindsight and from now on, where it rests on enough users: of the best ranking model that has it."""
    firm = {when: evidence.firm(f"{when}_{metric}") for when in WHEN}
    model = model or next((own for own in evidence.models if any(own in found for found in firm.values())), None)
    return model, {when: found[model] for when, found in firm.items() if model in found}


@final
class AgencySection(Section):
    """Who decides what is recommended: the people it is recommended to, or others?"""

    audits = (AUDIT,)
    anchor, title, template, place = "agency", "Agency", "agency.html.j2", 60
    questions = (own_say, others_say, popular_items_move, active_users_move)

    def content(self) -> dict[str, Any] | None:
        """The four numbers, everything else that was measured, sweeps, contrasts and one pair."""
        evidence = self.evidence
        metrics = evidence.metrics(AUDIT)
        if not metrics:
            return None
        settings, found = evidence.settings[AUDIT], agency_of(evidence)
        others = {model for metric in INSTABILITIES for model in evidence.known(metric)}
        worked = ((model, own.worked["past"]) for model, own in found.items() if "past" in own.worked)
        contrasts = [
            Table(
                "Lift of popular and of intermediate items",
                ["Model", "Popular", "Intermediate", "Ratio"],
                _contrast_rows(evidence, "lift", ITEM_CONTRAST),
            ),
            Table(
                "Instability by active and by intermediate users",
                ["Model", "Active", "Intermediate", "Difference"],
                _contrast_rows(evidence, "instability", EDITOR_CONTRAST),
            ),
        ]
        rules = {name: settings.get(name, "") for name in ("popular items", "active editors")}
        return {
            "k": settings["k"],
            "distance": settings["distance"],
            "policy": written(settings["policy"]),
            "asked": {name: _number(settings[name]) for name in ("users", "targets", "editors", "followed")},
            "rules": rules,
            "main": overview(evidence, AUDIT, [metric for metric in MAIN if metric in metrics]),
            "more": overview(evidence, AUDIT, [metric for metric in metrics if metric not in MAIN]),
            "models": list(found),
            "skipped": evidence.unasked(AUDIT),
            "movers": [model for model in found if model in others],
            "own_only": [model for model in found if model not in others],
            "horizons": [figure for metric in MAIN if (figure := curve(evidence, "horizon", metric)) is not None],
            "betas": [figure for metric in MAIN if (figure := curve(evidence, "beta", metric)) is not None],
            "moved": [figure for when in WHEN if (figure := moved_pairs(evidence, when)) is not None],
            "contrasts": [table for table in contrasts if table.rows],
            "groups": [
                *group_tables(evidence, MAIN, ["history"]),
                *group_tables(evidence, LIFTS, ["popularity"]),
                *group_tables(evidence, INSTABILITIES, ["editor history"]),
            ],
            "example": next(worked, None),
            "methods": f"Hindsight is asked of a model that has not seen anybody's last {settings['k']} ratings; the "
            "future of one that has seen all ratings. A user's own ratings move that user alone, another's ratings "
            "move the items that they rate, and nothing else moves: the model is not trained anew. Popular items: "
            f"{rules['popular items']}. Active users: {rules['active editors']}. Their lifts are geometric means, "
            "compared as a ratio on the same users.",
        }


def _number(some: int | list[object]) -> int:
    """How many a count, or a list of ids, stands for."""
    return len(some) if isinstance(some, list | tuple) else some


def _contrast_rows(evidence: Evidence, metric: str, by: str) -> list[Row]:
    """Two groups on the same users, a line for each model and tense."""
    found = {
        f"{model}, {tense}": evidence.groups(model, f"{when}_{metric}", by)
        for model in agency_of(evidence)
        for when, tense in WHEN.items()
    }
    return [
        Row(name, [user_cell(group.estimate) for group in groups]) for name, groups in found.items() if len(groups) == 3
    ]
