"""The page of a simulation: what people thought of each recommender, and whether metrics on the log foresaw it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from recaudit import atomic
from recaudit.audits.audit import definitions
from recaudit.metrics.metric import Metric
from recaudit.report.kit.charts import existing
from recaudit.report.kit.comparisons import Mark, NumberTable, Overview, TableCell, TableRow, cell, number_cell
from recaudit.report.kit.document import rendered
from recaudit.report.kit.numbers import listing, plural
from recaudit.report.simulation import charts
from recaudit.report.simulation.evidence import (
    LAST,
    Arena,
    Correlation,
    Published,
    SimulationStudy,
    estimated,
    with_intervals,
)
from recaudit.report.simulation.findings import findings_of, headlines_of, p_value_text
from recaudit.report.simulation.terms import OFFLINE, ONLINE, TERMS, term
from recaudit.simulate.offline.comparison import OfflineOnline
from recaudit.specification import written
from recaudit.status import Status
from recaudit.version import __version__

TITLE = "Do offline metrics foresee what people like?"


def write_simulation(
    result: OfflineOnline, path: Path, *, title: str = TITLE, published: Published | None = None
) -> Path:
    """Write the page, whole or not at all, and say where it is; `published` numbers are shown beside ours."""
    atomic.write(path, render_simulation(result, title=title, published=published).encode())
    return path


def render_simulation(result: OfflineOnline, *, title: str = TITLE, published: Published | None = None) -> str:
    """The page as text. Of an interrupted study it shows what is finished, and says what is not."""
    study = SimulationStudy.of(result, published)
    sections = [section_of(study, arena) for arena in study.arenas]
    overview = overview_of(study)
    measures = {name for own in sections for name in own["overview"].metrics}
    shown = {"mean_rating", "ndcg", "rmse", "spearman", "drift", *measures}
    simulations = [own for arena in study.arenas for own in arena.comparison.simulations.values()]
    asked = {metric for own in sections for audit in own["audits"] for metric in audit["overview"].metrics}
    audited = {name: metric for name, metric in definitions().items() if name in asked}
    return rendered(
        "simulation.html.j2",
        title=title,
        evidence=study,
        summary=study_summary(study),
        headlines=headlines_of(study),
        findings=findings_of(study),
        contents={
            **({"order": "Offline against online"} if overview else {}),
            **{arena.anchor: arena.name for arena in study.arenas},
            "methods": "Definitions",
        },
        overview=overview,
        sections=sections,
        retraining=retraining(study.main),
        single=[arena.name for arena in study.arenas if arena.trials == 1],
        seeds=sorted({str(own.settings["rng"]) for own in simulations if "rng" in own.settings}),
        last=LAST,
        audited=audited,
        defined=[
            *((name, study.label(name), "", metric) for name, metric in TERMS.items() if name in shown),
            *((f"audited-{name}", own.titled(), ", while they learn", own) for name, own in audited.items()),
        ],
        version=__version__,
    )


_HINTS = {"higher": "further right: better", "lower": "further left: better"}
_NOTHING = "there was nothing to measure"
_PARTS = (("recommender", ""), ("policy", {"kind": "top-1"}))
"""What a recommender is set by, and what stands where a simulation does not say."""


def overview_of(study: SimulationStudy) -> dict[str, Any] | None:
    """Offline against online, over all environments; None where no order can be compared with another."""
    found = [own for arena in study.arenas for own in arena.correlations.values()]
    if all(own.estimate.value is None for own in found):
        return None
    rows = []
    for arena in study.arenas:
        own = [arena.correlations[metric] for metric in OFFLINE]
        cells = [made for each in own for made in (cell(each.estimate, "", _NOTHING), _p_value(each, arena.trials))]
        cells.append(number_cell(max(each.recommenders for each in own), str))
        rows.append(TableRow(arena.name, cells))
    headings = [heading for metric in OFFLINE for heading in (study.label(metric), "p-value")]
    names = [name for metric in OFFLINE for name in (f"{metric}_spearman", f"{metric}_p_value")]
    columns, names = ["Environment", *headings, "Recommenders"], ["environment", *names, "recommenders"]
    return {
        "figures": existing(charts.correlations(study, metric) for metric in OFFLINE),
        "table": NumberTable("Spearman by environment", columns, rows, names),
        "beside_published": any(own.published is not None for own in found),
    }


def _p_value(own: Correlation, trials: int) -> TableCell:
    if own.p_value is None or trials == 1:
        return cell(None, reason="one trial is not enough" if trials == 1 else _NOTHING)
    return number_cell(own.p_value, lambda value: p_value_text(value).removeprefix("p ").removeprefix("= "))


def section_of(study: SimulationStudy, arena: Arena) -> dict[str, Any]:
    """Everything that is known of one environment."""
    known = [measure for measure in (*OFFLINE, *ONLINE) if arena.known(measure)]
    measures = [measure for measure in known if measure != "drift" or arena.drifts]
    foreseen = []
    for metric in OFFLINE:
        label, hint = study.label(metric), _HINTS[term(metric).better]
        heading = f"{label} and what people thought"
        foreseen.append(charts.against_rating(study, arena, metric, f"{label} ({hint})", heading))
    steps = [
        charts.over_time(study, arena, "mean_rating", "Mean rating, step by step"),
        charts.over_time(study, arena, "shown_rmse", "Error of what was taken, step by step", zero=True),
    ]
    error = "RMSE of what was taken (further left: better)"
    last = f"Error and mean rating of the last {plural(arena.last, 'rating')}"
    knowledge = [
        charts.known_people(study, arena),
        charts.against_rating(study, arena, "final_shown_rmse", error, last, "final_mean_rating"),
    ]
    heading = "Distinct items and mean rating"
    shown = [charts.against_rating(study, arena, "distinct_items", "distinct items at a step", heading)]
    if arena.drifts:
        shown.append(charts.over_time(study, arena, "drift", "How far tastes have moved, step by step", zero=True))
    off = charts.far_off(arena.known("shown_rmse"))
    rows = [
        TableRow(name, [_number(arena, name, measure) for measure in measures], name in arena.references)
        for name in arena.recommenders
    ]
    return {
        "arena": arena,
        "length": _length_text([arena]),
        "foreseen": existing(foreseen),  # Figures 1 and 3 of the paper
        "far_off": any(charts.far_off(arena.known(metric)) for metric in OFFLINE),
        "over_time": existing(steps),  # Figure 2
        "bands": len(arena.recommenders) <= charts.MOST_BANDS,
        "not_drawn": listing([f"{name} ({estimate.text})" for name, estimate in off.items()]) if off else "",
        "known_people": existing(knowledge) if arena.known("population_rmse") else [],  # Figure 5
        "shown": existing(shown),  # Figure 6
        "audits": audits_of(study, arena),
        "overview": Overview(measures, [study.label(measure) for measure in measures], rows),
        "settings": [
            (name, *(written(own.get(part, default)) for part, default in _PARTS), _tuned(arena, name))
            for name, own in ((name, arena.comparison[name].settings) for name in arena.recommenders)
        ],
        "beside_published": any(made.published for row in rows for made in row.cells),
    }


def _tuned(arena: Arena, name: str) -> str:
    return "no" if name not in arena.tuned else f"yes, to {arena.tuned[name]}" if arena.tuned[name] else "yes"


def _number(arena: Arena, name: str, measure: str) -> TableCell:
    """A number of a recommender, and what was published for it."""
    published = arena.published.get(name, {}).get(measure)
    made = cell(arena.estimates[name, measure], _mark(arena, name, measure), _NOTHING)
    if published is None:
        return made
    return replace(made, published=term(measure).written(published), raw={**made.raw, "published": published})


def _mark(arena: Arena, name: str, measure: str) -> Mark:
    """The best of those that could be used, and who cannot be told apart from it: the paired interval has a 0."""
    usable = arena.ranked(measure, oracle=False) if term(measure).better != "neither" else []
    if len(usable) < 2 or name not in usable:
        return ""
    if name == usable[0]:
        return "best"
    gap = arena.difference(name, usable[0], measure)
    return "near" if gap.interval and not gap.above(0) and not gap.below(0) else ""


def audits_of(study: SimulationStudy, arena: Arena) -> list[dict[str, Any]]:
    """Every audit that was asked of recommenders while they learned: step by step, and at the last step."""
    simulations = arena.comparison.simulations.items()
    table = pl.concat(own.audits.with_columns(recommender=pl.lit(name)) for name, own in simulations)
    return [_audit(study, arena, *part) for part in table.group_by("audit", maintain_order=True)]


def _audit(study: SimulationStudy, arena: Arena, audit: tuple[object, ...], table: pl.DataFrame) -> dict[str, Any]:
    names = [str(name) for name in table["metric"].drop_nulls().unique(maintain_order=True)]
    metrics = [definitions().get(name) or Metric(name, name, "", "", "", "neither") for name in names]
    figures = []
    for metric in metrics:
        own = table.filter((pl.col("metric") == metric.name) & pl.col("value").is_finite())
        asked = [name for name in arena.recommenders if name in own["recommender"]]
        curves = {name: with_intervals(own.filter(recommender=name), pl.col("step") + 1) for name in asked}
        figures.append(charts.drawn_curves(study, arena, curves, metric, metric.titled()))
    last = table.filter(pl.col("step") == pl.col("step").max())
    rows = [
        TableRow(name, [_last(metric, last.filter(recommender=name, metric=metric.name)) for metric in metrics])
        for name in arena.recommenders
    ]
    overview = Overview(names, [metric.titled() for metric in metrics], rows)
    return {"name": audit[0], "figures": existing(figures), "overview": overview}


def _last(metric: Metric, rows: pl.DataFrame) -> TableCell:
    failed = Status.FAILED in rows["status"]
    found = estimated(metric, rows["value"].cast(pl.Float64).fill_null(np.nan).to_numpy())
    return cell(found, reason="no finite number came" if failed else "this recommender cannot be asked")


def study_summary(study: SimulationStudy) -> str:
    """What was run, in two sentences."""
    names = [arena.name for arena in study.arenas]
    where = f"of {listing(names)}" if len(names) < 4 else f"of {len(names)} environments"
    folds = max(arena.folds for arena in study.arenas)
    count = plural(len(study.recommenders), "recommender")
    met = f"{count} met the simulated people {where}: {_length_text(list(study.arenas))}."
    if not folds:
        return f"{met} Nothing was measured beforehand on the log that they began with."
    asked = "do such metrics foresee what people think of what they are shown?"
    return f"{met} Before that, each was measured on the log that it began with, over {plural(folds, 'fold')}: {asked}"


def _length_text(arenas: list[Arena]) -> str:
    """`10 trials of 500 steps, 200 ratings a step`; from the least to the most where environments differ."""
    trials = _range([arena.trials for arena in arenas], "trial")
    steps = _range([arena.first.steps["step"].n_unique() for arena in arenas], "step")
    ratings = _range([round(float(arena.first.steps["ratings"].to_numpy().mean())) for arena in arenas], "rating")
    return f"{trials} of {steps}, {ratings} a step"


def _range(values: list[int], word: str) -> str:
    low, high = min(values), max(values)
    return plural(high, word) if low == high else f"{low:,} to {plural(high, word)}"


def retraining(arena: Arena) -> str:
    """When recommenders learned, in words."""
    settings = arena.first.settings
    retrain, warm = settings.get("retrain", 1), settings.get("warm", False)
    how = "from the model before" if warm else "from scratch"
    if retrain == 0:
        return "never after the start"
    return f"at every step, {how}" if retrain == 1 else f"every {retrain} steps, {how}"
