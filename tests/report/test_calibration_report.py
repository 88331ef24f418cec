"""Calibration on the page: the section, its charts, and the findings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from recaudit import report
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.report.evidence import Evidence
from recaudit.report.findings import findings_of
from recaudit.report.kit.charts import Figure
from recaudit.report.kit.claims import Finding
from recaudit.report.sections import calibration as charts
from recaudit.report.sections.calibration import CalibrationSection
from report.crafted_runs import Crafted, Model, Number, accuracy, cells, groups, write_run
from report.test_page import Page

Changes = Mapping[str, tuple[float, Number]]
"""Metrics by name, before and after."""

CHANGES: Changes = {
    "calibration_kl": (0.4, (0.05, 0.04, 0.06)),
    "calibration_hellinger": (0.3, (0.1, 0.09, 0.11)),
    "calibration_tv": (0.25, (0.08, 0.07, 0.09)),
    "ndcg": (0.2, (0.18, 0.17, 0.19)),
    "recall": (0.4, (0.36, 0.35, 0.37)),
    "coverage": (0.45, (0.72, 0.7, 0.74)),
}
# category, history, (below, above) in the list, (below, above) re-ranked
WORST = [("Family", 0.05, (0.05, 0.0), (0.01, 0.0)), ("Romance & <Love>", 0.2, (0.0, 0.3), (0.0, 0.02))]
CURVE = {0.0: (0.4, 0.4), 0.9: (0.05, 0.38), 0.999: (0.04, 0.1)}


def people(kl: Sequence[float | None], kl_after: Sequence[float | None], gain: Sequence[float]) -> pl.DataFrame:
    """Users with these C_KL before and after, whose accuracy changes by `gain`."""
    distances = ("calibration_kl", "calibration_hellinger", "calibration_tv")
    quality = pl.Series([0.5] * len(gain), dtype=pl.Float64)
    columns = {name: pl.Series(kl, dtype=pl.Float64) for name in distances}
    columns |= {f"{name}_reranked": pl.Series(kl_after, dtype=pl.Float64) for name in distances}
    columns |= dict.fromkeys(("ndcg", "recall"), quality)
    columns |= {f"{name}_reranked": quality + pl.Series(gain) for name in ("ndcg", "recall")}
    return pl.DataFrame({"user": [f"u{place}" for place in range(len(kl))], **columns})


PEOPLE = people([0.2, 0.9, 0.4, None] * 100, [0.02, 0.09, 0.04, None] * 100, [-0.05, -0.04, -0.06, -0.05] * 100)
"""300 who have a C_KL: the tenth with the least calibrated lists are 30, the fewest that a finding takes."""


def calibration(
    changes: Changes = CHANGES,
    *,
    users: pl.DataFrame = PEOPLE,
    worst: Sequence[tuple[str, float, tuple[float, float], tuple[float, float]]] = WORST,
    example: str | None = "u1",
    curve: Mapping[float, tuple[float, float]] = CURVE,
    by: Sequence[pl.DataFrame] = (),
) -> list[Crafted]:
    """The results of calibration and re-ranking; `curve` is C_KL and recall by weight."""
    own = {name: before for name, (before, _) in changes.items() if name.startswith("calibration")}
    after = [{"metric": name, **cells(number, baseline=before)} for name, (before, number) in changes.items()]
    points = [
        {"over": "weight", "at": at, "metric": metric, **cells(value)}
        for at, pair in curve.items()
        for metric, value in zip(("calibration_kl", "recall"), pair, strict=True)
    ]
    shares = {
        "user": [example] * 2,
        "category": ["Family", "Romance"],
        "history": [0.3, 0.7],
        "own": [0.0, 1.0],
        "reranked": [0.25, 0.75],
    }
    settings = {"k": 20, "categories": "genre", "smoothing": 0.01, "confidence": 0.95}
    summary = [{"metric": name, **cells((v, v - 0.01, v + 0.01))} for name, v in own.items()]
    reranked = {
        "summary": pl.DataFrame(after, SUMMARY_SCHEMA),
        "users": users,
        "series": pl.DataFrame(points, SERIES_SCHEMA),
        "reranked": pl.DataFrame(after, SUMMARY_SCHEMA),
        "worst": pl.DataFrame(
            [(name, p, own[1], own[0], new[1], new[0]) for name, p, own, new in worst],
            schema={
                "category": pl.String,
                **dict.fromkeys(("history", "over", "under", "over_reranked", "under_reranked"), pl.Float64),
            },
            orient="row",
        ),
        "example": pl.DataFrame(shares).filter(pl.lit(example is not None)),
    }
    calibrated = {
        "summary": pl.DataFrame(summary, SUMMARY_SCHEMA),
        "groups": pl.concat([pl.DataFrame(schema=GROUP_SCHEMA), *by]),
        "users": users.select("user", "calibration_kl"),
    }
    return [Crafted("calibration", settings, calibrated), Crafted("reranking", settings | {"weight": 0.9}, reranked)]


def model(label: str = "A", results: list[Crafted] | None = None, *, ndcg: float = 0.2) -> Model:
    return Model(label, [accuracy(ndcg=ndcg), *(results or calibration())])


def evidence(path: Path, *models: Model) -> Evidence:
    return Evidence(write_run(path, models))


def page(path: Path, *models: Model) -> str:
    return report.render(write_run(path, models))


def section(text: str) -> str:
    found = re.search(r'<section id="calibration">.*?</section>', text, re.S)
    assert found is not None
    return " ".join(found[0].split())


def content(found: Evidence) -> dict[str, Any]:
    """What the section shows of re-ranking."""
    made = CalibrationSection(found).content()
    assert made is not None
    return dict(made["reranked"])


def drawn(figure: Figure | None) -> list[dict[str, object]]:
    assert figure is not None
    json.dumps(figure.spec, allow_nan=False)
    return [row for rows in figure.spec["datasets"].values() for row in rows]


def told(found: Evidence) -> list[Finding]:
    return [finding for finding in findings_of(found) if finding.section == "calibration"]


def about(found: Evidence, text: str) -> Finding:
    (finding,) = [finding for finding in told(found) if text in finding.claim]
    return finding


class TestSection:
    def test_it_is_not_there_where_calibration_was_not_asked_for(self, tmp_path: Path) -> None:
        text = page(tmp_path, Model("A", [accuracy()]))
        assert 'id="calibration"' not in text
        assert "#calibration" not in text

    def test_every_number_stands_before_and_after_with_its_interval(self, tmp_path: Path) -> None:
        text = section(page(tmp_path, model()))
        for before, after, interval in [
            ("0.400", "0.050", "[0.040, 0.060]"),
            ("25.0%", "8.0%", "[7.0%, 9.0%]"),
            ("0.200", "0.180", "[0.170, 0.190]"),
            ("45.0%", "72.0%", "[70.0%, 74.0%]"),
        ]:
            change = f'{before} → </span><span class="value">{after}</span><span class="interval">{interval}'
            assert change in text

    def test_accuracy_is_labelled_with_the_length_of_these_lists(self, tmp_path: Path) -> None:
        text = page(tmp_path, model())
        assert "Recall@20" in section(text)
        assert "Recall@10" not in section(text)
        assert "Recall@10" in text

    def test_the_smoothing_and_the_weight_are_stated(self, tmp_path: Path) -> None:
        text = section(page(tmp_path, model()))
        assert "Smoothing of C_KL: 0.01" in text
        assert "4.6 for nothing that the user is interested in (with smoothing 0.01" in text
        assert "calibration with a weight of 0.9" in text

    def test_every_metric_of_its_tables_has_a_definition(self, tmp_path: Path) -> None:
        text = page(tmp_path, model())
        for name in re.findall(r'popovertarget="(about-[a-z_]+)"', section(text)):
            assert f'id="{name}"' in text

    def test_what_a_model_has_no_number_for_says_why(self, tmp_path: Path) -> None:
        folded = calibration({**CHANGES, "log_folding": (0.03, 0.01)})
        text = section(page(tmp_path, model("A", folded, ndcg=0.4), model("B")))
        assert 'title="the model has no vectors of users and items">n/a' in text

    def test_lists_that_were_not_re_ranked_have_their_numbers_all_the_same(self, tmp_path: Path) -> None:
        calibrated, _ = calibration(by=[groups("history", "calibration_kl", {"1: 3-9 ratings": 0.7})])
        html = page(tmp_path, Model("A", [accuracy(), calibrated]))
        text = section(html)
        assert '<span class="value">0.400</span><span class="interval">[0.390, 0.410]' in text
        assert "C_KL@20 by history: all numbers" in text
        assert "re-rank" not in text
        assert Page(html).dead_ends == []

    def test_re_ranking_alone_is_shown_before_and_after(self, tmp_path: Path) -> None:
        _, reranked = calibration()
        html = page(tmp_path, Model("A", [accuracy(), reranked]))
        assert '0.400 → </span><span class="value">0.050</span>' in section(html)
        assert Page(html).dead_ends == []
        codes = [finding.code for finding in told(evidence(tmp_path, Model("A", [accuracy(), reranked])))]
        assert codes == ["reranking.calibration-improves"]

    def test_the_numbers_of_re_ranked_lists_are_not_those_of_the_model(self, tmp_path: Path) -> None:
        found = evidence(tmp_path, model(ndcg=0.3))
        assert found.known("ndcg")["A"].value == 0.3
        assert found.known("ndcg", "reranking")["A"].value == 0.18

    def test_models_without_an_answer_are_named(self, tmp_path: Path) -> None:
        other = Model(
            "B",
            [accuracy()],
            skipped={"calibration": "the log has no categories", "reranking": "the log has no categories"},
        )
        assert "No answer for B" in section(page(tmp_path, model(), other))

    def test_the_figures_are_of_the_best_model_that_has_an_answer(self, tmp_path: Path) -> None:
        found = content(evidence(tmp_path, model("B", ndcg=0.1), model("A", ndcg=0.4)))
        assert found["model"] == "A"

    def test_calibration_by_group_is_a_table(self, tmp_path: Path) -> None:
        by = groups("history", "calibration_kl", {"1: 3-9 ratings": 0.7, "2: 10-20 ratings": 0.3})
        text = section(page(tmp_path, model("A", calibration(by=[by]))))
        assert "C_KL@20 by history: all numbers" in text
        assert "0.700" in text

    def test_every_weight_is_in_a_table_with_the_best_bargain_marked(self, tmp_path: Path) -> None:
        found = content(evidence(tmp_path, model()))
        ((_, curve),) = found["curves"]
        assert [(row.name, [cell.text for cell in row.cells]) for row in curve.rows] == [
            ("0", ["0.400", "0.400", ""]),
            ("0.9", ["0.050", "0.380", "best bargain"]),
            ("0.999", ["0.040", "0.100", ""]),
        ]

    def test_names_from_the_data_are_escaped(self, tmp_path: Path) -> None:
        text = page(tmp_path, model())
        assert "Romance & <Love>" not in text
        assert "Romance &amp; &lt;Love&gt;" in text

    def test_nobody_measured_leaves_no_figures(self, tmp_path: Path) -> None:
        nobody = calibration(users=people([None], [None], [0.0]), worst=[], example=None, curve={})
        found = content(evidence(tmp_path, model("A", nobody)))
        names = ("histogram", "one_user", "worst", "tradeoff", "bargain")
        assert [found[name] for name in names] == [None] * 5
        assert "Whom it fails" in section(page(tmp_path, model("A", nobody)))


class TestCharts:
    def test_the_histogram_counts_every_user_who_has_a_value_once(self, tmp_path: Path) -> None:
        rows = drawn(charts.divergences(evidence(tmp_path, model()), "A"))
        for lists in ("as ranked", "re-ranked"):
            assert sum(float(str(row["y"])) for row in rows if row["lists"] == lists) == pytest.approx(1, abs=1e-3)
        filled = [float(str(row["low"])) for row in rows if row["lists"] == "re-ranked" and row["y"]]
        assert max(filled) < 0.09

    def test_lists_that_are_calibrated_anyway_have_no_histogram(self, tmp_path: Path) -> None:
        exact = calibration(users=people([0.0, 0.0], [0.0, 0.0], [0.0, 0.0]))
        assert charts.divergences(evidence(tmp_path, model("A", exact)), "A") is None

    def test_one_user_has_history_list_and_re_ranked_list(self, tmp_path: Path) -> None:
        figure = charts.one_user(evidence(tmp_path, model()), "A")
        first, second = drawn(figure)
        assert (first["category"], first["history"], first["own"], first["reranked"]) == ("Romance", 0.7, 1.0, 0.75)
        assert second["told"] == "30.0% of the history, 0.0% of the list, 25.0% re-ranked"

    def test_the_worst_lists_reach_below_and_above_the_history(self, tmp_path: Path) -> None:
        figure = charts.least_calibrated(evidence(tmp_path, model()), "A")
        ends = {(row["category"], row["lists"]): (row["low"], row["high"]) for row in drawn(figure) if row.get("lists")}
        assert ends["Family", "as ranked"] == (0.0, 0.05)
        assert ends["Family", "re-ranked"] == (pytest.approx(0.04), 0.05)
        assert ends["Romance & <Love>", "as ranked"] == (0.2, 0.5)

    def test_the_trade_off_has_a_point_for_each_weight_of_each_model(self, tmp_path: Path) -> None:
        figure = charts.recall_against_divergence(evidence(tmp_path, model("A", ndcg=0.4), model("B")))
        points = {(row["model"], row["weight"], row["x"], row["y"]) for row in drawn(figure)}
        expected = {(name, at, apart, recall) for name in "AB" for at, (apart, recall) in CURVE.items()}
        assert points == expected
        assert figure is not None
        assert "A at 0.9: Miscalibration C_KL@20 0.050, Recall@20 0.380" in figure.description


class TestFindings:
    def test_the_price_of_re_ranking_is_told(self, tmp_path: Path) -> None:
        (finding,) = told(evidence(tmp_path, model()))
        assert finding.code == "reranking.calibration-improves"
        assert [number.metric for number in finding.numbers] == ["calibration_kl", "ndcg"]
        assert all(number.p is not None and number.p <= 0.05 for number in finding.numbers)
        assert "C_KL@20 from 0.400 to 0.050 [0.040, 0.060] (smoothing 0.01)" in finding.detail
        assert "nDCG@20 from 0.200 to 0.180 [0.170, 0.190] and Recall@20 from 0.400 to 0.360" in finding.detail
        assert "0.9 is the best bargain: Miscalibration C_KL@20 0.050, Recall@20 0.380" in finding.detail

    @pytest.mark.parametrize(
        ("gain", "is_shown"), [([-0.1, 0.1, 0.0], False), ([0.05, 0.06, 0.04], True), ([-0.05, -0.06, -0.04], True)]
    )
    def test_a_cost_that_is_not_shown_is_not_claimed(self, tmp_path: Path, gain: list[float], is_shown: bool) -> None:
        even = calibration(users=people([0.2, 0.9, 0.4] * 10, [0.02, 0.09, 0.04] * 10, gain * 10))
        (finding,) = told(evidence(tmp_path, model("A", even)))
        assert ("ndcg" in [number.metric for number in finding.numbers]) == is_shown

    def test_fewer_users_are_no_finding(self, tmp_path: Path) -> None:
        few = calibration(users=people([0.2] * 9, [0.02] * 9, [-0.05] * 9))
        assert told(evidence(tmp_path, model("A", few))) == []

    def test_no_better_calibration_is_no_finding(self, tmp_path: Path) -> None:
        same = calibration(users=people([0.2, 0.9, 0.4] * 10, [0.2, 0.9, 0.4] * 10, [0.0] * 30), worst=[])
        assert told(evidence(tmp_path, model("A", same))) == []
