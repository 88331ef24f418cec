"""Another processor gives the same lists, statuses and numbers to 1e-9; here, other instructions of this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from contracts.alike import assert_alike

PROGRAM = """
import sys
from pathlib import Path
import recaudit as ra
from recaudit.data import synthetic

out = Path(sys.argv[1])
data = synthetic.demo_world(rng=1, users=120, items=80).data
models = {
    "als": ra.models.ALS(factors=8),
    "mf": ra.models.BiasedMF(factors=8, epochs=10),
    "wals": ra.models.WALS(factors=6),
    "ease": ra.models.EASE(regularization=50.0),
    "knn": ra.models.ItemKNN(neighbours=10, similarity="pearson"),
}
some = data.user_ids.head(4).to_list()
calibrated = ra.policies.Calibrated(weight=0.9)
for name, recommender in models.items():
    model = recommender.fit(data)
    ra.recommend(model, n=20).write_parquet(out / f"{name}-lists.parquet")
    ra.recommend(model, n=20, policy=calibrated).write_parquet(out / f"{name}-calibrated.parquet")
    ra.exposure(model, k=10).frame.write_parquet(out / f"{name}-exposure.parquet")
    if name != "knn":
        for policy in (ra.policies.Softmax(beta=2), ra.policies.Top1()):
            found = ra.reachability(model, policy=policy, users=some).pairs
            found.write_parquet(out / f"{name}-{type(policy).__name__}.parquet")
"""


def answers(folder: Path, **environment: str) -> dict[str, pl.DataFrame]:
    folder.mkdir()
    subprocess.run([sys.executable, "-c", PROGRAM, str(folder)], check=True, env={**os.environ, **environment})
    return {path.stem: pl.read_parquet(path) for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    return answers(tmp_path_factory.mktemp("here") / "answers")


@pytest.mark.parametrize(
    "environment",
    [
        {"OPENBLAS_CORETYPE": "Nehalem", "MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default"},
        {"OPENBLAS_CORETYPE": "Haswell", "MKL_CBWR": "AVX2", "OMP_NUM_THREADS": "1"},
    ],
    ids=["the oldest instructions", "others, on one thread"],
)
def test_the_same_answers(here: dict[str, pl.DataFrame], environment: dict[str, str], tmp_path: Path) -> None:
    there = answers(tmp_path / "answers", **environment)
    assert there.keys() == here.keys()
    for name, frame in here.items():
        assert_alike(frame, there[name])


def test_the_same_bits_once_more(here: dict[str, pl.DataFrame], tmp_path: Path) -> None:
    again = answers(tmp_path / "answers")
    for name, frame in here.items():
        assert frame.equals(again[name]), name
