"""What the page needs of a run: some users, the models, and how their lists follow ratings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl

from recaudit.audits.calibration.calibrator import Target, with_system
from recaudit.audits.logs import rating_facts
from recaudit.audits.recourse.goals import AmongFirst
from recaudit.audits.result import Result
from recaudit.audits.samples import Candidates, resolve_users
from recaudit.audits.spread import resolve
from recaudit.data.checks import plain_numbers
from recaudit.data.interactions import Interactions
from recaudit.engines import track
from recaudit.errors import InputError, NotSupportedError
from recaudit.explore.refit import RunAgain, run_again
from recaudit.explore.views import STANDINGS, ModelQuestion, View, encoded
from recaudit.interventions import Actions, HistoryEdits, NextK, Past, Stars
from recaudit.interventions.ratings import free_ratings
from recaudit.machine import memory_words
from recaudit.models.base import FittedModel
from recaudit.models.response import AffineResponse, OpaqueResponse
from recaudit.policies import Softmax
from recaudit.policies.calibrated import CalibrationTarget
from recaudit.registry import ACTIONS, own_code_only
from recaudit.report.evidence import Evidence
from recaudit.report.kit.document import script_json
from recaudit.runs import Run

USERS = 8
"""So many people are on the page where nothing is said."""
LIMIT = 8 * 2**20
"""Bytes of a page that a browser opens at once, and that a mail can carry."""
LIST = 10
"""How long lists are, where no audit of recourse said another length."""
_PAGE = 100_000
"""Bytes of the page itself: style, script and words."""
_ACTIONS = 10
_MOST_STARS = 100
_STEPS = 10
"""Of a scale without whole or half stars."""
Results = Mapping[str, Mapping[str, Result]]
"""Results of audits by label and name."""


@final
@dataclass(frozen=True, eq=False)
class Exploration:
    """The content of a page."""

    payload: dict[str, Any]
    kept: tuple[str, ...]
    """The users who are on it."""
    left: tuple[str, ...]
    """Those who were asked for and did not fit."""

    @property
    def told(self) -> str:
        """Which users were kept, in a sentence; empty where all were."""
        return str(self.payload["kept"])


def explore(
    run: Run,
    *,
    users: int | Iterable[object] = USERS,
    models: Iterable[str] = (),
    limit: int = LIMIT,
    folder: Path | None = None,
    allow_code: Iterable[str] = (),
) -> Exploration:
    """Everything that the page shows of a run, in at most `limit` bytes: users beyond it are left out.

    `users`: how many, drawn as audits draw them, or ids. `models`: labels; all of the run that personalise where none
    is named. They are fitted again; relative paths of the run's configuration start at `folder`, or where the program
    runs. Models without scores, and systems that can only be asked, are left out.

    The run folder may come from a stranger. Models of recaudit's own kinds are fitted, and others only if `allow_code`
    names the module of their code, or one above it. Files outside of the folder are read only if their size and SHA-256
    are those that the run has noted. Services are not queried, and nothing is downloaded.
    """
    allowed = _modules(allow_code)
    # Installed packages may read back their own results; whatever is fitted or called for the page is checked.
    results, main = _results(run), Evidence(run).main
    with own_code_only(allowed):
        again = run_again(run, tuple(models), folder or Path())
        return _explored(run, again, results, main, users, limit)


def _explored(
    run: Run, again: RunAgain, results: Results, main: str, users: int | Iterable[object], limit: int
) -> Exploration:
    log = again.log
    chosen = resolve_users(_who(users, log), log, again.seed)
    fitted = list(track(again.fitted(), "models", len(again.models)))
    without = {label: why for label, model in fitted if (why := _no_view(model))}
    shown = [(label, model) for label, model in fitted if label not in without]
    without = {**again.left_out, **without}
    if not shown:
        raise NotSupportedError("; ".join(f"{label}: {why}" for label, why in without.items()))
    asked = [_asked(results.get(label, {}), label, model, log, again.seed) for label, model in shown]
    target = Target(log, with_system(CalibrationTarget(), log)) if log.categories else None
    catalogue = _catalogue(log, target)
    seats: list[list[View]] = []
    room = limit - _PAGE - len(script_json([catalogue, [_about(model) for model in asked]]).encode())
    for user in chosen.tolist():
        views = [View.of(model, user) for model in asked]
        room -= sum(view.size(len(seats)) for view in views) + 24 * int(log.user_counts[user])
        if room < 0:
            break
        seats.append(views)
    ids = [str(name) for name in log.user_ids.gather(chosen).to_list()]
    if not seats:
        raise InputError(
            "size",
            received=f"{memory_words(limit)}, too little for one person with {len(asked)} models",
            expected="room for at least one person",
            remedy="Choose fewer models with --model, or more room with --size.",
        )
    kept, left = tuple(ids[: len(seats)]), tuple(ids[len(seats) :])
    pieces = track(enumerate(chosen[: len(seats)].tolist()), "answers", len(seats))
    people = [_person(log, user, target) | {"views": _views(seats, place)} for place, user in pieces]
    first = next((at for at, model in enumerate(asked) if model.label == main), 0)
    if asked[first].model.response is not AffineResponse:
        first = next((at for at, model in enumerate(asked) if model.model.response is AffineResponse), first)
    payload = {
        "data": run.manifest.data.name,
        "version": run.manifest.recaudit,
        "seed": run.manifest.seed,
        "kept": " ".join(
            [_kept(kept, left, log.n_users, limit), *(f"{at} is not: {why}" for at, why in without.items())]
        ),
        "standings": STANDINGS,
        "items": catalogue,
        "models": [_about(model) for model in asked],
        "first": first,
        "people": people,
    }
    return Exploration(payload, kept, left)


def _who(users: int | Iterable[object], log: Interactions) -> int | list[object]:
    """A count, or ids; of a log with numbers for ids also as a command line has them, as text."""
    if isinstance(users, int):
        return users
    ids = list(users)
    if not log.user_ids.dtype.is_integer() or not all(isinstance(one, str) for one in ids):
        return ids
    numbers = plain_numbers(pl.Series(ids, dtype=pl.String))
    return [one if number is None else number for one, number in zip(ids, numbers, strict=True)]


def _no_view(model: FittedModel) -> str:
    """Why a model cannot be on a page; empty where it can."""
    if model.response is OpaqueResponse:
        return "It can only be asked, and a page cannot ask it."
    try:
        model.scores(np.arange(1))
        rating_facts(model, model.data, NextK(1), np.arange(1), 0)  # refuses clicks that a model does not tell apart
    except NotSupportedError as error:
        return str(error)
    return ""


def _modules(names: Iterable[str]) -> tuple[str, ...]:
    """Names of modules, as they are imported."""
    modules = tuple(names)
    for name in modules:
        if not all(part.isidentifier() for part in name.split(".")):
            raise InputError(
                "allow_code", received=name, expected="the name of a module, as it is imported: 'package.module'"
            )
    return modules


def _results(run: Run) -> Results:
    """The audits of each model whose actions, candidates and policy the page takes over, by name."""
    return {
        label: {name: run.result(label, name) for name in ("recourse", "reachability") if name in run.audits(label)}
        for label in run.models
    }


def _asked(audits: Mapping[str, Result], label: str, model: FittedModel, log: Interactions, rng: int) -> ModelQuestion:
    """The actions, candidates and policy of the run's own audits, or the usual ones."""
    first: Any = next((result.audit for result in audits.values()), None)
    named: object = getattr(first, "actions", None)
    # What was past when the model was fitted, and what depends on the ratings, is not asked about here.
    usable = isinstance(named, Actions) and ACTIONS.is_usable(ACTIONS.kind_of(named))
    actions = named if isinstance(named, Actions) and usable and not isinstance(named, Past) else NextK(_ACTIONS)
    stars = _stars(actions, log)
    actions = replace(actions, ratings=stars, changes=None)  # type: ignore[type-var]  # all actions are dataclasses
    if model.response is not None:
        try:
            some = np.arange(min(1, log.n_users))
            actions.unchanged(model, some, actions.items(model, some, rng, log), log)
        except NotSupportedError:  # scores that are no ratings: only what was rated has a rating
            actions = HistoryEdits(_ACTIONS, ratings=stars)
    candidates: Candidates = getattr(first, "candidates", "unseen")
    goal = getattr(audits["recourse"].audit, "goal", None) if "recourse" in audits else None
    n = goal.n if isinstance(goal, AmongFirst) else LIST
    reached = audits.get("reachability")
    policy = getattr(reached.audit, "policy", Softmax()) if reached is not None else Softmax()
    return ModelQuestion(label, model, log, actions, stars, candidates, n, _beta(policy, model, candidates, rng), rng)


def _beta(policy: object, model: FittedModel, candidates: Candidates, rng: int) -> float:
    """Beta of the softmax policy that the run used, or of the default one."""
    wanted = policy if type(policy) is Softmax else Softmax()
    try:
        made, _ = resolve(wanted, model, candidates, rng)
    except NotSupportedError:
        return 1.0
    assert isinstance(made, Softmax)
    return made.fixed_beta


def _stars(actions: Actions, log: Interactions) -> Stars:
    """What can be clicked: the stars of the actions, or whole or half ones, or ten steps."""
    ratings = free_ratings(actions.ratings, log.scale)
    if isinstance(ratings, Stars) and len(ratings.values) <= _MOST_STARS:
        return ratings
    for step in (1.0, 0.5):
        if (
            (ratings.high - ratings.low) % step == 0
            and ratings.low % step == 0
            and ratings.high - ratings.low <= _STEPS
        ):
            return Stars(ratings.low, ratings.high, step)
    return Stars(ratings.low, ratings.high, (ratings.high - ratings.low) / _STEPS or 1.0)


def _catalogue(log: Interactions, target: Target | None) -> dict[str, Any]:
    """Titles, each another one, and what items are about."""
    ids, titles = log.item_ids.cast(pl.String).to_list(), log.item_labels(np.arange(log.n_items))
    often: dict[str, int] = {}
    for title in titles:
        often[title] = often.get(title, 0) + 1
    names = [title if often[title] == 1 else f"{title} ({item})" for title, item in zip(titles, ids, strict=True)]
    keys = log.tie_keys(np.arange(0)).items
    found: dict[str, Any] = {"titles": names, "keys": encoded(keys, np.uint64), "genres": []}
    if target is not None:
        shares = target.shares
        found |= {
            "genres": list(target.names),
            "system": next(iter(target.systems)),
            "indptr": encoded(shares.indptr, np.uint32),
            "indices": encoded(shares.indices, np.uint32),
            "shares": encoded(shares.data, np.float64),
        }
    return found


def _person(log: Interactions, user: int, target: Target | None) -> dict[str, Any]:
    items, ratings = log.history(user)
    known = log.attributes.row(user, named=True) if log.attributes.width else {}
    return {
        "id": str(log.user_ids[user]),
        "key": encoded(log.tie_keys(np.array([user])).users, np.uint64),
        "about": ", ".join(f"{name} {value}" for name, value in known.items() if value is not None),
        "history": [[int(item), float(rating)] for item, rating in zip(items, ratings, strict=True)],
        "interests": "" if target is None else encoded(target.interests[user], np.float64),
    }


def _views(seats: list[list[View]], place: int) -> list[dict[str, Any]]:
    """What a user sees of each model, and how the others of the page move it."""
    found = []
    for at, view in enumerate(seats[place]):
        content = view.data()
        if view.follows_others:
            editors = {str(other): seats[other][at] for other in range(len(seats)) if other != place}
            content["others"] = {
                other: view.edited_by(editor) for other, editor in editors.items() if len(editor.acted)
            }
        found.append(content)
    return found


def _about(asked: ModelQuestion) -> dict[str, Any]:
    model = asked.model
    kind = "fixed" if model.response is None else "affine" if model.response is AffineResponse else "searched"
    return {
        "label": asked.label,
        "kind": kind,
        "rule": model.no_rule if model.response is None else model.rule,
        "beta": asked.beta,
        "n": asked.n,
        "stars": asked.stars.values.tolist(),
        "acts": "seen"
        if isinstance(asked.actions, HistoryEdits)
        else "next"
        if isinstance(asked.actions, NextK)
        else "",
    }


def _kept(kept: tuple[str, ...], left: tuple[str, ...], users: int, limit: int) -> str:
    people = f"{len(kept)} of {users:,} people are on this page"
    if not left:
        return f"{people}."
    return (
        f"{people}: {', '.join(kept)}. {len(left)} more were asked for and left out, since the page would be larger "
        f"than {memory_words(limit)}: {', '.join(left[:20])}{', ...' if len(left) > 20 else ''}."
    )
