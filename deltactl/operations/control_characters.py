"""Paths with ASCII control characters: delta-rs refuses them, and reads no row of such a table."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.units import format_count

_CONTROL: Final = r"[\x00-\x1f\x7f]"  # its library for stores takes no others in a path part


def find_controls(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the decoded paths with such characters."""
    return paths.filter(pc.match_substring_regex(paths, _CONTROL))


def explain_controls(count: int, example: str) -> str:
    """Return the note about such files of a table."""
    files = format_count(count, "file has", "files have")
    return (
        f"delta-rs cannot read the table: {files} control characters in the path, such as "
        f"{example!r}. Rename files only before they are in the log. Later, `deltactl optimize "
        "--zorder-by COLUMNS` writes all rows to new files"
    )
