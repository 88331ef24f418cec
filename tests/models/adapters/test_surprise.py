from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.arrays import FloatArray, IntArray
from recaudit.data import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import HistoryEdits, NextK
from recaudit.models import AffineResponse, FittedModel, adapt
from recaudit.testing.models import EVERYBODY, ITEMS, USERS, some_ratings

surprise = pytest.importorskip("surprise", reason="needs scikit-surprise")

RATES = {"lr_bu": 0.03, "lr_bi": 0.01, "lr_pu": 0.05, "lr_qi": 0.02, "reg_bu": 0.1, "reg_pu": 0.3, "reg_qi": 0.2}
BY_ITEM = {"user_based": False, "name": "cosine"}


class Own(surprise.SVD):  # type: ignore[misc, name-defined]  # Surprise has no types
    """An algorithm of somebody's own."""

    def estimate(self, u: object, i: object) -> float:
        return float(2 * super().estimate(u, i))


ALGORITHMS: dict[str, Any] = {
    "SVD": lambda: surprise.SVD(n_factors=3, random_state=1, **RATES),
    "unbiased SVD": lambda: surprise.SVD(n_factors=3, biased=False, random_state=1, lr_all=0.05, init_mean=0.5),
    "SVDpp": lambda: surprise.SVDpp(n_factors=3, n_epochs=5, random_state=1, lr_yj=0.04, reg_yj=0.2, **RATES),
    "NMF": lambda: surprise.NMF(n_factors=3, n_epochs=5, random_state=1),
    "biased NMF": lambda: surprise.NMF(n_factors=3, n_epochs=5, biased=True, random_state=1),
    "BaselineOnly": lambda: surprise.BaselineOnly(verbose=False),
    "BaselineOnly by SGD": lambda: surprise.BaselineOnly({"method": "sgd", "reg": 0.1}, verbose=False),
    **{
        f"{name} by {side}": lambda name=name, by=by: getattr(surprise, name)(
            k=3, min_k=2, sim_options={"user_based": by, "name": "pearson"}, verbose=False
        )
        for name in ("KNNBasic", "KNNWithMeans", "KNNWithZScore", "KNNBaseline")
        for side, by in (("user", True), ("item", False))
    },
    "ties": lambda: surprise.KNNBasic(k=2, sim_options={"user_based": False, "min_support": 1}, verbose=False),
    "SlopeOne": surprise.SlopeOne,
    "CoClustering": lambda: surprise.CoClustering(random_state=1, n_epochs=3),
    "own": lambda: Own(n_factors=2, random_state=1),
}


def fitted(name: str, data: Interactions, seed: int = 5, text: bool = False) -> Any:
    """Trained on the rows in an order of its own."""
    rows = data.frame().sample(fraction=1.0, shuffle=True, seed=seed).select("user", "item", "rating").rows()
    raw = [(user, str(item) if text else item, rating, None) for user, item, rating in rows]
    trainset = surprise.Dataset(surprise.Reader(rating_scale=(1, 5))).construct_trainset(raw)
    return ALGORITHMS[name]().fit(trainset)


def own_scores(algorithm: Any, data: Interactions, users: IntArray = EVERYBODY) -> FloatArray:
    """What Surprise itself predicts."""
    ids = data.user_ids.gather(users)
    return np.array([[algorithm.predict(user, item, clip=False).est for item in data.item_ids] for user in ids])


@pytest.fixture(scope="module")
def thinned() -> Interactions:
    """Items 5 and 19 have no rating."""
    data = some_ratings(0)
    return data.subset(~np.isin(data.items, [5, ITEMS - 1]))


@pytest.mark.parametrize("name", ALGORITHMS)
class TestEveryAlgorithm:
    def test_scores_are_surprises_own(self, name: str, thinned: Interactions) -> None:
        algorithm = fitted(name, thinned)
        model = adapt(algorithm, thinned)
        np.testing.assert_allclose(model.scores(EVERYBODY), own_scores(algorithm, thinned), rtol=0, atol=1e-12)
        assert model.predicts_ratings
        assert np.array_equal(pickle.loads(pickle.dumps(model)).scores(EVERYBODY), model.scores(EVERYBODY))

    def test_users_whom_surprise_does_not_know(self, name: str) -> None:
        data = some_ratings(0)
        data = data.subset(~np.isin(data.users, [0, 11]))
        algorithm = fitted(name, data)
        expected = own_scores(algorithm, data)
        np.testing.assert_allclose(adapt(algorithm, data).scores(EVERYBODY), expected, rtol=0, atol=1e-12)

    def test_surprise_trains_the_same_model_again(self, name: str, thinned: Interactions) -> None:
        model = adapt(fitted(name, thinned), thinned)
        assert model.recommender is not None
        again = model.recommender.fit(thinned)
        np.testing.assert_allclose(again.scores(EVERYBODY), model.scores(EVERYBODY), rtol=0, atol=1e-12)

    def test_audits(self, name: str) -> None:
        data = some_ratings(0)
        model = adapt(fitted(name, data), data)
        assert len(ra.accuracy(model, some_ratings(1), k=3).frame)
        assert len(ra.exposure(model, k=3).frame)
        if model.response is None:
            with pytest.raises(NotSupportedError):
                ra.reachability(model, actions=NextK(2), users=2)
            return
        facts = ra.reachability(model, actions=NextK(2), users=2, refits=1).facts
        assert "Surprise" in facts["rule"]
        assert facts["fidelity"]["refit_difference"] == pytest.approx(0, abs=1e-12)
        if model.others_move == "rated items":
            assert len(ra.instability(model, viewers=3, editors=3, refits=0).frame)
        else:
            with pytest.raises(NotSupportedError):
                ra.instability(model, viewers=3, editors=3)


class NewRatings:
    """A trainset in which a user has rated more, of which a pass of training sees nothing but that."""

    def __init__(self, trainset: Any, user: int, ratings: dict[int, float]) -> None:
        self.n_users, self.n_items, self.global_mean = trainset.n_users, trainset.n_items, trainset.global_mean
        self.ur = dict(trainset.ur)
        self.ur[user] = list((dict(self.ur[user]) | ratings).items())
        self.knows_user, self.knows_item = trainset.knows_user, trainset.knows_item
        self.new = [(user, item, rating) for item, rating in ratings.items()]

    def all_ratings(self) -> list[tuple[int, int, float]]:
        return self.new


class Start(np.random.RandomState):
    """In place of a random start: vectors that were trained before."""

    vectors: list[FloatArray]

    def normal(self, *args: Any, **kwargs: Any) -> Any:
        return self.vectors.pop(0).copy()


class StartingNumpy:
    """numpy, whose first zeros are biases that were trained before."""

    def __init__(self, *biases: FloatArray) -> None:
        self.biases = list(biases)

    def zeros(self, *args: Any, **kwargs: Any) -> FloatArray:
        return self.biases.pop(0).copy() if self.biases else np.zeros(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def after(
    passes: int, algorithm: Any, user: int, ratings: dict[int, float], monkeypatch: pytest.MonkeyPatch, **rates: float
) -> Any:
    """The algorithm after epochs of Surprise's own `sgd` over new ratings, from where its training ended."""
    from surprise.prediction_algorithms import matrix_factorization

    made = copy.copy(algorithm)
    vars(made).update(rates, n_epochs=passes, random_state=Start())
    made.random_state.vectors = [getattr(algorithm, name) for name in ("pu", "qi", "yj") if hasattr(algorithm, name)]
    made.trainset = NewRatings(algorithm.trainset, user, ratings)
    with monkeypatch.context() as patch:
        patch.setattr(matrix_factorization, "np", StartingNumpy(algorithm.bu, algorithm.bi))
        made.sgd(made.trainset)
    return made


class TestGradientSteps:
    @pytest.mark.parametrize("passes", [1, 3])
    @pytest.mark.parametrize("name", ["SVD", "unbiased SVD", "SVDpp"])
    def test_own_ratings_move_the_scores_as_surprises_training(
        self, name: str, passes: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = some_ratings(0)
        algorithm = fitted(name, data)
        model = adapt(algorithm, data, passes=passes)
        # In a second pass the items would have moved: here they are held.
        held = {} if passes == 1 else {"lr_qi": 0.0, "lr_bi": 0.0}
        for user in (0, 4):
            seen = data.history(user)[0]
            items = np.array([*seen[[0, -1]], *np.setdiff1d(np.arange(ITEMS), seen)[:2]])  # two rated, two not
            given = np.array([1.0, 5.0, 4.0, 2.0])
            response = model.respond(user, user, items)
            inner = algorithm.trainset.to_inner_uid(data.user_ids[user])
            at = {algorithm.trainset.to_inner_iid(int(item)): rating for item, rating in zip(items, given, strict=True)}
            moved = after(passes, algorithm, inner, at, monkeypatch, **held)
            others = np.setdiff1d(np.arange(ITEMS), items)  # in the pass the rated items took a step of their own
            expected = [moved.estimate(inner, algorithm.trainset.to_inner_iid(int(item))) for item in others]
            np.testing.assert_allclose(response.scores(given)[others], expected, rtol=0, atol=1e-12)
            assert np.abs(expected - model.scores(np.array([user]))[0][others]).max() > 1e-3

    @pytest.mark.parametrize("name", ["SVD", "unbiased SVD"])
    @pytest.mark.parametrize("passes", [1, 3])
    def test_anothers_rating_moves_the_item_as_surprises_training(
        self, name: str, passes: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = some_ratings(0)
        algorithm = fitted(name, data)
        model = adapt(algorithm, data, passes=passes)
        held = {} if passes == 1 else {"lr_pu": 0.0, "lr_bu": 0.0}
        for viewer, editor, item in ((0, 1, 3), (4, 9, 0)):
            who = [algorithm.trainset.to_inner_uid(data.user_ids[user]) for user in (viewer, editor)]
            what = algorithm.trainset.to_inner_iid(item)
            moved = after(passes, algorithm, who[1], {what: 5.0}, monkeypatch, **held)
            scores = model.respond(viewer, editor, np.array([item])).scores(np.array([5.0]))
            expected = [moved.estimate(who[0], algorithm.trainset.to_inner_iid(each)) for each in range(ITEMS)]
            np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12)


def edited(algorithm: Any, user: Any, ratings: dict[Any, float]) -> Any:
    """The algorithm whose trainset has these ratings of a user, and which learned nothing from them."""
    made = copy.deepcopy(algorithm)
    inner = made.trainset.to_inner_uid(user)
    given = {made.trainset.to_inner_iid(item): rating for item, rating in ratings.items()}
    made.trainset.ur[inner] = list((dict(made.trainset.ur[inner]) | given).items())
    if hasattr(made, "yr"):
        made.yr = made.trainset.ur
    return made


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name.endswith("by item")] + ["ties"])
def test_neighbours_average_edited_ratings_as_surprise_does(name: str) -> None:
    data = some_ratings(0)
    algorithm = fitted(name, data)
    model = adapt(algorithm, data)
    for user in (0, 4, 9):
        seen = data.history(user)[0]
        items = np.array([*seen[[0, -1]], *np.setdiff1d(np.arange(ITEMS), seen)[:3]])
        given = np.array([1.0, 5.0, 4.0, 2.5, 1.0])
        response = model.respond(user, user, items)
        assert isinstance(response, AffineResponse)
        moved = edited(algorithm, data.user_ids[user], dict(zip(items.tolist(), given, strict=True)))
        expected = own_scores(moved, data, np.array([user]))[0]
        np.testing.assert_allclose(response.scores(given), expected, rtol=0, atol=1e-12)
        assert np.abs(expected - model.scores(np.array([user]))[0]).max() > 0.1


def test_a_bias_is_estimated_anew_as_surprise_does_it() -> None:
    data = some_ratings(0)
    algorithm = fitted("BaselineOnly", data)
    model, items, given = adapt(algorithm, data), np.array([0, 3, 7]), np.array([5.0, 5.0, 1.0])
    moved = edited(algorithm, "u4", dict(zip(items.tolist(), given, strict=True)))
    inner, trainset = moved.trainset.to_inner_uid("u4"), moved.trainset
    # Surprise's alternating least squares, of which the last half is a step of users: items are as they were.
    left = [rating - algorithm.trainset.global_mean - algorithm.bi[item] for item, rating in trainset.ur[inner]]
    moved.bu[inner] = sum(left) / (15 + len(left))
    user = data.users_at(["u4"])
    expected = own_scores(moved, data, user)[0]
    np.testing.assert_allclose(model.respond(int(user[0]), int(user[0]), items).scores(given), expected, atol=1e-12)
    seen, ratings = data.history(int(user[0]))
    as_before = model.respond(int(user[0]), int(user[0]), seen.astype(np.int64)).scores(ratings)
    np.testing.assert_allclose(as_before, model.scores(user)[0], atol=1e-12)


def test_ids_that_surprise_read_as_text() -> None:
    data = some_ratings(0)
    algorithm = fitted("SVD", data, text=True)
    model = adapt(algorithm, data)
    expected = [algorithm.predict("u7", str(item), clip=False).est for item in data.item_ids]
    np.testing.assert_allclose(model.scores(data.users_at(["u7"]))[0], expected, atol=1e-12)
    assert model.recommender is not None
    np.testing.assert_allclose(model.recommender.fit(data).scores(EVERYBODY), model.scores(EVERYBODY), atol=1e-12)


def test_a_refit_has_the_new_ratings_and_another_seed_another_start() -> None:
    data = some_ratings(0)
    model = adapt(fitted("SVD", data), data)
    assert model.recommender is not None
    more = data.with_ratings(0, np.array([0, 1, 2]), np.array([5.0, 5.0, 1.0]))
    trained = model.recommender.fit(more, 0)
    assert trained.data is more
    before, after = model.scores(np.array([0])), trained.scores(np.array([0]))
    assert 0.01 < np.abs(before - after).max() < 2
    other = model.recommender.fit(data, 1)
    assert not np.allclose(other.scores(EVERYBODY), model.scores(EVERYBODY), atol=1e-3)


def test_folding_and_fidelity() -> None:
    data = some_ratings(0)
    model = adapt(fitted("SVD", data), data)
    assert model.rule.startswith("one pass of Surprise's own training")
    assert len(ra.folding(model, k=3).frame)
    result = ra.fidelity(model, audit=ra.Reachability(actions=HistoryEdits(2), users=2), top=1)
    assert result.pairs["realised"].is_not_null().all()
    assert model.recommender is not None
    assert model.recommender.model_dump()["settings"]["n_factors"] == 3


def test_a_number_of_passes_stays_in_refits() -> None:
    data = some_ratings(0)
    model = adapt(fitted("SVD", data), data, passes=2)
    assert model.recommender is not None
    assert model.recommender.fit(data).rule == model.rule
    with pytest.raises(InputError, match="passes: received 0"):
        adapt(fitted("SVD", data), data, passes=0)


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (surprise.SVD(), some_ratings(0), "model: received a SVD that was not fitted"),
        (surprise.Reader(), some_ratings(0), "Surprise's algorithms"),
        (fitted("SVD", some_ratings(0)), some_ratings(1), "the log that the model was trained on"),
    ],
)
def test_refused(model: Any, data: Interactions, message: str) -> None:
    with pytest.raises(InputError, match=message):
        adapt(model, data)


def test_unbiased_vectors_have_no_fallback_for_both_sides() -> None:
    data = some_ratings(0)
    data = data.subset((data.users != 0) & (data.items != 5))
    with pytest.raises(InputError, match="users and items, both without a rating"):
        adapt(fitted("unbiased SVD", data), data)


def test_where_all_ratings_are_equal_scores_are_that_rating() -> None:
    data = some_ratings(0)
    equal = Interactions.from_frame(data.frame().with_columns(rating=3.0), scale=(1, 5), time="time")
    scores = adapt(fitted("KNNWithZScore by item", equal), equal).scores(EVERYBODY)
    np.testing.assert_allclose(scores, 3.0, atol=1e-12)


def test_the_same_pair_twice_is_not_the_log() -> None:
    data = some_ratings(0)
    rows = data.frame().select("user", "item", "rating")
    raw = [(*row, None) for row in pl.concat([rows, rows.head(1)]).rows()]
    trainset = surprise.Dataset(surprise.Reader(rating_scale=(1, 5))).construct_trainset(raw)
    with pytest.raises(InputError, match="each pair once"):
        adapt(surprise.SVD(n_factors=2, random_state=0).fit(trainset), data)


def test_a_model_is_a_fitted_model() -> None:
    data = some_ratings(0)
    model: FittedModel = adapt(fitted("KNNBasic by user", data), data)
    with pytest.raises(NotSupportedError, match="how similar other users are"):
        model.respond(0, 0, np.array([1]))
    assert model.scores(EVERYBODY).shape == (USERS, ITEMS)
