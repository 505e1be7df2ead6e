"""The worker of a deep clone: copy a batch of files that the target does not have yet.

Runs on any engine: a task is a small picklable value, and the worker opens the stores by URI.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from deltactl.errors import ObjectNotFoundError
from deltactl.operations.find_files import find_files, find_path_problem, is_placed
from deltactl.storage.copying import copy_file
from deltactl.storage.open import open_store
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.read_only import ReadOnlyStore
from deltactl.storage.store import Store

_FILES_AT_ONCE: Final = 8
_MISSING: Final = "it does not exist"


@dataclass(frozen=True, slots=True)
class CopySpec:
    """What all batches share. ``is_fresh``: the target had no files when the run began."""

    source_uri: str
    target_uri: str
    is_fresh: bool
    source_options: Mapping[str, str] = field(repr=False)
    target_options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CopyTask:
    """A batch of files: decoded names in source and target, and sizes, ``None`` if not known."""

    sources: tuple[str, ...]
    targets: tuple[str, ...] = field(repr=False)
    sizes: tuple[int | None, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CopyResult:
    """What was copied, and what was there already; ``problems`` are of the source, by name."""

    files_copied: int = 0
    bytes_copied: int = 0
    files_kept: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)


def copy_files(spec: CopySpec, task: CopyTask, attempt: int) -> CopyResult:
    """Copy the files of a batch.

    Raises:
        StorageError: a store failed; files that were copied stay.
    """
    source = ReadOnlyStore(open_store(spec.source_uri, spec.source_options))
    target = open_store(spec.target_uri, spec.target_options)
    return copy_batch(source, target, task, spec, may_exist=attempt > 0 or not spec.is_fresh)


def copy_batch(
    source: Store, target: Store, task: CopyTask, spec: CopySpec, *, may_exist: bool
) -> CopyResult:
    """Copy the files of a batch between open stores.

    Raises:
        StorageError: a store failed; files that were copied stay.
    """
    batch = _Batch(source, target, spec.source_options, task, may_exist)
    rows = zip(task.sources, task.targets, task.sizes, strict=True)
    outcomes = list(each_in_parallel(batch.copy, rows, at_once=_FILES_AT_ONCE))
    copied = [outcome for outcome in outcomes if outcome.bytes_copied is not None]
    problems = {
        name: outcome.problem
        for name, outcome in zip(task.sources, outcomes, strict=True)
        if outcome.problem is not None
    }
    return CopyResult(
        len(copied),
        sum(outcome.bytes_copied or 0 for outcome in copied),
        len(outcomes) - len(copied) - len(problems),
        problems,
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Of one file: the bytes copied, or what is wrong; neither if the target had it."""

    bytes_copied: int | None = None
    problem: str | None = None


class _Batch:
    """What both stores have of the files of a task, looked up together."""

    def __init__(
        self,
        source: Store,
        target: Store,
        options: Mapping[str, str],
        task: CopyTask,
        may_exist: bool,
    ) -> None:
        self._source, self._target, self._options = source, target, options
        placed = [name for name in task.sources if is_placed(name)]
        self._facts, self._elsewhere = find_files(source, placed)
        self._there = find_files(target, task.targets)[0] if may_exist else {}

    def copy(self, row: tuple[str, str, int | None]) -> _Outcome:
        """Copy one file: its names in source and target, and its size in the log."""
        name, new_name, size = row
        source, info, place = self._source, self._facts.get(name), name
        if name in self._elsewhere:
            directory, place = posixpath.split(name)
            source = ReadOnlyStore(open_store(directory, self._options))
            (info,) = source.stat_many([place])
        if info is None:
            problem = None if is_placed(name) else find_path_problem(name)
            return _Outcome(problem=problem or _MISSING)
        if size is not None and info.size_bytes != size:
            return _Outcome(problem=f"it has {info.size_bytes} bytes, the log says {size}")
        there = self._there.get(new_name)
        if there is not None and there.size_bytes == info.size_bytes:
            return _Outcome()
        try:
            copied = copy_file(
                source,
                place,
                self._target,
                new_name,
                size_bytes=info.size_bytes,
                replace=there is not None,
            )
        except ObjectNotFoundError:
            return _Outcome(problem=_MISSING)
        return _Outcome(copied.size_bytes)
