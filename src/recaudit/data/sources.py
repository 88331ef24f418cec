"""Where a log comes from, as a configuration says it: a data set by name, or one's own files."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    model_validator,
)

from recaudit.arguments import check_argument
from recaudit.data import datasets, loading
from recaudit.data.interactions import Interactions
from recaudit.data.splits import Split
from recaudit.data.text_files import Column, TextFormat
from recaudit.errors import DataError, InputError, did_you_mean
from recaudit.specification import InputFile, InputFolder, Specification, build, mistake


def _known_data_set(name: str) -> str:
    if name not in datasets.names():
        raise mistake((), name, "the name of a data set", did_you_mean(name, datasets.names()))
    return name


@final
class NamedData(Specification):
    """A data set that recaudit knows by name."""

    name: Annotated[str, AfterValidator(_known_data_set)]
    """Which: 'recaudit data list' has the names."""
    path: InputFolder | None = None
    """The folder that holds its files; without it they are looked for, or downloaded."""

    @property
    def label(self) -> str:
        """What to call the data in front of a person."""
        return self.name

    @property
    def files(self) -> dict[str, Path]:
        """None of the user's own."""
        return {}

    def load(self) -> Interactions:
        """The log."""
        return datasets.load(self.name, self.path)

    def load_parts(self, train: Path, test: Path) -> tuple[Interactions, Split]:
        """A data set by name is split by a rule, not by files."""
        raise InputError("split", received=f"files beside {self.name}", expected="the files alone, or a rule")


def _ascending(scale: tuple[float, float]) -> tuple[float, float]:
    if not scale[0] < scale[1]:
        raise mistake((), list(scale), "[lowest, highest], lowest below highest")
    return scale


def _column_or_none(value: object) -> object:
    if value is None or value is False:
        return None
    if (isinstance(value, str) and value) or (type(value) is int and value >= 0):
        return value
    raise mistake((), value, "a column by name or number, or false: every row counts as 1")


def _table(value: object) -> object:
    return {"file": value} if isinstance(value, str | Path) else value


def _by_name(value: object) -> object:
    return {one: one for one in value} if isinstance(value, list | tuple) else value


@final
class TableFile(TextFormat):
    """A file with a row for each item, or each user. A path alone stands for a file in its format's usual form."""

    file: InputFile
    """A .parquet file, or text as the other settings say."""
    id: Column | None = None
    """The column that holds ids; the same as in the log, where nothing is said."""


AnyTable = Annotated[TableFile, BeforeValidator(_table)]


@final
class OwnData(TextFormat):
    """The user's own files: .parquet, or text (.csv, .tsv, .dat, any other), not compressed.

    Ids in text files are text as it is written, unless all of a column are plain whole numbers: "007" and "7" are two
    users, and so are "1" and "1.0".
    """

    file: InputFile
    """The ratings."""
    user: Column = "user"
    """The column of user ids, by name, or by number from 0."""
    item: Column = "item"
    """The column of item ids."""
    rating: Annotated[int | str | None, PlainValidator(_column_or_none)] = "rating"
    """The rating's column; false takes every row as a rating of 1."""
    time: Column | None = None
    """The column of times: numbers, or dates and times as ISO 8601 writes them."""
    scale: Annotated[tuple[float, float], AfterValidator(_ascending)] | None = None
    """The lowest and highest rating that can be given; without it, those that were."""
    duplicates: Literal["error", "last", "mean"] = "error"
    """What to do with several rows for one user and item."""
    catalogue: Literal["rated", "all"] = "rated"
    """Which users and items there are: those with ratings, or all rows of `items` and `users` as well. With "rated" a
    file of titles changes no number; "all" is for files that hold exactly what can be recommended, and to whom."""
    items: AnyTable | None = None
    """A file with a row an item, or a table: {file = "u.item", separator = "|", header = false, id = 0}."""
    title: Column | None = None
    """The column of `items` that holds titles."""
    categories: dict[str, Column] = Field(default_factory=dict)
    """The columns of `items` that hold categories: {genre = "genres"}."""
    category_separator: str = Field(default="|", min_length=1)
    """What stands between two categories in one cell."""
    users: AnyTable | None = None
    """A file with a row a user, or a table, as for `items`."""
    attributes: Annotated[dict[str, Column], BeforeValidator(_by_name)] = Field(default_factory=dict)
    """The columns of `users` to group by: ["gender"], or {gender = 1}."""

    @model_validator(mode="after")
    def _columns_have_files(self) -> Self:
        if self.items is None and (self.title is not None or self.categories):
            raise mistake(("items",), None, "the file that holds 'title' and 'categories'")
        if self.users is None and self.attributes:
            raise mistake(("users",), None, "the file that holds 'attributes'")
        if self.catalogue == "all" and self.items is None and self.users is None:
            raise mistake(("catalogue",), "all", "'rated', or a file of 'items' or 'users' that says which there are")
        return self

    @property
    def label(self) -> str:
        """What to call the data in front of a person."""
        return self.file.name

    @property
    def files(self) -> dict[str, Path]:
        """What is read, by what it holds: "ratings", "items", "users"."""
        tables = {"items": self.items, "users": self.users}
        return {"ratings": self.file} | {name: table.file for name, table in tables.items() if table is not None}

    def load(self) -> Interactions:
        """The log, with everything that is said about users and items."""
        return loading.load(self)

    def load_parts(self, train: Path, test: Path) -> tuple[Interactions, Split]:
        """The log that two files make together, in the place of `file`, and its two parts."""
        return loading.load_parts(self, train, test)


def read_data(value: object, info: ValidationInfo) -> NamedData | OwnData:
    """Data by name, or the user's own."""
    if isinstance(value, NamedData | OwnData):
        return value
    if not isinstance(value, Mapping) or ("name" in value) == ("file" in value):
        raise mistake((), value, "either name = '...' (a data set by name) or file = '...' (your own)")
    return build(NamedData, value, info) if "name" in value else build(OwnData, value, info)


AnyData = Annotated[NamedData | OwnData, PlainValidator(read_data)]


@final
class Read:
    """`read(file, ...)` is `OwnData(file=file, ...).load()`: Python takes the settings of a configuration's [data]."""

    __name__ = __qualname__ = "read"

    def __init__(self) -> None:
        settings = list(inspect.signature(OwnData).parameters.values())
        first = next(one for one in settings if one.name == "file")
        rest = [one for one in settings if one.name != "file"]
        positional = first.replace(name="path", kind=inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str | Path)
        self.__signature__ = inspect.Signature([positional, *rest], return_annotation=Interactions)
        about = {name: field.description for name, field in OwnData.model_fields.items() if name != "file"}
        listed = "\n".join(f"    {name}\n        {text}" for name, text in about.items())
        self.__doc__ = f"Build a log from files.\n\n{inspect.getdoc(OwnData)}\n\nSettings:\n{listed}"

    def __call__(self, path: str | Path, **settings: Any) -> Interactions:
        """The log."""
        check_argument("path", path, str | Path)
        try:
            source = OwnData(file=path, **settings)  # type: ignore[arg-type]  # pydantic makes a path of it
        except InputError as first:
            kind = DataError if first.argument == "file" else InputError
            name = "path" if first.argument == "file" else first.argument
            raise kind(name, received=first.received, expected=first.expected, remedy=first.remedy) from None
        return source.load()

    def __repr__(self) -> str:
        return "<function read>"


read = Read()
