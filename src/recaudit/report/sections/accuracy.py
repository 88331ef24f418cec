"""Does it work, and whom does it fail: models against each other, and group by group of users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.kit.claims import Caution, Claim, ClaimNumber, Finding
from recaudit.report.kit.comparisons import by_group, figures_by_model, overview
from recaudit.report.kit.measures import measure
from recaudit.report.kit.notes import memory_of
from recaudit.report.kit.numbers import ordinal, plural, some, verb
from recaudit.report.sections.groups import as_estimate, group_findings, popularity_number
from recaudit.report.sections.section import Section
from recaudit.report.significance import ModelTest, compare_popularity, find_model_test


def compare_with_baseline(evidence: Evidence) -> Iterator[Claim]:
    """Compare each personalised model with the best baseline."""
    rival = evidence.rival
    if rival is None:
        return
    found = (find_model_test(evidence, model, rival, QUALITY) for model in evidence.personalised)
    tests = [test for test in found if test is not None]
    if not tests:
        return
    above, below = [test for test in tests if test.is_above], [test for test in tests if test.is_below]
    not_shown = [test for test in tests if not test.is_significant]
    basis = f"{rival} reaches {evidence.label(QUALITY)} {evidence.known(QUALITY)[rival].full}. "
    basis += "Difference on the same users: "
    users = (
        f"These are the {plural(max(test.difference.users for test in tests), 'user')} with relevant held-out items."
    )
    for some_tests, code, way in (
        (above, "accuracy.above-baseline", "better"),
        (below, "accuracy.below-baseline", "worse"),
    ):
        if not some_tests:
            continue
        models = [test.model for test in some_tests]
        advice = (
            f"Keep {rival} in every run as the baseline to exceed."
            if way == "better"
            else f"For these users as a whole, {rival} ranks better. Check under People whether this holds for groups."
        )
        yield Finding(
            code,
            f"{some(models)} {verb(models, 'ranks', 'rank')} {way} than {rival}",
            f"{basis}{_each(some_tests)}. {users}",
            "accuracy",
            evidence.size(*(test.difference for test in some_tests)),
            measure(evidence, models[0], QUALITY),
            advice,
            premise=evidence.main in models,
            numbers=tuple(test.number for test in some_tests),
        )
    if not_shown:
        models = [test.model for test in not_shown]
        claim = f"It is not shown that {some(models)} {verb(models, 'ranks', 'rank')} better or worse than {rival}"
        yield Caution(
            "accuracy.not-shown-to-differ-from-baseline",
            claim,
            f"{basis}{_each(not_shown)}. {users}{_detectable(not_shown)}",
            "accuracy",
            premise=evidence.main in models,
            numbers=tuple(test.number for test in not_shown),
        )


def _detectable(tests: list[ModelTest]) -> str:
    """The difference that a comparison of so many users finds as a rule."""
    known = [test.detectable for test in tests if test.detectable is not None]
    written = tests[0].difference.metric.written
    return f" A true difference of {written(max(known))} is found in 80% of such samples." if known else ""


def memorised(evidence: Evidence) -> Iterator[Claim]:
    """Cautions about models that have used held-out interactions."""
    for model in evidence.models:
        if text := memory_of(evidence, model) if "accuracy" in evidence.run.audits(model) else "":
            yield Caution(
                "accuracy.used-held-out-interactions",
                f"{model} has probably used held-out interactions",
                text,
                "accuracy",
                premise=model == evidence.main,
                numbers=(ClaimNumber(audit="accuracy", model=model),),
            )


def compare_models_by_ranking(evidence: Evidence) -> Iterator[Claim]:
    """Compare the best ranking model with each other model that personalises."""
    first, *others = evidence.contestants or [""]
    found = (find_model_test(evidence, first, other, QUALITY) for other in others)
    tests = [test for test in found if test is not None and test.is_above]
    if tests:
        yield Finding(
            "accuracy.above-other-model",
            f"{first} ranks better than {some([test.other for test in tests])}",
            f"{first} has {evidence.label(QUALITY)} {evidence.known(QUALITY)[first].full}. Its difference on the same "
            f"users: {_each(tests, others=True)}.",
            "accuracy",
            evidence.size(*(test.difference for test in tests)),
            measure(evidence, first, QUALITY),
            "Of models that are not shown to differ, the other sections may decide.",
            numbers=tuple(test.number for test in tests),
        )


def compare_two_orders(evidence: Evidence) -> Iterator[Claim]:
    """Find out whether the model with the lowest rating error ranks worse than the best ranking one."""
    error, quality = evidence.known("rmse"), evidence.known(QUALITY)
    by_error = [model for model in evidence.ranked("rmse") if model in quality]
    by_ranking = evidence.ranked(QUALITY)
    if len(by_error) < 2 or by_error[0] == by_ranking[0]:
        return
    predicts, ranks = by_error[0], by_ranking[0]
    quality_test = find_model_test(evidence, ranks, predicts, QUALITY)
    error_test = find_model_test(evidence, predicts, ranks, "rmse")
    if quality_test is None or not quality_test.is_above:
        return
    if ranks in error and (error_test is None or not error_test.is_below):
        return
    other = f"RMSE {error[ranks].full}" if ranks in error else "which predicts no ratings"
    detail = f"{predicts} has the lowest RMSE, {error[predicts].full}, but comes "
    detail += f"{ordinal(by_ranking.index(predicts) + 1)} of {len(by_ranking)} by {evidence.label(QUALITY)}: "
    detail += f"{quality[predicts].full}, against {quality[ranks].full} for {ranks} ({other})."
    tests = [quality_test, *([error_test] if ranks in error and error_test is not None else [])]
    yield Finding(
        "accuracy.rating-error-and-ranking-disagree",
        "The best model at predicting ratings is not the best at ranking",
        detail,
        "accuracy",
        evidence.size(quality_test.difference),
        measure(evidence, predicts, QUALITY),
        "Where users are shown lists, choose by how models rank: a low rating error does not imply it.",
        numbers=tuple(test.number for test in tests),
    )


def _each(tests: list[ModelTest], *, others: bool = False) -> str:
    return some([f"{f'to {test.other}' if others else test.model} {test.difference.signed}" for test in tests])


def compare_groups_by_ranking(evidence: Evidence) -> Iterator[Claim]:
    """Name the groups of users for whom the main model ranks differently than for all others."""
    advice = "Audit other models, or a model trained for {}, by the same groups."
    yield from group_findings(
        evidence,
        evidence.main,
        QUALITY,
        "accuracy.group-differs",
        "people",
        advice,
    )


def compare_rare_items(evidence: Evidence) -> Iterator[Claim]:
    """Find out whether rare held-out items are found less often than popular ones."""
    groups = evidence.groups(evidence.main, "recall", "popularity")
    difference = compare_popularity(evidence, "accuracy", evidence.main)
    if len(groups) < 2 or difference is None or difference.p is None or difference.value <= 0:
        return
    least, most = groups[0], groups[-1]
    own = as_estimate(evidence, "recall", difference)
    yield Finding(
        "accuracy.rare-items-found-less",
        f"{evidence.main} finds {least.things} less often than {most.things}",
        f"{evidence.label('recall')}: {least.estimate.full} against {most.estimate.full}. Difference on the same "
        f"users: {own.signed}.",
        "accuracy",
        evidence.size(own),
        measure(evidence, evidence.main, "recall", least, most),
        f"If {least.things} are to be found, reduce the weight of popularity in training or re-rank, and compare "
        "recall by popularity again.",
        numbers=(popularity_number("accuracy", "recall", evidence.main, least.name, difference),),
    )


def compare_groups_by_popularity(evidence: Evidence) -> Iterator[Claim]:
    """Name the groups of users whose lists are more, or less, popular against their own choices than all others'."""
    yield from group_findings(
        evidence,
        evidence.main,
        "popularity_lift",
        "exposure.group-differs",
        "people",
        "Re-rank the lists of {} towards what they chose themselves, and compare the same groups again.",
    )


@final
class AccuracySection(Section):
    """How well each model predicts held-out ratings, and how well its lists find held-out items."""

    audits = ("accuracy",)
    anchor, title, template, place = "accuracy", "Accuracy", "accuracy.html.j2", 10
    questions = (memorised, compare_with_baseline, compare_two_orders, compare_models_by_ranking)

    def content(self) -> dict[str, Any] | None:
        """Numbers by model, and which items are found."""
        if not self.evidence.metrics("accuracy"):
            return None
        return {
            "overview": overview(self.evidence, "accuracy", everybody=True, marked=True),
            "figures": figures_by_model(self.evidence, "accuracy"),
            "found_items": by_group(self.evidence, "recall", self.evidence.item_groupings),
        }


@final
class PeopleSection(Section):
    """Who is served how well, and whose lists are pulled towards the popular."""

    audits = ("accuracy", "exposure")
    anchor, title, template, place = "people", "People", "people.html.j2", 20
    questions = (compare_groups_by_ranking, compare_rare_items, compare_groups_by_popularity)

    def content(self) -> dict[str, Any] | None:
        """A part for each metric that is known by group of users."""
        groupings = self.evidence.user_groupings
        parts = [by_group(self.evidence, metric, groupings) for metric in (QUALITY, "popularity_lift")]
        return {"parts": [part for part in parts if part], "quality": QUALITY} if any(parts) else None
