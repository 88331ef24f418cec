"""Lists that a system has shown, in the place of a model."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import recaudit as ra
from recaudit.audits.audit import Subject
from recaudit.audits.recipe import Max, Own, Probability, Value
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.engines import Threads
from recaudit.errors import DataError, InputError, NotSupportedError
from recaudit.interventions import NextK
from recaudit.models import ALS, ShownLists, TopPop, from_lists
from recaudit.models.base import NO_LIST
from recaudit.models.given.lists import Lists
from recaudit.policies import Softmax
from recaudit.registry import AUDITS

SHOWN = pl.DataFrame(
    [("ada", "d", 1), ("ada", "a", 2), ("bob", "c", 1), ("eve", "b", 1)], schema=["user", "item", "rank"], orient="row"
)
"""What ada, who has seen a, bob, and eve, whom the log does not know, were shown; cem was shown nothing."""


@pytest.fixture
def later(tiny: Interactions) -> Interactions:
    """ada and bob went on to d, cem to a."""
    whole = tiny
    for user, item in zip(*PAIRS, strict=True):
        whole = whole.with_ratings(int(tiny.users_at([user])[0]), tiny.items_at([item]), np.array([5.0]))
    before = set(zip(tiny.users.tolist(), tiny.items.tolist(), strict=True))
    return whole.subset(np.array([pair not in before for pair in zip(whole.users, whole.items, strict=True)]))


PAIRS = ("ada", "bob", "cem"), ("d", "d", "a")


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    return ALS(factors=3, iterations=3).fit(split.train)


@pytest.fixture(scope="module")
def lists(model: Any) -> ShownLists:
    return from_lists(ra.recommend(model, n=10), model.data)


class TestTheModel:
    def test_lists_are_as_they_were_shown(self, tiny: Interactions) -> None:
        model = from_lists(SHOWN, tiny)
        assert isinstance(model, ShownLists)
        assert model.own_lists(np.array([1, 0, 2])).tolist() == [[2, -1], [3, 0], [NO_LIST, NO_LIST]]
        assert ra.recommend(model).to_dicts() == [
            {"user": "ada", "item": "d", "rank": 1, "score": None},
            {"user": "ada", "item": "a", "rank": 2, "score": None},
            {"user": "bob", "item": "c", "rank": 1, "score": None},
        ]
        assert ra.recommend(model, n=1, users=["ada"])["item"].to_list() == ["d"]
        assert repr(model) == "ShownLists(4 places in the lists of 3 users)"

    def test_models_that_rank_by_scores_have_none(self, tiny: Interactions) -> None:
        assert TopPop().fit(tiny).own_lists(np.array([0])) is None

    @pytest.mark.parametrize("kind", ["pandas", "pyarrow", "lazy", "csv", "parquet"])
    def test_any_frame_or_file(self, tiny: Interactions, kind: str, tmp_path: Path) -> None:
        SHOWN.write_csv(tmp_path / "lists.csv")
        SHOWN.write_parquet(tmp_path / "lists.parquet")
        if kind == "pandas":
            pytest.importorskip("pandas")
        given: dict[str, Any] = {"pandas": SHOWN.to_pandas, "pyarrow": SHOWN.to_arrow, "lazy": SHOWN.lazy}
        lists = given[kind]() if kind in given else tmp_path / f"lists.{kind}"
        everyone = np.arange(3)
        assert (from_lists(lists, tiny).own_lists(everyone) == from_lists(SHOWN, tiny).own_lists(everyone)).all()

    def test_columns_may_have_other_names_and_scores_may_decide(self, tiny: Interactions) -> None:
        frame = SHOWN.select(who="user", what="item", s=-pl.col("rank"))
        model = from_lists(frame, tiny, user="who", item="what", score="s")
        assert model.own_lists(np.array([0])).tolist() == [[3, 0]]

    def test_unknown_items_are_an_error_or_leave_their_place_empty(self, tiny: Interactions) -> None:
        rows = [("ada", "x", 1), ("ada", "d", 2), ("bob", "y", 1)]
        frame = pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row")
        with pytest.raises(DataError, match=r"'x'.*unknown = 'ignore'"):
            from_lists(frame, tiny)
        model = from_lists(frame, tiny, unknown="ignore")
        assert model.own_lists(np.arange(3)).tolist() == [[-1, 3], [-1, -1], [NO_LIST, NO_LIST]]
        told = {"users": 2, "without": 1, "shorter": 2, "seen": 0, "left_out": 2, "unknown_users": 0}
        assert ra.exposure(model, k=2).settings["lists"] == told

    def test_it_survives_pickling(self, tiny: Interactions) -> None:
        model = pickle.loads(pickle.dumps(from_lists(SHOWN, tiny)))
        assert model.own_lists(np.array([0])).tolist() == [[3, 0]]

    def test_there_are_no_scores_and_no_other_order(self, tiny: Interactions) -> None:
        model = from_lists(SHOWN, tiny)
        with pytest.raises(NotSupportedError, match=r"have no scores\. Accuracy.*from_system"):
            model.scores(np.array([0]))
        with pytest.raises(NotSupportedError, match=r"taken as they are.*Softmax"):
            ra.recommend(model, policy=Softmax(beta=1.0))


class TestAccuracy:
    def test_who_has_no_list_is_excluded_and_a_short_list_stays_short(
        self, tiny: Interactions, later: Interactions
    ) -> None:
        found = ra.accuracy(from_lists(SHOWN, tiny), later, k=4, by=())
        assert dict(found.users.select("user", "recall").iter_rows()) == {"ada": 1, "bob": 0, "cem": None}
        rows = {row["metric"]: row for row in found.frame.iter_rows(named=True)}
        assert rows["recall"]["value"] == pytest.approx(1 / 2)
        assert rows["precision"]["value"] == pytest.approx(1 / 8)
        for metric in ("ndcg", "recall", "precision", "map", "mrr"):
            assert (rows[metric]["users"], rows[metric]["excluded"]) == (2, 1)
        assert rows["rmse"]["status"] == "not_applicable"
        told = {"users": 2, "without": 1, "shorter": 2, "seen": 1, "left_out": 0, "unknown_users": 1}
        assert found.settings["lists"] == told

    def test_groups_of_items_leave_them_out_too(self, tiny: Interactions, later: Interactions) -> None:
        found = ra.accuracy(from_lists(SHOWN, tiny), later, k=4, by=["popularity"])
        rows = found.by("popularity").filter(pl.col("metric") == "recall", pl.col("value").is_not_null())
        assert (rows["value"] * rows["users"]).sum() == pytest.approx(1)
        assert rows["users"].sum() == 2

    def test_a_list_of_unknown_items_finds_nothing(self, tiny: Interactions, later: Interactions) -> None:
        lists = pl.DataFrame({"user": ["bob"], "item": ["x"], "rank": [1]})
        found = ra.accuracy(from_lists(lists, tiny, unknown="ignore"), later, k=1, by=())
        assert dict(found.users.select("user", "recall").iter_rows()) == {"ada": None, "bob": 0, "cem": None}

    def test_a_frame_needs_the_log_that_the_system_knew(self, tiny: Interactions, later: Interactions) -> None:
        with pytest.raises(InputError, match=r"data: received None.*from_lists\(lists, data\)"):
            ra.accuracy(SHOWN, later)
        with pytest.raises(InputError, match="test"):
            ra.accuracy(SHOWN, None)
        settings: dict[str, Any] = {"k": 2, "by": ()}
        subject = Subject(lists=SHOWN, data=tiny, test=later)
        expected = ra.accuracy(from_lists(SHOWN, tiny), later, **settings)
        assert_frame_equal(ra.accuracy(subject, **settings).frame, expected.frame)


@pytest.mark.parametrize("audit", [ra.accuracy, ra.exposure, ra.calibration, ra.folding])
def test_what_is_neither_a_model_nor_lists_is_told(tiny: Interactions, audit: Any) -> None:
    for wrong in (object(), 3, None):
        with pytest.raises(InputError, match=r"model: received .* expected a FittedModel.* lists that were shown"):
            audit(wrong, tiny)


class TestTheSameAsTheModel:
    """The lists of a model, as a frame, have its numbers."""

    def test_accuracy(self, model: Any, lists: ShownLists, split: Split) -> None:
        own, given = (ra.accuracy(each, split.test) for each in (model, lists))
        ranked = pl.col("metric").is_in(["rmse", "mae"]).not_()
        assert_frame_equal(own.frame.filter(ranked), given.frame.filter(ranked))
        assert_frame_equal(own.groups.filter(ranked), given.groups.filter(ranked))
        assert given.difference(own, "ndcg")["value"].to_list() == [0]

    def test_exposure(self, model: Any, lists: ShownLists) -> None:
        own, given = (ra.exposure(each) for each in (model, lists))
        direct = ra.exposure(ra.recommend(model, n=10), model.data, engine=Threads(2))
        for name, table in own.tables.items():
            assert_frame_equal(table, given.tables[name])
            assert_frame_equal(table, direct.tables[name])

    def test_who_was_shown_nothing_has_no_part_in_exposure(self, model: Any) -> None:
        data = model.data
        half = data.user_ids[::2]
        shown = ra.recommend(model, n=10, users=half)
        found = ra.exposure(from_lists(shown, data), by=())
        coverage = found.frame.row(by_predicate=pl.col("metric") == "coverage", named=True)
        assert coverage["value"] == shown["item"].n_unique() / data.n_items
        assert (coverage["users"], coverage["excluded"]) == (len(half), data.n_users - len(half))
        assert found.users["novelty"].null_count() == data.n_users - len(half)

    def test_calibration(self, model: Any, lists: ShownLists) -> None:
        own, given = (ra.calibration(each, k=10) for each in (model, lists))
        for name, table in own.tables.items():
            assert_frame_equal(table, given.tables[name])

    def test_folding_of_what_is_shown(self, model: Any, lists: ShownLists) -> None:
        own, given = (ra.folding(each) for each in (model, lists))
        direct = ra.folding(ra.recommend(model, n=10), model.data)
        shown = pl.col("metric").is_in(["unrelated_share", "shown_relatedness"])
        assert_frame_equal(own.frame.filter(shown), given.frame.filter(shown))
        assert_frame_equal(given.frame, direct.frame)
        assert set(given.frame.filter(~shown)["status"]) == {"not_applicable"}

    def test_two_systems_are_compared_on_the_users_who_have_both(self, model: Any, split: Split) -> None:
        frame = ra.recommend(model, n=10)
        some = frame.filter(pl.col("user").is_in(split.train.user_ids[:40].implode()))
        one, other = (ra.accuracy(from_lists(each, split.train), split.test) for each in (some, frame))
        gain = one.difference(other, "ndcg")
        assert gain["value"].to_list() == [0]
        assert gain["users"].to_list() == one.frame.filter(metric="ndcg")["users"].to_list()


class TestWhatListsDoNotSay:
    @pytest.mark.parametrize("name", ["reachability", "instability", "agency", "fidelity", "composed"])
    def test_what_would_be_after_other_ratings(
        self, lists: ShownLists, split: Split, name: str, tmp_path: Path
    ) -> None:
        ra.recommend(lists).write_csv(tmp_path / "lists.csv")
        given = Lists(path=tmp_path / "lists.csv")
        audit = AUDITS[name](**{"composed": COMPOSED}.get(name, {}))
        subjects = [Subject(given.fit(split.train), given, split.train, split.test)]
        subjects += [Subject(lists)] if audit.needs == ("model",) else []
        for subject in subjects:
            with pytest.raises(NotSupportedError, match=r"after other ratings; ask the system itself.*from_system"):
                audit.run(subject)

    def test_another_order(self, lists: ShownLists, split: Split) -> None:
        with pytest.raises(NotSupportedError, match="taken as they are"):
            ra.reranking(lists, split.test, k=5)


COMPOSED = {"intervention": Own(NextK(3)), "outcome": Probability(), "functional": Value(), "over": Max()}


class TestSettings:
    def test_settings_tell_the_contents_and_no_folder(self, tmp_path: Path, tiny: Interactions) -> None:
        SHOWN.write_csv(tmp_path / "lists.csv")
        lists = Lists(path=tmp_path / "lists.csv")
        settings = lists.model_dump(mode="json")
        assert settings["path"] == "lists.csv"
        assert len(settings["sha256"]) == 64
        assert lists.fit(tiny).own_lists(np.array([0])).tolist() == [[3, 0]]

    def test_the_file_is_named_where_it_is_not_right(self, tmp_path: Path, tiny: Interactions) -> None:
        SHOWN.drop("rank").write_csv(tmp_path / "lists.csv")
        with pytest.raises(DataError, match=r"lists\.csv, lists.*'rank' or 'score'"):
            Lists(path=tmp_path / "lists.csv").fit(tiny)
