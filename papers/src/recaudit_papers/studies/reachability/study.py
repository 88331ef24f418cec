"""The study: which audits are made at which size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from recaudit_papers.studies.reachability.figure_tables import figures
from recaudit_papers.studies.reachability.measures import audit, held_out_error, seconds_a_pair, vector_lengths
from recaudit_papers.studies.reachability.number_tables import numbers
from recaudit_papers.studies.reachability.published import KNN, LIBFM, LIBFM_LASTFM, LIBFM_MIND
from recaudit_papers.studies.reachability.subjects import mind_sample
from recaudit_papers.studies.reading import StudyTable
from recaudit_papers.studies.study import Experiment, Results, Size, Study

_SEED = 1


@final
@dataclass(frozen=True)
class _ReachabilityPlan:
    """How large a size is."""

    log: str
    small: Mapping[str, Any]
    """What is smaller in every factor model."""
    passes: int
    """Of our own factor model."""
    full: int
    """Users audited with all their targets."""
    climbing: int
    """Users of the ladder, with `targets` drawn for each."""
    users: int
    """Of every other audit, likewise."""
    repeated: int
    """Of each repetition."""
    targets: int
    sizes: tuple[int, ...]
    """Of action spaces."""
    repeats: int
    others: bool
    """Whether other logs, errors and times are measured."""
    music: tuple[int, int] = (0, 0)
    """Users and targets of the log of artists."""
    news: int = 0


_PLANS: Mapping[Size, _ReachabilityPlan] = {
    "tiny": _ReachabilityPlan("demo", {"factors": 8, "epochs": 30}, 30, 20, 20, 12, 0, 40, (5, 10), 0, others=False),
    "quick": _ReachabilityPlan(
        "ml-1m", {}, 32, 128, 128, 48, 176, 500, (5, 10, 20), 6, others=True, music=(30, 200), news=200
    ),
    "paper": _ReachabilityPlan(
        "ml-1m", {}, 32, 176, 600, 176, 176, 500, (5, 10, 20), 12, others=True, music=(100, 500), news=2000
    ),
}


class ReachabilityStudy(Study):
    """Stochastic reachability: who can get what recommended."""

    name = "reachability"
    title = "Availability and discovery by stochastic reachability"
    paper = (
        "Curmei, Dean, Recht: Quantifying Availability and Discovery in Recommender Systems via Stochastic "
        "Reachability (ICML 2021)"
    )

    def experiments(self, size: Size) -> list[Experiment]:
        """See `Study`."""
        plan = _PLANS[size]
        made = [*_ladder(plan), *_neighbours(plan), *_spaces(plan), *_repeats(plan)]
        return [*made, *_vectors(), *_errors(plan), *_other_logs(plan), *_times(plan)] if plan.others else made

    def tables(self, results: Results) -> list[StudyTable]:
        """See `Study`."""
        return [*numbers(results), *figures(results)]

    def notes(self, results: Results) -> list[str]:
        """See `Study`."""
        said = [
            "By our protocol: BiasedMF (64 factors, 32 passes, steps that fall) or ItemKNN, ratings in the data's own "
            "range, the baseline at the present scores, every unseen item as a target. The authors' protocol is read "
            "from their code: LibFM or RecLab's neighbours with the tuned settings, ratings in [0, 5], the baseline "
            "after rating the acted-on items as predicted, 500 targets drawn for each user.",
        ]
        if results.size == "tiny":
            return [*said, "At this size the log is generated: numbers are not the paper's."]
        users = [results.settings[name]["users"] for name in ("ladder/ours", "ladder/box", "libfm/next-10/beta-2")]
        told = f"{users[0]} users with all their targets, {users[1]} in the ladder's other steps, {users[2]} elsewhere"
        return [*said, f"MovieLens 1M: {told}; the paper has 176. Last.fm and MIND are other data, where it is said."]


def _audit(name: str, plan: _ReachabilityPlan, model: Mapping[str, Any], **settings: Any) -> Experiment:
    log = settings.pop("log", plan.log)
    usual = {"actions": "next", "k": 10, "beta": 2.0, "box": [0, 5], "users": plan.users, "seed": _SEED}
    factors = plan.small if model["kind"] != "knn" else {}
    return _experiment(name, audit, {"log": log, "model": {**model, **factors}, **usual, **settings}, log)


def _experiment(
    name: str, measure: Any, settings: Mapping[str, Any], log: str, *, optional: bool = False
) -> Experiment:
    known = () if log in ("demo", "mind-small-sample") else (log,)
    return Experiment(name, measure, settings, data=known, optional=optional)


def _ladder(plan: _ReachabilityPlan) -> list[Experiment]:
    """From our protocol to the authors', for the same users from the second rung on."""
    ours = {"kind": "biased-mf", "factors": 64, "epochs": plan.passes, "init_std": 0.1}
    tuned = {name: LIBFM[name] for name in ("factors", "epochs", "learning_rate", "regularization")}
    narrow = {**LIBFM, "init_std": 0.1}
    rungs: dict[str, tuple[Mapping[str, Any], list[int]]] = {
        "targets": (ours, [1, 5]),
        "start": ({**ours, "init_std": 1.0}, [1, 5]),
        "steps": ({"kind": "biased-mf", **tuned, "final_rate": 1.0, "init_std": 0.1}, [1, 5]),
        "offset": (narrow, [1, 5]),
        "libfm": (LIBFM, [1, 5]),
        "box": (LIBFM, [0, 5]),
        "narrow": (narrow, [0, 5]),
    }
    return _climbed("ladder", plan, ours, rungs)


def _neighbours(plan: _ReachabilityPlan) -> list[Experiment]:
    """The same for neighbours."""
    ours = {"kind": "knn", "neighbours": 100, "shrinkage": KNN["shrinkage"]}
    return _climbed(
        "neighbours", plan, ours, {"targets": (ours, [1, 5]), "reclab": (KNN, [1, 5]), "box": (KNN, [0, 5])}
    )


def _climbed(
    name: str,
    plan: _ReachabilityPlan,
    ours: Mapping[str, Any],
    rungs: Mapping[str, tuple[Mapping[str, Any], list[int]]],
) -> list[Experiment]:
    made = [_audit(f"{name}/ours", plan, ours, box=[1, 5], users=plan.full)]
    return made + [
        _audit(f"{name}/{rung}", plan, model, box=box, users=plan.climbing, targets=plan.targets)
        for rung, (model, box) in rungs.items()
    ]


def _spaces(plan: _ReachabilityPlan) -> list[Experiment]:
    """The authors' protocol for every action space; for random future items at other betas too."""
    made = [
        _audit(f"{name}/{actions}-{k}/beta-2", plan, model, actions=actions, k=k, targets=plan.targets)
        for name, model in (("libfm", LIBFM), ("knn", KNN))
        for actions in ("next", "future", "history")
        for k in plan.sizes
    ]
    twice = {**KNN, "counted_twice": True}
    made += [
        _audit(f"knn-twice/history-{k}/beta-2", plan, twice, actions="history", k=k, targets=plan.targets)
        for k in plan.sizes
    ]
    sharper = {"actions": "future", "targets": plan.targets}
    return made + [
        _audit(f"libfm/future-{k}/beta-{beta}", plan, LIBFM, **sharper, k=k, beta=float(beta))
        for k in plan.sizes
        for beta in (1, 4)
    ]


def _repeats(plan: _ReachabilityPlan) -> list[Experiment]:
    """The authors' protocol over again: another start, other users, other targets."""
    return [
        _audit(f"repeat/{model}-{turn}", plan, settings, targets=plan.targets, users=plan.repeated, seed=100 + turn)
        for model, settings in (("libfm", LIBFM), ("knn", KNN))
        for turn in range(plan.repeats)
    ]


def _vectors() -> list[Experiment]:
    return [
        _experiment(f"vectors/{name}", vector_lengths, {"log": "ml-1m", "model": model, "seed": _SEED}, "ml-1m")
        for name, model in (("wide", dict(LIBFM)), ("narrow", {**LIBFM, "init_std": 0.1}))
    ]


def _errors(plan: _ReachabilityPlan) -> list[Experiment]:
    models = {
        "ml-1m/ours": ("ml-1m", {"kind": "biased-mf"}),
        "ml-1m/libfm": ("ml-1m", LIBFM),
        "ml-1m/narrow": ("ml-1m", {**LIBFM, "init_std": 0.1}),
        "ml-1m/knn-ours": ("ml-1m", {"kind": "knn", "neighbours": 100, "shrinkage": KNN["shrinkage"]}),
        "ml-1m/knn": ("ml-1m", KNN),
        "lastfm/libfm": ("hetrec-lastfm-2k", LIBFM_LASTFM),
    }
    return [
        _experiment(f"error/{name}", held_out_error, {"log": log, "model": dict(model), "seed": _SEED}, log)
        for name, (log, model) in models.items()
    ]


def _other_logs(plan: _ReachabilityPlan) -> list[Experiment]:
    """Music and news, where everything but the acted-on items can be shown: what is here, and the paper's own data."""
    users, targets = plan.music
    music = {"model": dict(LIBFM_LASTFM), "users": users, "targets": targets, "shared_targets": True}
    news = {"model": dict(LIBFM_MIND), "users": plan.news}
    usual = {"actions": "next", "k": 10, "beta": 2.0, "box": [0, 5], "seed": _SEED, "candidates": "all"}
    logs = [
        ("lastfm/other", "hetrec-lastfm-2k", music, False),
        ("lastfm/paper", "lastfm-360k", music, True),
        ("mind/paper", "mind-small", news, True),
    ]
    if mind_sample() is not None:
        logs.append(("mind/other", "mind-small-sample", news, False))
    return [
        _experiment(name, audit, {"log": log, **usual, **own}, log, optional=optional)
        for name, log, own, optional in logs
    ]


def _times(plan: _ReachabilityPlan) -> list[Experiment]:
    films = [("libfm", LIBFM, k) for k in plan.sizes] + [("knn", KNN, k) for k in plan.sizes]
    made = [(f"ml-1m/{name}-{k}", "ml-1m", model, k, 16, "unseen") for name, model, k in films]
    made.append(("lastfm/libfm-10", "hetrec-lastfm-2k", LIBFM_LASTFM, 10, 1, "all"))
    return [
        _experiment(
            f"seconds/{name}",
            seconds_a_pair,
            {
                "log": log,
                "model": dict(model),
                "k": k,
                "box": [0, 5],
                "users": users,
                "seed": _SEED,
                "candidates": candidates,
            },
            log,
        )
        for name, log, model, k, users, candidates in made
    ]
