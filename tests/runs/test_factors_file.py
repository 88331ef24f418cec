"""Vectors that a user already has, from an .npz file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recaudit import machine
from recaudit.data import Interactions
from recaudit.errors import DataError, InputError, MachineError
from recaudit.models.given.arrays import Factors

ARRAYS = {
    "user_factors": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    "item_factors": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]),
}
EVERYONE = np.arange(3)


def factors(folder: Path, **arrays: object) -> Factors:
    np.savez(folder / "own.npz", allow_pickle=False, **{name: np.asarray(array) for name, array in arrays.items()})
    return Factors(path=folder / "own.npz", predicts_ratings=False)


def test_rows_follow_the_ids_of_the_data_where_the_file_has_none(tmp_path: Path, tiny: Interactions) -> None:
    scores = factors(tmp_path, **ARRAYS).fit(tiny).scores(EVERYONE)
    assert scores.tolist() == [[1, 3, 5, 7], [2, 4, 6, 8], [3, 7, 11, 15]]


@pytest.mark.parametrize("said", [True, False])
def test_whether_scores_are_ratings_must_be_said(tmp_path: Path, tiny: Interactions, said: bool) -> None:
    path = factors(tmp_path, **ARRAYS).path
    assert Factors(path=path, predicts_ratings=said).fit(tiny).predicts_ratings == said
    with pytest.raises(InputError, match="predicts_ratings"):
        Factors(path=path)  # type: ignore[call-arg]


def test_the_rule_for_new_ratings_is_none_or_what_is_said(tmp_path: Path, tiny: Interactions) -> None:
    path = factors(tmp_path, **ARRAYS).path
    assert Factors(path=path, predicts_ratings=False).fit(tiny).response is None
    rule: dict[str, object] = {"rule": "sgd-step", "step": 0.25}
    model = Factors.model_validate({"path": path, "predicts_ratings": False, "update": rule}).fit(tiny)
    assert "0.25" in model.rule


def test_rows_are_put_in_the_order_of_the_data(tmp_path: Path, tiny: Interactions) -> None:
    ids = {"user_ids": ["cem", "nobody", "bob", "ada"], "item_ids": ["d", "c", "b", "a"]}
    shuffled = {
        "user_factors": ARRAYS["user_factors"][[2, 0, 1, 0]],
        "item_factors": ARRAYS["item_factors"][::-1],
        "user_bias": [30.0, 99.0, 20.0, 10.0],
        "item_bias": [0.4, 0.3, 0.2, 0.1],
        "mean": 100.0,
    }
    scores = factors(tmp_path, **shuffled, **ids).fit(tiny).scores(EVERYONE)
    expected = ARRAYS["user_factors"] @ ARRAYS["item_factors"].T
    expected = expected + np.array([10.0, 20.0, 30.0])[:, None] + np.array([0.1, 0.2, 0.3, 0.4]) + 100.0
    np.testing.assert_allclose(scores, expected)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"user_ids": ["ada", "bob", "dan"]}, r"no row for 'cem' \(1 of 3 ids\)"),
        ({"user_ids": ["ada", "ada", "bob"]}, "'ada' more than once"),
        ({"user_factor": [[1.0]]}, "Did you mean 'user_factors'"),
        ({"user_factors": [[1.0, 2.0]]}, r"user_factors: received an array of shape \(1, 2\)"),
        ({"user_ids": ["ada", "bob", "cem", "dan"]}, "user_factors: received 3 rows; expected 4 rows, one for each id"),
        ({"mean": [1.0, 2.0]}, "one number"),
    ],
)
def test_arrays_that_do_not_fit_are_told(
    tmp_path: Path, tiny: Interactions, change: dict[str, object], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        factors(tmp_path, **{**ARRAYS, **change}).fit(tiny)


def test_a_missing_array_is_named(tmp_path: Path, tiny: Interactions) -> None:
    with pytest.raises(DataError, match="array 'item_factors'"):
        factors(tmp_path, user_factors=ARRAYS["user_factors"]).fit(tiny)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 half an archive"])
def test_a_file_that_is_no_archive(tmp_path: Path, tiny: Interactions, content: bytes) -> None:
    (tmp_path / "own.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"own\.npz, which cannot be read"):
        Factors(path=tmp_path / "own.npz", predicts_ratings=False).fit(tiny)


def test_pickled_objects_are_refused(tmp_path: Path, tiny: Interactions) -> None:
    np.savez(tmp_path / "own.npz", user_factors=np.array([object()]), item_factors=np.ones((4, 2)))
    with pytest.raises(DataError, match="cannot be read"):
        Factors(path=tmp_path / "own.npz", predicts_ratings=False).fit(tiny)


def test_settings_tell_the_contents_and_no_folder(tmp_path: Path) -> None:
    settings = factors(tmp_path, **ARRAYS).model_dump(mode="json")
    assert settings["path"] == "own.npz"
    assert len(settings["sha256"]) == 64


def test_arrays_larger_than_the_memory_are_refused_before_they_are_read(
    tmp_path: Path, tiny: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "own.npz", user_factors=np.zeros((3, 10**6)), item_factors=np.zeros((4, 10**6)))
    assert (tmp_path / "own.npz").stat().st_size < 10**6
    monkeypatch.setattr(machine, "available_memory", lambda: 10**8)
    with pytest.raises(MachineError, match=r"Reading .*own\.npz needs 0\.1 GiB"):
        Factors(path=tmp_path / "own.npz", predicts_ratings=False).fit(tiny)
