"""So what: the verdict on a run, its findings in plain sentences, the HTML page and the statement."""

from recaudit.report.comparison import render_comparison, write_comparison
from recaudit.report.history import render_history, write_history
from recaudit.report.inline.card import Card, CardTable, Drawing
from recaudit.report.kit import charts
from recaudit.report.kit.charts import Figure
from recaudit.report.kit.claims import Caution, Finding, Headline
from recaudit.report.kit.document import picture as chart_png
from recaudit.report.kit.document import rendered as render_template
from recaudit.report.kit.numbers import duration as format_duration
from recaudit.report.kit.numbers import plural
from recaudit.report.page import headlines, render, verdict, write
from recaudit.report.statement import render_statement, write_statement
from recaudit.report.verdict import RunVerdict

__all__ = [
    "Card",
    "CardTable",
    "Caution",
    "Drawing",
    "Figure",
    "Finding",
    "Headline",
    "RunVerdict",
    "chart_png",
    "charts",
    "format_duration",
    "headlines",
    "plural",
    "render",
    "render_comparison",
    "render_history",
    "render_statement",
    "render_template",
    "verdict",
    "write",
    "write_comparison",
    "write_history",
    "write_statement",
]
