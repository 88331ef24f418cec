"""What a study leaves for readers: a page, the same as Markdown with pictures, and every table as CSV and LaTeX."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

import polars as pl

from recaudit import __version__
from recaudit.folders import REPORT
from recaudit.report import Figure, chart_png, format_duration, plural, render_template
from recaudit_papers.studies.reading import Agreement, StudyRow, StudyTable
from recaudit_papers.studies.report import StudyReport

MARKDOWN = "study.md"
FOLDERS = ("tables", "pictures")
"""Where tables and pictures are."""

_HEADINGS = ("", "published", "ours", "difference", "", "why")
_MARKS = {
    Agreement.AGREES: "The two intervals meet, or a claim holds for the whole of ours.",
    Agreement.EXPLAINED: "They do not, but with a change that was made here the printed number comes out.",
    Agreement.OPEN: "They do not, and no change that was tried brings the printed number out.",
    Agreement.TOO_FEW: "Ours is one draw of what varies: it neither bears a claim nor contradicts a number.",
    Agreement.NOT_PUBLISHED: "There is no printed number.",
    Agreement.NOT_MEASURED: "There is none of ours, for the reason beside it.",
}
"""What the marks mean."""


LADDER = "One change at a time, or all up to one where it begins with *and*:"
"""What stands before the table of changes."""


def files_of(report: StudyReport) -> dict[str, bytes]:
    """Every file for readers, by its name in the study's folder."""
    files = {REPORT: render_study(report), MARKDOWN: markdown(report)}
    for table in report.tables:
        if table.rows:
            head, *body = _lines(table)
            lines = [head[:-1], *(line[:-1] for line in body)]
            files[f"tables/{table.name}.csv"] = report.frame().filter(table=table.name).write_csv()
            files[f"tables/{table.name}.tex"] = latex(table.title, lines)
        for plain in table.plain:
            files[f"tables/{table.name}-{plain.name}.csv"] = plain.frame().write_csv()
            files[f"tables/{table.name}-{plain.name}.tex"] = latex(plain.title, [plain.columns, *plain.cells()])
        if ladder := _ladder(table):
            files[f"tables/{table.name}-ladder.csv"] = ladder_frame(table).write_csv()
            files[f"tables/{table.name}-ladder.tex"] = latex(f"{table.title}: what each change does", ladder)
    pictures = {
        f"pictures/{_picture(table, place)}": chart_png(figure)
        for table in report.tables
        for place, figure in enumerate(table.figures, start=1)
    }
    return {name: text.encode() for name, text in files.items()} | pictures


def render_study(report: StudyReport) -> str:
    """The page as text."""
    return render_template(
        "recaudit_papers:study.html.j2",
        report=report,
        study=report.study,
        marks=_MARKS,
        tables=[(table, _ladder(table)) for table in report.tables],
        outcome=_outcome(report.tables),
        experiments=_experiments(report),
        seconds=sum(report.seconds.values()),
        contents={table.name: table.title.partition(":")[0] for table in report.tables}
        | {"experiments": "Experiments"},
        defined=[],
        version=__version__,
    )


def markdown(report: StudyReport) -> str:
    """The page as Markdown, with pictures in the folder beside it."""
    study, spent = report.study, format_duration(sum(report.seconds.values()))
    parts = [
        f"# {plain_text(study.title)}",
        f"Beside {plain_text(study.paper)}" if study.paper else "",
        f"    {' '.join(report.command.split())}",
        f"{plural(len(report.results), 'experiment')}, {spent} of one core, recaudit {__version__}.",
        f"**{report.verdict}**",
        _markdown_list(map(paragraph, report.notes)),
        markdown_table(["", "rows", *(mark.value for mark in Agreement)], _outcome(report.tables)),
    ]
    for table in report.tables:
        head, *body = _lines(table)
        parts += [f"## {plain_text(table.title)}", paragraph(table.text), markdown_table(head, body) if body else ""]
        parts += [_markdown_figure(table, place, own) for place, own in enumerate(table.figures, start=1)]
        if ladder := _ladder(table):
            parts += [LADDER]
            parts += [markdown_table(ladder[0], ladder[1:])]
        for plain in table.plain:
            parts += [
                f"### {plain_text(plain.title)}",
                paragraph(plain.text),
                markdown_table(plain.columns, plain.cells()),
            ]
    parts += ["## What the words mean", _markdown_list(f"*{mark}*: {said}" for mark, said in _MARKS.items())]
    parts += ["## Experiments", "<details><summary>Every experiment, its settings and its seconds</summary>"]
    parts += [markdown_table(("experiment", "settings", "seconds"), _experiments(report)), "</details>"]
    return "\n\n".join(part for part in parts if part) + "\n"


def latex(caption: str, lines: Sequence[Sequence[str]]) -> str:
    """A table for a paper: booktabs, the first line its heading."""
    head, *body = ([_tex(cell) for cell in line] for line in lines)
    for line in (head, *body):
        if line[0].startswith(("[", "*")):  # which would be an argument of the rule or the line end before it
            line[0] = f"{{}}{line[0]}"
    rows = "\n".join(f"{' & '.join(line)} \\\\" for line in body)
    return (
        f"% {' '.join(caption.split())}; needs \\usepackage{{booktabs}}\n"
        f"\\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}\n\\toprule\n{' & '.join(head)} \\\\\n\\midrule\n"
        f"{rows}\n\\bottomrule\n\\end{{tabular}}\n"
    )


def _lines(table: StudyTable) -> list[tuple[str, ...]]:
    """The rows as text under their headings; where nothing is printed, without the columns that compare."""
    lines = [_HEADINGS, *map(_cells, table.rows)]
    return lines if table.compares else [(name, ours, why) for name, _, ours, _, _, why in lines]


def _cells(row: StudyRow) -> tuple[str, ...]:
    over = f" ({row.ours.over})" if row.ours and row.ours.over else ""
    return row.name, row.published.text, f"{row.told}{over}", row.difference_told, row.agreement.value, row.why


def _ladder(table: StudyTable) -> list[tuple[str, ...]]:
    """What each change does: a column for each row that has one, ours first, and the printed numbers above it."""
    rows = table.climbed
    if not rows:
        return []
    rungs = [
        (change, *(own.told(row.digits) if (own := row.variants.get(change)) else "" for row in rows))
        for change in table.changes
    ]
    first = [("ours", *(row.told for row in rows))]
    if any(row.published.known for row in rows):
        first.insert(0, ("published", *(row.published.text for row in rows)))
    return [("", *(row.name for row in rows)), *first, *rungs]


def ladder_frame(table: StudyTable) -> pl.DataFrame:
    """One row a change and number: the number with this change made, and its interval."""
    rows = [
        {
            "change": change,
            "row": row.name,
            "value": own.value,
            "lower": own.lower,
            "upper": own.upper,
            "over": own.over,
        }
        for row in table.climbed
        for change, own in row.variants.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _outcome(tables: Iterable[StudyTable]) -> list[tuple[str, ...]]:
    """How the rows of each table that compares stand."""
    return [
        (
            table.title,
            str(len(table.rows)),
            *(str(sum(row.agreement is mark for row in table.rows)) for mark in Agreement),
        )
        for table in tables
        if table.compares
    ]


def _experiments(report: StudyReport) -> list[tuple[str, ...]]:
    settings = report.results.settings
    return [
        (name, json.dumps(settings.get(name, {}), ensure_ascii=False), f"{report.seconds.get(name, 0):.1f}")
        for name in report.results
    ]


def markdown_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Write a table; cells are plain text."""
    shown = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(plain_text(cell) for cell in line)} |" for line in shown)


def plain_text(text: str) -> str:
    """Write text on one line so that it neither ends its cell nor becomes markup."""
    return re.sub(r"([\\|*_`~\[\]<>$#]|&(?=#?\w+;))", r"\\\1", " ".join(text.split()))


def paragraph(text: str) -> str:
    """Write text as a line of its own that is not an item of a list either."""
    return re.sub(r"^(\d+(?=[.)](?:\s|$))|(?=[-+]))(.)", r"\1\\\2", plain_text(text))


def _markdown_list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {' '.join(line.split())}" for line in lines)


def _markdown_figure(table: StudyTable, place: int, figure: Figure) -> str:
    note = f"\n\n{paragraph(figure.note)}" if figure.note else ""
    heading = plain_text(figure.heading)
    return f"**{heading}**\n\n![{heading}](pictures/{_picture(table, place)}){note}"


def _picture(table: StudyTable, place: int) -> str:
    return f"{table.name}-{place}.png"


_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
}


def _tex(text: str) -> str:
    return re.sub(r"[\\&%$#_{}~^<>]", lambda found: _SPECIAL[found[0]], " ".join(text.split()))
