"""So what: the findings of a run in plain sentences, and the HTML page a person reads."""

from recaudit.report.kit.numbers import Headline
from recaudit.report.page import headlines, render, write

__all__ = ["Headline", "headlines", "render", "write"]
