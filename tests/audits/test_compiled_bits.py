"""Numbers do not depend on whether kernels were just compiled or come from the cache, nor on how threads took turns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl

from recaudit.audits import Instability
from recaudit.audits.instability.result import InstabilityResult

FOLDING = """
import recaudit as ra
data = ra.data.synthetic.demo_world(users=300, items=200).data
found = ra.folding(ra.models.ALS(factors=8).fit(data))
print(found.users["folding"].to_numpy().tobytes().hex())
"""


def test_folding_just_compiled_and_from_the_cache(tmp_path: Path) -> None:
    own = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    cold, warm = (subprocess.check_output([sys.executable, "-c", FOLDING], env=own, text=True) for _ in range(2))
    assert cold.strip()
    assert cold == warm


def test_groups_of_editors_are_compared_in_one_order() -> None:
    """Means made while grouping came in two ways within 200."""
    draw = np.random.default_rng(0)
    pairs = pl.DataFrame({"viewer": np.repeat(np.arange(40), 60), "editor": np.tile(np.arange(60), 40)})
    pairs = pairs.with_columns(value=draw.random(len(pairs)), status=pl.lit("solved"))
    tables = {"pairs": pairs, "editors": pl.DataFrame({"editor": np.arange(60)})}
    found = InstabilityResult(Instability(), tables, rng=0)
    ways = {tuple(found.contrast(range(30), range(30, 60))["value"]) for _ in range(300)}
    assert len(ways) == 1
