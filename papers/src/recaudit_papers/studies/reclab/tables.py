"""Published numbers beside ours: offline metrics, mean ratings, worlds, and how often recommenders are fitted anew."""

from __future__ import annotations

import polars as pl

from recaudit.plugins import FloatArray
from recaudit.report import Figure
from recaudit_papers.studies import figures
from recaudit_papers.studies.reading import Published, Quantity, StudyRow, StudyTable
from recaudit_papers.studies.reclab import measures
from recaudit_papers.studies.reclab.found import Found, fitted, one_more, quantity, rank_correlation, scatter
from recaudit_papers.studies.reclab.plan import (
    AUTHORS_OWN,
    CADENCES,
    CHEAP,
    DYNAMIC,
    ELEVEN,
    LADDER,
    LATENT,
    RULED,
    RULES,
    STATIC,
)
from recaudit_papers.studies.reclab.published import LATENT_MSE, PRINTED, READ_OFF, SPEARMAN

_THEIRS = {
    "SGD MF": "LibFM's own steps: offset from 0 and penalised, errors of predictions cut to the scale",
    "AutoRec": "trained as RecLab's code does",
    "Random": "uniform in (0, 5)",
}
_UNCUT = "predictions as they are, not cut to the scale"
_ALL_DRAWS = "all draws averaged, from the first, as LibFM does"
_TEN = "10 epochs, as in the published script"
_VERSIONS = "with the authors' versions of the recommenders"
UNCUT = ("Oracle", "LLORMA", "UserKNN", "ItemKNN")
"""Whose predictions RecLab leaves as they are; LibFM cuts its own, and so does RecLab's AutoRec."""
_FIGURE = {"dynamic": "Figure 1", "static": "Figures 3 and 8"}
_PLACE = {"dynamic": DYNAMIC, "static": STATIC}


def offline_tables(found: Found) -> list[StudyTable]:
    """RMSE and nDCG@20 on the log."""
    return [_offline_table(found, "rmse", "RMSE"), _offline_table(found, "ndcg", "nDCG@20"), _latent_table(found)]


def _offline_table(found: Found, metric: str, title: str) -> StudyTable:
    rows = []
    for name in ELEVEN:
        variants: dict[str, Quantity | None] = {}
        if metric == "rmse" and name in UNCUT:
            variants[_UNCUT] = found.offline(STATIC, name, "uncut")
        if name in AUTHORS_OWN:
            variants[_THEIRS[name]] = found.offline(STATIC, AUTHORS_OWN[name], metric)
        if name == "Bayes MF":
            variants[_ALL_DRAWS] = found.offline(STATIC, name, metric, "all draws")
        text = PRINTED[name][metric]
        digits = len(text.partition(".")[2])
        error = 0.5 * 10.0**-digits + scatter(found.folds(STATIC, name, metric), measures.FOLDS)
        printed = found.printed(f"offline/{STATIC}/oracle/plain/0", text, error)
        rows.append(StudyRow(name, printed, found.offline(STATIC, name, metric), known(variants), digits=digits))
    text = (
        "On the log of topics-static, which the authors' code draws with NumPy's generator and seed 0 and so do we: "
        "the very same ratings, in other folds. A printed mean may be off by as much as means over five folds scatter "
        "here. Ours are cut to the scale where they predict ratings."
    )
    return StudyTable(f"offline-{metric}", f"{title} on the log ({', '.join(_FIGURE.values())})", tuple(rows), text)


def _latent_table(found: Found) -> StudyTable:
    """Mean squared errors in latent-static."""
    rows = []
    for name, text in LATENT_MSE.items():
        values = found.folds(LATENT, name, "rmse")
        variants: dict[str, Quantity | None] = {}
        if name in UNCUT:
            variants[_UNCUT] = _squared(found.folds(LATENT, name, "uncut"))
        if name == "Random":
            variants[_THEIRS[name]] = _squared(found.folds(LATENT, AUTHORS_OWN[name], "rmse"))
        rows.append(
            StudyRow(
                name,
                found.printed(f"offline/{LATENT}/oracle/plain/0", text, 0.0005 + scatter(values**2, measures.FOLDS)),
                _squared(values),
                known(variants),
            )
        )
    return StudyTable(
        "latent-mse", "Mean squared errors in latent-static", tuple(rows), "From the authors' logs; five folds."
    )


def _squared(values: FloatArray) -> Quantity | None:
    return quantity(values**2, f"{len(values)} folds")


def rating_tables(found: Found) -> list[StudyTable]:
    """Mean ratings in topics-dynamic and topics-static, and their rank correlations with the offline metrics."""
    return [_rating_table(found, where) for where in _PLACE]


def _rating_table(found: Found, where: str) -> StudyTable:
    place = _PLACE[where]
    rows = []
    for name in ELEVEN:
        variants: dict[str, Quantity | None] = {}
        if name in ("SGD MF", "AutoRec"):
            variants[_THEIRS[name]] = found.rating(place, AUTHORS_OWN[name])
        if name == "CF-NADE" and where == "dynamic":
            variants[_TEN] = found.rating(place, name, "10 epochs")
        if name in RULED and where == "dynamic":
            variants |= {f"but {rule}": found.rating(place, name, rule) for rule in RULES}
        if name in LADDER and where == "dynamic":
            every = found.every(place, name)
            finer = [n for n in CADENCES if n < every]
            variants |= {fitted(n): found.rating(place, name, f"every {n}") for n in finer}
        text = PRINTED[name][where]
        exact = READ_OFF if where == "static" else 0.5 * 10.0**-3
        whole = f"{place}/oracle/plain/0"
        printed = found.printed(whole, text, exact + scatter(found.by_trial(place, name)))
        rows.append(StudyRow(name, printed, found.rating(place, name), known(variants)))
    for metric, title in (("ndcg", "nDCG@20"), ("rmse", "RMSE")):
        rows.append(
            StudyRow(
                f"rank correlation with {title}",
                found.printed(f"{place}/oracle/plain/0", SPEARMAN[where][metric]),
                _correlation(found, place, metric, theirs=False),
                known({_VERSIONS: _correlation(found, place, metric, theirs=True)}),
            )
        )
    text = (
        "In the authors' own world: their people, items and initial log, which follow from NumPy's seed 0; who is "
        "online and how ratings scatter is drawn by us. A printed mean may be off by as much as means over 10 trials "
        "scatter here."
    )
    if where == "dynamic":
        text += " As the code ran it, which is not what the paper says; rungs of the ladder do what the paper says."
    title = f"Mean rating of what is shown, topics-{where} ({_FIGURE[where]})"
    return StudyTable(f"ratings-{where}", title, tuple(rows), text, tuple(_charts(found, where)))


def _versions(found: Found, place: str, name: str, metric: str, *, theirs: bool) -> tuple[FloatArray, FloatArray]:
    """Offline and online values of a recommender, ours or as near to the authors' as we have it."""
    how = "10 epochs" if theirs and name == "CF-NADE" and place == DYNAMIC else "plain"
    version = AUTHORS_OWN.get(name, name) if theirs else name
    column = "uncut" if theirs and metric == "rmse" and name in UNCUT else metric
    draws = "all draws" if theirs and name == "Bayes MF" else "plain"
    return (
        found.folds(STATIC, version, column, draws),
        found.by_trial(place, name if name == "Random" else version, how=how),
    )


def _correlation(found: Found, place: str, metric: str, *, theirs: bool) -> Quantity | None:
    pairs = [_versions(found, place, name, metric, theirs=theirs) for name in ELEVEN]
    return rank_correlation([a for a, _ in pairs], [b for _, b in pairs], "11 recommenders; folds and trials")


def _charts(found: Found, where: str) -> list[Figure]:
    place = _PLACE[where]
    points = [
        {
            "recommender": name,
            "ndcg": float(offline.mean()),
            "rmse": float(error.mean()),
            "rating": float(online.mean()),
        }
        for name in ELEVEN
        for offline, online in [_versions(found, place, name, "ndcg", theirs=False)]
        for error in [found.folds(STATIC, name, "rmse")]
        if len(offline) and len(online)
    ]
    if not points:
        return []
    table = pl.DataFrame(points)
    made = [
        figures.points(f"{title} against mean rating", table, x, "rating", x_title=title, y_title="mean rating",
                       name="recommender")
        for x, title in (("ndcg", "nDCG@20"), ("rmse", "RMSE"))
    ]  # fmt: skip
    shown = ("Oracle", "Bayes MF", "SGD MF", "LLORMA", "CF-NADE", "AutoRec", "TopPop", "Random")
    curves = [_curve(found, place, name) for name in shown if found.trials(place, name) is not None]
    title = "Mean rating over time (Figure 2)" if where == "dynamic" else "Mean rating over time"
    made.append(
        figures.lines(title, pl.concat(curves), "step", "rating", "recommender", x_title="step", y_title="mean rating")
    )
    return made


def _curve(found: Found, place: str, name: str, together: int = 25) -> pl.DataFrame:
    """Means of `together` steps each."""
    run = found.trials(place, name)
    assert run is not None
    block = (pl.col("step") // together * together).alias("step")
    steps = run.steps.group_by(block, maintain_order=True).agg(pl.col("mean_rating").mean().alias("rating"))
    return steps.sort("step").select(pl.lit(name).alias("recommender"), "step", "rating")


def world_table(found: Found) -> StudyTable:
    """Where the number of one world may lie."""
    rows = []
    for where, place in _PLACE.items():
        for name in CHEAP:
            values = found.by_trial(place, name, how="worlds")
            ours = one_more(values, f"{found.over(place, name, 'worlds')}: where one more world would lie")
            exact = READ_OFF if where == "static" else None
            note = f"from {values.min():.3f} to {values.max():.3f}" if len(values) else ""
            there = {"in the authors' own world": found.rating(place, name)}
            rows.append(
                StudyRow(
                    f"{name}, {where}",
                    found.printed(f"{place}/toppop/worlds/0", PRINTED[name][where], exact),
                    ours,
                    known(there),
                    note,
                )
            )
    text = (
        "Every number of the paper is of one world: one draw of people, items and log. Here each trial has a world of "
        "its own; the interval is where one more world would lie. A printed number inside it is as it should be, even "
        "where the authors' world is an unusual one."
    )
    return StudyTable("worlds", "From world to world", tuple(rows), text)


def cadence_table(found: Found) -> StudyTable:
    """What fitting anew less often does."""
    rows, lines = [], []
    for name in LADDER:
        rungs = {n: found.rating(DYNAMIC, name, f"every {n}") for n in CADENCES}
        for n, rung in rungs.items():
            if rung is not None:
                low, high = rung.ends
                lines.append({"every": n, "rating": rung.value, "recommender": name, "lower": low, "upper": high})
        others = {fitted(n): rung for n, rung in rungs.items() if n != 1}
        rows.append(StudyRow(name, Published.nothing("fitted at each step"), rungs[1], known(others)))
    drawn = (
        figures.lines("Mean rating by cadence", pl.DataFrame(lines), "every", "rating", "recommender",
                      x_title="fitted every so many steps", y_title="mean rating", log_x=True),
    ) if lines else ()  # fmt: skip
    text = (
        "topics-dynamic in the authors' world. The paper fits anew at every step; where we fit less often it is said."
    )
    return StudyTable("cadence", "How often recommenders are fitted anew", tuple(rows), text, drawn)


def known(variants: dict[str, Quantity | None]) -> dict[str, Quantity]:
    """Those that were measured."""
    return {change: found for change, found in variants.items() if found is not None}
