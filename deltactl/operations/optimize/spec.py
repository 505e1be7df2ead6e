"""Define the values that all bins share: schema, codec, statistics, row tracking."""

from __future__ import annotations

from dataclasses import replace

from deltactl.errors import UnsupportedFeatureError
from deltactl.log.snapshot import Snapshot
from deltactl.operations.optimize.copy_candidates import (
    build_copy_rule,
    demanded_codec,
    table_reader,
    table_stats,
)
from deltactl.operations.optimize.input_columns import explain_columns
from deltactl.operations.optimize.known_stats import mergeable_leaves
from deltactl.operations.optimize.options import DEFAULT_CODEC, OptimizeOptions
from deltactl.operations.optimize.plan import OptimizePlan
from deltactl.operations.optimize.purged_files import state_of_written
from deltactl.operations.optimize.tasks import RewriteSpec
from deltactl.operations.optimize.undecoded import UndecodedColumns
from deltactl.operations.row_proofs import row_tracking_columns, stored_schema
from deltactl.operations.run_context import RunContext
from deltactl.operations.uploads import find_uploading_run
from deltactl.parquet.reader import RowReader
from deltactl.parquet.writer import DEFAULT_ROW_GROUP_BYTES, WriteOptions
from deltactl.protocol.schema import StructType, variant_groups

_LEAST_ROW_GROUP_BYTES = 4 << 20


def build_spec(
    snapshot: Snapshot,
    plan: OptimizePlan,
    options: OptimizeOptions,
    run_id: str,
    context: RunContext,
) -> RewriteSpec:
    """Decide everything that does not depend on the bin.

    Raises:
        CorruptLogError: row tracking is enabled without its columns' names.
    """
    after = state_of_written(snapshot, options.purged)
    return RewriteSpec(
        table_uri=snapshot.store.uri,
        storage_options=context.storage_options,
        run_id=run_id,
        reader=_reader(snapshot, after),
        explained=explain_columns(snapshot),
        write_options=_write_options(after, plan, options),
        stats_columns=table_stats(after),
        merged=mergeable_leaves(snapshot) if after is snapshot else (),
        verify=options.verify,
        row_tracking=row_tracking_columns(snapshot.metadata, snapshot.protocol),
        copy=build_copy_rule(snapshot, options),
        uploading=find_uploading_run(snapshot.store, run_id, context.clock),
        spill_dir=options.spill_dir,
        cancel=context.cancel if context.engine.is_local else None,
    )


def _reader(snapshot: Snapshot, after: Snapshot) -> RowReader:
    reader = table_reader(snapshot)
    if after is snapshot:
        return reader
    written = {field.name: field for field in table_reader(after).struct.fields}
    fields = tuple(written[field.name] for field in reader.fields.values())
    return replace(reader, written=StructType(fields))


def ensure_stored_columns(snapshot: Snapshot) -> None:
    """Refuse a table without a column that files store.

    Raises:
        UnsupportedFeatureError: there is none.
    """
    if not len(table_reader(snapshot).schema) and not UndecodedColumns.of(snapshot.metadata).fields:
        raise UnsupportedFeatureError("no column of the table is stored in its data files")


def _write_options(
    snapshot: Snapshot, plan: OptimizePlan, options: OptimizeOptions
) -> WriteOptions:
    return WriteOptions(
        codec=demanded_codec(snapshot, options) or DEFAULT_CODEC,
        level=options.codec_level,
        row_group_bytes=_row_group_bytes(options.memory_bytes, plan.layout is not None),
        data_page_version="2.0" if snapshot.properties.parquet_format_version >= "2" else "1.0",
        variants=variant_groups(stored_schema(snapshot.metadata, snapshot.protocol)),
    )


def _row_group_bytes(memory_bytes: int | None, places_rows: bool) -> int:
    """Return an eighth of the memory: each running bin holds a row group decoded and encoded.

    If rows are placed, it is a sixteenth: most of the memory is for rows that wait to be written.
    """
    if memory_bytes is None:
        return DEFAULT_ROW_GROUP_BYTES
    share = memory_bytes // (16 if places_rows else 8)
    return min(DEFAULT_ROW_GROUP_BYTES, max(_LEAST_ROW_GROUP_BYTES, share))
