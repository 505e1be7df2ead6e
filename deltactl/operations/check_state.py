"""Checks of a version's live files as columns: what the log alone can tell, without a request.

Source: PROTOCOL.md, "Add File and Remove File", "Partition Value Serialization", "Deletion
Vectors", "Row Tracking".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, UnsupportedFeatureError
from deltactl.log.row_ids import read_high_water_mark
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check_findings import Findings
from deltactl.operations.check_identity import IdentityChecker
from deltactl.operations.check_presence import find_path_problem
from deltactl.protocol.features import has_feature
from deltactl.protocol.partitions import lookup_map, parse_partition_column
from deltactl.protocol.paths import is_absolute
from deltactl.protocol.schema import Field, arrow_type
from deltactl.protocol.spark_hash import SPARK_SEED, hash_texts
from deltactl.protocol.stats import num_records

STATE_COLUMNS: Final = (
    "path",
    "size_bytes",
    "partition_values",
    "stats",
    "deletion_vector",
    "base_row_id",
)
# Empty, with a NUL, or with an empty, "." or ".." part: everything else is the name of a file.
_ODD: Final = r"\x00|(?:^|/)\.{0,2}(?:/|$)"
_OTHER_SEED: Final = 0x85EBCA77

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class StateChecker:
    """Takes the live files of a version in batches; ``finish`` says what only all of them tell.

    Memory holds 8 bytes a file, and 16 more where rows are tracked.
    """

    snapshot: Snapshot
    findings: Findings
    num_files: int = 0
    size_bytes: int = 0
    _hashes: list[npt.NDArray[np.uint64]] = field(default_factory=list)
    _ids: list[tuple[Numbers, Numbers]] = field(default_factory=list)
    _vectors_seen: bool = False
    _without_ids: int = 0

    def run(self) -> None:
        """Check all live files of the version.

        Raises:
            CorruptLogError: the checkpoint cannot be read.
        """
        identity = IdentityChecker(self.snapshot.metadata, self.findings)
        for batch in self.snapshot.file_batches(STATE_COLUMNS):
            _ensure_text(batch)
            self.num_files += batch.num_rows
            self.size_bytes += pc.sum(batch["size_bytes"]).as_py() or 0
            self._check_paths(batch)
            self._check_partitions(batch)
            self._check_vectors(batch)
            self._collect_ids(batch)
            identity.take(batch)
        self._check_duplicates()
        self._check_ids()
        identity.finish(self.snapshot.version)

    def _add(self, code: str, problem: str, file: str | None = None) -> None:
        self.findings.add(code, problem, version=self.snapshot.version, file=file)

    def _check_paths(self, batch: pa.Table) -> None:
        for path in batch["path"].filter(pc.match_substring_regex(batch["path"], _ODD)).to_pylist():
            if not is_absolute(path) and (problem := find_path_problem(path)) is not None:
                self._add("PATH_INVALID", problem, path)
        sizes = batch["size_bytes"]
        odd = pc.fill_null(pc.less(sizes, 0), True)
        for path in batch["path"].filter(odd).to_pylist():
            self._add("FILE_SIZE", "the log gives it no size, or a negative one", path)
        for chunk in batch["path"].chunks:
            low, high = (
                hash_texts(chunk, seed).view(np.uint32) for seed in (SPARK_SEED, _OTHER_SEED)
            )
            self._hashes.append(low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32))

    def _check_partitions(self, batch: pa.Table) -> None:
        for column in self.snapshot.metadata.partition_fields:
            texts = lookup_map(batch["partition_values"], column.physical_name)
            bad = self._bad_values(texts, column)
            if not bad:
                continue
            rows = batch["path"].filter(pc.is_in(texts, value_set=pa.array(bad, pa.string())))
            values = pc.drop_null(texts.filter(pc.is_in(texts, value_set=pa.array(bad))))
            for path, value in zip(rows.to_pylist(), values.to_pylist(), strict=True):
                problem = f"partition value {value!r} of column {column.name!r} is no value of it"
                self._add("PARTITION_VALUE", problem, path)

    def _bad_values(self, texts: pa.ChunkedArray, column: Field) -> list[str]:
        try:
            type_ = arrow_type(column.type)
            parse_partition_column(texts, type_)
        except UnsupportedFeatureError as error:
            self.findings.note(f"values of {column.name!r} were not checked: {error.message}")
            return []
        except CorruptLogError:
            return [t for t in pc.unique(texts).drop_null().to_pylist() if not _parses(t, type_)]
        return []

    def _check_vectors(self, batch: pa.Table) -> None:
        vectors = batch["deletion_vector"]
        if vectors.null_count == len(vectors):
            return
        if not self._vectors_seen and not has_feature(self.snapshot.protocol, "deletionVectors"):
            self._add(
                "FEATURE_MISSING",
                "files have deletion vectors, and the protocol does not list deletionVectors",
            )
        self._vectors_seen = True
        deleted = pc.struct_field(vectors, "cardinality")
        rows = num_records(batch["stats"])
        wrong = pc.fill_null(pc.or_(pc.less(deleted, 0), pc.greater(deleted, rows)), False)
        if not pc.any(wrong).as_py():
            return
        found = zip(
            *(c.filter(wrong).to_pylist() for c in (batch["path"], deleted, rows)), strict=True
        )
        for path, count, all_rows in found:
            problem = f"its vector deletes {count} of {all_rows} rows, by the log"
            self._add("VECTOR_CARDINALITY", problem, path)

    def _check_duplicates(self) -> None:
        hashes = np.concatenate([np.zeros(0, np.uint64), *self._hashes])
        if len(hashes) == len(np.unique(hashes)):
            return
        paths = pa.concat_tables(list(self.snapshot.file_batches(["path"])))["path"]
        counts = pc.value_counts(paths)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1))
        for row in repeated.to_pylist():
            problem = f"it is live {row['counts']} times, under different deletion vectors"
            self._add("FILE_DUPLICATE", problem, row["values"])

    @property
    def _tracks_rows(self) -> bool:
        properties = self.snapshot.properties
        return (
            has_feature(self.snapshot.protocol, "rowTracking")
            and properties.row_tracking_enabled
            and not properties.row_tracking_suspended
        )

    def _collect_ids(self, batch: pa.Table) -> None:
        if not self._tracks_rows:
            return
        bases = batch["base_row_id"]
        if bases.null_count:
            for path in batch["path"].filter(pc.is_null(bases)).to_pylist():
                self._add("ROW_IDS_MISSING", "it has no baseRowId, and the table tracks rows", path)
        rows = num_records(batch["stats"])
        known = pc.and_(pc.is_valid(bases), pc.is_valid(rows))
        self._without_ids += len(bases) - int(pc.sum(known).as_py() or 0)
        self._ids.append(tuple(c.filter(known).to_numpy() for c in (bases, rows)))

    def _check_ids(self) -> None:
        if not self._ids:
            return
        if self._without_ids:
            self.findings.note("row ids of files without numRecords were not checked")
        bases, rows = (np.concatenate([part[i] for part in self._ids]) for i in (0, 1))
        order = np.lexsort((rows, bases))
        bases, ends = bases[order], (bases + rows)[order]
        reached = np.maximum.accumulate(ends[:-1]) if len(ends) else ends
        overlaps = np.flatnonzero((bases[1:] < reached) & (ends[1:] > bases[1:]))
        if len(overlaps):
            place = int(overlaps[0]) + 1
            self._add(
                "ROW_IDS_OVERLAP",
                f"{len(overlaps)} files have row ids of others; the first begins at "
                f"{bases[place]}, where ids up to {reached[place - 1] - 1} are taken",
            )
        self._check_mark(int(ends.max(initial=0)) - 1)

    def _check_mark(self, greatest: int) -> None:
        try:
            mark = read_high_water_mark(self.snapshot.domains)
        except CorruptLogError as error:
            self._add("ROW_IDS_MARK", error.message)
            return
        if greatest > mark:
            self._add(
                "ROW_IDS_MARK",
                f"the high-water mark is {mark}, a file has row ids up to {greatest}",
            )


def _ensure_text(batch: pa.Table) -> None:
    """Refuse strings that are no UTF-8, which Parquet's readers let through."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptLogError(f"the log holds broken values: {error}"[:300]) from error


def _parses(text: str, type_: pa.DataType) -> bool:
    try:
        parse_partition_column(pa.array([text], pa.string()), type_)
    except CorruptLogError:
        return False
    return True
