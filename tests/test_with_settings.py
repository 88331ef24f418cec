"""Copies of a configuration with other settings, all of them validated."""

from __future__ import annotations

from pathlib import Path

import pytest

from recaudit import runs
from recaudit.engines import Threads
from recaudit.errors import InputError
from recaudit.models import ALS, TopPop
from recaudit.models.given.http import Http

CONFIGURATION = """
seed = 3
[data]
name = "demo"
[[model]]
kind = "als"
label = "first"
[[model]]
kind = "top-pop"
[audits.reachability]
users = 5
"""


@pytest.mark.parametrize(
    ("settings", "argument"),
    [({"factors": 0}, "factors"), ({"factors": "8"}, "factors"), ({"factros": 8}, "factros")],
)
def test_a_wrong_setting_is_refused(settings: dict[str, object], argument: str) -> None:
    with pytest.raises(InputError) as caught:
        ALS(factors=4).with_settings(**settings)
    assert caught.value.argument == argument


def test_settings_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(InputError, match="scores"):
        Http(url="http://127.0.0.1/").with_settings(predicts_ratings=True)


def test_only_the_named_settings_change() -> None:
    before = ALS(factors=4)
    after = before.with_settings(iterations=3)
    assert (after.factors, after.iterations) == (4, 3)
    assert after.model_fields_set == {"factors", "iterations"}
    assert before == ALS(factors=4)
    assert TopPop().with_settings() == TopPop()


def test_a_configuration_keeps_its_models_and_its_text() -> None:
    config = runs.parse(CONFIGURATION, source="my.toml", folder=Path())
    changed = config.with_settings(engine=Threads(2))
    assert changed.engine == Threads(2)
    assert changed.models == config.models
    assert changed.audits == config.audits
    assert changed.written == config.written
    assert changed.hash == config.hash
    with pytest.raises(InputError) as caught:
        config.with_settings(device="tpu")
    assert caught.value.argument == "device"
