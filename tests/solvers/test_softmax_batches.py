from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recaudit.arrays import BoolArray, FloatArray
from recaudit.solvers import batches, maximize_softmax, maximize_softmax_batch
from recaudit.solvers.batches import plan_batches


def problems(count: int = 12, items: int = 30) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Problems with different candidates and targets; the fourth has no target."""
    rng = np.random.default_rng(5)
    slope = rng.normal(0, 0.5, (count, items, 3))
    intercept = np.where(rng.random((count, items)) < 0.8, rng.normal(3, 1, (count, items)), -np.inf)
    targets = np.isfinite(intercept) & (rng.random((count, items)) < 0.4)
    targets[3] = False
    return slope, intercept, targets


def test_a_batch_is_its_problems_one_by_one() -> None:
    slope, intercept, targets = problems()
    lower = np.linspace(0, 1, 12 * 3).reshape(12, 3)

    together = maximize_softmax_batch(slope, intercept, targets, 2.0, lower, 5.0, tol=1e-9, actions=True)

    assert together.solved.all()
    for problem in range(12):
        candidates = np.flatnonzero(np.isfinite(intercept[problem]))
        alone = maximize_softmax(
            slope[problem, candidates],
            intercept[problem, candidates],
            np.searchsorted(candidates, np.flatnonzero(targets[problem])),
            2.0,
            lower[problem],
            5.0,
            tol=1e-9,
        )
        mine = targets.nonzero()[0] == problem
        np.testing.assert_allclose(together.value[mine], alone.value, rtol=0, atol=2e-9)
        np.testing.assert_allclose(together.actions[mine], alone.actions, atol=1e-3)


def test_batches_in_little_memory_have_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    slope, intercept, targets = problems()

    ample = maximize_softmax_batch(slope, intercept, targets, 2.0, 1, 5, tol=1e-9)
    monkeypatch.setattr(batches, "CPU_MEMORY", 40_000)
    tight = maximize_softmax_batch(slope, intercept, targets, 2.0, 1, 5, tol=1e-9)

    np.testing.assert_allclose(tight.value, ample.value, rtol=0, atol=1e-9)
    assert tight.solved.all()


def test_the_number_of_cores_does_not_change_the_answers() -> None:
    slope, intercept, targets = problems(count=5, items=1500)
    before = numba.get_num_threads()
    try:
        answers = []
        for cores in (1, min(2, before)):
            numba.set_num_threads(cores)
            answers.append(maximize_softmax_batch(slope, intercept, targets, 2.0, 1, 5).value)
    finally:
        numba.set_num_threads(before)

    assert answers[0].tolist() == answers[1].tolist()


def test_a_problem_without_targets_may_be_without_candidates() -> None:
    slope, intercept, targets = problems()
    intercept[3] = -np.inf

    found = maximize_softmax_batch(slope, intercept, targets, 2.0, 1, 5)

    assert found.solved.all()
    assert len(found.value) == targets.sum()


def test_a_batch_without_targets_is_an_empty_answer() -> None:
    slope, intercept, targets = problems()

    found = maximize_softmax_batch(slope, intercept, targets & False, 2.0, 1, 5)

    assert found.value.shape == (0,)


@given(
    counts=st.lists(st.integers(0, 40), max_size=12),
    items=st.integers(1, 100_000),
    actions=st.integers(1, 20),
    memory=st.integers(1, 1 << 29),
)
def test_batches_cover_every_pair_once_and_name_its_problem(
    counts: list[int], items: int, actions: int, memory: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "CPU_MEMORY", memory)
        planned = list(plan_batches(counts, items, actions))

    owner = np.repeat(np.arange(len(counts)), counts)
    edges = [0, *(batch.pairs.stop for batch in planned)]
    assert [batch.pairs.start for batch in planned] == edges[:-1]
    assert edges[-1] == len(owner)
    for batch, (start, stop) in zip(planned, pairwise(edges), strict=True):
        assert stop > start
        assert set(owner[start:stop]) == set(batch.problems)
