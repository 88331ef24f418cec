"""Actions that take a few values, as stars do: exact, by listing all of them or by branch and bound."""
