"""Decide when row groups of a table are copied, and which files can only be copied."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import numpy as np
import pyarrow as pa

from deltactl.errors import DataFileError
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Flags
from deltactl.operations.optimize.candidates import Candidates, suspect_mask
from deltactl.operations.optimize.copy_rule import CopyRule, Refusal, Skip, classify, open_source
from deltactl.operations.optimize.exclusions import TARGET_TAG
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.undecoded import UndecodedColumns, adapt_options
from deltactl.operations.row_proofs import stored_reader, stored_schema
from deltactl.parquet.data_file import DataFile, iter_data_files
from deltactl.parquet.defaults import find_lacking, has_defaults
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.parquet.open_files import naming_file, read_deletion_vector
from deltactl.parquet.projection import Matcher
from deltactl.parquet.reader import RowReader
from deltactl.parquet.splice.copy_conditions import CopyRefusal, OutputSchema
from deltactl.parquet.splice.writer import ROOM_FOR_ROW_GROUPS, read_stored_columns
from deltactl.parquet.writer import WriteOptions
from deltactl.protocol.clustering import clustering_columns
from deltactl.protocol.partitions import lookup_map
from deltactl.protocol.schema import variant_groups
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf, choose_stats_columns
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import Store


def table_reader(snapshot: Snapshot) -> RowReader:
    """Return the reader of all columns that are decoded."""
    return stored_reader(snapshot.metadata, snapshot.protocol, for_rewrite=True)


def table_stats(snapshot: Snapshot) -> StatsColumns:
    """Return the statistics to write."""
    clustering = clustering_columns(snapshot.domains)
    chosen = choose_stats_columns(
        snapshot.metadata, snapshot.protocol, clustering=clustering, warn=snapshot.warn
    )
    return UndecodedColumns.of(snapshot.metadata).without_bounds(chosen)


def build_copy_rule(snapshot: Snapshot, options: OptimizeOptions) -> CopyRule | None:
    """Return when row groups are copied; ``None``: never."""
    min_bytes = adapt_options(snapshot.metadata, options).copies_from_bytes
    if min_bytes is None:
        return None
    reader, stats = table_reader(snapshot), table_stats(snapshot)
    any_codec = WriteOptions(
        variants=variant_groups(stored_schema(snapshot.metadata, snapshot.protocol))
    )
    undecoded = UndecodedColumns.of(snapshot.metadata)
    by_column: dict[str, list[StatsLeaf]] = {}
    for leaf in stats.leaves:
        if leaf.path[0] not in undecoded.names:
            by_column.setdefault(leaf.path[0], []).append(leaf)
    return CopyRule(
        OutputSchema(
            columns=read_stored_columns(reader.schema, any_codec),
            stats=stats,
            complete=frozenset(extra.name for extra in reader.extra),
            computed=frozenset(f.physical_name for f in snapshot.metadata.partition_fields),
            codec=demanded_codec(snapshot, options),
            by_column=by_column,
        ),
        min_bytes,
        undecoded,
    )


def demanded_codec(snapshot: Snapshot, options: OptimizeOptions) -> str | None:
    """Return the codec that outputs must have; ``None`` if the codec of the inputs is allowed."""
    return options.codec_name or snapshot.properties.compression_codec


def leave_lacking_defaults(candidates: Candidates, snapshot: Snapshot) -> None:
    """Exclude files that lack a column with an existence default, for which readers differ.

    A rewritten file would have the column, with nulls. If a column of the table has such a default,
    this reads the footers of all candidates.
    """
    metadata = snapshot.metadata
    if not has_defaults(metadata.data_schema):
        return
    matcher = Matcher(metadata.column_mapping_mode)

    def lacks(fact: tuple[str, int]) -> bool:
        # A broken file is reported by its bin.
        with suppress(DataFileError), naming_file(fact[0]):
            schema = parse_footer(snapshot.store, *fact).metadata.schema.to_arrow_schema()
            return find_lacking(metadata.data_schema, schema, matcher) is not None
        return False

    rows = np.flatnonzero(candidates.mask)
    files = candidates.files.select(["path", "size_bytes"]).take(pa.array(rows)).to_pydict()
    facts = zip(files["path"], files["size_bytes"], strict=True)
    mask = np.zeros(len(candidates.mask), np.bool_)
    mask[rows] = np.fromiter(each_in_parallel(lacks, facts), np.bool_, len(rows))
    candidates.leave(mask, "lacks a column with EXISTS_DEFAULT")


def separate_undecoded(
    candidates: Candidates, snapshot: Snapshot, options: OptimizeOptions
) -> None:
    """Exclude files that cannot be copied; files with other columns or types get other bins.

    If a type of the table is not decoded, or variants may be shredded, this reads the footers of
    all candidates. Files without shredded variants are decoded, and files of other writers that
    alone in their partition are shredded in their way.
    """
    undecoded = UndecodedColumns.of(snapshot.metadata)
    if not (candidates.mask.any() and (undecoded.fields or undecoded.variants)):
        return
    rule = build_copy_rule(snapshot, options)
    if rule is None:
        return
    suspect = suspect_mask(candidates.files["deletion_vector"])
    if undecoded.fields:
        candidates.leave(suspect, "deletion vector not valid")
    rows = np.flatnonzero(candidates.mask & ~suspect)  # their bins fail, with the reason
    files = iter_data_files(candidates.files.take(pa.array(rows)))
    judge = partial(_judge, snapshot.store, rule)
    shapes: dict[bytes | CopyRefusal, int] = {}
    for row, (shape, num_groups) in zip(rows, each_in_parallel(judge, files), strict=True):
        candidates.shapes[row] = shapes.setdefault(shape, len(shapes) + 1)
        candidates.row_groups[row] = num_groups
    if not undecoded.fields:
        _decode_others(candidates, shapes)
        return
    for shape, number in shapes.items():
        if isinstance(shape, CopyRefusal):
            mask = candidates.mask & (candidates.shapes == number)
            candidates.leave(mask, f"cannot be copied: {shape} ({undecoded.explain()})")


def _decode_others(candidates: Candidates, shapes: Mapping[bytes | CopyRefusal, int]) -> None:
    """Let files be decoded that do not stay shredded, because others are not alike."""
    decoded = [n for shape, n in shapes.items() if isinstance(shape, CopyRefusal) or not shape]
    _decode(candidates, np.isin(candidates.shapes, decoded))
    keys = np.stack([candidates.groups.ids, candidates.shapes])
    _, places, counts = np.unique(
        keys[:, candidates.mask], axis=1, return_inverse=True, return_counts=True
    )
    alone = np.zeros(len(candidates.mask), np.bool_)
    alone[candidates.mask] = counts[places.ravel()] == 1
    is_ours = lookup_map(candidates.files["tags"], TARGET_TAG).is_valid()
    _decode(candidates, alone & ~np.asarray(is_ours))


def _decode(candidates: Candidates, mask: Flags) -> None:
    candidates.shapes[mask] = candidates.row_groups[mask] = 0


def _judge(store: Store, rule: CopyRule, file: DataFile) -> tuple[bytes | CopyRefusal, int]:
    """Return how a file stores the columns that are not decoded, or why it cannot be copied.

    Return also the number of row groups with live rows.
    """
    try:
        source, deleted = open_source(store, file), read_deletion_vector(store, file)
    except DataFileError:
        return CopyRefusal.INVALID, 0
    try:
        rule = rule.of_file(source)
    except DataFileError:
        return CopyRefusal.TYPE, 0
    if not (rule.target.columns or rule.target.undecoded):
        return CopyRefusal.MISSING, 0
    num_groups = 0
    for group in source.groups:
        found = classify(rule, source, group, deleted, room=ROOM_FOR_ROW_GROUPS - num_groups)
        if isinstance(found, Refusal):
            return found.reasons[0], 0
        if not isinstance(found, Skip):
            if (reason := rule.find_refusal(found)) is not None:
                return reason, 0
            if not rule.undecoded.fields and rule.has_other_codec(source, group):
                return CopyRefusal.CODEC, 0
            num_groups += 1
    return rule.shape, num_groups
