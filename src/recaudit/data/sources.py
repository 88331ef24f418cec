"""Where a log comes from, as a configuration says it: a data set by name, or one's own files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self, final

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, model_validator

from recaudit.data import datasets
from recaudit.data.interactions import Interactions
from recaudit.data.readers import read, read_table
from recaudit.errors import did_you_mean, reading_from
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

    def load(self) -> Interactions:
        """The log."""
        return datasets.load(self.name, self.path)


def _ascending(scale: tuple[float, float]) -> tuple[float, float]:
    if not scale[0] < scale[1]:
        raise mistake((), list(scale), "[lowest, highest], lowest below highest")
    return scale


@final
class OwnData(Specification):
    """The user's own files: .csv, .tsv or .parquet, each with a header."""

    file: InputFile
    """The ratings."""
    user: str = "user"
    """The column of user ids."""
    item: str = "item"
    """The column of item ids."""
    rating: str | Literal[False] = "rating"
    """The rating's column; false takes every row as a rating of 1."""
    time: str | None = None
    """The column of times: numbers or dates. Without it nothing is known about the order of ratings."""
    scale: Annotated[tuple[float, float], AfterValidator(_ascending)] | None = None
    """The lowest and highest rating that can be given; without it, those that were."""
    duplicates: Literal["error", "last", "mean"] = "error"
    """What to do with several rows for one user and item."""
    items: InputFile | None = None
    """A row an item, under the same id column as in `file`; items that nobody rated are left out."""
    title: str | None = None
    """The column of `items` that holds titles."""
    categories: dict[str, str] = Field(default_factory=dict)
    """The columns of `items` that hold categories: {genre = "genres"}."""
    separator: str = Field(default="|", min_length=1)
    """What stands between two categories in one cell."""
    users: InputFile | None = None
    """A row a user, under the same id column as in `file`; users without ratings are left out."""
    attributes: tuple[str, ...] = ()
    """The columns of `users` to group by."""

    @model_validator(mode="after")
    def _columns_have_files(self) -> Self:
        if self.items is None and (self.title is not None or self.categories):
            raise mistake(("items",), None, "the file that holds 'title' and 'categories'")
        if self.users is None and self.attributes:
            raise mistake(("users",), None, "the file that holds 'attributes'")
        return self

    @property
    def label(self) -> str:
        """What to call the data in front of a person."""
        return self.file.name

    def load(self) -> Interactions:
        """The log, with everything that is said about users and items."""
        with reading_from(self.file.name):
            data = read(
                self.file,
                user=self.user,
                item=self.item,
                rating=self.rating or None,
                time=self.time,
                scale=self.scale,
                duplicates=self.duplicates,
            )
        if self.items is not None:
            with reading_from(self.items.name):
                data = data.with_items(
                    read_table(self.items, {self.item: data.item_ids}),
                    item=self.item,
                    title=self.title,
                    categories=self.categories,
                    separator=self.separator,
                    unknown="ignore",
                )
        if self.users is not None:
            with reading_from(self.users.name):
                data = data.with_users(
                    read_table(self.users, {self.user: data.user_ids}),
                    user=self.user,
                    attributes=self.attributes,
                    unknown="ignore",
                )
        return data


def read_data(value: object, info: ValidationInfo) -> NamedData | OwnData:
    """Data by name, or the user's own."""
    if isinstance(value, NamedData | OwnData):
        return value
    if not isinstance(value, Mapping) or ("name" in value) == ("file" in value):
        raise mistake((), value, "either name = '...' (a data set by name) or file = '...' (your own)")
    return build(NamedData, value, info) if "name" in value else build(OwnData, value, info)


AnyData = Annotated[NamedData | OwnData, PlainValidator(read_data)]
