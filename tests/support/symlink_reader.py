"""A reader of symlink manifests by the rules of Hive's SymlinkTextInputFormat, and nothing of ours.

Every file of a partition's folder counts unless its name begins with `_` or `.`; each line is the
path of a data file, taken as it is; partition values come from the folder's name alone.
"""

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

NULL = "__HIVE_DEFAULT_PARTITION__"


def unescape(text: str) -> str:
    """Hive's `unescapePathName`, of UTF-8 folders: `%XX` is one character."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def list_manifests(root: Path) -> dict[str, list[str]]:
    """The lines of each partition's manifests, by folder below the root."""
    found: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name[0] not in "_.":
            text = path.read_text("utf-8")
            assert text == "" or text.endswith("\n")
            lines = text.split("\n")[:-1]
            assert "" not in lines, "Hive fails on an empty line"
            folder = path.parent.relative_to(root).as_posix()
            found.setdefault("" if folder == "." else folder, []).extend(lines)
    return found


def read_manifests(table: Path) -> list[dict[str, Any]]:
    """The rows that an engine returns; partition values are texts."""
    rows: list[dict[str, Any]] = []
    for folder, lines in list_manifests(table / "_symlink_format_manifest").items():
        values: dict[str, str | None] = {}
        for part in folder.split("/") if folder else []:
            name, _, value = part.partition("=")
            values[unescape(name)] = None if value == NULL else unescape(value)
        for line in lines:
            scheme, _, path = line.partition(":")
            assert scheme == "file" and path.startswith("/"), line
            rows += [row | values for row in pq.ParquetFile(path).read().to_pylist()]
    return rows
