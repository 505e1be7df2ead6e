"""Check that the data files and deletion vectors of a version exist, with their sizes."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.engine.base import Task
from deltactl.errors import CommitDamagedError, DeltactlError, InterruptedRunError
from deltactl.log.file_stores import FileStores
from deltactl.log.find_files import find_files, find_path_problem, is_placed
from deltactl.operations.run_context import RunContext
from deltactl.operations.stored_files import list_names
from deltactl.protocol.deletion_vectors import vector_ends, vector_files
from deltactl.storage.names import is_local_uri
from deltactl.storage.open import open_store
from deltactl.storage.store import FileInfo, Store
from deltactl.storage.write_guard import refuse_changes
from deltactl.units import format_count

PRESENCE_COLUMNS: Final[tuple[str, ...]] = ("path", "size_bytes", "deletion_vector")
_FILES_A_TASK: Final = 10_000
_TASKS_AT_ONCE: Final = 32
_FEWEST_TO_LIST: Final = 100_000
_ROWS_AT_ONCE: Final = 1 << 20
_SHOWN: Final = 3
GONE: Final = "it does not exist"


@dataclass(frozen=True, slots=True)
class Missing:
    """A file that cannot be read, by its decoded name in the log."""

    path: str
    problem: str


def find_missing(
    store: Store,
    batches: Iterable[pa.Table],
    context: RunContext,
    sized: pa.ChunkedArray | None = None,
    *,
    everywhere: bool = False,
) -> tuple[Missing, ...]:
    """Return the data files and vectors that are missing, or whose size differs from the log.

    The engine checks many files in parallel. In a large table on a local file system, one listing
    of names replaces the requests for files that are not ``sized``.

    ``batches`` are live files with ``PRESENCE_COLUMNS``. ``sized`` are paths of the files whose
    sizes are compared in any case; all of them if ``None``. ``everywhere``: files on other storage
    are looked up too. Archived files are not missing, but a warning.

    Raises:
        InterruptedRunError: ``cancel`` was set.
        StorageError, UsageError: a store failed; ``everywhere``: other storage cannot be opened.
    """
    if sized is not None and is_local_uri(store.uri):
        batches = _without_listed(store, batches, sized)
    problems: dict[str, str] = {}
    elsewhere: set[str] = set()
    archived: set[str] = set()
    spec = PresenceSpec(store.uri, context.storage_options, everywhere)
    tasks = _make_tasks(store, batches)
    while group := list(islice(tasks, _TASKS_AT_ONCE)):
        is_small = len(group) == 1
        results = [look_up(store, spec, *group)] if is_small else list(_run(spec, group, context))
        for result in results:
            problems |= result.problems
            elsewhere |= result.elsewhere
            archived |= result.archived
    if archived:
        context.warn(
            f"{format_count(len(archived), 'file')} in an archive storage class of S3, such as "
            f"{min(archived)!r}: readers fail while these objects are not restored from it"
        )
    if elsewhere:
        context.warn(
            f"{len(elsewhere)} files on other storage were not checked, such as {min(elsewhere)!r}"
        )
    return tuple(Missing(name, problems[name]) for name in sorted(problems))


def find_missing_again(
    store: Store,
    files: pa.Table,
    context: RunContext,
    done: str,
    where: str,
    *,
    everywhere: bool = False,
) -> tuple[Missing, ...]:
    """Look for files after a commit that is ``done``: a vacuum may have removed some meanwhile.

    The arguments are those of ``find_missing``.

    Raises:
        CommitDamagedError: it cannot be found out.
    """
    batches = [files.select(PRESENCE_COLUMNS)]
    try:
        return find_missing(store, batches, context.without_cancel(), everywhere=everywhere)
    except DeltactlError as error:
        raise CommitDamagedError(
            f"{done}, but it is not known whether its files still exist: {error.message}",
            hint=f"Run `deltactl check {shlex.quote(where)}`.",
        ) from error


def _without_listed(
    store: Store, batches: Iterable[pa.Table], sized: pa.ChunkedArray
) -> Iterator[pa.Table]:
    """Omit files that are in a listing, if there are many; other files are checked singly."""
    names: pa.ChunkedArray | None = None
    for group in _grouped(batches, _ROWS_AT_ONCE):  # each lookup needs time for all names
        if names is None and group.num_rows < _FEWEST_TO_LIST:
            yield group
            continue
        names = list_names(store) if names is None else names
        vectors = vector_files(group["deletion_vector"])
        listed = pc.is_in(group["path"], value_set=names)
        if vectors.null_count < len(vectors):
            has_vector = pc.or_(pc.is_null(vectors), pc.is_in(vectors, value_set=names))
            listed = pc.and_(listed, has_vector)
        known = pc.and_(listed, pc.invert(pc.is_in(group["path"], value_set=sized)))
        yield group.filter(pc.invert(known))


def _grouped(batches: Iterable[pa.Table], num_rows: int) -> Iterator[pa.Table]:
    """Yield fewer and larger batches."""
    waiting: list[pa.Table] = []
    for batch in batches:
        waiting.append(batch)
        if sum(table.num_rows for table in waiting) >= num_rows:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def list_missing(missing: tuple[Missing, ...]) -> str:
    """Return the names of missing files with their problems, for a message."""
    shown = ", ".join(f"{it.path!r} ({it.problem})" for it in missing[:_SHOWN])
    return shown + (f" and {len(missing) - _SHOWN:,} more" if len(missing) > _SHOWN else "")


def needs_missing(files: pa.Table, missing: Iterable[Missing]) -> pa.Array:
    """Return a mask of the files that need one of the missing files."""
    names = pa.array([file.path for file in missing], pa.string())
    if not len(names) or not files.num_rows:
        return pa.array(np.zeros(files.num_rows, np.bool_))
    mask = pc.or_(
        pc.is_in(files["path"], value_set=names),
        pc.is_in(vector_files(files["deletion_vector"]), value_set=names),
    )
    return mask.combine_chunks()


def explain_missing(files: pa.Table, missing: Iterable[Missing]) -> tuple[Missing, ...]:
    """Return the paths of files that need missing files, each with its own or its vector's problem.

    ``files`` are rows of ``ADD_SCHEMA``.
    """
    problems = {it.path: it.problem for it in missing}
    pairs = zip(
        files["path"].to_pylist(), vector_files(files["deletion_vector"]).to_pylist(), strict=True
    )
    return tuple(
        Missing(path, problems.get(path) or f"its deletion vector {vector!r}: {problems[vector]}")
        for path, vector in sorted(pairs, key=lambda pair: pair[0])
    )


def _run(
    spec: PresenceSpec, tasks: list[PresenceTask], context: RunContext
) -> Iterator[PresenceResult]:
    numbered = [Task(number, task) for number, task in enumerate(tasks)]
    yield from (result for _, result in context.results(partial(_look_for_files, spec), numbered))
    if context.is_cancelled:
        raise InterruptedRunError("interrupted; nothing was changed", hint="Rerun.")


def _make_tasks(store: Store, batches: Iterable[pa.Table]) -> Iterator[PresenceTask]:
    vectors: list[pa.Table] = []
    for group in _grouped(batches, _FILES_A_TASK):
        if group["deletion_vector"].null_count < group.num_rows:
            vectors.append(_vector_sizes(group["deletion_vector"]))
        yield from _cut(store, group.select(["path", "size_bytes"]))
    if vectors:
        largest = (
            pa.concat_tables(vectors)
            .group_by("path", use_threads=False)
            .aggregate([("size_bytes", "max")])
        )
        largest = largest.rename_columns({"size_bytes_max": "size_bytes"})
        yield from _cut(store, largest, at_least=True)


def _cut(store: Store, table: pa.Table, *, at_least: bool = False) -> Iterator[PresenceTask]:
    if not is_local_uri(store.uri):
        table = table.sort_by("path")  # adjacent names are found in one page of a listing
    for start in range(0, table.num_rows, _FILES_A_TASK):
        part = table.slice(start, _FILES_A_TASK)
        names, sizes = (part[name].to_pylist() for name in ("path", "size_bytes"))
        yield PresenceTask(tuple(names), tuple(sizes), at_least)


def _vector_sizes(vectors: pa.ChunkedArray) -> pa.Table:
    """Return the file of each stored vector, and the bytes that it must have at least."""
    table = pa.table({"path": vector_files(vectors), "size_bytes": vector_ends(vectors)})
    return table.filter(pc.is_valid(table["path"]))


@dataclass(frozen=True, slots=True)
class PresenceSpec:
    """The values that all batches share."""

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class PresenceTask:
    """A batch of files by decoded name, with the size of each, if it is known.

    If ``at_least``, a file may be larger: deletion vectors share files.
    """

    names: tuple[str, ...]
    sizes: tuple[int | None, ...] = field(repr=False)
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class PresenceResult:
    """The problems of files, by name; ``elsewhere``: files on other storage, not checked.

    ``archived``: files whose storage class archives them.
    """

    problems: Mapping[str, str] = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()
    archived: frozenset[str] = frozenset()


def _look_for_files(spec: PresenceSpec, task: PresenceTask, attempt: int) -> PresenceResult:
    return look_up(refuse_changes(open_store(spec.uri, spec.storage_options)), spec, task)


def look_up(store: Store, spec: PresenceSpec, task: PresenceTask) -> PresenceResult:
    """Check that the files of a batch exist in an open store."""
    names, elsewhere = [name for name in task.names if is_placed(name)], frozenset[str]()
    if spec.everywhere:
        found, errors = FileStores(store, spec.storage_options).find(names)
        if errors:
            raise next(iter(errors.values()))
    else:
        found, elsewhere = find_files(store, names)
    problems = {
        name: problem
        for name, size in zip(task.names, task.sizes, strict=True)
        if name not in elsewhere
        and (problem := find_problem(name, found.get(name), size, at_least=task.at_least))
    }
    archived = frozenset(
        name for name, info in found.items() if info is not None and info.is_archived
    )
    return PresenceResult(problems, elsewhere, archived)


def find_problem(
    name: str, info: FileInfo | None, size: int | None, *, at_least: bool = False
) -> str | None:
    """Return why a file is not as in the log; ``info`` is ``None`` if it was not found."""
    if info is None:
        return GONE if is_placed(name) else find_path_problem(name)
    if size is None or (info.size_bytes >= size if at_least else info.size_bytes == size):
        return None
    least = "at least " if at_least else ""
    return f"it has {info.size_bytes} bytes, but the log has {least}{size}"
