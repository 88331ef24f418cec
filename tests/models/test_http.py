"""A service that is asked: what it is asked, and what is made of its answers."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import recaudit as ra
from models.loopback import ITEMS, Handler, Service, log, own_list, serving, turned, users_asked, well
from recaudit.data import Interactions
from recaudit.errors import BudgetSpentError, InputError, NotSupportedError
from recaudit.interventions import NextK
from recaudit.models import BlackBox, from_http
from recaudit.models.given.http import Http
from recaudit.models.given.http_cache import CHECKED, NAME, AnswerCache
from recaudit.policies import Softmax

QUICK: dict[str, Any] = {"rate": None, "retries": 0, "pause": 0.01, "answer": "recommendations[].id"}


@pytest.fixture
def data() -> Interactions:
    return log()


def get(service: Service, folder: Path, data: Interactions, **settings: Any) -> BlackBox:
    return from_http(f"{service.url}/?user={{user}}&n={{k}}", data, cache=folder / "cache", **{**QUICK, **settings})


class TestLists:
    def test_they_come_as_the_service_gives_them(self, tmp_path: Path, data: Interactions) -> None:
        with serving(well) as service:
            found = ra.recommend(get(service, tmp_path, data, k=7), n=4)
        for user, rows in found.group_by("user"):
            assert rows.sort("rank")["item"].to_list() == turned(str(user[0]))[:4]
        assert {request.query["n"] for request in service.requests} == {"7"}

    def test_a_history_is_posted_under_the_names_of_the_service(self, tmp_path: Path, data: Interactions) -> None:
        request = {"user": "{user}", "for": "{viewer}", "history": [{"movie": "{item}", "stars": "{rating}"}]}
        with serving(lambda *_: (200, {"recommendations": [{"id": "i05"}]})) as service:
            model = from_http(service.url, data, request=request, cache=tmp_path, **QUICK)
            model.respond(1, 0, data.items_at(["i00", "i09"])).scores(np.array([4.5, 1.0]))
        history = [("i00", 4.5), ("i01", 4), ("i02", 5), ("i09", 1)]
        expected = [{"movie": item, "stars": rating} for item, rating in history]
        assert service.requests[-1].sent == {"user": "u00", "for": "u01", "history": expected}


class TestScores:
    @pytest.mark.parametrize(
        ("content", "settings"),
        [
            ({"s": {item: place / 2 for place, item in enumerate(ITEMS)} | {"unknown": 9}}, {"answer": "s"}),
            (
                [{"id": item, "value": place / 2} for place, item in reversed(list(enumerate(ITEMS)))],
                {"answer": "[].id", "score": "[].value"},
            ),
        ],
    )
    def test_each_item_has_its_own(
        self, tmp_path: Path, data: Interactions, content: Any, settings: dict[str, str]
    ) -> None:
        with serving(lambda *_: (200, content)) as service:
            model = get(service, tmp_path, data, gives="scores", predicts_ratings=True, **settings)
            assert model.scores(np.array([3]))[0].tolist() == [place / 2 for place in range(12)]
        assert model.predicts_ratings

    def test_an_item_without_a_probability_is_never_shown(self, tmp_path: Path, data: Interactions) -> None:
        with serving(lambda *_: (200, {"i05": 0.75, "i04": 0.25})) as service:
            model = get(service, tmp_path, data, gives="probabilities", answer="")
            assert np.exp(model.scores(np.array([0])))[0][[4, 5]] == pytest.approx([0.25, 0.75])
            shown = ra.recommend(model, n=5, users=["u00"])
        assert shown["item"].to_list() == ["i05", "i04"]

    def test_whole_numbers_are_ids_too(self, tmp_path: Path) -> None:
        frame = log().frame().with_columns(item=ra.data.Interactions.from_frame(log().frame()).items.astype(np.int64))
        numbered = Interactions.from_frame(frame, scale=(1, 5))
        with serving(lambda *_: (200, {"recommendations": [{"id": "7"}, {"id": 8}]})) as service:
            assert ra.recommend(get(service, tmp_path, numbered), users=["u00"])["item"].to_list() == [7, 8]


class TestWhatARequestDoesNotTell:
    """A service that is not told of an edit would answer as if nothing could be changed: a false finding."""

    def test_other_ratings(self, tmp_path: Path, data: Interactions) -> None:
        with serving(well) as service, pytest.raises(NotSupportedError, match=r"Send \{history\}"):
            get(service, tmp_path, data).respond(0, 0, np.array([1])).scores(np.array([1.0]))
        assert service.asked <= 2  # whether it repeats itself, and nothing about the edit

    def test_another_user_has_no_effect_unless_the_request_names_both(self, tmp_path: Path, data: Interactions) -> None:
        answer = {"recommendations": [{"id": "i05"}]}
        with serving(lambda *_: (200, answer)) as service:
            for request, others_move in (
                ({"user": "{user}", "history": "{history}"}, "nothing"),
                ({"user": "{user}", "for": "{viewer}", "history": "{history}"}, "any item"),
            ):
                model = from_http(service.url, data, request=request, cache=tmp_path, **QUICK)
                assert model.others_move == others_move


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "told"),
        [
            ({"url": "file:///etc/passwd"}, "http:// or https://"),
            ({"url": "host/path"}, "http:// or https://"),
            ({"url": "http://[::1/"}, "http:// or https://"),
            ({"url": "http://host:port/"}, "http:// or https://"),
            ({"url": "http://host/a b"}, "http:// or https://"),
            ({"url": "http://host/\n"}, "http:// or https://"),
            ({"url": "me:secret@host"}, "secrets in headers only"),
            ({"url": "//me:secret@host"}, "secrets in headers only"),
            ({"url": "http://{user}.host/"}, "http:// or https://"),
            ({"url": "http://me:secret@host/"}, "secrets in headers only"),
            ({"url": "http://host/?key=${KEY}"}, "secrets in headers only"),
            ({"request": {"key": "${KEY}"}}, "secrets in headers only"),
            ({"headers": {"Authorization": "Bearer abc"}}, r"Bearer \$\{TOKEN\}"),
            ({"headers": {"X-Api-Key": "abc"}}, r"Bearer \$\{TOKEN\}"),
            ({"headers": {"a b": "c"}}, "names of headers"),
            ({"request": {"u": "{usr}"}}, "Did you mean 'user'"),
            ({"answer": "a[0]"}, "a path such as"),
            ({"score": "a"}, "expected 'scores'"),
            ({"predicts_ratings": True}, "expected 'scores'"),
            ({"rate": 0}, "rate"),
            ({"budget": 0}, "budget"),
            ({"retry": 1}, "Did you mean 'retries'"),
        ],
    )
    def test_mistakes_are_told(self, data: Interactions, settings: dict[str, Any], told: str) -> None:
        url = settings.get("url", "http://127.0.0.1/")
        others = {name: value for name, value in settings.items() if name != "url"}
        with pytest.raises(InputError, match=told) as caught:
            from_http(url, data, **others)
        assert "secret@" not in str(caught.value)

    def test_a_recommender_has_the_same_settings_and_is_frozen(self) -> None:
        service = Http(url="https://host/{user}")
        with pytest.raises(ValidationError, match="frozen"):
            service.url = "https://other/"
        assert Http.model_validate(service.model_dump()) == service

    def test_without_httpx_the_extra_is_named(self, data: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "httpx", None)
        with pytest.raises(NotSupportedError, match=r"recaudit\[http\]"):
            from_http("http://127.0.0.1/", data)


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "http.md").read_text(encoding="utf-8")
    lacking = [name for name in Http.model_fields if f"`{name}`" not in page and f"`{name} = " not in page]
    assert lacking == []


SECRET = "s3cr3t-of-the-service"


class TestSecrets:
    @staticmethod
    def echo(_: Service, request: Handler) -> tuple[int, Any]:
        """A service that gives its callers away."""
        token = str(request.headers["Authorization"]).removeprefix("Bearer ")
        lists = {"u00": "i05", "u01": token}
        if request.user in lists:
            return 200, {"recommendations": [{"id": lists[request.user]}]}
        return 200, f"<{token}>".encode()

    def test_they_are_sent_and_are_nowhere_else(
        self, tmp_path: Path, data: Interactions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TOKEN", SECRET)
        with serving(self.echo) as service:
            model = get(service, tmp_path, data, headers={"Authorization": "Bearer ${TOKEN}"})
            result = ra.exposure(model)
            result.save(tmp_path / "result")
        assert {request.headers["Authorization"] for request in service.requests} == {f"Bearer {SECRET}"}
        assert result.frame["users"].max() == 1
        assert sum(result.facts["failed"].values()) == 19
        assert any("${TOKEN}" in why for why in result.facts["failed"])
        assert SECRET.encode() not in pickle.dumps(model)
        kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert len(kept) > 2
        told = [repr(model), repr(model.system), repr(result), repr(result.settings)]
        assert not any(SECRET.encode() in content for content in kept)
        assert not any(SECRET in text for text in told)

    def test_a_worker_has_its_own(self, tmp_path: Path, data: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TOKEN", "first")
        with serving(well) as service:
            sent = pickle.dumps(get(service, tmp_path, data, headers={"X-Token": "${TOKEN}"}))
            monkeypatch.setenv("TOKEN", "second")
            ra.recommend(pickle.loads(sent), users=["u00"])
        assert service.requests[0].headers["X-Token"] == "second"

    @pytest.mark.parametrize("value", [None, "", "two\nlines", "süß", " spaced "])
    def test_a_variable_that_is_no_header_is_told_by_its_name(
        self, tmp_path: Path, data: Interactions, monkeypatch: pytest.MonkeyPatch, value: str | None
    ) -> None:
        monkeypatch.delenv("TOKEN", raising=False)
        if value is not None:
            monkeypatch.setenv("TOKEN", value)
        with pytest.raises(InputError, match=r"headers\.X-Token.*TOKEN") as caught:
            from_http("http://127.0.0.1/", data, headers={"X-Token": "${TOKEN}"})
        assert not value or value not in str(caught.value)


class TestSample:
    def test_only_those_who_were_drawn_are_asked_about(self, tmp_path: Path, data: Interactions) -> None:
        train, test = ra.splits.leave_last(data)
        with serving(well) as service:
            model = get(service, tmp_path, train, users=6)
            accuracy, exposure = ra.accuracy(model, test, k=3), ra.exposure(model, k=3)
        assert len(users_asked(service)) == 6
        for result in (accuracy, exposure):
            assert result.facts["asked"] == {"users": 6, "of": 20}
            row = result.frame.filter(metric="ndcg" if result is accuracy else "novelty").row(0, named=True)
            assert (row["users"], row["excluded"]) == (6, 0)
            assert (row["value"] is not None, row["lower"]) == (True, None)  # too few users for an interval
            assert len(result.users) == 6
        assert set(exposure.frame["users"]) == {6}
        # Of more users' lists more items are seen: what a sample shows is no more than a lower bound.
        assert exposure.frame.filter(status="bounded")["metric"].to_list() == ["coverage"]
        by_user = exposure.groups.filter(by="history", metric="novelty")
        assert by_user["users"].sum() == 6

    def test_the_sample_has_the_numbers_of_the_same_users_among_all(self, tmp_path: Path, data: Interactions) -> None:
        train, test = ra.splits.leave_last(data)
        with serving(well) as service:
            some = ra.accuracy(get(service, tmp_path, train, users=["u03", "u07"]), test, k=9).users
            everybody = ra.accuracy(get(service, tmp_path, train), test, k=9).users
        assert some.equals(everybody.filter(everybody["user"].is_in(["u03", "u07"])))

    def test_an_audit_with_the_same_seed_draws_the_same(self, data: Interactions) -> None:
        from recaudit.audits.samples import resolve_users

        model = from_http("http://127.0.0.1/{user}", data, users=5, rng=3)
        assert model.audited_users is not None
        assert model.audited_users.tolist() == resolve_users(5, data, 3).tolist()


class TestCache:
    def test_an_answer_costs_one_query(self, tmp_path: Path, data: Interactions) -> None:
        with serving(well) as service:
            for _ in range(2):
                ra.recommend(get(service, tmp_path, data))
        assert service.asked == 20

    def test_another_question_or_another_reading_is_asked(self, tmp_path: Path, data: Interactions) -> None:
        with serving(well) as service:
            for settings in ({}, {"k": 5}, {"answer": "recommendations[].id", "headers": {"X-A": "b"}}):
                ra.recommend(get(service, tmp_path, data, **settings), users=["u00"])
            assert service.asked == 2
            scores = get(service, tmp_path, data, gives="scores", score="recommendations[].score")
            scores.scores(np.array([0]))
        assert service.asked == 3

    def test_an_old_answer_is_asked_for_again(self, tmp_path: Path, data: Interactions) -> None:
        with serving(well) as service:
            for _ in range(2):
                ra.recommend(get(service, tmp_path, data, max_age=1e-9), users=["u00"])
        assert service.asked == 2

    def test_a_failure_is_not_kept(self, tmp_path: Path, data: Interactions) -> None:
        def first_fails(service: Service, request: Handler) -> tuple[int, Any]:
            return (404, {}) if service.asked == 1 else well(service, request)

        with serving(first_fails) as service:
            for failed in (True, False):
                assert ("failed" in ra.exposure(get(service, tmp_path, data, users=["u00"])).facts) == failed

    def test_an_answer_after_a_failure_is_kept_like_any_other(self, tmp_path: Path, data: Interactions) -> None:
        def first_fails(service: Service, request: Handler) -> tuple[int, Any]:
            return (404, {}) if service.asked == 1 else well(service, request)

        with serving(first_fails) as service:
            model = get(service, tmp_path, data, users=["u00"])
            for _ in range(6):
                ra.exposure(model)
            assert service.asked == 1 + 1  # the failure, and the answer
            for _ in range(6):
                own_list(model)
        assert service.asked == 1 + 2  # once more, to test whether it is the same

    @pytest.mark.parametrize("damage", ["text", "pages"])
    def test_a_damaged_one_is_told_and_set_aside(self, tmp_path: Path, data: Interactions, damage: str) -> None:
        with serving(well) as service:
            ra.recommend(get(service, tmp_path, data))
            file = tmp_path / "cache" / NAME
            content = bytearray(file.read_bytes())
            content[4096 if damage == "pages" else 0 :] = b"no database " * (len(content) // 12)
            file.write_bytes(content)
            with pytest.warns(ra.errors.DamageWarning, match=r"set aside as answers\.sqlite\.damaged-1"):
                ra.recommend(get(service, tmp_path, data))
            assert service.asked == 40
            ra.recommend(get(service, tmp_path, data))
        assert service.asked == 40
        assert (tmp_path / "cache" / f"{NAME}.damaged-1").exists()

    def test_one_damaged_answer_is_asked_for_again(self, tmp_path: Path) -> None:
        import sqlite3
        from contextlib import closing

        cache = AnswerCache(tmp_path)
        cache.keep(b"k", b"s", 1, b"answer", 0)
        assert cache.recall(b"k", b"s", 1, 0) == b"answer"
        with closing(sqlite3.connect(tmp_path / NAME)) as database:
            database.execute("UPDATE answers SET body = x'00'")
            database.commit()
        assert cache.recall(b"k", b"s", 1, 0) is None


class TestWhetherAServiceRepeatsItself:
    """A cache must not make a random service look certain."""

    def test_a_random_one_is_asked_each_time(self, tmp_path: Path, data: Interactions) -> None:
        def counting(service: Service, _: Handler) -> tuple[int, Any]:
            return 200, {"recommendations": [{"id": ITEMS[service.asked % 12]}]}

        with serving(counting) as service:
            model = get(service, tmp_path, data)
            lists = [own_list(model).tolist() for _ in range(5)]
            assert lists == [[1], [2], [3], [4], [5]]
            again = get(service, tmp_path, data)  # as after a kill: what was answered is not asked again
            assert [own_list(again).tolist() for _ in range(6)] == [*lists, [6]]

    def test_of_a_certain_one_a_few_questions_are_asked_twice(self, tmp_path: Path, data: Interactions) -> None:
        with serving(well) as service:
            model = get(service, tmp_path, data)
            for _ in range(4):
                model.own_lists(np.arange(20))
        assert service.asked == 20 + CHECKED

    def test_audits_of_lists_query_each_list_once(self, tmp_path: Path, data: Interactions) -> None:
        train, test = ra.splits.leave_last(data)
        with serving(well) as service:
            model = get(service, tmp_path, train)
            ra.accuracy(model, test)
            ra.exposure(model)
        assert set(users_asked(service).values()) == {1}

    def test_a_random_one_is_found_although_audits_of_lists_came_first(
        self, tmp_path: Path, data: Interactions
    ) -> None:
        def counting(service: Service, _: Handler) -> tuple[int, Any]:
            return 200, {"recommendations": [{"id": ITEMS[service.asked % 12]}]}

        with serving(counting) as service:
            model = get(service, tmp_path, data)
            ra.exposure(model)
            assert model.with_earlier_answers.sampling is not None
            scores = model.with_earlier_answers.scores(np.array([3]))[0]
        assert int((scores > scores.min()).sum()) > 1  # shares are estimated from independent lists

    def test_reachability_says_that_a_random_answer_is_an_average(self, tmp_path: Path, data: Interactions) -> None:
        def drawn(service: Service, _: Handler) -> tuple[int, Any]:
            return 200, {item: (place + service.asked) % 12 / 4 for place, item in enumerate(ITEMS)}

        with serving(drawn) as service:
            request = {"history": "{history}"}
            settings = {**QUICK, "answer": "", "gives": "scores", "request": request, "cache": tmp_path}
            model = from_http(service.url, data, **settings)
            result = ra.reachability(
                model, users=["u00"], targets=["i05"], actions=NextK(1), policy=Softmax(beta=1.0), budget=20
            )
        assert (result.pairs["fresh"] > 0).all()


def test_the_budget_is_spent_and_the_rest_is_excluded(tmp_path: Path, data: Interactions) -> None:
    with serving(well) as service:
        model = get(service, tmp_path, data, budget=7)
        result = ra.exposure(model)
        assert service.asked == 7
        assert list(result.facts["failed"].values()) == [13]
        assert "budget of queries is spent: 7 of 7" in next(iter(result.facts["failed"]))
        with pytest.raises(BudgetSpentError):
            model.scores(np.array([19]))
        more = ra.exposure(get(service, tmp_path, data, budget=20))
        assert "failed" not in more.facts
    assert service.asked == 20
