"""Write deletion vectors for the outputs of a commit, and delete unused deletion vectors.

Source: PROTOCOL.md, "Deletion Vectors", "Deletion Vector Format".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final
from uuid import UUID

from pyroaring import BitMap64

from deltactl.clock import Clock
from deltactl.errors import DeltactlError
from deltactl.log.writing.action_lines import NewFile
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.deletion_vectors import (
    DeletionVector,
    encode_bitmap,
    encode_file,
    encode_inline,
)
from deltactl.protocol.features import DELETION_VECTORS, forbids_vectors, has_feature
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.stats_encoding import loosen_bounds
from deltactl.storage.store import Store

_MOST_INLINE_BYTES: Final = 256


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
        stats = f'{{"numRecords":{file.num_records}}}' if file.stats is None else file.stats
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
