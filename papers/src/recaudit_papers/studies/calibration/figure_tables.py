"""The worked examples and Table 1, and Figures 1 to 3, beside ours."""

from __future__ import annotations

import polars as pl

from recaudit_papers.studies import figures as charts
from recaudit_papers.studies.calibration.published import NO_TEXT, ONE_OFF, OVER_REPRESENTED, TABLE_1, UNDER_REPRESENTED
from recaudit_papers.studies.calibration.trade_tables import quantity
from recaudit_papers.studies.reading import Published, Quantity, StudyRow, StudyTable
from recaudit_papers.studies.study import Results

_ROMANCE, _ACTION = 0.7, 0.3


def worked(results: Results) -> list[StudyTable]:
    """Section 2, the properties of Section 3, and Table 1."""
    return [*_section_2(results), *_table_1(results)]


def _section_2(results: Results) -> list[StudyTable]:
    always, drawn = _ROMANCE, _ROMANCE**2 + _ACTION**2
    rows = [
        StudyRow("2.1: right when always the majority is predicted", Published.number("0.70"), Quantity(always)),
        StudyRow("2.1: right when labels are drawn as they occur", Published.number("0.58"), Quantity(drawn)),
        StudyRow("2.2: 0.7 / 0.3", Published.number("2.33"), Quantity(_ROMANCE / _ACTION)),
    ]
    variants = {
        "MovieLens 20M": ("titles/ml-20m", "own"),
        "MovieLens 20M, the first of action": ("titles/ml-20m", "other"),
        "the first title of action, not of romance": ("titles/ml-1m", "other"),
        "a film counts in a genre by its share of it": ("titles/ml-1m/shares", "own"),
        "MovieLens latest-small": ("titles/ml-latest-small", "own"),
        "MovieLens 100K": ("titles/ml-100k", "own"),
    }
    found = {text: quantity(results.get(name), which=which) for text, (name, which) in variants.items()}
    climbed = {text: each for text, each in found.items() if each is not None}
    ours = quantity(results.get("titles/ml-1m"), which="own")
    if ours is not None:
        rows.append(
            StudyRow(
                "2.2: first title beside the tenth, romance",
                Published.number("2.1"),
                ours,
                climbed,
                "The footnote takes the first titles of both genres as equally likely.",
            )
        )
        rows.append(
            StudyRow(
                "2.2: the tenth romance title beside the first action title, of a user with 70:30",
                Published.above(1, "2.33 / 2.1 > 1: all ten are romance titles"),
                _over(ours),
                {text: _over(each) for text, each in climbed.items()},
            )
        )
    steps, one = results.get("two-steps"), "ranked less drawn"
    together = quantity(steps, lists="ranked less expected", metric="kl")
    rows += [
        StudyRow(
            "2.3: probability that the next play is in the list, ranked less drawn",
            Published.above(0, "sampling movies results in lower accuracy compared to ranking"),
            quantity(steps, lists=one, metric="hit"),
        ),
        StudyRow(
            "2.3: C_KL@10, ranked less drawn",
            Published.above(0, "unlike sampling, ranking unfortunately does not maintain the balance"),
            quantity(steps, lists=one, metric="kl"),
            {"the genres of many drawn lists taken together": together} if together else {},
            "A single list of ten is farther from the interests when it is drawn than when it is ranked: drawn lists "
            "are balanced on average only.",
        ),
    ]
    text = (
        "2.2 is about plays in the log as a whole. 2.3: people who pick a genre and then a title, 18 genres of 200 "
        "titles, with the true probabilities known."
    )
    return [StudyTable("section-2", "Section 2: the thought experiments", tuple(rows), text)]


def _over(ratio: Quantity) -> Quantity:
    """2.33 divided by a ratio."""
    low, high = ratio.ends
    base = _ROMANCE / _ACTION
    return Quantity(base / ratio.value, base / high, base / low, ratio.over)


def _table_1(results: Results) -> list[StudyTable]:
    found = results.get("table-1")
    if found is None:
        return []

    def of(metric: str, target: float, first: int, second: int) -> float:
        return float(found.filter(target=target, first=first, second=second)[metric][0])

    rows = []
    names = {"kl": "C_KL", "dp": "DP", "binomdiv": "BinomDiv"}
    for target, first, second in TABLE_1:
        for metric, name in names.items():
            known = metric == "dp" and (target, first, second) in ONE_OFF
            published = Published.number("1") if known else Published.nothing()
            ours = Quantity(of(metric, target, first, second))
            rows.append(StudyRow(f"{name}, {target:.0%}:{1 - target:.0%}, {first}:{second}", published, ours))

    def less(metric: str, one: tuple[float, int, int], other: tuple[float, int, int]) -> Quantity:
        return Quantity(of(metric, *one) - of(metric, *other))

    even, uneven = (0.6, 5, 5), (0.6, 7, 3)
    sensitive = [of(metric, 0.02, 1, 99) / of(metric, 0.5, 49, 51) for metric in ("kl", "hellinger")]
    rows += [
        StudyRow("C_KL of a perfect list (property 1)", Published.number("0"), Quantity(of("kl", 0.6, 6, 4))),
        StudyRow(
            "C_KL of 1% for 2%, beside that of 49% for 50% (property 2)",
            Published.above(1, "a larger discrepancy"),
            Quantity(sensitive[0]),
            digits=1,
        ),
        StudyRow(
            "the same, C_KL beside Hellinger's distance",
            Published.above(1, "Hellinger: to a lesser degree"),
            Quantity(sensitive[0] / sensitive[1]),
            digits=1,
        ),
        StudyRow(
            "C_KL of 29% for 30% less that of 31% (property 3)",
            Published.above(0, "31% are considered better"),
            less("kl", (0.3, 29, 71), (0.3, 31, 69)),
            digits=6,
        ),
        StudyRow(
            "C_KL of 7:3 less that of 5:5, target 60:40",
            Published.above(0, "5:5 should receive a better score"),
            less("kl", uneven, even),
        ),
        StudyRow(
            "C_KL of one title off, target 70:30 less target 60:40",
            Published.above(0, "worse for 70:30: more extreme"),
            less("kl", (0.7, 8, 2), uneven),
        ),
        StudyRow(
            "BinomDiv of 5:5 less that of 7:3, target 60:40",
            Published.above(0, "7:3 receives a worse (lower) score"),
            less("binomdiv", even, uneven),
            {"tails P(X > n) in the place of P(X >= n)": less("binomdiv_beyond", even, uneven)},
        ),
        StudyRow(
            "BinomDiv of perfect lists, 60:40 against 70:30, how far apart",
            Published.above(0, "different values, depending on the distribution"),
            Quantity(abs(less("binomdiv", (0.6, 6, 4), (0.7, 7, 3)).value)),
        ),
        StudyRow(
            "BinomDiv of perfect lists, 7:3 against 70:30, how far apart",
            Published.above(0, "different values, depending on the length"),
            Quantity(abs(less("binomdiv", (0.7, 7, 3), (0.7, 70, 30)).value)),
        ),
    ]
    text = (
        "Of the printed table the text that we have holds the caption only; the lists are those that Sections 3 and "
        "5.1 name, and so is DP = 1. DP is Dang and Croft's (2012), BinomDiv that of Vargas et al. (2014)."
    )
    return [StudyTable("table-1", "Table 1: three calibration metrics", tuple(rows), text)]


def figures(results: Results) -> list[StudyTable]:
    """Figures 1 to 3."""
    return [*_figure_1(results), *_figure_2(results), *_figure_3(results)]


def _figure_1(results: Results) -> list[StudyTable]:
    found = results.get("figure-1")
    if found is None:
        return []
    weights = sorted(set(found["weight"]))
    rows = [
        StudyRow(
            "ninth decile of C_KL@50 beside the first, lambda 0",
            Published.above(2, "a wide range; vastly different recommendation-qualities"),
            quantity(found, what="range", weight=0.0),
            digits=2,
        ),
        *(
            StudyRow(
                f"median C_KL@50, lambda {weight:g}",
                Published.nothing(NO_TEXT),
                quantity(found, what="median", weight=weight),
            )
            for weight in weights
        ),
        *(
            StudyRow(
                f"users with a lower C_KL@50 than without calibration, lambda {weight:g}",
                Published.above(0.5, "considerably better (lower) scores are achieved as lambda is increased"),
                quantity(found, what="nearer", weight=weight),
            )
            for weight in weights[1:]
        ),
    ]
    shown = found.filter(what="share").with_columns(name=pl.lit("lambda ") + pl.col("weight").cast(pl.String))
    shown = shown.filter(pl.col("weight").is_in([0.0, 0.5, 0.9, 0.99])).drop("lower", "upper", strict=False)
    chart = charts.lines(
        "C_KL@50 over test users", shown, "at", "value", "name", x_title="C_KL@50", y_title="share of users"
    )
    text = "The printed histogram is a plot: what the text says about it, measured as we chose to."
    return [StudyTable("figure-1", "Figure 1: C_KL@50 of all test users", tuple(rows), text, (chart,))]


def _figure_2(results: Results) -> list[StudyTable]:
    found = results.get("figure-2")
    if found is None:
        return []
    said = {
        "users with four or more genres of the history missing from the list": (
            "crowded",
            Published.above(0, "Musical, Mystery, Thriller and Western are essentially missing"),
        ),
        "the same after calibration": ("crowded_after", Published.below(0.05, "this can be largely prevented")),
        "users whose main interest has more of the list than of the history": (
            "amplified",
            Published.above(0, "the recommender system may amplify the main areas of interest"),
        ),
        "how much more, mean over users": ("main", Published.nothing("one user is shown")),
        "lesser interests that the list has nothing of": ("missing", Published.nothing("one user is shown")),
        "lesser interests missing after calibration": ("missing_after", Published.nothing("one user is shown")),
    }
    rows = tuple(StudyRow(name, printed, quantity(found, what=what)) for name, (what, printed) in said.items())
    example = found.filter(pl.col("genre") != "")
    called = {"own": "before calibration", "reranked": "after calibration"}
    shown = example.with_columns(name=pl.col("what").replace(called))
    pairs = (
        shown.filter(what="history")
        .select("genre", history="value")
        .join(shown.filter(pl.col("what") != "history"), on="genre")
    )
    chart = charts.points(
        "A user of the worst tenth: genres of list and history",
        pairs,
        "history",
        "value",
        x_title="share of the history",
        y_title="share of the list",
        series="name",
    )
    text = (
        "The paper shows one user of MovieLens 20M, without a name, so that the claims are read as: there are such "
        "users; averages stand beside them. Ours: means over the tenth of test users with the "
        "highest C_KL@50, lesser interests being genres of up to 5% of the history, and in the chart the one of them "
        "with the most plays."
    )
    return [StudyTable("figure-2", "Figure 2: genres of a user with uncalibrated lists", rows, text, (chart,))]


_SMALL = "MovieLens latest-small, all users: films and genres of later years, as in MovieLens 20M"


def _figure_3(results: Results) -> list[StudyTable]:
    found, other = results.get("figure-3/ml-1m"), results.get("figure-3/ml-latest-small")
    if found is None:
        return []

    def row(name: str, published: Published, **where: str) -> StudyRow:
        ours, elsewhere = quantity(found, **where), quantity(other, **where)
        if ours is None:
            return StudyRow(name, published, elsewhere, note=f"A genre that the stand-in data lack: {_SMALL}.")
        return StudyRow(name, published, ours, {_SMALL: elsewhere} if elsewhere else {})

    rows = [row("Documentary in histories", Published.number("0.03"), genre="Documentary", what="history")]
    for genre in UNDER_REPRESENTED:
        said = "essentially missed, severely underrepresented: the lower interval extends to about zero"
        rows.append(
            row(f"{genre}: what is missed, of its share", Published.above(0.75, said), genre=genre, what="missed")
        )
    for genre in OVER_REPRESENTED:
        rows.append(
            row(
                f"{genre}: above less below", Published.above(0, "mostly over-represented"), genre=genre, what="balance"
            )
        )
    for genre in sorted(set(found["genre"])):
        rows.append(
            row(
                f"{genre}: how much shorter the interval is after calibration",
                Published.above(0, "the green intervals are smaller"),
                genre=genre,
                what="shorter",
            )
        )
    rows.append(
        row(
            "Drama after calibration: longer than all others by",
            Published.above(0, "Drama is the genre with the largest interval"),
            genre="Drama",
            what="lead",
        )
    )
    rows.append(
        row(
            "Drama after calibration: above less below",
            Published.below(0, "slightly under-represented"),
            genre="Drama",
            what="balance_after",
        )
    )
    shown = found.filter(pl.col("what").is_in(["over", "under", "over_after", "under_after"]))
    history = found.filter(what="history").select("genre", history="value")
    sign = pl.when(pl.col("what").str.starts_with("over")).then(1).otherwise(-1)
    shown = shown.join(history, on="genre").with_columns(
        end=pl.col("history") + sign * pl.col("value"),
        when=pl.when(pl.col("what").str.ends_with("_after"))
        .then(pl.lit("after calibration"))
        .otherwise(pl.lit("before")),
    )
    chart = charts.points(
        "How far lists are above and below the histories on average, by genre",
        shown,
        "history",
        "end",
        x_title="mean share of the histories",
        y_title="ends of the intervals",
        series="when",
    )
    text = (
        "The tenth of test users with the highest C_KL@50 before calibration, lambda 0.99 after. The list of "
        "under-represented genres is incomplete in the text that we have. The heights are a plot: in no text."
    )
    return [StudyTable("figure-3", "Figure 3: genres over- and under-represented", tuple(rows), text, (chart,))]
