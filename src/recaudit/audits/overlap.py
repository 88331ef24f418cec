"""Overlap of test and training data: how many held-out pairs of user and item are also training pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from recaudit.data.interactions import Interactions


def describe_overlap(train: Interactions, test: Interactions) -> dict[str, Any]:
    """Count the test pairs that are also training pairs.

    Args:
        train: Interactions that the model learned from; of a model from elsewhere, those that it was passed with.
        test: Held-out interactions, with the same users and items.

    Returns:
        The fact `overlap` of an audit: `pairs` and `users` are the numbers of common pairs and of users with any,
        `share` and `user_share` their shares of the test pairs and of the users that have some.
    """
    is_common = np.isin(_pair_numbers(test), _pair_numbers(train))
    n_users, n_common_users = (len(np.unique(users)) for users in (test.users, test.users[is_common]))
    return {
        "pairs": int(is_common.sum()),
        "share": float(is_common.mean()) if len(test) else 0.0,
        "users": n_common_users,
        "user_share": n_common_users / n_users if n_users else 0.0,
    }


def overlap_sentence(overlap: dict[str, Any]) -> str:
    """Sentence of the caution about an overlap, or an empty string if there is none."""
    if not overlap.get("pairs"):
        return ""
    return (
        f"{overlap['pairs']:,} held-out pairs ({overlap['share']:.1%}) of {overlap['users']:,} users "
        f"({overlap['user_share']:.1%}) are also in the training data"
    )


def _pair_numbers(interactions: Interactions) -> np.ndarray[Any, np.dtype[np.int64]]:
    """One number for each pair of user and item, shape (interactions,)."""
    return interactions.users.astype(np.int64) * interactions.n_items + interactions.items
