"""A file of named arrays with a description: safetensors, which holds nothing that runs, and a digest of all of it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

Arrays = dict[str, NDArray[Any]]
MAX_HEADER_BYTES = 64 * 2**20
"""Size of the header: names and shapes of the arrays, and the description."""


def encoded(arrays: Mapping[str, NDArray[Any]], about: object) -> bytes:
    """The file: arrays by name, and `about`, anything that JSON holds."""
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps(about)
    # One entry: of several, safetensors would not keep the order, and the file would not always be the same.
    return save(plain, metadata={"about": json.dumps([_digest(plain, text), text])})


def read(path: Path) -> tuple[Arrays, Any]:
    """Arrays, fresh and writable, and what they are about; a ValueError says that the file is no such file."""
    _check_header(path)
    try:
        # The copies lie in memory as fresh arrays do, so that products of them are the same number by number.
        arrays = {name: array.copy() for name, array in load(path.read_bytes()).items()}
        with safe_open(path, "numpy") as file:
            digest, text = json.loads(file.metadata()["about"])
        intact = digest == _digest(arrays, text)
        about = json.loads(text)
    except (SafetensorError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} holds no arrays with a description") from error
    if not intact:
        raise ValueError(f"{path} is not as it was written")
    return arrays, about


def _check_header(path: Path) -> None:
    """Raise a ValueError if the header cannot be as long as the file says; safetensors checks what is in it."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        size = file.seek(0, os.SEEK_END)
    if length > min(size - 8, MAX_HEADER_BYTES):
        raise ValueError(f"{path} holds no arrays: its header claims {length:,} bytes")


def _digest(arrays: Mapping[str, NDArray[Any]], about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(array.reshape(-1).view(np.uint8).data)  # without a copy
    return digest.hexdigest()
