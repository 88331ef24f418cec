"""Actions that take a few values, as stars do: exact, by listing all of them or by branch and bound."""

from recaudit.solvers.discrete.maximize import maximize_softmax_discrete

__all__ = ["maximize_softmax_discrete"]
