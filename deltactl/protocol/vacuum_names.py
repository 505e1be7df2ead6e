"""Names that no vacuum lists or deletes (`HiddenRule`), and functions that classify names.

Sources: the rule of Delta for hidden names, applied to every part of a name; for the names of data
files, the code of each writer, and tables that it wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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

_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_PARQUET: Final = r"(?:\.[a-z0-9]+)?\.parquet"  # with or without the codec
# The name of a local file of deltactl until it is complete: a run was killed.
_INCOMPLETE: Final = r"\.deltactl-[0-9a-f]{32}\.tmp"
_WRITERS: Final[Mapping[str, str]] = {
    "deltactl": rf"part-\d{{5,}}-{_UUID}-\d+\.c\d{{3,}}(?:-\d+)?{_PARQUET}",
    "deltactl, clone": r"clone-[0-9a-f]{32}\.[0-9A-Za-z]+",
    "deltactl, incomplete": _INCOMPLETE,
    "Delta on Spark": rf"part-\d{{5,}}-{_UUID}[.-]c\d{{3,}}{_PARQUET}",
    "Delta on Spark, change data": rf"cdc-\d{{5,}}-{_UUID}[.-]c\d{{3,}}{_PARQUET}",
    "Databricks": rf"part-\d{{5,}}-tid-\d+-{_UUID}(?:-\d+){{2}}[.-]c\d{{3,}}{_PARQUET}",
    "delta-rs": rf"part-\d{{5,}}-{_UUID}-c\d{{3,}}{_PARQUET}",
    "delta-rs with the writer of PyArrow": rf"\d+-{_UUID}-\d+\.parquet",
    "Delta Kernel for Rust": rf"{_UUID}\.parquet",
    "Delta Kernel for Java": rf"{_UUID}-\d{{3,}}\.parquet",
    "Trino": rf"\d{{8}}_\d{{6}}_\d{{5}}_[a-z0-9]{{5}}[_-]{_UUID}",
    "Flink": rf"part-{_UUID}-\d+\.snappy\.parquet",
    "deletion vectors": rf"deletion_vector_{_UUID}\.bin",
}
# Other writers of Parquet, such as that of Spark, do not give these names.
_ONLY_OF_DELTA: Final = ("deltactl", "deltactl, clone", "delta-rs with the writer of PyArrow")
_OF_DELTA: Final = re.compile("|".join(_WRITERS[writer] for writer in _ONLY_OF_DELTA))
_OF_DELTA_RS: Final = re.compile(_WRITERS["delta-rs"])
# Of delta-rs, Arrow for Rust (its earlier versions), and DataFusion (its Z-order).
_CREATORS_OF_DELTA_RS: Final = ("delta-rs ", "parquet-rs ", "datafusion ")
# Writers create directories of partitions, and of random prefixes.
_FOLDERS: Final = rf"(?:{CHANGE_DATA_DIR}/)?(?:[^/]*=[^/]*/|[0-9A-Za-z]{{2}}/)*"
_WRITTEN: Final = rf"(?s)^{_FOLDERS}(?:{'|'.join(_WRITERS.values())})$"

# (?s): a directory name may contain a line break.
_FOREIGN_FOLDER: Final = r"(?s)^(?:(?P<root>.*)/)?(?:_delta_log|\.hoodie)(?:/|$)"
_ICEBERG_FILE: Final = (
    r"(?s)^(?:(?P<root>.*)/)?metadata/[^/]*(?:\.metadata\.json|version-hint\.text)$"
)
# If `metadata/` is hidden, its files are not in the listing. A `metadata/` below a subdirectory
# belongs to another table, which has its root in this subdirectory.
_HIDDEN_ICEBERG: Final = rf"(?s)^(?P<root>.*)/{_UNIFORM_DIR}(?:/|$)"


class HiddenRule:
    """The names that a vacuum of one table never lists and never deletes.

    A name is hidden if a part of it begins with ``.`` or ``_``, except ``_delta_index*``,
    ``_change_data*``, ``<partition column>=*`` and incomplete files of deltactl. If the table has
    Iceberg metadata (UniForm), the part ``metadata`` is hidden too.
    """

    def __init__(self, metadata: Metadata) -> None:
        """Read from the metadata of a table which exceptions its rule has."""
        exempt = (*_EXEMPT, *(f"{name}=" for name in metadata.partition_columns))
        self._exempt = tuple(name for name in exempt if name[:1] in "._")
        self.hides_metadata = "iceberg" in TableProperties(metadata.configuration).uniform_formats
        joined = "|".join(re.escape(name) for name in self._exempt)
        self._exempt_pattern = f"(^|/)(?:{joined}|{_INCOMPLETE}$)"

    def hides_part(self, part: str) -> bool:
        """Return whether this part of a name hides a file, or a directory with its content."""
        if self.hides_metadata and part == _UNIFORM_DIR:
            return True
        return part[:1] in ("_", ".") and not part.startswith(self._exempt)

    def mask(self, names: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a mask of the hidden names."""
        mask = pc.match_substring_regex(names, r"(?:^|/)[._]")
        if pc.any(mask).as_py():
            shown = pc.replace_substring_regex(names, self._exempt_pattern, r"\1x")
            mask = pc.match_substring_regex(shown, r"(?:^|/)[._]")
        if self.hides_metadata:
            mask = pc.or_(mask, pc.match_substring_regex(names, rf"(?:^|/){_UNIFORM_DIR}(?:/|$)"))
        return mask


def vector_mask(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a mask of the names of deletion vector files."""
    return pc.match_substring_regex(names, _VECTOR)


def change_data_mask(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a mask of the names in a directory of change data."""
    return pc.match_substring_regex(names, _CHANGE_DATA)


def writer_mask(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a mask of the names that a Delta writer gives to its files.

    The plain Parquet writer of Spark gives the same names as Delta on Spark.
    """
    return pc.match_substring_regex(names, _WRITTEN)


def is_of_delta_writer(name: str, created_by: str) -> bool:
    """Return whether only a Delta writer writes files with this name and this ``created_by``.

    It is not known of the names that Delta on Spark and the plain Parquet writer of Spark give.
    """
    last = name.rpartition("/")[2]
    if created_by.startswith(_CREATORS_OF_DELTA_RS[0]) or _OF_DELTA.fullmatch(last):
        return True
    return created_by.startswith(_CREATORS_OF_DELTA_RS) and bool(_OF_DELTA_RS.fullmatch(last))


def foreign_roots(files: pa.ChunkedArray, directories: Iterable[str], *, iceberg: bool) -> set[str]:
    """Return directories that contain other tables; ``""`` is the root of this table.

    Such a directory has a ``_delta_log`` (except the root), a ``.hoodie``, or Iceberg metadata.
    ``iceberg`` is false if this table itself has Iceberg metadata. Then a ``metadata`` directory in
    a subdirectory is enough.
    """
    names = pa.chunked_array([*files.chunks, pa.array(list(directories), pa.string())], pa.string())
    roots: set[str] = set()
    for pattern in (_FOREIGN_FOLDER, _ICEBERG_FILE if iceberg else _HIDDEN_ICEBERG):
        # Groups of a regular expression take ten times as long as a match.
        matching = names.filter(pc.match_substring_regex(names, pattern))
        found = pc.struct_field(pc.extract_regex(matching, pattern), "root")
        roots |= set(pc.unique(found.drop_null()).to_pylist())
        if pattern == _FOREIGN_FOLDER:
            hoodie = pc.match_substring_regex(names, r"^\.hoodie(?:/|$)")
            if not pc.any(hoodie).as_py():
                roots.discard("")
    return roots


def below_mask(names: pa.ChunkedArray, directories: Iterable[str]) -> pa.ChunkedArray:
    """Return a mask of the names below one of the directories. Every name is below ``""``."""
    mask = pa.chunked_array([pa.repeat(pa.scalar(False), len(names))])
    for directory in directories:
        mask = pc.or_(mask, pc.starts_with(names, f"{directory}/" if directory else ""))
    return mask
