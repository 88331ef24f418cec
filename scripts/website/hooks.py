"""What the build adds to the pages of docs/: the Python reference, notebooks, figures, and the demo's own pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify
from website import api, figures, notebooks, results

ROOT = Path(__file__).parents[2]
SOURCE = "https://github.com/recaudit/recaudit/blob/main"
DEMO = ROOT / "runs" / "demo"
EXECUTED = ROOT / "runs" / "notebooks"
"""The notebooks of docs/ with what their code gave."""
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Headings have the anchors that they have on GitHub; patterns of the navigation become their pages."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    named = sorted(Path(config.docs_dir).glob("notebooks/*.ipynb"))
    if not named:
        raise PluginError("docs/notebooks has no notebook, and the navigation of mkdocs.yml names them.")
    patterns = {
        "notebooks/*.ipynb": [f"notebooks/{file.stem}.md" for file in named],
        "reference/api/*.md": [f"reference/api/{name}.md" for name in api.PAGES],
        "papers/results/*.md": [f"papers/results/{name}.md" for name in results.NAMES],
    }
    config.nav = _filled(config.nav, patterns)
    return config


def _filled(nav: Any, patterns: dict[str, list[str]]) -> Any:
    if isinstance(nav, dict):
        return {title: _filled(own, patterns) for title, own in nav.items()}
    if isinstance(nav, list):
        return [inner for own in nav for inner in patterns.get(str(own), [_filled(own, patterns)])]
    return patterns.get(nav, nav)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages and pictures that are made, beside those that are written."""
    for name, text in api.pages().items():
        files.append(File.generated(config, f"reference/api/{name}.md", content=text))
    for name, text in results.pages().items():
        files.append(File.generated(config, f"papers/results/{name}.md", content=text))
    for file in sorted(Path(config.docs_dir).glob("notebooks/*.ipynb")):
        files.append(File.generated(config, f"notebooks/{file.stem}.md", content=notebooks.page(EXECUTED / file.name)))
    for name in ("report.html", "explore.html"):
        files.append(File.generated(config, f"demo/{name}", abs_src_path=str(DEMO / name)))
    for picture in figures.made(DEMO, ROOT / "runs" / "figures"):
        files.append(File.generated(config, f"figures/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """A link to a notebook leads to its page, and one to a file outside docs/ to the repository."""
    folder = Path(config.docs_dir, page.file.src_uri).parent

    def led(found: re.Match[str]) -> str:
        before, target, anchor, after = found.groups(default="")
        if ":" in target:
            return found[0]
        there = (folder / target).resolve()
        if there.suffix == ".ipynb":
            return f"{before}{target.removesuffix('.ipynb')}.md{anchor}{after}"
        if there.exists() and ROOT in there.parents and Path(config.docs_dir) not in (there, *there.parents):
            return f"{before}{SOURCE}/{there.relative_to(ROOT).as_posix()}{anchor}{after}"
        return found[0]

    return _LINK.sub(led, markdown)
