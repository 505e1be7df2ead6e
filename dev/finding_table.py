"""The table of findings in the page on check, from the registry of codes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from deltactl.codes import load_findings

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = "docs/check.md"
_TABLE: Final = re.compile(r"(?<=\| code \| condition \|\n\|---\|---\|\n)(?:\|.*\n)*")

_WARNING: Final = " (warning)"


def render_finding_table() -> str:
    """Return the page with a row for each code of a finding."""
    rows = "".join(
        f"| `{it.name}` | {it.meaning}{_WARNING if it.severity == 'warning' else ''} |\n"
        for it in load_findings().values()
    )
    return _TABLE.sub(lambda _: rows, (ROOT / PAGE).read_text("utf-8"))
