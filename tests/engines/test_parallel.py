from __future__ import annotations

import os
import subprocess
import sys

WORK = """
import numba
import recaudit as ra
from recaudit import simulate
from recaudit.engines import Threads

kind = simulate.Topics(users=40, items=50, topics=4, users_per_step=10)
for recommender in (ra.models.ALS(factors=4), ra.models.ItemKNN(neighbours=5)):
    found = [
        simulate.run(kind, recommender, ratings=600, steps=8, trials=4, engine=engine).steps
        for engine in (Threads(4), None)
    ]
    assert found[0].equals(found[1])
assert numba.threading_layer() == "workqueue"
"""


def test_threads_may_begin_kernels_at_once_where_numba_bears_one_at_a_time() -> None:
    environment = os.environ | {"NUMBA_THREADING_LAYER": "workqueue", "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", WORK], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
