"""What the paper prints: "A Unified Causal Framework for Auditing Recommender Systems for Ethical Concerns"."""

from __future__ import annotations

from recaudit_papers.studies.reading import Published

PAPER = "A unified causal framework for auditing recommender systems for ethical concerns"

BETAS = (0.8, 5.0)
"""The two that its plots compare (Section 6.1); which one Tables II and III and Figures 2 and 3 have is not said."""
CURVE = (0.2, 0.5, 0.8, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
"""From the first to the last beta of Figure 5a; its steps are not printed."""
HORIZONS = (1, 2, 3, 4, 5)

DATASET = {
    "Users": Published.number("6040"),
    "Items": Published.number("3706"),
    "Ratings": Published.number("1000209"),
    "Density (%)": Published.number("4.47"),
}
"""Table I."""

POPULAR = Published.interval("1.3735", 1.0500, 1.6971)
"""Table II: mean lift of popular items, future reachability."""
INTERMEDIATE_ITEMS = Published.interval("1.1846", 1.1361, 1.2330)
ACTIVE = Published.interval("0.2962", 0.2395, 0.3527)
"""Table III: mean future instability with active adversaries."""
INTERMEDIATE_EDITORS = Published.interval("0.1938", 0.1549, 0.2327)
