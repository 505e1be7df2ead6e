"""``optimize``: rewrite many small files into fewer files of the target size.

plan (from the log) -> rewrite bins on an engine -> commit finished bins. Order of effects: outputs
are durable before the commit that references them; inputs are never deleted here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import call
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DataFileError, DeltactlError, SafetyError, UsageError
from deltactl.log.audit.audited_snapshot import load_audited
from deltactl.log.commits.events import ZOrderCommits
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.committers.committer import Permission
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.after_commit import run_after_commit
from deltactl.operations.optimize.commit_bins import OptimizeRun
from deltactl.operations.optimize.copy_candidates import build_copy_rule
from deltactl.operations.optimize.copy_rule import forecast, open_source
from deltactl.operations.optimize.exclusions import TARGET_TAG
from deltactl.operations.optimize.layout.distribute import build_tasks, run_bins
from deltactl.operations.optimize.layout.request import resolve_request
from deltactl.operations.optimize.options import CODECS_SPARK_LACKS, OptimizeOptions
from deltactl.operations.optimize.plan import (
    OptimizePlan,
    drop_bins,
    expect_skipping,
    find_unusable,
    plan_optimize,
)
from deltactl.operations.optimize.purged_files import state_of_written
from deltactl.operations.optimize.report import OptimizeReport
from deltactl.operations.optimize.rewrite_counts import RewriteCounts
from deltactl.operations.optimize.spec import build_spec, ensure_stored_columns
from deltactl.operations.optimize.tasks import RewriteSpec, RewriteTask
from deltactl.operations.optimize.undecoded import adapt_options
from deltactl.operations.run_context import RunContext
from deltactl.operations.uploads import abort_ended_uploads
from deltactl.option_names import option
from deltactl.parquet.data_file import DataFile, iter_data_files
from deltactl.parquet.splice.copy_conditions import CopyRefusal, codec_of
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import partition_type
from deltactl.protocol.iceberg import VERSION_TAG, compatible_version
from deltactl.protocol.partitions import format_partition_values, lookup_map
from deltactl.protocol.paths import ascii_directory, partition_directory
from deltactl.storage.parallel import each_in_parallel, map_requests
from deltactl.storage.store import Store
from deltactl.units import format_count

__all__ = ["OptimizeOptions", "OptimizePlan", "OptimizeReport", "optimize_table"]

_log: Final = logging.getLogger(__name__)

# Minimum ratio of the time to decode and encode a byte and the time to copy it.
_DECODING_OVER_COPYING = 8
# The longest name on most file systems and HDFS. An escape has three bytes for one.
_NAME_BYTES: Final = 255
# How often dropped bins are planned again.
_ROUNDS_AGAIN: Final = 3


def optimize_table(
    log: DeltaLog, options: OptimizeOptions, context: RunContext, *, dry_run: bool = False
) -> OptimizeReport:
    """Plan and, unless ``dry_run``, carry out an optimize of the latest version.

    The engine is chosen by the bytes to rewrite, and started only if there is work. The ``run_id``
    of the context, if it has one, is recorded in each commit.

    Raises:
        UnsupportedFeatureError: a table feature forbids rewriting.
        PredicateError: ``options.where`` is not about partition columns.
        ConflictError: every bin was dropped because of other writers, and there is still work.
        EngineUnavailableError: the engine cannot run here.
        DeltactlError: every bin failed; the first failure.
    """
    report = try_optimize(log, options, context, dry_run=dry_run)
    if report.error is not None:
        raise report.error
    return report


def try_optimize(
    log: DeltaLog, options: OptimizeOptions, context: RunContext, *, dry_run: bool = False
) -> OptimizeReport:
    """Return the report of an optimize; if every bin failed or was lost, it has an ``error``.

    Raises:
        DeltactlError: as ``optimize_table``, before a bin was rewritten.
    """
    if options.codec_name in CODECS_SPARK_LACKS:
        context.warn(
            f"Apache Spark can read {options.codec_name} only if the cluster has this codec "
            "installed"
        )
    store = log.store
    snapshot, plan = _make_plan(log, options, context)
    _log.info(
        "%s: %s in %s, %d bytes, version %d",
        store.uri, format_count(plan.files.num_rows, "file"), format_count(plan.num_bins, "bin"),
        plan.bytes_to_rewrite, plan.version,
    )  # fmt: skip
    skipped = _find_shortfall(snapshot, plan, options)
    if not plan.is_empty:
        ensure_stored_columns(snapshot)
    if options.rewrite == "copy" and options.codec_name is not None and skipped is None:
        _ensure_codec(store, drop_bins(plan, find_unusable(plan)), options.codec_name)
    abort_uploads: Callable[[], None] = partial(
        abort_ended_uploads, store, context.clock, context.warn
    )
    if dry_run or plan.is_empty or skipped is not None:
        if not dry_run:
            abort_uploads()
        context.warn_of_refusal(log.refusal)
        return _report_plan(snapshot, plan, options, context, skipped=skipped, dry_run=dry_run)
    ensure_can_commit: Callable[[], None] = partial(
        log.ensure_can_commit, Permission.REORGANIZE_DATA
    )
    list(map_requests(store, call, [abort_uploads, ensure_can_commit]))
    context = replace(context, engine=context.engine.sized(_work_bytes(plan, options)).start())
    report, after = execute_optimize(log, snapshot, plan, options, context)
    if report.versions and (formats := snapshot.properties.uniform_formats):
        context.warn(
            f"the metadata of {formats} refer to the old files until the next conversion: vacuum "
            "no file of the last version before that"
        )
    if report.versions and not report.interrupted:
        run_after_commit(log, snapshot, after, context)
    return report


def _report_plan(
    snapshot: Snapshot,
    plan: OptimizePlan,
    options: OptimizeOptions,
    context: RunContext,
    *,
    skipped: str | None,
    dry_run: bool,
) -> OptimizeReport:
    """Report what a run would do; nothing if it is skipped."""
    engine = context.engine.sized(_work_bytes(plan, options))
    forecast = None
    if skipped is None:
        unusable = find_unusable(plan)
        for error in unusable.values():
            context.warn(f"the real run cannot rewrite a bin: {error.message}")
        forecast = _forecast(snapshot, drop_bins(plan, unusable), options)
    expected = expect_skipping(snapshot, plan)
    return OptimizeReport(
        plan, engine.name, engine.reason, dry_run=dry_run, skipped=skipped, options=options,
        rewritten=forecast, skipping=None if expected is None else expected.report(),
    )  # fmt: skip


def _work_bytes(plan: OptimizePlan, options: OptimizeOptions) -> int:
    """Return the input bytes; bytes of files that may be copied count as an eighth."""
    least = options.copies_from_bytes
    if least is None or plan.is_empty or plan.layout is not None:
        return plan.bytes_to_rewrite
    large = plan.files.filter(pc.greater_equal(plan.files["size_bytes"], least))
    copied = sum_sizes(large)
    return plan.bytes_to_rewrite - copied + copied // _DECODING_OVER_COPYING


def _forecast(
    snapshot: Snapshot, plan: OptimizePlan, options: OptimizeOptions
) -> RewriteCounts | None:
    if plan.is_empty or plan.layout is not None:
        return None
    rule = build_copy_rule(snapshot, options)
    if rule is None:
        counts, reason = RewriteCounts(), CopyRefusal.of_all(options.codec_level)
        counts.encode(plan.files.num_rows, plan.bytes_to_rewrite, [reason])
        return counts
    only_copied = plan.files["only_copied"]
    counts = forecast(snapshot.store, rule, plan.files.filter(pc.invert(only_copied)))
    rule = replace(rule, min_bytes=0, only_copies=True)
    counts.add(forecast(snapshot.store, rule, plan.files.filter(only_copied)))
    return counts


def _ensure_codec(store: Store, plan: OptimizePlan, codec: str) -> None:
    """Refuse ``--rewrite copy`` with a codec that an input does not have."""

    def find(file: DataFile) -> tuple[str, str] | None:
        try:
            source = open_source(store, file)
        except DataFileError:
            return None  # its bin fails, with the reason
        chunks = (chunk for group in source.groups for chunk in group.chunks)
        return next(((file.path, c) for c in map(codec_of, chunks) if c != codec), None)

    for found in each_in_parallel(find, list(iter_data_files(plan.files))):
        if found is not None:
            raise UsageError(
                f"{option('codec', codec)}: {found[0]!r} is compressed with {found[1]}, and "
                f"{option('rewrite', 'copy')} keeps this codec",
                hint=f"Rerun with {option('rewrite', 'auto')}, or without {option('codec')}.",
            )


def _make_plan(
    log: DeltaLog,
    options: OptimizeOptions,
    context: RunContext,
    names: pa.ChunkedArray | None = None,
) -> tuple[Snapshot, OptimizePlan]:
    """Plan the latest version; only the files with these names, if given."""

    def make() -> tuple[Snapshot, OptimizePlan]:
        z_orders = ZOrderCommits()
        snapshot = load_audited(log, visitors=[z_orders])
        now_ms = context.clock.now_ms()
        plan = plan_optimize(log, snapshot, options, now_ms, names, z_orders=z_orders)
        return snapshot, plan

    return log.retry_after_cleanup(make)


def execute_optimize(
    log: DeltaLog,
    snapshot: Snapshot,
    plan: OptimizePlan,
    options: OptimizeOptions,
    context: RunContext,
) -> tuple[OptimizeReport, CommitBase]:
    """Rewrite the bins of a plan and commit them in batches, according to ``options``.

    The files of dropped bins are planned again from the newest version, as are the readable files
    of failed bins; for a layout, all files that still lack it. Return also the state of the table
    after the commits.
    """
    run = OptimizeRun(plan, options, context, context.run_id or context.clock.new_id())
    if context.run_id is not None:
        _ensure_new_names(snapshot, run.run_id)
    spec = build_spec(snapshot, plan, options, run.run_id, context)
    _run_round(run, log, snapshot, plan, spec=spec, context=context)
    while (names := run.lost_names) is not None and not context.is_cancelled:
        if run.is_whole:
            break  # parts of the table cannot have other names
        # Others may have merged the files of a layout: the new ones lack the layout.
        any_names = plan.layout is not None and not (options.full or options.max_bytes)
        try:
            chosen = None if any_names and not run.has_failures else names
            snapshot, again = _make_plan(log, options, context, chosen)
            if again.table_id != plan.table_id:
                break
            if again.is_empty:
                run.forget_lost()
                break
            spec = build_spec(snapshot, again, options, run.run_id, context)
        except DeltactlError as error:
            context.warn(
                "other writers changed files of some bins, or some files cannot be read. The other "
                f"files of these bins were not rewritten, because a new plan failed: {error}"
            )
            break
        if run.rounds > _ROUNDS_AGAIN:
            break
        _log.info("%s: %s again", snapshot.store.uri, format_count(again.num_bins, "bin"))
        _run_round(run, log, snapshot, again, spec=spec, context=context)
    return run.finish(), run.state


def _ensure_new_names(snapshot: Snapshot, run_id: str) -> None:
    """Refuse a run id that files of the table have in their names: outputs would replace them."""
    for batch in snapshot.file_batches(["path"]):
        if pc.any(pc.match_substring(batch["path"], f"-{run_id}-")).as_py():
            raise SafetyError(
                f"{snapshot.store.uri} has files of an earlier optimize with the id {run_id} of "
                "this run: new files would replace them",
                hint="Use another run id for each optimize of a table.",
            )


def _run_round(
    run: OptimizeRun,
    log: DeltaLog,
    snapshot: Snapshot,
    plan: OptimizePlan,
    *,
    spec: RewriteSpec,
    context: RunContext,
) -> None:
    """Rewrite the bins of a plan; those that cannot be used count as failed."""
    unusable = find_unusable(plan)
    failed = [(files, unusable[n]) for n, files in enumerate(plan.iter_bins()) if n in unusable]
    plan = drop_bins(plan, unusable)
    bins = list(plan.iter_bins())
    sizes = [sum_sizes(files) for files in bins]
    first = run.num_bins  # outputs of all rounds have different names

    after = state_of_written(snapshot, run.options.purged)
    values = _partition_values(snapshot, after.metadata, bins)

    def build(number: int) -> RewriteTask:
        return _build_task(spec, after, plan, (first + number, bins[number], values[number]))

    run.begin_round(log, snapshot, plan, bins)
    for files, error in failed:
        run.fail(files, error)
    folders = [_output_folder(spec, after, of_bin) for of_bin in values]
    is_local = context.engine.is_local
    tasks = build_tasks(plan.layout, sizes, build, run.options.memory_bytes, is_local=is_local)
    outcomes = run_bins(context, spec, plan.layout, tasks, bins, note=run.note_written)
    run.collect(outcomes, folders)


def _find_shortfall(snapshot: Snapshot, plan: OptimizePlan, options: OptimizeOptions) -> str | None:
    need = options.need
    if need is None:
        return None
    options = adapt_options(snapshot.metadata, options)
    if need.skip is not None and resolve_request(snapshot, options) is None:
        raise UsageError(
            f"{option('need')} skip needs clustering columns, but the table has none, and no "
            "option names any",
            hint=f"Add {option('cluster_by')} COLUMNS or {option('zorder_by')} COLUMNS, or remove "
            f"{option('need')} skip.",
        )
    if plan.is_empty:
        return None
    expected = None if need.skip is None else expect_skipping(snapshot, plan)
    skip = None if expected is None else expected.find_least()
    return need.find_shortfall(
        files=plan.files.num_rows, size_bytes=plan.bytes_to_rewrite, skip=skip
    )


def _build_task(
    spec: RewriteSpec,
    snapshot: Snapshot,
    plan: OptimizePlan,
    bin_: tuple[int, pa.Table, Mapping[str, str | None]],
) -> RewriteTask:
    """Return the task of a bin: its number, files and partition values."""
    number, files, values = bin_
    folder = _output_folder(spec, snapshot, values)
    return RewriteTask(
        number=number,
        folder=f"{folder}/" if folder else "",
        files=tuple(iter_data_files(files)),
        partition_values=values,
        tags={TARGET_TAG: str(plan.target_bytes), **_iceberg_tags(snapshot)},
        only_copied=files["only_copied"][0].as_py(),
        known_stats=tuple(_known_stats(files)),
    )


def _known_stats(files: pa.Table) -> list[Mapping[str, Any] | None]:
    has_vectors = files["deletion_vector"].null_count < files.num_rows
    if has_vectors or "known_stats" not in files.column_names:
        return []
    known: list[Mapping[str, Any] | None] = files["known_stats"].to_pylist()
    return known


def _iceberg_tags(snapshot: Snapshot) -> Mapping[str, str]:
    version = compatible_version(snapshot.metadata)
    return {} if version is None else {VERSION_TAG: str(version)}


def _output_folder(spec: RewriteSpec, snapshot: Snapshot, values: Mapping[str, str | None]) -> str:
    """Return the directory, without a slash, for the output of a bin."""
    short = spec.run_id[:2]
    if snapshot.metadata.column_mapping_mode != "none":
        # Directories of mapped tables do not contain column names, which may change (PROTOCOL.md,
        # "Column Mapping").
        return short
    pairs = [(f.name, values[f.physical_name]) for f in snapshot.metadata.partition_fields]
    folder = ascii_directory(partition_directory(pairs))
    is_long = any(len(part) > _NAME_BYTES for part in folder.split("/"))
    return short if is_long else folder


def _partition_values(
    snapshot: Snapshot, after: Metadata, bins: Sequence[pa.Table]
) -> list[Mapping[str, str | None]]:
    """Return the partition values of each bin in the protocol's form, with the keys of ``after``.

    The texts of the files of a bin may differ, but their values are equal.
    """
    fields = snapshot.metadata.partition_fields
    if not fields or not bins:
        return [{} for _ in bins]
    firsts = [files["partition_values"].slice(0, 1).combine_chunks() for files in bins]
    maps = pa.concat_arrays(firsts)
    columns = [
        format_partition_values(lookup_map(maps, f.physical_name), partition_type(f)).to_pylist()
        for f in fields
    ]
    return [dict(zip(after.partition_keys, row, strict=True)) for row in zip(*columns, strict=True)]
