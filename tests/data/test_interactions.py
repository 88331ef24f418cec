from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from recaudit.data import Interactions
from recaudit.errors import DataError, InputError

FRAME = pl.DataFrame({"user": ["u", "v", "u"], "item": [7, 7, 9], "rating": [1.0, 5.0, 3.0]})


def test_rows_are_sorted_and_ids_come_back(tiny: Interactions) -> None:
    assert tiny.user_ids.to_list() == ["ada", "bob", "cem"]
    assert tiny.item_ids.to_list() == ["a", "b", "c", "d"]
    assert tiny.frame().rows() == [
        ("ada", "a", 5.0, 10),
        ("ada", "b", 3.0, 20),
        ("ada", "c", 1.0, 30),
        ("bob", "a", 2.0, 10),
        ("bob", "b", 4.0, 20),
        ("cem", "d", 5.0, 5),
    ]


def test_the_order_of_rows_does_not_matter(tiny: Interactions) -> None:
    shuffled = Interactions.from_frame(tiny.frame().sample(fraction=1, shuffle=True, seed=3), time="time", scale=(1, 5))
    assert shuffled.fingerprint == tiny.fingerprint


def test_the_fingerprint_sees_every_part(tiny: Interactions) -> None:
    other_rating = Interactions.from_frame(
        tiny.frame().with_columns(rating=pl.Series([5.0, 3.0, 1.0, 2.0, 4.0, 4.0])), time="time", scale=(1, 5)
    )
    titled = tiny.with_items(pl.DataFrame({"item": ["a"], "title": ["A"]}), title="title")
    grouped = tiny.with_users(pl.DataFrame({"user": ["ada"], "age": [3]}), attributes=["age"])
    prints = {tiny.fingerprint, other_rating.fingerprint, titled.fingerprint, grouped.fingerprint}
    assert len(prints) == 4


def test_csr_and_csc_hold_the_same_ratings(tiny: Interactions) -> None:
    dense = np.array([[5, 3, 1, 0], [2, 4, 0, 0], [0, 0, 0, 5]], dtype=float)
    np.testing.assert_array_equal(tiny.csr.toarray(), dense)
    np.testing.assert_array_equal(tiny.csc.toarray(), dense)


def test_a_rating_of_zero_is_an_observation() -> None:
    data = Interactions.from_frame(pl.DataFrame({"user": [1, 1], "item": [1, 2], "rating": [0.0, 3.0]}))
    assert data.csr.nnz == 2
    assert data.csc.nnz == 2
    assert data.seen(np.array([0])).tolist() == [[True, True]]


def test_seen_handles_any_users(tiny: Interactions) -> None:
    expected = [[False, False, False, True], [True, True, True, False], [True, True, True, False]]
    assert tiny.seen(np.array([2, 0, 0])).tolist() == expected


def test_arrays_cannot_be_written(tiny: Interactions) -> None:
    with pytest.raises(ValueError, match="read-only"):
        tiny.ratings[0] = 3


@pytest.mark.parametrize("convert", [pl.DataFrame.to_pandas, pl.DataFrame.to_arrow, pl.DataFrame.lazy])
def test_any_data_frame_will_do(convert: Any) -> None:
    assert Interactions.from_frame(convert(FRAME)).fingerprint == Interactions.from_frame(FRAME).fingerprint


def test_pandas_integer_and_arrow_dictionary_ids() -> None:
    frame = pd.DataFrame({"user": pd.Categorical(["x", "y"]), "item": [3.0, 2.0], "rating": [1, 2]})
    assert Interactions.from_frame(frame).item_ids.to_list() == [2, 3]
    table = pa.table({"user": pa.array(["x", "y"]).dictionary_encode(), "item": [1, 2], "rating": [1, 2]})
    assert Interactions.from_frame(table).user_ids.to_list() == ["x", "y"]


def test_ids_far_apart_and_negative() -> None:
    frame = pl.DataFrame({"user": [-(2**60), 2**60], "item": [5, -5], "rating": [1.0, 2.0]})
    data = Interactions.from_frame(frame)
    assert data.frame().rows() == [(-(2**60), 5, 1.0), (2**60, -5, 2.0)]


def test_without_ratings_every_row_is_one() -> None:
    assert Interactions.from_frame(FRAME.drop("rating"), rating=None).ratings.tolist() == [1, 1, 1]


def test_dates_become_numbers_in_order() -> None:
    times = [dt.date(2020, 1, 2), dt.date(2020, 1, 1), dt.date(2021, 1, 1)]
    data = Interactions.from_frame(FRAME.with_columns(time=pl.Series(times)), time="time")
    assert data.times is not None
    assert np.argsort(data.times).tolist() == [2, 0, 1]


def test_the_scale_is_declared_or_observed() -> None:
    assert Interactions.from_frame(FRAME).scale == (1.0, 5.0)
    assert Interactions.from_frame(FRAME, scale=(0, 10)).scale == (0.0, 10.0)


def test_subset_keeps_every_id_and_position(tiny: Interactions) -> None:
    part = tiny.subset(tiny.ratings >= 4)
    assert part.user_ids.equals(tiny.user_ids)
    assert part.item_ids.equals(tiny.item_ids)
    assert part.frame()["rating"].to_list() == [5.0, 4.0, 5.0]
    assert part.user_counts.tolist() == [1, 1, 1]


def test_it_can_be_pickled(world: Any) -> None:
    assert pickle.loads(pickle.dumps(world.data)).fingerprint == world.data.fingerprint


class TestDuplicates:
    frame = pl.DataFrame({"user": [1, 1, 1], "item": [4, 4, 5], "rating": [1.0, 5.0, 2.0], "time": [9, 3, 1]})

    def test_are_refused_by_default_with_their_rows(self) -> None:
        with pytest.raises(DataError, match=r"rows 0 and 1: user=1 item=4 .*duplicates = 'last'"):
            Interactions.from_frame(self.frame)

    def test_last_row_without_times(self) -> None:
        assert Interactions.from_frame(self.frame, duplicates="last").ratings.tolist() == [5.0, 2.0]

    def test_latest_with_times(self) -> None:
        data = Interactions.from_frame(self.frame, time="time", duplicates="last")
        assert data.ratings.tolist() == [1.0, 2.0]
        assert data.times is not None
        assert data.times.tolist() == [9, 1]

    def test_mean(self) -> None:
        data = Interactions.from_frame(self.frame, time="time", duplicates="mean")
        assert data.ratings.tolist() == [3.0, 2.0]

    def test_unknown_policy(self) -> None:
        with pytest.raises(InputError, match="Did you mean 'last'"):
            Interactions.from_frame(self.frame, duplicates="latst")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (FRAME, {"user": "usr"}, r"column 'usr'.*Did you mean 'user'"),
        (FRAME.clear(), {}, "no rows"),
        ({"user": [1]}, {}, "received a dict; expected a pandas, polars or pyarrow"),
        (
            FRAME.with_columns(rating=pl.Series([1.0, None, 2.0])),
            {},
            r"column 'rating'.*row 1: None \(1 of 3 rows\)",
        ),
        (FRAME.with_columns(rating=pl.Series([1.0, 2.0, float("inf")])), {}, "row 2: inf"),
        (FRAME.with_columns(rating=pl.Series(["1", "good", "2"])), {}, "row 1: 'good'"),
        (FRAME, {"scale": (1, 4)}, r"row 1: 5.0 .*declared scale \[1, 4\]"),
        (FRAME, {"scale": (5, 1)}, "lowest below highest"),
        (FRAME.with_columns(user=pl.Series(["a", None, "c"])), {}, r"column 'user'.*row 1: None"),
        (FRAME.with_columns(user=pl.Series(["a", " ", "c"])), {}, r"column 'user'.*row 1: ' '"),
        (FRAME.with_columns(item=pl.Series([1.0, 2.5, 3.0])), {}, r"column 'item'.*row 1: 2.5"),
        (FRAME.with_columns(item=pl.Series([True, False, True])), {}, "ids as integers or text"),
        (
            FRAME.with_columns(time=pl.Series(["a", "b", "c"])),
            {"time": "time"},
            "numbers, dates or date-times",
        ),
        (FRAME.with_columns(time=pl.Series([1, None, 3])), {"time": "time"}, "row 1: None"),
    ],
)
def test_bad_input_names_column_rows_and_remedy(frame: object, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Interactions.from_frame(frame, **options)


class TestItemsAndUsers:
    def test_titles_and_categories(self, tiny: Interactions) -> None:
        items = pl.DataFrame({"item": ["c", "a", "d"], "name": ["C!", "A!", None], "genres": ["x|y", "y", None]})
        data = tiny.with_items(items, title="name", categories={"genre": "genres"})
        assert data.item_labels(np.array([0, 1, 2, 3])) == ["A!", "b", "C!", "d"]
        assert data.categories["genre"].names == ("x", "y")
        weights = data.categories["genre"].weights.toarray()
        np.testing.assert_array_equal(weights, [[0, 1], [0, 0], [0.5, 0.5], [0, 0]])

    def test_lists_and_repeated_names(self, tiny: Interactions) -> None:
        items = pl.DataFrame({"item": ["a", "b"], "tags": [["p", "q", "p"], []]})
        data = tiny.with_items(items, categories={"tag": "tags"})
        np.testing.assert_array_equal(data.categories["tag"].weights.toarray()[0], [0.5, 0.5])

    def test_weighted_categories_sum_to_one_and_systems_add_up(self, tiny: Interactions) -> None:
        long = pl.DataFrame({"item": ["a", "a", "b"], "category": ["x", "y", "y"], "weight": [3, 1, 7]})
        data = tiny.with_categories("genre", long, weight="weight")
        data = data.with_categories("language", pl.DataFrame({"item": ["a"], "category": ["tr"]}))
        np.testing.assert_array_equal(data.categories["genre"].weights.toarray()[:2], [[0.75, 0.25], [0, 1]])
        assert list(data.categories) == ["genre", "language"]

    @pytest.mark.parametrize("size", [5e-324, 1e308])
    def test_the_size_of_category_weights_does_not_matter(self, tiny: Interactions, size: float) -> None:
        long = pl.DataFrame({"item": ["a", "a"], "category": ["x", "y"], "weight": [size, size]})
        data = tiny.with_categories("genre", long, weight="weight")
        np.testing.assert_allclose(data.categories["genre"].weights.toarray()[0], [0.5, 0.5])

    def test_attributes_align_with_users(self, tiny: Interactions) -> None:
        people = pl.DataFrame({"id": ["cem", "ada"], "age": [30, 20]})
        data = tiny.with_users(people, user="id", attributes=["age"])
        assert data.attributes["age"].to_list() == [20, None, 30]

    def test_unknown_ids_are_an_error_or_ignored(self, tiny: Interactions) -> None:
        items = pl.DataFrame({"item": ["a", "zz"], "title": ["A", "Z"]})
        with pytest.raises(DataError, match=r"row 1: 'zz'.*unknown = 'ignore'"):
            tiny.with_items(items, title="title")
        data = tiny.with_items(items, title="title", unknown="ignore")
        assert data.item_labels(np.array([0])) == ["A"]

    def test_users_without_interactions_are_an_error(self, tiny: Interactions) -> None:
        with pytest.raises(DataError, match="row 0: 'dan'"):
            tiny.with_users(pl.DataFrame({"user": ["dan"], "age": [1]}), attributes=["age"])

    def test_one_row_an_item(self, tiny: Interactions) -> None:
        with pytest.raises(DataError, match="one row for each id"):
            tiny.with_items(pl.DataFrame({"item": ["a", "a"], "title": ["A", "B"]}), title="title")

    @pytest.mark.parametrize("weight", [0.0, -1.0, float("nan")])
    def test_weights_are_positive(self, tiny: Interactions, weight: float) -> None:
        long = pl.DataFrame({"item": ["a"], "category": ["x"], "weight": [weight]})
        with pytest.raises(DataError, match="weights above 0"):
            tiny.with_categories("genre", long, weight="weight")


def test_ids_to_positions(tiny: Interactions) -> None:
    assert tiny.users_at(["cem", "ada", "cem"]).tolist() == [2, 0, 2]
    with pytest.raises(DataError, match=r"users: received row 0: 'bobb'.*Did you mean 'bob'"):
        tiny.users_at(["bobb"])


def test_it_prints_what_it_is(tiny: Interactions) -> None:
    assert repr(tiny) == "Interactions(3 users x 4 items, 6 ratings in [1, 5], density 50.00%)"


class TestColumnsOfTheWrongKind:
    @pytest.mark.parametrize(
        "values",
        [
            [dt.date(2020, 1, 1)] * 3,
            [dt.datetime(2020, 1, 1)] * 3,  # noqa: DTZ001
            [dt.timedelta(days=1)] * 3,
            [dt.time(1)] * 3,
            [True, False, True],
            [b"1"] * 3,
            [[1]] * 3,
            pl.Series(["1", "2", "1"], dtype=pl.Categorical),
            pl.Series([object()] * 3, dtype=pl.Object),
        ],
    )
    def test_ratings_are_numbers(self, values: Any) -> None:
        with pytest.raises(DataError, match=r"column 'rating': received values of type .*expected numbers"):
            Interactions.from_frame(FRAME.with_columns(rating=pl.Series(values)))

    @pytest.mark.parametrize("values", [[dt.timedelta(days=1)] * 3, [dt.time(1)] * 3, ["noon"] * 3, [True] * 3])
    def test_times_are_numbers_or_dates(self, values: Any) -> None:
        with pytest.raises(DataError, match=r"column 'time': received values of type"):
            Interactions.from_frame(FRAME.with_columns(time=pl.Series(values)), time="time")

    def test_times_beyond_64_bits_are_not_wrapped(self) -> None:
        times = pl.Series([1, 2**63, 3], dtype=pl.UInt64)
        with pytest.raises(DataError, match=r"column 'time': received row 1: 9223372036854775808"):
            Interactions.from_frame(FRAME.with_columns(time=times), time="time")

    @pytest.mark.parametrize("scale", [(1, 5, 9), "15", (1,), ("1", "5"), {1: 5}, (True, 5), (5, 1), (1, float("nan"))])
    def test_a_scale_is_two_numbers(self, scale: Any) -> None:
        with pytest.raises(InputError, match=r"^scale: received"):
            Interactions.from_frame(FRAME, scale=scale)

    def test_what_to_do_is_one_of_the_words(self, tiny: Interactions) -> None:
        wrong: Any = "bogus"
        with pytest.raises(InputError, match=r"duplicates: received 'bogus'; expected 'error' or 'last' or 'mean'"):
            Interactions.from_frame(FRAME, duplicates=wrong)
        with pytest.raises(InputError, match=r"unknown: received 'bogus'; expected 'error' or 'ignore'"):
            tiny.with_items(pl.DataFrame({"item": ["a"]}), unknown=wrong)

    def test_weights_of_any_size_become_shares(self, tiny: Interactions) -> None:
        long = pl.DataFrame({"item": ["a", "a", "b"], "category": ["x", "y", "y"], "weight": [1e308, 1e308, 1e-308]})
        shares = tiny.with_categories("genre", long, weight="weight").categories["genre"].weights.toarray()
        np.testing.assert_allclose(shares[:2], [[0.5, 0.5], [0.0, 1.0]])

    @pytest.mark.parametrize("values", [[{"a": 1}], [[[1]]], pl.Series([object()], dtype=pl.Object), [b"x"]])
    def test_titles_categories_and_attributes_have_names(self, tiny: Interactions, values: Any) -> None:
        frame = pl.DataFrame({"item": ["a"], "user": ["ada"], "what": pl.Series(values)})
        with pytest.raises(DataError, match="column 'what': received values of type"):
            tiny.with_items(frame, title="what")
        with pytest.raises(DataError, match="column 'what': received values of type"):
            tiny.with_users(frame, attributes=["what"])
        with pytest.raises(DataError, match="column 'what': received values of type"):
            tiny.with_categories("genre", frame, category="what")
        with pytest.raises(DataError, match="column 'what': received values of type"):
            tiny.with_items(frame, categories={"genre": "what"})

    def test_two_columns_of_one_name(self) -> None:
        frame = FRAME.to_pandas()
        with pytest.raises(DataError, match=r"frame: received several columns named 'user'"):
            Interactions.from_frame(pd.concat([frame, frame[["user"]]], axis=1))
        table = FRAME.to_arrow()
        with pytest.raises(DataError, match=r"frame: received several columns named 'item'"):
            Interactions.from_frame(table.append_column("item", table.column("item")))

    def test_values_of_several_kinds_in_one_column(self) -> None:
        mixed: list[Any] = [1, "a", object()]
        frame = FRAME.to_pandas().assign(user=mixed)
        with pytest.raises(DataError, match=r"column 'user': received values that cannot be read"):
            Interactions.from_frame(frame)
        with pytest.raises(DataError, match=r"column 'rating': received values that cannot be read"):
            Interactions.from_frame(FRAME.to_pandas().assign(rating=np.ones(3, dtype=complex)))


@pytest.mark.parametrize("duplicates", ["last", "mean"])
def test_merged_repeats_are_counted(duplicates: Any) -> None:
    frame = pl.DataFrame({"user": [1, 1, 1, 2], "item": [7, 7, 7, 7], "rating": [1.0, 2.0, 3.0, 4.0]})
    assert Interactions.from_frame(frame, duplicates=duplicates).facts == {"merged_repeats": 2}
    assert Interactions.from_frame(frame[2:]).facts == {}
