"""The worker of a bin: copy or encode the live rows of its files into one file, verify.

Runs on any engine: a task is a small picklable value, the store is opened by URI in the worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.engine.base import CancelToken
from deltactl.engine.cores import count_own_cores, find_byte_counter, may_get_cores, release_core
from deltactl.errors import DataFileError, DeltactlError, VerificationError
from deltactl.log.writing.actions import NewFile
from deltactl.operations.optimize.copy_rule import (
    Copy,
    CopyRule,
    Encode,
    Skip,
    Step,
    open_source,
    open_sources,
    plan_steps,
)
from deltactl.operations.optimize.input_columns import InputColumns
from deltactl.operations.optimize.known_stats import merge_known_stats
from deltactl.operations.optimize.rewrite_counts import RewriteCounts
from deltactl.operations.optimize.verify import ensure_equal_rows, ensure_nulls, keep_row_ids
from deltactl.operations.row_proofs import RowTrackingColumns
from deltactl.operations.uploads import UploadingRun, note_uploads
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.digest import RowDigest
from deltactl.parquet.facts import FactCollector
from deltactl.parquet.nested import walk_leaves
from deltactl.parquet.null_counts import count_nulls
from deltactl.parquet.open_files import open_in_turn, read_deletion_vector
from deltactl.parquet.reader import LiveBatch, RowReader
from deltactl.parquet.splice.copy_conditions import CopyRefusal
from deltactl.parquet.splice.source import Source
from deltactl.parquet.splice.writer import ROOM_FOR_ROW_GROUPS, GroupCopy, SpliceWriter
from deltactl.parquet.writer import DataFileWriter, WriteOptions, WrittenFile
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf
from deltactl.storage.names import is_local_uri
from deltactl.storage.open import open_existing
from deltactl.storage.store import Store

# Each chunk takes a millisecond of one thread. To encode 1 MiB on two cores saves about as much.
_LEAST_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RewriteSpec:
    """The values that all bins of a run share; without ``copy``, all row groups are encoded.

    ``explained``: see ``explain_columns``. ``merged``: the leaves whose statistics are merged.
    ``cancel`` ends clusters that are being placed, only in this process.
    """

    table_uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    run_id: str
    reader: RowReader
    write_options: WriteOptions
    stats_columns: StatsColumns
    verify: Literal["counts", "full"]
    explained: frozenset[str] | None
    row_tracking: RowTrackingColumns | None = None
    copy: CopyRule | None = None
    merged: tuple[StatsLeaf, ...] = ()
    uploading: UploadingRun | None = None
    spill_dir: str | None = None
    cancel: CancelToken | None = None


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """One bin: its files in order, and the output directory (with slash, or empty).

    ``only_copied``: whether it has columns that are not decoded, stored in the same way.
    ``known_stats``: statistics of all files that may be merged; none if rows of a file are deleted.
    """

    number: int
    folder: str
    files: tuple[DataFile, ...]
    partition_values: Mapping[str, str | None]
    tags: Mapping[str, str]
    only_copied: bool = False
    known_stats: tuple[Mapping[str, Any] | None, ...] = ()


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """The result of a task: no output if no row was live.

    The output has the live rows of the inputs in order. ``inputs`` has a row for each input, in the
    order of the task's files: ``first_row`` (the position in the output of its first live row) and
    ``physical_rows`` (including deleted rows). If rows were moved between files, ``inputs`` is
    ``None``, and ``digest`` is the row digest, which is the same before and after.
    """

    outputs: tuple[NewFile, ...]
    inputs: pa.RecordBatch | None
    groups: RewriteCounts
    digest: RowDigest | None = None


def rewrite_files(spec: RewriteSpec, task: RewriteTask, attempt: int) -> RewriteResult:
    """Rewrite a bin; delete the output if it fails.

    Raises:
        DataFileError: an input is missing or broken.
        VerificationError: the output differs from the input.
    """
    store = note_uploads(open_existing(spec.table_uri, spec.storage_options), spec.uploading)
    name = name_output(spec, task, attempt)
    spec = _spec_of_bin(store, spec, task)
    counts = _Counts(InputColumns(spec.reader, spec.explained))
    if _is_copied_by_service(spec, task):
        release_core()
    with _open_writer(store, name, spec, task) as writer, ExitStack() as stack:
        rule = spec.copy if isinstance(writer, SpliceWriter) else None
        # Files that may be copied are opened only when it is known that they are not.
        leave = rule.may_copy if rule is not None else lambda _: False
        opened = stack.enter_context(closing(open_in_turn(store, task.files, leave)))
        sources = stack.enter_context(closing(open_sources(store, rule, task.files)))
        for entry in zip(task.files, opened, sources, strict=True):
            _rewrite_file(store, spec, entry, writer=writer, counts=counts)
        # A full verification decodes all rows again.
        written = writer.close() if spec.verify == "full" else writer.close(release_core)
    try:
        _ensure_counts(name, counts, written)
        _ensure_columns(store, spec, task.files, counts)
        if spec.verify == "full":
            ensure_equal_rows(store, spec.reader, task.files, name, spec.row_tracking)
        if not written.num_rows:
            store.delete_many([name])
            return RewriteResult((), counts.inputs(), counts.groups)
        output = new_file(store, task, written)
    except BaseException:
        with suppress(DeltactlError):  # the first error is raised
            store.delete_many([name])
        raise
    return RewriteResult((output,), counts.inputs(), counts.groups)


def _spec_of_bin(store: Store, spec: RewriteSpec, task: RewriteTask) -> RewriteSpec:
    """Add the columns that are not decoded: all files of a bin store them in the same way."""
    if spec.copy is None or not (task.only_copied or spec.copy.undecoded.fields):
        return spec
    rule = spec.copy.of_file(open_source(store, task.files[0]))
    names = {column.name for column in rule.target.undecoded}
    return replace(
        spec,
        copy=rule,
        reader=spec.reader.select(set(spec.reader.schema.names) - names),
        write_options=replace(spec.write_options, undecoded=rule.target.undecoded),
        explained=None if spec.explained is None else spec.explained | names,
    )


def name_output(spec: RewriteSpec, task: RewriteTask, attempt: int, file: str = "000") -> str:
    """Return the name of an output; its parts are found again by ``find_orphaned_outputs``."""
    suffix = "" if spec.write_options.codec == "none" else f".{spec.write_options.codec}"
    return f"{task.folder}part-{task.number:05d}-{spec.run_id}-{attempt}.c{file}{suffix}.parquet"


_Opened = tuple[DataFile, pa.NativeFile | None, Source | DataFileError | None]
"""A file, and its data (if it is too small to be copied), its footer, or the footer error."""


@dataclass(slots=True)
class _Counts:
    """Counts of the input: live rows, and nulls by column; rows of each file that ended.

    ``columns`` has the nulls by the footers.
    """

    columns: InputColumns
    rows: int = 0
    nulls: Counter[str] = field(default_factory=Counter)
    first_rows: list[int] = field(default_factory=list)
    physical_rows: list[int] = field(default_factory=list)
    groups: RewriteCounts = field(default_factory=RewriteCounts)

    def add(self, columns: pa.RecordBatch) -> None:
        self.rows += columns.num_rows
        for name, column in zip(columns.schema.names, columns.columns, strict=True):
            self.nulls[name] += count_nulls(column)

    @contextmanager
    def comparing(
        self,
        footer: pq.FileMetaData,
        path: str,
        source: Source | DataFileError | pa.NativeFile,
        *,
        is_whole: bool,
    ) -> Iterator[None]:
        """Add the nulls of a file that is read in this context, from its footer.

        If not all rows are read here, add the nulls that the reader finds.
        """
        self.columns.add(footer, path, counts=is_whole, source=source)
        if is_whole:
            yield
            return
        before = Counter(self.nulls)
        yield
        self.columns.nulls += self.nulls - before

    def inputs(self) -> pa.RecordBatch:
        """Return the table of ``RewriteResult.inputs``."""
        columns = {"first_row": self.first_rows, "physical_rows": self.physical_rows}
        return pa.record_batch({name: pa.array(n, pa.int64()) for name, n in columns.items()})

    def end_file(self, file: DataFile, first_row: int, physical_rows: int) -> None:
        """Check the number of live rows against the cardinality of the deletion vector."""
        self.first_rows.append(first_row)
        self.physical_rows.append(physical_rows)
        ensure_live_rows(file, physical_rows, self.rows - first_row)


def ensure_live_rows(file: DataFile, physical_rows: int, live: int) -> None:
    """Check the number of live rows that were read against the cardinality of the deletion vector.

    Raises:
        VerificationError: they differ.
    """
    vector = file.deletion_vector
    expected = physical_rows - (0 if vector is None else vector.cardinality)
    if live != expected:
        raise VerificationError(
            f"{file.path!r} has {physical_rows} rows of which {physical_rows - expected} are "
            f"deleted, but {live} live rows were read"
        )


def _open_writer(
    store: Store, name: str, spec: RewriteSpec, task: RewriteTask
) -> DataFileWriter | SpliceWriter:
    """Return a writer that copies only if an input is large enough for it.

    The same writer can encode columns on several cores. The other one needs less memory, and less
    time for each column chunk.
    """
    rule = spec.copy
    copies = rule is not None and any(map(rule.may_copy, task.files))
    arguments = (store, name, spec.reader.schema, spec.write_options, _merge_stats(spec, task))
    if copies or (may_get_cores() and _has_large_chunks(spec, task)):
        return SpliceWriter(*arguments, copies=copies, count_cores=count_own_cores)
    return DataFileWriter(*arguments)


def _merge_stats(spec: RewriteSpec, task: RewriteTask) -> StatsColumns:
    """Return the statistics to write, with those that are merged from the inputs."""
    stats, known = spec.stats_columns, merge_known_stats(spec.merged, task.known_stats)
    more = (leaf for leaf in spec.merged if leaf.path in known and leaf not in stats.leaves)
    return replace(stats, leaves=(*stats.leaves, *more), known=known)


def _has_large_chunks(spec: RewriteSpec, task: RewriteTask) -> bool:
    """Return whether the chunks of a full row group, or of the whole bin, are large on average."""
    input_bytes = sum(file.size_bytes for file in task.files)
    num_leaves = sum(1 for member in spec.reader.schema for _ in walk_leaves(member.type))
    return min(spec.write_options.row_group_bytes, input_bytes) >= _LEAST_CHUNK_BYTES * num_leaves


def _is_copied_by_service(spec: RewriteSpec, task: RewriteTask) -> bool:
    """Return whether an object store copies all or most bytes of a bin."""
    rule = spec.copy
    return (
        rule is not None
        and not is_local_uri(spec.table_uri)
        and all(map(rule.may_copy, task.files))
    )


def _rewrite_file(
    store: Store,
    spec: RewriteSpec,
    entry: _Opened,
    *,
    writer: DataFileWriter | SpliceWriter,
    counts: _Counts,
) -> None:
    """Append the live rows of a file."""
    file, data, source = entry
    first_row, physical_rows = counts.rows, 0
    deleted = read_deletion_vector(store, file)
    with ExitStack() as stack:
        # A file that is copied as a whole is never opened.
        opened = cache(lambda: stack.enter_context(spec.reader.open(store, file, data)))
        if source is None or isinstance(source, DataFileError):
            _ensure_decoded(spec, file)
            steps: Sequence[Step] = [_encode_whole(spec, file, source, opened, counts)]
        else:
            assert isinstance(writer, SpliceWriter) and spec.copy is not None  # noqa: S101, PT018
            room = ROOM_FOR_ROW_GROUPS - writer.num_groups
            steps = plan_steps(
                store, spec.copy, source, deleted,
                counts=counts.groups, is_local=writer.is_local, room=room,
            )  # fmt: skip
        is_whole = deleted is None and all(isinstance(step, Encode) for step in steps)
        footer = source.metadata if isinstance(source, Source) else opened().metadata
        counted = data if source is None else source
        assert counted is not None
        stack.enter_context(counts.comparing(footer, file.path, counted, is_whole=is_whole))
        count_bytes, row_bytes = find_byte_counter(), file.size_bytes / max(footer.num_rows, 1)
        for step in steps:
            if isinstance(step, Skip):
                physical_rows += step.num_rows
            elif isinstance(step, Copy):
                assert isinstance(writer, SpliceWriter)  # noqa: S101 - only it has such steps
                writer.copy(_prepare_copy(spec, file, opened, step))
                counts.rows += step.group.num_rows
                physical_rows += step.group.num_rows
                count_bytes(int(step.group.num_rows * row_bytes))
            else:
                use_threads = count_own_cores() > 1
                batches = spec.reader.read_groups(
                    opened(), file, deleted, step.groups, use_threads=use_threads
                )
                for live in batches:
                    columns = with_row_ids(spec, file, live)
                    counts.add(columns)
                    physical_rows += live.num_physical_rows
                    count_bytes(int(live.num_physical_rows * row_bytes))
                    if columns.num_rows:
                        writer.write(columns)
    counts.end_file(file, first_row, physical_rows)


def _ensure_decoded(spec: RewriteSpec, file: DataFile) -> None:
    if spec.copy is not None and spec.copy.only_copies:
        raise DataFileError(f"{file.path!r} cannot be copied, and {spec.copy.undecoded.explain()}")


def _encode_whole(
    spec: RewriteSpec,
    file: DataFile,
    error: DataFileError | None,
    opened: Callable[[], pq.ParquetFile],
    counts: _Counts,
) -> Step:
    """Return the step for a file that is not copied, and count it."""
    if error is None:
        reason = CopyRefusal.SMALL
        if spec.copy is None:
            reason = CopyRefusal.of_all(spec.write_options.level)
        counts.groups.encode(opened().num_row_groups, file.size_bytes, [reason])
    else:
        # If Arrow can still read the file, it is encoded; else the encoding fails with the reason.
        counts.groups.encode(1, file.size_bytes, [CopyRefusal.INVALID])
    return Encode(None)


def with_row_ids(spec: RewriteSpec, file: DataFile, live: LiveBatch) -> pa.RecordBatch:
    """Return live rows with their row ids, if the table keeps them."""
    return (
        live.columns if spec.row_tracking is None else keep_row_ids(live, file, spec.row_tracking)
    )


def _prepare_copy(
    spec: RewriteSpec, file: DataFile, opened: Callable[[], pq.ParquetFile], step: Copy
) -> GroupCopy:
    """Read the columns of a row group that are encoded, and those that statistics need."""
    groups = [step.group.index]
    beside = facts = None
    if step.choice.encoded:
        reader = spec.reader.select(step.choice.encoded.keys())
        batches = (
            with_row_ids(spec, file, live) if reader.extra else live.columns
            for live in reader.read_groups(opened(), file, None, groups)
        )
        beside = pa.Table.from_batches(batches, reader.schema)
    if step.sampled:
        reader = spec.reader.select(set(step.sampled))
        facts = FactCollector(reader.schema, spec.stats_columns)
        for live in reader.read_groups(opened(), file, None, groups):
            facts.collect(pa.Table.from_batches([live.columns]))
    return GroupCopy(step.source, step.group, step.leaves, beside, facts)


def _ensure_counts(name: str, counts: _Counts, written: WrittenFile) -> None:
    """Compare the counts of the input with the footer of the output."""
    if written.num_rows != counts.rows:
        raise VerificationError(
            f"{name}: {counts.rows} live rows were read but {written.num_rows} were written"
        )
    for column, nulls in written.null_counts.items():
        if nulls != counts.nulls[column]:
            raise VerificationError(
                f"{name}: column {column!r} had {counts.nulls[column]} nulls when read "
                f"but {nulls} when written"
            )


def _ensure_columns(
    store: Store, spec: RewriteSpec, files: Sequence[DataFile], counts: _Counts
) -> None:
    """Compare the columns that were read with the footers of the inputs."""
    column = counts.columns.find_difference(counts.nulls)
    if column is not None:
        ensure_nulls(store, spec.reader, files, nulls=counts.nulls, column=column)


def new_file(store: Store, task: RewriteTask, written: WrittenFile) -> NewFile:
    """Return the ``add`` of a written file, after a check that the store has it.

    Raises:
        VerificationError: the store does not have it, or has another size.
    """
    (info,) = store.stat_many([written.name])
    if info is None or info.size_bytes != written.size_bytes:
        raise VerificationError(
            f"{written.name} is missing in the store, or its size is not the size that was written"
        )
    return NewFile(
        path=written.name,
        partition_values=task.partition_values,
        size_bytes=written.size_bytes,
        modification_time_ms=info.modified_ms,
        num_records=written.num_rows,
        stats=written.stats_json,
        tags=task.tags,
    )
