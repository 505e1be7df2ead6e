"""Find the columns of input files and count their nulls, apart from the reader.

The reader feeds the writer, so a column that it misreads would be lost: the counts of rows and
nulls that it read are those that were written. This module uses only footers that are read anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import DataFileError, SafetyError, VerificationError
from deltactl.log.snapshot import Snapshot
from deltactl.parquet.format import END_BYTES
from deltactl.parquet.nested import walk_leaves
from deltactl.parquet.null_counts import read_stored_nulls
from deltactl.parquet.projection import Matcher, convert
from deltactl.parquet.reader import RowReader
from deltactl.parquet.splice.copy_conditions import chunks_of, null_count
from deltactl.parquet.splice.source import Source
from deltactl.parquet.thrift import ThriftError
from deltactl.protocol.arrow_schemas import PARQUET_FIELD_ID
from deltactl.protocol.internal_columns import is_internal_name
from deltactl.protocol.schema import Field, PrimitiveType, is_variant, walk_fields


def explain_columns(snapshot: Snapshot) -> frozenset[str] | None:
    """Return physical names that files may have beside the schema; ``None`` means any name.

    These are the columns of older schemas and of row tracking. If column mapping has used more ids
    than the schema has, columns were dropped, and their names may not be known any more.
    """
    metadata, properties = snapshot.metadata, snapshot.properties
    if metadata.column_mapping_mode != "none":
        num_ids = sum(1 for _ in walk_fields(metadata.schema))
        if properties.integer("delta.columnMapping.maxColumnId", 0) > num_ids:
            return None
    names = {name for name in properties.row_tracking_columns if name is not None}
    for older in snapshot.older_metadata:
        names |= {column.physical_name for column in older.schema.fields}
    return frozenset(names)


@dataclass(frozen=True, slots=True)
class _Place:
    """A column of files: its name, the index of its first leaf, and its type."""

    name: str
    leaf: int
    type: pa.DataType


_Suspect = tuple[_Place, Field]
"""A column of a file that no schema explains, and a column that fits but is not in the file."""


@dataclass(slots=True)
class InputColumns:
    """The columns of the input files of a bin. Not thread-safe.

    ``nulls`` has the null counts by physical name, as ``count_nulls`` counts them, of flat columns
    and of nested ones that a file lacks, as far as all footers have them; the others are in
    ``uncounted``. ``explained``: see ``explain_columns``.
    """

    reader: RowReader
    explained: Set[str] | None
    nulls: Counter[str] = field(default_factory=Counter)
    uncounted: set[str] = field(default_factory=set)

    def add(
        self,
        footer: pq.FileMetaData,
        path: str,
        *,
        counts: bool,
        source: Source | DataFileError | pa.NativeFile,
    ) -> None:
        """Find the columns of a file; with ``counts``, add the nulls of all its rows.

        The null counts are read from ``source``: the parsed footer, or the file. If the footer is
        not valid, nothing is counted.

        Raises:
            SafetyError: the file lacks some column, and has values of a column that fits it, and
                that no schema explains.
            VerificationError: the reader finds other columns, or ids and names disagree.
        """
        places, suspects = self._find(footer, path)
        if isinstance(source, DataFileError):
            _ensure_none(path, suspects)
            self.uncounted |= places.keys()
            return
        if not (counts or suspects):
            return
        try:
            sum_nulls = _counting(source, footer)
        except ThriftError:  # Arrow ignores what this does not accept
            _ensure_none(path, suspects)
            self.uncounted |= places.keys()
            return
        for name, place in places.items() if counts else ():
            nulls = self._lacking_nulls(name, footer) if place is None else sum_nulls(place)
            if nulls is None:
                self.uncounted.add(name)
            else:
                self.nulls[name] += nulls
        _ensure_none(path, [it for it in suspects if sum_nulls(it[0]) != footer.num_rows])

    def find_difference(self, nulls: Mapping[str, int]) -> str | None:
        """Return a column whose nulls differ from those of the footers; ``None`` if there is none.

        Footers of some writers are wrong, so a difference must be checked with the rows.
        """
        counted = (column for column in self._columns() if column not in self.uncounted)
        return next((column for column in counted if nulls[column] != self.nulls[column]), None)

    def _lacking_nulls(self, name: str, footer: pq.FileMetaData) -> int:
        leaves = walk_leaves(self.reader.schema.field(name).type)
        return int(footer.num_rows) * sum(1 for _ in leaves)

    def _columns(self) -> dict[str, Field]:
        partition = {f.name for f in self.reader.partition_fields}
        return {name: f for name, f in self.reader.fields.items() if f.name not in partition}

    def _find(
        self, footer: pq.FileMetaData, path: str
    ) -> tuple[Mapping[str, _Place | None], list[_Suspect]]:
        schema = footer.schema.to_arrow_schema()
        columns, mode = self._columns(), self.reader.mapping_mode
        present = StoredColumns(schema)
        own_ids = has_own_ids(columns.values(), present, mode)
        found = {
            name: find_column(f, present, mode, path, own_ids=own_ids)
            for name, f in columns.items()
        }
        read = self.reader.find_columns(schema, path)
        for name, column in found.items():
            if read[name] != column:
                raise VerificationError(
                    f"{path!r}: the column {columns[name].name!r} of the table is {column!r} in "
                    f"the file, but {read[name]!r} would be read",
                    hint="Report this error. Nothing was committed; the table is as before.",
                )
        places = {place.name: place for place in _list_places(schema)}
        partition = {f.physical_name for f in self.reader.partition_fields}
        taken = {*found.values(), *(e.name for e in self.reader.extra), *partition}
        lacking = [name for name, column in found.items() if column is None]
        suspects = [
            (place, columns[column])
            for name, place in places.items()
            # A flat column without a type has only nulls, and mostly no statistics that tell it.
            if not (name in taken or self._is_explained(name) or pa.types.is_null(place.type))
            for column in lacking
            if _fits(place.type, column, self.reader)
        ]
        return {n: None if c is None else places[c] for n, c in found.items()}, suspects

    def _is_explained(self, name: str) -> bool:
        return self.explained is None or name in self.explained or is_internal_name(name)


def _ensure_none(path: str, suspects: Sequence[_Suspect]) -> None:
    """Refuse a file whose values may be those of a column that was renamed by mistake.

    Other files do not matter: they may be newer than the mistake.
    """
    if suspects:
        name, column = (it.name for it in suspects[0])
        raise SafetyError(
            f"{path!r} has a column {name!r} with values, which is not in the table's schema, and "
            f"lacks the column {column!r} of a type that fits: the values would be lost",
            hint="Let the writer of the table correct the file or the schema. "
            "`deltactl check TABLE --files footers` lists all such files, and "
            "`deltactl explain COLUMN_UNKNOWN` says what to do.",
        )


def _list_places(schema: pa.Schema) -> Iterator[_Place]:
    leaf = 0
    for member in schema:
        yield _Place(member.name, leaf, member.type)
        leaf += sum(1 for _ in walk_leaves(member.type))


def _counting(
    source: Source | pa.NativeFile, footer: pq.FileMetaData
) -> Callable[[_Place], int | None]:
    """Return a function that gives the nulls of a column; ``None`` if it is nested, or unknown."""
    if isinstance(source, Source):

        def read(place: _Place) -> list[int | None]:
            column = source.columns[place.name]
            return [null_count(chunks_of(group, column)[0]) for group in source.groups]

    else:
        size = footer.serialized_size
        found = read_stored_nulls(source.read_at(size, source.size() - END_BYTES - size))
        # Writers omit the statistics of an empty row group.
        groups = [group for n, group in enumerate(found) if footer.row_group(n).num_rows]

        def read(place: _Place) -> list[int | None]:
            return [group[place.leaf] for group in groups]

    def sum_nulls(place: _Place) -> int | None:
        if place.type.num_fields or isinstance(place.type, pa.BaseExtensionType):
            return None
        counts = read(place)
        return None if None in counts else sum(count or 0 for count in counts)

    return sum_nulls


def _fits(stored: pa.DataType, name: str, reader: RowReader) -> bool:
    target, column = reader.schema.field(name).type, reader.fields[name]
    if _is_text(target) and not _is_text(stored):  # Arrow converts every type to text
        return False
    try:
        convert(pa.array([], stored), column.type, target, Matcher(reader.mapping_mode))
    except (pa.ArrowException, NotImplementedError):
        return False
    return not isinstance(column.type, PrimitiveType) or not is_variant(column.type)


def _is_text(kind: pa.DataType) -> bool:
    return any(
        check(kind)
        for check in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
        )
    )


class StoredColumns:
    """The top-level columns of a file: by name, by name in lower case, and by id."""

    def __init__(self, schema: pa.Schema) -> None:
        self.names = frozenset(schema.names)
        self.alike: dict[str, list[str]] = {}
        for name in schema.names:
            self.alike.setdefault(name.lower(), []).append(name)
        found = {(f.metadata or {}).get(PARQUET_FIELD_ID): f.name for f in schema}
        self.by_id: dict[int | None, str] = {
            int(number): name for number, name in found.items() if number is not None
        }


def has_own_ids(fields: Iterable[Field], present: StoredColumns, mode: str) -> bool:
    """Return whether a file is older than the column mapping, with ids of its writer.

    Only columns that the mapping did not add, and that were not renamed, show this.
    """
    return mode == "name" and any(
        field.physical_name == field.name
        and field.name in present.names
        and present.by_id.get(field.field_id, field.name) != field.name
        for field in fields
    )


def find_column(
    field: Field, present: StoredColumns, mode: str, path: str, *, own_ids: bool
) -> str | None:
    """Return the name that a column has in a file; ``None`` if the file lacks it.

    ``own_ids``: see ``has_own_ids``.

    Raises:
        VerificationError: a file has the id and the physical name in different columns.
    """
    if mode == "none":
        if field.name in present.names:
            return field.name
        alike = present.alike.get(field.name.lower(), [])
        return alike[0] if len(alike) == 1 else None
    by_id = None if own_ids else present.by_id.get(field.field_id)
    by_name = field.physical_name if field.physical_name in present.names else None
    if by_id != by_name and None not in (by_id, by_name):
        raise VerificationError(
            f"{path!r}: the column {field.name!r} is {by_id!r} by its id {field.field_id}, but "
            f"{by_name!r} by its physical name"
        )
    return by_id if mode == "id" else by_name
