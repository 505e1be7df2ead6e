"""The worker of a check: checks one batch of data files at the requested depth.

Runs on any engine: a task is a small picklable value, and the worker opens the store by URI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from deltactl.errors import CorruptLogError, UnsupportedFeatureError
from deltactl.log.file_stores import FileStores
from deltactl.log.find_files import find_path_problem, is_placed
from deltactl.operations.check.content import ContentChecker, Logged, Present
from deltactl.operations.check.findings import Findings, Row
from deltactl.operations.check.options import Depth
from deltactl.operations.check.vectors import name_vector_file
from deltactl.operations.optimize.column_rule import ColumnRule
from deltactl.parquet.data_file import DataFile
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import DELETION_VECTOR_TYPE
from deltactl.protocol.deletion_vectors import FRAME_OVERHEAD, INLINE, DeletionVector
from deltactl.protocol.paths import is_absolute
from deltactl.storage.open import open_store
from deltactl.storage.store import FileInfo, Store
from deltactl.storage.write_guard import refuse_changes

BATCH: Final = pa.schema(
    [
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("stats", pa.string()),
        ("deletion_vector", DELETION_VECTOR_TYPE),
        ("is_live", pa.bool_()),
    ]
)
"""A task's files; those that are not live belong to older versions only."""


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """The values that all batches share: the table and the depth.

    ``metadata`` are the metaData actions that files were written with, the version's own first.
    ``columns`` is the rule for live files, if footers are read.
    """

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    metadata: tuple[Metadata, ...]
    depth: Depth
    decodes_vectors: bool
    columns: ColumnRule | None = None


@dataclass(frozen=True, slots=True)
class CheckTask:
    """A batch: ``files`` as an Arrow stream; ``metadata`` is an index into the spec's."""

    metadata: int
    files: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of checking a batch.

    ``num_rows`` counts rows of live files that were opened, each once; ``num_gone`` are files of
    older versions that no longer exist, as after a vacuum. ``stats_noted``: see ``Findings``.
    """

    num_files: int = 0
    num_rows: int = 0
    num_vectors: int = 0
    num_gone: int = 0
    findings: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    stats_noted: tuple[str, ...] = ()


def check_files(spec: CheckSpec, task: CheckTask, attempt: int) -> BatchResult:
    """Check the files of a batch, columns of :data:`BATCH`."""
    store = refuse_changes(open_store(spec.uri, spec.storage_options))
    with pa.ipc.open_stream(task.files) as stream:
        rows = stream.read_all().to_pylist()
    return _BatchChecker(store, spec, spec.metadata[task.metadata]).run(rows)


class _BatchChecker:
    """Check the files of one batch."""

    def __init__(self, store: Store, spec: CheckSpec, metadata: Metadata) -> None:
        self._stores, self._spec = FileStores(store, spec.storage_options), spec
        self._findings = Findings()
        self._content = ContentChecker(
            self._stores,
            metadata,
            spec.depth,
            spec.decodes_vectors,
            self._findings,
            columns=spec.columns,
        )
        self._infos: dict[str, FileInfo | None] = {}
        self._unchecked: frozenset[str] = frozenset()

    def run(self, rows: Sequence[Mapping[str, Any]]) -> BatchResult:
        """Check all files."""
        logged = [self._read(row) for row in rows]
        vectors = [name_vector_file(file.data, self._findings) for file in logged]
        names = [file.data.path for file in logged] + [name for name in vectors if name]
        self._infos, errors = self._stores.find(
            [name for name in dict.fromkeys(names) if is_placed(name)]
        )
        self._unchecked = frozenset(errors)
        for name, error in errors.items():
            self._findings.add("FILE_UNCHECKED", error.message, file=name)
        for name, info in self._infos.items():
            if info is not None and info.is_archived:
                self._findings.add("FILE_ARCHIVED", "its storage class is an archive", file=name)
        present: list[Present] = []
        gone = 0
        for file, vector in zip(logged, vectors, strict=True):
            info = self._locate(file)
            gone += info is None and not file.is_live
            is_vector_there = file.knows_vector and self._check_vector_place(file, vector)
            if info is not None:
                present.append(Present(file, info, is_vector_there))
        return BatchResult(
            num_files=len(present),
            num_rows=self._content.check(present),
            num_vectors=sum(file.data.deletion_vector is not None for file in logged),
            num_gone=gone,
            findings=tuple(self._findings.rows),
            notes=tuple(self._findings.notes),
            stats_noted=tuple(self._findings.stats_noted),
        )

    def _read(self, row: Mapping[str, Any]) -> Logged:
        node, path = row["deletion_vector"], row["path"]
        vector, is_known = None, True
        if node is not None:
            try:
                vector = DeletionVector(**node)
            except (CorruptLogError, UnsupportedFeatureError) as error:
                is_known = False
                self._findings.add("VECTOR_UNREADABLE", error.message, file=path)
        file = DataFile(path, row["size_bytes"] or 0, deletion_vector=vector)
        return Logged(file, row["stats"], row["is_live"], is_known)

    def _locate(self, file: Logged) -> FileInfo | None:
        """Return the facts of a file in the store, compared with the log; ``None`` if unknown."""
        path = file.data.path
        if path in self._unchecked or not is_placed(path):
            return None
        info = self._infos.get(path)
        if info is None:
            if file.is_live:
                self._findings.add("FILE_MISSING", "it is not in the store", file=path)
            return None
        if self._spec.depth >= Depth.SIZES and info.size_bytes != file.data.size_bytes:
            self._findings.add(
                "FILE_SIZE",
                f"it has {info.size_bytes} bytes, but the log has {file.data.size_bytes}",
                file=path,
            )
        return info

    def _check_vector_place(self, file: Logged, name: str | None) -> bool:
        """Return whether the file of the vector can be read, by its name, existence and size."""
        vector = file.data.deletion_vector
        if vector is None or vector.storage_type == INLINE:
            return True
        if name is None or name in self._unchecked:
            return False
        if not is_absolute(name) and (problem := find_path_problem(name)) is not None:
            self._findings.add("PATH_INVALID", problem, file=name)
            return False
        info, what = self._infos.get(name), f"the deletion vector of {file.data.path}"
        if info is None:
            if file.is_live:
                self._findings.add("VECTOR_MISSING", f"{what} is not in the store", file=name)
            return False
        end = (vector.offset or 0) + vector.size_bytes + FRAME_OVERHEAD
        if info.size_bytes < end:
            problem = f"it has {info.size_bytes} bytes; {what} ends at byte {end}"
            self._findings.add("VECTOR_UNREADABLE", problem, file=name)
        return info.size_bytes >= end
