"""Compare a data file with the log: its footer, its deletion vector, its rows.

Footers are quick to read but imprecise: bounds are truncated, NaN is omitted, columns are found by
id. So a difference from a footer is checked with the rows before it is reported.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import CorruptLogError, DataFileError, UnsupportedFeatureError
from deltactl.log.file_stores import FileStores
from deltactl.operations.check.column_case import find_other_case
from deltactl.operations.check.findings import Findings
from deltactl.operations.check.options import Depth
from deltactl.operations.check.stats import (
    Contradiction,
    FileFacts,
    Statistics,
    find_contradictions,
    find_rounded,
    widen_dates,
)
from deltactl.operations.check.vectors import BROKEN_VECTOR, Vector, check_vector
from deltactl.operations.optimize.column_rule import ColumnRule
from deltactl.parquet.broken_footers import find_broken_footers
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.defaults import find_lacking, has_defaults
from deltactl.parquet.footer import LeafColumn, RowFacts, index_leaves, read_file_stats
from deltactl.parquet.footer_bytes import Footer, parse_footer
from deltactl.parquet.projection import FileFields, Matcher, ensure_field_ids
from deltactl.parquet.reader import RowReader
from deltactl.parquet.row_statistics import measure_file
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.schema import Field, StructType, is_void
from deltactl.protocol.stats import FieldPath, LeafStats
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf, list_leaves
from deltactl.storage.parallel import map_requests
from deltactl.storage.store import FileInfo

# Limits memory: rows of this many files are decoded at the same time.
_READ_AT_ONCE: Final = 4
_FOOTERS_AT_ONCE: Final = 16
# A check of many footers of one schema together takes an eighth of the time of single checks; in
# memory, footers need ten times their size.
_FOOTERS_HELD: Final = 64
_FOOTER_BYTES_HELD: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Logged:
    """A file as recorded in the log.

    ``knows_vector`` is false if its deletion vector is invalid. Files that are not live belong only
    to older versions.
    """

    data: DataFile
    stats: str | None
    is_live: bool = True
    knows_vector: bool = True

    @property
    def has_vector(self) -> bool:
        """Return whether the file has a deletion vector, valid or not."""
        return self.data.deletion_vector is not None or not self.knows_vector


@dataclass(frozen=True, slots=True)
class Present:
    """A file that exists: its entry in the log and the store, and whether its vector can be read.

    ``is_vector_there`` is also true for a file without a deletion vector.
    """

    logged: Logged
    info: FileInfo
    is_vector_there: bool


class ContentChecker:
    """Check files of one table and schema. Thread-safe."""

    def __init__(
        self,
        stores: FileStores,
        metadata: Metadata,
        depth: Depth,
        decodes_vectors: bool,
        findings: Findings,
        *,
        columns: ColumnRule | None,
    ) -> None:
        self._stores, self._depth, self._findings = stores, depth, findings
        self._decodes_vectors, self._columns = decodes_vectors, columns
        self._match = Matcher(metadata.column_mapping_mode)
        self._fields = choose_fields(metadata, findings) if depth >= Depth.FOOTERS else ()
        with_defaults = (f for f in self._fields if has_defaults(StructType((f,))))
        self._with_defaults = StructType(tuple(with_defaults))
        types = ((it.physical_name, arrow_type(it.type, "physical")) for it in self._fields)
        found = index_leaves(pa.schema(types)).items()
        self._doubles = {path for path, leaf in found if pa.types.is_float64(leaf.type)}
        leaves = list_leaves(StructType(self._fields))
        self._leaves = tuple(leaf for leaf in leaves if leaf.kind != "void")

    def check(self, files: Sequence[Present]) -> int:
        """Check existing files; return the number of rows of live files that were opened."""
        wanted = [file for file in files if self._depth >= Depth.FOOTERS or self._decodes(file)]
        at_once = _READ_AT_ONCE if self._depth is Depth.DATA else _FOOTERS_AT_ONCE
        rows = start = 0
        count = 1  # the first footer gives an estimate of their size
        while start < len(wanted):
            opened, footer_bytes = self._open(wanted[start : start + count])
            rows += sum(map_requests(self._stores.own, self._check_file, opened, at_once=at_once))
            start += count
            count = min(max(_FOOTER_BYTES_HELD * count // (footer_bytes + 1), 1), _FOOTERS_HELD)
        return rows

    def _decodes(self, file: Present) -> bool:
        return self._decodes_vectors and file.logged.data.deletion_vector is not None

    def _open(self, files: Sequence[Present]) -> tuple[list[_Opened], int]:
        """Return files with valid footers, and the bytes of all footers; report broken ones."""
        read = map_requests(self._stores.own, self._parse_footer, files, at_once=_FOOTERS_AT_ONCE)
        parsed = [found for found in read if found is not None]
        broken = find_broken_footers([footer for _, footer in parsed])
        for index, error in broken.items():
            self._report_broken(parsed[index][0].present, error.message)
        valid = [file for index, (file, _) in enumerate(parsed) if index not in broken]
        return valid, sum(len(footer.data) for _, footer in parsed)

    def _parse_footer(self, file: Present) -> tuple[_Opened, Footer] | None:
        path = file.logged.data.path
        try:
            footer = parse_footer(self._stores.of(path), path, file.info.size_bytes)
            schema = footer.metadata.schema.to_arrow_schema()
        except (DataFileError, pa.ArrowException) as error:
            self._report_broken(file, getattr(error, "message", f"is broken: {error}"))
            return None
        return _Opened(file, footer, schema), footer

    def _report_broken(self, file: Present, problem: str) -> None:
        self._findings.add("FILE_UNREADABLE", f"it {problem}", file=file.logged.data.path)

    def _check_file(self, file: _Opened) -> int:
        present, num_rows = file.present, int(file.footer.num_rows)
        vector = Vector() if present.is_vector_there else BROKEN_VECTOR
        if self._decodes(present) and vector.is_valid:
            vector = check_vector(self._stores, present.logged.data, num_rows, self._findings)
        if self._depth >= Depth.FOOTERS:
            self._check_rows(file, vector)
        return num_rows if present.logged.is_live else 0  # others have most of these rows too

    def _check_rows(self, file: _Opened, vector: Vector) -> None:
        self._check_columns(file)
        stats = self._parse(file.logged)
        leaves = () if stats is None else self._choose_leaves(stats, file)
        if stats is not None:
            self._check_precision(stats, leaves, file)
        if self._depth is Depth.DATA:
            self._report(file, self._read(file, vector, self._fields, leaves, stats))
            return
        if stats is None:
            return
        suspects = list(find_contradictions(stats, _facts_of_footer(file, leaves), leaves))
        certain = [found for found in suspects if not found[1]]
        paths = {path for _, path, _ in suspects if path}
        if paths:
            names = {path[0] for path in paths}
            fields = tuple(f for f in self._fields if f.physical_name in names)
            chosen = tuple(leaf for leaf in leaves if leaf.path in paths)
            found = self._read(file, vector, fields, chosen, stats)
            certain += [contradiction for contradiction in found if contradiction[1]]
        self._report(file, certain)

    def _check_columns(self, file: _Opened) -> None:
        path = file.logged.data.path
        with suppress(DataFileError):  # reading the rows reports it
            name = find_lacking(self._with_defaults, file.schema, self._match)
            if name is not None:
                problem = f"it lacks the column {name!r}, which has EXISTS_DEFAULT"
                self._findings.add("DEFAULT_UNCLEAR", problem, file=path)
            if self._match.mode == "none":
                names = find_other_case(StructType(self._fields), pa.struct(list(file.schema)))
                if names is not None:
                    problem = f"it has the column {names[1]!r}, which is {names[0]!r} in the schema"
                    self._findings.add("COLUMN_CASE", problem, file=path)
            # An older version has another schema.
            if self._columns is not None and file.logged.is_live:
                unknown = self._columns.find_problem(file.stored_footer, file.schema, path)
                if unknown is not None:
                    self._findings.add("COLUMN_UNKNOWN", unknown, file=path)

    def _choose_leaves(self, stats: Statistics, file: _Opened) -> tuple[StatsLeaf, ...]:
        """Return leaves that are in both the statistics and the file, to be compared with it.

        A leaf that the file lacks is null in all rows; statistics that say otherwise are noted.
        """
        stated = tuple(leaf for leaf in self._leaves if stats.mentions(leaf))
        try:
            ensure_field_ids(self._match, file.schema, file.logged.data.path)
            stored = FileFields(file.schema)
            held = tuple(
                leaf for leaf in stated if is_stored(leaf.path, self._fields, stored, self._match)
            )
        except DataFileError:
            return stated  # reading the rows reports it
        lacking = (leaf for leaf in stated if leaf not in held)
        wrong = next((leaf.path for leaf in lacking if not stats.is_all_null(leaf)), None)
        if wrong is not None:
            self._note_stats(
                "the statistics of columns that are missing in a file, such as "
                f"{'.'.join(wrong)!r}, do not say that all values are null. A reader that skips "
                "files by these statistics may treat the nulls of the column as values",
                file.logged,
            )
        return held

    def _check_precision(
        self, stats: Statistics, leaves: Sequence[StatsLeaf], file: _Opened
    ) -> None:
        doubles = [leaf for leaf in leaves if leaf.path in self._doubles]
        narrow = file.narrow if doubles else ()
        rounded = find_rounded(stats, [leaf for leaf in doubles if leaf.path in narrow])
        if rounded is not None:
            self._note_stats(
                "bounds of columns that were widened from float to double, such as "
                f"{'.'.join(rounded.path)!r}, were rounded by their writer. Delta on Spark and "
                "DuckDB may not find the smallest and the largest value of a file",
                file.logged,
            )

    def _note_stats(self, problem: str, file: Logged) -> None:
        """Note a problem that is not a finding: valid tables of known writers have it."""
        if not file.is_live:
            self._findings.note(problem)
            return
        command = f"deltactl check {shlex.quote(self._stores.own.uri)} --fix stats"
        text = f"{problem}. To compute these statistics again, run `{command}`"
        self._findings.note_stats(text, file.data.path)

    def _parse(self, file: Logged) -> Statistics | None:
        try:
            stats = None if file.stats is None else Statistics(file.stats)
        except ValueError as error:
            problem = f"its statistics cannot be parsed: {error}"[:300]
            self._findings.add("STATS_UNREADABLE", problem, file=file.data.path)
            return None
        if file.has_vector and (stats is None or not stats.counts_rows):
            # Required if rows are deleted (PROTOCOL: Deletion Vectors, Writer Requirements).
            problem = "it has a deletion vector, but its statistics have no numRecords"
            self._findings.add("STATS_UNREADABLE", problem, file=file.data.path)
        return stats

    def _read(
        self,
        file: _Opened,
        vector: Vector,
        fields: Sequence[Field],
        leaves: Sequence[StatsLeaf],
        stats: Statistics | None,
    ) -> list[Contradiction]:
        """Compare the rows of some columns; needs a valid vector to know which rows are live."""
        reader = RowReader(
            StructType(tuple(fields)), (), self._match.mode, naming="physical", verify_pages=True
        )
        data = file.logged.data
        if vector.bitmap is None and vector.is_valid:
            vector = check_vector(self._stores, data, file.footer.num_rows, Findings())
        try:
            measured = (*leaves, *_list_structs(leaves))
            store = self._stores.of(data.path)
            found = measure_file(store, reader, data, measured, vector.bitmap)
        except DataFileError as error:
            self._findings.add("FILE_UNREADABLE", error.message, file=data.path)
            return []
        except UnsupportedFeatureError as error:
            self._findings.note(f"a file was not read: {error.message}")
            return []
        if stats is None:
            return []
        facts = FileFacts(
            found.num_rows,
            found.num_live,
            found.leaves if vector.is_valid else {},
            found.stored_nulls,
            has_deletes=file.logged.has_vector,
            narrow=file.narrow,
        )
        return list(find_contradictions(stats, facts, leaves))

    def _report(self, file: _Opened, found: Sequence[Contradiction]) -> None:
        for code, _, problem in found:
            self._findings.add(code, problem, file=file.logged.data.path)


@dataclass(frozen=True)
class _Opened:
    """A file with its footer."""

    present: Present
    stored_footer: Footer
    schema: pa.Schema

    @cached_property
    def leaves(self) -> Mapping[FieldPath, LeafColumn]:
        """Return the leaves that the file stores, outside lists and maps."""
        return index_leaves(self.schema)

    @property
    def narrow(self) -> frozenset[FieldPath]:
        """Return the leaves that the file stores as 32-bit floats."""
        return frozenset(
            path for path, leaf in self.leaves.items() if pa.types.is_float32(leaf.type)
        )

    @property
    def footer(self) -> pq.FileMetaData:
        """Return the parsed footer."""
        return self.stored_footer.metadata

    @property
    def logged(self) -> Logged:
        """Return the file's entry in the log."""
        return self.present.logged


def choose_fields(metadata: Metadata, findings: Findings) -> tuple[Field, ...]:
    """Return the stored columns whose types deltactl supports."""
    chosen = []
    try:
        fields = metadata.data_schema.fields
    except CorruptLogError as error:  # of an older version: the latest was checked before
        findings.note(f"files of an older schema were not checked: {error.message}")
        return ()
    for field in fields:
        try:
            arrow_type(field.type, "physical")
        except UnsupportedFeatureError as error:
            findings.note(f"column {field.name!r} was not checked: {error.message}")
            continue
        if not is_void(field.type):
            chosen.append(field)
    return tuple(chosen)


def is_stored(
    path: FieldPath, fields: Sequence[Field], stored: FileFields, matcher: Matcher
) -> bool:
    """Return whether a file has a leaf; search for it as readers do."""
    field = next(f for f in fields if f.physical_name == path[0])
    index = matcher.find(field, stored)
    if index is None or len(path) == 1:
        return index is not None
    assert isinstance(field.type, StructType)
    return is_stored(path[1:], field.type.fields, stored.members(index), matcher)


def _list_structs(leaves: Sequence[StatsLeaf]) -> Iterator[StatsLeaf]:
    """Yield the structs that contain the leaves, to count their nulls."""
    for path in dict.fromkeys(leaf.path[:-1] for leaf in leaves if len(leaf.path) > 1):
        yield StatsLeaf(path, "nested")


def _facts_of_footer(file: _Opened, leaves: Sequence[StatsLeaf]) -> FileFacts:
    """Return the facts of all rows from a footer."""
    footer, stored = file.footer, file.leaves
    floats = frozenset(path for path, leaf in stored.items() if pa.types.is_floating(leaf.type))
    known = read_file_stats(footer, StatsColumns(tuple(leaves)), RowFacts(nan_free=floats)).leaves
    found: dict[FieldPath, LeafStats] = {}
    for leaf in leaves:
        if (stats := known.get(leaf.path)) is not None:
            column = stored.get(leaf.path)
            is_date = column is not None and pa.types.is_date(column.type)
            widened = is_date and leaf.kind.startswith("timestamp")
            found[leaf.path] = widen_dates(stats) if widened else stats
    return FileFacts(
        footer.num_rows,
        footer.num_rows,
        found,
        {path: stats.null_count for path, stats in found.items()},
        narrow=file.narrow,
    )
