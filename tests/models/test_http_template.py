"""What is sent, and what is read."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import JsonValue

from recaudit.errors import InputError
from recaudit.models.given.http_template import (
    NoAnswerError,
    check_path,
    check_template,
    fill,
    fill_url,
    follow,
    parse,
    read_ids,
    read_scores,
)

VALUES: dict[str, JsonValue] = {"user": 7, "viewer": "a b/c", "items": ["x", "y"], "ratings": [5, 2.5], "k": 3}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ({"user": "{user}", "n": "{k}"}, {"user": 7, "n": 3}),
        ("{items}", ["x", "y"]),
        ({"q": "for {user}: {items}"}, {"q": "for 7: x,y"}),
        ("{history}", [{"item": "x", "rating": 5}, {"item": "y", "rating": 2.5}]),
        ([{"id": "{item}", "stars": "{rating}", "by": "{user}"}],
         [{"id": "x", "stars": 5, "by": 7}, {"id": "y", "stars": 2.5, "by": 7}]),
        ([["{item}", "{rating}"]], [["x", 5], ["y", 2.5]]),
        ({"a": {"b": [["{item}"]]}}, {"a": {"b": [["x", "y"]]}}),
        ([1, None, True, "{ id }"], [1, None, True, "{ id }"]),
    ],
)  # fmt: skip
def test_a_template_is_filled(template: JsonValue, filled: JsonValue) -> None:
    check_template("request", template)
    assert fill(template, VALUES) == filled


def test_no_history_is_an_empty_list() -> None:
    assert fill({"h": "{history}"}, {**VALUES, "items": [], "ratings": []}) == {"h": []}


def test_a_value_cannot_change_the_address() -> None:
    values: dict[str, JsonValue] = {"user": "../a?b=1&c#d%é", "items": ["x,y", "z"]}
    url = fill_url("https://host/u/{user}?items={items}", values)
    assert url == "https://host/u/..%2Fa%3Fb%3D1%26c%23d%25%C3%A9?items=x%2Cy,z"


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ({"a": "{usr}"}, "Did you mean 'user'"),
        ({"a": "{item}"}, "inside a list of one element"),
        (["{item}", "{rating}"], "inside a list of one element"),
        ({"a": "my {history}"}, "as a value of its own"),
    ],
)
def test_what_cannot_be_filled_is_told_beforehand(template: JsonValue, told: str) -> None:
    with pytest.raises(InputError, match=told):
        check_template("request", template)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", {"a": [{"id": 1, "b": [2, 3]}, {"id": 4, "b": []}], "c": {"d": 5}}),
        ("a[].id", [1, 4]),
        ("a[].b[]", [2, 3]),
        ("c.d", 5),
        ("c", {"d": 5}),
    ],
)
def test_a_path_is_followed(path: str, found: JsonValue) -> None:
    body: JsonValue = {"a": [{"id": 1, "b": [2, 3]}, {"id": 4, "b": []}], "c": {"d": 5}}
    check_path("answer", path)
    assert follow(path, body) == found
    assert follow("[]", [1, 2]) == [1, 2]


@pytest.mark.parametrize("path", ["a..b", ".a", "a[0]", "a[]b", "a."])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="a path such as"):
        check_path("answer", path)


@pytest.mark.parametrize(
    ("path", "told"), [("a[].no", "no 'no'"), ("c[]", "an object where a list"), ("a.id", "a list where an object")]
)
def test_a_path_that_leads_nowhere_is_told(path: str, told: str) -> None:
    with pytest.raises(NoAnswerError, match=told):
        follow(path, {"a": [{"id": 1}], "c": {"d": 5}})


NO_JSON = [b"", b"<html>", b'{"a": NaN}', b'{"a": 1, "a": 2}', b"[" * 100_000, b"\xff", b"9" * 9999]


@pytest.mark.parametrize("body", NO_JSON, ids=lambda body: repr(body[:9]))
def test_what_is_no_json(body: bytes) -> None:
    with pytest.raises(NoAnswerError, match="bad JSON") as caught:
        parse(body)
    assert caught.value.again


def test_ids_are_written_as_in_the_log() -> None:
    assert read_ids(["12", 3, "-4"], 1, "") == [12, 3, -4]
    assert read_ids(["012", "a"], 1, "") == ["012", "a"]
    assert read_ids([12, "012"], "text", "") == ["12", "012"]
    assert read_scores({"12": 1, "3": 0.5}, None, 1, ["scores"]) == ([12, 3], [1.0, 0.5])
    assert read_scores([12, 3], [1, 0.5], 1, ["a[].id", "a[].score"]) == ([12, 3], [1.0, 0.5])


@pytest.mark.parametrize("wrong", ["text", {"a": 1}, [True], [None], [1.5], [["a"]]])
def test_what_are_no_ids(wrong: Any) -> None:
    with pytest.raises(NoAnswerError):
        read_ids(wrong, 1, "ids")


@pytest.mark.parametrize(
    ("ids", "scores", "paths"),
    [
        ([1, 2], None, ["s"]),
        ({"1": "high"}, None, ["s"]),
        ({"1": True}, None, ["s"]),
        ({"1": None}, None, ["s"]),
        ({"1": 10**400}, None, ["s"]),
        ([1, 2], [1.0], ["i", "s"]),
        ([1], 1.0, ["i", "s"]),
    ],
)
def test_what_are_no_scores(ids: Any, scores: Any, paths: list[str]) -> None:
    with pytest.raises(NoAnswerError):
        read_scores(ids, scores, 1, paths)
