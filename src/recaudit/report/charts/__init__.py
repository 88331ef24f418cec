"""The page's charts: Vega-Lite specifications made with Altair, small, and without any colour of their own.

Colours are the page's CSS variables, which the SVG renderer passes on: the charts follow light, dark and print
without being drawn again. The data in a chart is what is drawn, never the raw tables.
"""

from recaudit.report.charts.agency import curve, moved_pairs
from recaudit.report.charts.calibration import divergences, least_calibrated, one_user, recall_against_divergence
from recaudit.report.charts.figure import THEME, Figure, series_color, step_color
from recaudit.report.charts.folding import folding_against_error
from recaudit.report.charts.groups import MOST_CATEGORIES, amplification, groups_by, popularity_shares
from recaudit.report.charts.models import lorenz, models_by, tradeoff
from recaudit.report.charts.reach import SMALLEST_TAIL, before_and_after, chances, lifts

__all__ = [
    "MOST_CATEGORIES",
    "SMALLEST_TAIL",
    "THEME",
    "Figure",
    "amplification",
    "before_and_after",
    "chances",
    "curve",
    "divergences",
    "folding_against_error",
    "groups_by",
    "least_calibrated",
    "lifts",
    "lorenz",
    "models_by",
    "moved_pairs",
    "one_user",
    "popularity_shares",
    "recall_against_divergence",
    "series_color",
    "step_color",
    "tradeoff",
]
