"""What the paper prints (Steck 2018, "Calibrated Recommendations"), and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

METRICS = (("recall", 10), ("recall", 50), ("kl", 10), ("kl", 50))
TABLE_2: Mapping[float, tuple[str, str, str, str]] = MappingProxyType(
    {
        0.0: ("0.209", "0.464", "0.677", "0.185"),
        0.2: ("0.209", "0.464", "0.465", "0.171"),
        0.5: ("0.199", "0.464", "0.274", "0.141"),
        0.8: ("0.170", "0.463", "0.128", "0.092"),
        0.9: ("0.146", "0.460", "0.084", "0.061"),
        0.95: ("0.121", "0.453", "0.065", "0.037"),
        0.99: ("0.090", "0.417", "0.054", "0.009"),
        0.999: ("0.082", "0.339", "0.054", "0.005"),
    }
)
"""By lambda: recall@10, recall@50, C_KL@10, C_KL@50."""
ROUNDING = 0.0005
TEST_USERS = 50_000
"""How many test users these are means over, about: 100,000 plays were held out, and here the 5,753 plays of a split of
MovieLens 1M are of 2,899 users."""

TABLE_1 = ((0.6, 6, 4), (0.6, 7, 3), (0.6, 5, 5), (0.7, 7, 3), (0.7, 8, 2), (0.7, 6, 4), (0.7, 70, 30))
"""A target share of the first genre and a list's titles in each of the two, as far as the text names them."""
ONE_OFF = frozenset({(0.6, 7, 3), (0.6, 5, 5), (0.7, 8, 2), (0.7, 6, 4)})
"""Those for which the text says DP = 1 (Section 5.1)."""

OVER_REPRESENTED = ("Action", "Adventure", "Crime", "Mystery", "Sci-Fi")
"""Figure 3, Section 6: "mostly over-represented"."""
UNDER_REPRESENTED = ("Documentary", "IMAX", "Musical", "Western")
"""Figure 3, Section 6: "severely underrepresented"; the text that we have lacks what stood between the first two."""
NO_TEXT = "a plot: in no text that we have"
SIZES: Mapping[str, tuple[str, float]] = MappingProxyType(
    {"plays": ("10000000", 500_000), "films": ("21000", 500), "users": ("140000", 5_000)}
)
"""Section 6: "about 10 million plays", "about 21k movies and 140k users", and how exact that is."""
