"""What people must do to bring something about: the effort curve, who must work harder, what is out of reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import altair as alt
import polars as pl

from recaudit.metrics.numbers import percent
from recaudit.metrics.tables import SERIES_SCHEMA
from recaudit.report.evidence import Evidence, columns
from recaudit.report.kit import charts as kit
from recaudit.report.kit.claims import Caution, Claim, ClaimNumber, Finding
from recaudit.report.kit.comparisons import (
    MOST_ROWS,
    NumberTable,
    TableCell,
    TableRow,
    by_group,
    model_colors,
    number_cell,
    overview,
)
from recaudit.report.kit.measures import measure
from recaudit.report.kit.notes import among, basis
from recaudit.report.kit.numbers import Estimate, count, plural
from recaudit.report.sections.groups import group_findings
from recaudit.report.sections.reachability import describe_actions
from recaudit.report.sections.section import Section
from recaudit.status import Status

AUDIT = "recourse"
_USERS = columns("user", "within_reach effort", "ratings")
_ITEMS = columns("item title", "within_reach effort", "ratings users")
_LISTS = {
    "action_titles": pl.List(pl.String),
    **dict.fromkeys(("before_ratings", "action_ratings"), pl.List(pl.Float64)),
}
_EXAMPLE = {**columns("user status", "value lower"), **_LISTS}
_GOALS = {
    "top": "{item} among the first {n}",
    "out": "{item} out of the first {n}",
    "likely": "{item} shown with a chance of {p:.3g} or more",
    "share": "{bound} of the first {n} from the category {category}",
    "calibrated": "a list of {n} within {c:g} nats of their own interests",
}
_VERBS = {"top": "get", "out": "keep", "likely": "have", "share": "have", "calibrated": "have"}
_EFFORTS = {"changes": "ratings to change", "total": "rating points to move", "costs": "cost of the changes"}
_STANDS = ("there already", "within reach", "open", "impossible")


def goal_words(goal: Mapping[str, Any], item: str = "an item") -> str:
    """What is to be brought about: `{"kind": "top", "n": 10}` is "an item among the first 10"."""
    least, most = goal.get("at_least"), goal.get("at_most")
    bound = (
        f"at least {percent(least)}" if least is not None else f"at most {percent(most)}" if most is not None else ""
    )
    return _GOALS.get(goal.get("kind", ""), "what was asked for").format(**{**goal, "item": item, "bound": bound})


def proof_words(row: Mapping[str, Any], kind: str) -> str:
    """What is known of a smaller effort than the one of a row."""
    value, lower = row["value"], row["lower"]
    if row["status"] != Status.SOLVED.value:
        return f"whether less is enough, down to {lower:g}, was not decided within the budget"
    if kind != "changes":
        return "nothing smaller does it"
    return {1: "", 2: "no single change does it"}.get(round(value), f"no {round(value) - 1} changes do it")


@final
@dataclass(frozen=True, eq=False)
class RecourseFound:
    """One model's audit."""

    statuses: Mapping[str, int]
    """How many outcomes there are of each status."""
    stands: Mapping[str, float]
    """The share of the outcomes that are there already, within reach with some effort, open and impossible."""
    series: pl.DataFrame
    """Columns as in SERIES_SCHEMA: the share within reach of each effort."""
    users: pl.DataFrame
    """Those who can bring least about first: user, within_reach, effort, ratings."""
    items: pl.DataFrame
    """Those that the fewest users can bring about first: item, title, within_reach, effort, ratings, users."""
    example: Mapping[str, Any] | None
    """One pair: user, status, value, lower, title (None for a list), edits (title, rating before, rating to give)."""

    @classmethod
    def of(cls, evidence: Evidence, model: str) -> RecourseFound:
        """Read a finished audit."""
        pairs = evidence.table(model, AUDIT, "pairs", columns("status", "value"))
        found = dict(pairs["status"].value_counts().iter_rows())
        there, open_ = (pairs["value"] == 0).sum(), pairs.filter(status=Status.BOUNDED.value)["value"].null_count()
        counts = (there, (pairs["value"] > 0).sum(), open_, found.get(Status.IMPOSSIBLE.value, 0))
        hard = [pl.col("within_reach"), -pl.col("effort").fill_null(0.0)]
        items = evidence.table(model, AUDIT, "items", _ITEMS).filter(pl.col("users") > 0)
        return cls(
            {status.value: int(found.get(status.value, 0)) for status in Status},
            {name: own / max(1, sum(counts)) for name, own in zip(_STANDS, counts, strict=True)},
            evidence.table(model, AUDIT, "series", SERIES_SCHEMA).sort("at"),
            evidence.table(model, AUDIT, "users", _USERS).drop_nulls("within_reach").sort(*hard, "user"),
            items.with_columns(pl.coalesce("title", "item")).sort(*hard, -pl.col("users"), "item"),
            _example(evidence, model),
        )


def _example(evidence: Evidence, model: str) -> Mapping[str, Any] | None:
    titled = "item" in evidence.run.scan(model, AUDIT, "pairs").collect_schema()
    found = evidence.table(model, AUDIT, "example", _EXAMPLE | (columns("title") if titled else {}))
    if found.is_empty():
        return None
    row = found.row(0, named=True)
    return {"title": None, **row, "edits": [*zip(*(row[name] for name in _LISTS), strict=True)]}


def effort_curve(evidence: Evidence) -> kit.Figure | None:
    """The share of outcomes within reach of each effort: a line for each model, its interval as a band."""
    rows: kit.Rows = []
    colors = model_colors(evidence)
    for model, found in evidence.each(AUDIT, RecourseFound.of).items():
        for row in found.series.iter_rows(named=True):
            estimate = Estimate.of(evidence.definitions["within_reach"], row)
            rows.append({**kit.in_series(colors, model), "effort": row["at"], **kit.drawn(estimate)})
    points = sorted({row["effort"] for row in rows})
    if len(points) < 2:
        return None
    unit = _EFFORTS.get(evidence.settings[AUDIT].get("effort", {}).get("kind", ""), "effort")
    whole = all(point == round(point) for point in points)
    ticks = kit.tick_axis(points[:: 1 + len(points) // 12], format="d") if whole else alt.Axis()
    x = alt.X("effort:Q", title=unit, axis=ticks, scale=alt.Scale(nice=False, padding=8))
    axis, scale = alt.Axis(format="%", grid=True, tickCount=4), alt.Scale(zero=True, nice=True)
    value, lower = (alt.Y(f"{end}:Q", title="share of outcomes", axis=axis, scale=scale) for end in ("value", "lower"))
    base, color = kit.chart(rows, colors), kit.by_series(colors)
    ends = {row["model"]: row["told"] for row in rows}
    told = kit.tooltip("model", "effort")
    line: Literal["step-after", "linear"] = "step-after" if whole else "linear"
    return kit.figure(
        "Within reach of each effort",
        f"The share of outcomes within reach, from {points[0]:g} to {points[-1]:g} {unit}; with all of it "
        f"{', '.join(f'{model} {end}' for model, end in ends.items())}.",
        260,
        base.mark_area(opacity=0.16, interpolate=line).encode(x, lower, alt.Y2("upper:Q"), color),
        base.mark_line(strokeWidth=2, interpolate=line).encode(x, value, color),
        base.mark_point(size=36).encode(x, value, color, tooltip=told),
    )


def by_group_of(evidence: Evidence, model: str, metric: str, by: str) -> kit.Figure | None:
    """A number of one model in each group, with its interval."""
    groups = evidence.groups(model, metric, by)[: kit.MOST_CATEGORIES]
    if len(groups) < 2:
        return None
    rows: kit.Rows = [{"group": group.name, **kit.drawn(group.estimate)} for group in groups]
    axis, scale = kit.value_axis(evidence.definitions[metric]), alt.Scale(zero=True, nice=True)
    x, lower = kit.across("value", "lower", axis=axis, scale=scale)
    y, base = kit.rows_of("group", [row["group"] for row in rows]), kit.chart(rows)
    label = evidence.label(metric)
    return kit.figure(
        f"By {by}",
        f"{label} with {model} by {by}: {'; '.join(' '.join((row['group'], row['told'])) for row in rows)}.",
        kit.height_of(len(rows), 4),
        base.mark_rule(strokeWidth=2, stroke=kit.ACCENT).encode(lower, alt.X2("upper:Q"), y),
        base.mark_point(size=80, fill=kit.ACCENT).encode(x, y, tooltip=kit.tooltip("group")),
        title=f"{label} with {model} by {by}",
    )


def standings(evidence: Evidence) -> NumberTable:
    """How outcomes stand with each model: what a curve alone does not show."""
    names = {"there already": "There already", "within reach": "With some effort", "open": "Not decided"}
    rows = [
        TableRow(model, [number_cell(found.stands[name], percent) for name in _STANDS])
        for model, found in evidence.each(AUDIT, RecourseFound.of).items()
    ]
    headings = [names.get(name, "Impossible, proved") for name in _STANDS]
    return NumberTable("How the outcomes stand", ["Model", *headings], rows, ["model", *_STANDS])


def out_of_hands(evidence: Evidence) -> Iterator[Claim]:
    """How much can nobody bring about, whatever they rate?"""
    within = evidence.known("within_reach")
    if not within:
        return
    model, own = next(iter(within.items()))
    stands = evidence.each(AUDIT, RecourseFound.of)[model].stands
    if not stands["impossible"] or own.value is None:
        return
    settings = evidence.settings[AUDIT]
    goal, how = settings.get("goal", {}), describe_actions(settings.get("actions") or {})
    wanted = f"{_VERBS.get(goal.get('kind', ''), 'get')} {goal_words(goal)}"
    claim = f"In {percent(stands['impossible'])} of cases users of {model} cannot {wanted}, however they {how}"
    claim += _about(evidence, model)
    detail = f"Within reach: {own.full}, {own.before or 'an unknown share'} without doing anything. "
    detail += f"That the others cannot is proved{', but for what was not decided' if stands['open'] else ''}."
    detail += basis(evidence, AUDIT, model)
    advice = "What ratings cannot bring about needs another way: search, browsing, or a recommender that explores."
    yield Finding(
        "recourse.outcomes-impossible",
        claim,
        detail,
        AUDIT,
        evidence.size(own, value=1.0),
        measure(evidence, model, "within_reach"),
        advice,
        numbers=(
            ClaimNumber(audit=AUDIT, metric="within_reach", model=model, value=stands["impossible"], users=own.users),
        ),
        counted=True,
    )


def _about(evidence: Evidence, model: str) -> str:
    """Of which draws a claim is; what is in a list already is not drawn."""
    drawn = evidence.settings[AUDIT].get("goal", {}).get("kind") in ("top", "likely")
    return among(evidence, AUDIT, model, *(["items"] if drawn else []), "users")


def compare_groups_by_effort(evidence: Evidence) -> Iterator[Claim]:
    """Name the groups of users who must do more, or can bring about less, than all others."""
    for metric in ("effort", "within_reach"):
        model = evidence.front(metric)
        if model is not None:
            yield from group_findings(
                evidence,
                model,
                metric,
                "recourse.group-differs",
                AUDIT,
                "Let the ratings of {} count for more, or ask them to rate more items, and audit again.",
                about=_about(evidence, model),
                basis=basis(evidence, AUDIT, model),
            )


def undecided(evidence: Evidence) -> Iterator[Claim]:
    """Of which outcomes is the least effort not known?"""
    found = []
    for model, own in evidence.each(AUDIT, RecourseFound.of).items():
        open_, asked = own.statuses[Status.BOUNDED.value], sum(own.statuses.values())
        if open_:
            found.append(f"{model}: {count(open_)} of {count(asked)}")
    if found:
        claim = "The least effort for some outcomes was not decided within the budget"
        detail = f"{'; '.join(found)}. With a way that was found they count as within reach, without one as out of it; "
        yield Caution("recourse.not-decided", claim, detail + "a larger `budget` decides more.", AUDIT)


@final
class RecourseSection(Section):
    """The least that people must do."""

    audits = (AUDIT,)
    anchor, title, template, place = AUDIT, "Recourse", "recourse.html.j2", 55
    questions = (undecided, out_of_hands, compare_groups_by_effort)

    def content(self) -> dict[str, Any] | None:
        """All models that can be asked, and the best at ranking of them in detail."""
        evidence = self.evidence
        if not evidence.metrics(AUDIT):
            return None
        settings, front = evidence.settings[AUDIT], evidence.front("within_reach")
        return {
            "goal": goal_words(settings.get("goal", {})),
            "about_items": settings.get("goal", {}).get("kind") in ("top", "out", "likely"),
            "unit": _EFFORTS.get(settings.get("effort", {}).get("kind", ""), "effort"),
            "actions": describe_actions(settings.get("actions") or {}),
            "overview": overview(evidence, AUDIT),
            "stands": standings(evidence),
            "models": list(evidence.each(AUDIT, RecourseFound.of)),
            "skipped": evidence.unasked(AUDIT),
            "curve": effort_curve(evidence),
            "detail": None if front is None else _detail(evidence, front),
            "methods": "The least effort is exact where scores are affine in the ratings: solved means that no smaller "
            "effort does it, impossible that no allowed ratings do; both are proved. Other models are searched, and "
            "their efforts are upper bounds.",
        }


def _detail(evidence: Evidence, model: str) -> dict[str, Any]:
    found, settings = evidence.each(AUDIT, RecourseFound.of)[model], evidence.settings[AUDIT]
    groupings = [*evidence.user_groupings, *evidence.item_groupings]
    goal, kind = settings.get("goal", {}), settings.get("effort", {}).get("kind", "")
    example = found.example
    return {
        "model": model,
        "outcomes": sum(found.statuses.values()),
        "asked": found.users.height,
        "parts": [
            part._replace(figures=kit.existing(by_group_of(evidence, model, metric, by) for by in groupings))
            for metric in ("effort", "within_reach")
            if (part := by_group(evidence, metric, groupings))
        ],
        "users": NumberTable(
            "People with the least within reach",
            ["User", "Within reach", "Effort", "Ratings"],
            [_user(row) for row in found.users.head(MOST_ROWS).iter_rows(named=True)],
            ["user", "within_reach", "effort", "ratings"],
        ),
        "hardest": NumberTable(
            "Items within the fewest people's reach",
            ["Item", "Reached by", "Effort", "Ratings"],
            [_item(row) for row in found.items.head(MOST_ROWS).iter_rows(named=True)],
            ["item", "reached_by", "effort", "ratings"],
        ),
        "nobody": found.items.filter(pl.col("within_reach") == 0).height,
        "example": None
        if example is None
        else {
            **example,
            "verb": _VERBS.get(goal.get("kind", ""), "get"),
            "wanted": goal_words(goal, example["title"] or "an item"),
            "takes": plural(round(example["value"]), "change") if kind == "changes" else f"effort {example['value']:g}",
            "proof": proof_words(example, kind),
        },
    }


def _user(row: Mapping[str, Any]) -> TableRow:
    cells = [number_cell(row["within_reach"], percent), _effort(row["effort"]), number_cell(row["ratings"], count)]
    return TableRow(row["user"], cells)


def _item(row: Mapping[str, Any]) -> TableRow:
    by, users = round(row["within_reach"] * row["users"]), row["users"]
    reached = TableCell(f"{count(by)} of {count(users)}", raw={"value": by, "of": users})
    return TableRow(row["title"], [reached, _effort(row["effort"]), number_cell(row["ratings"], count)])


def _effort(value: float | None) -> TableCell:
    return number_cell(value, lambda effort: f"{effort:.2f}")
