"""Folding on the page: the section, its cases and groups, the trade-off, and the findings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from recaudit import report
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.report.evidence import Evidence
from recaudit.report.findings import findings_of
from recaudit.report.sections.folding import FoldingSection, folding_against_error
from report.crafted_runs import Crafted, Data, Model, Number, accuracy, cells, groups, with_users, write_run

CASE = {
    "user": "kim",
    "item": "f7",
    "title": "House of <Ash>",
    "categories": "Horror|Thriller",
    "rank": 2,
    "relatedness": 0.0,
    "similarity": 0.91,
    "user_rates": "Family 80%, Comedy 20%",
    "in_common": 0.0,
    "nearest_by_model": ["Otter and Owl [Family]"],
}


def folding(
    folded: Number = (0.2, 0.19, 0.21),
    spurious: Number = (0.1, 0.08, 0.12),
    *,
    cases: Sequence[Mapping[str, object]] = (CASE,),
    curve: Mapping[float, tuple[float | None, float]] | None = None,
    by: Sequence[pl.DataFrame] = (),
    relatedness: str = "genre",
) -> Crafted:
    """A folding result; `curve` is RMSE and folding by weight."""
    numbers = {"folding": folded, "overshoot_share": 0.3, "shown_folding": 0.4, "spurious_share": spurious}
    points = [
        {"over": "unobserved_weight", "at": weight, "metric": metric, **cells(value)}
        for weight, (rmse, height) in (curve or {}).items()
        for metric, value in {"rmse": rmse, "folding": height, "shown_folding": 2 * height}.items()
    ]
    return Crafted(
        "folding",
        {"relatedness": [relatedness], "similarity": "cosine", "k": 10, "confidence": 0.95},
        {
            "summary": pl.DataFrame(
                [{"metric": name, **cells(number)} for name, number in numbers.items()], SUMMARY_SCHEMA
            ),
            "groups": pl.concat([pl.DataFrame(schema=GROUP_SCHEMA), *by]),
            "users": pl.DataFrame({"user": ["kim"], "folding": [0.2]}),
            "series": pl.DataFrame(points, SERIES_SCHEMA),
            "spurious": pl.DataFrame(list(cases), _schema(CASE)),
        },
    )


def _schema(row: Mapping[str, object]) -> pl.Schema:
    return pl.DataFrame([row]).schema


def page(path: Path, models: Sequence[Model]) -> str:
    return report.render(write_run(path, models, Data(categories=("genre",))))


def evidence(path: Path, models: Sequence[Model], data: Data | None = None) -> Evidence:
    return Evidence(write_run(path, models, data))


def section(text: str) -> str:
    found = re.search(r'<section id="folding">.*?</section>', text, re.S)
    assert found is not None
    return " ".join(found[0].split())


def codes(found: Evidence) -> list[str]:
    return [finding.code for finding in findings_of(found) if finding.section == "folding"]


class TestSection:
    def test_it_is_not_there_where_folding_was_not_asked_for(self, tmp_path: Path) -> None:
        text = page(tmp_path, [Model("A", [accuracy()])])
        assert 'id="folding"' not in text
        assert "#folding" not in text

    def test_every_model_has_its_numbers_with_intervals(self, tmp_path: Path) -> None:
        text = section(page(tmp_path, [Model("A", [accuracy(), folding()])]))
        assert "0.200" in text
        assert "[0.190, 0.210]" in text
        assert "10.0%" in text
        assert "[8.0%, 12.0%]" in text

    def test_a_case_tells_who_what_and_why(self, tmp_path: Path) -> None:
        text = section(page(tmp_path, [Model("A", [accuracy(), folding()])]))
        assert "kim is shown House of &lt;Ash&gt; (Horror, Thriller)" in text
        assert "They rate Family 80%, Comedy 20%. Nothing that they rated shares a genre with it." in text
        assert "number 2 in their list: A takes it to be like Otter and Owl [Family], which they rated." in text

    def test_a_case_of_a_log_without_categories_leaves_them_out(self, tmp_path: Path) -> None:
        bare = CASE | {"categories": None, "user_rates": None, "in_common": None, "nearest_by_model": []}
        typed = folding(cases=[CASE, bare | {"user": "lou"}])
        text = section(page(tmp_path, [Model("A", [accuracy(), typed])]))
        assert "lou is shown House of &lt;Ash&gt;</p>" in text
        assert "near nothing that they rated" in text
        assert "None" not in text

    def test_three_cases_of_the_model_with_the_most(self, tmp_path: Path) -> None:
        many = [CASE | {"user": f"u{place}"} for place in range(5)]
        models = [
            Model("A", [accuracy(ndcg=0.4), folding(spurious=(0.02, 0.01, 0.03))]),
            Model("B", [accuracy(ndcg=0.2), folding(spurious=(0.3, 0.2, 0.4), cases=many)]),
        ]
        found = FoldingSection(evidence(tmp_path, models)).content()
        assert found is not None
        first, *others = found["details"]
        assert (first["model"], [case["user"] for case in first["cases"]]) == ("B", ["u0", "u1", "u2"])
        assert [other["model"] for other in others] == ["A"]

    def test_nothing_spurious_leaves_no_cases(self, tmp_path: Path) -> None:
        found = FoldingSection(
            evidence(tmp_path, [Model("A", [accuracy(), folding(spurious=0.0, cases=[])])])
        ).content()
        assert found is not None
        assert found["details"] == []

    @pytest.mark.parametrize(("label", "told"), [("genre", "taken from genre"), ("log", "from who rated what")])
    def test_relatedness_is_told_in_words(self, tmp_path: Path, label: str, told: str) -> None:
        assert told in section(page(tmp_path, [Model("A", [accuracy(), folding(relatedness=label)])]))

    def test_folding_under_every_relatedness_is_a_table(self, tmp_path: Path) -> None:
        both = groups("relatedness", "folding", {"genre": (0.2, 0.1, 0.3), "log": (0.4, 0.3, 0.5)})
        text = section(page(tmp_path, [Model("A", [accuracy(), folding(by=[both])])]))
        assert "Folding by relatedness: all numbers" in text
        assert "0.400" in text

    def test_models_that_cannot_fold_are_named(self, tmp_path: Path) -> None:
        models = [
            Model("A", [accuracy(), folding()]),
            Model("B", [accuracy()], skipped={"folding": "it has no user and item vectors"}),
        ]
        text = page(tmp_path, models)
        assert "B has no such space and cannot fold" in section(text)
        assert "it has no user and item vectors" in text


class TestChart:
    def test_models_and_weights_are_points(self, tmp_path: Path) -> None:
        models = [
            Model("A", [accuracy(rmse=0.9), folding(curve={0.0: (0.9, 0.2), 0.1: (1.0, 0.05)})]),
            Model("B", [accuracy(rmse=0.95), folding((0.1, 0.09, 0.11))]),
        ]
        figure = folding_against_error(evidence(tmp_path, models), "folding")
        assert figure is not None
        drawn = [row for rows in figure.spec["datasets"].values() for row in rows]
        assert {(row["model"], row["x"], row["y"]) for row in drawn} == {
            ("A", 0.9, 0.2),
            ("A", 1.0, 0.05),
            ("B", 0.95, 0.1),
        }
        assert "A with weight 0.1: RMSE 1.000, Folding 0.050" in figure.description
        assert json.dumps(figure.spec, allow_nan=False)

    def test_a_single_point_is_no_chart(self, tmp_path: Path) -> None:
        found = evidence(tmp_path, [Model("A", [accuracy(), folding()])])
        assert folding_against_error(found, "folding") is None

    def test_a_model_without_predicted_ratings_is_left_out(self, tmp_path: Path) -> None:
        models = [
            Model("A", [accuracy(rmse=None), folding(curve={0.0: (None, 0.2)})]),
            Model("B", [accuracy(), folding()]),
        ]
        assert folding_against_error(evidence(tmp_path, models), "folding") is None


class TestFindings:
    def test_the_model_that_shows_most_from_nowhere_is_named_with_an_example(self, tmp_path: Path) -> None:
        models = [
            Model("A", [accuracy(ndcg=0.4), folding(spurious=(0.02, 0.015, 0.03))]),
            Model("B", [accuracy(ndcg=0.2), folding(spurious=(0.3, 0.2, 0.4))]),
        ]
        found = [
            own for own in findings_of(evidence(tmp_path, models)) if own.code == "folding.spurious-recommendations"
        ]
        assert [(number.model, number.value) for own in found for number in own.numbers] == [("B", 0.3)]
        assert "B 30.0% [20.0%, 40.0%] and A 2.0%" in found[0].detail
        assert "kim, who rates Family 80%, Comedy 20%, is shown House of <Ash> (Horror, Thriller)" in found[0].detail

    def test_a_share_that_may_be_nothing_is_no_finding(self, tmp_path: Path) -> None:
        assert codes(evidence(tmp_path, [Model("A", [accuracy(), folding(spurious=(0.02, 0.0, 0.05))])])) == []

    @pytest.mark.parametrize(
        ("errors", "folded", "is_shown"),
        [
            ((0.64, 0.81), (0.3, 0.1), True),
            ((0.64, 0.81), (0.3, 0.0), True),
            ((0.64, 0.64001), (0.3, 0.1), False),
            ((0.64, 0.81), (0.3, 0.2999), False),
        ],
        ids=["both", "no folding at all", "same error", "same folding"],
    )
    def test_better_ratings_and_more_folding(
        self, tmp_path: Path, errors: tuple[float, float], folded: tuple[float, float], is_shown: bool
    ) -> None:
        models = []
        for name, error, own, place in zip("AB", errors, folded, (0, 1), strict=True):
            noise = [0.05 * ((step + place) % 3 - 1) for step in range(30)]
            squares, folds = ([middle + value for value in noise] for middle in (error, own))
            results = accuracy(rmse=error**0.5), folding(own, 0.0)
            users = with_users(results[0], "rmse", squares, scale="root"), with_users(results[1], "folding", folds)
            models.append(Model(name, list(users)))
        assert ("folding.rating-error-and-folding-disagree" in codes(evidence(tmp_path, models))) == is_shown
