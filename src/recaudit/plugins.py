"""Names for authors of plug-ins: what recaudit's own parts are built with, and other packages may use.

[An audit of your own](https://recaudit.github.io/recaudit/contributing/plug-in/) shows how a plug-in is made. The base
classes are where their parts are: `recaudit.audits`, `recaudit.models`, `recaudit.policies`, `recaudit.simulate`,
`recaudit.report`; contract tests are in `recaudit.testing`. This module has what is needed besides:

- arrays and seeds: `FloatArray`, `derive`, `generator`, `uniforms`, ...;
- selection of users, items and candidate items by count or id: `resolve_users`, `resolve_items`, `candidate_items`;
- work in blocks, on any engine: `blocks`, `parallel_njit`, ...;
- checks that every recommender makes: `check_data`, `check_device`, `check_fit`, ...;
- settings, from Python and from TOML: `Specification`, `as_data`, `read_toml`, ...;
- formulas and estimates with confidence intervals: `calibration_kl`, `estimate_mean`, `estimate_difference`, ...;
- differences between two results of one audit: `result_differences`, ...;
- the closed loop of simulations, step by step: `Loop`, `run_trial`, `choose_slates`, ....
"""

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.calibration.calibrator import Calibrator
from recaudit.audits.calibration.measures import hellinger as calibration_hellinger
from recaudit.audits.calibration.measures import kl as calibration_kl
from recaudit.audits.calibration.reranking import knee as find_knee
from recaudit.audits.folding.metric import overshoot as folding_overshoot
from recaudit.audits.folding.tradeoff import spearman as rank_correlation
from recaudit.audits.lists.accuracy import rated_ndcg
from recaudit.audits.reachability.search import search_distance
from recaudit.audits.samples import Baseline, Candidates, candidate_items, resolve_items, resolve_users
from recaudit.data.datasets.dataset import data_folder
from recaudit.data.growth import blank as empty_interactions
from recaudit.data.growth import grown as add_ratings
from recaudit.engines.base import blocks, check_written, far_ahead
from recaudit.engines.parallel import parallel_njit
from recaudit.metrics.inference import (
    PairedDifference,
    SampleEstimate,
    assign_blocks,
    compute_jackknife_error,
    estimate_difference,
    estimate_mean,
    estimate_mean_of_refits,
    estimate_statistic,
)
from recaudit.metrics.intervals import Ratio, estimate_ratio
from recaudit.metrics.tables import SUMMARY_SCHEMA
from recaudit.models.checks import check_actions, check_data, check_device, check_fit, check_own_model
from recaudit.runs.changes import differing as setting_differences
from recaudit.runs.comparison import compared_by as comparable_tables
from recaudit.runs.comparison import decide as decide_differences
from recaudit.runs.comparison import differences as result_differences
from recaudit.runs.toml_files import parse_toml, read_toml
from recaudit.seeding import Keys, derive, generator, keys_of, uniforms
from recaudit.simulate.loop.run import as_scenario
from recaudit.simulate.loop.trial import Loop, run_trial
from recaudit.simulate.loop.trial import predictions as clip_predictions
from recaudit.simulate.loop.trial import slates as choose_slates
from recaudit.solvers.lists.objective import SMOOTHING as CALIBRATION_SMOOTHING
from recaudit.solvers.lists.objective import list_distribution
from recaudit.specification import Number, Place, Specification, as_data
from recaudit.specification import mistake as setting_error
from recaudit.specification import moved as move_error
from recaudit.specification import together as join_errors
from recaudit.status import Status

__all__ = [
    "CALIBRATION_SMOOTHING",
    "SUMMARY_SCHEMA",
    "Baseline",
    "BoolArray",
    "Calibrator",
    "Candidates",
    "FloatArray",
    "IntArray",
    "Keys",
    "Loop",
    "Number",
    "PairedDifference",
    "Place",
    "Ratio",
    "SampleEstimate",
    "Specification",
    "Status",
    "add_ratings",
    "as_data",
    "as_scenario",
    "assign_blocks",
    "blocks",
    "calibration_hellinger",
    "calibration_kl",
    "candidate_items",
    "check_actions",
    "check_data",
    "check_device",
    "check_fit",
    "check_own_model",
    "check_written",
    "choose_slates",
    "clip_predictions",
    "comparable_tables",
    "compute_jackknife_error",
    "data_folder",
    "decide_differences",
    "derive",
    "empty_interactions",
    "estimate_difference",
    "estimate_mean",
    "estimate_mean_of_refits",
    "estimate_ratio",
    "estimate_statistic",
    "far_ahead",
    "find_knee",
    "folding_overshoot",
    "generator",
    "join_errors",
    "keys_of",
    "list_distribution",
    "move_error",
    "parallel_njit",
    "parse_toml",
    "rank_correlation",
    "rated_ndcg",
    "read_toml",
    "resolve_items",
    "resolve_users",
    "result_differences",
    "run_trial",
    "search_distance",
    "setting_differences",
    "setting_error",
    "uniforms",
]
