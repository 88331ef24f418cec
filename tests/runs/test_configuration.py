"""A configuration is understood whole, or every mistake in it is told at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recaudit.audits.lists.exposure import Exposure
from recaudit.audits.reachability.audit import Reachability
from recaudit.data.sources import NamedData, OwnData
from recaudit.data.splits import ByTime, LeaveLast, RandomSplit
from recaudit.engines import Engine, Processes, Serial, Threads, with_workers
from recaudit.errors import ConfigError
from recaudit.interventions import Actions, GivenItems, HistoryEdits, Interval, NextK, Stars
from recaudit.models import ALS
from recaudit.policies import EpsilonGreedy, Softmax
from recaudit.runs import Configuration, parse, read

SMALLEST = '[data]\nname = "demo"\n[[model]]\nkind = "als"\n'
REACHABILITY = SMALLEST + "[audits.reachability]\n"


def parsed(text: str, folder: Path = Path()) -> Configuration:
    return parse(text, source="my.toml", folder=folder)


def mistake(text: str, folder: Path = Path()) -> str:
    with pytest.raises(ConfigError) as caught:
        parsed(text, folder)
    return str(caught.value)


class TestWhatItMeans:
    def test_the_smallest_configuration_has_sensible_defaults(self) -> None:
        config = parsed(SMALLEST)
        assert isinstance(config.data, NamedData)
        assert config.seed == 0
        assert config.split == RandomSplit(fraction=0.1)
        assert config.engine == Serial()
        assert list(config.audits) == ["accuracy", "exposure"]
        assert [(m.label, m.kind, m.recommender) for m in config.models] == [("ALS", "als", ALS())]

    def test_a_model_takes_its_recommenders_own_fields(self) -> None:
        [model] = parsed(SMALLEST + 'factors = 7\nlabel = "Seven"').models
        assert model.label == "Seven"
        assert model.recommender == ALS(factors=7)

    def test_own_files_start_at_the_configurations_folder(self, tmp_path: Path) -> None:
        (tmp_path / "ratings.csv").touch()
        (tmp_path / "run.toml").write_text('[data]\nfile = "ratings.csv"\n[[model]]\nkind = "als"\n')
        config = read(tmp_path / "run.toml")
        assert isinstance(config.data, OwnData)
        assert config.data.file == tmp_path / "ratings.csv"

    def test_splits_are_chosen_by_kind(self) -> None:
        assert parsed(SMALLEST + '[split]\nkind = "leave-last"\nk = 2').split == LeaveLast(k=2)
        assert parsed(SMALLEST + '[split]\nkind = "by-time"\nfraction = 0.3').split == ByTime(fraction=0.3)

    def test_only_the_named_audits_run(self) -> None:
        config = parsed(SMALLEST + '[audits.exposure]\nk = 3\npolicy = {kind = "softmax", beta = 2}')
        assert config.audits == {"exposure": Exposure(k=3, policy=Softmax(beta=2.0))}

    def test_reachability_asks_about_the_next_ten_items_unless_told_otherwise(self) -> None:
        audits = parsed(REACHABILITY).audits
        assert audits == {"reachability": Reachability(actions=NextK(10), policy=Softmax(), users=None)}

    @pytest.mark.parametrize(
        ("text", "actions"),
        [
            ('{kind = "next-k", k = 3}', NextK(3)),
            ('{kind = "history-edits", k = 3, ratings = {kind = "stars"}}', HistoryEdits(3, Stars())),
            ('{kind = "next-k", ratings = {kind = "interval", low = 2, high = 4}}', NextK(10, Interval(2, 4))),
            ('{kind = "given-items", ids = ["a", 7]}', GivenItems(("a", 7))),
        ],
    )
    def test_actions_are_chosen_by_kind(self, text: str, actions: Actions) -> None:
        assert parsed(f"{REACHABILITY}actions = {text}").audits == {"reachability": Reachability(actions=actions)}

    def test_reachability_takes_its_own_settings(self) -> None:
        text = 'policy = {kind = "epsilon-greedy", epsilon = 0.2}\nusers = 5\ncandidates = "all"\ntolerance = 1e-4'
        assert parsed(REACHABILITY + text).audits["reachability"] == Reachability(
            policy=EpsilonGreedy(epsilon=0.2), users=5, candidates="all", tolerance=1e-4
        )

    def test_labels_that_are_not_given_are_made_unique(self) -> None:
        text = (
            SMALLEST + '[[model]]\nkind = "als"\n[[model]]\nkind = "random"\nlabel = "als 2"\n[[model]]\nkind = "als"'
        )
        assert [model.label for model in parsed(text).models] == ["ALS", "ALS 3", "als 2", "ALS 4"]

    @pytest.mark.parametrize(
        ("engine", "workers", "expected"),
        [
            ("", 1, Serial()),
            ("", 4, Threads(4)),
            ('[engine]\nkind = "processes"', 4, Processes(4)),
            ('[engine]\nkind = "threads"\nworkers = 8', 1, Threads(1)),
        ],
    )
    def test_a_number_of_workers_keeps_the_kind_of_engine(self, engine: str, workers: int, expected: Engine) -> None:
        assert with_workers(parsed(SMALLEST + engine).engine, workers) == expected


class TestHash:
    def test_layout_comments_and_engine_do_not_count(self) -> None:
        same = '# hello\n[[model]]\nkind = "als"\n[engine]\nkind = "threads"\n[data]\nname = "demo"'
        assert parsed(same).hash == parsed(SMALLEST).hash

    def test_anything_that_moves_a_number_counts(self) -> None:
        others = [
            "seed = 1\n" + SMALLEST,
            SMALLEST + "factors = 3",
            SMALLEST + '[split]\nkind = "random"\nfraction = 0.2',
        ]
        assert len({parsed(text).hash for text in [SMALLEST, *others]}) == 4

    def test_the_contents_of_a_factor_file_count(self, tmp_path: Path) -> None:
        text = '[data]\nname = "demo"\n[[model]]\nkind = "factors"\npath = "own.npz"\npredicts_ratings = false'
        hashes = set()
        for value in (1.0, 2.0):
            np.savez(tmp_path / "own.npz", user_factors=np.full((2, 1), value), item_factors=np.ones((2, 1)))
            hashes.add(parsed(text, tmp_path).hash)
        assert len(hashes) == 2


class TestMistakes:
    def test_an_unknown_key_is_shown_with_its_path_and_the_nearest_known_one(self) -> None:
        message = mistake(SMALLEST + '[[model]]\nkind = "als"\nfactros = 3')
        assert message.startswith("my.toml, model[1].factros: ")
        assert "Did you mean 'factors'?" in message

    @pytest.mark.parametrize(
        ("text", "path", "suggestion"),
        [
            ("sed = 1\n" + SMALLEST, "sed", "seed"),
            ('[data]\nname = "demo"\npaht = "x"\n[[model]]\nkind = "als"', "data.paht", "path"),
            (SMALLEST + '[split]\nkind = "random"\nfractoin = 0.1', "split.fractoin", "fraction"),
            (SMALLEST + '[split]\nkind = "randm"', "split.kind", "random"),
            (SMALLEST + 'lable = "x"', "model[0].lable", "label"),
            ('[data]\nname = "demo"\n[[model]]\nkind = "bias-mf"', "model[0].kind", "biased-mf"),
            ('[data]\nname = "ml1m"\n[[model]]\nkind = "als"', "data.name", "ml-1m"),
            (SMALLEST + "[audits.exposur]", "audits.exposur", "exposure"),
            (SMALLEST + "[audits.accuracy]\nrelevnt = 4", "audits.accuracy.relevnt", "relevant"),
            (
                SMALLEST + '[audits.exposure.policy]\nkind = "softmax"\nbeat = 1',
                "audits.exposure.policy.beat",
                "beta",
            ),
            (SMALLEST + '[engine]\nkind = "threads"\nworker = 2', "engine.worker", "workers"),
            (REACHABILITY + 'actions = {kind = "next"}', "audits.reachability.actions.kind", "next-k"),
            (REACHABILITY + 'actions = {kind = "next-k", kk = 3}', "audits.reachability.actions.kk", "k"),
            (
                REACHABILITY + 'actions = {kind = "next-k", ratings = {kind = "stars", stp = 1}}',
                "audits.reachability.actions.ratings.stp",
                "step",
            ),
            (
                REACHABILITY + 'actions = {kind = "next-k", ratings = {kind = "star"}}',
                "audits.reachability.actions.ratings.kind",
                "stars",
            ),
        ],
    )
    def test_suggestions_everywhere(self, text: str, path: str, suggestion: str) -> None:
        message = mistake(text)
        assert message.startswith(f"my.toml, {path}: ")
        assert f"Did you mean '{suggestion}'?" in message

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (SMALLEST + "factors = -1", "model[0].factors: received -1; expected greater than or equal to 1"),
            (SMALLEST + 'factors = "many"', "model[0].factors: received 'many'; expected a valid integer"),
            (
                SMALLEST + '[split]\nkind = "random"\nfraction = 1.5',
                "split.fraction: received 1.5; expected less than 1",
            ),
            (
                SMALLEST + '[engine]\nkind = "gpu"',
                "engine.kind: received 'gpu'; expected one of processes, ray, serial, threads",
            ),
            (SMALLEST + "factors = true", "model[0].factors: received true; expected a number"),
            (SMALLEST + 'factors = "8"', "model[0].factors: received '8'; expected a number"),
            (SMALLEST + "[audits.accuracy]\nk = true", "audits.accuracy.k: received true; expected a number"),
            (REACHABILITY + "users = true", "audits.reachability.users: received true; expected how many"),
            (
                REACHABILITY + 'actions = {kind = "next-k", k = true}',
                "audits.reachability.actions.k: received true; expected a number",
            ),
            (
                SMALLEST + "[split]\nkind = []",
                "split.kind: received []; expected one of by-time, files, leave-last, random",
            ),
            (SMALLEST + "[split]\nkind = {a = 1}", "split.kind: received {'a': 1}; expected one of by-time"),
            ("seed = -1\n" + SMALLEST, "seed: received -1; expected greater than or equal to 0"),
            (SMALLEST + 'label = ""', "model[0].label: received ''; expected a text of 1 to 60 characters"),
            (
                SMALLEST + 'label = "a\\nb"',
                "model[0].label: received 'a\\nb'; expected a text without line breaks",
            ),
            ('[data]\nname = "demo"', "model: received nothing; expected at least one [[model]]"),
            (
                '[data]\nname = "demo"\n[model]\nkind = "als"',
                "expected a list, written with two brackets: [[model]]",
            ),
            ('[data]\nname = "demo"\n[[model]]', "model[0].kind: received nothing; expected one of als,"),
            ('[[model]]\nkind = "als"', "data: received nothing; expected a value"),
            ('[data]\n[[model]]\nkind = "als"', "data: received {}; expected either name"),
            (SMALLEST + "[audits]", "audits: received {}; expected at least one of [audits.accuracy]"),
            (
                REACHABILITY + 'policy = {kind = "powre"}',
                "audits.reachability.policy.kind: received 'powre'; expected one of calibrated, epsilon-greedy, "
                "power, softmax, top-1. Did you mean 'power'?",
            ),
            (
                REACHABILITY + "k = 10",  # reachability has no list
                "audits.reachability.k: received a key that is not known here",
            ),
            (
                REACHABILITY + 'actions = {kind = "next-k", ratings = {kind = "interval", low = 5, high = 1}}',
                "audits.reachability.actions.ratings: received (5.0, 1.0); expected the lowest rating first",
            ),
            (
                '[data]\nfile = "no.csv"\n[[model]]\nkind = "als"',
                "data.file: received 'no.csv'; expected a file that exists",
            ),
            (
                '[data]\nname = "ml-1m"\npath = "no"\n[[model]]\nkind = "als"',
                "data.path: received 'no'; expected a folder that exists",
            ),
        ],
    )
    def test_a_wrong_value_names_key_received_and_expected(self, text: str, told: str) -> None:
        assert told in mistake(text)

    def test_two_models_cannot_share_a_label_even_in_another_case(self) -> None:
        text = SMALLEST + 'label = "mine"\n[[model]]\nkind = "random"\nlabel = "Mine"'
        assert "model[1].label: received 'Mine'; expected a label that no other model has" in mistake(text)

    @pytest.mark.parametrize(("key", "file"), [("title = 'title'", "items"), ("attributes = ['age']", "users")])
    def test_columns_need_the_file_that_holds_them(self, tmp_path: Path, key: str, file: str) -> None:
        (tmp_path / "ratings.csv").touch()
        message = mistake(f'[data]\nfile = "ratings.csv"\n{key}\n[[model]]\nkind = "als"', tmp_path)
        assert f"data.{file}: received nothing" in message

    def test_all_mistakes_are_told_at_once(self) -> None:
        message = mistake(
            'sed = 1\n[data]\nname = "dmo"\n[[model]]\nkind = "als"\nfactros = 1\niterations = 0\n'
            "[audits.accuracy]\nk = 0"
        )
        assert message.startswith("my.toml: received 5 mistakes")
        for path in ("sed", "data.name", "model[0].factros", "model[0].iterations", "audits.accuracy.k"):
            assert f"\n  {path}: " in message

    def test_mistakes_in_a_table_and_in_a_table_inside_it_are_told_together(self) -> None:
        message = mistake(REACHABILITY + 'actions = {kind = "next-k", k = 0, ratings = {kind = "star"}}')
        for path in ("actions.k", "actions.ratings.kind"):
            assert f"\n  audits.reachability.{path}: " in message

    @pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "{a = " * 5000])
    def test_tables_without_end(self, text: str) -> None:
        assert "too deep inside each other" in mistake(text + "\n" + SMALLEST)

    def test_a_syntax_error_names_the_line(self) -> None:
        assert "line 3" in mistake('[data]\nname = "demo"\noops\n')

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"nowhere\.toml: No such file"):
            read(tmp_path / "nowhere.toml")

    def test_a_file_that_is_not_text(self, tmp_path: Path) -> None:
        (tmp_path / "model.toml").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ConfigError, match="not UTF-8"):
            read(tmp_path / "model.toml")
