"""A split that was made elsewhere: two logs, or two files, over one catalogue."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from recaudit import Accuracy, Subject
from recaudit.data import Interactions, splits
from recaudit.errors import ConfigError, DataError
from recaudit.models import ALS
from recaudit.runs import Configuration, execute, parse

TRAIN = "user,item,rating\n1,a,5\n1,b,3\n2,a,1\n2,b,4\n3,b,2\n"
TEST = "user,item,rating\n1,c,4\n2,c,2\n3,a,1\n4,a,5\n"
MODEL = '[[model]]\nkind = "als"\nfactors = 2\niterations = 2\n[audits.accuracy]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.csv").write_text(TRAIN)
    (tmp_path / "test.csv").write_text(TEST)
    return tmp_path


def configured(folder: Path, more: str = "", split: str = "") -> Configuration:
    text = f'{more}[split]\ntrain = "train.csv"\ntest = "test.csv"\n{split}\n{MODEL}'
    return parse(text, source="my.toml", folder=folder)


def test_two_logs_get_the_ids_of_both() -> None:
    train = Interactions.from_frame(pl.DataFrame({"user": [1, 2], "item": [10, 20], "rating": [1.0, 2.0]}))
    test = Interactions.from_frame(pl.DataFrame({"user": [2, 3], "item": [30, 10], "rating": [5.0, 2.0]}))
    halves = splits.from_logs(train, test)
    assert halves.train.frame().rows() == train.frame().rows()
    assert halves.test.frame().rows() == test.frame().rows()
    assert halves.train.item_ids.to_list() == halves.test.item_ids.to_list() == [10, 20, 30]
    assert halves.train.scale == halves.test.scale == (1.0, 5.0)
    subject = Subject(ALS(factors=2).fit(halves.train), ALS(factors=2), halves.train, halves.test)
    assert Accuracy().run(subject).frame.height > 0


def test_a_run_takes_both_files_as_they_are(folder: Path, tmp_path: Path) -> None:
    config = configured(folder)
    data, (train, test) = config.split.load(config.data, config.seed)
    assert (len(data), len(train), len(test)) == (9, 5, 4)
    assert train.user_counts.tolist() == [2, 2, 1, 0]
    run = execute(config, tmp_path / "run")
    assert list(run.manifest.data.files) == ["train", "test"]
    record = run.manifest.data
    assert (record.name, record.train, record.test, record.items) == ("train.csv", 5, 4, 3)


def test_data_says_how_the_files_are_written(folder: Path) -> None:
    for name in ("train", "test"):
        text = (folder / f"{name}.csv").read_text().replace("user,item,rating\n", "").replace(",", ";")
        (folder / f"{name}.csv").write_text(text)
    written = '[data]\nseparator = ";"\nheader = false\nuser = 0\nitem = 1\nrating = 2\nscale = [0, 10]\n'
    config = configured(folder, written)
    data, halves = config.split.load(config.data)
    assert len(halves.test) == 4
    assert data.scale == (0.0, 10.0)


def test_ids_are_of_one_type_in_both_files(folder: Path) -> None:
    (folder / "test.csv").write_text(TEST.replace("4,a,5", "anna,a,5"))
    config = configured(folder)
    _, halves = config.split.load(config.data)
    assert halves.train.user_ids.to_list() == ["1", "2", "3", "anna"]


def test_a_pair_in_both_files_is_told(folder: Path) -> None:
    (folder / "test.csv").write_text(TEST + "2,b,4\n")
    config = configured(folder)
    with pytest.raises(DataError, match=r"test.csv, test: received user 2 with item 'b' \(1 of 5 rows\)"):
        config.split.load(config.data)


@pytest.mark.parametrize(
    ("more", "split", "told"),
    [
        ('[data]\nfile = "train.csv"\n', "", "data.file: received 'train.csv'; expected nothing: the files of"),
        ('[data]\nname = "demo"\n', "", "data.name: received 'demo'; expected nothing: the files of"),
        ("", 'kind = "random"', "split.train: received a key that is not known here"),
    ],
)
def test_what_contradicts_the_files_is_refused(folder: Path, more: str, split: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(folder, more, split)
    assert told in str(caught.value)


def test_one_file_is_not_enough(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"split\.test: received nothing"):
        parse(f'[split]\ntrain = "train.csv"\n{MODEL}', source="my.toml", folder=folder)
