"""So what: the verdict on a run, its findings in plain sentences, and the HTML page a person reads."""

from recaudit.report.comparison import render_comparison, write_comparison
from recaudit.report.history import render_history, write_history
from recaudit.report.kit.claims import Caution, Finding, Headline
from recaudit.report.page import headlines, render, verdict, write
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
    "verdict",
    "write",
    "write_comparison",
    "write_history",
]
