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
from recaudit.report.kit.charts import Figure
from recaudit.report.kit.comparisons import Mark, NumberTable, Overview, TableCell, TableRow, cell
from recaudit.report.kit.document import rendered
from recaudit.report.kit.numbers import Estimate, listing, plural
from recaudit.report.simulation.charts import (
    MOST_BANDS,
    against_rating,
    correlations,
    drawn_curves,
    far_off,
    known_people,
    over_time,
)
from recaudit.report.simulation.evidence import LAST, Arena, Published, Study, estimated
from recaudit.report.simulation.findings import findings_of, headlines_of, p_value_text
from recaudit.report.simulation.terms import OFFLINE, ONLINE, TERMS, term
from recaudit.simulate.loop.simulation import interval
from recaudit.simulate.offline.comparison import OfflineOnline
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
    study = Study.of(result, published)
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


def overview_of(study: Study) -> dict[str, Any] | None:
    """Offline against online, over all environments; None where no order can be compared with another."""
    figures = [figure for metric in OFFLINE if (figure := correlations(study, metric)) is not None]
    if not figures:
        return None
    rows = []
    for arena in study.arenas:
        own = [arena.correlations[metric] for metric in OFFLINE]
        cells = [made for each in own for made in (_told(each.estimate), _p_value(each.p_value, arena.trials))]
        rows.append(TableRow(arena.name, [*cells, TableCell(str(max(each.recommenders for each in own)))]))
    headings = [heading for metric in OFFLINE for heading in (study.label(metric), "p-value")]
    published = [own.published for arena in study.arenas for own in arena.correlations.values()]
    return {
        "figures": figures,
        "table": NumberTable("Spearman by environment", ["Environment", *headings, "Recommenders"], rows),
        "beside_published": any(value is not None for value in published),
    }


def _p_value(p_value: float | None, trials: int) -> TableCell:
    if p_value is None or trials == 1:
        return cell(None, reason="one trial is not enough" if trials == 1 else _NOTHING)
    return TableCell(p_value_text(p_value).removeprefix("p ").removeprefix("= "))


def section_of(study: Study, arena: Arena) -> dict[str, Any]:
    """Everything that is known of one environment."""
    known = [measure for measure in (*OFFLINE, *ONLINE) if arena.known(measure)]
    measures = [measure for measure in known if measure != "drift" or arena.drifts]
    labels = {metric: study.label(metric) for metric in OFFLINE}
    foreseen = [
        against_rating(
            study, arena, metric, f"{label} ({_HINTS[term(metric).better]})", f"{label} and what people thought"
        )
        for metric, label in labels.items()
    ]
    steps = [
        over_time(study, arena, "mean_rating", "Mean rating, step by step"),
        over_time(study, arena, "shown_rmse", "Error of what was taken, step by step", zero=True),
    ]
    error = "RMSE of what was taken (further left: better)"
    last = f"Error and mean rating of the last {plural(arena.last, 'rating')}"
    knowledge = [
        known_people(study, arena),
        against_rating(study, arena, "final_shown_rmse", error, last, "final_mean_rating"),
    ]
    heading = "Distinct items and mean rating"
    shown = [against_rating(study, arena, "distinct_items", "distinct items at a step", heading)]
    if arena.drifts:
        shown.append(over_time(study, arena, "drift", "How far tastes have moved, step by step", zero=True))
    off = far_off(arena.known("shown_rmse"))
    rows = [
        TableRow(name, [_number(arena, name, measure) for measure in measures], name in arena.references)
        for name in arena.recommenders
    ]
    return {
        "arena": arena,
        "length": _length_text([arena]),
        "foreseen": _drawn(foreseen),  # Figures 1 and 3 of the paper
        "far_off": any(far_off(arena.known(metric)) for metric in OFFLINE),
        "over_time": _drawn(steps),  # Figure 2
        "bands": len(arena.recommenders) <= MOST_BANDS,
        "not_drawn": listing([f"{name} ({estimate.text})" for name, estimate in off.items()]) if off else "",
        "known_people": _drawn(knowledge) if arena.known("population_rmse") else [],  # Figure 5
        "shown": _drawn(shown),  # Figure 6
        "audits": audits_of(study, arena),
        "overview": Overview(measures, [study.label(measure) for measure in measures], rows),
        "settings": [
            (name, settings, f"yes, to {edge}" if edge else "yes" if tuned else "no", arena.policy(name))
            for name, (settings, tuned, edge) in ((name, arena.settings[name]) for name in arena.recommenders)
        ],
        "beside_published": any(made.published for row in rows for made in row.cells),
    }


def _drawn(figures: list[Figure | None]) -> list[Figure]:
    return [figure for figure in figures if figure is not None]


def _number(arena: Arena, name: str, measure: str) -> TableCell:
    """A number of a recommender, and what was published for it."""
    published = arena.published.get(name, {}).get(measure)
    made = _told(arena.estimates[name, measure], _mark(arena, name, measure))
    return made if published is None else replace(made, published=term(measure).written(published))


def _told(estimate: Estimate, mark: Mark = "") -> TableCell:
    return cell(estimate, mark, _NOTHING)


def _mark(arena: Arena, name: str, measure: str) -> Mark:
    """The best of those that could be used, and who cannot be told apart from it: the paired interval has a 0."""
    usable = arena.ranked(measure, oracle=False) if term(measure).better != "neither" else []
    if len(usable) < 2 or name not in usable:
        return ""
    if name == usable[0]:
        return "best"
    gap = arena.difference(name, usable[0], measure)
    return "near" if gap.interval and not gap.above(0) and not gap.below(0) else ""


def audits_of(study: Study, arena: Arena) -> list[dict[str, Any]]:
    """Every audit that was asked of recommenders while they learned: step by step, and at the last step."""
    frames = [
        simulation.audits.with_columns(recommender=pl.lit(name))
        for name, simulation in arena.comparison.simulations.items()
        if len(simulation.audits)
    ]
    table = pl.concat(frames) if frames else pl.DataFrame(schema={"audit": pl.String})
    return [
        _audit(study, arena, str(audit), table.filter(audit=audit))
        for audit in table["audit"].unique(maintain_order=True)
    ]


def _audit(study: Study, arena: Arena, audit: str, table: pl.DataFrame) -> dict[str, Any]:
    names = [str(name) for name in table["metric"].drop_nulls().unique(maintain_order=True)]
    metrics = [definitions().get(name) or Metric(name, name, "", "", "", "neither") for name in names]
    figures = []
    for metric in metrics:
        own = table.filter((pl.col("metric") == metric.name) & pl.col("value").is_finite())
        asked = [name for name in arena.recommenders if name in own["recommender"]]
        curves = {name: _curve(own.filter(recommender=name)) for name in asked}
        figures.append(drawn_curves(study, arena, curves, metric, metric.titled()))
    last = table.filter(pl.col("step") == pl.col("step").max())
    rows = [
        TableRow(name, [_last(metric, last.filter(recommender=name, metric=metric.name)) for metric in metrics])
        for name in arena.recommenders
    ]
    overview = Overview(names, [metric.titled() for metric in metrics], rows)
    return {"name": audit, "figures": _drawn(figures), "overview": overview}


def _curve(rows: pl.DataFrame) -> pl.DataFrame:
    found = [
        {"step": step + 1, **interval(part["value"].to_numpy())}
        for (step,), part in rows.sort("step").group_by("step", maintain_order=True)
    ]
    return pl.DataFrame(found, dict.fromkeys(("step", "value", "lower", "upper"), pl.Float64))


def _last(metric: Metric, rows: pl.DataFrame) -> TableCell:
    failed = Status.FAILED in rows["status"]
    found = estimated(metric, rows["value"].cast(pl.Float64).fill_null(np.nan).to_numpy())
    return cell(found, reason="no finite number came" if failed else "this recommender cannot be asked")


def study_summary(study: Study) -> str:
    """What was run, in two sentences."""
    names = [arena.name for arena in study.arenas]
    where = f"of {listing(names)}" if len(names) < 4 else f"of {len(names)} environments"
    folds = max(arena.folds for arena in study.arenas)
    count = plural(len(study.recommenders), "recommender")
    met = f"{count} met the simulated people {where}: {_length_text(list(study.arenas))}."
    if not folds:
        return f"{met} Nothing was measured beforehand on the log that they began with."
    return (
        f"{met} Before that, each was measured on the log that it began with, over {plural(folds, 'fold')}: do such "
        "metrics foresee what people think of what they are shown?"
    )


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
