from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import recaudit as ra
from recaudit.audits.instability.audit import instability
from recaudit.data import Interactions, synthetic
from recaudit.errors import DataError, InputError, NotSupportedError
from recaudit.interventions import Future, NextK, Past, Stars
from recaudit.models import ALS, BiasedMF, FittedModel, TopPop
from recaudit.models.given.black_box import as_black_box
from recaudit.policies import Softmax, Top1
from recaudit_papers.access import Access, compare_access, compare_access_instability, exceeding


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic.demo_world(users=30, items=40).data


@pytest.fixture(scope="module")
def model(data: Interactions) -> FittedModel:
    return ALS(factors=4, iterations=5).fit(Past(5).before(data))


@pytest.fixture(scope="module")
def compared(model: FittedModel, data: Interactions) -> Access:
    return compare_access(
        model, data, users=data.user_ids[:4], targets=data.item_ids[5:15], policy=Softmax(beta=2), budget=80
    )


class TestReachability:
    def test_exact_is_the_audit_itself(self, compared: Access, model: FittedModel, data: Interactions) -> None:
        audit = ra.reachability(
            model,
            data,
            actions=Past(5),
            users=data.user_ids[:4],
            targets=data.item_ids[5:15],
            policy=Softmax(beta=2),
        ).pairs
        assert compared.frame["user"].to_list() == audit["user"].to_list()
        assert compared.frame["item"].to_list() == audit["item"].to_list()
        assert compared.frame["exact"].equals(audit["value"], check_names=False)
        assert compared.frame["exact_lift"].equals(audit["lift"], check_names=False)

    def test_nobody_finds_more_than_there_is(self, compared: Access) -> None:
        known = compared.frame.drop_nulls("exact")
        assert 0 < len(known) < len(compared.frame)
        assert compared.exceeding == 0
        for name in ("gradient", "black_box"):
            assert (known[name] <= known["exact"] * (1 + 1e-6)).all()
            assert (known[f"{name}_lift"] >= 1 - 1e-9).all()
            np.testing.assert_allclose(known[f"{name}_lift"], known[name] / known["baseline"])
        assert (known["queries"] <= 80).all()

    def test_what_does_not_apply_is_null_for_all(self, compared: Access) -> None:
        rest = compared.frame.filter(compared.frame["exact"].is_null())
        for name in ("gradient", "black_box", "queries", "exact_lift", "gradient_lift", "black_box_lift"):
            assert rest[name].null_count() == len(rest)

    def test_it_prints_what_each_kind_of_access_is_worth(self, compared: Access) -> None:
        text = compared.summary()
        known = compared.frame.drop_nulls("exact")
        assert f"{len(known)} pairs, {len(compared.frame) - len(known)} not applicable" in text
        assert f"{known['exact_lift'].to_numpy().mean():.4g}" in text
        assert f"{(known['black_box'] / known['exact']).to_numpy().mean():.2%} of the exact value" in text
        assert f"{max(known['queries'].to_list())} at most" in text
        assert "bound: none" in text

    def test_a_value_above_the_bound_is_counted(self, compared: Access) -> None:
        assert exceeding(compared.frame, compared.frame["exact"] * 0.5) > 0

    def test_stars_and_other_actions(self, data: Interactions) -> None:
        model = BiasedMF(factors=3, epochs=5).fit(data)
        result = compare_access(
            model,
            users=data.user_ids[:2],
            targets=data.item_ids[:8],
            actions=NextK(2, Stars(1, 5)),
            budget=26,
        )
        # With the baseline 26 questions are all there is to ask: the black box knows as much as anybody.
        known = result.frame.drop_nulls("exact")
        np.testing.assert_allclose(known["black_box"], known["exact"], rtol=1e-9)
        assert result.exceeding == 0

    def test_the_future(self, data: Interactions) -> None:
        model = ALS(factors=4, iterations=5).fit(data)
        asked: dict[str, Any] = {"users": data.user_ids[:3], "targets": data.item_ids[5:15], "actions": Future(2)}
        asked["policy"] = Softmax(beta=1.0)
        result = compare_access(model, data, budget=60, **asked)
        known = result.frame.drop_nulls("exact")
        by_gradient = ra.reachability(model, data, solver="gradient", **asked).pairs
        assert result.frame["gradient"].equals(by_gradient["value"], check_names=False)
        assert result.exceeding == 0
        assert 0.9 < result.shares()["black_box"] <= result.shares()["gradient"] + 0.1
        assert (known["queries"] <= 60).all()


class TestInstability:
    @pytest.mark.parametrize("edits", [Past(5), Past(3, ratings=Stars()), NextK(2)])
    def test_the_oracle_is_not_passed(self, data: Interactions, edits: Past | NextK) -> None:
        fitted_to = edits.before(data) if isinstance(edits, Past) else data
        model = ALS(factors=4, iterations=5).fit(fitted_to)
        viewers, editors = data.user_ids[:3], data.user_ids[2:6]
        result = compare_access_instability(
            model,
            data,
            viewers=viewers,
            editors=editors,
            edits=edits,
            distance="tv",
            policy=Softmax(beta=2),
            budget=60,
        )
        oracle = instability(
            model, data, viewers=viewers, editors=editors, edits=edits, distance="tv", policy=Softmax(beta=2)
        )
        assert result.frame.columns == ["viewer", "editor", "exact", "gradient", "black_box", "queries"]
        np.testing.assert_allclose(result.frame["exact"], oracle.pairs["value"], rtol=1e-9)
        assert len(result.frame) == 3 * 4 - 1  # nobody is their own editor
        assert result.exceeding == 0
        assert (result.frame["queries"] <= 60).all()
        assert result.shares()["black_box"] > 0.9
        assert "mean value" in result.summary()


class TestWhatIsRefused:
    def test_a_model_without_an_exact_answer(self, model: FittedModel, data: Interactions) -> None:
        users, targets = data.user_ids[:1], data.item_ids[:1]
        with pytest.raises(NotSupportedError, match="BlackBox has no exact answer"):
            compare_access(as_black_box(model), data, users=users, targets=targets)
        with pytest.raises(NotSupportedError, match="Models that have one"):
            compare_access(TopPop().fit(model.data), data, users=users, targets=targets)

    def test_a_policy_without_a_gradient(self, model: FittedModel, data: Interactions) -> None:
        with pytest.raises(NotSupportedError, match="differentiated"):
            compare_access(model, data, users=data.user_ids[:1], targets=data.item_ids[:1], policy=Top1())
        with pytest.raises(NotSupportedError, match="Softmax"):
            compare_access_instability(model, data, viewers=data.user_ids[:1], editors=data.user_ids[:2], policy=Top1())

    def test_unknown_ids_and_bad_budgets(self, model: FittedModel, data: Interactions) -> None:
        with pytest.raises(DataError, match="nobody"):
            compare_access(model, data, users=["nobody"], targets=data.item_ids[:1])
        with pytest.raises(InputError, match="budget"):
            compare_access(model, data, users=data.user_ids[:1], targets=data.item_ids[:1], budget=0)
