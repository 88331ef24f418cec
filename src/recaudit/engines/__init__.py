"""The one seam through which work is spread: the same map and the same numbers on any engine."""

from recaudit.engines.base import AnyEngine, Engine, with_workers
from recaudit.engines.cluster import Ray
from recaudit.engines.local import Processes, Serial, Threads
from recaudit.engines.progress import Step, listening, track, working

__all__ = [
    "AnyEngine",
    "Engine",
    "Processes",
    "Ray",
    "Serial",
    "Step",
    "Threads",
    "listening",
    "track",
    "with_workers",
    "working",
]
