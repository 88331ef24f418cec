"""What the paper works out by hand or on small distributions: Sections 2, 3 and 5.1, and Table 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import binom

from recaudit.plugins import FloatArray, assign_blocks, calibration_hellinger, calibration_kl, generator
from recaudit_papers.studies.calibration.comparators import binomial_diversity, disproportionality
from recaudit_papers.studies.calibration.drawing import UserMeans, interval
from recaudit_papers.studies.calibration.plays import GENRE, plays


def metrics(targets: Sequence[float], counts: Sequence[Sequence[int]]) -> pl.DataFrame:
    """C_KL, Hellinger's distance, DP and BinomDiv of lists with `counts` titles in two genres, for each target.

    "binomdiv_beyond" has BinomDiv's tails without the count itself, P(X > n) in the place of P(X >= n): what the
    upper tail of most libraries gives at n.
    """
    p = np.array([[target, 1 - target] for target in targets])
    n = np.asarray(counts, dtype=np.int64)
    total = n.sum(axis=1)
    beyond = np.sqrt((binom.sf(n, total[:, None], p) / (1 - (1 - p) ** total[:, None])).prod(axis=1))
    return pl.DataFrame(
        {
            "target": targets,
            "first": n[:, 0],
            "second": n[:, 1],
            "kl": calibration_kl(p, n / total[:, None]),
            "hellinger": calibration_hellinger(p, n / total[:, None]),
            "dp": disproportionality(p, n.astype(np.float64)),
            "binomdiv": binomial_diversity(p, n, total),
            "binomdiv_beyond": beyond,
        }
    )


def titles(
    log: Mapping[str, Any], *, first: str = "Action", tenth: str = "Romance", shares: bool = False
) -> pl.DataFrame:
    """Section 2.2: how much more often the first title of a genre is played than the tenth, with intervals over users.

    "own": both of the genre `tenth`, as the paper's footnote has it; "other": the first of the genre `first` against
    the tenth of `tenth`, as its Equation 1 has it. With `shares` a film counts in a genre by its share of it, else
    whole. p(i|g) is the share of the plays of a genre that a film has.
    """
    data = plays(**log)
    genres = data.categories[GENRE]
    weights = genres.weights.toarray()
    of = {name: weights[:, genres.names.index(name)] for name in (first, tenth)}
    if not shares:
        of = {name: (share > 0).astype(np.float64) for name, share in of.items()}
    blocks = assign_blocks(data.n_users)
    found = []
    for each in [np.ones(data.n_users), *(blocks != block for block in range(int(blocks.max()) + 1))]:
        counts: FloatArray = np.asarray(data.csr.T @ each)
        p = {name: np.sort(counts * share)[::-1] / (counts * share).sum() for name, share in of.items()}
        found.append([p[tenth][0] / p[tenth][9], p[first][0] / p[tenth][9]])
    kept = np.array(found)
    rows = [{"which": which, **interval(kept[:, at], data.n_users)} for at, which in enumerate(("own", "other"))]
    return pl.DataFrame(rows).with_columns(users=pl.lit(data.n_users))


def sizes(log: Mapping[str, Any]) -> pl.DataFrame:
    """Section 6: how many plays, films and users are left."""
    data = plays(**log)
    counts = {"plays": len(data), "films": data.n_items, "users": data.n_users}
    return pl.DataFrame({"what": list(counts), "value": [float(count) for count in counts.values()]})


def two_steps(users: int, genres: int, titles_each: int, length: int, draws: int, seed: int) -> pl.DataFrame:
    """Section 2.3: people who pick a genre, then a title of it. Lists that are ranked by the true p(i|u) beside lists
    that are drawn the same way: how likely the next play is in the list, and C_KL.

    Interests are drawn evenly over all distributions of genres; p(i|g) of a genre's titles is as 1 / rank. "expected"
    is the mean of as many drawn lists: its C_KL is that of their genres together.
    """
    draw = generator(seed, "two steps")
    interests = draw.dirichlet(np.ones(genres), users)
    of_title = 1 / np.arange(1, titles_each + 1)
    p = (interests[:, :, None] * of_title / of_title.sum()).reshape(users, -1)
    # Titles drawn one after the other, none twice, are those with the largest log p + Gumbel noise.
    log_p = np.log(np.maximum(p, 1e-300))
    found = {
        "ranked": _listed(p, p, genres, length),
        "drawn": _listed(p, log_p + draw.gumbel(size=p.shape), genres, length),
    }
    others = [_listed(p, log_p + draw.gumbel(size=p.shape), genres, length) for _ in range(draws)]
    hits, genres_of = zip(*others, strict=True)
    found["expected"] = (np.mean(hits, axis=0), np.mean(genres_of, axis=0))
    means = UserMeans(users)
    for name, (hit, q) in found.items():
        for metric, values in (("hit", hit), ("kl", calibration_kl(interests, q))):
            means.add((name, metric), np.arange(users), values, np.ones(users))
    drawn = means.leave_blocks_out()
    for name, metric in [(name, metric) for name in ("drawn", "expected") for metric in ("hit", "kl")]:
        drawn[f"ranked less {name}", metric] = drawn["ranked", metric] - drawn[name, metric]
    rows = [{"lists": name, "metric": metric, **interval(each, users)} for (name, metric), each in drawn.items()]
    return pl.DataFrame(rows).with_columns(users=pl.lit(users))


def _listed(p: FloatArray, order: FloatArray, genres: int, length: int) -> tuple[FloatArray, FloatArray]:
    """Of the lists with the largest `order` (users, titles): how likely they have the next play, and their genres."""
    lists = np.argpartition(-order, length, axis=1)[:, :length]
    of_genre = lists // (p.shape[1] // genres)
    q = np.stack([(of_genre == genre).mean(axis=1) for genre in range(genres)], axis=1)
    return np.take_along_axis(p, lists, axis=1).sum(axis=1), q
