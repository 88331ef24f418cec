"""Agency over time: what people can do to their own recommendations, and others to them, in hindsight and from now on.

One call asks paper 001's four questions of one recommender: past-k and future-k reachability, past-k and future-k
instability (Definitions 4.1 to 4.4), by group, by horizon and by beta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from recaudit.arguments import check_count, checked
from recaudit.audits.agency.fits import Fits
from recaudit.audits.agency.parts import OTHERS, OWN, Part, Scope, others_ratings, own_ratings, pair_schema
from recaudit.audits.agency.sweeps import BETAS, HORIZONS, Kind
from recaudit.audits.reachability.contrasts import item_tiers, user_tiers
from recaudit.audits.result import Result
from recaudit.audits.samples import SomeIds, resolve_items, resolve_users, subsample
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, track
from recaudit.errors import InputError, NotSupportedError
from recaudit.metrics.groupings import groupings
from recaudit.metrics.intervals import Bootstrap, row
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA, item_table
from recaudit.models.base import FittedModel, Recommender
from recaudit.policies import Softmax
from recaudit.solvers.distance.distances import Distance

_QUESTIONS: tuple[tuple[Kind, Callable[[Scope, Kind], Part], tuple[str, ...]], ...] = (
    ("past", own_ratings, OWN),
    ("future", own_ratings, OWN),
    ("past", others_ratings, OTHERS),
    ("future", others_ratings, OTHERS),
)


@checked
def agency(
    recommender: Recommender,
    data: Interactions,
    *,
    k: int = 5,
    horizons: Sequence[int] = HORIZONS,
    betas: Sequence[float] = BETAS,
    policy: Softmax | None = None,
    distance: Distance = "hellinger",
    users: SomeIds = 100,
    followed: int = 20,
    targets: SomeIds = 100,
    editors: SomeIds = 100,
    fitted: Iterable[FittedModel] = (),
    by: Sequence[str] | None = None,
    confidence: float = 0.95,
    samples: int = 1000,
    rng: int = 0,
    engine: Engine | None = None,
) -> Result:
    """What users can do with their last k ratings and with their next k, to their own recommendations and to others'.

    Hindsight asks a model that has not seen anybody's last k ratings; the future one that has seen all of `data`. The
    recommender is fitted for each, and once more for each of the `horizons`, save where one of the `fitted` models (of
    the same recommender and seed) has that very log. The `policy` is softmax with beta = 2, by default; `betas` are
    swept for everything but future lift, where they would take too long. Empty `horizons` or `betas` sweep nothing.

    `users` are those whose recommendations are looked at, `targets` the items whose chances are, `editors` the others
    who rate: ids, or how many to draw at random, the same for every recommender, or None for all. Of the users
    `followed` are followed into the future. All intervals are bootstrapped over users.

    Groups: of users, of items, and of editors ("editor history", ...); and two contrasts on the same users, "popular
    against intermediate items" (geometric mean lift, and their ratio) and "active against intermediate editors" (mean
    instability, and the difference), see `item_tiers` and `user_tiers`. The `series` have each metric over "horizon"
    and "beta", and over "instability" the share of pairs in each of 1,000 equal steps. The `pairs` are worked out: for
    past and future the pair with the largest instability, and the ratings that bring it about.

    What a model cannot answer has the status not_applicable, and the settings have it under `left_out`, by reason; a
    model that can answer nothing raises `NotSupportedError`.
    """
    check_count("k", k)
    chosen = resolve_users(users, data, rng)
    asked = data.user_ids.gather(chosen).to_list()
    scope = Scope(
        recommender=recommender,
        fits=Fits(recommender, fitted, rng),
        data=data,
        k=k,
        horizons=tuple(horizons),
        betas=tuple(betas),
        policy=policy or Softmax(beta=2.0),
        distance=distance,
        users=asked,
        followed=data.user_ids.gather(subsample(chosen, followed, data, rng)).to_list(),
        targets=data.item_ids.gather(resolve_items(targets, data, rng)).to_list(),
        editors=data.user_ids.gather(resolve_users(editors, data, rng, "editors")).to_list(),
        groupings=groupings(data, by),
        bootstrap=Bootstrap(confidence, samples, rng),
        engine=engine,
    )
    for argument, ids in (("users", scope.users), ("targets", scope.targets), ("editors", scope.editors)):
        if not ids:
            raise InputError(argument, received="no ids", expected="at least one, or None for all")
    parts: list[Part] = []
    left_out: dict[str, list[str]] = {}
    statuses: dict[str, dict[str, int]] = {}
    for when, ask, metrics in track(_QUESTIONS, "agency", len(_QUESTIONS)):
        names = [f"{when}_{metric}" for metric in metrics]
        try:
            _check_times(data, when)
            part = ask(scope, when)
        except NotSupportedError as error:
            left_out.setdefault(str(error), []).extend(names)
        else:
            parts.append(part)
            statuses[names[0]] = {status: count for status, count in part.statuses.items() if count}
    if not parts:
        raise NotSupportedError(next(iter(left_out)))
    return Result(
        audit="agency",
        settings=_settings(scope, statuses, left_out),
        frame=pl.concat([*(part.summary for part in parts), _not_applicable(left_out, len(asked))]),
        groups=pl.concat([pl.DataFrame(schema=GROUP_SCHEMA), *(part.groups for part in parts)]),
        users=_joined(pl.DataFrame({"user": pl.Series(asked, dtype=data.user_ids.dtype)}), [p.users for p in parts]),
        items=_joined(item_table(data), [part.items for part in parts]),
        pairs=pl.concat([pl.DataFrame(schema=pair_schema(data)), *(part.pairs for part in parts if part.pairs.width)]),
        series=pl.concat([pl.DataFrame(schema=SERIES_SCHEMA), *(part.series for part in parts)]),
    )


def _check_times(data: Interactions, when: Kind) -> None:
    if when == "past" and data.times is None:
        raise NotSupportedError(
            "The log has no times, so that nobody knows which ratings were the last. "
            "Name the time column when you build the log (time='timestamp')."
        )


def _not_applicable(left_out: dict[str, list[str]], users: int) -> pl.DataFrame:
    metrics = [metric for names in left_out.values() for metric in names]
    rows = [{"metric": metric, **row(float("nan"), 0.0, 0.0, 0, users)} for metric in metrics]
    return pl.DataFrame(rows, SUMMARY_SCHEMA)


def _joined(table: pl.DataFrame, columns: list[pl.DataFrame]) -> pl.DataFrame:
    """The table with the values of each part beside it, null where a part has none."""
    for frame in columns:
        if frame.width:
            table = table.join(frame, on=frame.columns[0], how="left", maintain_order="left")
    return table


def _settings(scope: Scope, statuses: dict[str, dict[str, int]], left_out: dict[str, list[str]]) -> dict[str, object]:
    items, editors = item_tiers(scope.data, scope.rng), user_tiers(scope.data, scope.rng)
    settings = {
        "k": scope.k,
        "policy": repr(scope.policy),
        "distance": scope.distance,
        "users": len(scope.users),
        "followed": len(scope.followed),
        "targets": len(scope.targets),
        "editors": len(scope.editors),
        "horizons": scope.horizons,
        "betas": scope.betas,
        "popular items": items.rule,
        "active editors": editors.rule,
        "confidence": scope.bootstrap.confidence,
        "samples": scope.bootstrap.samples,
        "rng": scope.rng,
        "statuses": statuses,
    }
    return settings | ({"left_out": left_out} if left_out else {})
