"""The worker of a deep clone: copy a batch of files that the target does not have yet.

Runs on any engine: a task is a small picklable value, and the worker opens the stores by URI.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltactl.engine.cores import find_byte_counter
from deltactl.engine.tasks import LazyTasks
from deltactl.errors import (
    DataFileError,
    InterruptedRunError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
    Warn,
    first_line,
)
from deltactl.log.file_stores import FileStores
from deltactl.log.find_files import find_files, is_placed
from deltactl.numpy_types import Integers
from deltactl.operations.file_sizes import cut_files
from deltactl.operations.missing_files import GONE, Missing, find_problem, list_missing
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.past_vacuums import describe_vacuums, find_past_vacuums, list_undos
from deltactl.option_names import option
from deltactl.parquet.broken_footers import find_broken_footers
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.protocol.arrow_schemas import replace_column
from deltactl.storage.copying import FileToCopy, copy_many, has_same_bytes
from deltactl.storage.open import open_existing, open_store
from deltactl.storage.store import FileInfo, Store
from deltactl.storage.write_guard import refuse_changes
from deltactl.units import format_count

_FILES_A_TASK: Final = 512
_BYTES_A_TASK: Final = 512 << 20
_MEMORY_A_TASK: Final = 64 << 20
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class CopySpec:
    """The values that all batches share. ``is_fresh``: the target had no files at the start.

    ``replaces``: also copy files that were replaced in the source after they were copied.
    ``until_ms``: a day after the run began; a copy with a later time has that of a wrong clock.
    ``only_checks``: find the problems of the source files, decode those that would replace a copy,
    and count what would be copied.
    """

    source_uri: str
    target_uri: str
    is_fresh: bool
    until_ms: int
    source_options: Mapping[str, str] = field(repr=False)
    target_options: Mapping[str, str] = field(repr=False)
    replaces: bool = False
    only_checks: bool = False


@dataclass(frozen=True, slots=True)
class CopyTask:
    """A batch of files: rows of ``COPY_SCHEMA`` from number ``first`` on, by column."""

    first: int
    sources: tuple[str, ...]
    targets: tuple[str, ...] = field(repr=False)
    sizes: tuple[int | None, ...] = field(repr=False)
    times: tuple[int | None, ...] = field(repr=False)
    least: tuple[int | None, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CopyResult:
    """Copied and existing files; ``problems`` are those of source files, by name.

    ``times`` are those of the source files (ms since 1970), of the rows from ``first`` on.
    ``replaced`` are the source files that were replaced after they were copied; ``dated`` are
    copies whose source files have another time, but still the same content.
    """

    first: int = 0
    times: tuple[int, ...] = ()
    replaced: tuple[str, ...] = ()
    dated: tuple[str, ...] = ()
    files_copied: int = 0
    bytes_copied: int = 0
    files_kept: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)


def copy_files(spec: CopySpec, task: CopyTask, attempt: int) -> CopyResult:
    """Copy the files of a batch.

    Raises:
        StorageError: a store failed; files that were copied stay.
    """
    source = refuse_changes(open_store(spec.source_uri, spec.source_options))
    stores = FileStores(source, spec.source_options)
    open_target = open_store if spec.only_checks else open_existing
    target = open_target(spec.target_uri, spec.target_options)
    may_exist = attempt > 0 or not spec.is_fresh
    facts, errors = stores.find([name for name in task.sources if is_placed(name)])
    if errors:
        raise next(iter(errors.values()))
    there = find_files(target, task.targets)[0] if may_exist else {}
    problems: dict[str, str] = {}
    wanted: list[FileToCopy] = []
    times: list[int] = []
    replaced: list[FileToCopy] = []
    dated: list[FileToCopy] = []
    rows = zip(task.sources, task.targets, task.sizes, task.times, task.least, strict=True)
    for name, new_name, size, before_ms, least in rows:
        info, found = facts.get(name), there.get(new_name)
        problem = find_problem(name, info, size) or _find_vector_problem(
            name, info, None if spec.replaces else found, least
        )
        times.append(0 if info is None else info.modified_ms)
        if info is None or problem is not None:
            problems[name] = problem or GONE
            continue
        is_replaced = before_ms is not None and not _is_same_time(before_ms, info.modified_ms)
        if is_replaced and not spec.replaces:
            file = FileToCopy(name, new_name, info.size_bytes)
            (dated if _is_copy(found, file, stores.of(name), target) else replaced).append(file)
            continue
        # Vectors, whose sizes are not known, have new names instead of new content.
        is_known = before_ms is not None or size is None
        if is_replaced or not _is_copied(found, info, spec, is_known=is_known):
            wanted.append(FileToCopy(name, new_name, info.size_bytes))
    # A copy may be the only good one. Vectors, whose sizes are not known, have no footer.
    sized = {name for name, size in zip(task.sources, task.sizes, strict=True) if size is not None}
    damaged = {
        file.source_path: damage
        for file in wanted
        if there.get(file.target_path) is not None and file.source_path in sized
        if (damage := _find_damage(file, stores.of(file.source_path), spec)) is not None
    }
    problems |= damaged
    if damaged:
        return CopyResult(problems=problems)
    try:
        if not spec.only_checks:
            # Only this run writes to the target; an existing name has a file of another size.
            _copy_from_each(stores, wanted, target)
    except ObjectNotFoundError:
        gone = _find_gone(stores, wanted)
        if not gone:
            raise
        return CopyResult(problems={**problems, **gone})
    kept = len(task.sources) - len(problems) - len(replaced) - len(wanted)
    return CopyResult(
        task.first,
        tuple(times),
        tuple(file.source_path for file in replaced),
        tuple(file.target_path for file in dated),
        len(wanted),
        sum(file.size_bytes for file in wanted),
        kept,
        problems,
    )


def _find_vector_problem(
    name: str, info: FileInfo | None, copy: FileInfo | None, least: int | None
) -> str | None:
    """Return why a file of vectors must not be copied; ``None`` for data files (no ``least``).

    It is too small, or differs from a copy that is not: the names of these files are unique, so one
    of the two was replaced or damaged.
    """
    if info is None or least is None:
        return None
    if info.size_bytes < least:
        return find_problem(name, info, least, at_least=True)
    if copy is None or copy.size_bytes < least or copy.size_bytes == info.size_bytes:
        return None
    return f"it has {info.size_bytes} bytes, but its copy has {copy.size_bytes}, which may be right"


def _is_same_time(before_ms: int, now_ms: int) -> bool:
    """Return whether two times of a file are equal; some answers of stores have whole seconds."""
    if before_ms % 1000 and now_ms % 1000:
        return before_ms == now_ms
    return before_ms // 1000 == now_ms // 1000


def _is_copied(copy: FileInfo | None, source: FileInfo, spec: CopySpec, *, is_known: bool) -> bool:
    """Return whether a copy has what its source has now: if not ``is_known``, by a later time."""
    if copy is None or copy.size_bytes != source.size_bytes:
        return False
    copy_ms, source_ms = copy.modified_ms, source.modified_ms
    unit = 1 if copy_ms % 1000 and source_ms % 1000 else 1000
    return is_known or (source_ms // unit < copy_ms // unit and copy_ms <= spec.until_ms)


def _is_copy(found: FileInfo | None, file: FileToCopy, source: Store, target: Store) -> bool:
    """Return whether a copy is the same; `vacuum --undo` changes the time of a file only."""
    is_same_size = found is not None and found.size_bytes == file.size_bytes
    return is_same_size and has_same_bytes(source, file, target)


def _copy_from_each(stores: FileStores, files: list[FileToCopy], target: Store) -> None:
    """Copy the files of each store together."""
    groups: dict[int, list[FileToCopy]] = defaultdict(list)
    for file in files:
        groups[id(stores.of(file.source_path))].append(file)
    for group in groups.values():
        source = stores.of(group[0].source_path)
        copy_many(source, group, target, count_bytes=find_byte_counter())


def _find_gone(stores: FileStores, files: list[FileToCopy]) -> dict[str, str]:
    """Return the files that were removed after the check."""
    facts, _ = stores.find([file.source_path for file in files])
    return {name: GONE for name, info in facts.items() if info is None}


def _find_damage(file: FileToCopy, source: Store, spec: CopySpec) -> str | None:
    """Return why a data file is not a readable Parquet file.

    The footer is read; in the run of checks before copies are replaced, also all values.
    """
    name = file.source_path
    try:
        broken = find_broken_footers([parse_footer(source, name, file.size_bytes)])
    except DataFileError as error:
        return f"it {error.message}"
    if broken:
        return f"it {broken[0].message}"
    return _find_undecodable(source, name) if spec.only_checks else None


def _find_undecodable(source: Store, name: str) -> str | None:
    """Return why the values of a file cannot be decoded; ``None`` if this cannot be found out."""
    try:
        with (
            source.open_input(name) as opened,
            pq.ParquetFile(opened, page_checksum_verification=True) as file,
        ):
            for _ in file.iter_batches(use_threads=False):
                pass
    except (pa.ArrowNotImplementedError, StorageError):
        return None
    except (pa.ArrowException, OSError) as error:
        return f"it cannot be decoded: {first_line(error)}"
    return None


@dataclass(slots=True)
class Copied:
    """The files that a run copied, and the files that the target had before.

    ``times``: the time of each source file (ms since 1970), by row of the copies. ``replaced`` and
    ``dated``: see ``CopyResult``.
    """

    times: Integers = field(repr=False)
    replaced: list[str] = field(default_factory=list)
    dated: list[str] = field(default_factory=list)
    files_copied: int = 0
    bytes_copied: int = 0
    files_kept: int = 0

    def add(self, result: CopyResult) -> None:
        """Count the result of a batch."""
        self.times[result.first : result.first + len(result.times)] = result.times
        self.replaced += result.replaced
        self.dated += result.dated
        self.files_copied += result.files_copied
        self.bytes_copied += result.bytes_copied
        self.files_kept += result.files_kept


def copy_all(
    source: Store, target: Store, copies: pa.Table, spec: CopySpec, context: RunContext
) -> Copied:
    """Copy every file; return when all names are durable.

    The number of bytes does not choose the engine: Spark on this machine would only add its start,
    because the kernel, the service or the network does the work.

    ``copies`` are rows of ``COPY_SCHEMA``.

    Raises:
        DataFileError: files of the source are missing, or have another size than in the log; or
            files that would replace copies are damaged.
        SafetyError: files of the source were replaced after they were copied.
        InterruptedRunError: ``cancel`` was set.
        StorageError: a store failed.
    """
    if spec.replaces:  # a batch must not replace copies if another batch has a damaged file
        check_copies(source, copies, spec, context)
    copied = _copy(source, copies, spec, context)
    target.sync_directories(copies["target"].to_pylist())
    return copied


def check_copies(source: Store, copies: pa.Table, spec: CopySpec, context: RunContext) -> Copied:
    """Return what ``copy_all`` would do; copy nothing.

    Raises:
        DataFileError: see ``copy_all``.
    """
    return _copy(source, copies, replace(spec, only_checks=True), context)


def _copy(source: Store, copies: pa.Table, spec: CopySpec, context: RunContext) -> Copied:
    """Run all batches; raise an error if the run was cancelled or a source file has a problem."""
    copied, problems = Copied(np.zeros(copies.num_rows, np.int64)), dict[str, str]()
    for _, result in context.results(partial(copy_files, spec), _make_tasks(copies)):
        copied.add(result)
        problems |= result.problems
    if context.is_cancelled:
        raise InterruptedRunError(
            "interrupted; nothing was committed, and the copied files are kept",
            is_part_done=False,
            hint="Rerun to copy the rest.",
        )
    if problems:
        missing = tuple(Missing(name, problems[name]) for name in sorted(problems))
        raise explain_missing(source, missing, spec.source_options, context.warn)
    _ensure_not_replaced(source, copied)
    return copied


def _ensure_not_replaced(source: Store, copied: Copied) -> None:
    """Refuse source files that were replaced after they were copied."""
    if not copied.replaced:
        return
    names = ", ".join(map(repr, sorted(copied.replaced)[:_SHOWN]))
    raise SafetyError(
        f"in {source.uri}, {format_count(len(copied.replaced), 'file has', 'files have')} "
        f"another modification time than at the time of the copy, such as {names}, and the clone "
        "has no copy with the same content. A writer replaced them in place. Or `deltactl vacuum "
        "--undo` or a copy from elsewhere changed the time, and the clone lost its copy",
        hint=f"Run `deltactl check {shlex.quote(source.uri)} --files data`. To replace the "
        f"copies too, also in earlier versions of the clone, add {option('full', True)}.",
    )


def with_times(files: pa.Table, copies: pa.Table, copied: Copied) -> pa.Table:
    """Return files of a clone with the times of their sources, by which a sync compares them."""
    rows = pc.index_in(files["path"], value_set=copies["target"])
    times = pa.chunked_array([pa.array(copied.times)]).take(rows)
    return replace_column(files, "modification_time_ms", times)


def _make_tasks(copies: pa.Table) -> LazyTasks[CopyTask]:
    """Split the files into batches of limited numbers of files and bytes."""
    sizes = pc.fill_null(copies["size_bytes"], 0).to_numpy()
    ranges = list(cut_files(sizes, _FILES_A_TASK, _BYTES_A_TASK))

    def build(number: int) -> CopyTask:
        start, stop = ranges[number]
        part = copies.slice(start, stop - start)
        return CopyTask(start, *(tuple(column.to_pylist()) for column in part.columns))

    totals = [int(sizes[start:stop].sum()) for start, stop in ranges]
    return LazyTasks([_MEMORY_A_TASK] * len(ranges), build, totals)


def explain_missing(
    source: Store, missing: tuple[Missing, ...], options: Mapping[str, str], warn: Warn
) -> DataFileError:
    """Return the error for files of the source that are missing, damaged or not as in the log."""
    where = shlex.quote(source.uri)
    past = find_past_vacuums(source, [it.path for it in missing], options, warn)
    ways = [
        *list_undos(past),
        f"run `deltactl check {where} --files data` to see damaged files",
        f"clone a version that has all its files: `deltactl describe-history {where} "
        "--restorable` shows which",
    ]
    return DataFileError(
        f"nothing was committed: {format_count(len(missing), 'file', 'files')} of {source.uri} "
        f"cannot be read: {list_missing(missing)}{describe_vacuums(past)}",
        hint=f"Do one of these: {'; '.join(ways)}.",
    )
