"""Charts are valid, draw the numbers of the tables, and leave out what is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import pytest
import vl_convert

from recaudit.report.evidence import Evidence
from recaudit.report.kit.charts import (
    OTHERS,
    SERIES,
    THEME,
    Figure,
    height_of,
    label_sides,
    log_axis,
    series_colors,
    unnamed,
)
from recaudit.report.kit.comparisons import before_and_after, figures_by_model, group_tables, groups_by, models_by
from recaudit.report.sections.exposure import amplification, lorenz, popularity_shares, tradeoff
from recaudit.report.sections.reachability import chances, lifts
from report.crafted_runs import Data, Film, Model, Pair, accuracy, exposure, groups, reachability, write_run

FILMS = [Film("A", 20, 4.0, 0), Film("B", 20, 3.0, 1), Film("C", 20, 3.0, 1), Film("D", 20, 3.0, 2)]


def rows_of(figure: Figure | None) -> list[dict[str, Any]]:
    assert figure is not None
    return [row for rows in figure.spec["datasets"].values() for row in rows]


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    genre = groups(
        "genre",
        "share",
        {"Up": (0.6, 0.5, 0.7), "Level": (0.3, 0.2, 0.5), "Down": (0.1, 0.05, 0.15), "None": 0.0},
        {"Up": 0.3, "Level": 0.3, "Down": 0.3, "None": 0.1},
    )
    quarters = {"1: 0-9 ratings": 0.2, "2: 10-99 ratings": 0.8}
    popular = groups("popularity", "share", {"1: 0-9 ratings": 0.1, "2: 10-99 ratings": 0.9}, quarters)
    history = groups("history", "ndcg", {"1: 1-9 ratings": (0.1, 0.05, 0.15), "2: 10-90 ratings": (0.4, 0.3, 0.5)})
    found = {"1: 1-9 ratings": (0.5, 0.4, 0.6), "2: 10-90 ratings": (0.7, 0.6, 0.8)}
    discovery = groups("history", "discovery", found, {"1: 1-9 ratings": 0.2, "2: 10-90 ratings": 0.3})
    pairs = [Pair("ada", "a", 0.01, 0.05), Pair("ada", "b", 0.02, 0.02), Pair("bob", "a", 0.1, 0.05)]
    reached = reachability(pairs, {"a": "Alien"}, by=[discovery])
    models = [
        Model("Main", [accuracy((0.3, 0.2, 0.4), None, by=[history]), exposure(FILMS, by=[genre, popular]), reached]),
        Model("Hits", [accuracy(0.2, by=[history]), exposure(FILMS, by=[genre, popular])], "top-pop"),
    ]
    return Evidence(write_run(tmp_path, models, Data(categories=("genre",))))


def every(evidence: Evidence) -> list[Figure | None]:
    return [
        models_by(evidence, "rmse"),
        models_by(evidence, "coverage"),
        groups_by(evidence, "ndcg", "history"),
        amplification(evidence, "genre"),
        popularity_shares(evidence),
        lorenz(evidence),
        tradeoff(evidence),
        chances(evidence, "Main"),
        lifts(evidence),
        before_and_after(evidence, "Main", "discovery", "history"),
    ]


def test_vega_lite_takes_every_chart(evidence: Evidence) -> None:
    for figure in every(evidence):
        assert figure is not None
        compiled = vl_convert.vegalite_to_vega({**figure.spec, "config": THEME, "width": 400})
        assert compiled["marks"]


def test_charts_do_not_depend_on_how_altair_is_set(evidence: Evidence) -> None:
    before = [figure.spec for figure in every(evidence) if figure]
    with alt.theme.enable("dark"), alt.data_transformers.enable("csv"):
        after = [figure.spec for figure in every(evidence) if figure]
    assert after == before


def test_a_model_without_a_value_is_written_as_such(evidence: Evidence) -> None:
    rows = rows_of(models_by(evidence, "rmse"))
    assert {"model": "Main", "note": "n/a", "right": False} in rows
    assert [row["value"] for row in rows if row["model"] == "Hits"] == [0.9]


def test_a_reference_far_off_is_written_at_the_edge(tmp_path: Path) -> None:
    models = [Model(f"M{value}", [accuracy(0.3, value)]) for value in (0.90, 0.92, 0.94)]
    models += [Model("Near", [accuracy(0.1, 1.0)], "top-pop"), Model("Far", [accuracy(0.1, 1.6)], "random")]
    rows = rows_of(models_by(Evidence(write_run(tmp_path, models)), "rmse"))
    assert [row["note"] for row in rows if "note" in row] == ["1.600 →"]
    drawn = {row["model"]: row["value"] for row in rows if "value" in row}
    assert drawn == {"M0.9": 0.90, "M0.92": 0.92, "M0.94": 0.94, "Near": 1.0, "Far": None}


def test_lorenz_curve_of_known_counts(evidence: Evidence) -> None:
    curve = {row["x"]: row["y"] for row in rows_of(lorenz(evidence)) if row.get("model") == "Main"}
    # Lists 0, 1, 1, 2: the least shown quarter has nothing, half of the items a quarter of the places.
    assert curve[0.0] == 0.0
    assert curve[1.0] == 1.0
    assert curve[0.75] == pytest.approx(0.5)
    assert all(0 <= y <= x for x, y in curve.items())


def test_amplification_is_share_over_baseline(evidence: Evidence) -> None:
    rows = {row["group"]: row for row in rows_of(amplification(evidence, "genre")) if row.get("model") == "Main"}
    assert {name: row["way"] for name, row in rows.items()} == {
        "Up": "up",
        "Level": "level",
        "Down": "down",
        "None": "down",
    }
    assert rows["Up"]["value"] == pytest.approx(2.0)
    assert rows["Down"]["value"] == pytest.approx(1 / 3)
    assert rows["None"]["value"] == 1 / 8  # nothing shown at all: drawn at the edge
    assert rows["None"]["told"] == "0.0% [0.0%, 0.0%] of places, 10.0% of ratings"


def test_places_by_popularity_start_with_the_data(evidence: Evidence) -> None:
    rows = rows_of(popularity_shares(evidence))
    assert [(row["bar"], row["place"]) for row in rows[:4]] == [
        ("ratings in the data", 0),
        ("ratings in the data", 1),
        ("Main", 0),
        ("Main", 1),
    ]
    assert [row["start"] for row in rows[:4]] == pytest.approx([0.0, 0.2, 0.0, 0.1])
    assert [row["end"] for row in rows[:4]] == pytest.approx([0.2, 1.0, 0.1, 1.0])


class TestReach:
    def test_each_pair_is_a_point_by_its_chances(self, evidence: Evidence) -> None:
        figure = chances(evidence, "Main")
        points = [row for row in rows_of(figure) if "user" in row]
        assert points[0] == {"user": "ada", "item": "Alien", "x": 0.01, "y": 0.05, "told": "1.00% to 5.00%"}
        assert [(row["x"], row["y"]) for row in points[1:]] == [(0.02, 0.02), (0.1, 0.05)]
        line = [row for row in rows_of(figure) if "user" not in row and "note" not in row]
        assert line == [{"x": 0.01, "y": 0.01}, {"x": 0.1, "y": 0.1}]
        assert figure is not None
        assert "33.3% of them above the line" in figure.description

    def test_a_policy_that_never_chooses_has_no_chart_of_chances(self, tmp_path: Path) -> None:
        pairs = [Pair("u", "a", 1.0, 1.0), Pair("u", "b", 0.0, 1.0), Pair("u", "c", 0.0, 0.0)]
        evidence = Evidence(write_run(tmp_path, [Model("A", [reachability(pairs)])]))
        assert chances(evidence, "A") is None

    def test_lifts_are_shares_of_pairs_and_end_in_nothing(self, evidence: Evidence) -> None:
        rows = [row for row in rows_of(lifts(evidence)) if "model" in row]
        # Lifts 0.5, 1 and 5 lie in the steps around 10^-0.35, 10^0.05 and 10^0.65.
        assert sum(row["y"] for row in rows) == pytest.approx(1, abs=1e-4)
        assert [row["y"] for row in (rows[0], rows[-1])] == [0, 0]
        assert [round(row["x"], 2) for row in rows if row["y"] > 0] == [0.45, 1.12, 4.47]

    def test_tails_are_cut(self, tmp_path: Path) -> None:
        pairs = [Pair("u", f"i{place}", 0.1, 0.1) for place in range(2000)]
        pairs.append(Pair("u", "far", 0.00001, 1.0))
        evidence = Evidence(write_run(tmp_path, [Model("A", [reachability(pairs)])]))
        assert max(row["x"] for row in rows_of(lifts(evidence))) < 2

    def test_groups_without_strategy_and_at_best(self, evidence: Evidence) -> None:
        figure = before_and_after(evidence, "Main", "discovery", "history")
        rows = rows_of(figure)
        assert [(row["group"], row["before"], row["value"]) for row in rows] == [
            ("1-9 ratings", 0.2, 0.5),
            ("10-90 ratings", 0.3, 0.7),
        ]
        assert figure is not None
        assert "1-9 ratings 20.0% to 50.0% [40.0%, 60.0%]" in figure.description


def test_labels_of_near_points_go_to_different_sides(tmp_path: Path) -> None:
    models = [Model(f"Model {i}", [accuracy(0.3 + i / 1000), exposure(FILMS)]) for i in range(3)]
    rows = rows_of(tradeoff(Evidence(write_run(tmp_path, models))))
    sides = {row["model"]: row["side"] for row in rows}
    assert len(set(sides.values())) == 3


def test_descriptions_tell_the_numbers(evidence: Evidence) -> None:
    figure = groups_by(evidence, "ndcg", "history")
    assert figure is not None
    assert figure.description == "nDCG@10 of Main by history: 1-9 ratings 0.100, 10-90 ratings 0.400."


def test_no_chart_without_numbers(tmp_path: Path) -> None:
    evidence = Evidence(write_run(tmp_path, [Model("A", [accuracy()])]))
    assert groups_by(evidence, "ndcg", "history") is None
    assert amplification(evidence, "genre") is None
    assert popularity_shares(evidence) is None
    assert lorenz(evidence) is None
    assert tradeoff(evidence) is None
    assert lifts(evidence) is None
    assert before_and_after(evidence, "A", "discovery", "history") is None


class TestOneModelOrMany:
    def test_a_few_models_have_a_colour_each(self) -> None:
        models = [f"M{place}" for place in range(SERIES)]
        assert len(set(series_colors(models, ["M0"]).values())) == SERIES

    def test_of_more_than_can_be_told_apart_the_first_have_a_colour(self) -> None:
        colors = series_colors([f"M{place}" for place in range(SERIES + 1)], ["M0", "M8", "M0"])
        named = {model: color for model, color in colors.items() if color != OTHERS}
        assert list(named) == ["M0", "M8"]
        assert len(set(named.values())) == 2

    def test_those_with_a_colour_lie_on_top(self, tmp_path: Path) -> None:
        models = [Model(f"M{place}", [accuracy(0.9 - place / 100), exposure(FILMS)]) for place in range(20)]
        models.append(Model("Hits", [accuracy(0.1), exposure(FILMS)], "top-pop"))
        rows = rows_of(lorenz(Evidence(write_run(tmp_path, models))))
        drawn = list(dict.fromkeys(row["model"] for row in rows if "model" in row))
        assert len(drawn) == 21
        assert drawn[-4:] == ["M0", "M1", "M2", "Hits"]

    def test_a_model_alone_is_in_the_table_and_not_in_a_chart(self, tmp_path: Path) -> None:
        alone = Evidence(write_run(tmp_path / "one", [Model("A", [accuracy()])]))
        assert figures_by_model(alone, "accuracy") == []
        both = Evidence(write_run(tmp_path / "two", [Model("A", [accuracy()]), Model("B", [accuracy()])]))
        assert len(figures_by_model(both, "accuracy")) == 7

    def test_many_rows_stand_closer(self) -> None:
        heights = [height_of(rows) for rows in range(1, 40)]
        assert heights[:3] == [24, 48, 72]
        assert 300 < height_of(20) < 400

    def test_among_many_points_a_name_that_would_hide_others_is_left_out_and_counted(self) -> None:
        crowd = label_sides({f"model {place}": (0.5, 0.5 + place / 1000) for place in range(20)})
        assert crowd["model 0"]
        left = [name for name, side in crowd.items() if not side]
        assert 5 < len(left) < 20
        assert unnamed(crowd, "model").startswith(f"{len(left)} models too close")
        apart = label_sides({f"m{place}": (0.1, place / 20) for place in range(20)})
        assert all(apart.values())
        assert unnamed(apart, "model") == ""

    def test_groups_of_many_models_are_columns(self, tmp_path: Path) -> None:
        by = groups("history", "ndcg", {"1: 1-9 ratings": (0.1, 0.05, 0.15), "2: 10-90 ratings": (0.6, 0.5, 0.7)})
        models = [Model(f"M{place}", [accuracy(0.5 - place / 100, by=[by])]) for place in range(9)]
        few, many = (
            group_tables(Evidence(write_run(tmp_path / str(len(own)), own)), ["ndcg"], ["history"])[0]
            for own in (models[:8], models)
        )
        assert few.columns == ["history", *(f"M{place}" for place in range(8))]
        assert many.columns == ["model", "1-9 ratings", "10-90 ratings"]
        assert [row.name for row in many.rows] == [f"M{place}" for place in range(9)]
        assert [[cell.raw["value"] for cell in row.cells] for row in many.rows] == [[0.1, 0.6]] * 9

    @pytest.mark.parametrize(("low", "ticks"), [(2.0, 4), (1e-3, 5), (1e-12, 5)])
    def test_a_logarithmic_axis_has_a_handful_of_labels(self, low: float, ticks: int) -> None:
        drawn: Any = log_axis("x", "chance", low, 20.0, "~%").to_dict()
        axis = drawn["axis"]
        assert len(axis["values"]) == ticks
        assert all(low <= tick <= 20 for tick in axis["values"])
