"""Arrays in a file are the arrays that were put into it, or there are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recaudit.folders.arrays import encoded, read

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(3, dtype=np.uint64), "c": np.array([True, False])}


def test_they_come_back(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(encoded(ARRAYS, {"said": [1, "two"]}))
    arrays, about = read(tmp_path / "x")
    assert about == {"said": [1, "two"]}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(arrays[name], array)
        assert arrays[name].flags.writeable


def test_any_other_file_is_refused(tmp_path: Path) -> None:
    content = encoded(ARRAYS, {"said": 1})
    draw = np.random.default_rng(0)
    for _ in range(200):
        changed = bytearray(content)
        changed[int(draw.integers(len(content)))] ^= 1 << int(draw.integers(8))
        (tmp_path / "x").write_bytes(changed)
        try:
            arrays, about = read(tmp_path / "x")
        except ValueError:
            continue
        # What is left is the order of the header's entries or spaces: the same arrays, number by number.
        assert about == {"said": 1}
        assert all(np.array_equal(arrays[name], array) for name, array in ARRAYS.items())


@pytest.mark.parametrize("content", [b"", b"not a file of arrays", b"\x08" + bytes(7) + b"{}      "])
def test_what_is_no_such_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match="x"):
        read(tmp_path / "x")
