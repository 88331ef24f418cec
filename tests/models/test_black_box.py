from __future__ import annotations

import pickle
import time
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import recaudit as ra
from recaudit.data import Interactions
from recaudit.errors import BudgetSpentError, InputError, MachineError, NotSupportedError, SystemFailedError
from recaudit.interventions import AnyActions, Future, NextK, Past
from recaudit.models import ALS, OpaqueResponse
from recaudit.models.given.black_box import LOWEST_LOG, History, as_black_box, from_system, seeing_others
from recaudit.models.given.queries import ListSampling, Queries
from recaudit.policies import EpsilonGreedy, Softmax
from recaudit.testing.models import some_ratings


class Recorder:
    """A system that scores every item 1 and remembers what it was asked."""

    def __init__(self, items: int) -> None:
        self.items = items
        self.asked: list[History] = []

    def __call__(self, history: History) -> list[float]:
        self.asked.append(history)
        return [1.0] * self.items


class TestWhatIsAsked:
    def test_the_log_in_the_order_of_time(self, tiny: Interactions) -> None:
        system = Recorder(4)
        model = from_system(tiny, scores=system)
        assert model.scores(np.array([0])).tolist() == [[1, 1, 1, 1]]
        assert system.asked == [History("ada", "ada", ("a", "b", "c"), (5.0, 3.0, 1.0))]

    def test_a_rating_of_the_history_is_replaced_where_it_stands_and_a_new_one_added(self, tiny: Interactions) -> None:
        system = Recorder(4)
        response = from_system(tiny, scores=system).respond(0, 0, tiny.items_at(["d", "b"]))
        response.scores(np.array([2.0, 4.5]))
        assert system.asked == [History("ada", "ada", ("a", "b", "c", "d"), (5.0, 4.5, 1.0, 2.0))]

    def test_somebody_else_looks(self, tiny: Interactions) -> None:
        system = Recorder(4)
        model = seeing_others(from_system(tiny, scores=system))
        model.respond(2, 1, tiny.items_at(["a"])).scores(np.array([1.0]))
        assert system.asked == [History("bob", "cem", ("a", "b"), (1.0, 4.0))]

    def test_a_log_without_times(self) -> None:
        data = Interactions.from_frame(
            pl.DataFrame({"user": [1, 1], "item": [9, 4], "rating": [3.0, 5.0]}), scale=(1, 5)
        )
        system = Recorder(2)
        from_system(data, scores=system).scores(np.array([0]))
        assert system.asked == [History(1, 1, (4, 9), (5.0, 3.0))]

    def test_every_question_counts(self, tiny: Interactions) -> None:
        model = from_system(tiny, scores=Recorder(4))
        assert model.queries.asked == 0
        model.scores(np.array([0, 1]))
        response = model.respond(0, 0, np.array([1]))
        assert model.queries.asked == 2
        response.scores(np.array([2.0]))
        response.scores(np.array([2.0]))
        assert model.queries.asked == 4

    def test_nobody_is_asked_about_nobody(self, tiny: Interactions) -> None:
        assert from_system(tiny, scores=Recorder(4)).scores(np.empty(0, dtype=np.int64)).shape == (0, 4)


class TestProbabilities:
    def test_softmax_gives_them_back(self, tiny: Interactions) -> None:
        shares = [0.5, 0.0, 0.2, 0.3]
        model = from_system(tiny, probabilities=lambda _: shares)
        scores = model.scores(np.array([0]))
        assert np.isfinite(scores).all()
        back = np.exp(Softmax(beta=1).log_probabilities(scores, np.ones((1, 4), dtype=bool)))
        np.testing.assert_allclose(back[0], shares, atol=1e-15)
        assert model.gives_probabilities
        assert not model.predicts_ratings

    def test_scores_are_no_probabilities(self, tiny: Interactions) -> None:
        model = from_system(tiny, scores=Recorder(4), predicts_ratings=True)
        assert not model.gives_probabilities
        assert model.predicts_ratings


class TestLists:
    def test_how_often_an_item_is_first(self, tiny: Interactions) -> None:
        lists = iter([["a", "b"], ["a", "c"], ["d", "a"], ["b"]])
        model = from_system(tiny, lists=lambda _: next(lists), repeats=4)
        np.testing.assert_allclose(np.exp(model.scores(np.array([0])))[0], [0.5, 0.25, 0, 0.25], atol=1e-15)
        assert model.queries.asked == model.cost == 4

    def test_the_share_of_the_first_places(self, tiny: Interactions) -> None:
        lists = iter([["a", "b", "c"], ["c", "a"], [], ["a"]])
        model = from_system(tiny, lists=lambda _: next(lists), repeats=4, places=2)
        np.testing.assert_allclose(np.exp(model.scores(np.array([0])))[0], [3 / 8, 1 / 8, 1 / 8, 0], atol=1e-15)

    def test_what_a_share_is_not_below(self) -> None:
        # All of n lists: the true share p has p^n = 2.5% at the bound. None of them: nothing is known.
        assert ListSampling(50, 1).at_least(1.0) == pytest.approx(0.025 ** (1 / 50))
        assert ListSampling(50, 4).at_least(0.25) == pytest.approx(0.025 ** (1 / 50) / 4)
        assert ListSampling(50, 1).at_least(0.0) == 0
        bound = ListSampling(40, 1).at_least(0.3)
        assert stats.binom.sf(11, 40, bound) == pytest.approx(0.025)


class TestListsAsTheyAre:
    """Lists are audited as the system gives them: one query a user, in its order."""

    @staticmethod
    def rows(data: Interactions, lists: dict[str, list[str]], n: int = 10) -> dict[str, list[str]]:
        model = from_system(data, lists=lambda history: lists[str(history.user)])
        found = ra.recommend(model, n=n)
        assert model.queries.asked == data.n_users
        assert found["score"].null_count() == len(found)
        return {user: found.filter(pl.col("user") == user).sort("rank")["item"].to_list() for user in lists}

    @pytest.fixture
    def data(self) -> Interactions:
        """Three users, of whom ada has seen a; thirty items."""
        ids = [f"i{n:02}" for n in range(30)]
        frame = pl.DataFrame(
            {"user": ["ada", "bob", *["cem"] * 30], "item": ["i00", "i01", *ids], "rating": [3.0] * 32}
        )
        return Interactions.from_frame(frame, scale=(1, 5))

    def test_the_order_is_the_systems(self, data: Interactions) -> None:
        shown = ["i09", "i02", "i00", "i28", "i05", "i04"]
        rows = self.rows(data, {"ada": shown, "bob": shown[::-1], "cem": []}, n=4)
        assert rows == {"ada": ["i09", "i02", "i00", "i28"], "bob": ["i04", "i05", "i28", "i00"], "cem": []}

    def test_short_lists_stay_short_and_empty_ones_empty(self, data: Interactions) -> None:
        lists = {"ada": ["i07"], "bob": [], "cem": ["i03"]}
        assert self.rows(data, lists) == lists

    def test_accuracy_goes_by_them(self, data: Interactions) -> None:
        later = data.items == data.items_at(["i09"])[0]
        data, held_out = data.subset(~later), data.subset(later)  # which is cem's
        model = from_system(data, lists=lambda _: ["i28", "i09"])
        found = ra.accuracy(model, held_out, k=5)
        assert found["mrr"] == pytest.approx(1 / 2)
        assert found.settings["lists"] == {"users": 1, "without": 0, "shorter": 1, "seen": 1}  # cem has seen i28
        assert found.frame.filter(pl.col("metric") == "rmse")["status"].to_list() == ["not_applicable"]
        assert model.queries.asked == 1

    def test_an_empty_list_is_an_answer_that_finds_nothing(self, data: Interactions) -> None:
        model = from_system(data, lists=lambda _: [])
        found = ra.accuracy(model, data, k=5)
        assert found["recall"] == found["ndcg"] == 0
        assert found.frame.filter(metric="recall")["excluded"].to_list() == [0]
        assert ra.exposure(model, k=5)["coverage"] == 0

    def test_a_policy_has_nothing_to_choose_by(self, data: Interactions) -> None:
        model = from_system(data, lists=lambda _: ["i07"])
        with pytest.raises(NotSupportedError, match="lists, which are taken as they are"):
            ra.recommend(model, policy=EpsilonGreedy())

    def test_what_has_no_probability_is_not_recommended(self, data: Interactions) -> None:
        shares = np.zeros(30)
        shares[[12, 4]] = 0.3, 0.7
        model = from_system(data, probabilities=lambda _: shares)
        assert ra.recommend(model, users=["ada"])["item"].to_list() == ["i04", "i12"]
        assert NextK(3).items(model, np.array([0]), 0).tolist() == [[4, 12, -1]]


class TestWhetherItRepeatsItself:
    """Where nobody says so, a system of lists is asked the same question twice, once."""

    def test_one_list_of_a_system_that_does_is_an_answer(self, tiny: Interactions) -> None:
        model = from_system(tiny, lists=lambda _: ["c", "a"])
        assert model.scores(np.array([0])).tolist() == [[-2, -5, -1, -5]]
        assert model.queries.asked == 3
        model.scores(np.array([1, 2]))
        assert model.queries.asked == 5
        assert model.gives_ranks
        assert not model.gives_probabilities
        assert model.may_show(model.scores(np.array([0]))).tolist() == [[True, False, True, False]]
        assert NextK(3).items(model, np.array([1]), 0).tolist() == [[2, -1, -1]]  # bob has seen a
        assert ra.recommend(model, n=3, users=["bob"])["item"].to_list() == ["c", "a"]

    def test_twenty_lists_of_a_system_that_does_not_are(self, tiny: Interactions) -> None:
        turns = iter(range(100))
        model = from_system(tiny, lists=lambda _: ["c", "a"] if next(turns) % 4 else ["a"])
        np.testing.assert_allclose(np.exp(model.scores(np.array([0])))[0], [0.25, 0, 0.75, 0], atol=1e-15)
        assert model.queries.asked == 2 + 20
        assert model.gives_probabilities
        assert not model.gives_ranks

    def test_nobody_is_asked_where_it_was_said(self, tiny: Interactions) -> None:
        model = from_system(tiny, lists=lambda _: ["b"], repeats=1)
        assert model.gives_ranks
        assert from_system(tiny, lists=lambda _: ["b"], repeats=2).gives_probabilities
        assert model.queries.asked == 0

    def test_it_travels_with_the_model(self, tiny: Interactions) -> None:
        model = from_system(tiny, lists=always_b)
        assert model.gives_ranks
        copy = pickle.loads(pickle.dumps(model))
        assert copy.gives_ranks
        assert copy.queries.asked == model.queries.asked == 2

    def test_a_user_for_whom_it_fails_is_not_asked_about(self, tiny: Interactions) -> None:
        model = from_system(tiny, lists=lambda history: ["b" if history.user == "bob" else "nothing"], retries=0)
        assert model.gives_ranks
        assert model.queries.asked == 3

    def test_lists_of_a_random_system_are_taken_as_they_come(self, tiny: Interactions) -> None:
        lists = iter([["a"], ["b"], ["c"]])
        model = from_system(tiny, lists=lambda _: next(lists))
        assert ra.recommend(model)["item"].to_list() == ["a", "b", "c"]


def always_b(_: History) -> list[str]:
    return ["b"]


class TestFailing:
    def test_pauses_double(self, tiny: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
        pauses: list[float] = []
        monkeypatch.setattr(time, "sleep", pauses.append)
        answers: list[Exception | list[float]] = [ConnectionError("503"), TimeoutError("slow"), [1.0], [1.0] * 4]

        def system(_: History) -> list[float]:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        model = from_system(tiny, scores=system, retries=3, pause=0.5)
        assert model.scores(np.array([0])).tolist() == [[1, 1, 1, 1]]
        assert pauses == [0.5, 1.0, 2.0]
        assert model.queries.asked == 4

    def test_no_try_beyond_the_limit(self, tiny: Interactions) -> None:
        def broken(_: History) -> list[float]:
            raise ConnectionError("503")

        model = from_system(tiny, scores=broken).counting(Queries(2))
        with pytest.raises(BudgetSpentError, match=r"2 of 2.*failed 2 times in a row.*503"):
            model.scores(np.array([0]))
        assert model.queries.asked == 2

    def test_bad_settings(self, tiny: Interactions) -> None:
        for wrong in ({"retries": -1}, {"pause": -0.1}, {"pause": np.inf}):
            with pytest.raises(InputError, match="retries, pause"):
                from_system(tiny, scores=Recorder(4), **wrong)


class TestBadSystems:
    @pytest.mark.parametrize(
        ("system", "message"),
        [
            ({"scores": lambda _: [1.0, 2.0]}, r"scores\(history\) gave back.* shape \(2,\).* \(4,\)"),
            ({"scores": lambda _: [1.0, 2.0, np.nan, 0.0]}, r"scores\(history\).*NaN or infinite, the first at \[2\]"),
            ({"scores": lambda _: {"a": 1}}, r"scores\(history\).*{\'a\': 1}.*numbers of shape \(4,\)"),
            ({"scores": lambda _: ["high", "low", "low", "low"]}, r"scores\(history\).*high.*numbers of shape \(4,\)"),
            ({"probabilities": lambda _: [0.5, 0.6, 0.0, 0.0]}, r"probabilities\(history\).*sum to 1.1.*scores="),
            ({"probabilities": lambda _: [0.5, -0.1, 0.0, 0.0]}, r"probabilities\(history\).*from -0.1"),
            ({"lists": lambda _: ["a", "z"]}, r"lists\(history\).*'z'.*ids of data.item_ids"),
            ({"lists": lambda _: ["a", "a"]}, r"lists\(history\).*same item twice"),
            ({"lists": lambda _: None}, r"lists\(history\).*None"),
        ],
    )
    def test_what_it_gave_back_is_named(self, tiny: Interactions, system: dict[str, Any], message: str) -> None:
        with pytest.raises(SystemFailedError, match=message):
            from_system(tiny, **system).scores(np.array([0]))

    def test_its_own_errors_are_not_hidden(self, tiny: Interactions) -> None:
        def broken(_: History) -> list[object]:
            raise TypeError("no connection")

        with pytest.raises(SystemFailedError, match=r"3 times.*'ada': TypeError: no connection") as error:
            from_system(tiny, lists=broken).scores(np.array([0]))
        assert isinstance(error.value.__cause__, TypeError)

    def test_one_way_of_asking(self, tiny: Interactions) -> None:
        with pytest.raises(InputError, match="none of them"):
            from_system(tiny)
        with pytest.raises(InputError, match="scores and lists"):
            from_system(tiny, scores=Recorder(4), lists=lambda _: [])
        with pytest.raises(InputError, match="repeats"):
            from_system(tiny, lists=lambda _: [], repeats=0)
        with pytest.raises(InputError, match="predicts_ratings"):
            from_system(tiny, probabilities=Recorder(4), predicts_ratings=True)


class TestHidden:
    @pytest.mark.parametrize(("viewer", "editor"), [(4, 4), (4, 9)])
    def test_the_same_numbers_from_outside(self, viewer: int, editor: int) -> None:
        model = ALS(factors=3, iterations=3).fit(some_ratings(0))
        hidden = as_black_box(model)
        items, ratings = np.array([19, 0, 6]), np.array([1.0, 5.0, 2.5])
        response = hidden.respond(viewer, editor, items)
        assert isinstance(response, OpaqueResponse)
        assert np.array_equal(response.scores(ratings), model.respond(viewer, editor, items).scores(ratings))
        users = np.array([3, 0, 3])
        np.testing.assert_allclose(hidden.scores(users), model.scores(users), rtol=1e-12)
        assert hidden.queries.asked == 4
        assert hidden.predicts_ratings == model.predicts_ratings

    def test_it_survives_pickling(self) -> None:
        hidden = as_black_box(ALS(factors=3, iterations=3).fit(some_ratings(0)))
        hidden.scores(np.array([1, 2]))
        copy = pickle.loads(pickle.dumps(hidden))
        assert np.array_equal(copy.scores(np.array([1])), hidden.scores(np.array([1])))
        assert copy.queries.asked == 3

    def test_a_model_that_can_only_be_asked_is_no_better_known(self) -> None:
        hidden = as_black_box(ALS(factors=3, iterations=3).fit(some_ratings(0)))
        assert hidden.system.repeats_itself
        assert not as_black_box(hidden).system.repeats_itself

    def test_items_that_cannot_be_are_refused(self) -> None:
        hidden = as_black_box(ALS(factors=3, iterations=3).fit(some_ratings(0)))
        with pytest.raises(InputError, match="items"):
            hidden.respond(0, 0, np.array([2, 2]))


def test_a_system_may_leave_out_items(tiny: Interactions) -> None:
    later = tiny.with_ratings(1, np.array([2, 3]), np.array([4.0, 5.0]))
    held_out = later.subset((later.users == 1) & (later.items >= 2))
    system = from_system(tiny, scores=lambda history: [3.0, 2.0, 3.0, 2 * LOWEST_LOG], predicts_ratings=True)
    model = replace(system, leaves_out=True)
    assert ra.recommend(model, users=["bob"])["item"].to_list() == ["c"]
    found = ra.accuracy(model, held_out)
    assert found.frame.filter(metric="rmse")["value"][0] == pytest.approx(1.0)
    assert found.settings["not_predicted"] == 1


def test_a_system_sees_the_history_of_the_target_user_only(tiny: Interactions) -> None:
    queries: list[History] = []

    def scores(history: History) -> list[float]:
        queries.append(history)
        return [float(item in history.items) for item in tiny.item_ids]

    model = from_system(tiny, scores=scores)
    response = model.respond(0, 1, np.array([2]))
    assert np.array_equal(response.scores(np.array([5.0])), model.scores(np.array([0]))[0])
    assert {(history.user, history.viewer) for history in queries} == {(tiny.user_ids[0], tiny.user_ids[0])}
    assert {history.items for history in queries} == {tuple(tiny.item_ids.gather(tiny.history(0)[0]).to_list())}


@pytest.mark.parametrize("edits", [NextK(1), Past(1), Future(1)])
def test_instability_of_a_system_that_sees_one_history_is_0(tiny: Interactions, edits: AnyActions) -> None:
    rows = tiny.frame().select("user", "item", "rating").with_columns(time=pl.int_range(pl.len()))
    times = Interactions.from_frame(rows, scale=tiny.scale, time="time")
    model = from_system(times, scores=lambda history: [float(item in history.items) for item in times.item_ids])
    found = ra.instability(model, edits=edits, policy=Softmax(beta=2.0))
    known = found.pairs.drop_nulls("value")
    assert set(known["value"]) == set(known["upper"]) == {0.0}
    assert set(known["status"].cast(pl.String)) == {"solved"}
    assert "no effect" in found.facts["rule"]
    assert model.queries.asked == 0


@pytest.mark.parametrize("error", [MemoryError(), MachineError("the disk is full"), OSError(28, "No space left")])
def test_errors_of_the_machine_are_not_failures_of_the_system(tiny: Interactions, error: Exception) -> None:
    calls = []

    def scores(_: History) -> list[float]:
        calls.append(1)
        raise error

    model = from_system(tiny, scores=scores, retries=2)
    with pytest.raises(type(error)):
        ra.exposure(model)
    assert len(calls) == 1
