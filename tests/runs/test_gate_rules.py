"""Rules are refused with what is wrong, whoever writes them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from recaudit.errors import ConfigError, InputError
from recaudit.runs.gate import Gate, Rule, parse_gate, read_gate


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"at least one rule"),
        ("[rule]\nmetric = 'ndcg'", "two brackets"),
        ("[[rule]]\nmetric = 'ncdg'\nat_least = 1", "Did you mean 'ndcg'"),
        ("[[rule]]\nat_least = 1", r"rule\[0\].metric"),
        ("[[rule]]\nmetric = 'ndcg'", "neither bound nor margin"),
        ("[[rule]]\nmetric = 'ndcg'\nat_least = 1\nat_most = 2", "at_least and at_most"),
        ("[[rule]]\nmetric = 'ndcg'\nat_least = 'much'", "a number"),
        ("[[rule]]\nmetric = 'ndcg'\nat_lest = 1", "Did you mean 'at_least'"),
        ("[[rule]]\nmetric = 'ndcg'\nnot_worse_by = -1", "0 or more"),
        ("[[rule]]\nmetric = 'ndcg'\nnot_worse_by = nan", "0 or more"),
        ("[[rule]]\nmetric = 'ndcg'\nnot_worse_by = '2'", "'2%'"),
        ("[[rule]]\nmetric = 'ndcg'\nnot_worse_by = true", "0 or more"),
        ("[[rule]]\nmetric = 'novelty'\nnot_worse_by = 1", "not_lower_by or not_higher_by"),
        ("[[rule]]\nmetric = 'ndcg'\nat_least = 1\ngroup = 'F'", "the grouping that 'F'"),
        ("[[rule]]\nmetric = 'ndcg'\nat_least = 1\naudit = 'acuracy'", "Did you mean 'accuracy'"),
        ("[[rule]]\nmetric = 'ndcg'\nat_least = 1\naudit = 'exposure'", "accuracy or mitigation or reranking"),
        ("[[rule]]\nmetric = 'ndcg'\nat_least = 1\nconfidence = 1.5", "between 0 and 1"),
        ("[[rule]]\nmetric = 'ndcg'\nat_least = 1\nconfidence = true", "between 0 and 1"),
        ("[[rule]]\nmetric = 'ndcg'\nat_least = 1\nconfidence = 'gate'", "between 0 and 1"),
        ("[[rule]]\nmetric = 'ndcg'\nat_least = 1\npeople = 0", "greater than"),
        ("[[rule]]\nmetric = 'ndcg'\nat_least = 1\nfailures = 'ignore'", "'undecided' or 'accept'"),
        ("confidence = 1\n[[rule]]\nmetric = 'ndcg'\nat_least = 1", "confidence"),
        ("confidnce = 0.9\n[[rule]]\nmetric = 'ndcg'\nat_least = 1", "Did you mean 'confidence'"),
        ("[[rule]", "invalid TOML"),
    ],
)
def test_a_file_that_is_not_what_it_must_be(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_gate(text, source="gate.toml")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_gate(tmp_path / "gate.toml")


def test_in_python_the_same_mistakes() -> None:
    with pytest.raises(InputError, match="Did you mean 'ndcg'"):
        Rule(metric="ncdg", at_least=1)
    with pytest.raises(InputError, match="at least one"):
        Gate()


@pytest.mark.parametrize("name", ["rule", "rules"])
def test_rules_are_a_list_of_rules_under_either_name(name: str) -> None:
    gate: Any = Gate
    rule = Rule(metric="ndcg", at_least=0.1)
    assert gate(**{name: [rule]}).rules == gate(**{name: ({"metric": "ndcg", "at_least": 0.1},)}).rules == (rule,)
    example = re.escape("For example Gate(rule=[Rule(metric='ndcg', not_worse_by='5%')])")
    for wrong, came in (({"ndcg": 0.3}, "{'ndcg': 0.3}"), ("ndcg", "'ndcg'"), (rule, "Rule"), (None, "nothing")):
        with pytest.raises(InputError, match=f"^{name}: received {came}.*; expected a list of rules. {example}"):
            gate(**{name: wrong})
    with pytest.raises(InputError, match=rf"^{name}\[0\]: received \('ndcg', 0.3\); expected a rule: .*{example}"):
        gate(**{name: [("ndcg", 0.3)]})


def test_a_rule_reads_back_as_it_was() -> None:
    rule = Rule(metric="ndcg", by="region", not_worse_by="2.5 %", confidence=0.9)
    assert Rule.model_validate(rule.model_dump()) == rule
    assert (rule.limit, rule.relative, rule.rising) == (0.025, True, False)


PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "gate.md").read_text(encoding="utf-8")


def test_the_page_has_every_key_and_its_default() -> None:
    rows = re.findall(r"^\| (`[^|]*`) \|([^|]*)\|[^|]*\|$", PAGE, flags=re.MULTILINE)
    stated = {name.strip("`"): default.strip("` ") for names, default in rows for name in names.split(", ")}
    assert stated.keys() == Rule.model_fields.keys()
    for name, field in Rule.model_fields.items():
        if field.get_default() is not None and not field.is_required():
            assert tomllib.loads(f"value = {stated[name]}")["value"] == field.get_default(), name
