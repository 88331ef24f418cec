"""Published numbers of paper 003 (RecLab), for the simulation page.

From the authors' public plots and logs: RMSE and nDCG@20 were measured on topics-static only and shown for
topics-dynamic too; mean ratings of topics-static are read off a plot, to 0.01.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from recaudit.simulate.offline.comparison import OfflineOnline
from recaudit.simulate.worlds.scenarios import SCENARIOS

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


def published_beside(result: OfflineOnline) -> dict[tuple[str, str], Mapping[str, float]]:
    """The published numbers of those environments of a study that are the paper's own, of whatever length."""
    own = {
        name
        for name, scenario in result.scenarios.items()
        if name in SCENARIOS and scenario.changed(steps=SCENARIOS[name].steps) == SCENARIOS[name]
    }
    return {key: numbers for key, numbers in PUBLISHED.items() if key[0] in own}
