"""What a metric says of a recommender that takes no ratings in, is what such a recommender has."""

from __future__ import annotations

import polars as pl
import pytest

from recaudit.audits import Agency, Instability, Reachability
from recaudit.audits.audit import Audit, Subject, definitions
from recaudit.data.synthetic import World
from recaudit.interventions import Future, FutureEdits, HistoryEdits, NextK, Past
from recaudit.models import ALS
from recaudit.policies import Softmax

FIXED = Softmax(beta=2.0)
ASKED = (
    *(
        Reachability(actions=actions(k=3), users=3, policy=FIXED)
        for actions in (NextK, HistoryEdits, FutureEdits, Past)
    ),
    *(Instability(edits=edits(k=2), viewers=3, editors=3, policy=FIXED) for edits in (Past, Future)),
    Agency(k=2, users=3, followed=2, editors=3, targets=5, horizons=(), betas=(), policy=FIXED),
)


@pytest.mark.parametrize("audit", ASKED)
def test_a_model_whose_vectors_are_held_at_zero(world: World, audit: Audit) -> None:
    recommender = ALS(factors=2, regularization=1e12)
    result = audit.run(Subject(model=recommender.fit(world.data, 0), recommender=recommender, data=world.data))
    still = {name: metric.still for name, metric in definitions().items() if metric.still is not None}
    found = result.table("summary").filter(pl.col("metric").is_in(list(still)))
    assert not found.is_empty()
    for row in found.iter_rows(named=True):
        assert row["value"] == pytest.approx(still[row["metric"]], abs=1e-6), row["metric"]
