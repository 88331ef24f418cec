"""When two scores count as equal: by a rule, not by rounding.

The same score, computed in another block of users or on another processor, differs in its last bits, and a list must
not. So scores are tied where no gap wider than a tolerance lies between them, and of tied items the first in the
catalogue goes first: in lists, ranks, top-1 and greedy calibration alike.

The tolerance of a row is `TIE` times its largest absolute score: far above rounding (up to 4e-15 of it, training
included) and far below any difference that means something. Tied is whatever is linked by small gaps, so that two items
with the same vectors are tied whatever stands between them. What no rule can exclude is a gap as wide as the tolerance,
to rounding: docs/concepts/conventions.md has the odds.
"""

from __future__ import annotations

TIE = 1e-10
"""How wide a gap still ties two neighbouring scores, as a part of the row's largest absolute score."""
