"""Two runs side by side: known answers, and what cannot be compared."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from recaudit import compare, runs
from recaudit.data import Interactions, datasets, splits
from recaudit.data.synthetic import World
from recaudit.errors import DamagedError, InputError
from recaudit.metrics.inference import adjust_by_holm
from recaudit.metrics.terms import QUESTION
from recaudit.runs import Run, RunComparison
from recaudit.runs.gate.decision import check
from recaudit.runs.gate.rules import parse_gate
from report.crafted_runs import Model
from runs.crafted_pairs import measured, write_pair

SPLIT = '[split]\nkind = "leave-last"\nk = 3\n'
LISTS = """
[audits.accuracy]
k = 5
[audits.exposure]
k = 5
"""
DEEP = """
[audits.reachability]
users = 30
refits = 0
[audits.instability]
viewers = 20
editors = 10
refits = 0
[audits.folding]
[audits.calibration]
tested = 10
[audits.reranking]
tested = 10
"""


@pytest.fixture(autouse=True)
def _small(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load", lambda name, path=None: world.data)


def run(path: Path, models: str, audits: str = LISTS, *, seed: int = 0, split: str = SPLIT) -> Run:
    text = f'seed = {seed}\nfloors = false\n[data]\nname = "demo"\n{split}{models}{audits}'
    return runs.execute(runs.parse(text, source="run.toml", folder=path.parent), path)


def model(kind: str, label: str = "", **settings: Any) -> str:
    lines = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
    return f'[[model]]\nkind = "{kind}"\n' + (f'label = "{label}"\n' if label else "") + lines


def rows(found: RunComparison, **where: Any) -> pl.DataFrame:
    return found.frame.filter(**where)


class TestTheSameModelTwice:
    @pytest.fixture(scope="class")
    @classmethod
    def found(cls, tmp_path_factory: pytest.TempPathFactory, world: World) -> RunComparison:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(datasets, "load", lambda name, path=None: world.data)
            folder = tmp_path_factory.mktemp("same")
            one, other = (run(folder / name, model("als", factors=4), LISTS + DEEP) for name in "ab")
        return compare(one, other)

    def test_it_differs_nowhere(self, found: RunComparison) -> None:
        assert set(found.frame["verdict"]) == {"same"}
        assert found.frame["difference"].abs().max() == 0
        assert found.changes == ()
        assert found.left_out == ()

    def test_no_list_changed(self, found: RunComparison) -> None:
        assert len(found.lists) == 120
        assert found.lists["moved"].max() == found.lists["replaced"].max() == 0

    def test_groups_are_in_their_own_order(self, found: RunComparison) -> None:
        for audit in found.before.audits("ALS"):
            groups = found.before.result("ALS", audit).groups
            for (by, metric), own in rows(found, audit=audit).group_by("by", "metric"):
                named = groups.filter(by=by, metric=metric)["group"].to_list()
                assert own["group"].to_list() == [name for name in named if name in own["group"]] or not by

    def test_every_number_of_the_run_is_compared(self, found: RunComparison) -> None:
        audits = found.before.audits("ALS")
        assert audits == ("accuracy", "exposure", "reachability", "instability", "folding", "calibration", "reranking")
        for audit in audits:
            result = found.before.result("ALS", audit)
            overall = result.frame.with_columns(by=pl.lit(""), group=pl.lit(""))
            told = pl.concat([overall.select(result.groups.columns), result.groups]).drop_nulls("value")
            both = told.join(rows(found, audit=audit), on=QUESTION, how="left")
            np.testing.assert_allclose(both["before"], both["value"], rtol=1e-9, atol=1e-12)


class TestOneGroupAlone:
    """The lists of one group are replaced by what is most popular: it is caught for that group, and no other."""

    @pytest.fixture
    def found(self, tmp_path: Path, world: World) -> RunComparison:
        data = world.data
        _, test = splits.leave_last(data, k=3)  # what everybody goes on to choose, found by an oracle
        lists = test.frame().select("user", "item", rank=pl.int_range(pl.len()).over("user") + 1)
        hit = data.attributes["region"][0]
        ids = pl.DataFrame({"user": data.user_ids, "region": data.attributes["region"]})
        worse = lists.join(ids, on="user", maintain_order="left")
        drawn = data.item_ids.gather(np.argsort(-data.item_counts)[:3])
        places = pl.col("rank").replace_strict(dict(enumerate(drawn, start=1)), return_dtype=lists["item"].dtype)
        worse = worse.with_columns(item=pl.when(pl.col("region") == hit).then(places).otherwise("item"))
        lists.write_parquet(tmp_path / "before.parquet")
        worse.select(lists.columns).write_parquet(tmp_path / "after.parquet")
        audits = '[audits.accuracy]\nk = 5\nby = ["region"]\n[audits.exposure]\nk = 5\nby = ["region"]\n'
        before, after = (
            run(tmp_path / name, model("lists", "Shop", path=f"{name}.parquet"), audits) for name in ("before", "after")
        )
        self.hit = hit
        return compare(before, after)

    def test_it_is_caught_for_that_group_and_no_other(self, found: RunComparison) -> None:
        for metric in ("ndcg", "recall", "mrr"):
            verdicts = dict(rows(found, metric=metric, by="region").select("group", "verdict").iter_rows())
            assert verdicts.pop(self.hit) == "worse"
            assert verdicts
            assert set(verdicts.values()) == {"same"}
        novelty = dict(rows(found, metric="novelty", by="region").select("group", "verdict").iter_rows())
        assert novelty.pop(self.hit) == "changed"
        assert set(novelty.values()) == {"same"}

    def test_their_lists_are_those_that_changed(self, found: RunComparison, world: World) -> None:
        regions = dict(zip(world.data.user_ids, world.data.attributes["region"], strict=True))
        moved = found.lists.filter(pl.col("moved") > 0)
        assert {regions[user] for user in moved["user"]} == {self.hit}
        assert len(moved) == list(regions.values()).count(self.hit)

    def test_titles_are_told_before_and_after(self, found: RunComparison) -> None:
        most = found.lists.row(0, named=True)
        assert most["moved"] == found.lists["moved"].max()
        assert len(most["before"]) == len(most["after"]) == 3
        assert most["before"] != most["after"]


class TestDirection:
    def test_worse_is_what_the_metric_says(self, tmp_path: Path) -> None:
        good, bad = model("als", "A", factors=4), model("random", "A")
        found = compare(run(tmp_path / "a", good), run(tmp_path / "b", bad))
        verdicts = dict(found.overall.select("metric", "verdict").iter_rows())
        assert verdicts["rmse"] == "worse"  # it went up
        assert verdicts["coverage"] == "better"
        back = compare(found.after, found.before)
        assert dict(back.overall.select("metric", "verdict").iter_rows())["rmse"] == "better"

    def test_two_models_of_one_run(self, tmp_path: Path) -> None:
        both = run(tmp_path / "a", model("als", factors=4) + model("random"))
        found = compare(both, models=("ALS", "Random"))
        apart = compare(both, both.path, models=("ALS", "Random"))
        assert found.frame.equals(apart.frame)
        assert set(found.frame["model"]) == {"ALS \N{RIGHTWARDS ARROW} Random"}
        assert ("kind", "als", "random") in [(change.name, change.before, change.after) for change in found.changes]

    def test_the_only_models_are_compared_whatever_they_are_called(self, tmp_path: Path) -> None:
        found = compare(run(tmp_path / "a", model("als", "Old")), run(tmp_path / "b", model("als", "New")))
        assert list(found.models.values()) == [("Old", "New")]


class TestSmallGroups:
    @pytest.mark.parametrize("members", [2, 3, 9])
    def test_a_tiny_group_whose_members_change_alike_has_no_verdict(self, tmp_path: Path, members: int) -> None:
        draw = np.random.default_rng(members)
        ndcg = draw.uniform(0.2, 0.6, (2, 60))
        ndcg[1, :members] = ndcg[0, :members] + 0.25
        region = ["few"] * members + ["many"] * (60 - members)
        before, after = write_pair(tmp_path, *(measured({"ndcg": own}, {"region": region}) for own in ndcg))
        found = {row["group"]: row for row in compare(before, after).groups.iter_rows(named=True)}
        few = found["few"]
        assert few["difference"] == pytest.approx(0.25)
        assert (few["verdict"], few["reason"], few["users"]) == ("not known", "too_few_users", members)
        assert [few[name] for name in ("lower", "upper", "error", "p", "adjusted", "detectable")] == [None] * 6
        assert found["many"]["p"] is not None

    def test_the_verdicts_of_all_models_are_one_family(self, tmp_path: Path) -> None:
        draw = np.random.default_rng(3)
        sides = [
            [
                Model(label, [measured({"ndcg": draw.uniform(0, 1, 40), "mrr": draw.uniform(0, 1, 40)})])
                for label in "AB"
            ]
            for _ in range(2)
        ]
        found = compare(*write_pair(tmp_path, *sides)).frame
        assert found["adjusted"].to_list() == pytest.approx(adjust_by_holm(found["p"].to_numpy()).tolist())


class TestWhoIsCompared:
    def test_people_who_are_in_both(self, tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        before = run(tmp_path / "a", model("top-pop"))
        fewer = world.data.subset(world.data.users < 70)
        monkeypatch.setattr(datasets, "load", lambda name, path=None: fewer)
        after = run(tmp_path / "b", model("top-pop"))
        found = compare(before, after)
        assert not found.same_data
        assert "fingerprint" in [change.name for change in found.changes if change.what == "data"]
        ndcg = rows(found, metric="ndcg", by="").row(0, named=True)
        users = before.table("TopPop", "accuracy", "users")
        some = users.filter(pl.col("user").is_in(after.table("TopPop", "accuracy", "users")["user"].implode()))
        assert ndcg["users"] == len(some) == 70
        assert ndcg["before"] == pytest.approx(some["ndcg"].mean())

    def test_users_that_one_run_sampled_alone_are_counted_and_left_out(self, tmp_path: Path) -> None:
        asked = "[audits.reachability]\nusers = 40\nrefits = 0\n"
        before, after = (run(tmp_path / str(seed), model("ease"), asked, seed=seed) for seed in (0, 1))
        found = rows(compare(before, after), metric="lift", by="").row(0, named=True)
        users = [set(each.table("EASE", "reachability", "users")["user"]) for each in (before, after)]
        assert 0 < len(users[0] & users[1]) < 40
        assert found["users"] == len(users[0] & users[1])
        assert found["left_out"] == len(users[0] ^ users[1])

    def test_ids_that_were_read_as_numbers(self, tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        numbers = {user: place for place, user in enumerate(world.data.user_ids)}
        kinds: list[Any] = [pl.String, pl.Int64]
        sides = []
        for name, kind in zip("ab", kinds, strict=True):
            frame = world.data.frame().with_columns(pl.col("user").replace_strict(numbers).cast(kind))
            log = Interactions.from_frame(frame, time="time", scale=(1, 5))
            monkeypatch.setattr(datasets, "load", lambda name, path=None, log=log: log)
            sides.append(run(tmp_path / name, model("top-pop")))
        assert rows(compare(*sides), metric="ndcg", by="")["users"].to_list() == [120]

    def test_nobody_in_common(self, tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        before = run(tmp_path / "a", model("top-pop"))
        frame = world.data.frame().with_columns(user=pl.lit("x") + pl.col("user").cast(pl.String))
        other = Interactions.from_frame(frame, time="time")
        monkeypatch.setattr(datasets, "load", lambda name, path=None: other)
        found = compare(before, run(tmp_path / "b", model("top-pop")))
        assert found.is_refused
        assert found.lists.is_empty()
        assert found.cautions[0].code == "comparison.no-common-users"
        assert {left.code for left in found.left_out} == {"comparison.no-common-users"}


class TestWhatCannotBeCompared:
    def test_an_audit_that_was_asked_differently(self, tmp_path: Path) -> None:
        other = LISTS.replace("k = 5", "k = 6", 1)
        found = compare(run(tmp_path / "a", model("als")), run(tmp_path / "b", model("als"), other))
        (lack,) = found.left_out
        reason = "it was asked differently: k is 5 and 6; to compare it, run one of the two again with the other's k"
        assert (lack.audit, lack.reason) == ("accuracy", reason)
        assert set(lack.metrics) == {"ndcg", "recall", "precision", "map", "mrr"}
        assert set(rows(found, audit="accuracy")["metric"]) == {"rmse", "mae"}  # which no list has a part in
        assert set(found.frame["audit"]) == {"accuracy", "exposure"}

    def test_numbers_that_depend_on_another_policy_are_refused_and_the_others_compared(self, tmp_path: Path) -> None:
        asked = """
[audits.accuracy]
policy = {kind = "softmax", beta = BETA}
[audits.reachability]
users = 30
refits = 0
policy = {kind = "softmax", beta = BETA}
"""
        before, after = (
            run(tmp_path / beta, model("als", factors=4), asked.replace("BETA", beta)) for beta in ("1.0", "2.0")
        )
        found = compare(before, after)
        assert set(found.frame["metric"]) == {"rmse", "mae"}
        assert set(found.frame["verdict"]) == {"same"}
        policies = "policy is softmax(beta=1.0) and softmax(beta=2.0)"
        assert [lack.audit for lack in found.left_out if policies in lack.reason] == ["accuracy", "reachability"]
        gate = parse_gate(
            '[[rule]]\nmetric = "rmse"\nnot_worse_by = 0.1\n[[rule]]\nmetric = "lift"\nnot_worse_by = 0.1', source="g"
        )
        kept, open_ = check(after, gate, baseline=before).answers
        assert (kept.outcome, open_.outcome) == ("passed", "undecided")
        assert f"{policies}; to compare it, run one of the two again with the other's policy" in open_.reason

    def test_settings_that_one_model_does_not_have_and_the_other_leaves_unset_do_not_differ(
        self, tmp_path: Path
    ) -> None:
        found = compare(run(tmp_path / "a", model("als") + model("ease")), models=("ALS", "EASE"))
        names = [change.name for change in found.changes]
        assert "factors" in names
        assert "center" not in names  # "none" for EASE
        assert all(change.before != change.after for change in found.changes)

    def test_an_audit_that_one_run_lacks(self, tmp_path: Path) -> None:
        fewer = "[audits.exposure]\nk = 5\n"
        found = compare(run(tmp_path / "a", model("top-pop")), run(tmp_path / "b", model("top-pop"), fewer))
        (lack,) = found.left_out
        assert (lack.audit, lack.reason) == ("accuracy", "the second run has no such audit of this model")

    def test_lower_bounds_say_nothing_about_the_difference(self, tmp_path: Path) -> None:
        before, after = (run(tmp_path / kind, model(kind, "A")) for kind in ("als", "random"))
        table = "results/A/accuracy/summary.parquet"
        summary = pl.read_parquet(after.path / table)
        after.folder.put({table: summary.with_columns(status=pl.lit("bounded")).write_parquet})
        found = compare(before, after.path)
        told = rows(found, audit="accuracy", by="", metric="rmse").row(0, named=True)
        assert told["p"] < 1e-6
        assert (told["status"], told["verdict"]) == ("bounded", "not known")
        assert "not known" not in set(rows(found, audit="exposure")["verdict"])


class TestBadInput:
    def test_the_same_run_twice(self, tmp_path: Path) -> None:
        one = run(tmp_path / "a", model("top-pop"))
        with pytest.raises(InputError, match="another run, or two models of this one"):
            compare(one, tmp_path / "." / "a")
        with pytest.raises(InputError, match="another run, or two models"):
            compare(one)
        with pytest.raises(InputError, match="two different models"):
            compare(one, models=("TopPop", "TopPop"))

    def test_models_without_a_common_label(self, tmp_path: Path) -> None:
        one = run(tmp_path / "a", model("top-pop") + model("random"))
        other = run(tmp_path / "b", model("als"))
        with pytest.raises(InputError, match="the same label in both runs"):
            compare(one, other)
        with pytest.raises(InputError, match="'TopPop'"):
            compare(one, other, models=("TopPp", "ALS"))

    def test_a_damaged_run(self, tmp_path: Path) -> None:
        one = run(tmp_path / "a", model("top-pop"))
        shutil.copytree(one.path, tmp_path / "b")
        (tmp_path / "b" / "results" / "TopPop" / "accuracy" / "terms.parquet").write_bytes(b"PAR1")
        with pytest.raises(DamagedError, match=r"terms\.parquet"):
            compare(one, tmp_path / "b")

    def test_no_run_at_all(self, tmp_path: Path) -> None:
        with pytest.raises(InputError):
            compare(tmp_path, tmp_path / "nothing")


def test_a_run_without_terms_is_compared_by_what_users_have(tmp_path: Path) -> None:
    """As folders of earlier versions: where the mean over users is the number, users are what it is made of."""
    one, other = (run(tmp_path / name, model("als", "A", factors=n)) for name, n in (("a", 2), ("b", 8)))
    whole = compare(one, other)
    for each in (one, other):
        lost = [file for file in each.folder.manifest.files if file.endswith(("terms.parquet", "people.parquet"))]
        each.folder.put({}, without=lost)
    found = compare(one.path, other.path)
    ndcg, before = (rows(each, metric="ndcg", by="").row(0, named=True) for each in (found, whole))
    assert ndcg["difference"] == pytest.approx(before["difference"])
    assert ndcg["error"] == pytest.approx(before["error"])
    assert found.groups.is_empty()
    (pooled,) = (lack for lack in found.left_out if lack.audit == "accuracy")
    assert pooled.metrics == ("rmse",)  # the root is taken over all ratings together


def test_average_overlap_is_what_it_is_defined_to_be(tmp_path: Path, world: World) -> None:
    data = world.data
    users = data.user_ids.head(2).to_list()
    a, b, c, d, *_ = data.item_ids.to_list()
    lists = {"a": [[a, b, c], [a, b, c]], "b": [[a, c, b], [d, a, b]]}
    for name, own in lists.items():
        places = [(user, items, range(3)) for user, items in zip(users, own, strict=True)]
        frame = [(user, *both) for user, items, ranks in places for both in zip(items, ranks, strict=True)]
        pl.DataFrame(frame, schema=["user", "item", "rank"], orient="row").write_parquet(tmp_path / f"{name}.parquet")
    audits = "[audits.exposure]\nk = 3\n"
    sides = (run(tmp_path / name, model("lists", "Shop", path=f"{name}.parquet"), audits) for name in lists)
    found = {row["user"]: row for row in compare(*sides).lists.iter_rows(named=True)}
    # {a}, {a}: 1; {a,b}, {a,c}: 1/2; all three: 1. And 0; {a,b}, {d,a}: 1/2; {a,b,c}, {d,a,b}: 2/3.
    assert found[users[0]]["moved"] == pytest.approx(1 - (1 + 1 / 2 + 1) / 3)
    assert found[users[1]]["moved"] == pytest.approx(1 - (0 + 1 / 2 + 2 / 3) / 3)
    assert (found[users[0]]["replaced"], found[users[1]]["replaced"]) == pytest.approx((0, 1 / 3))
