"""Codes are stable: all that the report can state are listed, and its sentences for one run are a snapshot."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import recaudit
from recaudit import report
from recaudit.report.codes import CODES
from recaudit.report.differences import SHOWN
from recaudit.report.kit.claims import Caution, Finding, Headline
from report.test_page import PLAIN, full_run

SOURCE = Path(recaudit.__file__).parent / "report"
SENTENCES = Path(__file__).parent / "sentences.txt"
AREAS = sorted({code.partition(".")[0] for code in CODES})


def test_every_code_in_the_source_is_listed_and_the_other_way_round() -> None:
    files = [*SOURCE.rglob("*.py"), SOURCE.parent / "runs" / "services.py"]
    text = "\n".join(path.read_text() for path in files if path.name != "codes.py")
    used = set(re.findall(rf'"((?:{"|".join(AREAS)})\.[a-z]+(?:-[a-z]+)*)"', text))
    used |= {f"headline.prediction-{metric}" for metric in ("ndcg", "rmse")}  # made from the metric
    used |= {f"comparison.{verdict}" for verdict in SHOWN}
    assert used == set(CODES)


def test_names_and_meanings_have_one_form() -> None:
    assert all(re.fullmatch(r"[a-z]+\.[a-z]+(-[a-z]+)*", code) for code in CODES)
    assert all(meaning.endswith(".") for meaning in CODES.values())


def test_the_sentences_of_a_run_with_every_section(tmp_path: Path) -> None:
    """To accept new sentences, write `told` into the file and read the difference."""
    run = full_run(tmp_path, PLAIN)
    verdict = report.verdict(run)
    told = [f"{verdict.code}: {verdict.nothing}"]
    told += [f"{own.code}: {own.claim}. {own.detail} {own.advice}".rstrip() for own in verdict.findings]
    told += [f"{own.code}: {own.claim}. {own.detail}" for own in verdict.cautions]
    told += [f"{own.code}: {own.label}: {own.value} {own.interval} {own.meaning}" for own in report.headlines(run)]
    assert "\n".join(told).split("\n") == SENTENCES.read_text(encoding="utf-8").rstrip("\n").split("\n")


def test_every_finding_and_headline_rests_on_numbers_that_are_data(tmp_path: Path) -> None:
    run = full_run(tmp_path, PLAIN)
    verdict = report.verdict(run)
    stated: list[Finding | Caution | Headline] = [*verdict.findings, *verdict.cautions, *report.headlines(run)]
    for own in stated:
        assert own.code in CODES
        assert json.loads(json.dumps([asdict(number) for number in own.numbers], allow_nan=False))
    for finding in verdict.findings:
        for number in finding.numbers:
            assert None not in (number.audit, number.metric, number.model, number.value, number.users)
            assert number.p is None or number.p <= 0.05
