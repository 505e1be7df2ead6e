"""Checks of deletion vectors: there, whole, of the size that the log says, inside their file.

Source: PROTOCOL.md, "Deletion Vectors".
"""

from __future__ import annotations

from dataclasses import dataclass

from pyroaring import BitMap64

from deltactl.errors import CorruptLogError, DataFileError
from deltactl.operations.check.findings import Findings
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.reader import load_deletion_vector
from deltactl.protocol.deletion_vectors import FRAME_OVERHEAD, DeletionVector
from deltactl.storage.store import FileInfo, Store


@dataclass(frozen=True, slots=True)
class Vector:
    """A deletion vector as far as it was looked at; ``bitmap`` only where it is sound."""

    bitmap: BitMap64 | None = None
    is_sound: bool = True


NO_VECTOR = Vector()
BROKEN_VECTOR = Vector(is_sound=False)


def name_vector_file(vector: DeletionVector, path: str, findings: Findings) -> str | None:
    """The decoded name of a vector's file; ``None`` for an inline one, and where it names none."""
    try:
        return vector.file_name
    except CorruptLogError as error:
        findings.add("VECTOR_UNREADABLE", f"of {path}: {error.message}", file=path)
        return None


def check_vector_file(
    vector: DeletionVector, path: str, name: str, info: FileInfo | None, findings: Findings
) -> bool:
    """Check that a vector's file is there and long enough; tell whether it is."""
    if info is None:
        findings.add(
            "VECTOR_MISSING", f"the deletion vector of {path} is not in the store", file=name
        )
        return False
    end = (vector.offset or 0) + vector.size_bytes + FRAME_OVERHEAD
    if info.size_bytes < end:
        findings.add(
            "VECTOR_UNREADABLE",
            f"it has {info.size_bytes} bytes; the deletion vector of {path} ends at {end}",
            file=name,
        )
        return False
    return True


def check_vector(store: Store, file: DataFile, num_rows: int | None, findings: Findings) -> Vector:
    """Decode a file's vector, and compare it with the log and the file's rows."""
    vector = file.deletion_vector
    if vector is None:
        return NO_VECTOR
    named, what = _name_vector(vector, file.path)
    try:
        bitmap = load_deletion_vector(store, vector, count=False)
    except (DataFileError, CorruptLogError) as error:
        findings.add("VECTOR_UNREADABLE", f"{what} cannot be read: {error.message}", file=named)
        return BROKEN_VECTOR
    problems = []
    if len(bitmap) != vector.cardinality:
        problem = f"{what} deletes {len(bitmap)} rows, the log says {vector.cardinality}"
        problems.append(("VECTOR_CARDINALITY", problem))
    if num_rows is not None and bitmap and bitmap.max() >= num_rows:
        problem = f"{what} deletes row {bitmap.max()}, the data file has {num_rows} rows"
        problems.append(("VECTOR_ROWS", problem))
    for code, problem in problems:
        findings.add(code, problem, file=named)
    return BROKEN_VECTOR if problems else Vector(bitmap)


def _name_vector(vector: DeletionVector, path: str) -> tuple[str, str]:
    """The file that a vector's bytes are in, as far as that is known, and what to call it."""
    name = vector.file_name
    if name is None:  # which commit it is in would take a search
        return path, "its deletion vector, which is in the log,"
    return name, f"the deletion vector of {path}"
