"""The statement of an audit: every number of the folder, a blank for what it does not know, text that stays text."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from typer.testing import CliRunner, Result

from recaudit import runs
from recaudit.cli import app
from recaudit.data.synthetic import demo_world
from recaudit.errors import DamagedError, InputError
from recaudit.folders import Folder, Manifest, verify
from recaudit.metrics.tables import SUMMARY_SCHEMA
from recaudit.report import render, render_statement, write_statement
from recaudit.report.evidence import Evidence
from recaudit.report.kit.markdown import escaped, toml
from recaudit.runs import Run
from recaudit.version import __version__
from report.crafted_runs import Crafted, Data, Model, Pair, accuracy, cells, reachability, with_users, write_run
from report.test_page import PLAIN, full_run

HOSTILE = "A|B `x` <img src=x onerror=alert(1)> [a](javascript:1) **b** _c_ @all # 1 & \\ ~~d~~ $e$ http://x.y ]: |"
PARSER = MarkdownIt("commonmark").enable("table")


def tables(text: str) -> list[list[list[str]]]:
    """The cells of every table as a reader sees them."""
    found: list[list[list[str]]] = []
    for token, after in zip(tokens := PARSER.parse(text), [*tokens[1:], None], strict=True):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in ("th_open", "td_open") and after is not None:
            found[-1][-1].append(seen(after.children or []))
    return found


def seen(tokens: list[Token]) -> str:
    return "".join(token.content for token in tokens)


def results(text: str) -> list[dict[str, str]]:
    return [
        dict(zip(table[0], row, strict=True)) for table in tables(text) if "Worst off" in table[0] for row in table[1:]
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return full_run(tmp_path_factory.mktemp("run"), PLAIN)


@pytest.fixture(scope="module")
def text(run: Run) -> str:
    return render_statement(run)


class TestNumbers:
    def test_every_metric_of_a_summary_is_there_with_its_interval_status_and_people(self, run: Run, text: str) -> None:
        evidence, stated = Evidence(run), results(text)
        asked = [(model, audit) for model in run.models for audit in run.audits(model)]
        rows = [(m, a, row) for m, a in asked for row in run.table(m, a, "summary").iter_rows(named=True)]
        assert len(rows) > 30
        for model, audit, row in rows:
            own = evidence.summaries[model, audit, row["metric"]]
            expected = {
                "Metric": evidence.label(row["metric"], audit),
                "Model": model,
                "Value": own.text,
                "Interval": own.interval or "none",
                "Status": own.status.replace("_", " "),
                "Users": f"{row['users']:,}",
            }
            assert any(expected.items() <= line.items() for line in stated), expected

    def test_the_worst_off_group_stands_beside_the_number_where_groups_differ(self, text: str) -> None:
        (ndcg,) = [row for row in results(text) if row["Metric"] == "nDCG@10" and row["Model"] == "MODEL"]
        assert ndcg["Worst off"] == "users of ATTRIBUTE GROUP: 0.100 [0.096, 0.104], 50 users; all others: 0.400"

    @pytest.mark.parametrize(("gap", "told"), [(0.3, "users of region South: 0.2"), (0.0, "none shown")])
    def test_a_group_is_worst_off_only_if_it_is_significant(self, tmp_path: Path, gap: float, told: str) -> None:
        ndcg = [middle + 0.01 * (place % 5) for middle in (0.2 + gap, 0.2) for place in range(30)]
        result = with_users(accuracy(), "ndcg", ndcg, {"region": ["North"] * 30 + ["South"] * 30})
        made = write_run(tmp_path, [Model("ALS", [result])], Data(attributes=("region",)))
        worst = {row["Metric"]: row["Worst off"] for row in results(render_statement(made))}
        assert worst["nDCG@10"].startswith(told)
        assert worst["RMSE"] == ""  # groups are not tested by it

    def test_a_number_about_drawn_items_and_users_says_so(self, tmp_path: Path) -> None:
        reached = reachability([Pair("u", "a", 0.1, 0.6)], facts={"targets": 4, "users": 30})
        rows = results(render_statement(write_run(tmp_path, [Model("A", [accuracy(), reached])])))
        of = {row["Metric"]: row["Of"] for row in rows}
        assert (of["Lift"], of["nDCG@10"]) == ("4 drawn items and 30 drawn users", "all asked about")

    def test_contrasts_have_rows_of_their_own(self, text: str) -> None:
        of = {row["Of"] for row in results(text)}
        assert "popular against intermediate items: popular / intermediate" in of

    def test_every_metric_is_defined_once(self, run: Run, text: str) -> None:
        names = [row[0] for table in tables(text) if table[0][:2] == ["Metric", "Definition"] for row in table[1:]]
        evidence = Evidence(run)
        assert sorted(names) == sorted({evidence.label(metric, audit) for _, audit, metric in evidence.summaries})


class TestLimits:
    def test_what_has_no_number_is_counted_and_has_its_reason(self, text: str) -> None:
        statuses = Counter(row["Status"] for row in results(text))
        counted = ", ".join(f"{statuses[name]:,} {name}" for name in ("solved", "not applicable") if statuses[name])
        assert f"Of {sum(statuses.values()):,} numbers: {counted}. 2 audits of models were skipped." in text
        gaps = next(table for table in tables(text) if table[0][-1] == "Why")
        assert ["MODEL", "accuracy", "RMSE, MAE", "the model's scores rank items and are not ratings"] in gaps
        assert ["Hits", "reachability", "Discovery, Availability, Lift", "REASON"] in gaps

    def test_each_audit_says_what_it_cannot_say(self, run: Run, text: str) -> None:
        limits = text.partition("### What the numbers cannot say")[2].partition("\n## ")[0]
        for audit in run.audits("MODEL"):
            assert f"- **{audit}**: " in limits

    def test_rules_and_their_tests_stand_beside_the_numbers_that_rest_on_them(self, text: str) -> None:
        rests = text.partition("**reachability**: Discovery, Availability, Lift rest on:")[2].partition("**agency**")[0]
        assert "the user's vector is solved anew; items are held. Checked by 3 refits: 93%" in rests

    def test_a_rule_that_its_audit_does_not_test_is_said_to_be_untested(self, tmp_path: Path) -> None:
        recipe = {"intervention": {"kind": "others", "actions": {"kind": "past", "k": 2}}, "over": {"kind": "max"}}
        recipe |= {"outcome": {"kind": "predicted-rating"}, "functional": {"kind": "change"}}
        summary = pl.DataFrame([{"metric": "composed", **cells((0.2, 0.1, 0.3))}], SUMMARY_SCHEMA)
        asked = Crafted("composed", {**recipe, "rule": "nothing moves"}, {"summary": summary})
        made = write_run(tmp_path, [Model("ALS", [asked])])
        assert "How ALS takes in ratings: nothing moves. Not checked by refits." in render(made)
        stated = render_statement(made)
        assert "How ALS takes in ratings: nothing moves. Not checked by refits." in stated
        assert "The largest change of the predicted rating over another user's last 2 ratings" in stated

    def test_an_unfinished_run_says_so(self, tmp_path: Path) -> None:
        made = write_run(tmp_path, [Model("ALS", [accuracy()])], audits=("accuracy", "exposure"))
        assert "**The run is not finished.** Still to come: exposure of ALS." in render_statement(made)


class TestReproduction:
    def test_digests_are_those_of_the_manifest(self, run: Run, text: str) -> None:
        annex = dict(reversed(line.split("  ")) for line in re.findall(r"^[0-9a-f]{64}  .*$", text, re.MULTILINE))
        assert annex == {name: record.sha256 for name, record in run.folder.manifest.files.items()}
        for digest in (run.manifest.config_hash, run.manifest.data.fingerprint):
            assert f"`{digest}`" in text

    def test_the_files_that_were_read_have_theirs(self, tmp_path: Path) -> None:
        world = demo_world(rng=0, users=40, items=30)
        world.data.frame().write_csv(tmp_path / "log.csv")
        text = '[data]\nfile = "log.csv"\n[[model]]\nkind = "top-pop"\n[audits.exposure]\n'
        made = render_statement(runs.execute(runs.parse(text, source="a", folder=tmp_path), tmp_path / "run"))
        digest = hashlib.sha256((tmp_path / "log.csv").read_bytes()).hexdigest()
        assert re.search(
            rf"^\| File of ratings, SHA-256 \| `log.csv`, [\d,]+ bytes, `{digest}` \|$", made, re.MULTILINE
        )

    def test_the_configuration_is_toml_that_reads_as_the_same(self, tmp_path: Path) -> None:
        config = {
            "seed": 3,
            "data": {"file": 'a "b".csv', "items": {"file": "i.csv", "categories": ["g|h"]}},
            "model": [{"kind": "als", "factors": 8, "half": 0.5}, {"kind": "random"}],
            "audits": {"exposure": {}, "recourse": {"actions": {"kind": "next-k", "ratings": {"kind": "stars"}}}},
            "odd key": {"x": True, "empty": {}, "none": []},
        }
        assert tomllib.loads(toml(config)) == config
        made = render_statement(write_run(tmp_path, [Model("ALS", [accuracy()])], Data(config=dict(config))))
        (block,) = re.findall(r"```toml\n(.*?)```", made, re.DOTALL)
        assert tomllib.loads(block) == config

    def test_what_the_folder_does_not_know_is_a_blank(self, text: str) -> None:
        cells = {row[0]: row[1] for table in tables(text) for row in table if len(row) == 2}
        for name in ("Auditor", "Mandate", "System in production", "Period", "Machine", "Signature", "Place, date"):
            assert cells[name].startswith("[..."), name

    def test_the_same_folder_gives_the_same_statement(self, run: Run, text: str) -> None:
        assert render_statement(Run.open(run.path)) == text


class TestText:
    def test_names_from_data_change_nothing_but_themselves(self, tmp_path: Path, text: str) -> None:
        hostile = render_statement(full_run(tmp_path / "run", {key: f"{key} {HOSTILE}" for key in PLAIN}))

        def shape(made: str) -> list[str]:
            return [token.type for token in PARSER.parse(made) if token.type != "inline"]

        def inner(made: str) -> Counter[str]:
            inline = (token.children or [] for token in PARSER.parse(made) if token.type == "inline")
            kinds = (child.type for children in inline for child in children)
            return Counter(kind for kind in kinds if kind not in ("text", "text_special", "softbreak"))

        assert shape(hostile) == shape(text)
        assert inner(hostile) == inner(text)
        assert any(f"model {HOSTILE}" == row["Model"] for row in results(hostile))

    @pytest.mark.parametrize(
        "name", ["- a", "+ b", "1. c", "2) d", "---", "===", "# e", "> f", "[x] g", "[h]: i", "    j", "\n\nk", HOSTILE]
    )
    def test_a_name_is_a_paragraph_and_nothing_else(self, name: str) -> None:
        tokens = PARSER.parse(escaped(name))
        assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
        assert seen(list(tokens[1].children or [])) == " ".join(name.split())

    def test_ordinary_names_stay_readable(self) -> None:
        assert escaped("past_lift@5 of ALS-2: 0.1 [0.0, 0.2], +28%") == "past_lift@5 of ALS-2: 0.1 [0.0, 0.2], +28%"


class TestTemplate:
    def test_ones_own_template_replaces_a_part(self, run: Run, text: str, tmp_path: Path) -> None:
        own = tmp_path / "own.md.j2"
        own.write_text('{% extends "statement.md.j2" %}{% block title %}# For {{ data.name }} & co\n{% endblock %}')
        made = render_statement(run, own)
        assert made.startswith("# For DATA & co\n\n## 1. Scope")
        assert made.partition("## 1. Scope")[2] == text.partition("## 1. Scope")[2]

    @pytest.mark.parametrize(
        ("source", "fault"),
        [
            ("a\n{% if %}", "line 2"),
            ("{{ nothing.here }}", "'nothing' is undefined"),
            ("{{ evidence.__class__.__init__.__globals__ }}", "unsafe"),
        ],
    )
    def test_a_template_that_cannot_be_filled_in_is_told(self, tmp_path: Path, source: str, fault: str) -> None:
        run, own = write_run(tmp_path / "run", [Model("ALS", [accuracy()])]), tmp_path / "own.md.j2"
        own.write_text(source)
        with pytest.raises(InputError, match=re.escape(fault)) as told:
            render_statement(run, own)
        assert "own.md.j2" in str(told.value)

    def test_a_template_that_is_not_there_is_told(self, run: Run, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="No such file"):
            render_statement(run, tmp_path / "none.j2")


class TestCommand:
    def recaudit(self, *arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})

    def test_it_writes_beside_the_report_once_and_the_folder_stays_whole(self, tmp_path: Path) -> None:
        made = write_run(tmp_path / "run", [Model("ALS", [accuracy()])])
        assert self.recaudit("report", made.path, "--format", "md").exit_code == 0
        path = made.path / "statement.md"
        path.write_text("filled in")
        again = self.recaudit("report", made.path, "--format", "md")
        assert again.exit_code == 2
        assert "--out" in again.stderr
        assert path.read_text() == "filled in"
        assert self.recaudit("verify", made.path).exit_code == 0
        assert (verify(made.path).unknown, verify(made.path).statement) == ((), "statement.md")
        other = tmp_path / "new" / "other.md"
        assert self.recaudit("report", made.path, "--format", "md", "--out", other).exit_code == 0
        assert other.read_text().startswith("# Statement of an audit: 1 recommender on films")

    def test_options_of_a_statement_are_refused_without_one(self, tmp_path: Path) -> None:
        made = write_run(tmp_path / "run", [Model("ALS", [accuracy()])])
        refused = self.recaudit("report", made.path, "--template", "x.j2")
        assert refused.exit_code == 2
        assert "--format md" in refused.stderr

    def test_no_statement_is_made_from_a_damaged_folder(self, tmp_path: Path) -> None:
        made = write_run(tmp_path / "run", [Model("ALS", [accuracy()])])
        users = made.path / "results" / "ALS" / "accuracy" / "users.parquet"  # not one that the numbers are read from
        users.write_bytes(users.read_bytes()[:-1])
        with pytest.raises(DamagedError, match=r"users\.parquet"):
            write_statement(Run.open(made.path))
        assert not (made.path / "statement.md").exists()

    def test_a_simulation_has_none(self, tmp_path: Path) -> None:
        Folder.begin(tmp_path / "sim", Manifest(kind="study", recaudit=__version__, plan={}, record={}))
        refused = self.recaudit("report", tmp_path / "sim", "--format", "md")
        assert refused.exit_code == 2
        assert "the folder of a simulation study" in refused.stderr


def test_a_new_run_says_when_its_ratings_were_and_on_what_kind_of_machine(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(
        "user,item,rating,time\n" + "".join(f"u{n},i{n % 3},{n % 5 + 1},{10**9 + n}\n" for n in range(40))
    )
    (tmp_path / "a.toml").write_text(
        '[data]\nfile = "r.csv"\ntime = "time"\n[[model]]\nkind = "top-pop"\n[audits.exposure]\nby = []\n'
    )
    stated = render_statement(runs.execute(runs.read(tmp_path / "a.toml"), tmp_path / "run"))
    cells = {row[0]: row[1] for table in tables(stated) for row in table if len(row) == 2}
    assert cells["Period"].startswith("2001-09-09 to 2001-09-09 (times 1000000000 to 1000000039, read as seconds")
    assert re.fullmatch(r"\w+, \w+, \d+ cores?", cells["Machine"])
