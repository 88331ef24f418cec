"""What every audit must do: the shipped contract, for each of ours, and Python and TOML beside each other."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from recaudit import runs
from recaudit.audits.agency.audit import Agency
from recaudit.audits.audit import Audit, Context, Subject
from recaudit.audits.calibration.audit import Calibration
from recaudit.audits.calibration.reranking import CalibrationCurve, Reranking
from recaudit.audits.catalogue import PAPERS, catalog
from recaudit.audits.composed.audit import Composed
from recaudit.audits.fidelity.audit import Fidelity
from recaudit.audits.folding.audit import Folding
from recaudit.audits.instability.audit import Instability
from recaudit.audits.lists.accuracy import Accuracy
from recaudit.audits.lists.exposure import Exposure
from recaudit.audits.mitigation.audit import Mitigation
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.recipe import Change, Max, Own, PredictedRating, Rung
from recaudit.audits.recourse.audit import Recourse
from recaudit.audits.recourse.goals import CalibratedWithin
from recaudit.audits.result import Result
from recaudit.data.splits import Split
from recaudit.errors import InputError
from recaudit.interventions import HistoryEdits, NextK, Past, Stars
from recaudit.models import ALS, WALS
from recaudit.policies import Softmax
from recaudit.registry import AUDITS
from recaudit.testing import AuditContract

pytestmark = pytest.mark.contract


class TestAccuracy(AuditContract):
    audit = Accuracy(k=5)


class TestExposure(AuditContract):
    audit = Exposure(k=5, policy=Softmax(beta=1.5))


class TestReachability(AuditContract):
    audit = Reachability(actions=NextK(3), users=6)


class TestPastReachability(AuditContract):
    audit = Reachability(actions=Past(2), users=4)

    def test_a_loop_can_ask_it_or_it_says_why_not(self) -> None:  # type: ignore[override]  # a loop has no past model
        with pytest.raises(Exception, match="past"):
            self.audit.check_loop()


class TestRecourse(AuditContract):
    audit = Recourse(actions=NextK(3, ratings=Stars(1, 5)), users=8, items=6)


class TestInstability(AuditContract):
    audit = Instability(viewers=5, editors=6)


class TestAgency(AuditContract):
    audit = Agency(k=2, horizons=(1,), betas=(1.0,), users=4, followed=2, targets=5, editors=4)


class TestFolding(AuditContract):
    audit = Folding(k=5)


class TestCalibration(AuditContract):
    audit = Calibration(k=10, tested=10)


class TestReranking(AuditContract):
    audit = Reranking(k=10, tested=10, curve=(0.0, 0.9))


class TestCalibrationCurve(AuditContract):
    audit = CalibrationCurve(weights=(0.0, 0.9))


class TestFidelity(AuditContract):
    audit = Fidelity()


class TestMitigation(AuditContract):
    audit = Mitigation(
        k=5, weights=(0.9,), unobserved_weights=(0.1,), beta_factors=(2.0,), users=4, targets=4, editors=3
    )
    recommender = WALS(factors=3, iterations=3)


class TestComposed(AuditContract):
    audit = Composed(intervention=Own(NextK(3)), outcome=PredictedRating(), functional=Change(), over=Max(), viewers=4)


def test_every_audit_has_a_contract() -> None:
    tested = {type(cls.audit) for cls in globals().values() if isinstance(cls, type) and hasattr(cls, "audit")}
    assert tested == set(AUDITS.values())


@pytest.mark.parametrize("name", [name for name in AUDITS if name != "composed"])
def test_python_and_toml_have_the_same_defaults(name: str) -> None:
    text = f'[data]\nname = "demo"\n[[model]]\nkind = "random"\n[audits.{name}]\n'
    assert runs.parse(text, source="test", folder=Path()).audits == {name: AUDITS[name]()}


@pytest.mark.parametrize(
    ("audit", "by", "said"),
    [
        (Instability(viewers=2, editors=2), "genre", "groups of users. This audit can be split by: "),
        (Mitigation(k=5), "popularity", "groups of users. This audit can be split by: region, age, history."),
        (Recourse(goal=CalibratedWithin(), users=2), "genre", "groups of users. This audit can be split by: "),
        (Reranking(k=5), "history", "nothing: the numbers of reranking are of everybody"),
        (CalibrationCurve(k=(5,)), "genre", "nothing: the numbers of calibration-curve are of everybody"),
        (Fidelity(), "region", "nothing: the numbers of fidelity are of everybody"),
        (TestComposed.audit, "region", "nothing: the numbers of composed are of everybody"),
    ],
)
def test_groups_that_would_have_no_rows_are_refused(audit: Audit, by: str, said: str, split: Split) -> None:
    asked, recommender = audit.model_copy(update={"by": (by,)}), ALS(factors=2, iterations=2)
    subject = Subject(recommender.fit(split.train), recommender, split.train, split.test)
    for refusing in (lambda: asked.check(split.train), lambda: asked.run(subject)):
        with pytest.raises(InputError, match=rf"^by: received .*{by}.*; expected {re.escape(said)}"):
            refusing()


class RatingsGiven(Audit):
    """How many ratings users gave: an audit as another package has it."""

    def measure(self, subject: Subject, context: Context) -> Result:
        """See `Audit`."""
        assert subject.model is not None
        log = subject.model.data
        return self.per_user(log, {"given": log.user_counts.astype(float)}, context.rng)


def test_a_number_of_each_user_has_no_groups_of_items(split: Split) -> None:
    model = ALS(factors=2, iterations=2).fit(split.train)
    assert set(RatingsGiven(by=("region",)).run(model).groups["by"]) == {"region"}
    with pytest.raises(InputError, match="received genre, which groups items; expected groups of users"):
        RatingsGiven(by=("genre",)).run(model)


def test_what_the_catalogue_lists_can_be_run() -> None:
    assert {entry.paper for entry in catalog()} == set(PAPERS)
    for entry in catalog():
        kind = AUDITS.kind_of(entry.audit)
        assert AUDITS[kind] is type(entry.audit)
        known = {metric.name for metric in entry.audit.metrics} | {"value", "lift", "rank_gain"}
        assert entry.number in known


@pytest.mark.parametrize(
    "name",
    ["lift", "rank gain", "past-5 reachability", "past-5 instability", "rating error", "recall", "concentration"],
)
def test_an_audit_of_the_catalogue_gives_its_number(name: str, split: Split) -> None:
    [entry] = [entry for entry in catalog() if entry.name == name]
    recommender = ALS(factors=2, iterations=2)
    subject = Subject(recommender.fit(split.train), recommender, split.train, split.test)
    result = entry.audit.run(subject)
    if entry.number in result.metrics and entry.number in set(result.frame["metric"]):
        assert np.isfinite(result[entry.number])
    else:
        assert result.pairs[entry.number].drop_nulls().is_finite().any()


def test_the_worked_example_prints_what_the_docs_say(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "guides" / "recipe.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    # The example itself is under test.
    exec(compile(code, "recipe.md", "exec"), {})
    assert capsys.readouterr().out == printed


def test_the_rung_follows_from_what_is_asked() -> None:
    rungs = {entry.audit.recipe.rung for entry in catalog() if entry.audit.recipe is not None}
    assert rungs == set(Rung)
    recipe = Reachability(actions=Past(2)).recipe
    assert recipe is not None
    assert recipe.rung is Rung.COUNTERFACTUAL
    asked = (None, NextK(3), HistoryEdits(3), Past(3))
    rungs_of = [Recourse(actions=actions).rung for actions in asked]
    assert rungs_of == [Rung.INTERVENTIONAL, Rung.INTERVENTIONAL, Rung.COUNTERFACTUAL, Rung.COUNTERFACTUAL]
    assert Mitigation().rung is Rung.INTERVENTIONAL


def test_settings_set_the_bounds_of_a_metric() -> None:
    def bounds(audit: Audit, name: str) -> tuple[float | None, float | None]:
        return next(audit.bounds_of(metric) for metric in audit.metrics if metric.name == name)

    assert bounds(Instability(), "max_instability") == (0.0, 1.0)
    assert bounds(Instability(distance="l2"), "max_instability")[1] == pytest.approx(2**0.5)
    assert bounds(Instability(distance="kl"), "max_instability") == (0.0, None)
    assert bounds(Instability(), "instability") == (0.0, None)
    assert bounds(Folding(), "shown_folding") == (0.0, 1.0)
    assert bounds(Folding(similarity="dot"), "shown_folding") == (0.0, None)


@pytest.mark.parametrize("name", AUDITS)
def test_every_metric_declares_its_bounds(name: str) -> None:
    unbounded = {metric.name for metric in AUDITS[name].metrics if metric.bounds == (None, None)}
    assert unbounded <= {"composed", "realised_share"}
