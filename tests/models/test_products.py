"""Lists out of vectors, beside the lists out of every score."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import recaudit as ra
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.lists import recommend as lists_module
from recaudit.audits.lists.recommend import Recommend
from recaudit.data import Interactions
from recaudit.engines import Threads
from recaudit.errors import InputError
from recaudit.models import ALS, TopPop, from_factors
from recaudit.models.factor.model import FactorVectors
from recaudit.models.products import ScoreVectors, TopProducts
from recaudit.policies import Softmax, Top1
from recaudit.ranking import top_items
from recaudit.ties import TIE, TieKeys


def by_every_score(vectors: ScoreVectors, seen: list[list[int]], n: int) -> tuple[IntArray, FloatArray]:
    """The readable twin: everybody's scores of everything, and the ranking of them all."""
    scores = vectors.users @ vectors.items.T + vectors.level[:, None] + vectors.offset
    allowed = np.ones(scores.shape, dtype=bool)
    for user, items in enumerate(seen):
        allowed[user, items] = False
    return top_items(scores, allowed, n, ties_of(vectors)), scores


def ties_of(vectors: ScoreVectors) -> TieKeys:
    return TieKeys(*(np.arange(len(side), dtype=np.uint64) for side in (vectors.users, vectors.items)))


def products(vectors: ScoreVectors, seen: list[list[int]]) -> TopProducts:
    indptr = np.cumsum([0, *map(len, seen)])
    items = np.array([i for own in seen for i in sorted(own)], dtype=np.int32)
    for array in (indptr, items):
        array.flags.writeable = False  # as a log's are
    return TopProducts(vectors, indptr, items, ties_of(vectors))


def drawn(seed: int, users: int = 9, items: int = 3000, factors: int = 6) -> ScoreVectors:
    draw = np.random.default_rng(seed)
    sides = draw.normal(0, 1, (users, factors)), draw.normal(0, 1, (items, factors))
    return ScoreVectors(*sides, draw.normal(3, 1, users), draw.normal(0, 1, items))


def of_offsets(offset: FloatArray) -> ScoreVectors:
    """A user whose scores are these."""
    return ScoreVectors(np.zeros((1, 6)), drawn(0, items=len(offset)).items, np.zeros(1), offset)


def check(vectors: ScoreVectors, seen: list[list[int]], n: int) -> BoolArray:
    """Whose list is decided has the list out of every score; returns who is."""
    found, own, decided, _ = products(vectors, seen).lists(np.arange(len(vectors.users)), n)
    expected, scores = by_every_score(vectors, seen, n)
    np.testing.assert_array_equal(found[decided], expected[decided])
    told = np.where(expected >= 0, np.take_along_axis(scores, np.maximum(expected, 0), axis=1), np.nan)
    largest = np.abs(scores).max(axis=1, keepdims=True, initial=0.0)
    assert (np.abs(own - told) <= 1e-13 * largest)[decided & (expected >= 0).all(axis=1)].all()
    np.testing.assert_array_equal(np.isnan(own[decided]), (expected < 0)[decided])
    return decided


@pytest.mark.parametrize("n", [1, 10, 200])
@pytest.mark.parametrize("factors", [0, 1, 6, 17])
@pytest.mark.parametrize("items", [3, 512, 513, 3000])
def test_lists_are_those_out_of_every_score(items: int, factors: int, n: int) -> None:
    draw = np.random.default_rng(items)
    seen = [draw.choice(items, draw.integers(0, min(items, 400) + 1), replace=False).tolist() for _ in range(9)]
    assert check(drawn(factors, items=items, factors=factors), seen, n).all()


def test_what_was_seen_is_left_out_where_it_is_best() -> None:
    vectors = drawn(5)
    best = by_every_score(vectors, [[]] * 9, 1500)[0]
    assert check(vectors, [sorted(row.tolist()) for row in best], 10).all()
    everything = [list(range(3000))] * 8
    assert check(vectors, [*everything, list(range(2995))], 10).all()


@pytest.mark.parametrize("order", [1, -1])
def test_any_order_of_the_catalogue(order: int) -> None:
    """Ascending scores fill the room for candidates again and again."""
    offset = order * np.sort(np.random.default_rng(1).normal(0, 10, 3000))
    assert check(of_offsets(offset), [[]], 10).all()


def test_items_with_equal_vectors_stand_in_the_order_of_the_catalogue() -> None:
    base = drawn(7, items=1000)
    vectors = base._replace(items=np.tile(base.items, (3, 1)), offset=np.tile(base.offset, 3))
    assert check(vectors, [[0, 1000]] * 9, 10).all()


def test_too_many_equal_items_are_left_undecided() -> None:
    equal = drawn(8)._replace(items=np.ones((3000, 6)), offset=np.zeros(3000))
    assert not check(equal, [[]] * 9, 10).any()


@pytest.mark.parametrize("items", [5, 3000])
def test_who_has_no_vector_gets_the_first_of_the_catalogue(items: int) -> None:
    cold = drawn(8, items=items)._replace(users=np.zeros((9, 6)), offset=np.zeros(items))
    assert check(cold, [[], [0, 3], list(range(items)), *[[0, 1, 2]] * 6], 10).all()


def test_differences_below_single_precision_are_decided_by_double() -> None:
    """Pairs of items apart by a millionth of what single precision tells."""
    base = drawn(9, items=500)
    near = base.items * (1 + 1e-9 * np.random.default_rng(0).choice([-1, 1], (500, 1)))
    vectors = base._replace(items=np.vstack([base.items, near]), offset=np.tile(base.offset, 2))
    assert check(vectors, [[]] * 9, 10).all()


def test_a_gap_that_only_the_largest_score_can_judge_is_left_undecided() -> None:
    """Two scores at 1, `gap` apart, in a row that goes down to -100: tied by the lowest score alone."""
    offset = np.linspace(-100, 0.5, 3000)
    offset[[100, 200]] = 1.0, 1.0 + 30 * TIE
    tied = of_offsets(offset)
    assert by_every_score(tied, [[]], 1)[0] == [[100]]
    assert not check(tied, [[]], 1).any()
    assert check(tied._replace(offset=np.where(offset > 1, 1.0 + 200 * TIE, offset)), [[]], 1).all()


def test_a_chain_of_ties_past_the_last_place_is_followed() -> None:
    """Each 0.9 gaps below the one before: all twenty are tied, so that the first place may go to the last."""
    offset = np.full(3000, -1.0)
    offset[:20] = 1 - 0.9 * TIE * np.arange(20)[::-1]
    chain = of_offsets(offset)
    first = np.argsort(ties_of(chain).of_row()[:20])[:5].tolist()
    assert by_every_score(chain, [[]], 5)[0].tolist() == [first]
    check(chain, [[]], 5)


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-160, 1e-30, 1e30, 1e160, 1e300])
def test_vectors_of_any_size(size: float) -> None:
    base = drawn(3)
    check(base._replace(users=size * base.users), [[]] * 9, 10)
    check(base._replace(items=size * base.items), [[]] * 9, 10)
    with np.errstate(over="ignore"):
        check(base._replace(items=size * base.items, users=base.users / (size or 1)), [[]] * 9, 10)
    check(base._replace(offset=size * base.offset), [[]] * 9, 10)
    check(base._replace(level=size * base.level), [[]] * 9, 10)
    with np.errstate(over="ignore"):  # a factor that nobody has, of any size
        check(
            base._replace(users=base.users * [0, 1, 1, 1, 1, 1], items=base.items * [size or 1, *[1e-200] * 5]),
            [[]] * 9,
            10,
        )
    lone = base.items.copy()
    lone[17] *= max(size, 1.0)
    check(base._replace(items=lone), [[]] * 9, 10)


whole = st.integers(-3, 3).map(float)
near = st.tuples(whole, st.integers(-3, 3)).map(lambda part: part[0] + part[1] * 0.4 * TIE)


@given(st.data(), st.integers(1, 60), st.integers(1, 12), st.integers(0, 3))
def test_ties_of_all_kinds(data: Any, items: int, n: int, factors: int) -> None:
    def array(*shape: int, of: Any) -> FloatArray:
        count = int(np.prod(shape))
        return np.array(data.draw(st.lists(of, min_size=count, max_size=count)), dtype=float).reshape(shape)

    vectors = ScoreVectors(
        array(2, factors, of=whole), array(items, factors, of=near), array(2, of=whole), array(items, of=near)
    )
    seen = data.draw(st.lists(st.lists(st.integers(0, items - 1), unique=True), min_size=2, max_size=2))
    check(vectors, seen, n)


# ---- through the verbs ---------------------------------------------------------------------------------


def log_of(users: int, items: int, each: int = 5) -> Interactions:
    draw = np.random.default_rng(0)
    rows = {
        "user": np.repeat(np.arange(users), each),
        "item": np.concatenate([draw.choice(items, each, replace=False) for _ in range(users)]),
        "rating": draw.integers(1, 6, users * each).astype(float),
    }
    return Interactions.from_frame(pl.DataFrame(rows), scale=(1, 5), items=range(items))


class AllScores(FactorVectors):
    """A model of a kind of its own: what it says of its scores is not taken for granted."""

    def scores(self, users: IntArray) -> FloatArray:
        return super().scores(users)


@pytest.fixture(scope="module")
def twins() -> tuple[FactorVectors, AllScores]:
    """One model with and one without the way through vectors; some rows cannot be decided by it."""
    data = log_of(300, 900)
    draw = np.random.default_rng(1)
    P, Q = draw.normal(0, 1, (300, 5)), np.tile(draw.normal(0, 1, (450, 5)), (2, 1))
    P[::50], Q[:200] = 0.0, 1.0
    parts = data, P, Q, draw.normal(0, 1, 300), np.where(np.arange(900) < 200, 0.5, 0.0), 3.0
    return FactorVectors(*parts), AllScores(*parts)


def test_verbs_give_the_same_lists_by_either_way(twins: tuple[FactorVectors, AllScores]) -> None:
    fast, plain = twins
    assert plain.score_vectors() is None
    work = Recommend(fast, Top1(), 10, 0)
    assert work.products is not None
    decided = work.products.lists(np.arange(300), 10).decided
    assert 0 < decided.sum() < 300
    first, second = (ra.recommend(model, n=10) for model in twins)
    assert first.drop("score").equals(second.drop("score"))
    np.testing.assert_allclose(first["score"], second["score"], rtol=1e-12)
    shown = [ra.exposure(model).table("lists") for model in twins]
    assert shown[0].equals(shown[1])
    test = log_of(300, 900, each=7)
    one, other = (ra.accuracy(model, test).frame for model in twins)
    assert_frame_equal(one, other, rel_tol=1e-9)


def test_engines_give_the_same_bits(twins: tuple[FactorVectors, AllScores]) -> None:
    assert ra.recommend(twins[0]).equals(ra.recommend(twins[0], engine=Threads(2)))


def test_which_models_and_policies_go_by_vectors() -> None:
    data = log_of(40, 60)
    popular, factors = TopPop().fit(data), ALS(factors=3, iterations=2).fit(data)
    for model in (popular, factors):
        vectors = model.score_vectors()
        assert vectors is not None
        scores = vectors.users @ vectors.items.T + vectors.level[:, None] + vectors.offset
        np.testing.assert_allclose(model.scores(np.arange(40)), scores, rtol=1e-12)
        assert Recommend(model, Top1(), 3, 0).products is not None
        assert Recommend(model, Softmax(beta=1.0), 3, 0).products is None
        assert Recommend(model, Top1(), lists_module.LONGEST, 0).products is None
    assert ra.models.Random().fit(data).score_vectors() is None


def test_vectors_that_are_no_numbers_are_refused_as_scores_are() -> None:
    data = log_of(40, 60)
    broken = FactorVectors(data, np.full((40, 2), np.inf), np.ones((60, 2)), np.zeros(40), np.zeros(60), 0.0)
    with pytest.raises(InputError, match="finite scores"):
        ra.recommend(broken)


def test_blocks_follow_from_the_catalogue_alone() -> None:
    small, large = log_of(300, 60), log_of(300, 70_000)
    sizes = []
    for data in (small, large):
        model = from_factors(np.ones((300, 1)), np.ones((data.n_items, 1)), data, predicts_ratings=False)
        sizes += [
            [len(piece) for piece in Recommend(model, p, 3, 0).pieces(np.arange(300))]
            for p in (Top1(), Softmax(beta=1.0))
        ]
    assert sizes[:3] == [[256, 44]] * 3
    assert sizes[3] == [59] * 5 + [5]
