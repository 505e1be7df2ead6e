"""The table and the list of the page on features, from the registry and from ``alter``."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Final

from deltactl.operations.alter.drop import TURNED_OFF
from deltactl.protocol.features import (
    EVERYTHING,
    NO_RESTORE,
    NO_REWRITE,
    NOTHING,
    READ_ONLY,
    REGISTRY,
    Operation,
)

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = "docs/features.md"
_TABLE: Final = re.compile(r"(?<=\| feature \| refused \| why \|\n\|---\|---\|---\|\n)(?:\|.*\n)*")
_LIST: Final = re.compile(r"(?<=alter.md#drop-a-feature\) drops:\n)(?:.*`.*\n)*")
_REFUSED: Final = {
    NOTHING: "all",
    READ_ONLY: "all changes",
    NO_REWRITE: "`optimize`",
    NO_RESTORE: "`restore`, `alter`",
    EVERYTHING: "nothing",
}


def render_feature_table() -> str:
    """Return the page with a row for the features with the same reason, and those to drop."""
    names: dict[tuple[frozenset[Operation], str], list[str]] = {}
    for row in REGISTRY.values():
        if row.reason:
            names.setdefault((row.allows, row.reason), []).append(f"`{row.name}`")
    rows = "".join(
        f"| {', '.join(group)} | {_REFUSED[allows]} | {reason} |\n"
        for (allows, reason), group in names.items()
    )
    dropped = textwrap.fill(f"{', '.join(f'`{name}`' for name in sorted(TURNED_OFF))}.", 140)
    page = _LIST.sub(lambda _: f"{dropped}\n", (ROOT / PAGE).read_text("utf-8"))
    return _TABLE.sub(lambda _: rows, page)
