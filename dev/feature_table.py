"""The table of the page on features, from the registry of features."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

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
_REFUSED: Final = {
    NOTHING: "all",
    READ_ONLY: "all changes",
    NO_REWRITE: "`optimize`",
    NO_RESTORE: "`restore`, `alter`",
    EVERYTHING: "nothing",
}


def render_feature_table() -> str:
    """Return the page with a row for the features with the same reason."""
    names: dict[tuple[frozenset[Operation], str], list[str]] = {}
    for row in REGISTRY.values():
        if row.reason:
            names.setdefault((row.allows, row.reason), []).append(f"`{row.name}`")
    rows = "".join(
        f"| {', '.join(group)} | {_REFUSED[allows]} | {reason} |\n"
        for (allows, reason), group in names.items()
    )
    return _TABLE.sub(lambda _: rows, (ROOT / PAGE).read_text("utf-8"))
