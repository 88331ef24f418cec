"""The page of a simulation: what people thought of each recommender, and whether metrics on the log foresaw it."""

from __future__ import annotations

from pathlib import Path

from recaudit import atomic
from recaudit.audits.audit import definitions
from recaudit.report.kit.document import rendered
from recaudit.report.simulation.evidence import LAST, Published, Study
from recaudit.report.simulation.findings import findings_of, headlines_of
from recaudit.report.simulation.section import overview_of, retraining, section_of, told_study
from recaudit.report.simulation.terms import TERMS
from recaudit.simulate.offline.comparison import OfflineOnline
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
    asked = {metric for own in sections for audit in own["audits"] for metric in audit.overview.metrics}
    audited = {name: metric for name, metric in definitions().items() if name in asked}
    return rendered(
        "simulation.html.j2",
        title=title,
        evidence=study,
        told=told_study(study),
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
