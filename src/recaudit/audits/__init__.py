"""What is asked of a recommender: one file an audit."""

from recaudit.audits.accuracy import accuracy
from recaudit.audits.exposure import exposure
from recaudit.audits.lists import recommend
from recaudit.audits.metrics import METRICS, Metric
from recaudit.audits.reachability import reachability
from recaudit.audits.reachability_result import Reachability
from recaudit.audits.result import Result

__all__ = ["METRICS", "Metric", "Reachability", "Result", "accuracy", "exposure", "reachability", "recommend"]
