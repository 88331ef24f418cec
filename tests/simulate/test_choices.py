from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import chisquare

from recaudit.simulate.worlds.environment import Choice, Logit, PicksBest, TakesAll


def picked(choice: Choice, perceived: list[float], scores: list[float] | None = None) -> list[bool]:
    values = np.array([perceived])
    said = np.zeros_like(values) if scores is None else np.array([scores])
    draws = np.full((1, values.shape[1] + 1), 0.5)
    taken: list[bool] = choice.chosen(values, said, np.ones_like(values, dtype=bool), draws)[0].tolist()
    return taken


def test_some_take_all_that_is_shown() -> None:
    shown = np.array([[True, False, True], [False, False, False]])
    taken = TakesAll().chosen(np.zeros((2, 3)), np.zeros((2, 3)), shown, np.full((2, 4), 0.5))
    assert taken.tolist() == shown.tolist()


def test_the_best_is_picked_and_of_equals_the_first() -> None:
    assert picked(PicksBest(), [1, 3, 2]) == [False, True, False]
    assert picked(PicksBest(), [2, 3, 3]) == [False, True, False]
    assert picked(PicksBest(), [-2, -1, -3]) == [False, True, False]


def test_trust_adds_the_recommenders_score() -> None:
    assert picked(PicksBest(), [1, 3, 2], [5, 0, 2]) == [False, True, False]
    assert picked(PicksBest(trust=1), [1, 3, 2], [5, 0, 2]) == [True, False, False]
    assert picked(PicksBest(trust=0.2), [1, 3, 2], [5, 0, 2]) == [False, True, False]


def test_attention_falls_with_the_place() -> None:
    # 1.0, 1.5 / 2^0.8 = 0.86 and 2.3 / 3^0.8 = 0.955: the first; without discount the last.
    assert picked(PicksBest(position=0.8), [1, 1.5, 2.3]) == [True, False, False]
    assert picked(PicksBest(position=0), [1, 1.5, 2.3]) == [False, False, True]
    # 2.5 / 3^0.8 = 1.038.
    assert picked(PicksBest(position=0.8), [1, 1.5, 2.5]) == [False, False, True]


@pytest.mark.parametrize("choice", [PicksBest(), Logit(), Logit(nothing=-5)])
def test_what_is_not_shown_is_not_picked_and_an_empty_slate_gives_nothing(choice: Choice) -> None:
    shown = np.array([[False, True, False], [False, False, False]])
    taken = choice.chosen(np.array([[9.0, 1, 8]] * 2), np.zeros((2, 3)), shown, np.full((2, 4), 0.5))
    assert taken.tolist() == [[False, True, False], [False, False, False]]


@pytest.mark.parametrize(("choice", "sees"), [(TakesAll(), False), (PicksBest(), False), (Logit(trust=0.1), True)])
def test_only_trust_looks_at_scores(choice: Choice, sees: bool) -> None:
    assert choice.uses_scores is sees


def shares(choice: Choice, perceived: list[float], n: int = 20_000) -> list[int]:
    """How often each place was taken, and last how often none."""
    size = len(perceived)
    values = np.tile(perceived, (n, 1))
    draws = np.random.default_rng(4).random((n, size + 1))
    taken = choice.chosen(values, np.zeros_like(values), np.ones_like(values, dtype=bool), draws)
    assert (taken.sum(axis=1) <= 1).all()
    return [*taken.sum(axis=0).tolist(), int(n - taken.sum())]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_a_logit_follows_the_softmax(temperature: float) -> None:
    perceived = [1.0, 2.5, 2.0, 0.3]
    *counts, none = shares(Logit(temperature=temperature), perceived)
    weights = np.exp(np.array(perceived) / temperature)
    assert none == 0
    assert chisquare(counts, 20_000 * weights / weights.sum()).pvalue > 0.01


def test_a_logit_may_take_nothing_and_look_at_places() -> None:
    counts = shares(Logit(temperature=2.0, position=1.0, nothing=1.5), [1.0, 3.0, 2.0])
    # The appeals are 1, 3 / 2 and 2 / 3.
    weights = np.exp(np.array([1.0, 1.5, 2 / 3, 1.5]) / 2)
    assert chisquare(counts, 20_000 * weights / weights.sum()).pvalue > 0.01


def test_a_cold_logit_picks_the_best() -> None:
    assert shares(Logit(temperature=1e-3), [1.0, 2.0, 1.5], n=500) == [0, 500, 0, 0]


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [(PicksBest, "trust", -1), (PicksBest, "position", -0.1), (Logit, "temperature", 0), (Logit, "nothing", "inf")],
)
def test_settings_are_checked(kind: type[Choice], field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        kind.model_validate({field: value})
