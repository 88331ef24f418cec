"""Ties are decided by a rule, and neither by rounding nor by the order of the catalogue."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import recaudit as ra
from recaudit import ranking
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.lists.accuracy import rated_ndcg
from recaudit.audits.recourse.goals import AmongFirst
from recaudit.data import Interactions
from recaudit.interventions import Future, NextK, Stars
from recaudit.models import SgdStep, from_factors
from recaudit.models.neighbour.similarity import Similarity, nearest
from recaudit.policies import EpsilonGreedy, Top1, top_items
from recaudit.ranking import affine_rank_of, rank_of, ranks, shared_ranks, top_items_and_ties
from recaudit.ties import TIE, TieKeys, id_hashes

BITS = 2**64 - 1


def mixed(bits: int) -> int:
    """The readable twin of `ties.mix`."""
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & BITS
    return bits ^ (bits >> 31)


def hashed(text: str) -> int:
    """The readable twin of `ties.id_hashes`: FNV-1a of the bytes, mixed."""
    bits = 0xCBF29CE484222325
    for byte in text.encode():
        bits = ((bits ^ byte) * 0x100000001B3) & BITS
    return mixed(bits)


def key(user: str, item: str) -> int:
    """The readable twin of `ties.pair_key`."""
    return mixed((mixed(hashed(user)) + hashed(item)) & BITS)


def named(items: int, user: str = "ann") -> TieKeys:
    """The tie keys of a user and of items with the ids 0, 1, ..."""
    return TieKeys.of_ids(pl.Series([user]), pl.Series(range(items)))


def by_hand(scores: list[float], user: str = "ann") -> list[int]:
    """The readable twin: sort, cut where a gap is wider than the tolerance, order what is between two cuts by key."""
    gap = TIE * max(abs(score) for score in scores)
    groups = grouped(sorted(range(len(scores)), key=lambda i: -scores[i]), scores, gap)
    return [item for group in groups for item in sorted(group, key=lambda item: key(user, str(item)))]


def grouped(falling: list[int], scores: list[float], gap: float) -> list[list[int]]:
    """The items, which are in falling order of their scores, cut where a gap is wider than the tolerance."""
    groups: list[list[int]] = []
    for item in falling:
        linked = groups and scores[groups[-1][-1]] - scores[item] <= gap
        groups = [*groups[:-1], [*groups[-1], item]] if linked else [*groups, [item]]
    return groups


def test_hashes_are_the_same_everywhere() -> None:
    ids = pl.Series(["a", "user 7", "é日本", "17"])
    known = [0x02C0BDBF481420F8, 0xA74E393BA23A29BB, 0x7085D4631F733D71, 0x6A4481963632E6C0]
    assert id_hashes(ids).tolist() == known == [hashed(text) for text in ids]
    assert TieKeys.of_ids(ids, ids).of_row(1)[0] == 13138088310703429323 == key("user 7", "a")
    assert id_hashes(pl.Series([17])).tolist() == known[3:]


def test_a_key_depends_on_the_two_ids_alone() -> None:
    users, items = pl.Series(["u1", "u2", "u3"]), pl.Series(["a", "b", "c", "d"])
    whole = TieKeys.of_ids(users, items)
    part = TieKeys.of_ids(users[[2]], items[[3, 1]])
    assert whole.of_row(2)[[3, 1]].tolist() == part.of_row().tolist()
    assert whole.rows(np.array([2])).columns(np.array([3, 1])).of_row().tolist() == part.of_row().tolist()
    assert len(np.unique([whole.of_row(row) for row in range(3)])) == 12


def test_keys_spread_evenly() -> None:
    """Each of 50 items goes first for about as many of 20,000 users, also where ids of users and items are the same."""
    count, ids = 20_000, pl.Series(range(20_000))
    keys = TieKeys.of_ids(ids, ids[:50])
    first = top_items(np.zeros((count, 50)), np.ones((count, 50), dtype=bool), 1, keys)[:, 0]
    assert np.abs(np.bincount(first, minlength=50) - count / 50).max() < 5 * np.sqrt(count / 50)
    assert (first[:50] == np.arange(50)).sum() < 8


nearly = st.tuples(st.integers(1, 4), st.integers(-3, 3)).map(lambda part: part[0] * (1 + part[1] * 0.4 * TIE))


def first_tie(scores: list[float], n: int) -> int:
    """How many of the first n places are not tied with any other; n if none is."""
    gap, falling = TIE * max(abs(score) for score in scores), sorted(scores, reverse=True)
    tied = [place for place, (one, other) in enumerate(pairwise(falling)) if one - other <= gap]
    return min([n, *tied])


@given(st.lists(nearly, min_size=1, max_size=90), st.integers(1, 95))
def test_lists_and_places_follow_the_rule(scores: list[float], n: int) -> None:
    row = np.array([scores])
    everything = np.ones_like(row, dtype=bool)
    order = by_hand(scores)
    ties = named(len(scores))
    found, untied = top_items_and_ties(row, everything, n, ties)
    assert found[0].tolist() == (order + [-1] * n)[:n]
    assert untied[0] == first_tie(scores, n)
    expected = [order.index(item) + 1 for item in range(len(scores))]
    assert ranks(row, everything, ties)[0].tolist() == expected
    every_row = ties.repeated(len(scores))
    assert (
        rank_of(np.broadcast_to(row, (len(scores), len(scores))), np.arange(len(scores)), every_row).tolist()
        == expected
    )
    assert Top1().log_probabilities(row, everything, ties)[0].argmax() == order[0]
    shown = np.exp(EpsilonGreedy(epsilon=0.1).log_probabilities(row, everything, ties)[0])
    assert shown[order[0]] == pytest.approx(0.9 if len(scores) > 1 else 1.0)


@given(st.lists(st.tuples(nearly | st.just(-np.inf), st.booleans()), min_size=1, max_size=60))
def test_ranks_are_those_among_allowed_items(row: list[tuple[float, bool]]) -> None:
    scores = np.array([[score for score, _ in row]])
    allowed = np.array([[may for _, may in row]])
    candidates = [item for item, (_, may) in enumerate(row) if may]
    finite = [item for item in candidates if row[item][0] > -np.inf]
    gap = TIE * max([row[item][0] for item in finite], default=0.0)
    order: list[int] = []
    for group in grouped(sorted(finite, key=lambda item: -row[item][0]), [score for score, _ in row], gap):
        order += sorted(group, key=lambda item: key("ann", str(item)))
    order += sorted(set(candidates) - set(finite), key=lambda item: key("ann", str(item)))
    expected = [order.index(item) + 1 if item in order else len(order) + 1 for item in range(len(row))]
    assert ranks(scores, allowed, named(len(row)))[0].tolist() == expected


@given(st.lists(st.tuples(nearly, st.booleans()), min_size=1, max_size=60))
def test_shared_ranks_are_those_of_the_first_of_tied_items(row: list[tuple[float, bool]]) -> None:
    scores = np.array([[score for score, _ in row]])
    allowed = np.array([[may for _, may in row]])
    order = [item for item in by_hand([score if may else -1e9 for score, may in row]) if row[item][1]]
    gap = TIE * max([abs(score) for score, may in row if may], default=0.0)
    expected, rank = [len(order) + 1] * len(row), 1
    falling = sorted(order, key=lambda item: -row[item][0])
    for place, item in enumerate(falling):
        if place and row[falling[place - 1]][0] - row[item][0] > gap:
            rank = place + 1
        expected[item] = rank
    assert shared_ranks(scores, allowed)[0].tolist() == expected


@pytest.fixture(scope="module")
def twins() -> ra.models.FactorVectors:
    """Every item stands in the catalogue twice, 40 places apart, and nobody has rated either of half of them."""
    draw = np.random.default_rng(3)
    P, Q = draw.normal(0, 1, (300, 24)), np.tile(draw.normal(0, 1, (40, 24)), (2, 1))
    rows = [(f"u{user:03}", f"i{item:02}", 3.0) for user in range(300) for item in (user % 20, 40 + (user + 7) % 20)]
    unseen = [("nobody", f"i{item:02}", 3.0) for item in range(80)]
    data = Interactions.from_frame(
        pl.DataFrame(rows + unseen, schema=["user", "item", "rating"], orient="row"), scale=(1, 5)
    )
    return from_factors(np.vstack([P, np.zeros((1, 24))]), Q, data, mean=3.0, update=SgdStep(), predicts_ratings=True)


def first_of_twins(user: str, item: str) -> bool:
    """Whether the key puts an item before the one with the same vectors."""
    twin = f"i{(int(item[1:]) + 40) % 80:02}"
    return key(user, item) < key(user, twin)


def test_items_with_the_same_vectors_stand_in_the_order_of_their_keys(twins: ra.models.FactorVectors) -> None:
    users = np.arange(300)
    order = top_items(twins.scores(users), np.ones((300, 80), dtype=bool), 80, twins.data.tie_keys(users))
    ahead = np.argsort(order, axis=1)[:, 40:] - np.argsort(order, axis=1)[:, :40]
    assert (np.abs(ahead) == 1).all()
    for user, name in enumerate(twins.data.user_ids[:300]):
        assert (ahead[user] > 0).tolist() == [first_of_twins(name, f"i{item:02}") for item in range(40)]
    assert 0.45 < (ahead > 0).mean() < 0.55


def test_the_second_of_two_twins_is_never_the_top_item(twins: ra.models.FactorVectors) -> None:
    found = ra.reachability(twins, actions=NextK(3), policy=Top1(), users=["u000", "u001"], candidates="all").pairs
    value = {(row["user"], row["item"]): row for row in found.iter_rows(named=True)}
    compared = 0
    for (user, item), row in value.items():
        if (user, f"i{(int(item[1:]) + 40) % 80:02}") in value and not first_of_twins(user, item):
            compared += 1
            assert row["value"] == 0.0
            assert row["status"] == "solved"
    assert compared > 60
    assert (found["value"] == 1.0).any()


def test_a_held_out_twin_is_ranked_by_the_rule() -> None:
    held = Interactions.from_frame(pl.DataFrame({"user": ["a", "a"], "item": ["x", "y"], "rating": [1.0, 5.0]}))
    best_first = key("a", "y") < key("a", "x")
    first = rated_ndcg(np.array([0.3, 0.1 + 0.2]), held)
    np.testing.assert_allclose(first, rated_ndcg(np.array([0.1, 0.9] if best_first else [0.9, 0.1]), held))
    np.testing.assert_allclose(first, rated_ndcg(np.array([0.3, 0.3]), held))
    np.testing.assert_allclose(first, rated_ndcg(np.array([0.1 + 0.2, 0.3]), held))


@pytest.mark.parametrize("similarity", ["cosine", "pearson"])
@pytest.mark.parametrize("seed", range(5))
def test_of_equally_similar_neighbours_the_first_are_taken(similarity: Similarity, seed: int) -> None:
    """Rows 1 to 6 are the same but for rounding: whatever it is, row 0 gets the first three of them."""
    draw = np.random.default_rng(seed)
    base = draw.uniform(1, 4, 12)
    rounding = 1 + 3e-16 * draw.integers(-2, 3, (6, 12))
    vectors = np.vstack([base + draw.normal(0, 0.1, 12), base * rounding])
    found = nearest(sparse.csr_array(vectors), k=3, similarity=similarity)
    assert found[[0], :].nonzero()[1].tolist() == [1, 2, 3]


def test_ranks_at_points_of_ones_own_are_those_of_the_scores_there() -> None:
    draw = np.random.default_rng(3)
    slope, intercept = draw.normal(size=(400, 3)), draw.normal(size=400)
    intercept[::2] = intercept[1::2] + 1e-8 * draw.normal(size=200)  # nearer than single precision can tell
    slope[::2] = slope[1::2]
    intercept[:20] = intercept[20:40] * (1 + 0.1 * TIE)
    slope[:20] = slope[20:40]
    points = draw.uniform(1, 5, (300, 3))
    own = draw.integers(0, 400, 300)

    ties = named(400)
    expected = rank_of(points @ slope.T + intercept, own, ties.repeated(300))

    np.testing.assert_array_equal(affine_rank_of(slope, intercept, points, own, ties), expected)


def test_ranks_of_tied_rows_need_no_memory_for_all_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each of many items, and most scores are 0: as of neighbours of an item that few have rated."""
    items, sizes = 2000, []
    slopes, level = np.zeros((items, 3)), np.zeros(items)
    slopes[::500, 0] = 1.0
    points, own = np.ones((items, 3)), np.arange(items)
    ties = named(items)
    expected = rank_of(points @ slopes.T + level, own, ties.repeated(items))

    def recorded_rank_of(scores: FloatArray, items: IntArray, ties: TieKeys) -> IntArray:
        sizes.append(scores.size)
        return rank_of(scores, items, ties)

    monkeypatch.setattr(ranking, "rank_of", recorded_rank_of)
    np.testing.assert_array_equal(affine_rank_of(slopes, level, points, own, ties), expected)
    assert sum(sizes) > items**2 / 2  # tied rows are computed again, in double precision
    assert max(sizes) <= items**2 / 10


def test_lists_do_not_depend_on_how_arrays_lie_in_memory() -> None:
    draw = np.random.default_rng(4)
    scores, allowed, ties = draw.normal(size=(1, 12)), draw.random((1, 12)) < 0.7, TieKeys.in_order(12)
    expected = top_items(scores, allowed, 5, ties)
    read_only = np.broadcast_to(scores, scores.shape), np.broadcast_to(allowed, allowed.shape)
    every_other = np.repeat(scores, 2, axis=1)[:, ::2], np.repeat(allowed, 2, axis=1)[:, ::2]
    for values, mask in (read_only, every_other, (np.asfortranarray(scores), np.asfortranarray(allowed))):
        np.testing.assert_array_equal(top_items(values, mask, 5, ties), expected)
        assert ranks(values, mask, ties)[0, expected[0]].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("links", [3, 40, 200])
def test_a_chain_of_ties_has_one_order_however_long_it_is(links: int) -> None:
    scores = [5.0, *(3.0 * (1 - 0.9 * TIE * link) for link in range(links)), 1.0]
    shuffled = [scores[place] for place in np.random.default_rng(0).permutation(len(scores))]
    expected = [by_hand(shuffled).index(item) + 1 for item in range(len(scores))]
    row, keys = np.array([shuffled]), named(len(scores)).repeated(len(scores))
    assert rank_of(np.broadcast_to(row, (len(scores), len(scores))), np.arange(len(scores)), keys).tolist() == expected


def log_of_popular_items(users: int = 400, items: int = 300) -> Interactions:
    """Interactions whose item ids follow popularity, as in many catalogues."""
    draw = np.random.default_rng(0)
    weights = 1 / np.arange(1, items + 1) ** 0.9
    rows = [
        (f"u{user:03d}", int(item) + 1, 1 + int(draw.integers(5)), time)
        for user in range(users)
        for time, item in enumerate(draw.choice(items, 20, replace=False, p=weights / weights.sum()))
    ]
    frame = pl.DataFrame(rows, schema=["user", "item", "rating", "time"], orient="row")
    return Interactions.from_frame(frame, time="time", scale=(1, 5))


def test_equal_scores_measure_like_random_ones() -> None:
    train, test = ra.splits.leave_last(log_of_popular_items(), k=2)
    equal = from_factors(np.zeros((train.n_users, 2)), np.zeros((train.n_items, 2)), train, predicts_ratings=False)
    models = {"equal": equal, "random": ra.models.Random().fit(train), "popular": ra.models.TopPop().fit(train)}
    results = {name: ra.accuracy(model, test, k=10) for name, model in models.items()}
    ndcg = {
        name: result.table("summary").row(by_predicate=pl.col("metric") == "ndcg", named=True)
        for name, result in results.items()
    }
    assert ndcg["random"]["lower"] <= ndcg["equal"]["value"] <= ndcg["random"]["upper"]
    assert ndcg["popular"]["lower"] > 5 * ndcg["equal"]["value"]
    assert results["equal"].facts["ties"] == {"users": 400, "of": 400}
    assert results["random"].facts["ties"] == {"users": 0, "of": 400}


def test_lists_that_depend_on_a_tie_are_counted() -> None:
    data, test = ra.splits.leave_last(log_of_popular_items(), k=2)
    scores = np.tile(-np.arange(300.0), (400, 1))
    scores[:100, 199] = scores[:100, 198]  # two of the worst: in no list of 10, unless much was seen
    scores[100:107, 30:40] = 1.0  # ten above all others
    model = from_factors(scores, np.eye(300), data, predicts_ratings=False)
    low = sum(not {199, 200} & set(data.item_ids.gather(data.history(user)[0]).to_list()) for user in range(100))
    for k, expected in ((10, 7), (1, 7), (250, 7 + low)):
        assert ra.exposure(model, k=k).facts["ties"] == {"users": expected, "of": 400}
    assert ra.accuracy(model, test, k=10).facts["ties"] == {"users": 7, "of": 400}


def test_lists_do_not_depend_on_other_items_of_the_catalogue() -> None:
    """The same ratings in a larger catalogue, whose further items score lower: positions move, lists stay."""
    small = log_of_popular_items(users=50)
    frame = small.frame().with_columns(pl.col("item").cast(pl.String))
    small = Interactions.from_frame(frame, time="time", scale=(1, 5))
    large = Interactions.from_frame(frame, time="time", scale=(1, 5), items=[f"0{item}" for item in range(500)])
    known = pl.Series(large.item_ids.is_in(small.item_ids.to_list())).to_numpy()
    lists = []
    for data, level in ((small, np.ones(small.n_items)), (large, known.astype(float))):
        model = from_factors(np.ones((50, 1)), level[:, None], data, predicts_ratings=False)
        lists.append(ra.recommend(model, n=7).select("user", "item", "rank"))
    assert lists[0].equals(lists[1])


def list_after(model: ra.models.FactorVectors, user: int, scores: np.ndarray, free: np.ndarray, n: int) -> list[int]:
    """The first n of the free items, by score and then by key."""
    ties = model.data.tie_keys(np.array([user]))
    found = top_items(scores[None], free[None], n, ties)[0]
    return [item for item in found.tolist() if item >= 0]


def test_the_least_effort_is_that_of_lists_with_ties(twins: ra.models.FactorVectors) -> None:
    """Every choice of stars for the next two items, and the lists that follow from it."""
    data, stars, n = twins.data, np.arange(1.0, 6.0), 3
    actions = NextK(2, ratings=Stars(1, 5))
    names = ["u000", "u007"]
    found = ra.recourse(twins, actions=actions, goal=AmongFirst(n), users=names, items=None, refits=0).pairs
    users = data.users_at(names)
    items, decided_by_key = actions.items(twins, users, 0), 0
    now = actions.unchanged(twins, users, items)
    for row, user in enumerate(users.tolist()):
        response = twins.respond(user, user, items[row])
        free = ~data.seen(np.array([user]))[0]
        free[items[row]] = False
        least = np.full(data.n_items, np.inf)
        for ratings in product([now[row, 0], *stars], [now[row, 1], *stars]):
            changes = int((np.abs(np.array(ratings) - now[row]) > 1e-9).sum())
            chosen = list_after(twins, user, response.scores(np.array(ratings)), free, n)
            least[chosen] = np.minimum(least[chosen], changes)
        for pair in found.filter(user=names[row]).iter_rows(named=True):
            item = int(data.items_at([pair["item"]])[0])
            assert (np.inf if pair["value"] is None else pair["value"]) == least[item]
            twin = (item + 40) % 80
            decided_by_key += free[item] and free[twin] and least[item] < least[twin] and item > twin
    assert decided_by_key > 0


def test_roll_outs_follow_lists_with_ties(twins: ra.models.FactorVectors) -> None:
    """What can be on top after the ratings of the next two top items: every choice of stars, list by list."""
    data, stars = twins.data, Stars(1, 5)
    names = ["u000", "u007", "u011"]
    asked = ra.reachability(twins, actions=Future(2, ratings=stars), policy=Top1(), users=names)
    later = 0
    for name in names:
        user = int(data.users_at([name])[0])
        tops = set()
        for ratings in product(stars.values, repeat=2):
            free, items = ~data.seen(np.array([user]))[0], list[int]()
            scores = twins.scores(np.array([user]))[0]
            for step in range(2):
                items += list_after(twins, user, scores, free, 1)
                free[items] = False
                response = twins.respond_in_turn(user, np.array(items))
                scores = response.scores(np.array(ratings[: step + 1]))
            tops |= set(list_after(twins, user, scores, free, 1))
        reached = asked.pairs.filter(pl.col("user") == name, pl.col("value") == 1.0)["item"]
        assert set(data.items_at(reached.to_list()).tolist()) == tops
        later += sum(top >= 40 for top in tops)
    assert later > 0


def test_a_black_box_breaks_ties_as_a_model_does(twins: ra.models.FactorVectors) -> None:
    data = twins.data
    equal = from_factors(np.ones((301, 1)), np.ones((80, 1)), data, predicts_ratings=False)
    asked = ra.models.from_system(data, scores=lambda history: np.ones(80))
    users = ["u003", "u004", "nobody"]
    lists = [ra.recommend(model, n=5, users=users).select("user", "item", "rank") for model in (equal, asked)]
    assert lists[0].equals(lists[1])
