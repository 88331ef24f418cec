"""Figures 4 to 9: what the text says of them, and the same charts of ours."""

from __future__ import annotations

import polars as pl

from recaudit.report import Figure
from recaudit_papers.studies import figures as draw
from recaudit_papers.studies.reachability.number_tables import NAMES, other_data
from recaudit_papers.studies.reachability.published import SECTION_5_3
from recaudit_papers.studies.reachability.quantities import (
    as_sampled,
    correlation,
    difference,
    joined,
    known,
    less,
    over_users,
    repeated,
    wider,
)
from recaudit_papers.studies.reading import Published, Quantity, StudyRow, StudyTable
from recaudit_papers.studies.study import Results

_TWICE = "an edited rating counted beside the old one, as in the authors' code"
_SPACES = {"next": "Next-10", "future": "random future 10", "history": "random history 10"}
_MODELS = {"libfm": "LibFM", "knn": "KNN"}


def figures(results: Results) -> list[StudyTable]:
    """The figures of Section 5."""
    made = [_figure_4(results), _figure_5(results), _figure_6(results), _figure_7(results)]
    return [*made, _figure_8(results), _figure_9(results)]


def _claim(results: Results, name: str, text: str, first: str, second: str, column: str) -> StudyRow:
    return StudyRow(name, Published.above(0, text), difference(results, first, second, column))


def _figure_4(results: Results) -> StudyTable:
    low, high = "libfm/future-5/beta-1", "libfm/future-5/beta-4"
    section = "Section 5.2"
    rows = (
        _claim(
            results,
            "share of targets better than an even draw, beta 1 less beta 4",
            f"significantly more for low beta ({section})",
            low,
            high,
            "best_discovery",
        ),
        _claim(
            results,
            "share of targets above 5%, beta 4 less beta 1",
            f"higher beta yields more items with high potential ({section})",
            high,
            low,
            "above",
        ),
        _claim(
            results,
            "mean log10 of the best probability, beta 1 less beta 4",
            f"more stochastic: higher average max reachability ({section})",
            low,
            high,
            "log_best",
        ),
        _claim(
            results,
            "mean log10 of the lift, beta 4 less beta 1",
            f"larger beta corresponds to more agency ({section})",
            high,
            low,
            "log_lift",
        ),
    )
    found = {f"beta {beta}": f"libfm/future-5/beta-{beta}" for beta in (1, 2, 4)}
    charts = tuple(
        _histogram(results, found, name, heading, title)
        for name, heading, title in (
            ("best", "Best probabilities", "log10 of the best probability"),
            ("lift", "Lifts", "log10 of the lift"),
        )
        if all(one in results for one in found.values())
    )
    return StudyTable("figure-4", "Figure 4: the role of beta", rows, "LibFM, 5 random future items.", charts)


def _histogram(results: Results, found: dict[str, str], name: str, heading: str, title: str) -> Figure:
    tables = [
        results[one].filter(kind="histogram", name=name).select("x", "value", series=pl.lit(label))
        for label, one in found.items()
    ]
    rows = pl.concat(tables)
    seen = rows.filter(pl.col("value") > 0)["x"]
    rows = rows.filter(pl.col("x").is_between(seen.min(), seen.max()))
    return draw.lines(heading, rows, "x", "value", "series", x_title=title, y_title="share of targets")


def _figure_5(results: Results) -> StudyTable:
    few, many = _sizes(results)
    text = "larger action spaces correspond to improved reachability for all beta (Section 5.2)"
    rows = [
        _claim(
            results,
            f"mean log10 of the best probability, {many} items less {few}, beta {beta}",
            text,
            f"libfm/future-{many}/beta-{beta}",
            f"libfm/future-{few}/beta-{beta}",
            "log_best",
        )
        for beta in (1, 2, 4)
    ]
    names = [f"libfm/future-{k}/beta-{beta}" for beta in (4, 1) for k in (many, few)]
    more = None
    if all(name in results for name in names):
        table = joined(results, {name: name for name in names}, "log_best")
        more = over_users(table, lambda t: t[:, 0] - t[:, 1] - (t[:, 2] - t[:, 3]))
    claim = Published.above(0, "a more pronounced effect for larger beta (Section 5.2)")
    rows.append(StudyRow("that difference, beta 4 less beta 1", claim, more))
    charts = []
    for beta in (1, 4):
        found = {f"K = {k}": f"libfm/future-{k}/beta-{beta}" for k in (few, many)}
        if all(name in results for name in found.values()):
            points = [
                results[name].filter(kind="point").select("x", "value", series=pl.lit(label))
                for label, name in found.items()
            ]
            charts.append(
                draw.points(
                    f"One user's targets, beta = {beta}",
                    pl.concat(points),
                    "x",
                    "value",
                    x_title="baseline probability",
                    y_title="best probability",
                    series="series",
                    log_x=True,
                    log_y=True,
                )
            )
    return StudyTable("figure-5", "Figure 5: the size of action spaces", tuple(rows), "LibFM.", tuple(charts))


def _sizes(results: Results) -> tuple[int, int]:
    """The smallest and the largest action space that were audited."""
    sizes = sorted(int(one["k"]) for name, one in results.settings.items() if name.startswith("libfm/future-"))
    return (sizes[0], sizes[-1]) if sizes else (5, 20)


def _figure_6(results: Results) -> StudyTable:
    at = {(model, kind): f"{model}/{kind}-10/beta-2" for model in _MODELS for kind in _SPACES}
    twice = "knn-twice/history-10/beta-2"
    column, unit = "average_lift", "log10 of a user's average lift"
    variance = "Next K displays more variance across users than the other two (Section 5.2)"
    stark = "KNN: a stark difference between Next K and random action spaces (Section 5.2)"
    agency = "LibFM provides more agency on average than KNN (Section 5.2)"
    rows = [
        StudyRow(
            f"LibFM, standard deviation of {unit}, Next-10 less {_SPACES[kind]}",
            Published.above(0, variance),
            wider(results, at["libfm", "next"], at["libfm", kind], column),
        )
        for kind in ("future", "history")
    ]
    for kind in ("future", "history"):
        ours = difference(results, at["knn", kind], at["knn", "next"], column)
        ladder = {_TWICE: difference(results, twice, at["knn", "next"], column)} if kind == "history" else {}
        rows.append(
            StudyRow(f"KNN, {unit}, {_SPACES[kind]} less Next-10", Published.above(0, stark), ours, known(ladder))
        )
    rows.append(
        StudyRow(
            f"KNN, {unit}, random history 10 less random future 10",
            Published.above(0, "History Edits displays higher average lift values than Future Edits (Section 5.2)"),
            difference(results, at["knn", "history"], at["knn", "future"], column),
            known({_TWICE: difference(results, twice, at["knn", "future"], column)}),
        )
    )
    for kind, words in _SPACES.items():
        ours = difference(results, at["libfm", kind], at["knn", kind], column)
        ladder = {_TWICE: difference(results, at["libfm", kind], twice, column)} if kind == "history" else {}
        rows.append(StudyRow(f"{unit}, {words}, LibFM less KNN", Published.above(0, agency), ours, known(ladder)))
    shown = {(_MODELS[model], _SPACES[kind]): name for (model, kind), name in at.items()}
    shown["KNN, counted twice", _SPACES["history"]] = twice
    bars = [
        {"name": f"{model}, {words}", "value": own.value, "lower": own.lower, "upper": own.upper}
        for (model, words), name in shown.items()
        if name in results
        for own in [over_users(joined(results, {"own": name}, column), lambda t: t[:, 0])]
    ]
    charts = (draw.bars("Average lifts", pl.DataFrame(bars), "name", "value", title=f"mean over users of {unit}"),)
    text = "A user's average lift over targets, beta = 2."
    return StudyTable("figure-6", "Figure 6: action spaces and agency", tuple(rows), text, charts if bars else ())


def _figure_7(results: Results) -> StudyTable:
    rows = []
    for what, text in SECTION_5_3.items():
        asked = f"{what.replace('baseline', 'predicted')} availability"
        rows.append(
            StudyRow(
                f"LibFM, Next-10: correlation of popularity with {what} availability, in the text",
                as_sampled(text, repeated(results, "libfm", asked)),
                correlation(results, "libfm/next-10/beta-2", asked),
                known({"ten random future items": correlation(results, "libfm/future-10/beta-2", asked)}),
                "Table 4 prints another number for the same; the authors' table has the text's for random future 10.",
            )
        )
    for model, claim in (
        ("libfm", Published.above(0, "best case availability is less clearly correlated (Section 5.3)")),
        ("knn", Published.between(-0.05, 0.05, "best case availability displays a similar trend (Section 5.3)")),
    ):
        name = f"{model}/next-10/beta-2"
        ours = less(
            correlation(results, name, "predicted availability"), correlation(results, name, "best availability")
        )
        rows.append(StudyRow(f"{_MODELS[model]}: baseline correlation less best", claim, ours))
    charts = [
        _by_popularity(results, name, f"{_MODELS[model]}, Next-10")
        for model, name in ((model, f"{model}/next-10/beta-2") for model in _MODELS)
        if name in results
    ]
    return StudyTable("figure-7", "Figure 7: popularity and availability", tuple(rows), "", tuple(charts))


def _by_popularity(results: Results, name: str, heading: str) -> Figure:
    table = results[name].filter(kind="popularity").filter(pl.col("name") != "plain")
    table = table.with_columns(pl.col("group") + 1, name=pl.col("name").replace("predicted", "baseline"))
    quarters = "quarter of the items by mean rating"
    return draw.lines(heading, table, "group", "value", "name", x_title=quarters, y_title="availability")


def _figure_8(results: Results) -> StudyTable:
    rows, charts = [], []
    for log in ("lastfm", "mind"):
        name, note = other_data(results, log)
        ours = less(
            correlation(results, name, "predicted availability"), correlation(results, name, "best availability")
        )
        claim = Published.above(0, "the lack of correlation for best case availability holds (Section 5.3)")
        rows.append(StudyRow(f"{NAMES[log]}: baseline correlation less best", claim, ours, note=note))
        if name in results:
            charts.append(_by_popularity(results, name, NAMES[log]))
    return StudyTable("figure-8", "Figure 8: music and news", tuple(rows), "LibFM, Next-10.", tuple(charts))


def _figure_9(results: Results) -> StudyTable:
    rows, charts = [], []
    for log, name, note in (("ml-1m", "libfm/next-10/beta-2", ""), ("mind", *other_data(results, "mind"))):
        higher: Quantity | None = None
        if name in results:
            people = results[name].filter(kind="user")
            both = people.select("best_discovery", "predicted_discovery").to_numpy()
            higher = over_users(both, lambda t: t[:, 0] - t[:, 1])
            charts.append(_by_experience(NAMES[log], people))
        claim = Published.above(0, "the best case discovery is much higher (Section 5.3)")
        rows.append(StudyRow(f"{NAMES[log]}: discovery, best less baseline", claim, higher, note=note))
        if log == "ml-1m":
            weak = Published.above(0, "experience is weakly correlated with baseline discovery (Section 5.3)")
            ours = correlation(results, name, "predicted discovery")
            rows.append(StudyRow("MovieLens 1M: correlation of experience with baseline discovery", weak, ours))
    return StudyTable("figure-9", "Figure 9: experience and discovery", tuple(rows), "LibFM, Next-10.", tuple(charts))


def _by_experience(heading: str, people: pl.DataFrame) -> Figure:
    table = (
        people.group_by("quarter")
        .agg(best=pl.mean("best_discovery"), baseline=pl.mean("predicted_discovery"))
        .sort("quarter")
        .with_columns(pl.col("quarter") + 1)
        .unpivot(["baseline", "best"], index="quarter")
    )
    quarters = "quarter of the users by number of ratings"
    return draw.lines(heading, table, "quarter", "value", "variable", x_title=quarters, y_title="discovery")
