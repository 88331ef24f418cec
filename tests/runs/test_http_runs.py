"""A service as a model of a configuration, and a run that is killed while it asks."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from models.loopback import Handler, Reply, Service, log, serving, users_asked, well
from recaudit import report
from recaudit.data import splits, synthetic
from recaudit.errors import ConfigError
from recaudit.models import Http
from recaudit.runs import Run, execute, parse, read

SECRET = "n0t-f0r-y0ur-eyes"
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
label = "Service"
url = "{url}/recommend"
answer = "recommendations[].id"
request = {{user = "{{user}}", history = [{{movie = "{{item}}", stars = "{{rating}}"}}], n = "{{k}}"}}
headers = {{Authorization = "Bearer ${{TOKEN}}"}}
users = 30
rate = 10000.0
cache = "cache"
[audits.exposure]
[audits.accuracy]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log(48).frame().write_csv(tmp_path / "ratings.csv")
    monkeypatch.setenv("TOKEN", SECRET)
    return tmp_path


def slowly(service: Service, request: Handler) -> Reply:
    time.sleep(0.03)
    return well(service, request)


def rejecting(service: Service, request: Handler) -> Reply:
    """A service that tells everybody its callers' tokens."""
    if request.user < "u24":
        return well(service, request)
    return 200, [request.headers["Authorization"]]


def test_a_run_keeps_everything_but_the_secret(folder: Path) -> None:
    with serving(rejecting) as service:
        config = parse(CONFIGURATION.format(url=service.url), source="audit.toml", folder=folder)
        run = execute(config, folder / "run", report=report.render)
    assert {request.headers["Authorization"] for request in service.requests} == {f"Bearer {SECRET}"}
    assert run.manifest.models[0].settings["headers"] == {"Authorization": "Bearer ${TOKEN}"}
    facts = {step.audit: step.settings for step in run.manifest.steps if step.model in run.models}
    for name in ("exposure", "accuracy"):
        assert facts[name]["asked"] == {"users": 30, "of": 48}
        assert 0 < sum(facts[name]["failed"].values()) < 30
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert {"manifest.json", "report.html", "answers.sqlite"} <= {path.name for path in kept}
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]
    assert service.requests[0].sent.keys() == {"user", "history", "n"}


def test_baselines_are_measured_on_the_users_that_the_service_is_queried_for(folder: Path) -> None:
    text = CONFIGURATION.replace("users = 30", "users = 10").replace("[audits.exposure]", "[audits.exposure]\nk = 1")
    with serving(well) as service:
        config = parse(text.format(url=service.url), source="audit.toml", folder=folder)
        run = execute(config, folder / "run")
    shown = {model: set(run.result(model, "exposure").users["user"]) for model in (*run.models, *run.floors)}
    assert len(shown["Service"]) == 10
    assert all(users == shown["Service"] for users in shown.values())
    assert {run.result(model, "accuracy").frame["users"].max() for model in shown} == {10}

    # 10 lists of 1 item cannot hold a catalogue of more items.
    verdict = report.verdict(run)
    items = run.manifest.data.items
    (limited,) = [caution for caution in verdict.cautions if caution.code == "exposure.coverage-limited-by-users"]
    assert limited.numbers[0].reference == pytest.approx(10 / items)
    assert not [finding for finding in verdict.findings if finding.code == "exposure.items-never-shown"]
    (few,) = [caution for caution in verdict.cautions if caution.code == "service.few-users"]
    assert {number.model for number in few.numbers} == {"Service"}
    assert {(number.audit, number.users) for number in few.numbers} == {("exposure", 10), ("accuracy", 10)}


def test_a_service_that_answers_nothing_measures_nothing(folder: Path) -> None:
    with serving(lambda service, request: (401, {})) as service:
        text = CONFIGURATION.replace("seed = 0", "seed = 0\nfloors = false")
        config = parse(text.format(url=service.url), source="audit.toml", folder=folder)
        run = execute(config, folder / "run")
    verdict = report.verdict(run)
    assert verdict.code == "verdict.nothing-measured"
    codes = {caution.code: caution for caution in verdict.cautions}
    assert codes["service.failed-queries"].premise
    assert codes["service.failed-queries"].numbers[0].value == 1
    assert "401" in codes["service.failed-queries"].detail


def test_the_cache_starts_at_the_configuration_and_is_kept_by_its_name(folder: Path) -> None:
    config = parse(CONFIGURATION.format(url="http://127.0.0.1"), source="audit.toml", folder=folder)
    service = config.models[0].recommender
    assert isinstance(service, Http)
    assert service.cache == folder / "cache"
    assert service.model_dump(mode="json")["cache"] == "cache"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ('headers = {{Authorization = "Bearer abc"}}', r"model\[0\]\.headers\.Authorization"),
        ('answers = "a"', "Did you mean 'answer'"),
        ('budget = "100"', r"model\[0\]\.budget"),
    ],
)
def test_mistakes_are_told_with_their_place(folder: Path, wrong: str, told: str) -> None:
    text = CONFIGURATION.replace('headers = {{Authorization = "Bearer ${{TOKEN}}"}}', wrong)
    with pytest.raises(ConfigError, match=told):
        parse(text.format(url="http://127.0.0.1"), source="audit.toml", folder=folder)


def test_a_variable_that_is_not_set_is_told_before_anything_is_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOKEN")
    config = parse(CONFIGURATION.format(url="http://127.0.0.1"), source="audit.toml", folder=folder)
    with pytest.raises(ValueError, match="TOKEN, an environment variable that is not set"):
        execute(config, folder / "run")


def test_the_example_is_answered_by_its_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = Path(__file__).parents[2] / "examples" / "http"
    data = synthetic.demo_world(rng=2, users=40, items=30).data
    train, _ = splits.leave_last(data, k=3)
    data.frame().write_csv(folder / "ratings.csv")
    train.frame().write_csv(folder / "train.csv")
    made = runpy.run_path(str(example / "server.py"))
    monkeypatch.setenv("TOKEN", made["TOKEN"])
    with made["make_server"](folder / "train.csv", port=0) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        text = (example / "audit.toml").read_text(encoding="utf-8").replace("8765", str(server.server_port))
        run = execute(parse(text, source="audit.toml", folder=folder), folder / "run")
        server.shutdown()
    assert run.missing == ()
    assert run.manifest.skipped == () or {skip.model for skip in run.manifest.skipped} == {"Most rated"}
    assert not [step for step in run.manifest.steps if "failed" in step.settings]
    statuses = next(step.settings["statuses"] for step in run.manifest.steps if step.audit == "reachability")
    assert statuses["bounded"] > 0
    assert statuses["failed"] == 0


def test_a_run_that_was_killed_goes_on_and_asks_nothing_again(folder: Path) -> None:
    work = "import sys; from recaudit.runs import read, execute; execute(read(sys.argv[1]), sys.argv[2])"
    with serving(slowly) as service:
        # One more than there are users: the question that is under way when the kill comes.
        text = CONFIGURATION.format(url=service.url).replace("users = 30", "budget = 49\nretries = 0")
        (folder / "audit.toml").write_text(text.replace("[audits.accuracy]\n", ""), encoding="utf-8")
        command: list[Any] = [sys.executable, "-c", work, folder / "audit.toml", folder / "run"]
        with subprocess.Popen(command, env=dict(os.environ)) as first:
            while service.asked < 12:
                assert first.poll() is None
                time.sleep(0.005)
            first.send_signal(signal.SIGKILL)
        before = service.asked
        run = execute(read(folder / "audit.toml"), folder / "run")
    assert before < 48
    assert run.manifest.status == "complete"
    times = users_asked(service)
    assert len(times) == 48
    assert service.asked <= 49
    summary = Run.open(folder / "run").table("Service", "exposure", "summary")
    assert set(summary["users"]) == {48}
