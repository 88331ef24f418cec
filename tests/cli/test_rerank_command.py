"""`recaudit rerank`: from files to a file."""

from __future__ import annotations

import importlib
import json
from functools import partial
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner, Result
from typer.utils import get_params_from_function

import recaudit as ra
from recaudit.audits.calibration.rerank import rerank as rerank_frame
from recaudit.cli.rerank import rerank
from recaudit.policies.calibrated import Calibrated

RATINGS = "user,item,rating\n" + "".join(f"1,{i},5\n" for i in range(10)) + "".join(f"2,{i},3\n" for i in range(40))
MOVIES = "item,genres\n" + "".join(f"{i},{'Romance' if i % 10 < 7 else 'Action|War'}\n" for i in range(40))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """User 1 has seen 7 romances and 3 films of action and war; the best ten of the list are romances."""
    monkeypatch.chdir(tmp_path)
    Path("ratings.csv").write_text(RATINGS)
    Path("movies.csv").write_text(MOVIES)
    items = [i for i in range(10, 40) if i % 10 < 7] + [i for i in range(10, 40) if i % 10 >= 7]
    scores = [1 - place / 100 for place in range(len(items))]
    pl.DataFrame({"user": 1, "item": items, "score": scores}).write_parquet("lists.parquet")
    return tmp_path


def recaudit_rerank(*arguments: object) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(rerank)
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


OWN = ("lists.parquet", "--data", "ratings.csv", "--items", "movies.csv", "--categories", "genres")


def test_seven_to_three_from_parquet_to_parquet(folder: Path) -> None:
    result = recaudit_rerank(*OWN, "--out", "out.parquet", "--size", 10)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == "out.parquet: 1 lists, 10 rows"
    made = pl.read_parquet("out.parquet")
    assert (made["item"] % 10 >= 7).sum() == 3
    assert made["rank"].to_list() == list(range(1, 11))


def test_the_options_are_those_of_the_policy(folder: Path) -> None:
    options = ("--weight", 0.2, "--weight", 0.9, "--size", 8, "--transform", "minmax", "--rank-weights", "ndcg")
    limits = ("--at-most", "War=1", "--must", 39, "--must-not", 10, "--prior-weight", 0.1, "--prior", "uniform")
    result = recaudit_rerank(*OWN, *options, *limits, "--smoothing", 0.05, "--out", "out.csv", "--json")
    assert json.loads(result.stdout) == {
        "out": "out.csv",
        "users": 1,
        "rows": 8,
        "without_history": 0,
        "left_out": 0,
        "emptied": 0,
        "against_rank": 0,
    }
    policy = Calibrated(
        weight=(0.2, 0.9),
        size=8,
        transform="minmax",
        rank_weights="ndcg",
        at_most={"War": 1},
        must=(39,),
        must_not=(10,),
        prior_weight=0.1,
        prior="uniform",
        smoothing=0.05,
    )
    data = ra.data.read("ratings.csv").with_items(pl.read_csv("movies.csv"), categories={"genres": "genres"})
    expected = rerank_frame(pl.read_parquet("lists.parquet"), data, policy)
    assert pl.read_csv("out.csv").equals(expected)
    assert 39 in expected["item"].to_list()


def test_a_data_set_by_name(folder: Path) -> None:
    data = ra.datasets.load("demo")
    lists = ra.recommend(ra.models.TopPop().fit(data), n=20)
    lists.write_parquet("popular.parquet")
    result = recaudit_rerank("popular.parquet", "--data", "demo", "--out", "out.parquet", "--size", 5)
    assert result.exit_code == 0, result.output
    assert pl.read_parquet("out.parquet").equals(rerank_frame(lists, data, Calibrated(size=5)))


def test_strangers_and_unknown_items_are_told(folder: Path) -> None:
    lists = pl.read_parquet("lists.parquet")
    pl.concat([lists, lists.with_columns(user=9, item=pl.col("item").replace({10: 999}))]).write_parquet("more.parquet")
    refused = recaudit_rerank("more.parquet", *OWN[1:], "--out", "out.parquet")
    assert refused.exit_code == 2
    assert "999" in refused.stderr
    assert not Path("out.parquet").exists()
    result = recaudit_rerank("more.parquet", *OWN[1:], "--out", "out.parquet", "--ignore-unknown")
    assert result.exit_code == 0
    assert "1 users have no history in ratings.csv: their lists are by score." in result.stderr
    assert "1 rows were left out" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*OWN, "--weight", 2), "--weight"),
        ((*OWN, "--transform", "log"), "--transform: received 'log'"),
        ((*OWN, "--at-most", "War"), "--at-most: received 'War'"),
        ((*OWN, "--at-most", "Wra=2"), "Did you mean 'War'"),
        ((*OWN, "--must", 12345), "must: received row 0: 12345"),
        (("lists.parquet", "--data", "nothing"), "recaudit data list"),
        (("lists.parquet", "--data", "ratings.csv"), "--items FILE and --categories COLUMN"),
        (("none.parquet", *OWN[1:]), "a file that exists"),
        ((*OWN[:-1], "genre"), "Did you mean 'genres'"),
        ((*OWN[:-1], "genres=x"), "--categories: received 'genres=x'"),
    ],
)
def test_mistakes_are_explained(folder: Path, arguments: tuple[object, ...], message: str) -> None:
    result = recaudit_rerank(*arguments, "--out", "out.parquet")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not Path("out.parquet").exists()


class TestMistakesInFiles:
    def lists(self, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
        """Five users with ten rows each, read three at a time; the last row is another."""
        reranking = importlib.import_module("recaudit.audits.calibration.rerank")
        monkeypatch.setattr(reranking, "rerank_file", partial(reranking.rerank_file, batch=3))
        rows = [f"{user},{item},1.0" for user in range(1, 6) for item in range(10)]
        Path("lists.csv").write_text("\n".join(["user,item,score", *rows[:-1], wrong]) + "\n")

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ("5,999,1.0", "lists.csv, column 'item': received row 49: 999"),
            ("5,,1.0", "lists.csv, column 'item': received row 49: None"),
            ("5,9,inf", "lists.csv, column 'score': received row 49: inf"),
            ("5,8,1.0", "rows 48 and 49 with user 5 and item 8 both"),
            ("5,x9,1.0", "lists.csv, column 'item': received ids of type text, such as 'x9'"),
            ("5,08,1.0", "lists.csv, column 'item': received ids of type text, such as '08'"),
        ],
    )
    def test_rows_are_rows_of_the_file(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, message: str
    ) -> None:
        self.lists(monkeypatch, wrong)
        result = recaudit_rerank("lists.csv", *OWN[1:], "--out", "out.parquet")
        assert result.exit_code == 2
        assert message in result.stderr

    def test_remedies_are_options(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lists(monkeypatch, "5,999,1.0")
        unknown = recaudit_rerank("lists.csv", *OWN[1:], "--out", "out.parquet")
        assert "or say --ignore-unknown to leave those rows out" in unknown.stderr
        missing = recaudit_rerank("lists.csv", *OWN[1:], "--user", "users", "--out", "out.parquet")
        assert "ratings.csv, column 'users'" in missing.stderr
        assert "for example --user userId. Did you mean 'user'?" in missing.stderr

    def test_several_ratings_of_one_item(self, folder: Path) -> None:
        with Path("ratings.csv").open("a") as file:
            file.write("1,1,4\n")
        refused = recaudit_rerank(*OWN, "--out", "out.parquet")
        assert "ratings.csv, columns 'user' and 'item'" in refused.stderr
        assert "--duplicates last or --duplicates mean" in refused.stderr
        assert recaudit_rerank(*OWN, "--duplicates", "last", "--out", "out.parquet").exit_code == 0


def test_it_explains_itself() -> None:
    result = recaudit_rerank("--help")
    assert result.exit_code == 0
    assert "lists.parquet --data ml-1m --out calibrated.parquet" in result.output


@pytest.mark.parametrize("name", ["weight", "size", "transform", "rank_weights", "smoothing", "prior_weight", "prior"])
def test_the_help_shows_the_defaults_of_the_policy(name: str) -> None:
    option = next(one for one in get_params_from_function(rerank).values() if one.name == name)
    default = Calibrated.model_fields[name].default
    assert option.default.help.endswith(f"[{default:g}]" if isinstance(default, float) else f"[{default}]")


def test_lists_that_are_lost_and_scores_against_ranks_are_said(folder: Path) -> None:
    lists = pl.read_parquet("lists.parquet")
    lost = lists.with_columns(user=pl.col("user") + 1000, item=pl.col("item") + 10**6)
    both = pl.concat([lists, lost]).drop("score", "rank", strict=False)
    both = both.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user")).with_columns(
        score=pl.col("rank").cast(pl.Float64)
    )
    both.write_parquet("both.parquet")
    result = recaudit_rerank("both.parquet", *OWN[1:], "--out", "out.parquet", "--ignore-unknown")
    assert result.exit_code == 0, result.output
    assert "1 users have no list any more" in result.output
    assert "1 lists have scores that contradict their ranks" in result.output
