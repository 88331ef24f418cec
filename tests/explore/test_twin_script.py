"""The explorer's script breaks ties as Python does, run by Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from recaudit.ranking import top_items
from recaudit.solvers.lists.calibrated import calibrated_lists
from recaudit.solvers.lists.objective import CategoryVectors
from recaudit.ties import TieKeys

SCRIPT = Path(__file__).parents[2] / "src/recaudit/explore/scripts/twin.js"
NODE = shutil.which("node")
PROGRAM = """
import { calibrated, ordered, pairKey } from %s;
const cases = JSON.parse(await new Response(process.stdin).text());
const answers = cases.map((one) => {
  const ties = { user: BigInt(one.user), items: BigUint64Array.from(one.items, BigInt) };
  const scores = Float64Array.from(one.scores), free = Uint8Array.from(one.free);
  const genres = {
    names: one.interests.map(String), indptr: one.indptr, indices: one.indices, shares: one.shares,
    vectorOf: Int32Array.from(one.vectorOf),
  };
  const rows = Uint32Array.from(one.scores.keys());
  const interests = Float64Array.from(one.interests);
  return {
    keys: Array.from(ties.items, (item) => String(pairKey(ties.user, item))),
    order: ordered(scores, free, ties),
    list: calibrated(scores, free, rows, genres, interests, one.weight, 5, ties),
  };
});
console.log(JSON.stringify(answers));
"""


def case(seed: int) -> dict[str, Any]:
    """Many items with few different scores and few different genres."""
    draw = np.random.default_rng(seed)
    items, genres = 40, 3
    shares = np.eye(genres)[draw.integers(genres, size=items)] * (draw.random((items, 1)) < 0.9)
    vectors = CategoryVectors.of(sparse.csr_array(shares))
    ties = TieKeys.of_ids(pl.Series([f"user {seed}"]), pl.Series(range(items)))
    return {
        "scores": draw.integers(3, size=items) / 2,
        "free": draw.random(items) < 0.8,
        "interests": draw.dirichlet(np.ones(genres)),
        "weight": float(draw.choice([0.0, 0.5, 0.9])),
        "vectors": vectors,
        "shares": sparse.csr_array(shares),
        "ties": ties,
    }


def for_script(own: dict[str, Any]) -> dict[str, Any]:
    shares, ties = own["shares"], own["ties"]
    return {
        "user": str(ties.users[0]),
        "items": [str(key) for key in ties.items],
        "scores": own["scores"].tolist(),
        "free": own["free"].astype(int).tolist(),
        "interests": own["interests"].tolist(),
        "weight": own["weight"],
        "indptr": shares.indptr.tolist(),
        "indices": shares.indices.tolist(),
        "shares": shares.data.tolist(),
        "vectorOf": own["vectors"].vector_of.tolist(),
    }


@pytest.mark.skipif(NODE is None, reason="Node runs the script")
def test_tied_rows_are_in_the_order_of_python() -> None:
    cases = [case(seed) for seed in range(30)]
    program = PROGRAM % json.dumps(SCRIPT.as_uri())
    done = subprocess.run(
        [str(NODE), "--input-type=module", "--eval", program],
        input=json.dumps([for_script(own) for own in cases]),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for own, answer in zip(cases, json.loads(done.stdout), strict=True):
        scores, free = own["scores"][None], own["free"][None]
        assert [int(key) for key in answer["keys"]] == own["ties"].of_row().tolist()
        order = top_items(scores, free, int(free.sum()), own["ties"])[0]
        assert answer["order"] == order.tolist()
        made = calibrated_lists(
            scores,
            free,
            own["vectors"],
            own["interests"][None],
            weight=own["weight"],
            size=5,
            horizon="prefix",
            ties=own["ties"],
        )
        assert answer["list"] == made.lists[0].tolist()
