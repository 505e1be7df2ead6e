"""Find the files that a rewrite would refuse for their columns, for ``check``."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from deltactl.errors import SafetyError, VerificationError
from deltactl.lazy import cached_property
from deltactl.log.snapshot import Snapshot
from deltactl.operations.optimize.input_columns import InputColumns, explain_columns
from deltactl.operations.optimize.undecoded import UndecodedColumns
from deltactl.operations.row_proofs import stored_reader
from deltactl.parquet.footer_bytes import Footer
from deltactl.parquet.reader import RowReader


@dataclass(frozen=True)
class ColumnRule:
    """Which columns the live files of a version may have. A picklable value."""

    reader: RowReader
    explained: frozenset[str] | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> ColumnRule:
        """Return the rule for the live files of a version.

        Raises:
            CorruptLogError: the schema or the properties are not valid.
        """
        metadata = snapshot.metadata
        explained = explain_columns(snapshot)
        if explained is not None:
            explained |= UndecodedColumns.of(metadata).names
        return cls(stored_reader(metadata, snapshot.protocol, for_rewrite=True), explained)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset((*self.reader.fields, *(self.explained or ())))

    def find_problem(self, footer: Footer, schema: pa.Schema, path: str) -> str | None:
        """Return why a rewrite refuses a file, in words about "it"; ``None`` if it does not.

        Raises:
            DataFileError: several columns of the file match one column.
        """
        if self.reader.mapping_mode == "none" and self._known.issuperset(schema.names):
            return None  # as most files, so these take no time
        columns, source = InputColumns(self.reader, self.explained), pa.BufferReader(footer.data)
        try:
            columns.add(footer.metadata, path, counts=False, source=source)
        except (SafetyError, VerificationError) as error:
            return f"it{error.message.removeprefix(repr(path))}"
        return None
