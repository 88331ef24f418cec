"""How much each model folds, cases of spurious recommendations, and folding against the error of ratings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import altair as alt
import polars as pl

from recaudit.report.evidence import Evidence, columns
from recaudit.report.kit.charts import MUTED, Figure, Rows, by_series, chart, existing, figure, in_series, tooltip
from recaudit.report.kit.claims import Claim, ClaimNumber, Finding
from recaudit.report.kit.comparisons import group_tables, model_colors, overview
from recaudit.report.kit.measures import measure
from recaudit.report.kit.notes import among
from recaudit.report.kit.numbers import some
from recaudit.report.sections.section import Section
from recaudit.report.significance import compute_reference_p, find_model_test

AUDIT = "folding"
NOTABLE = 0.01
"""From this share of the lists on, it is a finding that they hold what is spurious."""
_CASES = 3
_CASES_KEPT = {
    **columns("user title categories user_rates", "relatedness similarity in_common", "rank"),
    "nearest_by_model": pl.List(pl.String),
}


@final
@dataclass(frozen=True, eq=False)
class Folded:
    """One model's audit."""

    cases: list[dict[str, Any]]
    """Spurious recommendations with what a person needs to judge them, the clearest first: keys as in _CASES_KEPT.

    What is not known about an item is None. `user_rates` is what the user rates most ("Drama 40%, Comedy 25%"),
    `in_common` the share of what the user rated that has a category in common with the item."""
    curve: pl.DataFrame
    """at, rmse, folding, shown_folding: the model with other weights of unrated pairs, where that was asked for."""

    @classmethod
    def of(cls, evidence: Evidence, model: str) -> Folded:
        """Read a finished audit."""
        nearest = pl.col("nearest_by_model").list.eval(_listed(pl.element())).fill_null([])
        cases = evidence.table(model, AUDIT, "spurious", _CASES_KEPT)
        return cls(
            cases.with_columns(_listed(pl.col("categories")), nearest).to_dicts(),
            evidence.curve(model, AUDIT, "unobserved_weight", ["rmse", "folding", "shown_folding"]),
        )


def _listed(kinds: pl.Expr) -> pl.Expr:
    """Categories as a person lists them."""
    return kinds.str.replace_all("|", ", ", literal=True)


def _category_system(evidence: Evidence) -> str:
    """The category system that relatedness was taken from; none where it was who rated what."""
    names = evidence.settings[AUDIT].get("relatedness") or [""]
    first = names if isinstance(names, str) else str(names[0])
    return first if first in evidence.run.manifest.data.categories else ""


def find_spurious(evidence: Evidence) -> Iterator[Claim]:
    """Name the model that shows the most that has hardly anything to do with the user."""
    shares = evidence.known("spurious_share")
    ranked = [model for model in evidence.ranked("spurious_share") if model in (evidence.personalised or shares)]
    if not ranked or (shares[ranked[-1]].value or 0.0) <= NOTABLE:
        return
    model = ranked[-1]
    own = shares[model]
    numbers = some([f"{name} {shares[name].full}" for name in reversed(ranked)])
    cases = evidence.each(AUDIT, Folded.of)[model].cases
    claim = f"{own.text} of what {model} shows has hardly anything to do with the user"
    claim += among(evidence, AUDIT, model, "sample")
    detail = f"{evidence.label('spurious_share')}: {numbers}.{f' {_example(cases[0])}' if cases else ''}"
    advice = f"Let {model} learn from what users left unrated (unobserved_weight), or regularize it more, and audit "
    advice += "folding again."
    yield Finding(
        "folding.spurious-recommendations",
        claim,
        detail,
        AUDIT,
        evidence.size(own, value=NOTABLE),
        measure(evidence, model, "spurious_share"),
        advice,
        numbers=(
            ClaimNumber(
                audit=AUDIT,
                metric="spurious_share",
                model=model,
                value=own.value,
                lower=own.lower,
                upper=own.upper,
                reference=NOTABLE,
                p=compute_reference_p(evidence, AUDIT, "spurious_share", model, NOTABLE),
                users=own.users,
            ),
        ),
    )


def compare_error_and_folding(evidence: Evidence) -> Iterator[Claim]:
    """Find out whether the model that predicts ratings best folds more than another that has vectors too."""
    folded, error = evidence.known("folding"), evidence.known("rmse")
    by_error = [model for model in evidence.ranked("rmse") if model in folded and model in evidence.personalised]
    by_folding = [model for model in evidence.ranked("folding") if model in by_error]
    if len(by_error) < 2 or by_error[0] == by_folding[0]:
        return
    precise, least = by_error[0], by_folding[0]
    error_test = find_model_test(evidence, precise, least, "rmse")
    folding_test = find_model_test(evidence, precise, least, "folding")
    if error_test is None or folding_test is None or not (error_test.is_below and folding_test.is_above):
        return
    yield Finding(
        "folding.rating-error-and-folding-disagree",
        f"{precise} predicts ratings better than {least}, but folds more{among(evidence, AUDIT, precise, 'sample')}",
        f"Folding: {folded[precise].full} against {folded[least].full}; RMSE: {error[precise].full} against "
        f"{error[least].full}. Differences on the same users: {folding_test.difference.signed} and "
        f"{error_test.difference.signed}.",
        AUDIT,
        evidence.size(folding_test.difference),
        measure(evidence, precise, "folding"),
        "Do not choose between them by RMSE alone: consider folding where lists are shown.",
        numbers=(folding_test.number, error_test.number),
    )


def _example(case: Mapping[str, Any]) -> str:
    rates = f", who rates {case['user_rates']}," if case["user_rates"] else ""
    about = f" ({case['categories']})" if case["categories"] else ""
    return f"For example, {case['user']}{rates} is shown {case['title']}{about}."


def folding_against_error(evidence: Evidence, metric: Literal["folding", "shown_folding"]) -> Figure | None:
    """RMSE to the right, folding upwards: a dot for each model, a line along the weights of a model that has them."""
    error, folded = evidence.known("rmse"), evidence.known(metric)
    label, colors = evidence.label(metric), model_colors(evidence)
    models: Rows = []
    steps: Rows = []
    for model, own in evidence.each(AUDIT, Folded.of).items():
        named = in_series(colors, model)
        if model in error and model in folded:
            told = f"RMSE {error[model].full}, {label} {folded[model].full}"
            models.append({**named, "x": error[model].value, "y": folded[model].value, "told": told})
        for weight, rmse, height in own.curve.select("at", "rmse", metric).iter_rows():
            told = f"{evidence.said('rmse', rmse)}, {evidence.said(metric, height)}"
            row = {**named, "weight": f"{weight:g}", "order": weight}
            steps.append({**row, "x": rmse, "y": height, "told": told})
    if len(models) + len(steps) < 2:
        return None
    x = alt.X("x:Q", title="RMSE", scale=alt.Scale(zero=False, nice=True, padding=14), axis=alt.Axis(grid=True))
    y = alt.Y("y:Q", title=label, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(grid=True, tickCount=4))
    color = by_series(colors)
    layers: list[alt.Chart] = []
    if steps:
        line = chart(steps, colors)
        layers += [
            line.mark_line(strokeWidth=1.5, opacity=0.6).encode(x, y, color, order="order:Q"),
            line.mark_point(size=28).encode(x, y, color, tooltip=tooltip("model", "weight")),
            line.mark_text(align="left", dx=6, dy=-7, fill=MUTED).encode(x, y, text="weight:N"),
        ]
    if models:
        layers.append(chart(models, colors).mark_point(size=110).encode(x, y, color, tooltip=tooltip("model")))
    numbers = [f"{row['model']}: {row['told']}" for row in models]
    numbers += [f"{row['model']} with weight {row['weight']}: {row['told']}" for row in steps]
    heading = f"{label} against RMSE"
    return figure(heading, f"{heading}, lower is better for both. {'; '.join(numbers)}.", 320, *layers)


@final
class FoldingSection(Section):
    """Recommendations that come from nowhere."""

    audits = (AUDIT,)
    anchor, title, template, place = "folding", "Folding", "folding.html.j2", 70
    questions = (find_spurious, compare_error_and_folding)

    def content(self) -> dict[str, Any] | None:
        """Numbers by model, and cases of those that show anything spurious, the most spurious first."""
        evidence = self.evidence
        if not evidence.metrics(AUDIT):
            return None
        spurious = evidence.known("spurious_share")
        details = [
            {"model": model, "cases": own.cases[:_CASES]}
            for model in sorted(spurious, key=lambda model: -(spurious[model].value or 0.0))
            if (own := evidence.each(AUDIT, Folded.of)[model]).cases
        ]
        system = _category_system(evidence)
        groupings = [*evidence.user_groupings, *evidence.item_groupings]
        figures = (folding_against_error(evidence, metric) for metric in ("folding", "shown_folding"))
        return {
            "relatedness": f"{system}: how much of what a user rated is of the item's kind"
            if system
            else "who rated what: how much people like the user rate items like this one",
            "kind": system or next(iter(evidence.run.manifest.data.categories), "category"),
            "overview": overview(evidence, AUDIT),
            "skipped": evidence.unasked(AUDIT),
            "figures": existing(figures),
            "drawn": [model for model in evidence.each(AUDIT, Folded.of) if model in evidence.known("rmse")],
            "curves": [model for model, own in evidence.each(AUDIT, Folded.of).items() if len(own.curve)],
            "details": details,
            "groups": [
                *group_tables(evidence, ["folding"], ["relatedness"]),
                *group_tables(evidence, ["spurious_share"], groupings),
            ],
        }
