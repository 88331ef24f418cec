"""What a service is asked with and what is read from its answer: templates of JSON, and paths into JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pydantic import JsonValue

from recaudit.errors import InputError, did_you_mean

NAMES = ("user", "viewer", "items", "ratings", "history", "k")
"""What can be put into a request."""
EACH = ("item", "rating")
"""What can be put into the one element of a list, which is then repeated for each rating of the history."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_STEP = re.compile(r"[^.\[\]]+(?:\[\])?|\[\]")
_HISTORY: JsonValue = [{"item": "{item}", "rating": "{rating}"}]
"""What {history} stands for."""


class NoAnswerError(Exception):
    """A service did not answer, or what it answered is none."""

    def __init__(self, said: str, *, again: bool = False, after: float = 0.0) -> None:
        super().__init__(said)
        self.again = again  # whether the same question may well be answered the next time
        self.after = after  # seconds for which the service does not want to be asked


def names_in(template: JsonValue) -> set[str]:
    """The placeholders that a template has."""
    return {name for text in _texts(template) for name in _PLACEHOLDER.findall(text)}


def check_template(argument: str, template: JsonValue, *, each: bool = False) -> None:
    """That every placeholder is known, and stands where it can be filled in; `each`: inside a repeated element."""
    each = each or _is_repeated(template)
    for part in _parts(template):
        check_template(argument, part, each=each)
    for name in _PLACEHOLDER.findall(template) if isinstance(template, str) else ():
        if name in EACH and not each:
            expected = f"{{{name}}} inside a list of one element, which is repeated for each rating"
            raise InputError(argument, received=template, expected=expected)
        if name not in (*NAMES, *EACH):
            remedy = did_you_mean(name, [*NAMES, *EACH])
            raise InputError(argument, received=template, expected="placeholders that are known", remedy=remedy)
        if name == "history" and template != "{history}":
            remedy = "Inside a text write {items} and {ratings}."
            raise InputError(argument, received=template, expected="{history} as a value of its own", remedy=remedy)


def fill(template: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """The template with values: a text that is a placeholder becomes its value, one inside a text becomes text."""
    if isinstance(template, dict):
        return {key: fill(part, values) for key, part in template.items()}
    if isinstance(template, list):
        if _is_repeated(template):
            rows = zip(_listed(values["items"]), _listed(values["ratings"]), strict=True)
            return [fill(template[0], {**values, "item": item, "rating": rating}) for item, rating in rows]
        return [fill(part, values) for part in template]
    if not isinstance(template, str):
        return template
    if template == "{history}":
        return fill(_HISTORY, values)
    whole = _PLACEHOLDER.fullmatch(template)
    return values[whole[1]] if whole else fill_text(template, values, str)


def fill_url(template: str, values: Mapping[str, JsonValue]) -> str:
    """The address with values, percent-encoded: no value can change the path or add to the query."""
    return fill_text(template, values, lambda text: quote(text, safe=""))


def fill_text(template: str, values: Mapping[str, JsonValue], encode: Callable[[str], str]) -> str:
    """The text with values; those of a list have commas between them."""

    def text(found: re.Match[str]) -> str:
        value = values[found[1]]
        return ",".join(encode(_plain(one)) for one in (value if isinstance(value, list) else [value]))

    return _PLACEHOLDER.sub(text, template)


def as_json(value: object) -> JsonValue:
    """An id or a rating as JSON has it; a whole rating without a fraction, as services with stars expect it."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value  # type: ignore[return-value]  # ids are whole numbers or texts


def check_path(argument: str, path: str) -> None:
    """That a path is names with dots between them, each perhaps with `[]`; empty for the whole answer."""
    if path and not all(_STEP.fullmatch(step) for step in path.split(".")):
        raise InputError(argument, received=path, expected="a path such as 'recommendations[].id' or 'scores'")


def follow(path: str, body: JsonValue) -> JsonValue:
    """What stands at the path; where it has a `[]`, the list of what stands there in each element."""
    found, many = [body], False
    for step in path.split(".") if path else ():
        name, each = step.removesuffix("[]"), step.endswith("[]")
        if name:
            found = [_member(value, name, path) for value in found]
        if each:
            found, many = [element for value in found for element in _elements(value, path)], True
    return list(found) if many else found[0]


def parse(body: bytes) -> JsonValue:
    """The JSON of an answer; one that names a key twice is no more JSON than one with NaN."""
    try:
        parsed: JsonValue = json.loads(body, parse_constant=_no_number, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise NoAnswerError(f"bad JSON ({error}), which begins with {body[:60]!r}", again=True) from None
    return parsed


def read_ids(value: JsonValue, like: object, path: str) -> list[int | str]:
    """The item ids at the end of a path, as the log writes them: `like` is one of them."""
    if not isinstance(value, list):
        raise NoAnswerError(f"{_kind(value)} at {path!r} where a list of item ids was expected")
    return [_read_id(one, like, path) for one in value]


def read_scores(
    value: JsonValue, score: JsonValue, like: object, paths: Sequence[str]
) -> tuple[list[Any], list[float]]:
    """Item ids and a number for each: an object {id: number}, or ids and numbers under a path each."""
    if len(paths) == 1:
        if not isinstance(value, dict):
            raise NoAnswerError(f"{_kind(value)} at {paths[0]!r} where an object of scores by item id was expected")
        ids, numbers = [_read_id(key, like, paths[0]) for key in value], list(value.values())
    else:
        ids, numbers = read_ids(value, like, paths[0]), _elements(score, paths[1])
        if len(ids) != len(numbers):
            raise NoAnswerError(f"{len(ids):,} items at {paths[0]!r} and {len(numbers):,} scores at {paths[1]!r}")
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float) or abs(number) > sys.float_info.max:
            raise NoAnswerError(f"{_shown(number)} at {paths[-1]!r} where a number was expected")
    return ids, [float(number) for number in numbers]  # type: ignore[arg-type]  # looked at above


def _read_id(value: JsonValue, like: object, path: str) -> int | str:
    """An id as the log writes it: JSON has only texts for keys, and many services write every id as a text."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise NoAnswerError(f"{_shown(value)} at {path!r} where an item id was expected")
    if isinstance(like, str):
        return str(value)
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?(0|[1-9]\d{0,18})", value) else value


def _member(value: JsonValue, name: str, path: str) -> JsonValue:
    if not isinstance(value, dict):
        raise NoAnswerError(f"{_kind(value)} where an object with {name!r} was expected (answer path {path!r})")
    if name not in value:
        raise NoAnswerError(f"an object with {', '.join(map(repr, list(value)[:8]))} and no {name!r} ({path!r})")
    return value[name]


def _elements(value: JsonValue, path: str) -> list[JsonValue]:
    if not isinstance(value, list):
        raise NoAnswerError(f"{_kind(value)} where a list was expected (answer path {path!r})")
    return value


def _is_repeated(template: JsonValue) -> bool:
    """Whether this is a list whose one element speaks of a single rating, not through a list further in."""
    return isinstance(template, list) and len(template) == 1 and _speaks_of_one(template[0])


def _speaks_of_one(template: JsonValue) -> bool:
    if isinstance(template, str):
        return any(name in EACH for name in _PLACEHOLDER.findall(template))
    return not _is_repeated(template) and any(map(_speaks_of_one, _parts(template)))


def _parts(template: JsonValue) -> list[JsonValue]:
    if isinstance(template, dict):
        return list(template.values())
    return template if isinstance(template, list) else []


def _texts(template: JsonValue) -> Iterator[str]:
    if isinstance(template, str):
        yield template
    else:
        for part in _parts(template):
            yield from _texts(part)


def _listed(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list)
    return value


def _plain(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _distinct(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key that comes twice in an object")
    return found


def _no_number(word: str) -> float:
    raise ValueError(f"{word}, which is no number of JSON")


def _kind(value: JsonValue) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _shown(value: JsonValue) -> str:
    return f"{json.dumps(value):.60}"
