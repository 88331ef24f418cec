"""Arrays in a file are the arrays that were put into it, or there are none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from recaudit.folders.arrays import _digest, encoded, read

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


@pytest.mark.parametrize(
    "content",
    [
        (2**63).to_bytes(8, "little") + b"{}",
        (10**9).to_bytes(8, "little") + b"{}" + bytes(100),
        b"\x10" + bytes(7) + b'{"a":[1,2],"b":1',
        b"\x50" + bytes(7) + b'{"a":{"dtype":"F64","shape":[1000000000000],"data_offsets":[0,8]}}'.ljust(80) + bytes(8),
        b"\x50" + bytes(7) + b'{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8000000000]}}'.ljust(80) + bytes(8),
        b"\x50" + bytes(7) + b'{"a":{"dtype":"F64","shape":[-1],"data_offsets":[0,8]}}'.ljust(80) + bytes(8),
    ],
)
def test_headers_that_lie_are_refused_before_anything_is_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match="x holds no arrays"):
        read(tmp_path / "x")


def test_a_header_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(encoded(ARRAYS, {"said": "x" * 2000}))
    assert read(tmp_path / "x")[1] == {"said": "x" * 2000}
    monkeypatch.setattr("recaudit.folders.arrays.MAX_HEADER_BYTES", 1000)
    with pytest.raises(ValueError, match="header"):
        read(tmp_path / "x")


def test_a_description_that_is_nested_too_deeply(tmp_path: Path) -> None:
    text = "[" * 100_000 + "]" * 100_000
    plain = json.dumps([_digest(ARRAYS, text), text])
    (tmp_path / "x").write_bytes(save(dict(ARRAYS), metadata={"about": plain}))
    with pytest.raises(ValueError, match="x holds no arrays"):
        read(tmp_path / "x")
