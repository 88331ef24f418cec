"""Published numbers of paper 003 (RecLab), for the simulation page and for the study.

From the authors' public plots and logs: RMSE and nDCG@20 were measured on topics-static only and shown for
topics-dynamic too; mean ratings of topics-static are read off a plot, to 0.01.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from recaudit.simulate import SCENARIOS, OfflineOnline

_ENVIRONMENTS = ("topics-static", "topics-dynamic", "topics-dynamic-as-run")
_ROWS = (
    # recommender, RMSE, nDCG@20, mean rating in topics-dynamic, in topics-static
    ("Oracle", 0.459, 0.9893, 4.816, 4.86),
    ("Bayes MF", 0.716, 0.9745, 4.631, 4.80),
    ("SGD MF", 0.848, 0.9678, 4.519, 4.80),
    ("LLORMA", 1.267, 0.9007, 4.587, 4.75),
    ("CF-NADE", 1.270, 0.9020, 4.191, 4.80),
    ("AutoRec", 1.377, 0.8450, 4.357, 4.49),
    ("UserKNN", 1.386, 0.8471, 3.997, 4.23),
    ("ItemKNN", 1.387, 0.8497, 3.482, 3.41),
    ("TopPop", 1.393, 0.8324, 3.581, 2.97),
    ("EASE", 3.189, 0.8411, 3.210, 3.12),
    ("Random", 2.051, 0.8333, 2.996, 2.97),
)


PUBLISHED: Mapping[tuple[str, str], Mapping[str, float]] = MappingProxyType(
    {
        (environment, name): MappingProxyType({"ndcg": ndcg, "rmse": rmse, "mean_rating": rating})
        for name, rmse, ndcg, dynamic, static in _ROWS
        # What is published as topics-dynamic is what the code ran, which is not what the paper says.
        for environment, rating in zip(_ENVIRONMENTS, (static, dynamic, dynamic), strict=True)
    }
)
"""By environment and recommender: ndcg (at 20), rmse, mean_rating. `write_simulation(..., published=PUBLISHED)`."""


PRINTED: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        name: {"rmse": f"{rmse:.3f}", "ndcg": f"{ndcg:.4f}", "dynamic": f"{dynamic:.3f}", "static": f"{static:.2f}"}
        for name, rmse, ndcg, dynamic, static in _ROWS
    }
)
"""The same as they are printed, by recommender."""
READ_OFF = 0.01
"""How exactly the mean ratings of topics-static could be read off their plot."""
SPEARMAN: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"dynamic": {"ndcg": "0.827", "rmse": "-0.964"}, "static": {"ndcg": "0.952", "rmse": "-0.943"}}
)
"""Rank correlations with the mean rating that follow from the table."""
LATENT_MSE: Mapping[str, str] = MappingProxyType(
    {
        "Oracle": "0.240",
        "Bayes MF": "0.680",
        "UserKNN": "0.725",
        "CF-NADE": "0.778",
        "TopPop": "0.892",
        "Random": "3.429",
    }
)
"""Mean squared errors on the log of latent-static, from the authors' logs."""
LLORMA_ON_ALL = "0.948"
"""nDCG@20 of LLORMA trained on 100,000 instead of 80,000 ratings (Section 5.1)."""


def published_beside(result: OfflineOnline) -> dict[tuple[str, str], Mapping[str, float]]:
    """The published numbers of those environments of a study that are the paper's own, of whatever length."""
    own = {
        name
        for name, scenario in result.scenarios.items()
        if name in SCENARIOS and scenario.changed(steps=SCENARIOS[name].steps) == SCENARIOS[name]
    }
    return {key: numbers for key, numbers in PUBLISHED.items() if key[0] in own}
