"""So what: the verdict on a run, its findings in plain sentences, the HTML page and the statement."""

from recaudit.report.comparison import render_comparison, write_comparison
from recaudit.report.history import render_history, write_history
from recaudit.report.kit.claims import Caution, Finding, Headline
from recaudit.report.page import headlines, render, verdict, write
from recaudit.report.statement import render_statement, write_statement
from recaudit.report.verdict import RunVerdict

__all__ = [
    "Caution",
    "Finding",
    "Headline",
    "RunVerdict",
    "headlines",
    "render",
    "render_comparison",
    "render_history",
    "render_statement",
    "verdict",
    "write",
    "write_comparison",
    "write_history",
    "write_statement",
]
