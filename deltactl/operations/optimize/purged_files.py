"""Find the files that a purge rewrites, by their footers where the log does not tell.

Source: ``REORG TABLE ... APPLY (PURGE)`` and ``ALTER TABLE ... DROP FEATURE`` of Delta on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError, UnsupportedFeatureError
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Flags
from deltactl.operations.optimize.options import Purged
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.parquet.nested import walk_leaves
from deltactl.parquet.open_files import naming_file
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.clustering import clustering_columns
from deltactl.protocol.column_ids import without_mapping
from deltactl.protocol.features import forbids_vectors
from deltactl.protocol.partition_texts import find_malformed
from deltactl.protocol.partitions import lookup_map
from deltactl.protocol.schema import (
    TYPE_CHANGES_KEY,
    Field,
    StructType,
    is_decoded,
    is_void,
    walk_fields,
)
from deltactl.protocol.schema_rules import UNFIT_NAME
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import Store

Leaves: TypeAlias = Mapping[str, pa.DataType]
"""The type of each Parquet column, by its dotted name."""

_FILES_AT_A_TIME: Final = 10_000


def purge_mask(snapshot: Snapshot, files: pa.Table, purged: Purged) -> Flags:
    """Return a mask of the files to rewrite; footers are read if the schema may have changed."""
    if purged == "old types":
        by_footer = _mask_by_footer(snapshot, files, _types_differ(snapshot))
        return by_footer | _mask_by_values(snapshot, files)
    if purged == "other names":
        return _renamed_mask(snapshot, files)
    vectors = files["deletion_vector"]
    if purged == "vectors":
        return np.asarray(vectors.is_valid())
    cardinality = pc.struct_field(vectors, "cardinality")
    unknown = files["num_records"].is_null()
    deleted = pc.and_(vectors.is_valid(), pc.or_(unknown, pc.greater(cardinality, 0)))
    mask = np.asarray(pc.fill_null(deleted, False)).copy()
    if snapshot.metadata.column_mapping_mode == "none":
        return mask  # without column mapping no column can be dropped
    known = _hidden(snapshot).union(_list_leaves(snapshot.metadata))
    rows = np.flatnonzero(~mask)
    rest = files.take(pa.array(rows))
    mask[rows] = _mask_by_footer(snapshot, rest, lambda found: bool(found.keys() - known))
    return mask


def state_of_written(snapshot: Snapshot, purged: Purged) -> Snapshot:
    """Return the snapshot with the metadata that the table has after the commit."""
    if purged != "other names":
        return snapshot
    return replace(snapshot, metadata=without_mapping(snapshot.metadata))


def _renamed_mask(snapshot: Snapshot, files: pa.Table) -> Flags:
    """Return a mask of the files of which a reader without column mapping reads other values."""
    _ensure_can_end_mapping(snapshot)
    before = snapshot.metadata
    after = without_mapping(before)
    if before.column_mapping_mode == "id" or before.partition_keys != after.partition_keys:
        return np.ones(files.num_rows, np.bool_)
    # In pairs: by renames, one column can have the name that another one has in files.
    pairs = zip(_list_leaves(before), _list_leaves(after), strict=True)
    known = _hidden(snapshot) | {old for old, new in pairs if old == new}
    return _mask_by_footer(snapshot, files, lambda found: bool(found.keys() - known))


def _ensure_can_end_mapping(snapshot: Snapshot) -> None:
    """Refuse names that files cannot have, and what finds columns by their physical names."""
    metadata = snapshot.metadata
    names = [f.name for f in walk_fields(metadata.schema) if UNFIT_NAME.search(f.name)]
    if names:
        raise SafetyError(
            f"column mapping cannot be removed: {', '.join(map(repr, names))} would be invalid "
            "names of columns",
            hint="Give them other names first. Without column mapping, names have none of the "
            "characters ' ,;{}()=', tabs and line ends.",
        )
    if forbids_vectors(metadata):
        raise SafetyError(
            "column mapping cannot be removed: the table is also for readers of Iceberg",
            hint="Use Delta on Spark to turn off IcebergCompat first.",
        )
    undecoded = [f.name for f in metadata.data_schema.fields if not is_decoded(f.type)]
    if undecoded:
        raise UnsupportedFeatureError(
            f"column mapping cannot be removed by deltactl: the types of {', '.join(undecoded)} "
            "are not decoded",
            hint="Use Delta on Spark: ALTER TABLE DROP FEATURE.",
        )
    clustered = {path[0] for path in clustering_columns(snapshot.domains)}
    if clustered - {f.name for f in metadata.schema.fields if f.physical_name == f.name}:
        raise SafetyError(
            "column mapping cannot be removed: the clustering columns have physical names",
            hint="Use Delta on Spark first: ALTER TABLE CLUSTER BY NONE.",
        )


def _mask_by_footer(
    snapshot: Snapshot, files: pa.Table, is_purged: Callable[[Leaves], bool]
) -> Flags:
    masks = [np.empty(0, np.bool_)]
    # In parts, so that not all names become Python objects at the same time.
    for start in range(0, files.num_rows, _FILES_AT_A_TIME):
        asked = files.select(["path", "size_bytes"]).slice(start, _FILES_AT_A_TIME).to_pydict()
        facts = zip(asked["path"], asked["size_bytes"], strict=True)
        found = each_in_parallel(lambda fact: is_purged(_leaves(snapshot.store, *fact)), facts)
        masks.append(np.fromiter(found, np.bool_, len(asked["path"])))
    return np.concatenate(masks)


def _types_differ(snapshot: Snapshot) -> Callable[[Leaves], bool]:
    """Return whether a file stores a column whose type was changed with another type.

    A column that is not found by its name can be there under another one only in the mode ``id``.
    """
    metadata = snapshot.metadata
    by_id = metadata.column_mapping_mode == "id"
    wanted = {
        name.lower(): kind
        for field in metadata.data_schema.fields
        if any(TYPE_CHANGES_KEY in f.metadata for f in walk_fields(StructType((field,))))
        for name, kind in _leaves_of(field).items()
    }

    def differ(found: Leaves) -> bool:
        folded = {name.lower(): kind for name, kind in found.items()}
        return any(folded.get(name, None if by_id else k) != k for name, k in wanted.items())

    return differ


def _mask_by_values(snapshot: Snapshot, files: pa.Table) -> Flags:
    """Return a mask of the files with a partition value in the form of the type it had before."""
    mask = np.zeros(files.num_rows, np.bool_)
    for field in snapshot.metadata.partition_fields:
        if TYPE_CHANGES_KEY in field.metadata:
            texts = lookup_map(files["partition_values"], field.physical_name)
            old = find_malformed(pc.unique(texts).drop_null(), arrow_type(field.type))
            mask |= np.asarray(pc.is_in(texts, value_set=pa.array(old, pa.string())))
    return mask


def _hidden(snapshot: Snapshot) -> set[str]:
    return {name for name in snapshot.properties.row_tracking_columns if name}


def _list_leaves(metadata: Metadata) -> list[str]:
    fields = (field for field in metadata.schema.fields if not is_void(field.type))
    return [name for field in fields for name in _leaves_of(field)]


def _leaves_of(field: Field) -> Leaves:
    return _arrow_leaves(field.physical_name, arrow_type(field.type, "physical"))


def _leaves(store: Store, path: str, size_bytes: int) -> Leaves:
    with naming_file(path):
        schema = parse_footer(store, path, size_bytes).metadata.schema.to_arrow_schema()
    leaves: dict[str, pa.DataType] = {}
    for field in schema:
        leaves |= _arrow_leaves(field.name, field.type)
    return leaves


def _arrow_leaves(prefix: str, kind: pa.DataType) -> dict[str, pa.DataType]:
    return {".".join(leaf.path): leaf.type for leaf in walk_leaves(kind, (prefix,))}
