"""A study of one's own: its numbers are those of the runs it stands for, and only what changes is measured again."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import recaudit as ra
from recaudit import runs, specification
from recaudit.data.synthetic import World
from recaudit.engines import Engine, Serial
from recaudit.errors import ConfigError, InputError
from recaudit_papers import studies
from recaudit_papers.studies import Agreement, StudyReport, StudyRow
from recaudit_papers.studies.own.config import OwnStudyConfiguration

BASE = """
seed = 3
[data]
file = "ratings.csv"
scale = [1, 5]
[split]
kind = "random"
[[model]]
kind = "als"
label = "ALS"
factors = 4
[[model]]
kind = "item-knn"
[audits.accuracy]
relevant = 4
[audits.exposure]
k = 5
"""
STUDY = """
title = "What do factors do?"
base = "base.toml"
[[change]]
name = "twice the factors"
set = {"model.ALS.factors" = 8}
[[change]]
name = "longer lists"
set = {audits.exposure.k = 10}
"""


@pytest.fixture
def folder(tmp_path: Path, world: World) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    world.data.frame().write_csv(home / "ratings.csv")
    (home / "base.toml").write_text(BASE, encoding="utf-8")
    (home / "study.toml").write_text(STUDY, encoding="utf-8")
    return home


class Noting(Engine):
    """Works here, and notes what it is given."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def map(self, function: Callable[[Any], Any], pieces: Sequence[Any], label: str = "") -> Iterator[Any]:
        self.names += [piece.name for piece in pieces]
        return Serial().map(function, pieces, label)


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def row_of(report: StudyReport, audit: str, name: str) -> StudyRow:
    [found] = [row for table in report.tables if table.name == audit for row in table.rows if row.name == name]
    return found


def effects(report: StudyReport, audit: str) -> pl.DataFrame:
    [table] = [table for table in report.tables if table.name == audit]
    return table.plain[0].frame()


class TestNumbers:
    def test_they_are_those_of_a_run_and_of_a_comparison(self, folder: Path, tmp_path: Path) -> None:
        found = studies.run(studies.own(folder / "study.toml"))
        (folder / "changed.toml").write_text(BASE.replace("factors = 4", "factors = 8"), encoding="utf-8")
        base, changed = (
            runs.execute(runs.read(folder / f"{name}.toml"), tmp_path / name) for name in ("base", "changed")
        )
        for label, suffix in (("ALS", "ALS"), ("ItemKNN", "ItemKNN")):
            for audit in ("accuracy", "exposure"):
                summary = base.table(label, audit, "summary").drop_nulls("value")
                labels = base.result(label, audit).metrics
                for name, value, lower in summary.select("metric", "value", "lower").iter_rows():
                    k = base.steps(label)[audit].get("k")
                    row = row_of(found, audit, f"{labels[name].titled(k)}, {suffix}")
                    assert row.ours is not None
                    assert (row.ours.value, row.ours.lower) == pytest.approx((value, lower), rel=1e-9)
                    assert row.agreement is Agreement.NOT_PUBLISHED

        compared = ra.compare(base, changed).overall.filter(pl.col("model") == "ALS")
        titles = {name: metric.titled(5) for name, metric in base.result("ALS", "exposure").metrics.items()}
        own = effects(found, "exposure").filter(pl.col("change") == "twice the factors")
        there = compared.filter(pl.col("audit") == "exposure")
        assert own["number"].to_list() == [f"{titles[name]}, ALS" for name in there["metric"]]
        for one, other in (("difference", "difference"), ("difference_lower", "lower"), ("difference_upper", "upper")):
            assert own[one].to_list() == pytest.approx(there[other].to_list(), rel=1e-9)
        assert own["verdict"].to_list() == there["verdict"].to_list()

    def test_what_a_change_does_not_touch_is_one_experiment(self, folder: Path) -> None:
        study = studies.own(folder / "study.toml")
        names = [one.name for one in study.experiments("quick")]
        assert len(names) == len(set(names))
        # two models x two audits; ALS again in both audits; exposure again for both models
        assert len(names) == 4 + 2 + 2
        found = studies.run(study)
        assert list(row_of(found, "accuracy", "nDCG@10, ItemKNN").variants) == []
        assert list(row_of(found, "accuracy", "nDCG@10, ALS").variants) == ["twice the factors"]
        assert list(row_of(found, "exposure", "Item coverage@5, ItemKNN").variants) == ["longer lists"]

    def test_several_models_are_compared_with_the_policy_of_a_run(self, folder: Path, tmp_path: Path) -> None:
        text = BASE + "[audits.reachability]\nusers = 4\ntargets = 5\nrefits = 0\n"
        (folder / "base.toml").write_text(text, encoding="utf-8")
        chosen = 'models = "ALS"\n[[metric]]\naudit = "reachability"\nname = "lift"\n'
        change = '[[change]]\nname = "beta"\nset = {"audits.reachability.policy" = {kind = "softmax", beta = 1.0}}\n'
        found = studies.run(studies.own(written(folder, f'title = "t"\nbase = "base.toml"\n{chosen}{change}')))
        run = runs.execute(runs.read(folder / "base.toml"), tmp_path / "run")
        [row] = found.tables[0].rows
        assert row.ours is not None
        assert row.ours.value == pytest.approx(run.result("ALS", "reachability")["lift"], rel=1e-9)
        assert row.name == "Lift"
        assert row.variants["beta"].value != pytest.approx(row.ours.value)

    def test_a_model_that_has_no_answer_is_told(self, folder: Path) -> None:
        text = BASE + "[audits.reachability]\nusers = 4\ntargets = 5\nrefits = 0\n"
        (folder / "base.toml").write_text(text + '[[model]]\nkind = "top-pop"\nlabel = "Most rated"', encoding="utf-8")
        asked = 'models = ["Most rated"]\n[[metric]]\naudit = "reachability"\nname = "lift"\n'
        change = '[[change]]\nname = "seed"\nset = {seed = 4}\n'
        found = studies.run(studies.own(written(folder, f'title = "t"\nbase = "base.toml"\n{asked}{change}')))
        [row] = found.tables[0].rows
        assert row.agreement is Agreement.NOT_MEASURED
        assert row.note

    def test_a_number_that_a_model_does_not_have_is_told(self, folder: Path) -> None:
        (folder / "base.toml").write_text(BASE.replace('"item-knn"', '"ease"'), encoding="utf-8")
        text = 'title = "t"\nbase = "base.toml"\nmodels = "EASE"\nrepeat = 2\n'
        metric = '[[metric]]\naudit = "accuracy"\nname = "rmse"\nnote = "Table 1."\n'
        change = '[[change]]\nname = "seed"\nset = {seed = 9}\n'
        report = studies.run(studies.own(written(folder, text + metric + change)), out=folder / "out")
        [row] = report.tables[0].rows
        assert row.agreement is Agreement.NOT_MEASURED
        assert row.note == "Table 1. Not applicable in the base."
        assert row.variants == {}

    def test_an_experiment_travels_to_other_processes(self, folder: Path) -> None:
        one, *_ = studies.own(folder / "study.toml").experiments("quick")
        assert pickle.loads(pickle.dumps(one)).table().equals(one.table())


class TestResuming:
    def measured(self, folder: Path, out: Path) -> list[str]:
        engine = Noting()
        studies.run(studies.own(folder / "study.toml"), out=out, engine=engine)
        return engine.names

    def test_a_changed_change_is_measured_alone(self, folder: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        assert len(self.measured(folder, out)) == 8
        assert self.measured(folder, out) == []
        written(folder, STUDY.replace('factors" = 8', 'factors" = 6'))
        again = self.measured(folder, out)
        assert sorted(name.partition("-")[0] for name in again) == ["als/accuracy", "als/exposure"]

    def test_other_names_numbers_and_a_way_back_measure_nothing(self, folder: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        self.measured(folder, out)
        number = '[[metric]]\naudit = "exposure"\nname = "coverage"\npublished = 0.3\n'
        written(
            folder, STUDY.replace("twice the factors", "8 factors").replace('"base.toml"\n', f'"base.toml"\n{number}')
        )
        assert self.measured(folder, out) == []
        written(folder, STUDY)
        assert self.measured(folder, out) == []

    def test_a_moved_folder_is_the_same_study_and_other_data_are_not(self, folder: Path, tmp_path: Path) -> None:
        self.measured(folder, tmp_path / "out")
        moved = tmp_path / "elsewhere" / "home"
        moved.parent.mkdir()
        shutil.move(folder, moved)
        shutil.move(tmp_path / "out", tmp_path / "elsewhere" / "out")
        assert self.measured(moved, tmp_path / "elsewhere" / "out") == []
        lines = (moved / "ratings.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        (moved / "ratings.csv").write_text("".join(lines[:-1]), encoding="utf-8")
        assert len(self.measured(moved, tmp_path / "elsewhere" / "out")) == 8

    def test_data_that_change_on_the_way_are_refused(self, folder: Path) -> None:
        study = studies.own(folder / "study.toml")
        study.experiments("quick")
        lines = (folder / "ratings.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / "ratings.csv").write_text("".join(lines[:-2]), encoding="utf-8")
        with pytest.raises(InputError, match="changed since the study began"):
            studies.run(study)


class TestLadder:
    @pytest.mark.parametrize(
        ("printed", "mark"),
        [
            ("published = {changed:.6f}\nerror = 1e-6", Agreement.EXPLAINED),
            ("published = {ours:.6f}\nerror = 1e-6", Agreement.AGREES),
            ("published = '7.0'", Agreement.OPEN),
            ("published = 7\nlow = 0\nhigh = 8", Agreement.AGREES),
            ("below = 0", Agreement.OPEN),
            ("above = 0\nbelow = 1", Agreement.AGREES),
            ("", Agreement.NOT_PUBLISHED),
        ],
    )
    def test_a_printed_number_is_explained_by_the_change_that_brings_it_out(
        self, folder: Path, printed: str, mark: Agreement
    ) -> None:
        def found(more: str) -> StudyRow:
            metric = f'[[metric]]\naudit = "exposure"\nname = "coverage"\nmodel = "ItemKNN"\n{more}\n'
            text = STUDY.replace("[[change]]", f"{metric}[[change]]", 1).replace("model.ALS.factors", "seed")
            text = text.replace("k = 10", "k = 40")
            report = studies.run(studies.own(written(folder, text)), out=folder / "out")
            assert [table.name for table in report.tables] == ["exposure", "changes"]
            return row_of(report, "exposure", "Item coverage@5, ItemKNN")

        plain = found("")
        assert plain.ours is not None
        # wide enough apart that their intervals do not meet
        longer = plain.variants["longer lists"]
        assert longer.ends[0] > plain.ours.ends[1]
        row = found(printed.format(ours=plain.ours.value, changed=longer.value))
        assert row.agreement is mark
        assert row.explaining == (["longer lists"] if mark is Agreement.EXPLAINED else row.explaining)

    def test_cumulative_changes_stand_on_those_before(self, folder: Path) -> None:
        text = STUDY.replace("[[change]]", 'ladder = "cumulative"\n[[change]]', 1)
        found = studies.run(studies.own(written(folder, text)))
        row = row_of(found, "exposure", "Item coverage@5, ALS")
        assert list(row.variants) == ["twice the factors", "and longer lists"]
        told = effects(found, "exposure").filter(pl.col("number") == row.name)
        assert list(zip(told["change"], told["against"], strict=True)) == [
            ("twice the factors", "base"),
            ("longer lists", "twice the factors"),
            ("longer lists", "base"),
        ]
        steps = told["difference"].to_list()
        assert steps[0] + steps[1] == pytest.approx(steps[2])
        # ItemKNN has no factors: its lists alone are longer
        assert list(row_of(found, "exposure", "Item coverage@5, ItemKNN").variants) == ["and longer lists"]

    def test_other_seeds_show_how_far_a_number_moves_by_itself(self, folder: Path) -> None:
        text = 'title = "t"\nbase = "base.toml"\nmodels = "ALS"\nrepeat = 3\n'
        found = studies.run(studies.own(written(folder, text)))
        row = row_of(found, "accuracy", "nDCG@10")
        [(change, over)] = row.variants.items()
        assert change == "another seed (3 tried)"
        assert over.lower is not None
        assert over.upper is not None
        assert over.lower < over.value < over.upper
        assert over.over == "3 seeds"
        text += '[[change]]\nname = "seed 4"\nset = {seed = 4}\n'
        again = effects(studies.run(studies.own(written(folder, text))), "accuracy")
        assert "by seed alone" in again.columns
        assert not set(again["verdict"]) & {"better", "worse", "changed"}

    def test_where_nothing_is_printed_the_ladder_begins_with_ours(self, folder: Path) -> None:
        studies.run(studies.own(folder / "study.toml"), out=folder / "out")
        _, ladder = (folder / "out" / "study.md").read_text(encoding="utf-8").split("One change at a time", 1)
        first = [line.split("|")[1].strip() for line in ladder.splitlines() if line.startswith("|")][:4]
        assert first == ["", "---", "ours", "twice the factors"]

    def test_what_was_set_is_told(self, folder: Path) -> None:
        text = STUDY.replace("set = {audits.exposure.k = 10}", 'unset = "audits.exposure.k"')
        *_, table = studies.run(studies.own(written(folder, text))).tables
        assert table.plain[0].cells() == [
            ["twice the factors", "base", "model.ALS.factors", "4", "8"],
            ["longer lists", "base", "audits.exposure.k", "5", ""],
        ]


class TestMistakes:
    @pytest.mark.parametrize(
        ("old", "new", "told"),
        [
            ("twice the factors", "longer lists", r"change\[1\]\.name: .* a name that nothing else has"),
            ("twice the factors", "Base", r"change\[0\]\.name"),
            ("twice the factors", " ", r"change\[0\]\.name: .* a line of text"),
            ('"model.ALS.factors" = 8', "", r"change\[0\]\.set: received nothing; expected what is changed"),
            ('factors" = 8', 'factors" = 4', r"change\[0\]\.set: .* not so already"),
            ("ALS.factors", "ALS.factrs", r"change\[0\]\.set\.model\.ALS\.factrs: .*Did you mean 'factors'\?"),
            ("model.ALS", "model.ASL", r"change\[0\]\.set\.model\.ASL\.factors: .*Did you mean 'ALS'\?"),
            ("model.ALS.factors", "model.ALS.label", "it names the same model"),
            ("model.ALS.factors", "model.ALS", "a table of settings"),
            ("model.ALS.factors", "modle.ALS.factors", "Did you mean 'model'"),
            ("model.ALS.factors", "engine.kind", "a key that begins with what can be changed"),
            ("model.ALS.factors", "seed.x", "seed to be a table"),
            ("model.ALS.factors", "data.filee", r"change\[0\]\.set\.data\.filee: .*Did you mean 'file'"),
            ("audits.exposure.k", "audits.expsure.k", "Did you mean 'exposure'"),
            ("audits.exposure.k", "audits.exposure.kk", r"change\[1\]\.set\.audits\.exposure\.kk: .* known"),
            ("exposure.k = 10", "exposure.k = 0", r"change\[1\]\.set\.audits\.exposure\.k: received 0"),
            ("exposure.k = 10", "exposure.k = 'ten'", r"received 'ten'"),
            ("exposure.k = 10", "exposure.k = 1979-05-27", "JSON"),
            ("exposure.k = 10", "accuracy.relevant = nan", "JSON"),
            (
                "set = {audits.exposure.k = 10}",
                'unset = ["audits.exposure.kk"]',
                r"change\[1\]\.unset: .*Did you mean 'k'",
            ),
            ("set = {audits.exposure.k = 10}", 'unset = ["model.ALS"]', "a setting that the base has"),
            ("set = {audits.exposure.k = 10}", 'unset = ["model"]', "model.LABEL"),
            ('"base.toml"', '"nowhere.toml"', r"base: received 'nowhere\.toml: No such file"),
            ('"base.toml"', '"ratings.csv"', "base: .* a TOML file"),
            ('"base.toml"', "3", "a file's name, or a table"),
            ('"base.toml"', '"study.toml"', r"base\.title: received a key that is not known here"),
            ('"base.toml"', '"base.toml"\nmodels = ["ASL"]', r"models\[0\]: .*Did you mean 'ALS'"),
            ('"base.toml"', '"base.toml"\nmodels = ["ALS", "ALS"]', "each model once"),
            ('"base.toml"', '"base.toml"\nrepeat = 0', "repeat"),
            ('"base.toml"', '"base.toml"\nladder = "up"', "'one-at-a-time' or 'cumulative'"),
            ('title = "What do factors do?"', "", "title: received nothing"),
            ("[[change]]", "[[chnage]]", "Did you mean 'change'"),
            ("[[change]]", "[change]", "two brackets"),
        ],
    )
    def test_each_is_told_by_its_key(self, folder: Path, old: str, new: str, told: str) -> None:
        text = STUDY.replace(old, new, 1) if new != "[change]" else STUDY.rpartition("[[change]]")[0].replace(old, new)
        assert text != STUDY
        with pytest.raises(ConfigError, match=told) as error:
            studies.own(written(folder, text))
        assert str(error.value).startswith("study.toml")

    @pytest.mark.parametrize(
        ("metric", "told"),
        [
            ('audit = "reachability"\nname = "lift"', r"metric\[0\]\.audit: .* an audit of the base"),
            ('audit = "exposure"\nname = "covrage"', "Did you mean 'coverage'"),
            ('audit = "exposure"\nname = "coverage"\nmodel = "Random"', r"metric\[0\]\.model: .* the label"),
            ('audit = "exposure"\nname = "coverage"\nmodel = ["ALS", "ALS"]', "once"),
            ('audit = "exposure"\nname = "coverage"\npublished = "1,3"', "its digits"),
            ('audit = "exposure"\nname = "coverage"\npublished = true', "its digits"),
            ('audit = "exposure"\nname = "coverage"\npublished = nan', "its digits"),
            ('audit = "exposure"\nname = "coverage"\npublished = 1\nabove = 0', "or above/below"),
            ('audit = "exposure"\nname = "coverage"\nerror = 1', "printed number that 'error'"),
            ('audit = "exposure"\nname = "coverage"\npublished = 1\nlow = 0', "both ends"),
            ('audit = "exposure"\nname = "coverage"\npublished = 1\nlow = 2\nhigh = 1', "no more than high"),
            ('audit = "exposure"\nname = "coverage"\npublished = 1\nlow = 0\nhigh = 2\nerror = 1', "either the error"),
            ('audit = "exposure"\nname = "coverage"\nabove = 2\nbelow = 1', "less than below"),
            ('audit = "exposure"\nname = "coverage"\nclaim = "more"', "above or below"),
            ('audit = "exposure"\nname = "coverage"\npublised = 1', "Did you mean 'published'"),
        ],
    )
    def test_metrics(self, folder: Path, metric: str, told: str) -> None:
        with pytest.raises(ConfigError, match=told):
            studies.own(written(folder, STUDY.replace("[[change]]", f"[[metric]]\n{metric}\n[[change]]", 1)))

    def test_no_two_rungs_are_called_the_same(self, folder: Path) -> None:
        text = STUDY.replace("twice the factors", "and longer lists") + "cumulative = true\n"
        with pytest.raises(ConfigError, match=r"change\[1\]\.name: .* a name that nothing else has"):
            studies.own(written(folder, text))

    def test_a_study_needs_a_change(self, folder: Path) -> None:
        with pytest.raises(ConfigError, match=r"at least one \[\[change\]\], or repeat"):
            studies.own(written(folder, 'title = "t"\nbase = "base.toml"'))

    def test_changed_data_that_do_not_fit_are_told_before_anything_is_measured(self, folder: Path) -> None:
        text = STUDY.replace('"model.ALS.factors" = 8', '"data.user" = "nobody"')
        with pytest.raises(ConfigError, match=r"twice the factors, .*nobody"):
            studies.own(written(folder, text)).experiments("quick")

    def test_so_is_a_grouping_that_the_log_does_not_have(self, folder: Path) -> None:
        text = STUDY.replace("audits.exposure.k = 10", 'audits.exposure.by = ["age"]')
        with pytest.raises(ConfigError, match=r"longer lists, by: .*age"):
            studies.own(written(folder, text)).experiments("quick")

    def test_a_change_of_kind_begins_with_its_own_defaults(self, folder: Path) -> None:
        text = STUDY.replace('"model.ALS.factors" = 8', '"model.ALS.kind" = "ease"')
        study = studies.own(written(folder, text))
        assert study.config.rungs[0].tables["model"]["ALS"] == {"kind": "ease"}
        text = STUDY.replace('"model.ALS.factors" = 8', 'data.name = "demo"')
        assert studies.own(written(folder, text)).config.rungs[0].tables["data"] == {"name": "demo"}

    def test_a_setting_inside_one_that_is_not_written_begins_with_its_default(self, folder: Path) -> None:
        text = BASE.replace('"als"', '"biased-mf"')
        (folder / "base.toml").write_text(text, encoding="utf-8")
        study = studies.own(written(folder, STUDY.replace('ALS.factors" = 8', 'ALS.update.step" = 0.2')))
        update = study.config.rungs[0].model("ALS").recommender.update
        assert update.step == 0.2


WORDS = st.sampled_from(
    [
        "seed",
        "data",
        "split",
        "model",
        "audits",
        "ALS",
        "exposure",
        "k",
        "kind",
        "rule",
        "label",
        "name",
        "file",
        "a.b",
        "",
    ]
)
KEYS = st.lists(WORDS, min_size=1, max_size=4).map(".".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | WORDS | st.just("als") | st.dates(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
BASE_TABLE = {
    "data": {"name": "demo"},
    "model": [{"kind": "als", "label": "ALS"}],
    "audits": {"exposure": {"k": 5}},
}
WHOLE = {"title": "t", "base": BASE_TABLE, "change": [{"name": "c", "set": {"seed": 1}}]}


class TestNonsense:
    @settings(max_examples=300)
    @given(st.dictionaries(KEYS, VALUES, max_size=3), st.lists(KEYS, max_size=2))
    def test_any_change_is_a_study_or_a_mistake(self, changed: dict[str, Any], unset: list[str]) -> None:
        table = {**WHOLE, "change": [{"name": "c", "set": changed, "unset": unset}]}
        self.judged(table)

    @settings(max_examples=200)
    @given(
        st.sampled_from([*OwnStudyConfiguration.model_fields, "metric", "change"]),
        VALUES | st.lists(st.dictionaries(st.sampled_from(["audit", "name", "model", "published", "set"]), VALUES)),
    )
    def test_so_is_any_study(self, key: str, value: object) -> None:
        self.judged({**WHOLE, key: value})

    def judged(self, table: dict[str, Any]) -> None:
        try:
            made = OwnStudyConfiguration.model_validate(table)
        except ValidationError as error:
            for one in specification.mistakes(error):
                assert str(one)
        else:
            assert len(made.rungs) == len(made.changes)


def test_the_example_is_a_study() -> None:
    study = studies.own(Path(__file__).parents[2] / "examples" / "own-study.toml")
    assert len(study.config.rungs) == 3
