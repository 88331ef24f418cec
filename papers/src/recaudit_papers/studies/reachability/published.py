"""What the paper prints, and what its figures are drawn from.

The numbers of Figure 17, and the settings of the models, are from the authors' public repository
(modestyachts/stochastic-rec-reachability: icml2021/results/correlations_table.csv, models/best_params.json and
utils/environment.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

LIBFM: Mapping[str, Any] = MappingProxyType(
    {
        "kind": "libfm",
        "factors": 64,
        "epochs": 128,
        "learning_rate": 0.011222222222222224,
        "regularization": 0.06812920690579612,
        "init_std": 1.0,
    }
)
"""The authors' model of MovieLens 1M; that its vectors start with standard deviation 1 stands in their code alone."""
LIBFM_LASTFM = {**LIBFM, "learning_rate": 0.04777777777777778, "regularization": 0.2277777777777778}
LIBFM_MIND = {**LIBFM, "learning_rate": 0.09, "regularization": 0.03727593720314938}
KNN: Mapping[str, Any] = MappingProxyType(
    {
        "kind": "knn",
        "neighbours": 99,
        "shrinkage": 22.22222222222222,
        "center": "item",
        "damping": 0.0,
        "compared": "ratings",
    }
)
"""RecLab's item neighbours: raw ratings are compared, item means taken off, and an item is one of its own 100."""

TABLE_1 = MappingProxyType(
    {
        "ml-1m": ("6040", "3706", "1000209"),
        "lastfm": ("13698", "20109", "178388"),
        "mind": ("50000", "247", "670773"),
    }
)
"""Users, items, ratings."""
ERRORS = MappingProxyType(
    {
        ("ml-1m", "libfm"): "0.716",
        ("ml-1m", "knn"): "0.756",
        ("lastfm", "libfm"): "1.122",
        ("lastfm", "knn"): "1.868",
        ("mind", "libfm"): "0.318",
    }
)
"""Table 1: printed as RMSE."""
SECONDS = MappingProxyType(
    {
        ("ml-1m", "libfm", 5): 0.82,
        ("ml-1m", "libfm", 10): 0.87,
        ("ml-1m", "libfm", 20): 0.91,
        ("ml-1m", "knn", 5): 9.8,
        ("ml-1m", "knn", 10): 10.2,
        ("ml-1m", "knn", 20): 11.4,
        ("lastfm", "libfm", 10): 4.91,
        ("mind", "libfm", 10): 0.44,
    }
)
"""Table 3: a pair, by MOSEK."""
TABLE_4 = MappingProxyType(
    {
        ("ml-1m", "libfm"): ("0.346280", "0.827492", "0.501316"),
        ("ml-1m", "knn"): ("0.346280", "0.949581", "0.942986"),
        ("mind", "libfm"): ("0.863992", "0.825251", "0.435212"),
        ("lastfm", "libfm"): ("0.133318", "0.671101", "0.145949"),
    }
)
"""Spearman's correlation of popularity with prevalence, baseline and best availability: Next-10, beta 2."""
TABLE_5 = MappingProxyType(
    {
        ("ml-1m", "libfm"): ("0.475777", "0.530359"),
        ("ml-1m", "knn"): ("0.206556", "-0.031929"),
        ("mind", "libfm"): ("0.050961", "0.112558"),
        ("lastfm", "libfm"): ("-0.084130", "-0.089226"),
    }
)
"""Of experience with baseline and best discovery."""
SECTION_5_3 = MappingProxyType({"baseline": "0.87", "best": "0.57"})
"""The correlations of LibFM on MovieLens 1M in the text, which are not those of Table 4."""
FIGURE_17 = MappingProxyType(
    {
        ("libfm", "next", 5): ("0.824", "0.622"),
        ("libfm", "next", 10): ("0.827", "0.501"),
        ("libfm", "next", 20): ("0.830", "0.307"),
        ("libfm", "future", 5): ("0.878", "0.676"),
        ("libfm", "future", 10): ("0.871", "0.568"),
        ("libfm", "future", 20): ("0.872", "0.409"),
        ("libfm", "history", 5): ("0.882", "0.691"),
        ("libfm", "history", 10): ("0.882", "0.556"),
        ("libfm", "history", 20): ("0.882", "0.401"),
        ("knn", "next", 5): ("0.957", "0.954"),
        ("knn", "next", 10): ("0.950", "0.943"),
        ("knn", "next", 20): ("0.935", "0.916"),
        ("knn", "future", 5): ("0.960", "0.834"),
        ("knn", "future", 10): ("0.962", "0.738"),
        ("knn", "future", 20): ("0.967", "0.619"),
        ("knn", "history", 5): ("0.774", "0.707"),
        ("knn", "history", 10): ("0.731", "0.603"),
        ("knn", "history", 20): ("0.747", "0.558"),
    }
)
"""Of popularity with baseline and best availability at beta 2, by model, action space and its size."""
