"""Random numbers that depend on a seed and on stable keys, never on order, block size or worker count.

A draw for a (user, item) pair is a pure function of the seed and of the pair's keys (a counter-based generator).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl  # solvers draw as well, and have no frames: they must work where polars is not

Keys = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK64 = (1 << 64) - 1


def derive(seed: int, *labels: object) -> int:
    """A child seed of `seed` for the given labels: the same labels give the same child, everywhere."""
    text = "\x1f".join([str(int(seed)), *map(str, labels)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def generator(seed: int, *labels: object) -> np.random.Generator:
    """A numpy generator for the child seed of `seed` with these labels."""
    return np.random.default_rng(derive(seed, *labels))


def keys_of(ids: pl.Series) -> Keys:
    """A 64-bit key for each id (n,), a function of the id alone, so that draws follow the id."""
    if ids.dtype.is_integer():
        return ids.to_numpy().astype(np.int64).view(np.uint64)
    digests = (hashlib.blake2b(str(value).encode(), digest_size=8).digest() for value in ids)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _mix(x: Keys) -> Keys:
    """The finaliser of splitmix64: a bijection of 64 bits whose output passes the usual batteries."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniforms(seed: int, rows: Keys, columns: Keys) -> NDArray[np.float64]:
    """Uniform numbers in (0, 1) for every pair of `rows` and `columns`, which broadcast together.

    `uniforms(s, users[:, None], items[None, :])` is a block (users, items);
    `uniforms(s, users, items)` are the same numbers for single pairs.
    """
    with np.errstate(over="ignore"):
        start = np.uint64(derive(seed, "uniforms") & _MASK64)
        row = _mix(rows * _GOLDEN + start)
        bits = _mix(row + _mix(columns * _GOLDEN + np.uint64(1)))
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
