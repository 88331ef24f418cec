"""The page speaks of what is on it: an unfinished run says so, and no diamond is named that is not drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from recaudit import report
from report.crafted_runs import Model, accuracy, groups, write_run
from report.test_page import Page


class TestInterrupted:
    MODELS = (
        Model("Best", [accuracy(0.3)], skipped={"exposure": "no lists"}),
        Model("Second", [accuracy(0.2)]),
        Model("Third", []),
        Model("Fourth", []),
    )

    def test_a_banner_names_what_is_missing_and_how_to_go_on(self, tmp_path: Path) -> None:
        run = write_run(tmp_path / "my run", self.MODELS, audits=("accuracy", "exposure"))
        text = Page(report.render(run)).text
        assert "This run is not finished." in text
        assert "Still to come: accuracy of Third and Fourth; exposure of Second, Third and Fourth." in text
        assert "recaudit audit CONFIG --out 'my run'" in text

    def test_rankings_count_what_was_measured(self, tmp_path: Path) -> None:
        run = write_run(tmp_path, self.MODELS, audits=("accuracy", "exposure"))
        assert report.headlines(run)[0].meaning == "nDCG@10 of Best, the best of 2 models that personalise."
        assert "the best at ranking of the 2 measured that personalise" in Page(report.render(run)).text

    def test_one_measured_model_is_the_best_of_nothing(self, tmp_path: Path) -> None:
        run = write_run(tmp_path, [self.MODELS[0], *self.MODELS[2:]], audits=("accuracy",))
        assert report.headlines(run)[0].meaning == "nDCG@10 of Best."
        assert "the best at ranking" not in Page(report.render(run)).text

    def test_a_model_that_nobody_measured_is_not_called_the_best(self, tmp_path: Path) -> None:
        run = write_run(tmp_path, self.MODELS[2:], audits=("accuracy",))
        assert "the best at ranking" not in Page(report.render(run)).text

    @pytest.mark.parametrize("audits", [("accuracy",), ()])
    def test_a_whole_run_has_no_banner(self, tmp_path: Path, audits: tuple[str, ...]) -> None:
        run = write_run(tmp_path, self.MODELS[:2], audits=audits)
        assert "not finished" not in report.render(run)


class TestTheDiamond:
    PEOPLE = groups("history", "ndcg", {"1: 1-9 ratings": (0.1, 0.05, 0.15), "2: 10-90 ratings": (0.4, 0.3, 0.5)})

    def test_it_is_spoken_of_where_it_is_drawn(self, tmp_path: Path) -> None:
        models = [Model("A", [accuracy(0.3, by=[self.PEOPLE])]), Model("Hits", [accuracy(by=[self.PEOPLE])], "top-pop")]
        text = Page(report.render(write_run(tmp_path, models))).text
        assert "right of the diamond, personalising adds something; left of it, it costs something" in text

    @pytest.mark.parametrize("rival", [[], [Model("Hits", [accuracy()], "top-pop")]], ids=["none", "without groups"])
    def test_without_a_reference_there_is_none(self, tmp_path: Path, rival: list[Model]) -> None:
        run = write_run(tmp_path, [Model("A", [accuracy(0.3, by=[self.PEOPLE])]), *rival])
        html = report.render(run)
        assert "diamond" not in Page(html).text
        assert 'class="key rival"' not in html
        assert 'class="key other"' not in html
