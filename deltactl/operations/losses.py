"""Find live files that are lost: they do not exist, or have another size than in the log.

A commit that rewrites files, such as OPTIMIZE, adds files with the rows of those that it removes.
If an added file is lost, a restore of an earlier version brings its rows back: until the removed
files are deleted, or the commits of that version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import StorageError, UsageError
from deltactl.log.physical_names import locate
from deltactl.operations.missing_files import GONE, PRESENCE_COLUMNS, Missing, find_missing
from deltactl.operations.run_context import RunContext
from deltactl.protocol.vacuum_names import vector_mask
from deltactl.storage.store import Store
from deltactl.units import format_count

NO_NAMES: Final = pa.chunked_array([], pa.string())


@dataclass(frozen=True, slots=True)
class Losses:
    """Names of live files that do not exist, and of those that have another size."""

    missing: pa.ChunkedArray = field(default_factory=lambda: NO_NAMES)
    resized: pa.ChunkedArray = field(default_factory=lambda: NO_NAMES)

    @property
    def names(self) -> pa.ChunkedArray:
        """Return the names of all lost files."""
        return pa.chunked_array([*self.missing.chunks, *self.resized.chunks], pa.string())

    def describe(self) -> str | None:
        """Return a text about the lost files, if there are any."""
        parts = []
        if len(self.missing):
            files = format_count(len(self.missing), "live file does", "live files do")
            parts.append(f"{files} not exist, such as {self.missing[0].as_py()!r}")
        if len(self.resized):
            files = format_count(len(self.resized), "live file has", "live files have")
            name = self.resized[0].as_py()
            parts.append(f"{files} another size than in the log, such as {name!r}")
        return "; ".join(parts) or None

    @property
    def remedies(self) -> str:
        """Return what to do about the lost files."""
        first = "move files of another size out of the table, then " if len(self.resized) else ""
        return (
            "Copy the right file back from a backup, or restore an earlier version, which undoes "
            "later changes: `deltactl describe-history TABLE --restorable` shows which versions "
            f"have all their files. To go on without what is lost, {first}run {self.fix}."
        )

    @property
    def fix(self) -> str:
        """Return the commands that go on without the lost data files, or deletion vectors."""
        are_vectors = vector_mask(self.names)
        fixes = []
        if not pc.all(are_vectors).as_py():
            fixes.append("`deltactl check TABLE --fix missing-files`")
        if pc.any(are_vectors).as_py():
            fixes.append("`deltactl check TABLE --fix missing-vectors`")
        return " and ".join(fixes)


def find_losses(store: Store, files: pa.Table, context: RunContext) -> Losses:
    """Look up live files and their vectors, also outside the root; return those that are lost.

    Warn of files outside the root that cannot be looked up. ``files`` have ``PRESENCE_COLUMNS``; a
    size that is null or not more than 0 is unknown, and not compared.

    Raises:
        DeltactlError: it cannot be found out of a file below the root.
    """
    sizes = files["size_bytes"]
    known = pc.if_else(pc.greater(sizes, 0), sizes, pa.scalar(None, pa.int64()))
    files = pa.table([files["path"], known, files["deletion_vector"]], names=PRESENCE_COLUMNS)
    located = locate(store, files["path"])
    inside = files.set_column(0, "path", located).filter(located.is_valid())
    found = find_missing(store, [inside], context)
    if located.null_count:
        found += _find_outside(store, files.filter(located.is_null()), context)
    missing = [it.path for it in found if it.problem == GONE]
    resized = [it.path for it in found if it.problem != GONE]
    return Losses(*(pa.chunked_array([names], pa.string()) for names in (missing, resized)))


def _find_outside(store: Store, files: pa.Table, context: RunContext) -> tuple[Missing, ...]:
    """Look for files outside the root; warn if this user cannot, such as in another account."""
    try:
        return find_missing(store, [files], context, everywhere=True)
    except (StorageError, UsageError) as error:
        text = format_count(files.num_rows, "live file")
        context.warn(f"{text} outside the table directory could not be looked up: {error.message}")
        return ()
