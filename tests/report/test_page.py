"""The page stands alone, shows text as text, and shows what the run has and no more."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from recaudit import report
from recaudit.audits.audit import definitions
from recaudit.data import datasets
from recaudit.data.synthetic import World
from recaudit.report.evidence import Evidence
from recaudit.report.findings import left_out_lines
from recaudit.runs import Run, execute, parse
from report.crafted_runs import (
    AGENCY,
    Data,
    Film,
    Model,
    Moved,
    Pair,
    accuracy,
    agency,
    curve,
    exposure,
    groups,
    reachability,
    with_users,
    write_run,
)


class Page(HTMLParser):
    """A page as a browser takes it apart."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.texts: list[str] = []
        self._inside: tuple[str, dict[str, str | None]] = ("", {})
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = (tag, dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ("", {})

    def handle_data(self, data: str) -> None:
        if self._inside[0] == "script":
            self.scripts.append((self._inside[1], data))
        elif self._inside[0] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))

    @property
    def shape(self) -> list[tuple[str, list[str]]]:
        """Elements and the names of their attributes, in order."""
        return [(tag, sorted(attributes)) for tag, attributes in self.elements]

    @property
    def dead_ends(self) -> list[str]:
        """Links and buttons that lead nowhere, and ids that stand for two places."""
        ids = [attributes["id"] or "" for _, attributes in self.elements if "id" in attributes]
        targets = [
            (attributes["href"] or "").removeprefix("#") for _, attributes in self.elements if "href" in attributes
        ]
        targets += [
            attributes["popovertarget"] or "" for _, attributes in self.elements if "popovertarget" in attributes
        ]
        return [target for target in targets if target not in ids] + [name for name in ids if ids.count(name) > 1]

    @property
    def specs(self) -> list[dict[str, Any]]:
        """The embedded charts."""
        blocks = [json.loads(text) for attributes, text in self.scripts if attributes.get("type")]
        return [block for block in blocks if "$schema" in block]


SWEPT = ("past_lift", "future_lift", "past_instability", "future_instability")
POPULAR = {"popular": (2.0, 1.9, 2.1), "intermediate": (1.0, 0.9, 1.1), "popular / intermediate": (2.0, 1.8, 2.2)}
ACTIVE = {"active": (0.3, 0.2, 0.4), "intermediate": (0.1, 0.0, 0.2), "active - intermediate": (0.2, 0.1, 0.3)}


def full_run(path: Path, name: dict[str, str]) -> Run:
    """A run with every section, in which everything that has a name has one of these."""
    genre = groups(
        "genre", "share", {name["genre"]: (0.7, 0.6, 0.8), "Drama": (0.3, 0.2, 0.4)}, {name["genre"]: 0.2, "Drama": 0.8}
    )
    quarters = {"1: 0-9 ratings": 0.2, "2: 10-99 ratings": 0.8}
    popular = groups("popularity", "share", {"1: 0-9 ratings": 0.1, "2: 10-99 ratings": (0.9, 0.85, 0.95)}, quarters)
    recall = groups("popularity", "recall", {"1: 0-9 ratings": (0.1, 0.0, 0.2), "2: 10-99 ratings": (0.5, 0.4, 0.6)})
    people = groups(name["attribute"], "ndcg", {name["group"]: (0.1, 0.05, 0.15), "B": (0.4, 0.3, 0.5)})
    members = {name["attribute"]: [name["group"]] * 50 + ["B"] * 50}
    values = [middle + 0.01 * (place % 5 - 2) for middle in (0.1, 0.4) for place in range(50)]
    films = [Film(name["title"], 50, 4.9, 0), Film(name["title"] + " 2", 60, 3.0, 9), Film("C", 20, 4.0, 1)]
    shown = with_users(exposure(films, by=[genre, popular]), "popularity_lift", values, members)
    chances = {"1: 0-9 ratings": (0.01, 0.005, 0.015), "2: 10-99 ratings": (0.05, 0.04, 0.06)}
    availability = groups("popularity", "availability", chances, dict.fromkeys(chances, 0.005))
    pairs = [
        Pair(name["user"], "i0", 0.1, 0.4, climbs=7, ratings={"i2": 5.0, "i1": 1.0}),
        Pair(name["user"], "i1", 0.2, 0.3),
        Pair("bob", "i0", 0.1, 0.2),
        Pair("bob", "i1", 0.2, 0.9),
    ]
    titles = {item: name["title"] + ending for item, ending in (("i0", " r0"), ("i1", " r1"), ("i2", " r2"))}
    reached = reachability(pairs, titles, people={name["user"]: 0.2, "bob": 0.5}, by=[availability])
    reached = with_users(reached, "discovery", values, members)
    over_time = agency(
        series=[
            *(curve("horizon", metric, {1: (1.1, 1.0, 1.2), 5: AGENCY[metric]}) for metric in SWEPT),
            *(curve("beta", metric, {0.5: (1.1, 1.0, 1.2), 2: AGENCY[metric]}) for metric in SWEPT),
            *(curve("instability", metric, {0.0: 0.75, 0.01: 0.25}) for metric in SWEPT[2:]),
        ],
        by=[
            groups("popular against intermediate items", "past_lift", POPULAR),
            groups("active against intermediate editors", "past_instability", ACTIVE),
            groups("history", "past_lift", {name["group"]: (1.1, 1.0, 1.2)}),
        ],
        worked=[Moved(name["user"], name["model"], 0.4, {"i0": (1.0, 5.0)})],
        titles={"i0": name["title"] + " a0"},
    )
    served = with_users(accuracy(0.3, None, by=[recall]), "ndcg", values, members)
    heard = [served, shown, reached, over_time]
    models = [
        Model(name["model"], heard),
        Model(
            "Hits",
            [accuracy(0.2, 1.0, per_user=(0.2, 0.1), by=[people, recall]), shown],
            "top-pop",
            {"reachability": name["reason"], "agency": name["reason"]},
        ),
    ]
    data = Data(name["data"], 3, attributes=(name["attribute"],), categories=("genre",))
    return write_run(path, models, data)


PLAIN = {key: key.upper() for key in ("title", "genre", "attribute", "group", "model", "data", "user", "reason")}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return full_run(tmp_path_factory.mktemp("run"), PLAIN)


@pytest.fixture(scope="module")
def page(run: Run) -> Page:
    return Page(report.render(run))


class TestStandsAlone:
    def test_nothing_is_fetched(self, page: Page) -> None:
        for tag, attributes in page.elements:
            assert tag not in ("link", "img", "iframe", "object", "embed", "base")
            assert "src" not in attributes
            assert (attributes.get("href") or "#").startswith("#"), attributes
        assert not any('"url"' in json.dumps(spec) for spec in page.specs)

    def test_the_policy_allows_the_one_script_and_no_address(self, page: Page) -> None:
        (code,) = [text for attributes, text in page.scripts if not attributes.get("type")]
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
        assert policy is not None
        assert f"script-src 'sha256-{digest}';" in policy
        assert policy.startswith("default-src 'none';")
        assert "http" not in policy

    def test_every_page_has_the_policy_of_this_one(self) -> None:
        templates = [one for one in (resources.files("recaudit.report") / "templates").iterdir() if "html" in one.name]
        texts = {one.name: one.read_text(encoding="utf-8") for one in templates}
        assert [name for name, text in texts.items() if "<html" in text] == ["base.html.j2"]
        pages = {name for name, text in texts.items() if text.startswith('{% extends "base.html.j2" %}')}
        assert pages == {f"{name}.html.j2" for name in ("page", "comparison", "history", "simulation")}
        assert 'http-equiv="Content-Security-Policy" content="{{ content_policy }}"' in texts["base.html.j2"]

    def test_links_lead_somewhere_on_the_page(self, page: Page) -> None:
        assert page.dead_ends == []

    def test_every_chart_is_told_in_words(self, page: Page) -> None:
        canvases = [attributes for _, attributes in page.elements if attributes.get("class") == "canvas"]
        assert len(canvases) == len(page.specs) > 10
        assert all(len(canvas["aria-label"] or "") > 20 for canvas in canvases)


class TestDefinitions:
    def test_every_metric_shown_is_defined_and_one_click_away(self, page: Page, run: Run) -> None:
        steps = [(step.model, step.audit) for step in run.manifest.steps]
        tables = [run.table(*step, name)["metric"].to_list() for step in steps for name in ("summary", "groups")]
        for name in {name for metrics in tables for name in metrics}:
            metric = definitions()[name]
            told = [metric.definition, metric.formula, metric.range]
            assert all(page.text.count(text) >= 2 for text in told)  # in the list, and on a click
            assert f"about-{name}" in [attributes.get("popovertarget") for _, attributes in page.elements]

    def test_a_metric_that_is_not_shown_is_not_defined(self, tmp_path: Path) -> None:
        html = report.render(write_run(tmp_path, [Model("A", [accuracy()])]))
        assert definitions()["ndcg"].definition in Page(html).text
        assert definitions()["gini"].definition not in Page(html).text


HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<!--<script>",
    "{{ 7 * 7 }}{% raw %}",
    "</title></style></textarea><b>",
    "]]>&amp;&lt;",
    "a\u2028b\u2029c",
]


class TestNamesAreText:
    @pytest.mark.parametrize("first", [0, 3, 6])
    def test_no_name_changes_the_page(self, tmp_path: Path, page: Page, first: int) -> None:
        names = dict(zip(PLAIN, HOSTILE[first:] + HOSTILE[:first], strict=False))
        hostile = Page(report.render(full_run(tmp_path, names)))
        assert hostile.shape == page.shape
        assert [text.strip() for text in hostile.texts].count(f"{names['title']} 2") == 2
        for name in names.values():
            assert name in "".join(hostile.texts)

    def test_names_reach_the_charts_unchanged(self, tmp_path: Path) -> None:
        names = dict.fromkeys(PLAIN, HOSTILE[1])
        page = Page(report.render(full_run(tmp_path, names)))
        drawn = [row for spec in page.specs for rows in spec["datasets"].values() for row in rows]
        assert any(row.get("group") == HOSTILE[1] for row in drawn)
        assert any(row.get("model") == HOSTILE[1] for row in drawn)

    def test_nothing_in_a_data_block_can_end_it(self, tmp_path: Path) -> None:
        names = dict.fromkeys(PLAIN, "<!--</script>\u2028&") | {"model": "<!--</script>&"}  # a label has no line break
        page = Page(report.render(full_run(tmp_path, names)))
        for attributes, text in page.scripts:
            if attributes.get("type"):
                assert not re.search("[<>&\u2028\u2029]", text)


class TestWhatIsShown:
    def test_sizes_and_origin(self, page: Page) -> None:
        assert "1,234 users, 3 items and 56,789 ratings from 1 to 5." in page.text
        assert "learned from 45,431 of the ratings and were tested on the other 11,358" in page.text
        assert "5 March 2025, 14:02 UTC, seed 7, recaudit 0.1.0" in page.text
        assert "random, fraction 0.2" in page.text
        assert "f1a9" in page.text
        assert re.search("1 min [1-5][0-9] s", page.text)  # 75 s, and what the folder took to write

    def test_a_missing_number_has_its_reason_and_is_no_zero(self, page: Page) -> None:
        reasons = [attributes["title"] for tag, attributes in page.elements if attributes.get("class") == "absent"]
        unfitted = ["no time of fitting was recorded"] * 2
        assert reasons == [*["the model's scores rank items and are not ratings"] * 2, *unfitted]
        assert "NaN" not in page.text
        assert "None" not in page.text

    def test_the_best_is_marked_and_what_overlaps_with_it(self, tmp_path: Path) -> None:
        models = [
            Model("A", [accuracy((0.3, 0.25, 0.35), 0.9)]),
            Model("B", [accuracy((0.27, 0.22, 0.32), 0.8)]),
            Model("C", [accuracy((0.1, 0.05, 0.15), 1.0)]),
        ]
        html = report.render(write_run(tmp_path, models))
        cells = re.findall(
            r'<td class="number ?(\w*)"[^>]*>(?:<span class="badge.*?</span>)?<span class="value">([\d.]+)', html
        )
        assert ("best", "0.300") in cells
        assert ("near", "0.270") in cells
        assert ("", "0.100") in cells
        assert ("best", "0.800") in cells
        assert ("", "0.900") in cells

    def test_items_by_title(self, page: Page) -> None:
        assert "Shown most" in page.text
        assert "Rated best of what nobody is shown" in page.text
        assert "shows 2 items to somebody and 1 to nobody" in page.text

    def test_failures_and_unfinished_audits_are_listed(self, tmp_path: Path) -> None:
        films = [Film("A", 20, 4.0, 1)]
        models = [
            Model("Whole", [accuracy(users=90, excluded=10), exposure(films)]),
            Model("Broken", [accuracy(None, None, status="failed")]),
        ]
        text = Page(report.render(write_run(tmp_path, models))).text
        assert "the computation failed" in text
        assert "the exposure audit of this model has not been run" in text
        assert "stand on 90 users; 10 had nothing to measure." in text

    def test_whom_a_number_leaves_out_is_said_of_each_model(self, tmp_path: Path) -> None:
        models = [Model(name, [accuracy(users=90 - left, excluded=left)]) for name, left in (("A", 5), ("B", 0))]
        lines = left_out_lines(Evidence(write_run(tmp_path, models)))
        assert len(lines) == 1
        assert lines[0].endswith(" of A stand on 85 users; 5 had nothing to measure.")

    def test_a_skipped_audit_is_listed_with_its_reason(self, tmp_path: Path) -> None:
        models = [Model("A", [accuracy()], skipped={"reachability": "A has no response to edited ratings."})]
        text = Page(report.render(write_run(tmp_path, models))).text
        assert "A reachability A has no response to edited ratings." in text
        assert "What users can reach" not in text

    def test_what_users_can_reach(self, page: Page) -> None:
        assert "if they rate the 10 unseen items that they would be shown next" in page.text
        assert "25.0% → 50.0% [40.0%, 60.0%]" in page.text
        assert "Hits cannot be asked" in page.text
        assert "Read a line at a time" not in page.text  # one model: there is nothing to compare
        assert "1 of 2 items asked about cannot be made likelier than by chance by any user of MODEL" in page.text
        assert "USER gets TITLE r0 from MODEL with a chance of 10.0%. With these ratings it is 40.0%" in page.text
        assert "TITLE r2 5.0 TITLE r1 1.0" in page.text

    def test_chances_of_several_models_come_with_a_caution(self, tmp_path: Path) -> None:
        models = [
            Model("Ranker", [accuracy(0.3, None), reachability(PAIRS)]),
            Model("Predictor", [accuracy(0.2, 0.9), reachability(PAIRS)]),
        ]
        text = Page(report.render(write_run(tmp_path, models))).text
        assert "not on one scale (Ranker: scores are not even ratings)" in text


FILMS = [Film(None, 20, 4.0, 3), Film(None, 20, 3.0, 0)]


PAIRS = [Pair("u", "a", 0.1, 0.4, climbs=1, ratings={"a": 5.0}), Pair("u", "b", 0.1, 0.3)]
UNANSWERED = reachability([Pair("u", "a", 0.1, None, "not_applicable")], discovery=None, availability=None, lift=None)


@pytest.mark.parametrize(
    ("models", "sections"),
    [
        ([Model("A", [reachability(PAIRS)])], {"reach"}),
        ([Model("A", [UNANSWERED])], {"reach"}),
        ([Model("A", [accuracy()], skipped={"reachability": "no"})], {"accuracy"}),
        ([Model("A", [accuracy(), exposure(FILMS)])], {"accuracy", "shown", "items"}),
        ([Model("A", [accuracy()])], {"accuracy"}),
        ([Model("A", [exposure(FILMS)])], {"shown", "items"}),
        ([Model("A", [accuracy(0.2, None)]), Model("B", [exposure(FILMS)])], {"accuracy", "shown", "items"}),
        ([Model("A", [accuracy(), exposure(FILMS)], "top-pop")], {"accuracy", "shown", "items"}),
        ([Model("A", [accuracy(None, None)])], {"accuracy"}),
        ([Model("A", [])], set()),
        ([Model("A", [exposure([Film("Only", 0, None, 0)])])], {"shown", "items"}),
    ],
    ids=[
        "only reach",
        "no answer",
        "skipped",
        "one model",
        "no exposure",
        "no accuracy",
        "mixed",
        "a reference",
        "no numbers",
        "nothing",
        "nothing shown",
    ],
)
def test_any_run_makes_a_page(tmp_path: Path, models: list[Model], sections: set[str]) -> None:
    run = write_run(tmp_path, models)
    page = Page(report.render(run))
    ids = {attributes.get("id") for tag, attributes in page.elements if tag == "section"} - {None}
    assert ids == sections | {"findings", "methods", "gaps", "run"}
    assert page.dead_ends == []
    assert len([tag for tag, attributes in page.elements if attributes.get("class") == "card"]) == len(
        report.headlines(run)
    )


def test_many_models_and_categories_stay_small(tmp_path: Path) -> None:
    names = [f"category {i}" for i in range(300)]
    genre = groups("genre", "share", dict.fromkeys(names, 1 / 300), dict.fromkeys(names, 1 / 300))
    films = [Film(f"film {i}", 20, 4.0, i) for i in range(3000)]
    models = [Model(f"M{i}", [accuracy(0.1 + i / 100), exposure(films, by=[genre])]) for i in range(12)]
    page = Page(report.render(write_run(tmp_path, models, Data(categories=("genre",)))))
    assert max(len(json.dumps(spec)) for spec in page.specs) < 100_000


def test_written_whole_and_written_again(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Model("A", [accuracy()])])
    path = report.write(run)
    assert path == tmp_path / "report.html"
    first = path.read_bytes()
    assert first.decode().rstrip().endswith("</html>")
    assert report.write(run).read_bytes() == first
    assert sorted(p.name for p in tmp_path.iterdir()) == ["manifest.json", "report.html", "results"]


def test_a_real_run(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets, "load", lambda name, path=None: world.data)
    models = "".join(f"[[model]]\nkind = '{kind}'\n" for kind in ("ease", "als", "top-pop", "random"))
    text = f"[data]\nname = 'demo'\n{models}[audits.accuracy]\n[audits.exposure]\n"
    text += "[audits.reachability]\nusers = 20\n"
    run = execute(parse(text, source="run.toml", folder=tmp_path), tmp_path / "run", report=report.render)
    page = Page(run.report.read_text(encoding="utf-8"))
    assert len(page.specs) > 15
    assert all(f"By {by}" in page.text for by in ("history", "region", "age", "genre", "popularity"))
    assert len(report.headlines(run)) == 5
    assert "See the numbers" in page.text
    assert "20 of 120 users were asked" in page.text
    assert "What it takes: one user, one item" in page.text
    assert "RandomModel: no formula says" in page.text
