"""The section on agency over time: what people can do to their own recommendations, and others to them."""

from __future__ import annotations

from typing import Any, final

from recaudit.audits.agency.parts import EDITOR_CONTRAST, ITEM_CONTRAST
from recaudit.report.evidence import Evidence
from recaudit.report.kit.numbers import written
from recaudit.report.kit.tables import Row, Table, group_tables, overview, user_cell
from recaudit.report.sections.agency.curves import AUDIT, WHEN, agency_of, curve, moved_pairs
from recaudit.report.sections.agency.findings import active_users_move, others_say, own_say, popular_items_move
from recaudit.report.sections.section import Section

LIFTS, INSTABILITIES = ["past_lift", "future_lift"], ["past_instability", "future_instability"]
MAIN = [*LIFTS, *INSTABILITIES]


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
        rules = {name: settings.get(f"{name}", "") for name in ("popular items", "active editors")}
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
            "contrasts": [table for table in _contrasts(evidence) if table.rows],
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


def _contrasts(evidence: Evidence) -> list[Table]:
    """Two groups on the same users, a line for each model and tense."""
    return [
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


def _contrast_rows(evidence: Evidence, metric: str, by: str) -> list[Row]:
    found = {
        f"{model}, {tense}": evidence.groups(model, f"{when}_{metric}", by)
        for model in agency_of(evidence)
        for when, tense in WHEN.items()
    }
    return [
        Row(name, [user_cell(group.estimate) for group in groups]) for name, groups in found.items() if len(groups) == 3
    ]
