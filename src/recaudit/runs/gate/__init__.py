"""A gate: rules about the numbers of a run, and whether it keeps to them."""

from recaudit.runs.gate.decision import Decision, check
from recaudit.runs.gate.judging import Answer, GateQuestion
from recaudit.runs.gate.rules import Gate, Rule, parse_gate, read_gate

__all__ = ["Answer", "Decision", "Gate", "GateQuestion", "Rule", "check", "parse_gate", "read_gate"]
