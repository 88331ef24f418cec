"""`recaudit rerank`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from recaudit.cli.messages import AsJson, answers, command, notes, print_json
from recaudit.cli.progress import shown
from recaudit.errors import InputError, reading_from

if TYPE_CHECKING:
    from recaudit.data import Interactions
    from recaudit.data.interactions import Unknown
    from recaudit.specification import Specification

    Settings = TypeVar("Settings", bound=Specification)


@command(interrupted="Interrupted. Nothing was written.")
def rerank(
    lists: Annotated[
        Path, typer.Argument(metavar="LISTS", help="A .parquet, .csv or .tsv file: user, item, and score or rank.")
    ],
    data: Annotated[
        str,
        typer.Option("--data", metavar="NAME|FILE", help="The histories: a data set by name, or ratings in a file."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the lists go: a .parquet or .csv file.")],
    items: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Beside a file of ratings: a row an item, with its categories.")
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=X]", help="A category system, or a column of --items; X: its importance. Repeat."),
    ] = None,
    weight: Annotated[
        list[float] | None,
        typer.Option(help="Lambda, 0 (the scores alone) to 1; repeat for one a rank, the last holding on.  [0.99]"),
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="The length of the lists.  [50]")] = None,
    transform: Annotated[
        str | None, typer.Option(help="Of scores, a user at a time: none, rank, zscore, minmax.  [none]")
    ] = None,
    rank_weights: Annotated[str | None, typer.Option(help="How much a place counts: none, mrr, ndcg.  [none]")] = None,
    smoothing: Annotated[float | None, typer.Option(help="Alpha of C_KL.  [0.01]")] = None,
    prior_weight: Annotated[
        float | None, typer.Option(help="Beta: how much is for what the user has not tried.  [0]")
    ] = None,
    prior: Annotated[str | None, typer.Option(help="population or uniform.  [population]")] = None,
    at_most: Annotated[
        list[str] | None, typer.Option(metavar="CATEGORY=N", help="At most N items of it in a list. Repeat.")
    ] = None,
    must: Annotated[list[str] | None, typer.Option(metavar="ITEM", help="In, wherever it is a candidate.")] = None,
    must_not: Annotated[list[str] | None, typer.Option(metavar="ITEM", help="In no list. Repeat.")] = None,
    user: Annotated[str, typer.Option(metavar="COLUMN", help="The users' ids, in every file.")] = "user",
    item: Annotated[str, typer.Option(metavar="COLUMN", help="The items' ids, in every file.")] = "item",
    rating: Annotated[
        str, typer.Option(metavar="COLUMN", help="Ratings in --data; '' where every row counts the same.")
    ] = "rating",
    rank: Annotated[str, typer.Option(metavar="COLUMN", help="Ranks in LISTS.")] = "rank",
    score: Annotated[str, typer.Option(metavar="COLUMN", help="Scores in LISTS.")] = "score",
    separator: Annotated[str, typer.Option(help="What stands between two categories in one cell.")] = "|",
    duplicates: Annotated[
        str, typer.Option(help="Several rows for one user and item in --data: error, last, mean.")
    ] = "error",
    ignore_unknown: Annotated[
        bool, typer.Option("--ignore-unknown", help="Leave out items that the log does not know.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Re-rank lists so that every user's interests keep their proportions (calibration, Steck 2018).

    Each list is made anew out of its own items. Files of any size: rows are read in one pass, and the rows of a user
    must stand together.

    \b
      recaudit rerank lists.parquet --data ml-1m --out calibrated.parquet
      recaudit rerank lists.parquet --data ratings.csv --items movies.csv \\
        --categories genres --weight 0.9 --at-most Drama=20 --out calibrated.parquet
    """
    from recaudit.audits.calibration.rerank import rerank_file
    from recaudit.data.lists import ListColumns
    from recaudit.policies.calibrated import Calibrated

    chosen = _importances(categories)
    settings: dict[str, object] = {
        "weight": weight and (weight[0] if len(weight) == 1 else tuple(weight)),
        "size": size,
        "categories": chosen or None,
        "rank_weights": rank_weights,
        "smoothing": smoothing,
        "prior_weight": prior_weight,
        "prior": prior,
        "transform": transform,
        "at_most": _counts(at_most),
    }
    # What can be known to be wrong before anything is read.
    _made(Calibrated, {**settings, "must": tuple(must or ()), "must_not": tuple(must_not or ())})
    files: dict[str, object] = {
        "items": items,
        "categories": {name: name for name in chosen},
        "category_separator": separator,
        "user": user,
        "item": item,
        "rating": rating or False,
        "duplicates": duplicates,
    }
    with shown(notes()):
        log = _log(data, files)
        policy = _made(Calibrated, {**settings, "must": _ids(must, log), "must_not": _ids(must_not, log)})
        columns = ListColumns(user=user, item=item, rank=rank, score=score)
        unknown: Unknown = "ignore" if ignore_unknown else "error"
        with reading_from(lists.name, _option):
            done = rerank_file(lists, log, out, policy, columns=columns, unknown=unknown)
    if as_json:
        told = ("users", "rows", "without_history", "left_out", "emptied", "against_rank")
        print_json({"out": done.path, **{name: getattr(done, name) for name in told}})
        return
    answers().print(f"{done.path}: {done.users:,} lists, {done.rows:,} rows")
    if done.without_history:
        follow = "follow the prior" if policy.prior_weight > 0 else "are by score"
        notes().print(f"{done.without_history:,} users have no history in {data}: their lists {follow}.")
    if done.left_out:
        notes().print(f"{done.left_out:,} rows were left out: {data} does not know their items.")
    if done.emptied:
        notes().print(f"{done.emptied:,} users have no list any more: {data} knows none of its items.")
    if done.against_rank:
        notes().print(
            f"{done.against_rank:,} lists have scores that contradict their ranks: the ranks decide, in equal steps."
        )


def _ids(words: list[str] | None, log: Interactions) -> tuple[int | str, ...]:
    """Items by the type of the log's ids: a command line knows only text."""
    import polars as pl

    from recaudit.data.checks import plain_numbers

    if not words or not log.item_ids.dtype.is_integer():
        return tuple(words or ())
    numbers = plain_numbers(pl.Series(words))
    return tuple(word if number is None else number for word, number in zip(words, numbers, strict=True))


def _made(cls: type[Settings], settings: dict[str, object]) -> Settings:
    """The specification, with its own defaults for what is not given; mistakes are told of options."""
    from pydantic import ValidationError

    from recaudit.specification import mistakes

    try:
        return cls.model_validate({name: value for name, value in settings.items() if value is not None})
    except ValidationError as error:
        place, first = error.errors()[0]["loc"], mistakes(error)[0]
        option = f"--{str(place[0]).replace('_', '-')}" if place else "options"
        raise InputError(option, received=first.received, expected=first.expected, remedy=first.remedy) from None


def _option(name: str, value: str) -> str:
    """A setting as the option that it is here."""
    return "--ignore-unknown" if name == "unknown" else f"--{name} {value}"


def _log(data: str, files: dict[str, object]) -> Interactions:
    """The histories and the categories."""
    from recaudit.data import datasets
    from recaudit.data.sources import OwnData

    if not Path(data).suffix and data in datasets.names():
        return datasets.load(data)
    if not Path(data).is_file():
        raise InputError(
            "--data",
            received=repr(data),
            expected="a data set by name, or a file that exists",
            remedy="'recaudit data list' has the names.",
        )
    if not files["items"] or not files["categories"]:
        raise InputError(
            "--items",
            received="a file of ratings without categories",
            expected="--items FILE and --categories COLUMN: what each item is",
        )
    with reading_from("", _option):
        return _made(OwnData, {"file": data, **files}).load()


def _importances(words: list[str] | None) -> dict[str, float]:
    """'genre' or 'genre=0.5', each."""
    found = {}
    for word in words or []:
        name, given, number = word.partition("=")
        found[name] = _number("--categories", word, number) if given else 1.0
    return found


def _counts(words: list[str] | None) -> dict[str, float]:
    """'Drama=20', each; the name may hold an equals sign itself."""
    found = {}
    for word in words or []:
        name, _, number = word.rpartition("=")
        found[name] = _number("--at-most", word, number if name else "")
    return found


def _number(option: str, word: str, number: str) -> float:
    try:
        return float(number)
    except ValueError:
        raise InputError(option, received=repr(word), expected="a name, an equals sign and a number") from None
