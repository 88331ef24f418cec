"""Run the notebooks of docs/notebooks, each in a fresh kernel, and write them with their outputs.

make notebooks, or: python scripts/notebooks.py OUT [NAME ...]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"
_SECONDS = 300
"""For one cell."""


def read(path: Path, parameters: Mapping[str, object] | None = None) -> NotebookNode:
    """A notebook; `parameters` replace those of its cell with the tag `parameters`, by name."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    for name, value in (parameters or {}).items():
        [cell] = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
        cell.source, replaced = re.subn(rf"^({name}) = [^#\n]*", rf"\1 = {value!r}  ", cell.source, flags=re.MULTILINE)
        if not replaced:
            raise SystemExit(f"{path.name}: its parameters have no line {name} = ...")
    return notebook


def execute(notebook: NotebookNode, **kernel: Any) -> NotebookNode:
    """The notebook with its outputs, in a kernel of its own unless one is given; a cell that raises stops it."""
    NotebookClient(notebook, timeout=_SECONDS, kernel_name="python3", **kernel).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when cells were run: another file each time
        if cell.cell_type == "code":  # a line of progress leaves an empty output behind
            cell.outputs = [own for own in cell.outputs if "data" not in own or any(own.data.values())]
    return notebook


def main(out: Path, names: list[str]) -> None:
    """Write the executed notebooks to `out`."""
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not names or path.stem in names:
            nbformat.write(execute(read(path)), out / path.name)
            print(out / path.name)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2:])
