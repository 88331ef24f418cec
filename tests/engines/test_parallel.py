from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from recaudit.arithmetic import core_count
from recaudit.engines import Engine, Serial, Threads

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
assert numba.threading_layer() == "LAYER"
"""
POOLS = {"workqueue": "workqueue", "omp": "omppool", "tbb": "tbbpool"}


@pytest.mark.parametrize("layer", POOLS)
def test_threads_may_begin_kernels_at_once_under_any_layer_of_numba(layer: str) -> None:
    """Of these workqueue bears one kernel at a time, and ends the process of who begins two."""
    try:
        importlib.import_module(f"numba.np.ufunc.{POOLS[layer]}")
    except ImportError as error:
        pytest.skip(f"numba has no such layer here: {error}")
    environment = os.environ | {"NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"}
    work = WORK.replace("LAYER", layer)
    done = subprocess.run([sys.executable, "-c", work], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def count(_: int) -> tuple[int, int]:
    return core_count(), max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")


@pytest.mark.skipif(core_count() < 2, reason="one core")
def test_cores_are_divided_and_matrix_libraries_keep_to_one() -> None:
    before, cores = count(0), core_count()
    assert list(Threads(2).map(count, range(4))) == [(cores // 2, 1)] * 4
    assert list(Threads(cores + 1).map(count, range(4))) == [(1, 1)] * 4
    assert list(Serial().map(count, range(2))) == [(cores, 1)] * 2
    assert count(0) == before


@pytest.mark.skipif(core_count() < 2, reason="one core")
def test_the_limit_is_lifted_by_whichever_thread_ends_last() -> None:
    before, first_has_begun, second_has_begun = count(0), threading.Event(), threading.Event()

    def piece(number: int) -> None:
        """The second piece ends last, when the thread that began first is alive and has nothing to do."""
        if number == 0:
            first_has_begun.set()
            assert second_has_begun.wait(60)
        else:
            assert first_has_begun.wait(60)
            second_has_begun.set()
            time.sleep(0.05)

    assert list(Threads(2).map(piece, range(2))) == [None] * 2
    assert count(0) == before


def test_an_abandoned_map_lifts_the_limit() -> None:
    before, answers = count(0), Serial().map(abs, [-1, -2])
    assert next(answers) == 1
    assert count(0) == (core_count(), 1)
    del answers
    assert count(0) == before


MATRIX = np.random.default_rng(0).normal(size=(700, 700))
DELAYS = 0.01, 0.0, 0.02, 0.005, 0.015, 0.0


def slow_product(piece: int) -> bytes:
    time.sleep(DELAYS[piece])
    return bytes((MATRIX[:300] @ MATRIX[:, :200] * piece).tobytes())


def products(engine: Engine) -> list[bytes]:
    """Matrix products in pieces, where their answers are consumed, and after the map."""
    found = [product + (MATRIX @ MATRIX[:, :100]).tobytes() for product in engine.map(slow_product, range(6))]
    return [*found, (MATRIX @ MATRIX[:, :100]).tobytes()]


def test_threads_give_the_bits_of_serial_in_twenty_repetitions() -> None:
    expected = products(Serial())
    assert [products(Threads(2)) == expected for _ in range(20)] == [True] * 20
