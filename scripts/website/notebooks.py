"""A notebook as a page: what it says, its code, and what the code gave when the notebook was last run."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

_PICTURES = ("image/svg+xml", "image/png", "image/jpeg")
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


def page(file: Path) -> str:
    """The notebook as Markdown, with a link to the notebook itself below its heading."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    cells = [_cell(cell) for cell in notebook["cells"]]
    heading, _, rest = cells[0].partition("\n")
    if not heading.startswith("# "):
        raise ValueError(f"{file}: the first cell must begin with a heading, '# ...'; it begins with {heading!r}.")
    link = f'<a class="notebook-link" href="{file.name}" download>Download this notebook</a>'
    return "\n\n".join([heading, link, rest.strip(), *cells[1:]]) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    text = _joined(cell["source"]).strip()
    if cell["cell_type"] == "markdown":
        return text
    if cell["cell_type"] != "code" or not text:
        return ""
    return "\n\n".join([_fence(text, "python"), *(_output(own) for own in cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _fence(_joined(output["text"]).rstrip(), "text")
    if output["output_type"] == "error":
        raise ValueError(f"A cell of the notebook has failed: {output['ename']}: {output['evalue']}")
    data = output["data"]
    for kind in _PICTURES:
        if kind in data:
            content = _joined(data[kind])
            packed = base64.b64encode(content.encode()).decode() if kind == _PICTURES[0] else "".join(content.split())
            return f'<img class="output" alt="" src="data:{kind};base64,{packed}">'
    if "text/html" in data:
        # Without empty lines, which would end the block.
        lines = [line for line in _joined(data["text/html"]).splitlines() if line.strip()]
        return "\n".join(['<div class="output">', *lines, "</div>"])
    if "text/markdown" in data:
        return _joined(data["text/markdown"])
    return _fence(_joined(data["text/plain"]), "text")


def _joined(text: str | list[str]) -> str:
    """A notebook writes a text as one, or as a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def _fence(text: str, language: str) -> str:
    return f"````{language}\n{_COLORS.sub('', text)}\n````"
