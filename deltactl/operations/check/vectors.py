"""Check deletion vectors: they exist, can be decoded, and match the log and the data file.

Source: PROTOCOL.md, "Deletion Vectors".
"""

from __future__ import annotations

from dataclasses import dataclass

from pyroaring import BitMap64

from deltactl.errors import CorruptLogError, DataFileError
from deltactl.operations.check.findings import Findings
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.open_files import load_deletion_vector
from deltactl.protocol.deletion_vectors import FRAME_OVERHEAD, DeletionVector
from deltactl.storage.store import FileInfo, Store


@dataclass(frozen=True, slots=True)
class Vector:
    """The result of checking a deletion vector; ``bitmap`` only if it was decoded and is valid."""

    bitmap: BitMap64 | None = None
    is_valid: bool = True


NO_VECTOR = Vector()
BROKEN_VECTOR = Vector(is_valid=False)


def name_vector_file(vector: DeletionVector, path: str, findings: Findings) -> str | None:
    """Return the decoded name of a vector's file; ``None`` if it is inline or invalid."""
    try:
        return vector.file_name
    except CorruptLogError as error:
        findings.add(
            "VECTOR_UNREADABLE",
            f"the deletion vector of {path} is invalid: {error.message}",
            file=path,
        )
        return None


def check_vector_file(
    vector: DeletionVector, path: str, name: str, info: FileInfo | None, findings: Findings
) -> bool:
    """Check that a vector's file exists and is long enough; return whether it is."""
    if info is None:
        findings.add(
            "VECTOR_MISSING", f"the deletion vector of {path} is not in the store", file=name
        )
        return False
    end = (vector.offset or 0) + vector.size_bytes + FRAME_OVERHEAD
    if info.size_bytes < end:
        findings.add(
            "VECTOR_UNREADABLE",
            f"it has {info.size_bytes} bytes; the deletion vector of {path} ends at byte {end}",
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
        problem = f"{what} deletes {len(bitmap)} rows, but the log has {vector.cardinality}"
        problems.append(("VECTOR_CARDINALITY", problem))
    if num_rows is not None and bitmap and bitmap.max() >= num_rows:
        problem = f"{what} deletes row {bitmap.max()}, but the data file has {num_rows} rows"
        problems.append(("VECTOR_ROWS", problem))
    for code, problem in problems:
        findings.add(code, problem, file=named)
    return BROKEN_VECTOR if problems else Vector(bitmap)


def _name_vector(vector: DeletionVector, path: str) -> tuple[str, str]:
    """Return the file that contains a vector, as far as known, and a name for messages."""
    name = vector.file_name
    if name is None:  # finding its commit would need a search
        return path, "its inline deletion vector"
    return name, f"the deletion vector of {path}"
