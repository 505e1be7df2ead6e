"""Plan a clone: the version of the source, and the files and state of the target.

Source of the state: PROTOCOL.md, "In-Commit Timestamps", "Row Tracking", "Clustered Table"; the
rules of CLONE in Delta on Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.paths import COPY_SCHEMA, absolute_files, relative_files
from deltactl.operations.clone.places import root_text
from deltactl.operations.predicate.parse import PartitionPredicate, parse_predicate
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.protocol.clustering import CLUSTERING_DOMAIN
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.protocol.features import Operation, ensure_supported, list_features, merge_protocols
from deltactl.protocol.new_tables import choose_protocol, list_property_features

# Properties about commits of the source, which a clone does not have, and about its coordinator.
_OF_THE_SOURCE: Final = (
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.requireCheckpointProtectionBeforeVersion",
    "io.unitycatalog.tableId",
    "ucTableId",
)
_COORDINATION: Final = "delta.coordinatedCommits."


@dataclass(frozen=True, slots=True)
class ClonePlan:
    """The plan of a clone of ``version`` of a source.

    ``files`` are those of the target, rows of ``ADD_SCHEMA``. ``copies`` are the files to copy,
    rows of ``COPY_SCHEMA``; none if the clone is shallow.
    """

    source_uri: str
    version: int
    source_table_id: str
    deep: bool
    predicate: str | None
    files: pa.Table = field(repr=False)
    copies: pa.Table = field(repr=False)
    protocol: Protocol
    metadata: Metadata = field(repr=False)
    domains: tuple[DomainMetadata, ...] = field(repr=False)

    @property
    def num_files(self) -> int:
        """Return the number of data files."""
        return int(self.files.num_rows)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the data files."""
        return sum_sizes(self.files)

    @property
    def num_vectors(self) -> int:
        """Return the number of files with deletion vectors that are copied."""
        vectors = vector_files(self.files["deletion_vector"])
        return int(pc.count_distinct(vectors).as_py()) if self.deep else 0

    @property
    def source_name(self) -> str:
        """Return the source in the form of Delta on Spark in ``operationParameters``."""
        return f"delta.`{self.source_uri}`"


def load_source(source: DeltaLog, options: CloneOptions) -> Snapshot:
    """Load the version of the source.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: the version is outside the log; the message has the range.
        CorruptLogError: the log is damaged.
        UnsupportedFeatureError: a table feature forbids it.
    """
    source.ensure_exists()
    version = options.version
    if options.timestamp_ms is not None:
        version = source.version_at(source.snapshot().metadata, options.timestamp_ms)
    if version is not None:
        source.ensure_has(version)
    snapshot = source.snapshot(version)
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.CLONE)
    return snapshot


def plan_clone(snapshot: Snapshot, options: CloneOptions, table_id: str) -> ClonePlan:
    """Choose the files, and their names in the target.

    Raises:
        PredicateError: ``where`` is not about partition columns.
        SafetyError: two files would have the same name in the target.
    """
    source, where = snapshot.store, None
    if options.where is not None:
        where = parse_predicate(options.where, snapshot.metadata.partition_fields)
    files = pa.concat_tables(list(_choose_files(snapshot, where)))
    copies = COPY_SCHEMA.empty_table()
    if options.deep:
        files, copies = relative_files(source, files)
    else:
        files = absolute_files(source, files)
    return ClonePlan(
        root_text(source),
        snapshot.version,
        snapshot.metadata.id,
        options.deep,
        None if where is None else where.sql,
        files,
        copies,
        _clone_protocol(snapshot.protocol, options.properties),
        _clone_metadata(snapshot.metadata, table_id, options.properties),
        _clone_domains(snapshot),
    )


def _choose_files(snapshot: Snapshot, where: PartitionPredicate | None) -> Iterator[pa.Table]:
    yield ADD_SCHEMA.empty_table()
    for batch in snapshot.file_batches():
        yield batch if where is None else batch.filter(where.evaluate(batch["partition_values"]))


def _clone_metadata(source: Metadata, table_id: str, properties: Mapping[str, str]) -> Metadata:
    """Return the metadata of a clone: the source's, with its own id and properties."""
    configuration = {
        key: value
        for key, value in source.configuration.items()
        if key not in _OF_THE_SOURCE and not key.startswith(_COORDINATION)
    }
    folded = {key.lower() for key in properties}
    kept = {key: value for key, value in configuration.items() if key.lower() not in folded}
    return replace(source, id=table_id, configuration=kept | dict(properties))


def _clone_protocol(source: Protocol, properties: Mapping[str, str]) -> Protocol:
    """Return the source's protocol, with the features that properties need."""
    needed = list_property_features(properties) - list_features(source)
    return merge_protocols(source, choose_protocol(needed)) if needed else source


def _clone_domains(source: Snapshot) -> tuple[DomainMetadata, ...]:
    """Return the domains that are copied: clustering columns, and the high-water mark of row ids.

    Other domains belong to their writers and describe the source.
    """
    found = (source.domains.get(name) for name in (ROW_TRACKING_DOMAIN, CLUSTERING_DOMAIN))
    return tuple(domain for domain in found if domain is not None and not domain.removed)
