"""A study, and one of its tables, in a notebook."""

from __future__ import annotations

from recaudit.report import Card, CardTable, Drawing, plural
from recaudit_papers.studies.reading import StudyTable, counted
from recaudit_papers.studies.report import StudyReport


def shown_study(report: StudyReport) -> str:
    """How its tables stand, a row each."""
    rows = [
        (table.name, table.title, "; ".join(f"{many} {mark}" for mark, many in counted([table]).items() if many))
        for table in report.tables
    ]
    return Card(
        title=f"Study: {report.study.title}",
        asked=f"{plural(len(report.tables), 'table')} at the size {report.results.size}; "
        "one of them by its name: report['NAME']",
        verdict=report.verdict,
        tables=[CardTable(("name", "table", "rows"), rows, words=("table", "rows"))],
        notes=report.notes,
    ).html


def shown_table(table: StudyTable) -> str:
    """Its rows beside the paper's, and its charts."""
    rows = [
        (row.name, row.published.text, row.told, row.difference_told, row.agreement.value, row.why)
        for row in table.rows
    ]
    headings = ("", "published", "ours", "difference", "how it stands", "why")
    return Card(
        title=table.title,
        verdict=table.text,
        tables=[
            CardTable(headings, rows, words=("published", "how it stands", "why")),
            *(CardTable(plain.columns, plain.cells(), plain.title) for plain in table.plain),
        ],
        drawings=[Drawing(figure) for figure in table.figures],
    ).html
