"""Read row digests from commits of layout runs, and find the files that each covers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.numpy_types import Flags
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.digest import ALGORITHM, RowDigest, RowDigester
from deltactl.parquet.reader import RowReader
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.arrow_schemas import PARQUET_FIELD_ID, partition_type
from deltactl.protocol.features import ROW_TRACKING, has_feature, stores_partitions
from deltactl.protocol.iceberg import ROW_TRACKING_IDS, compatible_version
from deltactl.protocol.partitions import lookup_map, parse_partition_column
from deltactl.protocol.properties import ROW_TRACKING_COLUMN_KEYS, TableProperties
from deltactl.protocol.schema import StructType, is_decoded
from deltactl.storage.store import Store

DIGEST_TAG: Final = "deltactl.rowDigest"
"""Tag of a ``commitInfo``: the digest of the rows that the commit moved between files."""

PATH_TAG: Final = "deltactl.layoutPath"
"""Tag of a file that such a commit added: its own path, by which copied tags are recognized."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The row digest in a commit: the number of rows of its files, and the sum of their hashes."""

    algorithm: str
    rows: int
    sum: str

    @property
    def is_known(self) -> bool:
        """Return whether this program calculates digests of this kind."""
        return self.algorithm == ALGORITHM


def encode_proof(digest: RowDigest) -> str:
    """Return the value of the tag."""
    found = {"algorithm": ALGORITHM, "rows": digest.rows, "sum": digest.hex}
    return json.dumps(found, separators=(",", ":"))


def read_proof(commit_info: Mapping[str, Any] | None) -> Proof | None:
    """Return the digest in a commit; ``None`` if it has no readable one."""
    tags = (commit_info or {}).get("tags")
    text = tags.get(DIGEST_TAG) if isinstance(tags, dict) else None
    if not isinstance(text, str):
        return None
    try:
        found = json.loads(text)
        return Proof(str(found["algorithm"]), int(found["rows"]), str(found["sum"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def proven_mask(adds: pa.Table) -> Flags:
    """Return a mask of the files of a commit that its digest covers (not merged files)."""
    placed = pc.equal(lookup_map(adds["tags"], PATH_TAG), adds["path"])
    found = pc.or_(pc.fill_null(placed, False), adds["clustering_provider"].is_valid())
    return np.asarray(found).astype(np.bool_)


def stored_schema(metadata: Metadata, protocol: Protocol) -> StructType:
    """Return the columns of files: partition columns last, and only if the table requires them."""
    if not stores_partitions(protocol, metadata):
        return metadata.data_schema
    return StructType((*metadata.data_schema.fields, *metadata.partition_fields))


class RowTrackingColumns(NamedTuple):
    """Names of the hidden columns that keep row ids and commit versions through a rewrite."""

    row_id: str
    commit_version: str


def row_tracking_columns(metadata: Metadata, protocol: Protocol) -> RowTrackingColumns | None:
    """Return the hidden columns; ``None`` if ids are not kept.

    Raises:
        CorruptLogError: row tracking is enabled without these names.
    """
    properties = TableProperties(metadata.configuration)
    if not has_feature(protocol, ROW_TRACKING) or not properties.row_tracking_enabled:
        return None  # supported but not enabled: new ids are assigned, none are preserved
    row_id, commit_version = properties.row_tracking_columns
    if row_id is None or commit_version is None:
        raise CorruptLogError(
            f"row tracking is enabled, but {' or '.join(ROW_TRACKING_COLUMN_KEYS)} is not set"
        )
    return RowTrackingColumns(row_id, commit_version)


def stored_reader(metadata: Metadata, protocol: Protocol, *, for_rewrite: bool) -> RowReader:
    """Return the reader of the columns that files of a table store, hidden columns included.

    Columns whose type is not decoded are omitted.

    Raises:
        CorruptLogError: row tracking is enabled without the names of its columns.
    """
    extra = row_tracking_columns(metadata, protocol) or ()
    stored = stored_schema(metadata, protocol).fields
    return RowReader(
        StructType(tuple(field for field in stored if is_decoded(field.type))),
        metadata.partition_fields,
        metadata.column_mapping_mode,
        naming="physical",
        extra=tuple(_extra_fields(metadata, extra)),
        for_rewrite=for_rewrite,
    )


def _extra_fields(metadata: Metadata, names: Sequence[str]) -> Iterator[pa.Field]:
    version = compatible_version(metadata)
    for name, number in zip(names, ROW_TRACKING_IDS, strict=False):
        ids = {PARQUET_FIELD_ID: str(number)} if version is not None and version >= 3 else None
        yield pa.field(name, pa.int64(), metadata=ids)


class FileDigester:
    """Compute digests of rows of one table. Thread-safe."""

    def __init__(self, reader: RowReader) -> None:
        """Set the reader of all columns."""
        self._reader = reader
        self._digester = RowDigester(reader.schema)

    def digest(self, rows: pa.RecordBatch, file: DataFile) -> RowDigest:
        """Return the digest of rows of a file."""
        return self._digester.digest(rows, self._partition_values(file.partition_values))

    def digest_file(self, store: Store, file: DataFile) -> RowDigest:
        """Return the digest of all live rows of a file, read from the store.

        Raises:
            DataFileError: it is missing or broken.
        """
        batches = self._reader.read(store, file)
        return reduce(add, (self.digest(live.columns, file) for live in batches), RowDigest())

    def _partition_values(self, texts: Mapping[str, str | None]) -> Mapping[str, pa.Scalar]:
        """Return typed partition values by physical name."""
        values = {}
        for column in self._reader.partition_fields:
            text = pa.array([texts.get(column.physical_name)], pa.string())
            kind = partition_type(column)
            values[column.physical_name] = parse_partition_column(text, kind, column=column.name)[0]
        return values
