"""Decide whether a rewritten bin can be committed after deletes of other writers.

The bin is committed unchanged, committed with a deletion vector, or dropped. The decision needs no
I/O except ``read``; ``VectorWriter`` then writes the vectors.

By Delta's conflict rules for commits without data change, concurrent appends never conflict.
Outputs keep the order of their inputs. So if another writer deleted a row from an input, the
position of the row in the output is known: output position = input position - earlier rows that
were deleted when the input was read + first output row of the input.

Source: PROTOCOL.md, "Action Reconciliation", "Deletion Vectors", "Deletion Vector Format", and
Delta's conflict rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltactl.clock import Clock
from deltactl.errors import DeltactlError, StorageError, TableError, UnsupportedFeatureError
from deltactl.log.commits.file_actions import decoded_names, file_keys
from deltactl.log.replay import Tail, reconcile
from deltactl.log.writing.actions import NewFile
from deltactl.parquet.digest import RowDigest
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.arrow_schemas import ADD_SCHEMA, REMOVE_SCHEMA
from deltactl.protocol.deletion_vectors import (
    DeletionVector,
    encode_bitmap,
    encode_file,
    encode_inline,
)
from deltactl.protocol.features import DELETION_VECTORS, forbids_vectors, has_feature
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.stats import num_records
from deltactl.protocol.stats_encoding import loosen_bounds
from deltactl.storage.store import Store

ReadVector = Callable[[DeletionVector], BitMap64]

_REWRITTEN: Final = "another writer rewrote or deleted some of the input files"
_NO_VECTORS: Final = (
    "another writer deleted rows of the input files, and this table does not allow new deletion "
    "vectors"
)
_NO_OFFSETS: Final = (
    "another writer deleted rows of the input files. This run changed the order of rows, so it "
    "cannot find the deleted rows in the new files"
)
_SOME_GONE: Final = (
    "another writer removed some of the input files. This run changed the order of rows, so it "
    "cannot find their rows in the new files"
)
_RESTORED: Final = "another writer restored rows of the input files"
_OTHER_IDS: Final = "another writer changed the row ids or other metadata of the input files"
_ALL_GONE: Final = "other writers removed all of the input files"
# Errors that make the deletion vector of another writer unusable. Other bins can be committed
# without it.
_UNUSABLE: Final = (TableError, UnsupportedFeatureError, StorageError)
_FACTS: Final = ("size_bytes", "base_row_id", "default_row_commit_version")

_MOST_INLINE_BYTES: Final = 256  # a file of its own would cost a request of each reader


@dataclass(frozen=True, slots=True)
class Bin:
    """A rewritten bin: the files to remove and to add. They are committed together or not at all.

    ``removed`` has rows of ``ADD_SCHEMA`` plus ``num_records``. ``inputs`` has ``first_row`` and
    ``physical_rows`` for each of them, if the only output keeps the order of their rows (see
    ``RewriteResult``). Then deletes of other writers can be applied to the output. ``first_row`` is
    null if the ``remove`` has another deletion vector than the one that was read. ``digest`` is the
    row digest, if it was computed.
    """

    removed: pa.Table
    added: tuple[NewFile, ...]
    inputs: pa.RecordBatch | None = None
    digest: RowDigest | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The part of a bin that may be committed; if it is dropped, ``None`` and a reason.

    ``deleted`` are the rows of the output that other writers deleted. If the output has no live
    row, it is not added, and ``deleted`` is ``None``. ``carried_rows`` is the number of deleted
    rows.
    """

    bin: Bin | None
    reason: str = ""
    deleted: BitMap64 | None = None
    carried_rows: int = 0


class ConcurrentCommits:
    """The newest actions of other writers on the files of a run, since the files were read."""

    def __init__(self, files: pa.Table) -> None:
        """Take all files that the run may remove, as rows of ``ADD_SCHEMA``."""
        # Decoded, so that other path texts of a file are found too (ADR 4).
        self._names = decoded_names(files)
        self._adds = ADD_SCHEMA.empty_table()
        self._removes = REMOVE_SCHEMA.empty_table()
        self._index()

    def rebase(self, tail: Tail) -> None:
        """Add the actions of commits that are newer than all commits before."""
        adds, removes = self._pick(tail.adds), self._pick(tail.removes)
        if adds.num_rows or removes.num_rows:
            # Two numbers are enough: on each side, a key occurs once.
            before = _at(self._adds, 0), _at(self._removes, 0)
            merged = reconcile([before, (_at(adds, 1), _at(removes, 1))])
            self._adds, self._removes = merged.adds, merged.removes
            self._index()

    def _pick(self, actions: pa.Table) -> pa.Table:
        return actions.filter(pc.is_in(decoded_names(actions), value_set=self._names))

    def _index(self) -> None:
        names = (decoded_names(self._adds), decoded_names(self._removes))
        self._touched = pa.chunked_array([*names[0].chunks, *names[1].chunks], pa.string())
        self._adds_of = _rows_by_name(names[0])
        self._removes_of = _rows_by_name(names[1])
        self._remove_keys = file_keys(self._removes).to_pylist()
        self._data_changes = self._removes["data_change"].to_pylist()
        self._add_texts = self._adds["encoded_path"].to_pylist()
        self._remove_texts = self._removes["encoded_path"].to_pylist()

    def judge(
        self, bins: Sequence[Bin], read: ReadVector, *, may_write_vectors: bool
    ) -> list[Verdict]:
        """Return, for each bin, what may be committed.

        ``read`` returns the rows of a deletion vector. If it raises an error because of the vector,
        its file or the store, the bin is dropped.
        """
        if not len(self._touched):
            return [Verdict(bin_) for bin_ in bins]
        return [self._judge(bin_, read, may_write_vectors) for bin_ in bins]

    def _judge(self, bin_: Bin, read: ReadVector, may_write_vectors: bool) -> Verdict:
        names = decoded_names(bin_.removed)
        hit = np.flatnonzero(pc.is_in(names, value_set=self._touched).to_numpy())
        if not len(hit):
            return Verdict(bin_)
        carried = _Carried(bin_, self._like(bin_.removed), read)
        for row, name in zip(hit.tolist(), names.take(pa.array(hit)).to_pylist(), strict=True):
            reason = self._replay(carried, row, name)
            if reason is not None:
                return Verdict(None, reason)
        return carried.verdict(may_write_vectors)

    def _replay(self, carried: _Carried, row: int, name: str) -> str | None:
        """Apply the changes of an input to the bin. If this is not possible, return the reason."""
        adds, removes = self._adds_of.get(name, []), self._removes_of.get(name, [])
        texts = {self._add_texts[at] for at in adds} | {self._remove_texts[at] for at in removes}
        if texts != {carried.texts[row]}:
            return _REWRITTEN  # readers differ in whether two texts are one file
        key = carried.keys[row]
        is_removed = any(self._remove_keys[at] == key for at in removes)
        if not adds:
            # If a `remove` does not have the newest vector, the file stays live for readers.
            # If it only moved rows (no data change), the work of this bin is done (ADR 23).
            if not (is_removed and all(self._data_changes[at] for at in removes)):
                return _REWRITTEN
            carried.drop(row)
            return None
        # Live with several vectors: it cannot be decided which one is correct.
        if len(adds) > 1:
            return _REWRITTEN
        return carried.replace(row, adds[0], is_removed)

    def _like(self, files: pa.Table) -> pa.Table:
        """Return the adds of other writers with the columns of ``files``."""
        columns = self._adds.append_column("num_records", num_records(self._adds["stats"]))
        arrays = [
            columns[field.name].cast(field.type)
            if field.name in columns.schema.names
            else pa.nulls(columns.num_rows, field.type)
            for field in files.schema
        ]
        return pa.table(arrays, schema=files.schema)


def _at(actions: pa.Table, seq: int) -> pa.Table:
    return actions.append_column("seq", pa.array(np.full(actions.num_rows, seq), pa.int64()))


def _rows_by_name(names: pa.ChunkedArray) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row, name in enumerate(names.to_pylist()):
        found.setdefault(name, []).append(row)
    return found


class _Carried:
    """A bin while the changes of its inputs are applied to it."""

    def __init__(self, bin_: Bin, adds: pa.Table, read: ReadVector) -> None:
        """Take a bin, and what other writers added, with the columns of the bin's files."""
        self._bin, self._read = bin_, read
        self._files = pa.concat_tables([bin_.removed, adds])
        self.keys = file_keys(bin_.removed).to_pylist()
        self.texts = bin_.removed["encoded_path"].to_pylist()
        self._num_rows = sum(file.num_records for file in bin_.added)
        self._rows = np.arange(bin_.removed.num_rows)
        self._kept = np.ones(bin_.removed.num_rows, np.bool_)
        self._exact = np.ones(bin_.removed.num_rows, np.bool_)
        self._deleted = BitMap64()
        self._is_ordered = bin_.inputs is not None and len(bin_.added) <= 1

    def drop(self, row: int) -> None:
        """Delete all rows of an input that another writer removed."""
        self._kept[row] = False
        if not self._is_ordered:
            return  # the result depends on whether other inputs are left
        start, end = self._span(row)
        if start < end:
            self._deleted.add_range(start, end)

    def replace(self, row: int, add: int, is_removed: bool) -> str | None:
        """Apply the vector with which another writer added an input again."""
        at = self._bin.removed.num_rows + add
        (before, after) = self._files.take(pa.array([row, at])).to_pylist()
        if _facts(before) != _facts(after):
            return _OTHER_IDS
        self._rows[row] = at
        if before["deletion_vector"] == after["deletion_vector"]:
            return None
        if not is_removed:
            return _REWRITTEN  # live with both vectors: deltactl cannot decide which one is correct
        if not self._is_ordered:
            return _NO_OFFSETS
        try:
            old, new = self._load(before), self._load(after)
        except _UNUSABLE as error:
            return f"the deletion vector of another writer cannot be used: {error.message}"
        return self._delete(row, old, new)

    def _delete(self, row: int, old: BitMap64, new: BitMap64) -> str | None:
        physical = int(self._bin.inputs["physical_rows"][row].as_py())  # type: ignore[index]
        if not old.issubset(new):
            return _RESTORED
        if new and new.max() >= physical:
            return f"another writer deleted row {new.max()} of a file with {physical} rows"
        start, end = self._span(row)
        moved = shift_positions(old, new, start)
        # Checked, because a vector with wrong positions would delete other rows.
        if start + physical - len(old) != end:
            return "the rows of an input file are not at their expected positions in the new file"
        self._deleted |= moved
        self._exact[row] = False
        return None

    def _load(self, file: Mapping[str, Any]) -> BitMap64:
        node = file["deletion_vector"]
        return BitMap64() if node is None else self._read(DeletionVector(**node))

    def _span(self, row: int) -> tuple[int, int]:
        """Return the first output row of an input, and the first output row of the next input."""
        assert self._bin.inputs is not None
        starts = self._bin.inputs["first_row"]
        last = row + 1 == len(starts)
        return starts[row].as_py(), self._num_rows if last else starts[row + 1].as_py()

    def verdict(self, may_write_vectors: bool) -> Verdict:
        """Return what can be committed."""
        removed = self._files.take(pa.array(self._rows[self._kept]))
        if not removed.num_rows:
            return Verdict(None, _ALL_GONE)
        if not self._is_ordered and not self._kept.all():
            return Verdict(None, _SOME_GONE)
        count = len(self._deleted)
        bin_ = replace(self._bin, removed=removed, inputs=self._inputs())
        if not count:
            return Verdict(bin_)
        # As in Delta on Spark, no file is added of which every row is deleted.
        if count == self._num_rows:
            return Verdict(replace(bin_, added=(), inputs=None), carried_rows=count)
        if not may_write_vectors:
            return Verdict(None, _NO_VECTORS)
        return Verdict(bin_, deleted=self._deleted, carried_rows=count)

    def _inputs(self) -> pa.RecordBatch | None:
        inputs = self._bin.inputs
        if inputs is None:
            return None
        nulls = pa.nulls(inputs.num_rows, pa.int64())
        first = pc.if_else(pa.array(self._exact), inputs["first_row"], nulls)
        index = inputs.schema.get_field_index("first_row")
        return inputs.set_column(index, "first_row", first).filter(pa.array(self._kept))


def _facts(file: Mapping[str, Any]) -> tuple[Any, ...]:
    values = dict(file["partition_values"] or ())
    return (values, *(file[name] for name in _FACTS))


def shift_positions(old: BitMap64, new: BitMap64, first_row: int) -> BitMap64:
    """Return the output positions of rows that ``new`` deletes and ``old`` does not.

    Args:
        old: the rows of the input that were deleted when it was read; the output does not have
            them.
        new: the rows that are deleted now; they include all rows of ``old``.
        first_row: where the live rows of the input begin in the output.
    """
    positions = _array(new - old)
    ranks = np.searchsorted(_array(old), positions).astype(np.uint64)
    return BitMap64(positions - ranks + np.uint64(first_row))


def _array(bitmap: BitMap64) -> npt.NDArray[np.uint64]:
    return np.asarray(bitmap.to_array(), np.uint64)


def may_write_vectors(protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether new files may have deletion vectors: not if Iceberg readers are enabled."""
    properties = TableProperties(metadata.configuration)
    return (
        has_feature(protocol, DELETION_VECTORS)
        and properties.deletion_vectors_enabled
        and not properties.uniform_formats
        and not forbids_vectors(metadata)
    )


class VectorWriter:
    """Write the vectors of one commit. A vector is written again only if it changed."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Take a store, and a clock that gives ids for names."""
        self._store, self._clock = store, clock
        self._written: dict[str, tuple[bytes, DeletionVector]] = {}
        self._names: set[str] = set()

    def attach(self, file: NewFile, deleted: BitMap64, properties: TableProperties) -> NewFile:
        """Return the file with a deletion vector for its deleted rows."""
        payload = encode_bitmap(deleted)
        known = self._written.get(file.path)
        if known is None or known[0] != payload:
            known = payload, self._write(payload, len(deleted), properties.random_prefix_length)
            self._written[file.path] = known
        # Required with a deletion vector (PROTOCOL.md, "Deletion Vectors").
        stats = f'{{"numRecords":{file.num_records}}}' if file.stats is None else file.stats
        # The bounds may be those of deleted rows (PROTOCOL.md, "Per-file Statistics").
        return replace(file, deletion_vector=known[1], stats=loosen_bounds(stats))

    def _write(self, payload: bytes, cardinality: int, prefix_length: int) -> DeletionVector:
        if len(payload) <= _MOST_INLINE_BYTES:
            return encode_inline(payload, cardinality)
        identifier = UUID(self._clock.new_id())
        prefix = identifier.hex[:prefix_length]
        vector, content = encode_file(payload, cardinality, identifier, prefix)
        name = vector.file_name
        assert name is not None
        self._names.add(name)
        self._store.put(name, content)
        return vector

    def discard(self, files: Iterable[NewFile] = ()) -> list[str]:
        """Delete vectors of files that were not committed; return those that stay."""
        vectors = (file.deletion_vector for file in files)
        names = self._names.difference(v.file_name for v in vectors if v is not None)
        if not names:
            return []
        try:
            return list(self._store.delete_many(sorted(names)))
        except DeltactlError:
            return sorted(names)  # harmless: no commit references these files
