"""Check the live files of a version with rules that need only the log.

Values of identity columns come from the statistics in the log, which deeper checks compare with the
files. Source: PROTOCOL.md, "Add File and Remove File", "Deletion Vectors", "Row Tracking",
"Identity Columns", "Partition Value Serialization".
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, UnsupportedFeatureError
from deltactl.log.audit.path_actions import PathActions
from deltactl.log.audit.path_texts import PathTextIndex
from deltactl.log.commits.file_actions import ADD_MEMBERS, find_incomplete, sum_sizes
from deltactl.log.find_files import find_path_problem
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.row_ids import read_high_water_mark
from deltactl.numpy_types import Integers
from deltactl.operations.check.directories import find_moved
from deltactl.operations.check.findings import Findings
from deltactl.operations.check.vectors import VECTOR_COLUMNS, VectorIndex
from deltactl.operations.control_characters import explain_controls, find_controls
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import JSON_NAMES, arrow_type
from deltactl.protocol.features import DELETION_VECTORS, ROW_TRACKING, has_feature
from deltactl.protocol.partition_texts import find_malformed
from deltactl.protocol.partitions import lookup_map, parse_partition_column
from deltactl.protocol.path_columns import absolute_mask, not_java_text_mask
from deltactl.protocol.paths import is_absolute
from deltactl.protocol.schema import TYPE_CHANGES_KEY, Field
from deltactl.protocol.schema_rules import can_partition
from deltactl.protocol.stats import num_records
from deltactl.protocol.stats_decoding import parse_stats
from deltactl.units import format_count

STATE_COLUMNS: Final = (
    "path",
    "encoded_path",
    "size_bytes",
    "partition_values",
    "stats",
    "deletion_vector",
    "base_row_id",
    "default_row_commit_version",
    "modification_time_ms",
    "data_change",
)
# Empty, with a NUL, or with an empty, "." or ".." part: every other path is valid.
_ODD: Final = r"\x00|(?:^|/)\.{0,2}(?:/|$)"

_MARK = "delta.identity.highWaterMark"
_STEP = "delta.identity.step"
_EXPLICIT = "delta.identity.allowExplicitInsert"

PARTITION_COLUMNS: Final = ("path", "deletion_vector", "partition_values")
"""Columns that identify files, and the column that is checked."""


@dataclass(slots=True)
class StateChecker:
    """Check the live files of a version in batches, then all of them together.

    The indices have the live files afterwards, and ``directories`` those of absolute names. With
    row tracking, this needs 16 bytes per file.
    """

    snapshot: Snapshot
    findings: Findings
    path_texts: PathTextIndex
    vectors: VectorIndex
    actions: PathActions
    num_files: int = 0
    size_bytes: int = 0
    directories: set[str] = field(default_factory=set)
    _ids: list[tuple[Integers, Integers]] = field(default_factory=list)
    _vectors_seen: bool = False
    _without_ids: int = 0
    _unlike_spark: int = 0
    _unlike_example: str = ""
    _controls: int = 0
    _control_example: str = ""
    _moved: list[tuple[int, str]] = field(default_factory=list)

    def run(self) -> None:
        """Check all live files of the version.

        Raises:
            CorruptLogError: the checkpoint cannot be read.
        """
        snapshot = self.snapshot
        self.path_texts.forget_live()
        self.vectors.forget_live()
        self.actions.forget_live()
        identity = IdentityChecker(snapshot.metadata, self.findings)
        for batch in snapshot.file_batches(STATE_COLUMNS):
            _ensure_text(batch)
            self.num_files += batch.num_rows
            self.size_bytes += sum_sizes(batch)
            self._check_paths(batch)
            check_partitions(batch, snapshot.metadata, snapshot.version, self.findings)
            self._moved += find_moved(batch, snapshot.metadata)
            self._check_vectors(batch)
            self._collect_ids(batch)
            identity.take(batch)
        for batch in snapshot.tail.remove_rows.batches(["path", "partition_values"]):
            self._check_removed(batch)
        self._check_duplicates()
        self._check_ids()
        identity.finish(snapshot.version)
        self._note_paths()

    def _add(self, code: str, problem: str, file: str | None = None) -> None:
        self.findings.add(code, problem, version=self.snapshot.version, file=file)

    def _check_paths(self, batch: pa.Table) -> None:
        for path in batch["path"].filter(pc.match_substring_regex(batch["path"], _ODD)).to_pylist():
            if not is_absolute(path) and (problem := find_path_problem(path)) is not None:
                self._add("PATH_INVALID", problem, path)
        sizes = batch["size_bytes"]
        odd = pc.fill_null(pc.less(sizes, 0), True)
        for path in batch["path"].filter(odd).to_pylist():
            self._add("FILE_SIZE", "its size in the log is missing or negative", path)
        if self.snapshot.head is not None:  # for commits, see COMMIT_UNREADABLE
            self._check_members(batch)
        outside = batch["path"].filter(absolute_mask(batch["path"]))
        folders = pc.replace_substring_regex(outside, r"/[^/]*$", "")
        self.directories.update(pc.unique(folders).to_pylist())
        self.path_texts.take_live(batch)
        self.actions.take_live(batch)
        controls = find_controls(batch["path"])
        self._controls += len(controls)
        if len(controls) and not self._control_example:
            self._control_example = controls[0].as_py()
        texts = batch["encoded_path"]
        unlike = texts.filter(not_java_text_mask(texts))
        self._unlike_spark += len(unlike)
        if self._unlike_spark and not self._unlike_example:
            self._unlike_example = unlike[0].as_py()

    def _check_members(self, batch: pa.Table) -> None:
        for name in find_incomplete(batch, set(ADD_MEMBERS) - {"size_bytes"}):
            for path in batch["path"].filter(batch[name].is_null()).to_pylist():
                problem = f"its {JSON_NAMES[name]} in the log is missing"
                self._add("LOG_UNREADABLE", problem, path)

    def _note_paths(self) -> None:
        if self._moved:
            count = format_count(sum(number for number, _ in self._moved), "live file")
            self.findings.note(
                f"the directory names another partition than the log for {count}, such as "
                f"{self._moved[0][1]}. Readers use the value in the log. If it is wrong, restore "
                "the commit that adds the file from a backup before a command rewrites the file: "
                "its rows then move to this partition for good"
            )
        if self._controls:
            self.findings.note(explain_controls(self._controls, self._control_example))
        if self._unlike_spark:
            self.findings.note(
                "do not run VACUUM of Delta on Spark: it would delete "
                f"{format_count(self._unlike_spark, 'live file')}, for example "
                f"{self._unlike_example!r}. The add.path of these files has escapes that "
                "Delta on Spark does not write"
            )

    def _check_removed(self, batch: pa.Table) -> None:
        """Find partition values that stop DuckDB, which also parses those of removed files."""
        where = shlex.quote(self.snapshot.store.uri)
        for path, problem in _find_unreadable(batch, self.snapshot.metadata):
            why = "the file was removed, but DuckDB parses all commits after a checkpoint"
            self._add("PARTITION_VALUE", f"{problem}: {why}", path)
            self.findings.repairs[path] = f"run `deltactl checkpoint {where}`: it ends this"

    def _check_vectors(self, batch: pa.Table) -> None:
        vectors = batch["deletion_vector"]
        if vectors.null_count == len(vectors):
            return
        if not self._vectors_seen and not has_feature(self.snapshot.protocol, DELETION_VECTORS):
            self._add(
                "FEATURE_MISSING",
                "files have deletion vectors, but the protocol does not list deletionVectors",
            )
        self._vectors_seen = True
        self.vectors.take_live(batch)
        deleted = pc.struct_field(vectors, "cardinality")
        rows = num_records(batch["stats"])
        wrong = pc.fill_null(pc.or_(pc.less(deleted, 0), pc.greater(deleted, rows)), False)
        found = zip(
            *(c.filter(wrong).to_pylist() for c in (batch["path"], deleted, rows)), strict=True
        )
        for path, count, all_rows in found:
            problem = f"in the log, its vector deletes {count} of {all_rows} rows"
            self._add("VECTOR_CARDINALITY", problem, path)

    def _check_duplicates(self) -> None:
        """Find files that are live under several deletion vectors."""
        if not self.path_texts.has_repeated_names():
            return
        files = pa.concat_tables(list(self.snapshot.file_batches(VECTOR_COLUMNS)))
        counts = files.group_by(["path", "encoded_path"], use_threads=False).aggregate(
            [([], "count_all")]
        )
        for row in counts.filter(pc.greater(counts["count_all"], 1)).to_pylist():
            newest = self.vectors.describe(files.filter(pc.equal(files["path"], row["path"])))
            problem = f"it is live {row['count_all']} times, with different deletion vectors"
            problem += newest
            self._add("FILE_DUPLICATE", problem, row["path"])

    @property
    def _assigns_ids(self) -> bool:
        """Return whether writers must assign row ids, even if row tracking is not enabled."""
        suspended = self.snapshot.properties.row_tracking_suspended
        return has_feature(self.snapshot.protocol, ROW_TRACKING) and not suspended

    def _collect_ids(self, batch: pa.Table) -> None:
        if not self._assigns_ids:
            return
        bases, versions = batch["base_row_id"], batch["default_row_commit_version"]
        has_base, latest = pc.is_valid(bases), self.snapshot.version
        # If it is not enabled, files may be older than the feature.
        is_lost = pc.and_(pc.invert(has_base), self.snapshot.properties.row_tracking_enabled)
        is_no_version = pc.or_(pc.less(versions, 0), pc.greater(versions, latest))
        for odd, problem in (
            (is_lost, "it has no baseRowId, but the table has row tracking"),
            (pc.less(bases, 0), "its baseRowId is negative"),
            (
                pc.and_(has_base, pc.is_null(versions)),
                "it has a baseRowId, but no defaultRowCommitVersion",
            ),
            (is_no_version, f"its defaultRowCommitVersion is not between 0 and {latest}"),
        ):
            for path in batch["path"].filter(odd).to_pylist():
                self._add("ROW_IDS_MISSING", problem, path)
        rows = num_records(batch["stats"])
        known = pc.and_(has_base, pc.is_valid(rows))
        self._without_ids += pc.sum(pc.and_not(has_base, known)).as_py() or 0
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
                f"{len(overlaps)} files have row ids that other files also have. The first of "
                f"these files has row ids from {bases[place]}, but another file already has "
                f"row ids up to {reached[place - 1] - 1}",
                self._find_base(int(bases[place])),
            )
        self._check_mark(int(ends.max(initial=0)) - 1)

    def _find_base(self, base: int) -> str:
        """Return the path of a file whose row ids begin at ``base``; it must exist."""
        batches = self.snapshot.file_batches(["path", "base_row_id"])
        paths = (batch["path"].filter(pc.equal(batch["base_row_id"], base)) for batch in batches)
        return next(str(found[0]) for found in paths if len(found))

    def _check_mark(self, greatest: int) -> None:
        try:
            mark = read_high_water_mark(self.snapshot.domains)
        except CorruptLogError as error:
            self._add("ROW_IDS_MARK", error.message)
            return
        if greatest > mark:
            self._add(
                "ROW_IDS_MARK",
                f"the high-water mark is {mark}, but a file has row ids up to {greatest}",
            )


def _ensure_text(batch: pa.Table) -> None:
    """Raise ``CorruptLogError`` for strings that are not UTF-8, which Parquet readers accept."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptLogError(f"the log contains invalid values: {error}"[:300]) from error


@dataclass(slots=True)
class _Column:
    name: str
    physical: str
    mark: int | None
    ascends: bool
    farthest: int | None = None

    @property
    def is_covered(self) -> bool:
        """Return whether the mark is at or beyond every value."""
        return self.mark is not None and _farther(self, self.mark) == self.mark


class IdentityChecker:
    """Check files in batches with ``stats``.

    Columns that also accept explicit values are skipped, because they may have any value.
    """

    def __init__(self, metadata: Metadata, findings: Findings) -> None:
        self._findings = findings
        self._columns = [
            column
            for member in metadata.data_schema.fields
            if (column := _to_column(member)) is not None
        ]
        values = pa.struct([(column.physical, pa.int64()) for column in self._columns])
        self._type = pa.struct([("minValues", values), ("maxValues", values)])
        self._unknown = False

    def take(self, batch: pa.Table) -> None:
        """Add the statistics of more files."""
        if not self._columns:
            return
        stats = batch["stats"]
        self._unknown |= stats.null_count > 0
        for chunk in stats.chunks:
            parsed = parse_stats(chunk, self._type)
            for column in self._columns:
                member, choose = ("maxValues", pc.max) if column.ascends else ("minValues", pc.min)
                found = choose(pc.struct_field(parsed, [member, column.physical])).as_py()
                column.farthest = _farther(column, found)

    def finish(self, version: int) -> None:
        """Compare the values with the high-water marks."""
        if self._unknown:
            self._findings.note("identity columns of files without statistics were not checked")
        for column in self._columns:
            if column.farthest is None or column.is_covered:
                continue
            mark = "missing" if column.mark is None else column.mark
            self._findings.add(
                "IDENTITY_MARK",
                f"the high-water mark of {column.name!r} is {mark}, but a file has the value "
                f"{column.farthest}",
                version=version,
            )


def _to_column(member: Field) -> _Column | None:
    step = member.metadata.get(_STEP)
    if not isinstance(step, int) or member.metadata.get(_EXPLICIT) is not False:
        return None
    mark = member.metadata.get(_MARK)
    known = int(mark) if isinstance(mark, int) else None
    return _Column(member.name, member.physical_name, known, step > 0)


def _farther(column: _Column, value: int | None) -> int | None:
    """Return the farthest of a value and those seen so far, in the column's direction."""
    known = (v for v in (column.farthest, value) if v is not None)
    return (max if column.ascends else min)(known, default=None)


def check_partitions(
    batch: pa.Table, metadata: Metadata, version: int | None, findings: Findings
) -> None:
    """Check files that were written with a metaData action."""
    for column in dict.fromkeys(metadata.known_partition_fields):
        if not can_partition(column):
            continue  # a finding of the schema
        texts = lookup_map(batch["partition_values"], column.physical_name)
        bad = pa.array(_bad_values(texts, column, findings), pa.string())
        is_bad = pc.is_in(texts, value_set=bad)
        paths, values = batch["path"].filter(is_bad), texts.filter(is_bad)
        for path, value in zip(paths.to_pylist(), values.to_pylist(), strict=True):
            problem = f"partition value {value!r} of column {column.name!r} is invalid"
            findings.add("PARTITION_VALUE", problem, version=version, file=path)


def _find_unreadable(files: pa.Table, metadata: Metadata) -> Iterator[tuple[str, str]]:
    """Yield files with a partition value that cannot be parsed, and the problem."""
    for column in filter(can_partition, dict.fromkeys(metadata.known_partition_fields)):
        texts = lookup_map(files["partition_values"], column.physical_name)
        with suppress(UnsupportedFeatureError):
            type_ = arrow_type(column.type)
            distinct = pc.unique(texts).drop_null()
            bad = [text for text in distinct.to_pylist() if not _parses(text, type_)]
            hit = files.filter(pc.is_in(texts, value_set=pa.array(bad, pa.string())))
            for path in hit["path"].to_pylist() if bad else ():
                yield path, f"a partition value of column {column.name!r} is invalid"


def _bad_values(texts: pa.ChunkedArray, column: Field, findings: Findings) -> list[str]:
    distinct = pc.unique(texts).drop_null()
    bad: list[str] = []
    try:
        type_ = arrow_type(column.type)
        parse_partition_column(distinct, type_)
    except UnsupportedFeatureError as error:
        findings.note(f"values of {column.name!r} were not checked: {error.message}")
        return []
    except CorruptLogError:
        bad = [text for text in distinct.to_pylist() if not _parses(text, type_)]
    if TYPE_CHANGES_KEY in column.metadata:
        return bad  # older files keep the form of the type that the column had
    return bad + [text for text in find_malformed(distinct, type_) if text not in bad]


def _parses(text: str, type_: pa.DataType) -> bool:
    try:
        parse_partition_column(pa.array([text], pa.string()), type_)
    except CorruptLogError:
        return False
    return True
