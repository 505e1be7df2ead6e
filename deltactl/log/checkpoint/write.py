"""Write one Parquet file of a checkpoint from a stream of actions, in bounded memory.

The file gets its name only when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from deltactl.errors import (
    ConflictError,
    DataFileError,
    DeltactlError,
    StorageError,
    VerificationError,
)
from deltactl.log.checkpoint.key_digest import Fingerprint, KeyDigest, join_fingerprints
from deltactl.log.checkpoint.row_groups import EncodedGroups, RowGroupWriter
from deltactl.log.checkpoint.rows import add_structs, remove_structs
from deltactl.log.checkpoint.schema import CheckpointLayout
from deltactl.storage.store import FileInfo, Store

if TYPE_CHECKING:  # only a checkpoint that copies needs them
    from deltactl.log.checkpoint.spliced_groups import GroupCopy, SplicedGroups

_ROW_GROUP_ROWS: Final = 1 << 17
_ROW_GROUP_BYTES: Final = 64 << 20


def remove_unchanged(store: Store, files: Iterable[FileInfo]) -> None:
    """Remove files, but only if they have not changed since deltactl wrote them.

    So a file of another writer is never removed. This raises no error, because it is called while
    another error is handled.
    """
    wanted = list(files)
    with suppress(DeltactlError):
        found = store.stat_many([file.name for file in wanted])
        same = [file.name for file, now in zip(wanted, found, strict=True) if now == file]
        store.delete_many(same)


@dataclass(frozen=True, slots=True)
class WrittenActions:
    """A written file of a checkpoint: number of rows, and the digest of its file actions.

    ``group_adds`` and ``group_removes`` are the numbers of adds and removes of each row group.
    """

    file: FileInfo
    num_rows: int
    adds: Fingerprint
    removes: Fingerprint
    group_adds: tuple[int, ...] = ()
    group_removes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Section:
    """The digests of a row group."""

    adds: KeyDigest = field(default_factory=KeyDigest)
    removes: KeyDigest = field(default_factory=KeyDigest)


class ActionFileWriter:
    """Write one file. If the ``with`` block ends before ``close``, the file is removed.

    Args:
        store: the store to write to.
        name: the name of the file, relative to the store's root. A file that has this name is
            replaced at the end.
        schema: columns of the file; each is the struct of an action.
        layout: the columns of file actions.
        copies: whether :meth:`copy_adds` will be called.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        schema: pa.Schema,
        layout: CheckpointLayout,
        *,
        copies: bool = False,
    ) -> None:
        self._store, self._name, self._schema, self._layout = store, name, schema, layout
        self._head: list[pa.Table] = []
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = self._num_rows = 0
        self._section = _Section()
        self._done: list[tuple[Fingerprint, Fingerprint]] = []
        # Another thread computes the digest of one batch while this thread encodes it.
        self._digester = ThreadPoolExecutor(1, thread_name_prefix="deltactl-digest")
        self._digested: Future[None] | None = None
        self._sink = store.open_replacement(name)
        self._spliced: SplicedGroups | None = None
        with self._naming_file():
            self._writer = self._open_writer(copies=copies)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._digester.shutdown()
        if not self._sink.closed:
            with suppress(Exception):
                self._writer.close()  # without this, its destructor writes to a closed sink
            self._sink.discard()

    @property
    def num_rows(self) -> int:
        """Return the number of rows that were written so far."""
        return self._num_rows

    def write_non_file_actions(self, rows: pa.Table) -> None:
        """Append rows that have some or all columns of the file's schema."""
        if rows.num_rows:
            columns = {name: rows[name] for name in rows.schema.names}
            self._head.append(self._fill(columns, rows.num_rows))

    def write_adds(self, files: pa.Table) -> None:
        """Append rows of ``ADD_SCHEMA``."""
        for batch in files.to_batches():
            self._digest(self._section.adds, batch)
            self._append({"add": add_structs(batch, self._layout)}, batch.num_rows)

    def write_removes(self, files: pa.Table) -> None:
        """Append rows of ``REMOVE_SCHEMA``."""
        for batch in files.to_batches():
            self._digest(self._section.removes, batch)
            self._append({"remove": remove_structs(batch, self._layout)}, batch.num_rows)

    def copy_adds(self, copy: GroupCopy, adds: Fingerprint) -> None:
        """Append a row group of an older checkpoint, given the digest of its rows.

        Raises:
            VerificationError: its file does not have the bytes.
            StorageError: its file cannot be read, or the new file cannot be written.
        """
        assert self._spliced is not None
        with self._naming_file():
            self._flush()
            self._spliced.copy(copy)
        self._num_rows += adds.count
        self._done.append((adds, KeyDigest().finish()))

    def close(self) -> WrittenActions:
        """Give the file its name. The file is durable when this returns.

        Raises:
            StorageError: the store failed, or the stored file does not have the size of the written
                one.
            ConflictError: another writer replaced the file at the same time.
        """
        with self._naming_file():
            self._flush(join=True)
            self._writer.close()
            size_bytes = self._sink.tell()
            self._sink.close()
        (info,) = self._store.stat_many([self._name])
        if info is None:
            raise StorageError(f"{self._name} is not in the store after it was written")
        if info.size_bytes != size_bytes:
            raise ConflictError(
                f"another writer wrote the checkpoint {self._name} during the run",
                hint="Rerun to check this checkpoint. This run did not change the checkpoint.",
            )
        self._digester.shutdown()
        adds, removes = zip(*self._done, strict=True) if self._done else ((), ())
        return WrittenActions(
            file=info,
            num_rows=self._num_rows,
            adds=join_fingerprints(adds),
            removes=join_fingerprints(removes),
            group_adds=tuple(part.count for part in adds),
            group_removes=tuple(part.count for part in removes),
        )

    def ensure_copied(self, written: WrittenActions) -> None:
        """Read the footer and page headers back, and compare them with those of the source.

        Raises:
            VerificationError: they differ.
            StorageError: the store failed; the file may be valid.
        """
        if self._spliced is None:
            return
        try:
            self._spliced.ensure_stored(self._store, self._name, written.file.size_bytes)
        except DataFileError as error:
            raise VerificationError(f"{self._name}: {error.message}") from error

    def _digest(self, digest: KeyDigest, files: pa.RecordBatch) -> None:
        self._wait_for_digest()
        self._digested = self._digester.submit(digest.add, files)

    def _wait_for_digest(self) -> None:
        if self._digested is not None:
            self._digested.result()

    def _append(self, columns: dict[str, pa.Array | pa.ChunkedArray], num_rows: int) -> None:
        if not num_rows:
            return
        self._pending.append(self._fill(columns, num_rows))
        self._pending_rows += num_rows
        self._pending_bytes += sum(column.nbytes for column in columns.values())
        if self._pending_rows >= _ROW_GROUP_ROWS or self._pending_bytes >= _ROW_GROUP_BYTES:
            with self._naming_file():
                self._flush()

    def _fill(self, columns: dict[str, pa.Array | pa.ChunkedArray], num_rows: int) -> pa.Table:
        """Return rows with null in all other columns of the file."""
        arrays = [
            columns[f.name] if f.name in columns else pa.nulls(num_rows, f.type)
            for f in self._schema
        ]
        self._num_rows += num_rows
        return pa.table(arrays, schema=self._schema)

    def _flush(self, *, join: bool = False) -> None:
        """Write what is pending; non-file actions are a row group of their own unless ``join``.

        Then the next checkpoint can copy the row group after them.
        """
        if self._head and not (join and self._pending):
            head = pa.concat_tables(self._head)
            self._head.clear()
            self._writer.write(head)
            self._done.append((KeyDigest().finish(), KeyDigest().finish()))
        if self._pending or self._head:
            table = pa.concat_tables([*self._head, *self._pending])
            self._head.clear()
            self._pending.clear()
            self._writer.write(table)
            self._wait_for_digest()
            section, self._section = self._section, _Section()
            self._done.append((section.adds.finish(), section.removes.finish()))
        self._pending_rows = self._pending_bytes = 0

    def _open_writer(self, *, copies: bool) -> RowGroupWriter:
        if not copies:
            return EncodedGroups(self._sink, self._schema, self._layout)
        from deltactl.log.checkpoint.spliced_groups import SplicedGroups

        self._spliced = SplicedGroups(self._sink, self._schema, self._layout)
        return self._spliced

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        try:
            yield
        except DeltactlError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise StorageError(f"{self._name} cannot be written: {error}"[:500]) from error
