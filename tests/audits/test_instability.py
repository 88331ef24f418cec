from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, final, get_args

import numpy as np
import polars as pl
import pytest
from scipy.special import log_softmax

from contracts.alike import assert_alike
from recaudit.arrays import BoolArray, FloatArray
from recaudit.audits.audit import Subject
from recaudit.audits.instability.audit import Instability, instability
from recaudit.audits.reachability import search
from recaudit.data import Interactions
from recaudit.data.synthetic import World
from recaudit.engines import Processes, Threads
from recaudit.errors import DataError, InputError, NotSupportedError
from recaudit.interventions import Future, FutureEdits, GivenItems, HistoryEdits, Interval, NextK, Past, Stars
from recaudit.models import (
    ALS,
    AlsSolve,
    DifferentiableResponse,
    FactorVectors,
    FittedModel,
    ItemKNN,
    SgdStep,
    TopPop,
    from_factors,
)
from recaudit.models.response import EditedItems
from recaudit.policies import Softmax, Top1
from recaudit.solvers.distance.distances import Distance, distance_between

DISTANCES: list[Distance] = list(get_args(Distance))
VIEWERS = ["user-003", "user-050", "user-117"]
EDITORS = ["user-001", "user-050", "user-080", "user-090"]


@pytest.fixture(scope="module")
def model(world: World) -> FactorVectors:
    return ALS(factors=4, iterations=4, regularization=0.05).fit(Past(3).before(world.data))


def log_probabilities(scores: FloatArray, seen: BoolArray, beta: float) -> FloatArray:
    logs: FloatArray = log_softmax(np.where(seen, -np.inf, beta * scores), axis=-1)
    return logs


def twin(
    model: Any,
    log: Interactions,
    viewer: str,
    editor: str,
    items: np.ndarray,
    before: np.ndarray | None,
    options: list[float],
    beta: float,
    distance: Distance = "hellinger",
) -> float:
    """The slow readable twin: the response's whole softmax at every combination of ratings.

    `before` (actions,) are the ratings of the baseline; None for the model's own scores.
    """
    v, e = (int(x) for x in log.users_at([viewer, editor]))
    response = model.respond(v, e, items)
    seen = log.seen(np.array([v]))[0]
    start = model.scores(np.array([v]))[0] if before is None else response.scores(before)
    old = log_probabilities(start, seen, beta)
    found = [
        distance_between(distance, old, log_probabilities(response.scores(np.array(ratings)), seen, beta))
        for ratings in itertools.product(options, repeat=len(items))
    ]
    return float(np.max(found))


def wrong(value: str) -> Any:
    """A value that the types would not let through."""
    return value


def row(frame: pl.DataFrame, viewer: str, editor: str) -> dict[str, Any]:
    return frame.filter(pl.col("viewer") == viewer, pl.col("editor") == editor).row(0, named=True)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("update", [AlsSolve(regularization=0.3), SgdStep(step=0.5)], ids=["als", "sgd"])
def test_past_edits_agree_with_the_whole_softmax(
    model: FactorVectors, world: World, update: AlsSolve | SgdStep, distance: Distance
) -> None:
    data = world.data
    moved = model.with_update(update)
    beta = 3.0
    result = instability(
        moved, data, edits=Past(3), viewers=VIEWERS, editors=EDITORS, distance=distance, policy=Softmax(beta=beta)
    )
    assert len(result.pairs) == 3 * 4 - 1
    for viewer, editor in itertools.product(VIEWERS, EDITORS):
        if viewer == editor:
            continue
        position = data.users_at([editor])
        items = Past(3).items(moved, position, 0, data)
        factual = Past(3).unchanged(moved, position, items, data)[0]
        expected = twin(moved, data, viewer, editor, items[0], factual, [1.0, 3.0, 5.0], beta, distance)
        found = row(result.pairs, viewer, editor)
        assert found["value"] == pytest.approx(expected, abs=1e-9)
        assert (found["lower"], found["upper"], found["status"]) == (found["value"], found["value"], "solved")
        assert found["baseline"] == 0.0


@pytest.mark.parametrize(
    "edits", [NextK(2), HistoryEdits(2), FutureEdits(2), GivenItems(("film-001", "film-040")), Future(2)], ids=repr
)
def test_every_kind_of_edit_is_measured_from_the_models_scores(
    model: FactorVectors, edits: NextK | HistoryEdits | FutureEdits | GivenItems | Future
) -> None:
    data = model.data
    result = instability(model, edits=edits, viewers=VIEWERS[:1], editors=EDITORS[:2], policy=Softmax(beta=2), rng=3)
    actions = NextK(2) if isinstance(edits, Future) else edits
    for editor in EDITORS[:2]:
        items = actions.items(model, data.users_at([editor]), 3)[0]
        expected = twin(model, data, VIEWERS[0], editor, items, None, [1.0, 5.0], 2.0)
        assert row(result.pairs, VIEWERS[0], editor)["value"] == pytest.approx(expected, abs=1e-9)


def test_the_baseline_may_be_what_is_predicted(model: FactorVectors) -> None:
    data = model.data
    result = instability(
        model, edits=NextK(2), viewers=VIEWERS[:1], editors=EDITORS[:1], baseline="predicted", policy=Softmax(beta=1.0)
    )
    position = data.users_at(EDITORS[:1])
    items = NextK(2).items(model, position, 0)[0]
    predicted = model.predict(np.repeat(position, 2), items)
    expected = twin(model, data, VIEWERS[0], EDITORS[0], items, predicted, [1.0, 5.0], 1.0)
    assert result.pairs["value"][0] == pytest.approx(expected, abs=1e-9)


def two_users() -> tuple[FactorVectors, Interactions]:
    """Ada is the viewer, bob the editor; three items, of which bob has rated the first two."""
    frame = pl.DataFrame(
        {
            "user": ["ada", "bob", "bob", "bob"],
            "item": ["c", "a", "b", "c"],
            "rating": [3.0, 3.0, 2.0, 3.0],
            "time": [1, 3, 2, 1],
        }
    )
    data = Interactions.from_frame(frame, time="time", scale=(1, 5))
    model = from_factors(
        np.array([[1.0], [0.5]]), np.zeros((3, 1)), data, update=SgdStep(step=0.4), predicts_ratings=False
    )
    return model, data


def test_two_users_and_three_items_by_hand() -> None:
    # One factor, p_ada = 1, p_bob = 0.5, every item at q = 0. One step of 0.4 on bob's rating o of an item takes it to
    # q = 0.4 * 0.5 * (o - 0.5 * 0) = 0.2 o, which is ada's score of it. Ada has seen c: her candidates are a and b.
    # Bob's last rating is of a (3 stars). Factual: s_a = 0.6, s_b = 0, P(a) = e^0.6 / (e^0.6 + 1) = 0.6457.
    # At 1 star: s_a = 0.2, P(a) = 0.5498. At 5 stars: s_a = 1, P(a) = 0.7311. TV = |difference of P(a)|.
    model, data = two_users()
    p = {stars: 1 / (1 + np.exp(-0.2 * stars)) for stars in (1, 3, 5)}
    asked: dict[str, Any] = {"viewers": ["ada"], "editors": ["bob"], "distance": "tv", "policy": Softmax(beta=1.0)}
    past = instability(model, data, edits=Past(1), best_ratings=True, **asked)
    only = past.pairs.row(0, named=True)
    assert only["value"] == pytest.approx(max(p[5] - p[3], p[3] - p[1]))
    assert only["action_items"] == ["a"]
    assert only["action_ratings"] == [1.0]  # 0.0959 from 3 stars down to 1, 0.0854 up to 5
    # From the model's scores, where a and b are equally likely, 5 stars are farther: 0.7311 - 0.5.
    from_scores = instability(model, data, edits=Past(1), baseline="scores", **asked)
    assert from_scores.pairs["value"][0] == pytest.approx(p[5] - 0.5)
    # Past(2) frees b as well: a at 1 star, b at 5 is the farthest: P(a) = 1 / (1 + e^0.8) = 0.3100.
    # Before: s_a = 0.6, s_b = 0.4.
    both = instability(model, data, edits=Past(2), **asked)
    assert both.pairs["value"][0] == pytest.approx(1 / (1 + np.exp(-0.2)) - 1 / (1 + np.exp(0.8)))


def test_one_item_is_looked_at_as_shown_or_not(model: FactorVectors, world: World) -> None:
    data = world.data
    v, e = (int(x) for x in data.users_at([VIEWERS[0], EDITORS[0]]))
    items = Past(3).items(model, np.array([e]), 0, data)
    factual = Past(3).unchanged(model, np.array([e]), items, data)[0]
    response = model.respond(v, e, items[0])
    seen = data.seen(np.array([v]))[0]
    unseen = np.flatnonzero(~seen)
    edited = np.setdiff1d(items[0], np.flatnonzero(seen))
    assert len(edited), "the example should have an edited item among the viewer's candidates"
    for target in (unseen[0], unseen[-1], *edited):
        before, *after = (
            float(np.exp(log_probabilities(response.scores(np.array(ratings)), seen, 2.0)[target]))
            for ratings in (factual, *itertools.product([1.0, 3.0, 5.0], repeat=3))
        )
        result = instability(
            model,
            data,
            edits=Past(3),
            viewers=[VIEWERS[0]],
            editors=[EDITORS[0]],
            distance="tv",
            policy=Softmax(beta=2),
            item=data.item_ids[int(target)],
        )
        assert result.pairs["value"][0] == pytest.approx(max(abs(q - before) for q in after), abs=1e-9)


def test_an_item_that_the_viewer_has_seen_is_not_applicable(model: FactorVectors) -> None:
    seen = model.data.history(int(model.data.users_at(VIEWERS[:1])[0]))[0][0]
    result = instability(
        model, edits=NextK(2), viewers=VIEWERS[:1], editors=EDITORS[:2], item=model.data.item_ids[int(seen)]
    )
    assert result.pairs["status"].to_list() == ["not_applicable"] * 2
    assert result.pairs["value"].to_list() == [None, None]
    assert result.counts()["not_applicable"] == 2


def test_who_edits_only_what_viewers_have_seen_changes_nothing(model: FactorVectors) -> None:
    data = model.data
    counts = data.seen(data.users_at(VIEWERS)).all(axis=0)
    known_to_all = data.item_ids.gather(np.flatnonzero(counts)).to_list()
    assert known_to_all
    edits = GivenItems(tuple(known_to_all[:2]))
    for distance in DISTANCES:
        result = instability(model, edits=edits, viewers=VIEWERS, editors=EDITORS, distance=distance)
        assert result.pairs["value"].to_list() == [0.0] * 11
        assert set(result.pairs["status"]) == {"solved"}
    # Where seen items can be recommended again, they do.
    again = instability(model, edits=edits, viewers=VIEWERS, editors=EDITORS, candidates="all")
    assert (again.pairs["value"] > 0).all()


def test_stars_reach_what_the_interval_reaches(model: FactorVectors, world: World) -> None:
    frames = [
        instability(model, world.data, edits=Past(3, ratings=ratings), viewers=VIEWERS, editors=EDITORS).pairs
        for ratings in (Stars(1, 5), Stars(1, 5, 0.5), Interval(1, 5), None)
    ]
    for frame in frames[1:]:
        assert frame.equals(frames[0])


def test_an_editor_who_may_only_rate_as_before_changes_nothing() -> None:
    model, data = two_users()  # bob's last rating is 3
    settings: dict[str, Any] = {"viewers": ["ada"], "editors": ["bob"], "policy": Softmax(beta=2.0)}
    only = instability(model, data, edits=Past(1, ratings=Interval(3, 3)), **settings)
    assert only.pairs["value"].to_list() == [0.0]


def test_a_wider_choice_of_ratings_or_edits_never_moves_less(model: FactorVectors, world: World) -> None:
    def values(k: int, low: float, high: float, changes: int | None = None) -> np.ndarray:
        ratings = Stars(low, high)
        edits = Past(k, ratings=ratings, changes=changes)
        fitted = ALS(factors=4, iterations=2).fit(edits.before(world.data))
        return instability(fitted, world.data, edits=edits, viewers=VIEWERS, editors=EDITORS).pairs["value"].to_numpy()

    assert (values(3, 1, 5) >= values(3, 2, 4) - 1e-12).all()
    limited = [values(3, 1, 5, changes) for changes in (1, 2, 3)]
    assert (limited[0] <= limited[1] + 1e-12).all()
    assert (limited[1] <= limited[2] + 1e-12).all()
    assert (limited[0] < limited[2]).any()
    np.testing.assert_allclose(limited[2], values(3, 1, 5), atol=1e-12)


def test_the_best_ratings_reach_the_value(model: FactorVectors, world: World) -> None:
    data = world.data
    result = instability(
        model, data, edits=Past(3), viewers=VIEWERS, editors=EDITORS, policy=Softmax(beta=2), best_ratings=True
    )
    for found in result.pairs.iter_rows(named=True):
        v, e = (int(x) for x in data.users_at([found["viewer"], found["editor"]]))
        items = Past(3).items(model, np.array([e]), 0, data)
        ratings = Past(3).unchanged(model, np.array([e]), items, data)[0]
        chosen = data.items_at(found["action_items"])
        seen = data.seen(np.array([v]))[0]
        assert set(chosen) == set(items[0]) - set(np.flatnonzero(seen))
        response = model.respond(v, e, items[0])
        before = log_probabilities(response.scores(ratings.copy()), seen, 2.0)
        for item, rating in zip(chosen, found["action_ratings"], strict=True):
            ratings[items[0] == item] = rating
        after = log_probabilities(response.scores(ratings), seen, 2.0)
        assert float(distance_between("hellinger", before, after)) == pytest.approx(found["value"], abs=1e-9)


@final
@dataclass(frozen=True, eq=False)
class Bent(FittedModel):
    """Every edited item's score is 3 minus the squared distance of its rating from 3: no affine function of it."""

    data: Interactions
    response = DifferentiableResponse
    others_move = "rated items"

    def scores(self, users: np.ndarray) -> FloatArray:
        return np.zeros((len(users), self.data.n_items))

    def edited_items(self, editors: np.ndarray, items: np.ndarray, ratings: np.ndarray) -> EditedItems:
        vectors = (3 - (ratings - 3) ** 2)[..., None]
        everybody = np.ones((self.data.n_users, 1))
        return EditedItems(vectors, np.zeros(ratings.shape), everybody, np.zeros(self.data.n_users))


def test_scores_that_bend_are_looked_at_between_the_ends(tiny: Interactions) -> None:
    # Ada's only candidate besides nothing is d: take all items. One of four is edited, from 0 to 3 at best: 3 stars.
    def asked(ratings: Stars | Interval) -> dict[str, Any]:
        edits = GivenItems(("a",), ratings=ratings)
        kinds: dict[str, Any] = {
            "candidates": "all",
            "distance": "tv",
            "best_ratings": True,
            "policy": Softmax(beta=1.0),
        }
        return instability(Bent(tiny), edits=edits, viewers=["ada"], editors=["bob"], **kinds).pairs.row(0, named=True)

    expected = np.exp(3) / (np.exp(3) + 3) - 1 / 4
    stars = asked(Stars(1, 5))
    assert (stars["value"], stars["lower"], stars["upper"]) == pytest.approx((expected,) * 3)
    assert (stars["status"], stars["action_ratings"]) == ("solved", [3.0])
    # 33 ratings of an interval prove nothing about those between them.
    some = asked(Interval(1, 5))
    assert (some["value"], some["lower"], some["upper"]) == pytest.approx((expected, expected, 1.0))
    assert some["status"] == "bounded"


def test_an_editor_without_actions_is_not_applicable(tiny: Interactions) -> None:
    # cem has rated one item only, and the first rating is never free.
    model = ALS(factors=2, iterations=2).fit(Past(1).before(tiny))
    frame = instability(model, tiny, edits=Past(1), viewers=["ada"]).pairs
    status = dict(frame.select("editor", "status").iter_rows())
    assert status == {"bob": "solved", "cem": "not_applicable"}
    assert row(frame, "ada", "cem")["value"] is None


def test_with_a_recommender_the_past_is_asked_of_a_model_without_it(model: FactorVectors, world: World) -> None:
    recommender = ALS(factors=4, iterations=4, regularization=0.05)
    train = recommender.fit(Past(1).before(world.data))
    subject = Subject(model=train, recommender=recommender, data=world.data)
    asked: dict[str, Any] = {"viewers": VIEWERS, "editors": EDITORS, "policy": Softmax(beta=2.0)}
    assert_alike(
        Instability(edits=Past(3), **asked).run(subject).pairs,
        instability(model, world.data, edits=Past(3), **asked).pairs,
    )
    # What comes next is asked of the model at hand, which need not have seen all of the log.
    assert_alike(
        Instability(edits=NextK(2), **asked).run(subject).pairs, instability(train, edits=NextK(2), **asked).pairs
    )


@pytest.mark.parametrize("engine", [Threads(2), Processes(1)], ids=repr)
def test_no_engine_changes_a_number(model: FactorVectors, world: World, engine: Threads | Processes) -> None:
    editors = EDITORS[:2] if isinstance(engine, Processes) else None
    here = instability(model, world.data, edits=Past(3), editors=editors)
    there = instability(model, world.data, edits=Past(3), editors=editors, engine=engine)
    assert there.pairs.equals(here.pairs)
    assert there.users.equals(here.users)
    assert there.editors.equals(here.editors)


def test_a_viewers_values_do_not_depend_on_who_else_is_asked(model: FactorVectors, world: World) -> None:
    everybody = instability(model, world.data, edits=Past(3)).pairs
    alone = instability(model, world.data, edits=Past(3), viewers=["user-117"]).pairs
    assert_alike(alone, everybody.filter(pl.col("viewer") == "user-117"))


def test_what_cannot_be_answered_says_why(model: FactorVectors, world: World) -> None:
    data = world.data
    with pytest.raises(DataError, match="nobody"):
        instability(model, viewers=["nobody"])
    with pytest.raises(InputError, match="viewers: received no ids"):
        instability(model, viewers=[])
    with pytest.raises(InputError, match="distance: received 'helinger'; expected 'hellinger', 'tv', 'l2' or 'kl'"):
        instability(model, distance=wrong("helinger"))
    with pytest.raises(InputError, match="candidates"):
        instability(model, candidates=wrong("unrated"), viewers=VIEWERS)
    with pytest.raises(InputError, match="baseline"):
        instability(model, baseline=wrong("none"))
    with pytest.raises(InputError, match="threshold"):
        instability(model, threshold=-1)
    with pytest.raises(InputError, match=r"data: .*Past\(5\).before\(data\)"):
        instability(model, data)
    with pytest.raises(InputError, match=r"data: .*fitted to"):
        instability(model, data, edits=NextK(3))
    with pytest.raises(InputError, match="best_ratings"):
        instability(model, data, edits=Past(3), pairs=False, best_ratings=True)
    with pytest.raises(NotSupportedError, match="Softmax"):
        instability(model, policy=Top1())
    with pytest.raises(NotSupportedError, match="limit on changes"):
        instability(model, edits=NextK(2, ratings=Stars(1, 5), changes=1), item=data.item_ids[0])
    with pytest.raises(InputError, match="20 actions"):
        instability(model, edits=NextK(20), viewers=VIEWERS, editors=EDITORS)


@pytest.mark.parametrize("recommender", [ItemKNN(), TopPop()], ids=repr)
def test_models_that_do_not_know_say_so(
    world: World, recommender: ItemKNN | TopPop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = recommender.fit(world.data)
    monkeypatch.setattr(search, "MOST_PAIRS", 1)  # however many pairs there are
    with pytest.raises(NotSupportedError, match="from_factors"):
        instability(fitted, edits=NextK(2))
