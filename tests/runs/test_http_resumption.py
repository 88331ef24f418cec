"""Runs of a service that fails, changes or is corrected: nothing that was answered is lost, and causes are printed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from models.loopback import Handler, Reply, Service, log, serving, turned, users_asked, well
from recaudit import report
from recaudit.cli import app
from recaudit.errors import InputError
from recaudit.runs import Configuration, Run, compare, execute, parse
from recaudit.runs.resumption import Resumption
from recaudit.runs.services import answers_of, has_result, outages_of, shared_answers

USERS = 12
CONFIGURATION = """
seed = 0
[data]
file = "ratings.csv"
time = "time"
scale = [1, 5]
[split]
kind = "leave-last"
k = 1
[[model]]
kind = "http"
label = "svc"
url = "{url}/recommend"
answer = "recommendations[].id"
request = {{user = "{{user}}", history = "{{history}}", n = "{{k}}"}}
headers = {{Authorization = "Bearer ${{TOKEN}}"}}
retries = 0
rate = 10000.0
cache = "cache"
[[model]]
kind = "top-pop"
[audits.accuracy]
[audits.exposure]
"""
STEPS = [("svc", "accuracy"), ("svc", "exposure"), ("TopPop", "accuracy"), ("TopPop", "exposure")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log(USERS).frame().write_csv(tmp_path / "ratings.csv")
    monkeypatch.setenv("TOKEN", "right")
    return tmp_path


def parsed(service: Service, folder: Path, **changes: tuple[str, str]) -> Configuration:
    text = CONFIGURATION.format(url=service.url)
    for before, after in changes.values():
        assert before in text
        text = text.replace(before, after)
    return parse(text, source="audit.toml", folder=folder)


def executed(config: Configuration, out: Path, **options: Any) -> tuple[Run, Resumption]:
    decided: list[Resumption] = []
    return execute(config, out, resumed=decided.append, **options), decided[0]


def own(steps: tuple[Any, ...]) -> list[tuple[str, str]]:
    """The steps of the models that were named, without those of the baselines that the run adds."""
    return [(step[0], step[1]) for step in steps if step[0] in ("svc", "TopPop")]


def guarded(service: Service, request: Handler) -> Reply:
    return well(service, request) if request.headers["Authorization"] == "Bearer right" else (401, {})


class Mortal:
    """A service that gives so many answers, and then none."""

    def __init__(self, answers: int) -> None:
        self.answers = answers

    def __call__(self, service: Service, request: Handler) -> Reply:
        return well(service, request) if service.asked <= self.answers else (503, {})


class TestFailuresThatMayPass:
    def test_after_a_corrected_token_the_same_command_queries_again(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with serving(guarded) as service:
            config = parsed(service, folder)
            monkeypatch.setenv("TOKEN", "wrong")
            first, _ = executed(config, folder / "run")
            assert [(one.answered, one.queried, one.total) for one in outages_of(first)] == [(0, USERS, True)] * 2
            assert all("401 Unauthorized" in one.cause for one in outages_of(first))
            monkeypatch.setenv("TOKEN", "right")
            run, decided = executed(config, folder / "run")
            queries = service.asked
            again, nothing = executed(config, folder / "run")
            assert service.asked == queries
        assert own(decided.kept) == STEPS[2:]
        assert own(decided.repeated) == STEPS[:2]
        assert outages_of(run) == []
        assert run.table("svc", "accuracy", "summary")["users"].max() == USERS
        assert own(nothing.kept) == STEPS
        assert nothing.repeated == ()
        assert [(step.model, step.audit) for step in again.manifest.steps if step.model in again.models] == STEPS

    def test_steps_that_are_not_supported_are_not_tried_again(self, folder: Path) -> None:
        # A request without the history cannot try other ratings.
        changes = {"request": ('history = "{history}", ', ""), "audit": ("[audits.exposure]", "[audits.reachability]")}
        with serving(well) as service:
            config = parsed(service, folder, **changes)
            first, _ = executed(config, folder / "run")
            _, decided = executed(config, folder / "run")
        refused = [(skip.model, skip.audit) for skip in first.manifest.skipped if not skip.failed]
        assert ("TopPop", "reachability") in refused
        assert ("TopPop", "reachability") in decided.kept

    def test_an_audit_that_fails_as_a_whole_leaves_the_others_and_is_tried_again(self, folder: Path) -> None:
        # Whether a service of lists repeats itself is tested before any pair: here the test itself fails.
        changes = {"audit": ("[audits.exposure]", '[audits.reachability]\nusers = 2\npolicy = {kind = "top-1"}')}
        mortal = Mortal(0)
        with serving(mortal) as service:
            config = parsed(service, folder, **changes)
            first, _ = executed(config, folder / "run")
            failed = [skip for skip in first.manifest.skipped if skip.failed]
            assert [(skip.model, skip.audit) for skip in failed] == [("svc", "reachability")]
            assert "503 Service Unavailable" in failed[0].reason
            assert ("TopPop", "accuracy") in {(step.model, step.audit) for step in first.manifest.steps}
            mortal.answers = 10_000
            run, decided = executed(config, folder / "run")
        assert {("svc", "reachability"), ("svc", "accuracy")} <= set(own(decided.repeated))
        assert ("svc", "reachability") in {(step.model, step.audit) for step in run.manifest.steps}
        assert outages_of(run) == []

    def test_a_budget_that_was_raised_resumes(self, folder: Path) -> None:
        with serving(well) as service:
            low = parsed(service, folder, budget=("retries = 0", "retries = 0\nbudget = 5"))
            first, _ = executed(low, folder / "run")
            assert service.asked == 5
            assert [one.answered for one in outages_of(first)] == [5, 5]
            high = parsed(service, folder, budget=("retries = 0", "retries = 0\nbudget = 100"))
            run, decided = executed(high, folder / "run")
        assert set(users_asked(service).values()) == {1}
        assert own(decided.kept) == STEPS[2:]
        assert outages_of(run) == []
        assert run.manifest.config["model"][0]["budget"] == 100

    @pytest.mark.parametrize(
        "line",
        ["budget = 999", "rate = 5000.0", "concurrency = 2", "retries = 3", "read_timeout = 9.0", "max_age = 1.0"],
    )
    def test_settings_of_the_work_are_no_part_of_a_step(self, folder: Path, line: str) -> None:
        name = line.partition(" ")[0]
        with serving(well) as service:
            execute(parsed(service, folder), folder / "run")
            text = CONFIGURATION.format(url=service.url)
            kept = [row for row in text.splitlines() if not row.startswith(f"{name} =")]
            kept.insert(kept.index('kind = "http"') + 1, line)
            changed = parse("\n".join(kept), source="audit.toml", folder=folder)
            queries = service.asked
            run, decided = executed(changed, folder / "run")
        assert service.asked == queries
        assert own(decided.kept) == STEPS
        assert run.manifest.models[0].settings[name] == changed.measured[0].recommender.model_dump()[name]

    def test_users_of_a_service_are_part_of_the_steps_of_all_models(self, folder: Path) -> None:
        # All models are measured on the same users.
        with serving(well) as service:
            execute(parsed(service, folder, users=("retries = 0", "retries = 0\nusers = 5")), folder / "run")
            more = parsed(service, folder, users=("retries = 0", "retries = 0\nusers = 8"))
            run, decided = executed(more, folder / "new")
            with pytest.raises(InputError, match="other users"):
                execute(more, folder / "run")
        assert decided.kept == ()
        assert run.table("TopPop", "accuracy", "summary")["users"].max() == 8

    def test_what_is_queried_is_part_of_a_step(self, folder: Path) -> None:
        with serving(well) as service:
            execute(parsed(service, folder), folder / "run")
            _, decided = executed(parsed(service, folder, n=("retries = 0", "k = 7")), folder / "run")
        assert own(decided.repeated) == STEPS[:2]


class TestAnswersThatWereGiven:
    def test_users_that_were_answered_count_in_every_audit_although_the_service_died(self, folder: Path) -> None:
        with serving(Mortal(5)) as service:
            run, _ = executed(parsed(service, folder), folder / "run")
        assert [(one.audit, one.answered) for one in outages_of(run)] == [("accuracy", 5), ("exposure", 5)]
        novelty = run.table("svc", "exposure", "summary").filter(metric="novelty").row(0, named=True)
        assert (novelty["users"], novelty["status"]) == (5, "solved")

    def test_a_service_that_comes_back_is_queried_for_the_others_only(self, folder: Path) -> None:
        mortal = Mortal(5)
        with serving(mortal) as service:
            config = parsed(service, folder)
            execute(config, folder / "run")
            answered = [request.user for request in service.requests[:5]]
            mortal.answers = 10_000
            before = service.asked
            run, _ = executed(config, folder / "run")
        later = [request.user for request in service.requests[before:]]
        assert len(later) == USERS - 5
        assert not set(later) & set(answered)
        assert outages_of(run) == []


def reversed_lists(_: Service, request: Handler) -> Reply:
    return 200, {"recommendations": [{"id": item} for item in reversed(turned(request.user))]}


class Deployed:
    """A service whose recommender can be replaced."""

    def __init__(self, answer: Callable[[Service, Handler], Reply]) -> None:
        self.answer = answer

    def __call__(self, service: Service, request: Handler) -> Reply:
        return self.answer(service, request)


class TestOldAnswers:
    def test_they_are_counted_and_dated(self, folder: Path) -> None:
        begun = time.time()
        with serving(well) as service:
            config = parsed(service, folder)
            first, second = (execute(config, folder / name) for name in ("first", "second"))
            assert service.asked == USERS
        one, other = answers_of(first)["svc"], answers_of(second)["svc"]
        assert (one["used"], one["earlier"]) == (2 * USERS, 0)
        assert (other["used"], other["earlier"], other["cached"]) == (2 * USERS, 2 * USERS, 2 * USERS)
        assert list(other["runs"]) == [first.manifest.id]
        assert other["oldest"] == one["oldest"]
        from datetime import datetime

        assert begun - 1 <= datetime.fromisoformat(other["oldest"]).timestamp() <= time.time()

    def test_a_resumed_run_has_queried_its_answers_itself(self, folder: Path) -> None:
        with serving(Mortal(5)) as service:
            config = parsed(service, folder)
            execute(config, folder / "run")
            run, _ = executed(config, folder / "run")
        assert answers_of(run)["svc"]["earlier"] == 0

    def test_requery_queries_again_and_keeps_everything_else(self, folder: Path) -> None:
        deployed = Deployed(well)
        with serving(deployed) as service:
            config = parsed(service, folder)
            old = execute(config, folder / "run")
            before = old.table("svc", "accuracy", "users")
            deployed.answer = reversed_lists
            cached = execute(config, folder / "cached")
            assert cached.table("svc", "accuracy", "users").equals(before)
            run, decided = executed(config, folder / "run", requery=True)
            assert service.asked == 2 * USERS
            fresh = execute(config, folder / "new", requery=True)
            assert service.asked == 3 * USERS
        assert own(decided.kept) == STEPS[2:]
        assert answers_of(run)["svc"]["earlier"] == 0
        assert not run.table("svc", "accuracy", "users").equals(before)
        assert run.table("svc", "accuracy", "users").equals(fresh.table("svc", "accuracy", "users"))

    def test_a_requery_that_was_interrupted_does_not_fall_back_on_old_answers(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from recaudit.audits.lists.accuracy import Accuracy

        with serving(well) as service:
            config = parsed(service, folder)
            execute(config, folder / "run")
            with monkeypatch.context() as patch:

                def interrupted(*_: object, **__: object) -> None:
                    raise KeyboardInterrupt

                patch.setattr(Accuracy, "measure", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    execute(config, folder / "run", requery=True)
            run = execute(config, folder / "run")
            assert service.asked == 2 * USERS
        assert answers_of(run)["svc"]["earlier"] == 0

    def test_runs_that_share_answers_say_so(self, folder: Path) -> None:
        with serving(well) as service:
            config = parsed(service, folder)
            first, second = (execute(config, folder / name) for name in ("first", "second"))
            third = execute(config, folder / "third", requery=True)
        models = compare(first, second).models
        [shared] = shared_answers(first, second, models)
        assert (shared.code, shared.answers, shared.used) == ("service.shared-answers", 2 * USERS, 2 * USERS)
        assert shared_answers(second, first, models) != []
        assert shared_answers(first, third, models) == []


class TestCommand:
    @staticmethod
    def run(folder: Path, service: Service, *options: str, out: str = "run") -> Any:
        (folder / "audit.toml").write_text(CONFIGURATION.format(url=service.url), encoding="utf-8")
        return CliRunner().invoke(app, ["audit", str(folder / "audit.toml"), "--out", str(folder / out), *options])

    @pytest.mark.parametrize(
        ("wrong", "cause"),
        [
            ((401, {}), "401 Unauthorized"),
            ((200, b"<html>Sign in</html>"), "bad JSON"),
            ((200, {"recommendations": [{"id": "unknown"}]}), "an item that the log does not have"),
            ((200, {"items": []}), "no 'recommendations'"),
        ],
    )
    def test_a_service_that_gives_no_answer_ends_with_3_and_its_cause(
        self, folder: Path, wrong: Reply, cause: str
    ) -> None:
        with serving(lambda *_: wrong) as service:
            done = self.run(folder, service)
        assert done.exit_code == 3
        assert f"svc answered for 0 of {USERS} users" in done.output
        assert cause in done.output

    def test_a_service_that_is_down_ends_with_3(self, folder: Path) -> None:
        with serving(well) as service:
            pass
        done = self.run(folder, service, "--json")
        assert done.exit_code == 3
        document = json.loads(done.stdout)
        assert {(one["answered"], one["total"]) for one in document["outages"]} == {(0, True)}
        assert "no connection" in next(iter(document["outages"][0]["causes"]))

    def test_users_that_failed_have_their_cause_too(self, folder: Path) -> None:
        with serving(Mortal(7)) as service:
            done = self.run(folder, service)
        assert done.exit_code == 0
        assert f"svc answered for 7 of {USERS} users" in done.output
        assert "503 Service Unavailable" in done.output

    def test_old_answers_are_printed_and_requery_replaces_them(self, folder: Path) -> None:
        with serving(well) as service:
            self.run(folder, service)
            second = self.run(folder, service, out="second")
            third = self.run(folder, service, "--requery", out="second")
        assert f"{2 * USERS} answers, {2 * USERS} from the cache of an earlier run" in second.output
        assert f"{2 * USERS} answers, none from an earlier run" in third.output
        assert service.asked == 2 * USERS

    def test_the_report_and_the_statement_have_causes_and_dates(self, folder: Path) -> None:
        with serving(Mortal(7)) as service:
            config = parsed(service, folder)
            execute(config, folder / "first")
            run = execute(config, folder / "run", report=report.render)
        for text in (run.report.read_text(encoding="utf-8"), report.render_statement(run)):
            assert "503 Service Unavailable" in text
            assert "7 from the cache of an earlier run" in text

    def test_compare_and_check_print_that_answers_are_shared(self, folder: Path) -> None:
        with serving(well) as service:
            self.run(folder, service)
            self.run(folder, service, out="second")
        runs = [str(folder / name) for name in ("run", "second")]
        assert "the same answers of svc" in CliRunner().invoke(app, ["compare", *runs]).output
        document = json.loads(CliRunner().invoke(app, ["compare", *runs, "--json"]).stdout)
        assert [one["code"] for one in document["shared_answers"]] == ["service.shared-answers"]
        rules = folder / "gate.toml"
        rules.write_text('[[rule]]\nmetric = "ndcg"\nnot_worse_by = 0.5\n', encoding="utf-8")
        checked = CliRunner().invoke(app, ["check", runs[1], "--baseline", runs[0], "--rules", str(rules)])
        assert "the same answers of svc" in checked.output


def test_a_run_in_which_no_model_supports_an_audit_has_no_exit_code_0(folder: Path) -> None:
    text = '[data]\nfile = "ratings.csv"\n[[model]]\nkind = "top-pop"\n[audits.reachability]\nusers = 2\n'
    (folder / "audit.toml").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["audit", str(folder / "audit.toml"), "--out", str(folder / "run")])
    assert not has_result(Run.open(folder / "run"))
    assert done.exit_code == 2


def test_a_missing_token_is_found_before_other_models_are_fitted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from recaudit.models import TopPop

    fitted: list[object] = []
    monkeypatch.setattr(TopPop, "fit", lambda self, *_, **__: fitted.append(self))
    monkeypatch.delenv("TOKEN")
    with serving(well) as service:
        text = CONFIGURATION.format(url=service.url)
        model = text.index('[[model]]\nkind = "http"')
        other = '[[model]]\nkind = "top-pop"\n'
        config = parse(text[:model] + other + text[model:].replace(other, ""), source="audit.toml", folder=folder)
        with pytest.raises(InputError, match="TOKEN"):
            execute(config, folder / "run")
    assert fitted == []
