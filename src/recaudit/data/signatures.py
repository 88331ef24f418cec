"""Signatures of users' histories, by which the same users are recognized in two sets of interactions.

The signature of a history has 64 bits: bit j is the lowest bit of the smallest hash of its items, under hash function
j. Two histories with Jaccard similarity J agree in a bit with probability (1 + J) / 2 (Li and Koenig, 2010), also if
one is the other with more items. A signature does not reveal the items.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from recaudit.data.interactions import Interactions
from recaudit.seeding import derive, keys_of, uniforms

N_BITS = 64
_N_ROTATIONS = 8
_QUANTILE = 0.975
_FEW_USERS_LIMIT = 45
"""Number of equal bits that two different users rarely reach, if there are too few users to count it."""


def compute_signatures(data: Interactions) -> pl.DataFrame:
    """Compute the signature of each user with a history.

    Returns:
        Columns `user`, as text, and `signature`.
    """
    keys, first_key = keys_of(data.item_ids.cast(pl.String)), np.zeros(1, dtype=np.uint64)
    has_history = data.user_counts > 0
    starts = data.indptr[:-1][has_history]
    signatures = np.zeros(len(starts), dtype=np.uint64)
    for bit in range(N_BITS if len(starts) else 0):
        hashes = uniforms(derive(bit, "history"), keys, first_key)[data.items]
        smallest = np.minimum.reduceat(hashes, starts)
        lowest_bit = (smallest * 2.0**53).astype(np.uint64) & np.uint64(1)
        signatures |= lowest_bit << np.uint64(bit)
    users = data.user_ids.cast(pl.String).filter(pl.Series(has_history))
    return pl.DataFrame({"user": users, "signature": signatures})


def count_same_histories(old: pl.DataFrame, new: pl.DataFrame) -> tuple[int, int]:
    """Count the users of both tables, and those of them whose histories are alike.

    Two histories are alike if their signatures are equal, or have more equal bits than 97.5% of pairs of different
    users of the two tables.

    Args:
        old: Signatures, as `compute_signatures` returns them.
        new: Signatures of the other interactions.
    """
    common = old.join(new, on="user", suffix="_new").sort("user")
    n = common.height
    if n == 0:
        return 0, 0
    first, second = (common[name].to_numpy() for name in ("signature", "signature_new"))

    def count_equal_bits(shift: int) -> np.ndarray:
        return N_BITS - np.bitwise_count(first ^ np.roll(second, shift)).astype(np.int64)

    rotations = range(1, min(n, _N_ROTATIONS + 1))
    limit = np.quantile([count_equal_bits(shift) for shift in rotations], _QUANTILE) if rotations else _FEW_USERS_LIMIT
    n_equal = count_equal_bits(0)
    return n, int(((n_equal == N_BITS) | (n_equal > limit)).sum())
