from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recaudit.data import Interactions
from recaudit.errors import DataError, InputError
from recaudit.interventions import GivenItems, Interval, NextK, Stars
from recaudit.models import ALS, BiasedMF, TopPop
from recaudit.policies import Softmax
from recaudit.policies.calibrated import Calibrated
from recaudit.simulate import Scenario, Topics, paper


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (ALS, {"factors": True}),
        (ALS, {"factors": "8"}),
        (ALS, {"regularization": True}),
        (ALS, {"per_rating": "yes", "factors": False}),
        (Softmax, {"beta": "2"}),
        (Topics, {"users": True}),
        (Topics, {"users": 10**12}),
        (Topics, {"items": 10**12}),
        (Calibrated, {"weight": (0.5, True)}),
        (Calibrated, {"at_most": {"Drama": True}}),
        (Calibrated, {"must": (1.0,)}),
        (Calibrated, {"must_not": (True,)}),
        (NextK, {"k": True}),
        (NextK, {"k": "3"}),
        (NextK, {"k": 3, "changes": True, "ratings": Stars()}),
        (Interval, {"low": True}),
        (Stars, {"step": "1"}),
        (GivenItems, {"ids": (True,)}),
        (GivenItems, {"ids": (1.0,)}),
        (GivenItems, {"ids": (b"a",)}),
    ],
)
def test_no_value_is_turned_into_another(make: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        make(**wrong)
    assert caught.value.argument.split(".")[0].split("[")[0] in wrong


def test_numbers_of_other_libraries_and_whole_floats_are_numbers() -> None:
    assert ALS(factors=np.int64(3), regularization=1).factors == 3  # type: ignore[arg-type]
    assert BiasedMF(factors=3.0).factors == 3  # type: ignore[arg-type]
    assert NextK(np.int64(3)).k == 3  # type: ignore[arg-type]
    ids: Any = (np.int64(3), np.str_("a"))
    assert GivenItems(ids).ids == (3, "a")
    assert type(GivenItems(ids).ids[0]) is int


def test_a_scenario_has_an_end() -> None:
    with pytest.raises(InputError, match="steps"):
        Scenario(name="long", environment=Topics(), steps=10**30)


def test_given_items_are_found_by_the_type_of_the_log(tiny: Interactions) -> None:
    model = TopPop().fit(tiny)
    with pytest.raises(DataError, match=r"items: received 1, an id of type int; .*text, such as 'a'"):
        GivenItems((1,)).items(model, np.array([0]), 0)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: ALS(factor=8), r"^factor: received .*Did you mean 'factors'\?$"),  # type: ignore[call-arg]
        (lambda: NextK(0), "^k: received 0; expected greater than 0"),
        (lambda: NextK(kk=3), r"^kk: received .*Did you mean 'k'\?$"),  # type: ignore[call-arg]
        (lambda: Stars(5, 1), r"^low, high: received \(5.0, 1.0\)"),
        (lambda: Softmax(bet=1), r"^bet: received .*Did you mean 'beta'\?$"),  # type: ignore[call-arg]
        (lambda: paper("topics-dynamic", users=200, items=300), r"^ratings: received 100,000; expected at most 60,000"),
    ],
)
def test_a_call_names_its_mistake(call: Callable[[], object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        call()


def test_a_setting_is_printed_with_its_name() -> None:
    assert str(TopPop()) == "TopPop(by='count', damping=0.0)"
    assert f"{Softmax(beta=2.0)}" == "Softmax(beta=2.0)"
