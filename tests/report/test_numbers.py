"""Numbers are written one way, and never say more or less than they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recaudit.audits.audit import definitions
from recaudit.metrics.numbers import percent, signed_percent
from recaudit.report.kit.numbers import (
    Estimate,
    duration,
    finite,
    listing,
    ordinal,
    plural,
    settings_line,
)
from recaudit.specification import written

MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
METRICS = definitions()
SOME = Estimate(METRICS["ndcg"], 0.25, 0.2, 0.3, "solved", None, 100, 0)


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("ndcg", 0.12345, "0.123"),
        ("rmse", 0.9, "0.900"),
        ("coverage", 0.3456, "34.6%"),
        ("share", 0.0, "0.0%"),
        ("share", 0.0001, "<0.1%"),
        ("coverage", 0.99999, ">99.9%"),
        ("coverage", 1.0, "100.0%"),
        ("popularity_lift", 0.849, "+84.9%"),
        ("popularity_lift", -0.254, f"{MINUS}25.4%"),
        ("popularity_lift", 12.5, "+1,250%"),
        ("popularity_lift", 0.001, "+0.10%"),
        ("popularity_correlation", -0.1294, f"{MINUS}0.129"),
        ("popularity_correlation", -0.0001, "0.000"),
        ("novelty", 3.456, "3.46 bits"),
        ("discovery", 0.3456, "34.6%"),
        ("availability", 0.0, "0%"),
        ("availability", 0.0000001, "<0.0001%"),
        ("availability", 0.0001, "0.0100%"),
        ("availability", 0.00745, "0.745%"),
        ("availability", 0.4, "40.0%"),
        ("availability", 0.9999, ">99.9%"),
        ("availability", 1.0, "100%"),
        ("lift", 0.963, f"{TIMES}0.963"),
        ("lift", 1.0, f"{TIMES}1.00"),
        ("lift", 12.34, f"{TIMES}12.3"),
        ("lift", 720.4, f"{TIMES}720"),
        ("lift", 12345.6, f"{TIMES}12,346"),
    ],
)
def test_figures(metric: str, value: float, text: str) -> None:
    assert METRICS[metric].written(value) == text


def test_intervals_are_written_like_their_values() -> None:
    assert METRICS["coverage"].interval(0.1, 0.2) == "[10.0%, 20.0%]"
    assert METRICS["novelty"].interval(3.0, 3.5) == "[3.00, 3.50]"
    assert SOME.full == "0.250 [0.200, 0.300]"
    assert SOME.signed == "+0.250 [0.200, 0.300]"
    assert replace(SOME, value=0.0001).signed == "0.000 [0.200, 0.300]"


def test_a_best_case_tells_what_was_before() -> None:
    best = replace(SOME, metric=METRICS["discovery"], baseline=0.1)
    assert best.before == "10.0%"
    assert replace(best, baseline=None).before == ""
    assert replace(best, value=None).before == ""
    assert (
        replace(SOME, metric=METRICS["share"], baseline=0.1).before == ""
    )  # compared with the data, not with a before


def test_a_missing_value_is_none() -> None:
    absent = replace(SOME, value=None, lower=None, upper=None, status="not_applicable")
    assert (absent.text, absent.interval, absent.full, absent.signed) == ("n/a", "", "n/a", "n/a")
    assert finite(float("nan")) is None
    assert finite(float("inf")) is None


def test_an_estimate_from_a_row() -> None:
    row = {"value": 0.5, "lower": float("nan"), "upper": 0.6, "baseline": None, "status": "solved"}
    made = Estimate.of(METRICS["ndcg"], {**row, "users": 7, "excluded": None})
    assert (made.value, made.lower, made.upper, made.users, made.excluded) == (0.5, None, 0.6, 7, 0)


def test_a_signed_share_below_one_percent_is_no_zero() -> None:
    values = (0.851, 0.849, 0.0042, -0.0042, 0.01, -0.2, 0.0, 1e-6)
    assert [signed_percent(value) for value in values] == [
        "+85.1%",
        "+84.9%",
        "+0.42%",
        "\N{MINUS SIGN}0.42%",
        "+1.0%",
        "\N{MINUS SIGN}20.0%",
        "0%",
        "0%",
    ]


def test_settings_are_told_from_data() -> None:
    softmax = {"kind": "softmax", "beta": 2.0}
    assert written(softmax) == "softmax(beta=2.0)"
    assert written({"kind": "next-k", "k": 10, "ratings": None}) == "next-k(k=10)"
    assert written({"kind": "top-1"}) == "top-1"
    assert written({"kind": "some.package:MyModel", "factors": 3}) == "MyModel(factors=3)"
    settings = {"k": 5, "policy": softmax, "by": None, "betas": [1, 2], "statuses": {"lift": {"solved": 3}}}
    assert settings_line(settings, facts=True) == "k = 5, policy = softmax(beta=2.0), betas = 1 2"
    assert settings_line({"factors": 3, "update": {"rule": "sgd", "step": None}}) == "factors = 3, update = (rule=sgd)"
    assert settings_line({}) == "none"


def test_a_value_without_an_interval_is_never_called_different() -> None:
    bare = replace(SOME, lower=None, upper=None)
    far = replace(SOME, value=0.9, lower=0.8, upper=0.95)
    assert far.apart_from(SOME)
    assert SOME.apart_from(far)
    assert not bare.apart_from(far)
    assert not far.apart_from(bare)
    assert not bare.above(-1)
    assert bare.interval == ""


def test_touching_intervals_overlap() -> None:
    assert not SOME.apart_from(replace(SOME, lower=0.3, upper=0.4))


def test_words() -> None:
    assert percent(0.5) == "50.0%"
    assert [plural(n, "user") for n in (0, 1, 2000)] == ["0 users", "1 user", "2,000 users"]
    assert plural(2, "is", "are") == "2 are"
    assert [listing(list(words)) for words in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 111)] == [
        "1st",
        "2nd",
        "3rd",
        "4th",
        "11th",
        "12th",
        "13th",
        "21st",
        "111th",
    ]
    assert [duration(s) for s in (3.21, 75, 3725)] == ["3.2 s", "1 min 15 s", "1 h 2 min"]
