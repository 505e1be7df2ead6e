"""Names that a vacuum may look at: hidden ones, files of a known kind, other tables' folders.

Source: Delta's rule for hidden names, applied to every part of a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.protocol.actions import Metadata
from deltactl.protocol.properties import TableProperties

CHANGE_DATA_DIR: Final = "_change_data"

_EXEMPT: Final = ("_delta_index", CHANGE_DATA_DIR)
_UNIFORM_DIR: Final = "metadata"
_VECTOR: Final = r"(?:^|/)deletion_vector_[^/]*\.bin$"
_CHANGE_DATA: Final = rf"(?:^|/){CHANGE_DATA_DIR}/"
_KNOWN: Final = rf"(?i:\.parquet)$|{_VECTOR}"
# (?s): a folder's name may hold a line end.
_FOREIGN_FOLDER: Final = r"(?s)^(?:(?P<root>.*)/)?(?:_delta_log|\.hoodie)(?:/|$)"
_ICEBERG_FILE: Final = (
    r"(?s)^(?:(?P<root>.*)/)?metadata/[^/]*(?:\.metadata\.json|version-hint\.text)$"
)
# Where folders of that name are hidden nobody has looked into them, and the table's own is on top.
_HIDDEN_ICEBERG: Final = rf"(?s)^(?P<root>.*)/{_UNIFORM_DIR}(?:/|$)"


class HiddenRule:
    """Which names a vacuum of one table never lists and never deletes.

    A part of a name hides it when it begins with ``.`` or ``_``, but for ``_delta_index*``,
    ``_change_data*`` and ``<partition column>=*``; so does ``metadata`` where Iceberg readers of
    the table keep theirs there.
    """

    def __init__(self, metadata: Metadata) -> None:
        """Take the rule's exemptions from the table."""
        exempt = (*_EXEMPT, *(f"{name}=" for name in metadata.partition_columns))
        formats = TableProperties(metadata.configuration).text(
            "delta.universalFormat.enabledFormats"
        )
        self._exempt = tuple(name for name in exempt if name[:1] in "._")
        self.hides_metadata = "iceberg" in (formats or "").lower()
        joined = "|".join(re.escape(name) for name in self._exempt)
        self._exempt_pattern = f"(^|/)(?:{joined})"

    def hides_part(self, part: str) -> bool:
        """Whether one part of a name hides it and everything below."""
        if self.hides_metadata and part == _UNIFORM_DIR:
            return True
        return part[:1] in ("_", ".") and not part.startswith(self._exempt)

    def mask(self, names: pa.ChunkedArray) -> pa.ChunkedArray:
        """Which names are hidden, a boolean each."""
        mask = pc.match_substring_regex(names, r"(?:^|/)[._]")
        if pc.any(mask).as_py():
            shown = pc.replace_substring_regex(names, self._exempt_pattern, r"\1x")
            mask = pc.match_substring_regex(shown, r"(?:^|/)[._]")
        if self.hides_metadata:
            mask = pc.or_(mask, pc.match_substring_regex(names, rf"(?:^|/){_UNIFORM_DIR}(?:/|$)"))
        return mask


def vector_mask(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which names are those of deletion vector files."""
    return pc.match_substring_regex(names, _VECTOR)


def change_data_mask(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which names lie in a folder of change data."""
    return pc.match_substring_regex(names, _CHANGE_DATA)


def known_kind_mask(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which names are of files that a Delta table is made of: Parquet and deletion vectors."""
    return pc.match_substring_regex(names, _KNOWN)


def foreign_roots(files: pa.ChunkedArray, folders: Iterable[str], *, iceberg: bool) -> set[str]:
    """Folders below the table's root that hold a table of their own; ``""`` is the root itself.

    A folder does if it has a ``_delta_log`` or ``.hoodie`` (the root's own log apart), or Iceberg
    metadata. Without ``iceberg`` the table has such metadata itself: a folder of that name will do
    then, but not the root's.
    """
    names = pa.chunked_array([*files.chunks, pa.array(list(folders), pa.string())], pa.string())
    roots: set[str] = set()
    for pattern in (_FOREIGN_FOLDER, _ICEBERG_FILE if iceberg else _HIDDEN_ICEBERG):
        found = pc.struct_field(pc.extract_regex(names, pattern), "root")
        roots |= set(pc.unique(found.drop_null()).to_pylist())
        if pattern == _FOREIGN_FOLDER:
            hoodie = pc.match_substring_regex(names, r"^\.hoodie(?:/|$)")
            if not pc.any(hoodie).as_py():
                roots.discard("")
    return roots


def below_mask(names: pa.ChunkedArray, folders: Iterable[str]) -> pa.ChunkedArray:
    """Which names lie below one of the folders; the folder ``""`` holds everything."""
    mask = pa.chunked_array([pa.repeat(pa.scalar(False), len(names))])
    for folder in folders:
        mask = pc.or_(mask, pc.starts_with(names, f"{folder}/" if folder else ""))
    return mask
