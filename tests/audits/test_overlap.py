"""Held-out pairs that are also training pairs are counted by every audit that has a test set."""

from __future__ import annotations

import numpy as np
import pytest

import recaudit as ra
from recaudit.audits.overlap import describe_overlap
from recaudit.data import Interactions, splits, synthetic
from recaudit.models import EASE
from recaudit.registry import AUDITS
from recaudit.testing.models import some_ratings


@pytest.fixture(scope="module")
def data() -> Interactions:
    return some_ratings(0)


def leaking(data: Interactions) -> tuple[Interactions, Interactions, int]:
    """A training part that has the first three held-out pairs, the test part, and the users of these pairs."""
    test = splits.random(data, 0.3).test
    all_pairs = data.users.astype(np.int64) * data.n_items + data.items
    pairs = test.users.astype(np.int64) * data.n_items + test.items
    in_train = ~np.isin(all_pairs, pairs) | np.isin(all_pairs, pairs[:3])
    return data.subset(in_train), test, len(np.unique(test.users[:3]))


def test_counts_and_shares(data: Interactions) -> None:
    train, test, n_users = leaking(data)
    overlap = describe_overlap(train, test)
    assert overlap == {
        "pairs": 3,
        "share": 3 / len(test),
        "users": n_users,
        "user_share": n_users / len(np.unique(test.users)),
    }
    clean = splits.random(data, 0.3)
    assert describe_overlap(*clean)["pairs"] == 0


@pytest.mark.parametrize("kind", [kind for kind, audit in AUDITS.items() if "test" in audit.needs])
def test_every_audit_with_a_test_set_counts_it(kind: str) -> None:
    train, test, _ = leaking(synthetic.demo_world(rng=3, users=40, items=60).data)
    audit = AUDITS[kind]()
    found = audit.run(ra.audits.Subject(EASE().fit(train), EASE(), train, test))
    assert found.facts["overlap"]["pairs"] == 3
    assert any("3 held-out pairs" in line for line in found.heading())
