"""`recaudit init` looks at a file and writes a configuration that runs as it is."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from recaudit import runs
from recaudit.cli import app

USERS, ITEMS = 12, 8


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recaudit(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


def rows() -> list[tuple[object, ...]]:
    """(user, item, stars, seconds): everybody has rated some of eight items with an accent."""
    draw = np.random.default_rng(0)
    pairs = np.sort(draw.permutation(USERS * ITEMS)[:60])
    return [
        (f"u{p // ITEMS:02d}", f"café {p % ITEMS}", int(draw.integers(1, 6)), 1_600_000_000 + int(n) * 1000)
        for n, p in enumerate(pairs)
    ]


def text(separator: str, header: str = "", columns: int = 4) -> str:
    lines = [separator.join(map(str, row[:columns])) for row in rows()]
    return "\n".join([*([header] if header else []), *lines]) + "\n"


FILES = {
    "header.csv": (
        text(",", "userId,movieId,rating,timestamp").encode(),
        ["scale = [1, 5]", "leave-last", 'kind = "als"', 'kind = "ease"'],
    ),
    "plain.tsv": (text("\t").encode(), ["header = false", "user = 0", "time = 3"]),
    "ratings.dat": (text("::").encode(), ['separator = "::"', "rating = 2"]),
    "latin.csv": (text(";", "user;item;rating;date").encode("latin-1"), ['encoding = "latin-1"', 'separator = ";"']),
    "wide.txt": (text("|", "client|sku|stars|ts").encode("utf-16"), ['encoding = "utf-16"', 'item = "sku"']),
    "log.csv": (text(",", "user,item,rating", 3).encode(), ['kind = "random"', "# time ="]),
    "clicks.csv": (
        text(",", "visitor_id,product_id", 2).encode(),
        ["rating = false", 'kind = "wals"', "regularization = 500"],
    ),
    "mark.csv": (text(",", "user,item,rating,timestamp").encode("utf-8-sig"), ["scale = [1, 5]"]),
}


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_runs_as_it_is(name: str, folder: Path) -> None:
    content, expected = FILES[name]
    Path(name).write_bytes(content)
    done = recaudit("init", name, "--out", "sub/my.toml")
    assert done.exit_code == 0, done.output
    assert "60 rows of 12 users and 8 items" in done.output
    written = Path("sub/my.toml").read_text(encoding="utf-8")
    for part in expected:
        assert part in written
    config = runs.read(Path("sub/my.toml"))
    run = runs.execute(config, "out")
    assert run.manifest.status == "complete"
    assert (run.manifest.data.users, run.manifest.data.items, run.manifest.data.ratings) == (12, 8, 60)
    assert not run.manifest.skipped


@pytest.mark.parametrize(
    ("name", "header", "separator", "between", "expected"),
    [
        ("movies.csv", "movieId,title,genres", ",", "|", ['items = "movies.csv"', 'categories = {genre = "genres"}']),
        ("m.txt", "Movie;Film_Name;Category", ";", "/", ['items = {file = "m.txt", separator = ";", id = "Movie"}']),
        ("m.dat", "movieId::name::tags", "::", ", ", ['category_separator = ","', 'categories = {tag = "tags"}']),
    ],
)
def test_titles_and_categories(name: str, header: str, separator: str, between: str, expected: list[str]) -> None:
    Path("log.csv").write_text(text(",", "userId,movieId,rating,timestamp"), encoding="utf-8")
    lines = [separator.join([f"café {i}", f"Film {i}", f"Drama{between}Kind {i % 2}"]) for i in range(ITEMS)]
    Path(name).write_text("\n".join([header, *lines]), encoding="utf-8")
    done = recaudit("init", "log.csv", "--items", name)
    assert done.exit_code == 0, done.output
    written = Path("log.toml").read_text(encoding="utf-8")
    for part in expected:
        assert part in written
    data = runs.read(Path("log.toml")).data.load()
    assert data.titles is not None
    assert data.titles[0] == "Film 0"
    assert [sorted(system.names) for system in data.categories.values()] == [["Drama", "Kind 0", "Kind 1"]]


@pytest.mark.parametrize(("content", "told"), [("a,b\n1,2\n", "columns 'a', 'b'"), ("", "an empty file")])
def test_a_file_of_items_without_ids_is_refused(content: str, told: str) -> None:
    Path("log.csv").write_text(text(",", "userId,movieId,rating,timestamp"), encoding="utf-8")
    Path("items.csv").write_text(content)
    done = recaudit("init", "log.csv", "--items", "items.csv")
    assert done.exit_code == 2
    assert told in done.output
    assert not Path("log.toml").exists()


def test_a_compressed_file_is_refused() -> None:
    Path("log.csv.gz").write_bytes(gzip.compress(text(",", "user,item,rating", 3).encode()))
    done = recaudit("init", "log.csv.gz")
    assert done.exit_code == 2
    assert "a file compressed by gzip" in done.output
    assert "Decompress it first" in done.output


def test_no_model_is_proposed_that_a_large_catalogue_has_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recaudit.cli.init.EASE_ITEMS", ITEMS - 1)
    Path("log.csv").write_text(text(",", "userId,movieId,rating,timestamp"), encoding="utf-8")
    assert recaudit("init", "log.csv").exit_code == 0
    assert "ease" not in Path("log.toml").read_text(encoding="utf-8")


def test_a_parquet_file() -> None:
    frame = pl.DataFrame(rows(), schema=["member", "article", "score", "when"], orient="row")
    frame.with_columns(when=pl.from_epoch("when")).write_parquet("log.parquet")
    assert recaudit("init", "log.parquet").exit_code == 0
    config = runs.read(Path("log.toml"))
    assert len(config.data.load()) == 60


def test_repeated_rows_are_seen() -> None:
    Path("log.csv").write_text(text(",", "user,item,rating,time") + "u00,café 0,1,1\n" * 2, encoding="utf-8")
    assert recaudit("init", "log.csv").exit_code == 0
    written = Path("log.toml").read_text(encoding="utf-8")
    assert 'duplicates = "last"  # ' in written
    assert runs.read(Path("log.toml")).data.load().n_users == 12


def test_nothing_is_overwritten_unless_it_is_meant() -> None:
    Path("log.csv").write_text(text(",", "user,item,rating", 3), encoding="utf-8")
    Path("log.toml").write_text("mine")
    refused = recaudit("init", "log.csv")
    assert refused.exit_code == 2
    assert "--force" in refused.output
    assert Path("log.toml").read_text() == "mine"
    assert recaudit("init", "log.csv", "--force").exit_code == 0
    assert "[data]" in Path("log.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        ("who,what,rating\na,b,1\n", [], "Say which one holds users with --user"),
        ("who,what,rating\na,b,1\n", ["--user", "who"], "Say which one holds items with --item"),
        ("a,b\nc,d\n", [], "Say --header or --no-header"),
        ("one\ntwo\n", [], "Say what separates the columns with --separator"),
        ("user,item,rating\n1,2,3\n1,3,x\n1,4,5\n" + "1,5,5\n", [], "--on-error skip"),
    ],
)
def test_what_cannot_be_told_is_asked_for(content: str, options: list[str], told: str) -> None:
    Path("log.csv").write_text(content)
    done = recaudit("init", "log.csv", *options)
    assert done.exit_code == 2
    assert told in done.output
    assert not Path("log.toml").exists()


def test_options_are_taken_at_their_word() -> None:
    Path("log.csv").write_text(text(",", "who,what,stars,n"), encoding="utf-8")
    done = recaudit("init", "log.csv", "--user", "who", "--item", 1, "--rating", "")
    assert done.exit_code == 0, done.output
    written = Path("log.toml").read_text(encoding="utf-8")
    assert "item = 1" in written
    assert "rating = false" in written
    assert len(runs.read(Path("log.toml")).data.load()) == 60
