"""Plan a clone: the version of the source, and the files and state of the target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import VersionNotFoundError
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.paths import COPY_SCHEMA, absolute_files, relative_files
from deltactl.operations.clone.places import root_text
from deltactl.operations.clone.state import clone_domains, clone_metadata, clone_protocol
from deltactl.operations.predicate.parse import PartitionPredicate, parse_predicate
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.protocol.features import Operation, ensure_supported


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
        try:
            version = source.version_at(source.snapshot().metadata, options.timestamp_ms)
        except VersionNotFoundError as error:
            raise VersionNotFoundError(
                error.message,
                hint="Run `deltactl describe-history --all` to list the versions and their times.",
            ) from error
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
        clone_protocol(snapshot.protocol, options.properties),
        clone_metadata(snapshot.metadata, table_id, options.properties),
        clone_domains(snapshot),
    )


def _choose_files(snapshot: Snapshot, where: PartitionPredicate | None) -> Iterator[pa.Table]:
    yield ADD_SCHEMA.empty_table()
    for batch in snapshot.file_batches():
        yield batch if where is None else batch.filter(where.evaluate(batch["partition_values"]))
