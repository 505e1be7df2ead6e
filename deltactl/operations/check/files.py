"""Check the data files of a version: split them into batches and run these on an engine.

Batches are built when the engine needs them; only a digest and a weight of each are kept.

The resume file has JSON lines: the first line describes the check, then there is one line for each
finished batch. A truncated last line, left by a killed process, is dropped and its batch is checked
again. A complete check empties the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.engine.base import R, Worker
from deltactl.engine.tasks import LazyTasks, as_stream
from deltactl.errors import InterruptedRunError, UsageError
from deltactl.numpy_types import Integers
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.check.tasks import BATCH, BatchResult, CheckSpec, CheckTask, check_files
from deltactl.operations.file_sizes import cut_files
from deltactl.operations.output_files import ensure_outside_tables
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.parquet.hashes import finish, hash_values, key_of
from deltactl.storage.local.store import LocalStore

_FILES_A_TASK: Final = 512
_BYTES_A_TASK: Final = 256 << 20
_BYTES_A_FOOTER: Final = 64 << 10
_LARGEST_FILE: Final = 1 << 40
_NO_LIMIT: Final = 1 << 62
_HASHES: Final = 1 << 64

Batches = Callable[[], Iterable[tuple[int, pa.Table]]]
"""Yields the files to check, columns of ``BATCH``, with the index of their metadata in the spec.

It is called twice and must yield the same files each time.
"""

Cut: TypeAlias = tuple[int, pa.Table]

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class _Planned:
    """The facts about a batch that stay in memory; ``digest`` is empty without a resume file.

    The weight includes the cost of opening files; ``read_bytes``, which users see, does not.
    """

    digest: str
    weight_bytes: int
    read_bytes: int


class FileCheck:
    """Run the file part of a check."""

    def __init__(self, batches: Batches, options: CheckOptions, seed: int) -> None:
        """``seed`` selects the sample: a version always has the same one."""
        self._batches, self._options, self._seed = batches, options, seed
        self._most_hash = min(int(options.sample * _HASHES), _HASHES - 1)
        self._least_seen = _HASHES
        self._plan = self._make_plan()
        if not self._plan and self._least_seen < _HASHES:  # at least one file is checked
            self._most_hash = self._least_seen
            self._plan = self._make_plan()

    def _make_plan(self) -> list[_Planned]:
        digest = (lambda _: "") if self._options.resume is None else _digest
        return [_Planned(digest(cut), *self._weigh(cut[1])) for cut in self._tasks()]

    @property
    def input_bytes(self) -> int:
        """Return the pending work as bytes to read."""
        return sum(planned.weight_bytes for planned in self._plan)

    def run(
        self, spec: CheckSpec, context: RunContext, resume: ResumeFile | None
    ) -> Iterator[BatchResult]:
        """Check every file that is not done yet; yield results as they arrive.

        Raises:
            InterruptedRunError: ``cancel`` was set.
        """
        done: Mapping[str, BatchResult] = {} if resume is None else resume.done
        yield from (done[p.digest] for p in self._plan if p.digest in done)
        for digest, result in self.results(partial(check_files, spec), context, done):
            if resume is not None:
                resume.note(digest, result)
            yield result
        if context.is_cancelled:
            hint = f"Rerun with the same {option('resume')} FILE to continue."
            raise InterruptedRunError("interrupted", hint=None if resume is None else hint)

    def results(
        self, worker: Worker[CheckTask, R], context: RunContext, done: Collection[str] = ()
    ) -> Iterator[tuple[str, R]]:
        """Run another worker for each batch that is not ``done``; yield digests and results.

        If the run is cancelled, the results end early.
        """
        left = [planned for planned in self._plan if planned.digest not in done]
        if not left:
            return
        waiting = (cut for cut in self._tasks() if not done or _digest(cut) not in done)
        tasks = LazyTasks(
            [planned.weight_bytes for planned in left],
            lambda _: _to_task(next(waiting)),
            [planned.read_bytes for planned in left],
        )
        for number, result in context.results(worker, tasks):
            yield left[number].digest, result

    def _tasks(self) -> Iterator[Cut]:
        """Yield batches of files, sorted by path."""
        for metadata, batch in self._batches():
            ordered = self._choose(batch).sort_by("path")
            for part in _cut(ordered, self._options.depth):
                yield metadata, part

    def _choose(self, batch: pa.Table) -> pa.Table:
        if self._options.sample >= 1 or not batch.num_rows:
            return batch
        _, factor = key_of(str(self._seed))
        hashes = np.concatenate(
            [finish(hash_values(chunk, factor)) for chunk in batch["path"].chunks]
        )
        self._least_seen = min(int(hashes.min()), self._least_seen)
        return batch.filter(pa.array(hashes <= np.uint64(self._most_hash)))

    def _weigh(self, task: pa.Table) -> tuple[int, int]:
        """Return the weight of a task, and roughly the bytes that it reads."""
        if self._options.depth < Depth.FOOTERS:
            return 0, 0
        footers = _BYTES_A_FOOTER * task.num_rows
        sizes = _sizes(task)
        if self._options.depth is Depth.FOOTERS:
            return footers, int(np.minimum(sizes, _BYTES_A_FOOTER).sum())
        read = int(sizes.sum())
        return footers + read, read


def _cut(batch: pa.Table, depth: Depth) -> Iterator[pa.Table]:
    """Split into tasks, bounded by number of files and, if rows are read, by bytes."""
    most_bytes = _BYTES_A_TASK if depth is Depth.DATA else _NO_LIMIT
    for start, stop in cut_files(_sizes(batch), _FILES_A_TASK, most_bytes):
        yield batch.slice(start, stop - start)


def _sizes(batch: pa.Table) -> Integers:
    """Return the size of each file, clipped: sums of invalid sizes would overflow."""
    logged = pc.fill_null(batch["size_bytes"], 0).to_numpy()
    sizes: Integers = np.clip(logged, 0, _LARGEST_FILE)
    return sizes


def _to_task(cut: Cut) -> CheckTask:
    return CheckTask(cut[0], as_stream(cut[1].combine_chunks()))


def _digest(cut: Cut) -> str:
    """Return a digest that identifies a batch by its content."""
    return hashlib.sha256(_to_task(cut).files).hexdigest()[:32]


def as_batch(files: pa.Table, *, is_live: bool = True) -> pa.Table:
    """Convert files with the columns of ``ADD_SCHEMA`` to columns of ``BATCH``."""
    columns: list[Any] = [files[name] for name in BATCH.names[:-1]]
    columns.append(pa.array(np.full(files.num_rows, is_live), pa.bool_()))
    return pa.table(columns, schema=BATCH)


class ResumeFile:
    """The results of earlier and current runs. Use as a context manager."""

    def __init__(self, path: str, subject: Mapping[str, Any]) -> None:
        """Read the file, or create it.

        ``subject`` is the table and the options of the check, as JSON values; a file with other
        values is refused.

        Raises:
            UsageError: the file is about another table, version or depth, in a table, or
                cannot be read.
        """
        self._path = Path(path)
        self._head = {"format": _FORMAT, **subject}
        self.done: dict[str, BatchResult] = {}
        self._file: TextIO | None = None
        # Its real place: a link may lead into a table.
        ensure_outside_tables(option("resume"), path, LocalStore(str(self._path.resolve().parent)))
        try:
            self._load()
            self._file = self._path.open("a", encoding="utf-8")
            if not self._path.stat().st_size:
                self._write(self._head)
        except OSError as error:
            raise UsageError(
                f"{option('resume')} {path!r} cannot be read or written: {error.strerror}",
                hint="Give a file that you can read and write.",
            ) from error

    def __enter__(self) -> ResumeFile:
        """Return this file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def clear(self) -> None:
        """Empty the file, so that the next run begins a new check."""
        assert self._file is not None
        self._file.truncate(0)

    def note(self, digest: str, result: BatchResult) -> None:
        """Record the result of a batch."""
        self._write({"batch": digest, **asdict(result)})

    def _write(self, node: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(_to_line(node))
        self._file.flush()

    def _describe_differences(self, head: object) -> str:
        if not isinstance(head, dict):
            return "its first line does not describe a check"
        return "; ".join(
            f"its {name.replace('_', ' ')} is {_describe(head.get(name))}, but this check has "
            f"{_describe(value)}"
            for name, value in self._head.items()
            if head.get(name) != value
        )

    def _load(self) -> None:
        if not self._path.exists():
            return
        data = self._path.read_bytes()
        end = data.rfind(b"\n") + 1
        # Killed while it wrote the first line. Any other text is not ours to cut.
        if end or not _to_line(self._head).encode().startswith(data):
            self.done = self._parse(data[:end])
        if end < len(data):
            with self._path.open("r+b") as file:
                file.truncate(end)

    def _parse(self, data: bytes) -> dict[str, BatchResult]:
        try:
            head, *batches = map(json.loads, data.decode("utf-8", "replace").splitlines())
            found = {node.pop("batch"): _to_result(node) for node in batches}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(
                f"{self._path} is not a file that {option('resume')} wrote: {error}",
                hint=f"Give {option('resume')} another FILE.",
            ) from error
        if head != self._head:
            raise UsageError(
                f"{self._path} belongs to another check: {self._describe_differences(head)}",
                hint=f"Rerun with the options of that check, or give {option('resume')} another "
                "FILE.",
            )
        return found


def _to_line(node: Mapping[str, Any]) -> str:
    return json.dumps(node) + "\n"


def _describe(value: object) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case None:
            return "unknown"
        case str():
            return value.lower() if value.isupper() else value  # a depth, or the table's id
        case _:
            return str(value)


def _to_result(node: dict[str, Any]) -> BatchResult:
    findings = tuple(tuple(row) for row in node.pop("findings"))
    lists = {"notes": tuple(node["notes"]), "stats_noted": tuple(node.get("stats_noted", ()))}
    return BatchResult(**node | lists | {"findings": findings})


def read_version(path: str) -> int | None:
    """Return the version in the file of an earlier run; ``None`` if there is no such file."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            version = json.loads(file.readline())["version"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return version if isinstance(version, int) else None
