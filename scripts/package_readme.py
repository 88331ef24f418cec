"""README.md as the package's page shows it: links into the repository at the released version, where it has paths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/recaudit/recaudit"


class PackageReadme(MetadataHookInterface):
    """Found by hatchling, by its base class."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the text to the package's metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, f"v{metadata['version']}")}


def absolute(text: str, at: str) -> str:
    """Every link and picture that is a path, as an address at this tag."""

    def found(link: re.Match[str]) -> str:
        return f"{link[1]}({REPOSITORY}/{'raw' if link[1].startswith('!') else 'blob'}/{at}/{link[2]})"

    return re.sub(r"(!?\[[^\]]*\])\((?!https?:|#|mailto:)([^)\s]+)\)", found, text)
