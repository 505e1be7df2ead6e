"""Plan a clone: the version of the source, and the files and state of the target.

Source of the state: PROTOCOL.md, "In-Commit Timestamps", "Row Tracking", "Clustered Table"; the
rules of CLONE in Delta on Spark.

Names in a shallow clone are absolute paths, as in Delta on Spark; those in a deep clone relative. A
file outside of the root of the source, or with an absolute path, gets a name with a hash of its
address, which is the same in every run.

Source: PROTOCOL.md, "Add File and Remove File", "Deletion Vectors".
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.log.audit.audited_snapshot import load_audited
from deltactl.log.commits.contents import CommitReader
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.delta_log import DeltaLog
from deltactl.log.naming import naming
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.places import root_text
from deltactl.operations.predicate.parse import PartitionPredicate, parse_predicate
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol
from deltactl.protocol.arrow_schemas import ADD_SCHEMA, replace_column
from deltactl.protocol.clustering import CLUSTERING_DOMAIN
from deltactl.protocol.deletion_vectors import (
    ABSOLUTE,
    UUID_RELATIVE,
    DeletionVector,
    vector_ends,
    vector_files,
)
from deltactl.protocol.features import (
    CATALOG_MANAGED,
    Operation,
    ensure_supported,
    list_features,
    merge_protocols,
    without_features,
)
from deltactl.protocol.new_tables import choose_protocol, list_property_features
from deltactl.protocol.path_columns import absolute_mask, canonical_paths
from deltactl.protocol.paths import decode_path, encode_path
from deltactl.protocol.properties import PROTECTED_BEFORE
from deltactl.protocol.property_rules import (
    MANIFESTS_KEY,
    ensure_manifests_fit,
    parse_properties,
)
from deltactl.protocol.stats_columns import STATS_COLUMNS_KEY, ensure_stats_columns
from deltactl.protocol.z85 import z85_encode
from deltactl.storage.names import parse_scheme
from deltactl.storage.store import FileInfo, Store

# Properties about commits of the source, which a clone does not have, and about its coordinator.
_OF_THE_SOURCE: Final = (
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
    PROTECTED_BEFORE,
    "io.unitycatalog.tableId",
    "ucTableId",
)
_COORDINATION: Final = "delta.coordinatedCommits."

COPY_SCHEMA: Final = pa.schema([
    ("source", pa.string()), ("target", pa.string()), ("size_bytes", pa.int64()),
    ("modified_ms", pa.int64()), ("least_bytes", pa.int64()),
])  # fmt: skip
"""A file to copy: its decoded names, and its size, null for a file of deletion vectors.

``least_bytes``: the least size of the latter. ``modified_ms``: the time that the source file had
when it was copied before; null if it was not.
"""


@dataclass(frozen=True, slots=True)
class ClonePlan:
    """The plan of a clone of ``version`` of a source.

    ``files`` are those of the target, rows of ``ADD_SCHEMA``. ``copies`` are the files to copy,
    rows of ``COPY_SCHEMA``; none if the clone is shallow. ``source_commit`` is the digest of the
    commit of ``version``; ``None`` if the log only has its checkpoint. ``predicate`` is the
    condition ``where`` with the time of the run.
    """

    source_uri: str
    version: int
    source_table_id: str
    source_commit: str | None
    deep: bool
    predicate: str | None
    where: str | None
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


def load_source(source: DeltaLog, options: CloneOptions, *, or_warn: bool = True) -> Snapshot:
    """Load the version of the source; warn of commits that may be damaged.

    Raises:
        SafetyError: a commit may be damaged, without ``or_warn``.
        NotATableError: there is no log.
        LogGapError: the latest version is asked for, and the newest commits were lost.
        VersionNotFoundError: the version is outside the log; the message has the range.
        CorruptLogError: the log is damaged.
        UnsupportedFeatureError: a table feature forbids it.
        UsageError: a property does not fit the columns.
    """
    version = options.version
    with naming(source.uri):
        if version is None and options.timestamp_ms is None:
            source.ensure_newest()
        else:
            source.ensure_exists()
        if options.timestamp_ms is not None:
            version = source.version_at(source.snapshot().metadata, options.timestamp_ms)
        if version is not None:
            source.ensure_has(version)
        snapshot = load_audited(source, version, or_warn=or_warn)
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.CLONE)
    named = parse_properties(options.properties).get(STATS_COLUMNS_KEY)
    if named is not None:
        ensure_stats_columns(snapshot.metadata.data_schema, named)
    return snapshot


def digest_commit(reader: CommitReader, file: FileInfo | None) -> str | None:
    """Return the SHA-256 of a commit; ``None`` without a file.

    Raises:
        ObjectNotFoundError: a log cleanup deleted it.
    """
    return None if file is None else sha256(reader.read_one(file).data).hexdigest()


def plan_clone(snapshot: Snapshot, options: CloneOptions, table_id: str, now_ms: int) -> ClonePlan:
    """Choose the files, and their names in the target.

    Raises:
        PredicateError: ``where`` is not about partition columns.
        SafetyError: two files would have the same name in the target, or properties do not fit.
    """
    source, where = snapshot.store, None
    if options.where is not None:
        where = parse_predicate(options.where, snapshot.metadata.partition_fields, now_ms)
    with naming(source.uri):
        files = pa.concat_tables(list(_choose_files(snapshot, where)))
    copies = COPY_SCHEMA.empty_table()
    if options.deep:
        files, copies = _relative_files(source, files)
    else:
        files = _absolute_files(source, files)
    return ClonePlan(
        root_text(source),
        snapshot.version,
        snapshot.metadata.id,
        digest_commit(snapshot.reader, snapshot.segment.commit),
        options.deep,
        None if where is None else where.sql,
        options.where,
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
    properties = parse_properties(properties)
    folded = {key.lower() for key in properties}
    kept = {key: value for key, value in configuration.items() if key.lower() not in folded}
    metadata = replace(source, id=table_id, configuration=kept | properties)
    if not properties.keys().isdisjoint((MANIFESTS_KEY, "delta.enableDeletionVectors")):
        ensure_manifests_fit(metadata)
    return metadata


def _clone_protocol(source: Protocol, properties: Mapping[str, str]) -> Protocol:
    """Return the source's protocol, with the features that properties need."""
    source = without_features(source, *CATALOG_MANAGED)  # the clone belongs to no catalog
    needed = list_property_features(properties) - list_features(source)
    return merge_protocols(source, choose_protocol(needed)) if needed else source


def _clone_domains(source: Snapshot) -> tuple[DomainMetadata, ...]:
    """Return the domains that are copied: clustering columns, and the high-water mark of row ids.

    Other domains belong to their writers and describe the source.
    """
    found = (source.domains.get(name) for name in (ROW_TRACKING_DOMAIN, CLUSTERING_DOMAIN))
    return tuple(domain for domain in found if domain is not None and not domain.removed)


def names_of(files: pa.Table) -> pa.ChunkedArray:
    """Return the paths of files, then the names of their deletion vectors."""
    vectors = vector_files(files["deletion_vector"]).drop_null()
    return pa.chunked_array([*files["path"].chunks, *vectors.chunks], pa.string())


def _absolute_files(source: Store, files: pa.Table) -> pa.Table:
    """Return files of a source with absolute paths, and stored vectors with absolute addresses.

    ``files`` are rows of ``ADD_SCHEMA``.
    """
    root = root_text(source)
    inside = pc.invert(absolute_mask(files["path"]))
    files = _joined(files, "path", inside, root)
    files = _joined(files, "encoded_path", inside, encode_path(root))
    return _set_vectors(files, lambda vector: _absolute_vector(vector, root))


def _joined(files: pa.Table, column: str, mask: pa.ChunkedArray, root: str) -> pa.Table:
    """Put the root before the relative names of a column."""
    names = files[column]
    full = pc.binary_join_element_wise(root.rstrip("/"), names, "/")
    return replace_column(files, column, pc.if_else(mask, full, names))


def _absolute_vector(vector: DeletionVector, root: str) -> tuple[str, str]:
    if vector.storage_type != UUID_RELATIVE:
        return vector.storage_type, vector.path_or_inline_dv
    return ABSOLUTE, encode_path(f"{root.rstrip('/')}/{vector.file_name}")


def _relative_files(source: Store, files: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return files of a source as files of a deep clone, and the copies (``COPY_SCHEMA``).

    ``files`` are rows of ``ADD_SCHEMA``.
    """
    named = with_relative_names(source, files)
    if pc.any(absolute_mask(files["path"])).as_py():
        _ensure_distinct(named["path"], files)
    nothing = pa.nulls(files.num_rows, pa.int64())
    columns = [files["path"], named["path"], files["size_bytes"], nothing, nothing]
    vectors = _vector_copies(files["deletion_vector"], named["deletion_vector"])
    copies = pa.concat_tables([pa.table(columns, schema=COPY_SCHEMA), vectors])
    return named, _once(copies)


def with_relative_names(source: Store, files: pa.Table) -> pa.Table:
    """Return files of a source with their paths and vectors in a deep clone."""
    is_absolute = absolute_mask(files["path"])
    if pc.any(is_absolute).as_py():
        scheme = parse_scheme(source.uri) or "file"
        found = canonical_paths(files["path"].filter(is_absolute), scheme).to_pylist()
        new = pa.array([_own_name(name) for name in found], pa.string())
        mask = is_absolute.combine_chunks()
        for name in ("path", "encoded_path"):
            column = pc.replace_with_mask(files[name].combine_chunks(), mask, new)
            files = replace_column(files, name, pa.chunked_array([column]))
    return _set_vectors(files, lambda vector: _relative_vector(vector, source))


def _once(copies: pa.Table) -> pa.Table:
    """Return each file once, even if several vectors share it."""
    facts = [(name, "max") for name in COPY_SCHEMA.names[2:]]
    # With threads, each run would copy the files in another order.
    grouped = copies.group_by(["source", "target"], use_threads=False).aggregate(facts)
    return grouped.rename_columns(COPY_SCHEMA.names)


def _vector_copies(before: pa.ChunkedArray, after: pa.ChunkedArray) -> pa.Table:
    """Return the files of stored vectors to copy, of unknown size."""
    sources, targets = vector_files(before), vector_files(after)
    nothing = pa.nulls(len(sources), pa.int64())
    columns = [sources, targets, nothing, nothing, vector_ends(before)]
    return pa.table(columns, schema=COPY_SCHEMA).filter(pc.is_valid(sources))


def _own_name(address: str) -> str:
    """Return the name in a deep clone of a data file with an absolute address."""
    ending = posixpath.splitext(posixpath.basename(address))[1]
    ending = ending if ending.isascii() and ending[1:].isalnum() else ".parquet"
    return f"clone-{sha256(address.encode()).hexdigest()[:32]}{ending}"


def _relative_vector(vector: DeletionVector, source: Store) -> tuple[str, str]:
    if vector.storage_type != ABSOLUTE:
        return vector.storage_type, vector.path_or_inline_dv
    scheme = parse_scheme(source.uri) or "file"
    name = decode_path(vector.path_or_inline_dv)
    (address,) = canonical_paths(pa.array([name]), scheme).to_pylist()
    return UUID_RELATIVE, z85_encode(UUID(bytes=sha256(address.encode()).digest()[:16]).bytes)


def _set_vectors(files: pa.Table, change: Callable[[DeletionVector], tuple[str, str]]) -> pa.Table:
    """Replace storage type and path of each distinct stored vector."""
    column = files["deletion_vector"]
    if column.null_count == len(column):
        return files
    vectors = column.combine_chunks()
    kinds = pc.struct_field(vectors, "storage_type")
    texts = pc.struct_field(vectors, "path_or_inline_dv")
    coded = pc.binary_join_element_wise(kinds, texts, "").dictionary_encode()
    changed = [
        change(DeletionVector(text[:1], text[1:], None, 0, 0))
        for text in coded.dictionary.to_pylist()
    ]
    new_kinds = pa.array([kind for kind, _ in changed], pa.string()).take(coded.indices)
    new_texts = pa.array([text for _, text in changed], pa.string()).take(coded.indices)
    fields = [vectors.type.field(i) for i in range(vectors.type.num_fields)]
    new = {"storage_type": new_kinds, "path_or_inline_dv": new_texts}
    arrays = [new.get(field.name, pc.struct_field(vectors, field.name)) for field in fields]
    rebuilt = pa.StructArray.from_arrays(arrays, fields=fields, mask=pc.is_null(vectors))
    return replace_column(files, "deletion_vector", pa.chunked_array([rebuilt]))


def _ensure_distinct(paths: pa.ChunkedArray, files: pa.Table) -> None:
    """Refuse a source with two addresses of one file: a clone would have its rows once."""
    if pc.count_distinct(paths).as_py() != pc.count_distinct(files["encoded_path"]).as_py():
        raise SafetyError(
            "the log of the source has two different absolute addresses for one file, so readers "
            "return its rows twice. A clone would have these rows only once",
            hint="Run `deltactl optimize` on the source, then clone it.",
        )
