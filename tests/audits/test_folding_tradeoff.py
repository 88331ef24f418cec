"""The trade-off between accuracy and folding: fronts by hand, a grid on worlds of blocks, and going on after a stop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from polars.testing import assert_frame_equal

from recaudit.audits import Relatedness, accuracy, folding
from recaudit.audits.folding.tradeoff import Tradeoff, folding_tradeoff, knee, on_front, spearman
from recaudit.data import Interactions, splits
from recaudit.data.synthetic import BlockWorld, blocks, toy
from recaudit.engines import Step, listening
from recaudit.errors import DamageWarning, InputError
from recaudit.models import WALS, FactorModel

GRID = {"factors": (2, 3), "unobserved_weights": (0.0, 0.1, 1.0)}
BASE = WALS(iterations=4, regularization=0.1, center="none")
MILD, SHORT = (BASE.model_copy(update=change) for change in ({"regularization": 0.2}, {"iterations": 3}))


@pytest.fixture(scope="module")
def small() -> BlockWorld:
    return blocks(users=90, items=80, user_groups=4, item_groups=4, on_density=0.4, rng=1)


def study(data: Interactions | BlockWorld, **settings: object) -> Tradeoff:
    chosen = {**GRID, "recommender": BASE, **settings}
    return folding_tradeoff(data, **chosen)  # type: ignore[arg-type]  # settings as a test names them


def fits(monkeypatch: pytest.MonkeyPatch) -> list[WALS]:
    """Every recommender that is fitted from now on."""
    fitted: list[WALS] = []
    fit = WALS.fit

    def noted(self: WALS, data: Interactions, rng: int = 0) -> FactorModel:
        fitted.append(self)
        return fit(self, data, rng)

    monkeypatch.setattr(WALS, "fit", noted)
    return fitted


class TestFronts:
    def test_a_point_that_another_beats_in_both_is_not_on_the_front(self) -> None:
        rmse, folded = np.array([1.0, 2.0, 3.0, 2.0]), np.array([3.0, 2.0, 1.0, 2.5])
        assert on_front(rmse, folded).tolist() == [True, True, True, False]

    def test_equals_are_both_on_the_front(self) -> None:
        assert on_front(np.array([1.0, 1.0]), np.array([2.0, 2.0])).all()

    def test_as_low_in_one_and_higher_in_the_other_is_beaten(self) -> None:
        assert on_front(np.array([1.0, 1.0]), np.array([2.0, 3.0])).tolist() == [True, False]

    @given(arrays(np.float64, (2, 12), elements=st.floats(0, 10, width=16)))
    def test_whatever_is_beaten_is_beaten_by_the_front(self, points: np.ndarray) -> None:
        first, second = points
        front = on_front(first, second)
        for a, b in zip(first[~front], second[~front], strict=True):
            assert ((first[front] <= a) & (second[front] <= b)).any()

    def test_the_knee_lies_farthest_below_the_chord_of_scaled_axes(self) -> None:
        # Scaled, the front is (0, 1), (0.1, 0.4), (0.5, 0.3), (1, 0): 0.5 below the chord, then 0.2.
        rmse = np.array([10.0, 11.0, 15.0, 20.0, 19.0])
        folded = np.array([0.2, 0.08, 0.06, 0.0, 0.19])
        assert knee(rmse, folded) == 1

    def test_a_straight_front_has_no_knee(self) -> None:
        assert knee(np.array([0.0, 0.3, 1.0]), np.array([1.0, 0.7, 0.0])) is None

    def test_a_front_that_bulges_the_wrong_way_has_no_knee(self) -> None:
        assert knee(np.array([0.0, 0.8, 1.0]), np.array([1.0, 0.9, 0.0])) is None

    @pytest.mark.parametrize("points", [1, 2])
    def test_one_or_two_points_have_no_knee(self, points: int) -> None:
        assert knee(np.arange(points, dtype=float), -np.arange(points, dtype=float)) is None


class TestGrid:
    def test_a_cell_has_the_numbers_of_its_model(self, small: BlockWorld) -> None:
        found = study(small, factors=(2,), unobserved_weights=(0.1,), rng=5)
        recommender = WALS(factors=2, unobserved_weight=0.1, regularization=0.1, center="none", iterations=4)
        model = recommender.fit(small.data, rng=5)
        truth = Relatedness.from_blocks(small.user_group, small.item_group, small.related)
        row = found.cells.row(0, named=True)
        assert row["rmse"] == accuracy(model, small.held_out)["rmse"]
        assert row["folding"] == folding(model, relatedness=truth)["folding"]
        assert row["shown_folding"] == folding(model, relatedness=truth)["shown_folding"]
        assert found.best().recommender == recommender

    def test_every_model_has_a_row(self, small: BlockWorld) -> None:
        found = study(small)
        assert found.frame.select("factors", "unobserved_weight").rows() == [
            (factors, weight) for factors in (2, 3) for weight in (0.0, 0.1, 1.0)
        ]
        assert found.relatedness == ["truth"]

    def test_as_unrated_pairs_count_more_folding_falls_and_the_error_rises(self) -> None:
        world = blocks(users=200, items=240, on_density=0.5, rng=1)
        more = BASE.model_copy(update={"iterations": 15})
        found = study(world, factors=(3,), unobserved_weights=(0.0, 0.01, 0.03, 0.1, 0.3, 1.0), recommender=more)
        folded = found.frame["folding"].to_list()
        assert folded == sorted(folded, reverse=True)
        assert found.frame["rmse"].to_list() == sorted(found.frame["rmse"])
        assert found.correlations()["folding"].to_list() == [pytest.approx(-1.0)]
        assert found.best().recommender.unobserved_weight == 0.0
        assert 0.2 < found.best().folding <= world.off_share

    def test_front_and_knee_are_among_the_models(self, small: BlockWorld) -> None:
        found = study(small, factors=(2, 4), unobserved_weights=(0.0, 0.03, 0.1, 1.0))
        front = found.front()
        assert front["rmse"].to_list() == sorted(front["rmse"])
        assert front["folding"].to_list() == sorted(front["folding"], reverse=True)
        chosen = found.knee()
        assert chosen is not None
        assert (chosen.rmse, chosen.folding) in front.select("rmse", "folding").rows()
        assert chosen.recommender.fit(small.data).data is small.data
        assert "knee" in found.summary()

    def test_a_tenth_is_held_out_and_related_by_the_log_where_nothing_is_said(self, small: BlockWorld) -> None:
        train, test = splits.random(small.data, 0.1, rng=3)
        given_both = study(train, test=test, relatedness={"log": Relatedness.from_log(train)}, rng=3)
        assert_frame_equal(study(small.data, rng=3).cells, given_both.cells)


class TestRelatedness:
    def test_the_same_relatedness_twice_agrees_in_full(self, small: BlockWorld) -> None:
        log = Relatedness.from_log(small.data)
        found = study(small, relatedness={"one": log, "two": log})
        agreement = found.agreement().row(0, named=True)
        assert (agreement["first"], agreement["second"], agreement["models"]) == ("one", "two", 6)
        assert agreement["spearman"] == pytest.approx(1.0)
        assert agreement["lowest_at_fixed_factors"] == pytest.approx(1.0)

    def test_all_are_measured_on_the_same_models(self, small: BlockWorld) -> None:
        both = {"log": Relatedness.from_log(small.data), "group": Relatedness.from_categories(small.data, "group")}
        found = study(small, relatedness=both)
        first, second = (found.frame.filter(pl.col("relatedness") == name) for name in both)
        assert_frame_equal(first.select("factors", "rmse"), second.select("factors", "rmse"))
        assert first["folding"].to_list() != second["folding"].to_list()
        assert found.front("group").height >= 1

    def test_a_name_that_was_not_measured_is_told(self, small: BlockWorld) -> None:
        with pytest.raises(InputError, match=r"Did you mean 'truth'\?"):
            study(small).front("thruth")

    @pytest.mark.parametrize(
        ("first", "second", "expected"),
        [
            ([1, 2, 3], [1, 8, 9], 1.0),
            ([1, 2, 3], [3, 2, 1], -1.0),
            ([1, 2], [1, 2], None),
            ([1, 2, 3], [5, 5, 5], None),
        ],
    )
    def test_spearman(self, first: list[float], second: list[float], expected: float | None) -> None:
        found = spearman(pl.Series(first, dtype=pl.Float64), pl.Series(second, dtype=pl.Float64))
        assert found == (None if expected is None else pytest.approx(expected))


class TestRepetitions:
    def test_one_has_no_spread_and_several_have(self, small: BlockWorld) -> None:
        assert study(small).frame["rmse_sd"].null_count() == 6
        found = study(small.data, repetitions=2, factors=(2,), unobserved_weights=(0.1,))
        first, second = found.cells["rmse"]
        row = found.frame.row(0, named=True)
        assert row["repetitions"] == 2
        assert row["rmse"] == pytest.approx((first + second) / 2)
        assert row["rmse_sd"] == pytest.approx(abs(first - second) / 2**0.5)

    def test_the_first_repetition_is_the_study_without_any(self, small: BlockWorld) -> None:
        alone, several = study(small.data), study(small.data, repetitions=2)
        assert_frame_equal(several.cells.filter(pl.col("repetition") == 0), alone.cells)

    def test_of_several_worlds_each_is_a_repetition(self, small: BlockWorld) -> None:
        other = blocks(users=90, items=80, user_groups=4, item_groups=4, on_density=0.4, rng=2)
        found = folding_tradeoff(
            [small, other], factors=(2,), unobserved_weights=(0.1,), recommender=WALS(iterations=2)
        )
        assert found.cells["repetition"].to_list() == [0, 1]
        assert found.cells["rmse"].n_unique() == 2


class TestGoingOn:
    def test_an_interrupted_study_goes_on_and_gives_the_same_numbers(self, small: BlockWorld, tmp_path: Path) -> None:
        def stop(step: Step) -> None:
            if step.label == "folding trade-off" and step.done == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), listening(stop):
            study(small, cache=tmp_path / "cells")
        assert len(list((tmp_path / "cells").iterdir())) == 2
        assert_frame_equal(study(small, cache=tmp_path / "cells").cells, study(small).cells)

    @pytest.mark.parametrize("damage", ["cut", "a digit", "no JSON", "empty"])
    def test_a_damaged_cell_is_measured_again_and_said(self, small: BlockWorld, tmp_path: Path, damage: str) -> None:
        one: dict[str, object] = {"factors": (2,), "unobserved_weights": (0.1,), "cache": tmp_path}
        before = study(small, **one)
        (file,) = tmp_path.glob("*.json")
        content = file.read_bytes()
        place = content.index(b'"ndcg": 0.') + len(b'"ndcg": 0.')
        other = b"1" if content[place : place + 1] != b"1" else b"2"
        file.write_bytes(
            {
                "cut": content[:-9],
                "a digit": content[:place] + other + content[place + 1 :],
                "no JSON": b"[]",
                "empty": b"",
            }[damage]
        )
        with pytest.warns(DamageWarning, match=f"{file.name} is not as it was written"):
            assert_frame_equal(study(small, **one).cells, before.cells)
        assert_frame_equal(study(small, **one).cells, before.cells)  # read, and no warning is an error

    def test_what_was_measured_is_not_fitted_again(
        self, small: BlockWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = study(small, cache=tmp_path)
        fitted = fits(monkeypatch)
        again = study(small, cache=tmp_path, factors=(2, 3, 4))
        assert {recommender.factors for recommender in fitted} == {4}
        assert_frame_equal(again.cells.filter(pl.col("factors") < 4), before.cells)

    @pytest.mark.parametrize(
        "changed",
        [{"rng": 1}, {"similarity": "dot"}, {"k": 5}, {"recommender": WALS(iterations=3)}, {"recommender": MILD}],
    )
    def test_another_setting_is_another_cell(
        self, small: BlockWorld, tmp_path: Path, changed: dict[str, object]
    ) -> None:
        one: dict[str, object] = {"factors": (2,), "unobserved_weights": (0.1,), "cache": tmp_path}
        study(small, **one)
        study(small, **(one | changed))
        assert len(list(tmp_path.iterdir())) == 2

    def test_another_relatedness_is_another_cell(self, small: BlockWorld, tmp_path: Path) -> None:
        for rank in (2, 3):
            related = {"log": Relatedness.from_log(small.data, rank)}
            study(small, relatedness=related, factors=(2,), unobserved_weights=(0.1,), cache=tmp_path)
        assert len(list(tmp_path.iterdir())) == 2


class TestMistakes:
    @pytest.mark.parametrize(
        ("settings", "argument"),
        [
            ({"factors": ()}, "factors"),
            ({"unobserved_weights": ()}, "unobserved_weights"),
            ({"repetitions": 0}, "repetitions"),
            ({"relatedness": {}}, "relatedness"),
        ],
    )
    def test_settings_that_make_no_study_are_told(
        self, small: BlockWorld, settings: dict[str, object], argument: str
    ) -> None:
        with pytest.raises(InputError, match=argument):
            study(small, **settings)

    def test_several_worlds_are_repetitions_already(self, small: BlockWorld) -> None:
        with pytest.raises(InputError, match="each is a repetition"):
            folding_tradeoff([small], repetitions=2)
        with pytest.raises(InputError, match="no world"):
            folding_tradeoff([])

    def test_a_world_without_held_out_ratings_is_told(self) -> None:
        with pytest.raises(InputError, match="held-out ratings"):
            study(toy())
