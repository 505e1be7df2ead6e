"""The worker of ``check --fix stats``: find statistics that need to be computed, and compute them.

They are of all rows of a file, also of deleted ones, and so are true with each deletion vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from deltactl.errors import DataFileError, UnsupportedFeatureError
from deltactl.log.find_files import find_files, is_placed
from deltactl.operations.check.content import choose_fields, is_stored
from deltactl.operations.check.findings import Findings
from deltactl.operations.check.stats import Statistics
from deltactl.operations.check.tasks import CheckSpec, CheckTask, check_files
from deltactl.parquet.broken_footers import find_broken_footers
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.footer import index_leaves, read_file_stats
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.parquet.projection import FileFields, Matcher, ensure_field_ids
from deltactl.parquet.reader import RowReader
from deltactl.parquet.row_statistics import measure_file
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.schema import StructType
from deltactl.protocol.stats import FieldPath, FileStats, LeafStats
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf
from deltactl.protocol.stats_encoding import encode_stats, loosen_bounds
from deltactl.storage.open import open_store
from deltactl.storage.parallel import map_requests
from deltactl.storage.store import FileInfo, Store
from deltactl.storage.write_guard import refuse_changes

MISSING: Final = "missing"
SHORT: Final = "too short"
WRONG: Final = "wrong"

_READ_AT_ONCE: Final = 4
# A file can lack bounds of other kinds for good: NaN, and booleans of Delta on Spark.
_BOUNDED: Final = frozenset({"integer", "decimal", "date", "timestamp", "timestamp_ntz", "string"})


@dataclass(frozen=True, slots=True)
class StatsSpec:
    """The values that all batches share; ``columns`` are those that need statistics today."""

    check: CheckSpec
    columns: StatsColumns


@dataclass(frozen=True, slots=True)
class NewStats:
    """New statistics of a file by its decoded path; ``None`` if the file cannot be read."""

    path: str
    has_vector: bool
    reason: str
    stats: str | None


def compute_stats(spec: StatsSpec, task: CheckTask, attempt: int) -> tuple[NewStats, ...]:
    """Return the new statistics of the files of a batch that need them."""
    checked = check_files(spec.check, task, attempt)
    wrong = {file for code, _, file, _ in checked.findings if code.startswith("STATS_")}
    known = dict.fromkeys(checked.stats_noted, SHORT) | dict.fromkeys(wrong, WRONG)
    broken = {file for code, _, file, _ in checked.findings if code.startswith(("FILE_", "PATH_"))}
    with pa.ipc.open_stream(task.files) as stream:
        rows = stream.read_all().to_pylist()
    old = [_parse(row["stats"]) for row in rows]
    reasons = [
        known.get(row["path"]) or _find_lack(stats, spec.columns)
        for row, stats in zip(rows, old, strict=True)
    ]
    chosen = [number for number, reason in enumerate(reasons) if reason]
    store = refuse_changes(open_store(spec.check.uri, spec.check.storage_options))
    names = [rows[number]["path"] for number in chosen]
    infos, _ = find_files(store, [name for name in names if is_placed(name)])
    computer = _Computer(store, spec)

    def compute(number: int) -> NewStats | None:
        row, reason = rows[number], reasons[number] or ""
        info = infos.get(row["path"])
        if info is None or row["path"] in broken:
            return NewStats(row["path"], row["deletion_vector"] is not None, reason, None)
        return computer.compute(row, info, old[number], reason)

    found = map_requests(store, compute, chosen, at_once=_READ_AT_ONCE)
    return tuple(it for it in found if it is not None)


def _parse(text: str | None) -> Statistics | None:
    try:
        return None if text is None else Statistics(text)
    except ValueError:
        return None


def _find_lack(stats: Statistics | None, columns: StatsColumns) -> str | None:
    """Return what statistics lack, as far as their text shows."""
    if stats is None or stats.num_records is None:
        return MISSING
    is_short = any(_lacks(stats, leaf) for leaf in columns.leaves if leaf.has_bounds)
    return SHORT if is_short else None


def _lacks(stats: Statistics, leaf: StatsLeaf) -> bool:
    if not stats.mentions(leaf):
        return True
    if leaf.kind not in _BOUNDED or stats.find("nullCount", leaf.path) == stats.num_records:
        return False
    return all(stats.find(name, leaf.path) is None for name in ("minValues", "maxValues"))


class _Computer:
    """Compute statistics of files of one table."""

    def __init__(self, store: Store, spec: StatsSpec) -> None:
        (metadata,) = spec.check.metadata
        self._store, self._columns = store, spec.columns
        self._match = Matcher(metadata.column_mapping_mode)
        self._fields = choose_fields(metadata, Findings())
        names = {field.physical_name for field in self._fields}
        self._leaves = [leaf for leaf in spec.columns.leaves if leaf.path[0] in names]
        schema = [(f.physical_name, arrow_type(f.type, "physical")) for f in self._fields]
        found = index_leaves(pa.schema(schema))
        self._types = {path: leaf.type for path, leaf in found.items()}

    def compute(
        self, row: Mapping[str, Any], info: FileInfo, old: Statistics | None, reason: str
    ) -> NewStats | None:
        """Return new statistics of a file; ``None`` if they would be the same."""
        path, has_vector = row["path"], row["deletion_vector"] is not None
        try:
            stats = self._compute(path, info, None if reason == WRONG else old)
        except (DataFileError, UnsupportedFeatureError):
            return NewStats(path, has_vector, reason, None)
        stats = loosen_bounds(stats) if has_vector else stats
        if old is not None and Statistics(stats).node == old.node:
            return None
        return NewStats(path, has_vector, reason, stats)

    def _compute(self, path: str, info: FileInfo, old: Statistics | None) -> str:
        footer = parse_footer(self._store, path, info.size_bytes)
        for error in find_broken_footers([footer]).values():
            raise error
        num_rows, schema = footer.metadata.num_rows, footer.metadata.schema.to_arrow_schema()
        leaves = self._find_stored(path, schema)
        types = {key: leaf.type for key, leaf in index_leaves(schema).items()}
        exact = tuple(x for x in leaves if types.get(x.path) == self._types.get(x.path))
        known = dict(read_file_stats(footer.metadata, StatsColumns(exact)).leaves)
        known |= {x.path: LeafStats(_old_nulls(old, x)) for x in leaves if x.kind == "nested"}
        unsure = [x for x in leaves if x.has_bounds and _is_unsure(known.get(x.path), num_rows)]
        found = FileStats(num_rows, {**known, **self._measure(path, info, unsure, num_rows)})
        return encode_stats(found, replace(self._columns, leaves=leaves))

    def _find_stored(self, path: str, schema: pa.Schema) -> tuple[StatsLeaf, ...]:
        """Return the leaves that a file has: readers know the values of the others."""
        ensure_field_ids(self._match, schema, path)
        stored = FileFields(schema)
        is_there = partial(is_stored, fields=self._fields, stored=stored, matcher=self._match)
        return tuple(leaf for leaf in self._leaves if is_there(leaf.path))

    def _measure(
        self, path: str, info: FileInfo, leaves: Sequence[StatsLeaf], num_rows: int
    ) -> dict[FieldPath, LeafStats]:
        """Return statistics that the footer does not have, from the rows."""
        if not leaves:
            return {}
        names = {leaf.path[0] for leaf in leaves}
        fields = StructType(tuple(f for f in self._fields if f.physical_name in names))
        reader = RowReader(fields, (), self._match.mode, naming="physical", verify_pages=True)
        data = DataFile(path, info.size_bytes)
        found = measure_file(self._store, reader, data, leaves)
        if found.num_rows != num_rows:
            raise DataFileError(f"{path!r} was replaced while it was read")
        return {
            key: LeafStats(stats.null_count) if key in found.with_nan else stats
            for key, stats in found.leaves.items()
        }


def _is_unsure(known: LeafStats | None, num_rows: int) -> bool:
    """Return whether a footer does not have the null count, or bounds of values."""
    if known is None or known.null_count is None:
        return True
    return known.null_count < num_rows and (known.minimum is None or known.maximum is None)


def _old_nulls(old: Statistics | None, leaf: StatsLeaf) -> int | None:
    """Return the null count of a list or map, which no footer has."""
    count = None if old is None else old.find("nullCount", leaf.path)
    return count if isinstance(count, int) and not isinstance(count, bool) else None
