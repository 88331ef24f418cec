"""The papers' tables, to put ours beside theirs."""
