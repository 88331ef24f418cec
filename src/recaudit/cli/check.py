"""`recaudit check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recaudit.cli.messages import (
    BAD_INPUT,
    AsJson,
    Parts,
    answers,
    command,
    notes,
    plain_table,
    print_json,
    print_plain,
)
from recaudit.errors import InputError

if TYPE_CHECKING:
    from recaudit.runs import Run
    from recaudit.runs.gate import Decision

CODES = {"failed": 1, "undecided": BAD_INPUT, "passed": 0}
"""Exit codes; errors have that of undecided rules, so that 1 means that a rule failed, and nothing else."""


@command(errors=CODES["undecided"])
def check(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder of what is to be released.")],
    baseline: Annotated[
        Path | None, typer.Option(metavar="RUN", help="An earlier run that it is compared with.")
    ] = None,
    rules: Annotated[Path | None, typer.Option(metavar="TOML", help="The rules.")] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also as JUnit's XML.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Also as Markdown, for a pull request.")] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Write a first file of rules instead, from RUN and perhaps --baseline.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="TOML", help="With --suggest: the file; else it is printed.")
    ] = None,
    parts: Parts = None,
    as_json: AsJson = False,
) -> None:
    """Check a run against release criteria: is it good enough, and not worse than an earlier one, for all groups?

    A rule passes if it is shown to be satisfied, and fails if it is shown to be violated; each is false
    in at most 1 - confidence of samples. Otherwise it is undecided, which is not a pass.

    \b
      recaudit check runs/new --suggest --out gate.toml
      recaudit check runs/new --baseline runs/old --suggest --out gate.toml
      recaudit check runs/new --baseline runs/old --rules gate.toml
      recaudit check runs/new --baseline runs/old --rules gate.toml \\
        --junit gate.xml --markdown summary.md

    Rules:

    \b
      confidence = 0.95       # of the gate as a whole
    \b
      \\[\\[rule]]
      metric = "ndcg"
      at_least = 0.05         # or at_most
    \b
      \\[\\[rule]]
      metric = "ndcg"
      by = "gender"           # each group; group = "F" for one
      not_worse_by = 0.01     # than the baseline; or "2%" of its value;
      people = 100            # at least; or not_lower_by, not_higher_by
    \b
      \\[\\[rule]]
      metric = "coverage"
      model = "ALS"           # else every model
      audit = "reranking"     # where several audits measure it
      not_worse_by = "5%"
      confidence = 0.99       # judged alone, at this level
      failures = "accept"     # though some answers failed
      bounds = "accept"       # though it is only a bound

    \b
    Exit codes: 0    every rule passes
                1    a rule fails
                2    not decided: nothing is shown, too few users, failures, a
                     number that is missing, no baseline; or an error of any kind
                130  interrupted
    """
    from recaudit.runs import Run
    from recaudit.runs.gate import check as checked

    if suggest:
        after = Run.open(run, parts=parts)
        _suggest(after, None if baseline is None else Run.open(baseline, parts=parts), out)
        return
    if out is not None:
        raise InputError("--out", received=str(out), expected="--suggest beside it, which writes rules there")
    if rules is None:
        remedy = "'recaudit check RUN --suggest --out gate.toml' writes a first one."
        raise InputError("--rules", received="nothing", expected="a TOML file with rules", remedy=remedy)
    earlier = None if baseline is None else Run.open(baseline, parts=parts)
    decision = checked(Run.open(run, parts=parts), rules, earlier)
    _write(decision, junit, markdown)
    if as_json:
        from recaudit.report.gate import document

        print_json(document(decision))
    else:
        _print(decision)
    if CODES[decision.outcome]:
        raise typer.Exit(CODES[decision.outcome])


def _suggest(run: Run, baseline: Run | None, out: Path | None) -> None:
    from recaudit.runs.gate.suggestion import suggested

    if out is not None and out.exists():
        remedy = "Choose another name with --out."
        raise InputError("--out", received=f"{out}, which is there already", expected="a new file", remedy=remedy)
    text = suggested(run, baseline)
    if out is None:
        print_plain(text)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    notes().print(f"Look through it, then, of a later run: recaudit check LATER --baseline {run.path} --rules {out}")


def _write(decision: Decision, junit: Path | None, markdown: Path | None) -> None:
    from recaudit.report import gate

    for path, render in ((junit, gate.junit), (markdown, lambda made: gate.markdown(made).encode())):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(render(decision))


def _print(decision: Decision) -> None:
    from recaudit.report import gate

    table = plain_table(*gate.HEADINGS, wide="rule")
    table.columns[gate.HEADINGS.index("rule")].min_width = 20
    for answer in gate.ordered(decision):
        table.add_row(*gate.cells(answer))
    console = answers()
    if not console.is_terminal:
        console.width = 1000  # a log wraps nothing
    console.print(table, soft_wrap=False)
    for line in ("", gate.LEGEND, *gate.remarks(decision)):
        console.print(line)
    console.print(f"{gate.counted(decision)} {gate.meaning(decision)} Exit code {CODES[decision.outcome]}.")
