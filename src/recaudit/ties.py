"""When two scores count as equal: by a rule, not by rounding.

The same score, computed in another block of users or on another processor, differs in its last bits, and a list must
not. So scores are tied where no gap wider than a tolerance lies between them, and of tied items the first in the
catalogue goes first: in lists, ranks, top-1 and greedy calibration alike.

The tolerance of a row is `TIE` times its largest absolute score: far above rounding (about 1e-15 for a score, 1e-13
after training) and far below any difference that means something. Tied is whatever is linked by small gaps, so that two
items with the same vectors are tied whatever stands between them. What no rule can exclude is a gap as wide as the
tolerance, to rounding: with n items whose scores spread over their own size, about 2 n rounding / 1 for each
neighbouring pair, one in 10^9 for a list of ten out of thousands.
"""

from __future__ import annotations

TIE = 1e-10
"""How wide a gap still ties two neighbouring scores, as a part of the row's largest absolute score."""
