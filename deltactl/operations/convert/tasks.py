"""The worker of ``convert``: read the footers of a batch of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import DataFileError
from deltactl.operations.convert.directory import NOT_PARQUET_INSIDE, LeftOut, has_parquet_name
from deltactl.operations.convert.schema import Problem
from deltactl.parquet.broken_footers import SchemaGroup, SchemaGroups
from deltactl.parquet.file_schema import FileSchema, read_file_schema
from deltactl.parquet.footer import StatsReader
from deltactl.parquet.footer_bytes import TAIL_BYTES, Footer, parse_footer_bytes, read_footer_bytes
from deltactl.protocol.internal_columns import CHANGE_TYPE, IS_CDC, ROW_TRACKING
from deltactl.protocol.schema import Field, PrimitiveType
from deltactl.protocol.stats import FieldPath
from deltactl.protocol.stats_columns import StatsColumns, list_leaves
from deltactl.protocol.stats_encoding import LeafColumns, encode_leaf
from deltactl.protocol.vacuum_names import is_of_delta_writer
from deltactl.storage.names import is_utf8
from deltactl.storage.open import open_store
from deltactl.storage.parallel import map_requests
from deltactl.storage.store import FileInfo, Store

FILE_SCHEMA: Final = pa.schema(
    [
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("modified_ms", pa.int64()),
        ("num_rows", pa.int64()),
        ("is_of_delta", pa.bool_()),  # whether only a Delta writer writes such a file
    ]
)

# Limits memory: a parsed footer needs ten times its size.
_FOOTERS_HELD: Final = 64
_FOOTER_BYTES_HELD: Final = 1 << 20

_NOT_UTF8: Final = "its path is not UTF-8, as a log needs it: rename the file or its directories"

_KERNEL: Final = b"io.delta.kernel.default-parquet-writer"
"""A key that Delta Kernel for Java writes into footers."""


@dataclass(frozen=True, slots=True)
class FooterSpec:
    """The values that all batches share.

    ``skip``: leaves whose statistics are not needed.
    """

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    statistics: bool = True
    string_prefix: int = 32
    skip: Set[FieldPath] = frozenset()


@dataclass(frozen=True, slots=True)
class FooterGroup:
    """Files of one schema: ``files`` has columns of ``FILE_SCHEMA``, ``leaves`` the same rows."""

    schema: FileSchema
    files: pa.Table
    leaves: Mapping[FieldPath, LeafColumns]


@dataclass(frozen=True, slots=True)
class FooterBatch:
    """The contents of the footers of a batch."""

    groups: tuple[FooterGroup, ...]
    problems: tuple[Problem, ...]
    left_out: tuple[LeftOut, ...]


def read_footers(spec: FooterSpec, names: Sequence[str], attempt: int) -> FooterBatch:
    """Read the footer of each named file, once."""
    reader = _FooterReader(spec)
    store = open_store(spec.uri, spec.storage_options)
    for name, (info, data) in zip(names, _read_all(store, names), strict=True):
        reader.add(name, info, data)
    return reader.finish()


def _read_all(store: Store, names: Sequence[str]) -> Iterator[tuple[FileInfo | None, bytes | str]]:
    """Yield each file's facts and stored footer, or the reason why there is none."""

    def read(name: str) -> tuple[FileInfo | None, bytes | str]:
        found = store.read_tail(name, TAIL_BYTES)
        if found is None:
            return None, "disappeared while the directory was read"
        info, tail = found
        try:
            return info, read_footer_bytes(store, name, info.size_bytes, tail)
        except DataFileError as error:
            return info, error.message

    return map_requests(store, read, names)


class _FooterReader:
    """Read statistics of footers. Holds few footers at once: in memory they are large."""

    def __init__(self, spec: FooterSpec) -> None:
        self._spec = spec
        self._held: list[tuple[FileInfo, Footer]] = []
        self._held_bytes = 0
        self._schemas = SchemaGroups()
        self._groups: dict[SchemaGroup, _GroupReader | DataFileError] = {}
        self._problems: list[Problem] = []
        self._left_out: list[LeftOut] = []

    def add(self, name: str, info: FileInfo | None, data: bytes | str) -> None:
        """Add a file with its stored footer, or the reason why there is none."""
        try:
            if info is None or isinstance(data, str):
                raise DataFileError(str(data))
            footer = parse_footer_bytes(data, info.size_bytes)
        except DataFileError as error:
            if has_parquet_name(name):
                self._problems.append((name, None, error.message))
            else:
                self._left_out.append(LeftOut(name, NOT_PARQUET_INSIDE))
            return
        if not is_utf8(name):
            self._problems.append((name, None, _NOT_UTF8))
            return
        self._held.append((info, footer))
        self._held_bytes += len(data)
        if len(self._held) >= _FOOTERS_HELD or self._held_bytes >= _FOOTER_BYTES_HELD:
            self._read_held()

    def finish(self) -> FooterBatch:
        """Return the contents of all footers."""
        self._read_held()
        readers = (group for group in self._groups.values() if isinstance(group, _GroupReader))
        groups = tuple(reader.finish() for reader in readers)
        return FooterBatch(groups, tuple(self._problems), tuple(self._left_out))

    def _read_held(self) -> None:
        footers = [footer for _, footer in self._held]
        for group in self._schemas.split(footers):
            broken = group.find_broken(footers)
            for index in group.members:
                info = self._held[index][0]
                reader = broken.get(index) or self._open_group(group)
                if isinstance(reader, DataFileError):
                    self._problems.append((info.name, None, reader.message))
                else:
                    reader.add(info, footers[index])
        self._held, self._held_bytes = [], 0

    def _open_group(self, group: SchemaGroup) -> _GroupReader | DataFileError:
        if group not in self._groups:
            try:
                self._groups[group] = _GroupReader(self._spec, group.schema)
            except DataFileError as error:
                self._groups[group] = error
        return self._groups[group]


class _GroupReader:
    """Read the files of one schema."""

    def __init__(self, spec: FooterSpec, schema: pq.ParquetSchema) -> None:
        self._schema = read_file_schema(schema)
        self._columns = _wanted_columns(spec, self._schema)
        self._stats = StatsReader(schema, self._columns)
        self._rows: list[tuple[str, int, int, int, bool]] = []

    def add(self, info: FileInfo, footer: Footer) -> None:
        """Add a file."""
        found = footer.metadata
        self._stats.add(found)
        is_of_delta = _KERNEL in footer.data or is_of_delta_writer(info.name, _read_creator(found))
        self._rows.append(
            (info.name, info.size_bytes, info.modified_ms, found.num_rows, is_of_delta)
        )

    def finish(self) -> FooterGroup:
        """Return the contents of the footers."""
        files = pa.table(list(map(pa.array, zip(*self._rows, strict=True))), schema=FILE_SCHEMA)
        known = self._stats.finish()
        prefix = self._columns.string_prefix
        leaves = {
            leaf.path: encode_leaf(leaf, values.nulls, values.lower, values.upper, prefix)
            for leaf in self._columns.leaves
            if (values := known.get(leaf.path))
        }
        return FooterGroup(self._schema, files, leaves)


def _read_creator(footer: pq.FileMetaData) -> str:
    try:
        return str(footer.created_by)
    except UnicodeDecodeError:
        return ""


def _wanted_columns(spec: FooterSpec, schema: FileSchema) -> StatsColumns:
    wanted = tuple(
        leaf
        for leaf in list_leaves(schema.struct)
        if leaf.path == (CHANGE_TYPE,) or (spec.statistics and leaf.path not in spec.skip)
    )
    return StatsColumns(wanted, spec.string_prefix)


def is_hidden_column(field: Field, *, has_values: bool) -> bool:
    """Return whether Delta added a top-level column of a data file.

    A ``_change_type`` column with values belongs to the user: somebody read it from a change data
    feed. Delta on Spark writes ``__is_cdc`` only together with ``_change_type``.

    ``has_values`` says whether a row may have a value in ``_change_type``, or no file has this
    column.
    """
    if field.name == CHANGE_TYPE:
        return field.type == PrimitiveType("string") and not has_values
    if field.name == IS_CDC:
        return field.type == PrimitiveType("boolean") and not has_values
    return field.type == PrimitiveType("long") and bool(ROW_TRACKING.fullmatch(field.name))
