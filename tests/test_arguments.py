from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import ArrayLike

import recaudit as ra
from recaudit.arguments import checked
from recaudit.data import Interactions
from recaudit.errors import InputError, NotSupportedError


@checked
def called(
    k: int = 1,
    *,
    share: float | None = None,
    users: Iterable[object] | None = None,
    by: Sequence[str] | None = None,
    weights: Mapping[str, float] | None = None,
    unknown: Literal["error", "ignore"] = "error",
    scale: tuple[float, float] | None = None,
    ask: Callable[[int], int] | None = None,
    array: ArrayLike | None = None,
    exact: bool = False,
    data: Annotated[Interactions, "Build one with Interactions.from_frame."] | None = None,
) -> object:
    return k if users is None else list(users)


@pytest.mark.parametrize(
    "good",
    [
        {"k": 3},
        {"k": np.int32(3)},
        {"share": 1},
        {"share": np.float32(0.5)},
        {"users": [1, "a"]},
        {"users": pl.Series([1, 2])},
        {"users": np.array([1, 2])},
        {"by": ("a", "b")},
        {"by": np.array(["a"])},
        {"weights": {"a": 1}},
        {"unknown": "ignore"},
        {"scale": [1, 5]},
        {"ask": len},
        {"array": [[1.0]]},
        {"array": pl.Series([1.0])},
        {"exact": np.bool_(True)},
    ],
)
def test_what_the_signature_says_is_taken(good: dict[str, Any]) -> None:
    called(**good)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"k": 1.5}, "k: received 1.5; expected a whole number"),
        ({"k": 2.0}, "k: received 2.0; expected a whole number"),
        ({"k": True}, "k: received True; expected a whole number"),
        ({"k": "3"}, "k: received '3'; expected a whole number"),
        ({"share": float("nan")}, "share: received nan; expected a number or None"),
        ({"share": True}, "share: received True"),
        ({"users": "123"}, "users: received '123'; expected a list or None"),
        ({"users": {1: 2}}, "users: received {1: 2}; expected a list"),
        ({"users": np.array(1)}, "users: received a ndarray; expected a list"),
        ({"by": "region"}, "by: received 'region'; expected a list, each a text"),
        ({"by": ["region", 1]}, "by: received ['region', 1]"),
        ({"by": pl.Series([1, 2])}, "by: received a Series"),
        ({"weights": {"a": "b"}}, "expected a mapping of a text to a number"),
        ({"unknown": "ignor"}, "expected 'error' or 'ignore'. Did you mean 'ignore'?"),
        ({"unknown": 1}, "unknown: received 1; expected 'error' or 'ignore'"),
        ({"scale": (1, 5, 9)}, "scale: received (1, 5, 9); expected (a number, a number)"),
        ({"scale": "15"}, "scale: received '15'"),
        ({"ask": 3}, "ask: received 3; expected a function"),
        ({"array": object()}, "array: received an object; expected numbers in an array"),
        ({"exact": 1}, "exact: received 1; expected True or False"),
        ({"data": pl.DataFrame()}, "expected an Interactions or None. Build one with Interactions.from_frame."),
    ],
)
def test_anything_else_is_an_error_that_names_the_argument(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        called(**bad)
    assert message in str(caught.value)


def test_an_iterator_is_not_used_up_by_looking() -> None:
    def ids() -> Iterator[int]:
        yield from (1, 2, 3)

    assert called(users=ids()) == [1, 2, 3]


def test_a_call_that_python_refuses_stays_pythons() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'kk'"):
        called(kk=1)  # type: ignore[call-arg]


def test_the_length_of_a_list_under_its_other_name(tiny: Interactions) -> None:
    model = ra.models.TopPop().fit(tiny)
    with pytest.raises(TypeError, match=r"recommend\(\) got an unexpected keyword argument 'k'. Did you mean 'n'\?"):
        ra.recommend(model, k=5)  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"^n: .* Did you mean 'k'\?"):
        ra.exposure(model, n=5)


def test_public_functions_check_their_arguments(tiny: Interactions) -> None:
    model = ra.models.TopPop().fit(tiny)
    with pytest.raises(InputError, match=r"k: received 1.5"):
        ra.exposure(model, k=1.5)
    with pytest.raises(InputError, match=r"users: received 'ada'; expected a list"):
        ra.recommend(model, users="ada")
    with pytest.raises(InputError, match=r"k: received 1000000000000; expected a list length"):
        ra.exposure(model, k=10**12)
    with pytest.raises(InputError, match=r"data: received 5; expected an Interactions"):
        ra.splits.random(5)  # type: ignore[arg-type]
    with pytest.raises(NotSupportedError, match=r"device='gpu' is not used by reachability"):
        ra.reachability(ra.models.ALS(factors=2).fit(tiny), device="gpu")


@pytest.mark.parametrize("array", ["a", [["x"]], [[1], [1, 2]], [[10**400]]])
def test_arrays_that_hold_no_numbers_are_named(tiny: Interactions, array: Any) -> None:
    with pytest.raises(InputError, match=r"weights: received .*numbers of shape \(4, 4\)"):
        ra.models.from_weights(array, tiny, predicts_ratings=False)


def test_what_people_hand_in_by_mistake_is_named(tiny: Interactions) -> None:
    model, wrong = ra.models.TopPop().fit(tiny), np.array([1, 2])
    anything: Any = wrong
    for call, told in (
        (lambda: ra.splits.from_logs(anything, tiny), "train: received"),
        (lambda: ra.recommend(model, users=[]), "users: received no ids"),
        (lambda: ra.exposure(model, device=anything), "device: received"),
        (lambda: tiny.with_items(tiny.frame().unique("item"), title=""), "column ''"),
        (lambda: ra.models.adapt(anything, tiny), "model: received a numpy.ndarray"),
        (
            lambda: ra.models.adapt(torch.nn.Identity(), tiny, predict=True),
            "Did you mean 'predicts_ratings'",
        ),
    ):
        with pytest.raises(InputError, match=told):
            call()
