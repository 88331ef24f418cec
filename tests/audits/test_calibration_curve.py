"""Accuracy against calibration over lambda."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.audits.calibration.audit import calibration
from recaudit.audits.calibration.reranking import CalibrationCurve, calibration_curve, knee
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.errors import InputError
from recaudit.models import ALS
from recaudit.policies.calibrated import Calibrated


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    return ALS(factors=4, iterations=5, regularization=0.1).fit(split.train)


@pytest.fixture(scope="module")
def curve(model: Any, split: Split) -> ra.Result:
    return calibration_curve(model, split.test, weights=(0.9, 0, 0.5), k=(20, 5))


def at(result: ra.Result, metric: str) -> list[float]:
    return result.series.filter(metric=metric).sort("at")["value"].to_list()


def test_the_papers_table_2_has_its_knee_at_095() -> None:
    recall = np.array([0.464, 0.464, 0.464, 0.463, 0.460, 0.453, 0.417, 0.339])
    apart = np.array([0.185, 0.171, 0.141, 0.092, 0.061, 0.037, 0.009, 0.005])
    assert knee(recall, apart) == 5


def test_a_curve_without_a_price_has_its_knee_where_calibration_is_best() -> None:
    assert knee(np.full(3, 0.4), np.array([0.3, 0.2, 0.1])) == 2
    assert knee(np.array([0.4, 0.3]), np.array([0.2, 0.2])) == 0


def test_it_starts_with_the_models_own_accuracy(curve: ra.Result, model: Any, split: Split) -> None:
    for k in (5, 20):
        assert at(curve, f"recall@{k}")[0] == pytest.approx(ra.accuracy(model, split.test, k=k)["recall"])


def test_every_point_is_what_the_audit_says(curve: ra.Result, model: Any) -> None:
    """Every user has held-out items, so that both stand on the same users."""
    for weight, found in zip((0, 0.5, 0.9), at(curve, "calibration_kl@20"), strict=True):
        policy = Calibrated(weight=weight)
        assert found == pytest.approx(calibration(model, k=20, policy=policy, tested=0)["calibration_kl"])


def test_calibration_only_gets_better(curve: ra.Result) -> None:
    for k in (5, 20):
        values = at(curve, f"calibration_kl@{k}")
        assert values == sorted(values, reverse=True)


def test_the_summary_stands_at_the_knee_beside_the_start(curve: ra.Result) -> None:
    best = curve.settings["knee"]
    assert (curve.settings["policy"]["transform"], curve.settings["policy"]["smoothing"]) == ("none", 0.01)
    for name in ("recall", "calibration_kl"):
        row = curve.frame.row(by_predicate=pl.col("metric") == name, named=True)
        points = curve.series.filter(metric=f"{name}@20")
        assert row["value"] == points.filter(at=best)["value"].item()
        assert row["baseline"] == points.filter(at=0.0)["value"].item()
    assert "Recall@20" in curve.summary()
    assert "Calibrated(" not in curve.summary()  # its weight plays no part
    assert "policy={'transform': 'rank'}" in repr(CalibrationCurve(policy=Calibrated(transform="rank")))


def test_engines_agree(curve: ra.Result, model: Any, split: Split) -> None:
    engine = ra.engines.Threads(3)
    again = calibration_curve(model, split.test, weights=(0.9, 0, 0.5), k=(20, 5), engine=engine)
    assert all(curve.tables[name].equals(table) for name, table in again.tables.items())


def test_relevance_follows_the_threshold(model: Any, split: Split) -> None:
    result = calibration_curve(model, split.test, weights=(0, 0.5), k=(10,), relevant=4)
    assert at(result, "recall@10")[0] == pytest.approx(ra.accuracy(model, split.test, k=10, relevant=4)["recall"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": (0.5,)}, "^weights: received"),
        ({"weights": (0, 2)}, r"weights\[1\]: received 2"),
        ({"k": ()}, "k: received"),
        ({"k": (0, 5)}, r"k\[0\]: received 0"),
        ({"relevant": 99}, "relevant: received 99"),
    ],
)
def test_wrong_settings_are_named(model: Any, split: Split, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        calibration_curve(model, split.test, **settings)


def test_another_log_is_refused(model: Any, tiny: Interactions) -> None:
    with pytest.raises(InputError, match="the users and items of the model's log"):
        calibration_curve(model, tiny)


def test_what_a_model_never_shows_is_in_no_list(model: Any, split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = np.arange(split.test.n_items) % 3 == 0
    monkeypatch.setattr(type(model), "may_show", lambda _, scores: np.broadcast_to(shown, scores.shape))
    found = calibration_curve(model, split.test, k=(20,), weights=(0, 1))
    policy = Calibrated(weight=1)
    expected = calibration(model, k=20, policy=policy, tested=0)["calibration_kl"]
    assert at(found, "calibration_kl@20")[1] == pytest.approx(expected)
