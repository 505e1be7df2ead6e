"""The table of packages in the page on the architecture, from the docstrings of the packages."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = "docs/architecture.md"
_TABLE: Final = re.compile(r"(?<=\| package \| content \|\n\|---\|---\|\n)(?:\|.*\n)*")


def render_package_map() -> str:
    """Return the page with a row for each package: the first line of its docstring."""
    rows = "".join(map(_render_row, sorted((ROOT / "deltactl").rglob("__init__.py"))))
    return _TABLE.sub(lambda _: rows, (ROOT / PAGE).read_text("utf-8"))


def _render_row(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    content = docstring.partition("\n")[0].rstrip(".").replace("``", "`")
    return f"| `{path.parent.relative_to(ROOT)}` | {content} |\n"
