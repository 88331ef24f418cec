"""Arguments are what the signature says: checked before anything is computed, and handed on as they are."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import itertools
import math
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from recaudit.errors import InputError, did_you_mean, nearest_word

P = ParamSpec("P")
T = TypeVar("T")

_SHOWN = 60
_MANY = 1000
"""Elements of a long list that are looked at here; what they stand for is looked up later, every one."""


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which refuses an argument of another type than its signature says.

    An `int` is a whole number, numpy's too, and neither True nor 1.0; a `float` is any number but NaN; a list of
    something is never a single text. `Annotated[Kind, "..."]` says what to do for somebody who has something else.
    """
    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, Any]:
        # When first called: a hint may name what stands below the function.
        return typing.get_type_hints(function, include_extras=True)

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            kinds = {parameter.kind for parameter in signature.parameters.values()}
            unknown = next((name for name in kwargs if name not in signature.parameters), None)
            if unknown is None or inspect.Parameter.VAR_KEYWORD in kinds:
                return function(*args, **kwargs)  # no such call: Python says so best
            told = f"{function.__name__}() got an unexpected keyword argument {unknown!r}."
            raise TypeError(f"{told} {did_you_mean(unknown, signature.parameters)}") from None
        for name, value in given.items():
            if name in hints() and signature.parameters[name].kind is not inspect.Parameter.VAR_KEYWORD:
                check_argument(name, value, hints()[name])
        return function(*args, **kwargs)

    return guarded


def check_argument(name: str, value: object, hint: Any) -> None:
    """That the value is of the type that the hint describes."""
    if not _fits(value, hint):
        near = nearest_word(value, _texts(hint, typing.Literal)) if isinstance(value, str) else ""
        remedy = near or " ".join(_texts(hint, typing.Annotated))
        raise InputError(name, received=shown(value), expected=described(hint), remedy=remedy)


def check_count(name: str, value: int) -> None:
    """A count of at least one."""
    if value < 1:
        raise InputError(name, received=value, expected="a whole number of 1 or more")


def shown(value: object) -> str:
    """A value in a few words: itself where it is short, else what it is."""
    text = repr(value) if isinstance(value, _SHORT) else ""
    return text if 0 < len(text) <= _SHOWN else _class(type(value).__name__)


def described(hint: Any) -> str:
    """What a hint asks for, in words."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS and set(typing.get_args(ArrayLike)) <= set(inner):
        words = "numbers in an array" + " or None" * (types.NoneType in inner)
    elif origin in _UNIONS:
        words = " or ".join(dict.fromkeys(described(one) for one in inner))
    elif origin is typing.Annotated:
        words = described(inner[0])
    elif origin is typing.Literal:
        words = " or ".join(map(repr, inner))
    elif origin is tuple:
        words = f"({', '.join('...' if one is ... else described(one) for one in inner)})"
    elif origin in _MAPPINGS:
        words = f"a mapping of {described(inner[0])} to {described(inner[1])}"
    elif origin in _LISTS:
        words = "a list" if inner[0] in _ANYTHING else f"a list, each {described(inner[0])}"
    else:
        words = _WORDS.get(origin or hint) or _class(getattr(origin or hint, "__name__", str(hint)))
    return words


_SHORT = (bool, int, float, str, bytes, list, tuple, dict, set, np.generic, types.NoneType)
_ANYTHING = (Any, object)
_UNIONS = (types.UnionType, typing.Union)
_MAPPINGS = (collections.abc.Mapping, dict)
_LISTS = (collections.abc.Iterable, collections.abc.Collection, collections.abc.Sequence, list)
_NUMBERS: dict[Any, tuple[type, ...]] = {int: (int, np.integer), float: (int, float, np.integer, np.floating)}
_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    types.NoneType: "None",
    collections.abc.Callable: "a function",
}


def _class(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOUaeio' else 'a'} {name}"


def _fits(value: object, hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        fits = any(_fits(value, one) for one in inner)
    elif origin is typing.Annotated:
        fits = _fits(value, inner[0])
    elif origin is typing.Literal:
        fits = any(type(value) is type(one) and value == one for one in inner)
    elif origin is tuple:
        fits = isinstance(value, tuple | list) and _each_fits(value, inner)
    elif origin in _MAPPINGS:
        fits = isinstance(value, origin) and all(map(_each_fits, value.items(), itertools.repeat(inner)))
    elif origin in _LISTS:
        fits = _is_list(value) and (inner[0] in _ANYTHING or _each_fits(_looked_at(value), (inner[0], ...)))
    elif hint in _NUMBERS:
        nan = isinstance(value, float | np.floating) and math.isnan(value)
        fits = isinstance(value, _NUMBERS[hint]) and not isinstance(value, bool) and not nan
    elif hint is bool:
        fits = isinstance(value, bool | np.bool_)
    else:
        fits = hint in _ANYTHING or _is_one(value, origin or hint)
    return fits


def _each_fits(values: Sequence[object], hints: tuple[Any, ...]) -> bool:
    """Whether each value fits its own hint, or the only one where `...` follows it."""
    if hints[1:] == (...,):
        hints = hints[:1] * len(values)
    return len(values) == len(hints) and all(map(_fits, values, hints))


def _is_list(value: object) -> bool:
    """Several values in some order, in whatever holds them: a text is one value, and a mapping two of each."""
    if isinstance(value, str | bytes | collections.abc.Mapping) or (isinstance(value, np.ndarray) and not value.ndim):
        return False
    return isinstance(value, collections.abc.Iterable)


def _looked_at(values: Any) -> list[object]:
    """The first of several values; none where looking would use them up."""
    return [] if isinstance(values, collections.abc.Iterator) else list(itertools.islice(values, _MANY))


def _is_one(value: object, kind: Any) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that says nothing at run time, or a variable
        return True


def _texts(hint: Any, origin: Any) -> list[str]:
    """The texts inside the parts of a hint that have this origin."""
    if typing.get_origin(hint) is origin:
        extra = hint.__metadata__ if origin is typing.Annotated else typing.get_args(hint)
        return [text for text in extra if isinstance(text, str)]
    return [text for one in typing.get_args(hint) if typing.get_origin(hint) in _UNIONS for text in _texts(one, origin)]
