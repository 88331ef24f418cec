"""Run folders: a configuration carried out into a manifest, tables and a report; resumed after a kill."""

from recaudit.runs.comparison import RunComparison, compare
from recaudit.runs.configuration import Configuration, parse, read
from recaudit.runs.estimate import RunEstimate, estimate
from recaudit.runs.execution import execute
from recaudit.runs.folder import Run
from recaudit.runs.history import RunHistory, history
from recaudit.runs.manifest import AuditRecord
from recaudit.runs.simulation import SimulationConfiguration, execute_simulation, parse_simulation, read_simulation

__all__ = [
    "AuditRecord",
    "Configuration",
    "Run",
    "RunComparison",
    "RunEstimate",
    "RunHistory",
    "SimulationConfiguration",
    "compare",
    "estimate",
    "execute",
    "execute_simulation",
    "history",
    "parse",
    "parse_simulation",
    "read",
    "read_simulation",
]
