"""So what: the verdict on a run, its findings in plain sentences, and the HTML page a person reads."""

from recaudit.report.kit.claims import Caution, Finding, Headline
from recaudit.report.page import headlines, render, verdict, write
from recaudit.report.verdict import RunVerdict

__all__ = ["Caution", "Finding", "Headline", "RunVerdict", "headlines", "render", "verdict", "write"]
