"""``describe-detail``: size, columns, properties and features of a table at a version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from deltactl.errors import DeltactlError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.file_sizes import FileSizes, count_table_sizes
from deltactl.operations.short_repr import ShortRepr
from deltactl.protocol.actions import Metadata
from deltactl.protocol.clustering import clustering_names
from deltactl.protocol.features import Operation, ensure_supported, list_features
from deltactl.protocol.readers import Verdict, judge_readers
from deltactl.protocol.schema import StructType, render_type
from deltactl.units import format_timestamp

if TYPE_CHECKING:
    from deltactl.catalog.base import TableAddress
    from deltactl.operations.skipping.report import LayoutReport


@dataclass(frozen=True, slots=True, repr=False)
class DetailReport(ShortRepr):
    """A table at a version. ``row`` has Delta's columns in Delta's order, times in ms.

    ``columns`` has name, type and whether nulls are allowed, and is ``None`` if the schema
    cannot be parsed. ``sizes`` counts live files by size. ``refusals``: the reasons why deltactl
    refuses an operation on the table. ``entry``: what a catalog says, if it was opened by a name
    there. ``layout``, if requested: the share of files that lookups skip. ``readers``, if
    requested: which engines can read the table.
    """

    version: int
    timestamp_ms: int
    row: dict[str, Any]
    columns: list[tuple[str, str, bool]] | None
    refusals: dict[Operation, str]
    sizes: FileSizes
    layout: LayoutReport | None = None
    entry: TableAddress | None = None
    readers: tuple[Verdict, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope."""
        times = {name: self.row[name] for name in ("createdAt", "lastModified")}
        texts = {name: None if ms is None else format_timestamp(ms) for name, ms in times.items()}
        row = {**self.row, **texts, "fileSizes": self.sizes.to_dict()}
        if self.entry is not None:
            row["catalog"] = self.entry.to_dict()
        if self.layout is not None:
            row["layout"] = self.layout.to_dict()
        if self.readers is not None:
            row["readers"] = [verdict.to_dict() for verdict in self.readers]
        return row


Survey: TypeAlias = "Callable[[Snapshot], LayoutReport]"


def load_detail(
    log: DeltaLog,
    version: int | None = None,
    *,
    survey: Survey | None = None,
    readers: bool = False,
) -> DetailReport:
    """Describe a table at a version, or at the latest.

    Unsupported features and column types are accepted: only the log is read. A ``survey`` of the
    layout needs a valid log.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: the version cannot be rebuilt from the log.
        CorruptLogError: the log is damaged.
    """
    log.ensure_newest(or_warn=True)
    snapshot = log.snapshot(version)
    layout = None if survey is None else survey(snapshot)
    batches = snapshot.file_batches(["size_bytes"])
    sizes = count_table_sizes(batches, snapshot.properties.target_file_size)
    found = tuple(judge_readers(snapshot.protocol, snapshot.metadata)) if readers else None
    return replace(_report(log, snapshot, sizes), layout=layout, entry=log.entry, readers=found)


def _report(log: DeltaLog, table: Snapshot, sizes: FileSizes) -> DetailReport:
    try:
        timestamp_ms = log.timestamp_of(table)
    except DeltactlError as error:
        log.warn(error.message)
        timestamp_ms = table.segment.modified_ms
    return DetailReport(
        table.version,
        timestamp_ms,
        _row(table, sizes),
        _columns(_schema(table.metadata)),
        _list_refusals(log, table),
        sizes,
    )


def _row(table: Snapshot, sizes: FileSizes) -> dict[str, Any]:
    metadata, protocol = table.metadata, table.protocol
    schema = _schema(metadata) or StructType(())
    return {
        "format": "delta",
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "location": _location(table.store.uri),
        "createdAt": metadata.created_time_ms,
        "lastModified": table.segment.modified_ms,  # not the in-commit timestamp
        "partitionColumns": list(metadata.partition_columns),
        "clusteringColumns": clustering_names(table.domains, schema),
        "numFiles": sizes.num_files,
        "sizeInBytes": sizes.size_bytes,
        "properties": dict(metadata.configuration),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted(list_features(protocol)),
    }


def _location(uri: str) -> str:
    # Local paths as in Hadoop: file:/abs, not file:///abs.
    return f"file:{uri.removeprefix('file://')}" if uri.startswith("file:///") else uri


def _schema(metadata: Metadata) -> StructType | None:
    try:
        return metadata.schema
    except DeltactlError:
        return None


def _columns(schema: StructType | None) -> list[tuple[str, str, bool]] | None:
    if schema is None:
        return None
    return [(field.name, render_type(field.type), field.nullable) for field in schema.fields]


def _list_refusals(log: DeltaLog, table: Snapshot) -> dict[Operation, str]:
    refusals: dict[Operation, str] = {}
    for operation in Operation:
        try:
            log.ensure_complete()
            ensure_supported(table.protocol, table.metadata, operation)
        except DeltactlError as error:
            refusals[operation] = error.message
    return refusals
