"""The same users are recognized by their histories, also after growth, and other users are not."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recaudit.data import Interactions
from recaudit.data.signatures import compute_signatures, count_same_histories


def interactions(histories: list[np.ndarray], *, ids: list[int] | None = None) -> Interactions:
    users = ids or list(range(len(histories)))
    rows = [(f"u{user}", int(item), 3.0) for user, items in zip(users, histories, strict=True) for item in items]
    frame = pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row")
    return Interactions.from_frame(frame, scale=(1, 5))


def random_histories(n_users: int, length: int, n_items: int, seed: int = 0) -> list[np.ndarray]:
    """Histories with popular items, the most popular one in about a third of them."""
    draw = np.random.default_rng(seed)
    popularity = 1 / (np.arange(n_items) + 10)
    return [draw.choice(n_items, length, replace=False, p=popularity / popularity.sum()) for _ in range(n_users)]


def share(old: Interactions, new: Interactions) -> float:
    n_common, n_same = count_same_histories(compute_signatures(old), compute_signatures(new))
    return n_same / n_common


def test_bits_agree_as_often_as_histories_overlap() -> None:
    """The mean share of equal bits is (1 + J) / 2 with the Jaccard similarity J."""
    items = np.arange(90)
    for shared, similarity in ((0, 0.0), (20, 0.5), (30, 1.0)):
        n = 200
        draw = np.random.default_rng(shared)
        orders = [draw.permutation(items) for _ in range(n)]
        one = compute_signatures(interactions([order[:30] for order in orders]))
        other = compute_signatures(
            interactions([np.append(order[:shared], order[60 : 90 - shared]) for order in orders])
        )
        both = one.join(other, on="user", suffix="_new")
        equal = 64 - np.bitwise_count(both["signature"].to_numpy() ^ both["signature_new"].to_numpy())
        assert equal.mean() / 64 == pytest.approx((1 + similarity) / 2, abs=0.015)


def test_the_same_users_are_recognized_after_growth_and_loss() -> None:
    histories = random_histories(200, 60, 2000)
    whole = interactions(histories)
    assert share(whole, whole) == 1
    assert share(interactions([own[:54] for own in histories]), whole) > 0.95
    assert share(interactions([own[:30] for own in histories]), whole) > 0.9


def test_other_users_under_the_same_ids_are_not() -> None:
    histories = random_histories(300, 60, 2000)
    whole = interactions(histories)
    assert share(whole, interactions(histories, ids=[7 * user % 300 + 1 for user in range(300)])) < 0.1
    assert share(whole, interactions(random_histories(300, 60, 2000, seed=1))) < 0.1


def test_ids_of_items_and_users_may_be_numbers_or_text() -> None:
    histories = random_histories(20, 10, 100)
    frame = interactions(histories).frame()
    text = Interactions.from_frame(frame.with_columns(pl.col("item").cast(pl.String)), scale=(1, 5))
    one, other = (compute_signatures(data).sort("user") for data in (interactions(histories), text))
    assert one.equals(other)


def test_users_without_history_have_no_signature_and_one_user_is_compared() -> None:
    data = interactions([np.arange(5)])
    assert compute_signatures(data)["user"].to_list() == ["u0"]
    assert count_same_histories(compute_signatures(data), compute_signatures(data)) == (1, 1)
    other = compute_signatures(interactions([np.arange(50, 60)]))
    assert count_same_histories(compute_signatures(data), other) == (1, 0)
    assert count_same_histories(compute_signatures(data), other.clear()) == (0, 0)
