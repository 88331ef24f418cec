"""What every audit must do; a new audit's test class inherits this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pydantic import ValidationError

from recaudit import runs
from recaudit.audits.audit import Audit, Subject, Verb
from recaudit.audits.result import Result
from recaudit.data import datasets
from recaudit.data.splits import leave_last
from recaudit.data.synthetic import demo_world
from recaudit.engines import Threads
from recaudit.errors import InputError
from recaudit.metrics.terms import QUESTION, Terms, by_group
from recaudit.models import ALS, Recommender
from recaudit.registry import AUDITS, MODELS
from recaudit.specification import as_data
from recaudit.status import Status


class AuditContract:
    """Give it an audit, and a recommender that can be asked; both small."""

    audit: Audit
    recommender: Recommender = ALS(factors=4, iterations=3)

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls) -> Subject:
        """Everything that an audit can need, on a small world."""
        data = demo_world(users=40, items=50).data
        train, test = leave_last(data, k=3)
        return Subject(cls.recommender.fit(train), cls.recommender, data, test)

    @pytest.fixture(scope="class")
    @classmethod
    def result(cls, subject: Subject) -> Result:
        """Asked once."""
        return cls.audit.run(subject, rng=3)

    def test_it_is_registered(self) -> None:
        assert AUDITS[AUDITS.kind_of(self.audit)] is type(self.audit)

    def test_it_is_frozen_and_refuses_unknown_settings(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            self.audit.confidence = 0.5
        with pytest.raises(InputError, match="surprise"):
            type(self.audit)(**dict(self.audit), surprise=1)  # type: ignore[call-arg]  # which is what is refused

    def test_every_setting_is_explained(self) -> None:
        assert not [name for name, field in type(self.audit).model_fields.items() if not field.description]

    def test_it_travels_as_data(self) -> None:
        assert type(self.audit).model_validate(as_data(self.audit)) == self.audit

    def test_the_verb_is_the_audit(self, subject: Subject, result: Result) -> None:
        found = Verb(type(self.audit), Result)(subject, rng=3, **dict(self.audit))
        assert_same_tables(found, result)

    def test_the_same_seed_gives_the_same_numbers_on_any_engine(self, subject: Subject, result: Result) -> None:
        assert_same_tables(self.audit.run(subject, rng=3, engine=Threads(2)), result)

    def test_every_number_has_a_definition(self, result: Result) -> None:
        known = {metric.name: metric for metric in type(self.audit).metrics}
        assert set(result.frame["metric"]) <= set(known)
        assert set(result.groups["metric"]) <= set(known)
        for metric in known.values():
            assert metric.label
            assert metric.definition.endswith(".")
            assert metric.formula
            assert metric.range.endswith(".")

    def test_every_number_says_how_it_stands(self, result: Result) -> None:
        assert len(result.frame) > 0
        for row in result.frame.iter_rows(named=True):
            assert row["status"] in set(Status)
            assert (row["value"] is None) == (row["status"] in (Status.NOT_APPLICABLE, Status.FAILED))
            if row["lower"] is not None:
                assert row["lower"] <= row["value"] + 1e-12
                assert row["upper"] >= row["value"] - 1e-12

    def test_values_are_within_the_bounds_of_their_metric(self, result: Result) -> None:
        users = result.users if result.has_table("users") else _NOBODY
        for name, metric in result.metrics.items():
            lowest, highest = metric.bounds
            own = users[name].drop_nulls().to_list() if name in users.columns else []
            overall = result.frame.filter(pl.col("metric") == name)["value"].drop_nulls().to_list()
            for value in (*own, *overall):
                assert lowest is None or value >= lowest - 1e-9
                assert highest is None or value <= highest + 1e-9

    def test_any_grouping_of_people_applies(self, result: Result) -> None:
        own = [name for name in result.metrics if "users" in result.tables and name in result.users.columns]
        if not own:
            pytest.skip("it has no number for each user")
        people = result.users["user"]
        groups = pl.DataFrame({"user": people, "team": np.where(np.arange(len(people)) % 2, "odd", "even")})
        found = result.grouped(groups)
        assert set(found["group"]) == {"odd", "even"}
        assert set(found["metric"]) == set(own)

    def test_what_users_add_makes_up_the_numbers(self, result: Result) -> None:
        if "terms" not in result.tables:
            pytest.skip("it keeps no terms")
        terms = by_group(result.table("terms"), result.table("people") if "people" in result.tables else _NOBODY)
        questions = terms.select(*QUESTION, "scale").unique(maintain_order=True)
        users = terms["user"].unique().sort()
        values = Terms(terms, users, questions).values()
        found = questions.with_columns(found=pl.Series(values))
        told = pl.concat(
            [result.frame.with_columns(by=pl.lit(""), group=pl.lit("")).select(result.groups.columns), result.groups]
        )
        both = told.drop_nulls("value").join(found, on=QUESTION)
        np.testing.assert_allclose(both["found"], both["value"], rtol=1e-9, atol=1e-12)
        made_of_counts, _ = self.audit.of_counts(result.items) if "items" in result.tables else ((), None)
        known = set(both.filter(pl.col("by") == "")["metric"]) | set(made_of_counts)
        assert known >= set(result.frame.drop_nulls("value")["metric"])

    def test_a_result_is_kept_and_read_back(self, result: Result, tmp_path: Path) -> None:
        result.save(tmp_path / "kept")
        again = Result.load(tmp_path / "kept")
        assert type(again) is type(self.audit).result
        assert again.audit == result.audit
        assert again.settings == result.settings
        assert_same_tables(again, result)

    def test_it_shows_itself(self, result: Result) -> None:
        kind = AUDITS.kind_of(self.audit)
        assert kind in result.summary()
        assert "<table" in result._repr_html_()
        assert result.plot().to_dict()["$schema"]

    def test_a_configuration_gives_the_same_numbers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        data = demo_world(users=40, items=50).data
        monkeypatch.setattr(datasets, "load", lambda name, path=None: data)
        kind = AUDITS.kind_of(self.audit)
        table: dict[str, Any] = {
            "seed": 3,
            "data": {"name": "demo"},
            "split": {"kind": "leave-last", "k": 3},
            "model": [{**as_data(self.recommender, MODELS), "label": "one"}],
            "audits": {kind: as_data(self.audit)},
        }
        run = runs.execute(runs.Configuration.model_validate(table), tmp_path)
        train, test = leave_last(data, k=3)
        subject = Subject(self.recommender.fit(train, rng=3), self.recommender, data, test)
        expected = self.audit.run(subject, rng=3)
        for name, frame in expected.tables.items():
            assert_frame_equal(run.table("one", kind, name), frame)

    def test_a_loop_can_ask_it_or_it_says_why_not(self, subject: Subject) -> None:
        audit = self.audit.model_copy(update={"by": None})
        if audit.needs != ("model",):
            with pytest.raises(InputError, match="needs"):
                audit.check_loop()
            return
        audit.check_loop()
        assert subject.model is not None
        assert len(audit.observe(subject.model, 3).frame) > 0


_NOBODY = pl.DataFrame({"user": []})


def assert_same_tables(one: Result, other: Result) -> None:
    """The same tables, bit for bit."""
    assert one.tables.keys() == other.tables.keys()
    for name, frame in other.tables.items():
        assert_frame_equal(one.tables[name], frame, check_exact=True)
