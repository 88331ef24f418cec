"""So what: the findings of a run in plain sentences, and the HTML page a person reads."""

from recaudit.report.comparison import render_comparison, write_comparison
from recaudit.report.history import render_history, write_history
from recaudit.report.kit.numbers import Headline
from recaudit.report.page import headlines, render, write

__all__ = [
    "Headline",
    "headlines",
    "render",
    "render_comparison",
    "render_history",
    "write",
    "write_comparison",
    "write_history",
]
