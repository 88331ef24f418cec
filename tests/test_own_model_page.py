"""docs/guides/your-own-model.md is true: the lines of each section run, after the first ones."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from recaudit import runs

PAGE = (Path(__file__).parents[1] / "docs" / "guides" / "your-own-model.md").read_text(encoding="utf-8")
FIRST, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
CODE = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
NEEDED = {"scikit-learn": "sklearn", **{name: name.lower() for name in ("implicit", "Surprise", "LensKit", "Cornac")}}
NEEDED |= {"LightFM": "lightfm", "river": "river"}


@pytest.mark.parametrize("section", [each for each in SECTIONS if CODE.search(each)], ids=lambda text: text.split()[0])
def test_the_lines_of_a_section_run(section: str, capsys: pytest.CaptureFixture[str]) -> None:
    library = NEEDED.get(section.splitlines()[0])
    if library is not None:
        pytest.importorskip(library, reason="the section's library is not installed")
    held: dict[str, object] = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries' own
        for code in (*CODE.findall(FIRST), "import numpy as np", *CODE.findall(section)):
            exec(compile(code, "your-own-model.md", "exec"), held)
    assert capsys.readouterr().out.count("\n") > 2


def test_the_configuration_is_one(tmp_path: Path) -> None:
    (tmp_path / "plays.csv").write_text("user,item,rating\na,b,1\n", encoding="utf-8")
    (tmp_path / "mine.py").write_text("def model(data): ...", encoding="utf-8")
    [text] = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(runs.parse(text, source="page", folder=tmp_path).models) == 2
