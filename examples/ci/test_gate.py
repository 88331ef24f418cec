"""The gate as a test of your own: `RUN=runs/new BASELINE=runs/baseline pytest test_gate.py`."""

from __future__ import annotations

import os
from pathlib import Path

import recaudit as ra


def test_the_release_passes_every_rule() -> None:
    rules = Path(__file__).with_name("gate.toml")
    decision = ra.check(os.environ["RUN"], rules, baseline=os.environ.get("BASELINE"))
    assert decision.passed, decision


def test_no_region_gets_much_less() -> None:
    gate = ra.Gate(rule=(ra.Rule(metric="ndcg", by="region", not_worse_by="25%", people=50),))
    decision = ra.check(os.environ["RUN"], gate, baseline=os.environ.get("BASELINE"))
    assert decision.passed, decision
