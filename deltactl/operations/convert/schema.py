"""Merge the schemas of many files into one, or return every conflict.

Source: PROTOCOL.md, "Type Widening", for the allowed changes of types.

Partition columns are inferred from directory names. Source: Hive's layout, ``name=value``
directories, both escaped. A type is guessed only if every value text has the canonical form of that
type.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import accumulate
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.operations.convert.options import PartitionColumn
from deltactl.option_names import option
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.partition_texts import find_inexact, find_unsigned_years, zone_mask
from deltactl.protocol.partitions import format_partition_values, parse_partition_column
from deltactl.protocol.paths import HIVE_NULL, hive_unescape, hive_value
from deltactl.protocol.schema import (
    MAX_DECIMAL_DIGITS,
    ArrayType,
    DeltaType,
    Field,
    MapType,
    PrimitiveType,
    StructType,
    is_void,
    render_type,
)

_WHOLE: Final = ("byte", "short", "integer", "long")
# The maximum number of digits of each integer type.
_DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")

Problem = tuple[str, str | None, str]
"""Path, column or ``None``, and the reason; an empty path: not about a single file."""

PartitionValues = Mapping[str, str | None]

# No leading zeros or plus: "01" and "1" are two directories, but would be one number.
_WHOLE_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_STRING: Final = PrimitiveType("string")


class _Conflict(Exception):
    """Two types that cannot be merged; ``path`` is dotted."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason


@dataclass(slots=True)
class SchemaMerger:
    """Merge file schemas in the given order.

    ``widens``: types may be widened; else they must be equal. A column that a file lacks is null in
    its rows.
    """

    widens: bool
    struct: StructType = StructType(())
    problems: list[Problem] = field(default_factory=list)
    widened: set[str] = field(default_factory=set)

    def add(self, struct: StructType, files: Sequence[str]) -> None:
        """Merge the schema of ``files``; a conflict is a problem of each of them."""
        merged = {f.name.lower(): f for f in self.struct.fields}
        for new in _distinct(struct):
            known = merged.setdefault(new.name.lower(), new)
            if known is new:
                continue
            try:
                kind = self._merge(known, new, "")
            except _Conflict as conflict:
                self.problems += [(name, conflict.path, conflict.reason) for name in files]
            else:
                merged[new.name.lower()] = Field(known.name, kind)
        self.struct = StructType(tuple(merged.values()))

    def _merge(self, known: Field, new: Field, prefix: str) -> DeltaType:
        path = f"{prefix}{known.name}"
        if known.name != new.name:
            # Spark would read both; case-sensitive readers would read null.
            raise _Conflict(f"{prefix}{new.name}", f"differs only in case from {known.name!r}")
        return self._merge_types(known.type, new.type, path)

    def _merge_types(self, known: DeltaType, new: DeltaType, path: str) -> DeltaType:
        if new == known or is_void(new):
            return known
        if is_void(known):
            return new
        match known, new:
            case StructType(), StructType():
                return self._merge_structs(known, new, path)
            case ArrayType(), ArrayType():
                return ArrayType(self._merge_types(known.element, new.element, f"{path}.element"))
            case MapType(), MapType():
                return MapType(
                    self._merge_types(known.key, new.key, f"{path}.key"),
                    self._merge_types(known.value, new.value, f"{path}.value"),
                )
            case PrimitiveType(), PrimitiveType():
                return self._widen(known, new, path)
        raise _Conflict(path, _differs(new, known))

    def _merge_structs(self, known: StructType, new: StructType, path: str) -> StructType:
        merged = {f.name.lower(): f for f in _distinct(known)}
        for member in _distinct(new):
            other = merged.setdefault(member.name.lower(), member)
            if other is not member:
                kind = self._merge(other, member, f"{path}.")
                merged[member.name.lower()] = Field(other.name, kind)
        return StructType(tuple(merged.values()))

    def _widen(self, known: PrimitiveType, new: PrimitiveType, path: str) -> PrimitiveType:
        wide = _find_wider(known, new)
        if wide is None:
            raise _Conflict(path, _differs(new, known))
        if not self.widens:
            raise _Conflict(
                path,
                f"{_differs(new, known)}; {option('schema_mode', 'widen')} makes both "
                f"{wide.name} or wider",
            )
        self.widened.add(path)
        return wide


def _distinct(struct: StructType) -> list[Field]:
    """Return the fields without those whose names differ only in case from an earlier one.

    The file that has them is reported without its schema being merged.
    """
    found: dict[str, Field] = {}
    for member in struct.fields:
        found.setdefault(member.name.lower(), member)
    return list(found.values())


def _differs(new: DeltaType, known: DeltaType) -> str:
    return f"is {render_type(new)}, in other files {render_type(known)}"


def _find_wider(one: PrimitiveType, other: PrimitiveType) -> PrimitiveType | None:
    """Return the type that has all values of both types exactly, if Delta can widen both to it."""
    names = {one.name, other.name}
    if len(names) == 1:
        return one
    if names <= set(_WHOLE):
        return PrimitiveType(max(names, key=_WHOLE.index))
    if names == {"float", "double"} or ("double" in names and names & {"byte", "short", "integer"}):
        return PrimitiveType("double")
    return _wider_decimal(one, other)


def _wider_decimal(one: PrimitiveType, other: PrimitiveType) -> PrimitiveType | None:
    first, second = _decimal_of(one), _decimal_of(other)
    if first is None or second is None:
        return None
    scale = max(first[1], second[1])
    whole = max(first[0] - first[1], second[0] - second[1])
    if whole + scale > MAX_DECIMAL_DIGITS:
        return None
    return PrimitiveType(f"decimal({whole + scale},{scale})")


def _decimal_of(kind: PrimitiveType) -> tuple[int, int] | None:
    """Return precision and scale, also of an integer type as a decimal."""
    if match := _DECIMAL.fullmatch(kind.name):
        return int(match[1]), int(match[2])
    digits = _DIGITS.get(kind.name)
    return None if digits is None else (max(digits, 10), 0)


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The partition columns in order, and the values of each directory with files.

    ``guessed``: the columns whose type was guessed. ``assumes_utc``: a timestamp has no zone.
    """

    fields: tuple[Field, ...]
    values: Mapping[str, PartitionValues]
    guessed: tuple[str, ...]
    assumes_utc: bool = False

    def of(self, name: str) -> PartitionValues:
        """Return the values of a file."""
        return self.values[name.rpartition("/")[0]]


def plan_partitions(
    names: Sequence[str],
    asked: Sequence[PartitionColumn] | None,
    file_types: Mapping[str, DeltaType],
) -> tuple[Partitioning, list[Problem]]:
    """Return the partitioning of files, and its problems, file by file.

    ``names`` are decoded. ``asked`` are the requested columns; ``None``: from the directory names.
    ``file_types`` are types of columns that are also in the files, by lower-case name.
    """
    directories = dict.fromkeys(name.rpartition("/")[0] for name in names)
    pairs, problems = _parse_directories(list(directories))
    columns = tuple(asked) if asked is not None else _infer_columns(pairs)
    problems += _mismatches(pairs, columns, is_inferred=asked is None)
    if problems:
        return Partitioning((), {}, ()), _of_each_file(names, problems)
    values: dict[str, dict[str, str | None]] = {
        directory: {c.name: value for c, (_, value) in zip(columns, found, strict=True)}
        for directory, found in pairs.items()
    }
    fields: list[Field] = []
    assumes_utc = False
    for column in columns:
        by_folder = {directory: found[column.name] for directory, found in values.items()}
        kind = column.type or _guess_type(by_folder, file_types.get(column.name.lower()))
        fields.append(Field(column.name, kind))
        bad = _unparsable(by_folder, column.name, kind)
        problems += bad
        if not bad:
            texts = pa.array(list(by_folder.values()), pa.string())
            if kind == PrimitiveType("timestamp"):
                assumes_utc |= pc.all(zone_mask(texts)).as_py() is False
            formed = format_partition_values(texts, arrow_type(kind), assume_utc=True).to_pylist()
            for directory, text in zip(by_folder, formed, strict=True):
                values[directory][column.name] = text
    guessed = tuple(column.name for column in columns if column.type is None)
    return Partitioning(tuple(fields), values, guessed, assumes_utc), _of_each_file(names, problems)


def _of_each_file(names: Sequence[str], problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems of directories as problems of each file in them."""
    if not problems:
        return []
    files: dict[str, list[str]] = {}
    for name in names:
        files.setdefault(name.rpartition("/")[0], []).append(name)
    return [(name, column, why) for directory, column, why in problems for name in files[directory]]


def find_partition_names(name: str, asked: Sequence[PartitionColumn] | None) -> frozenset[str]:
    """Return the lower-case partition columns in the path of one file."""
    pairs, _ = _parse_directories([name.rpartition("/")[0]])
    columns = asked if asked is not None else _infer_columns(pairs)
    return frozenset(column.name.lower() for column in columns)


def _parse_directories(
    directories: Sequence[str],
) -> tuple[dict[str, list[tuple[str, str | None]]], list[Problem]]:
    """Return names and values in each directory's path; skip plain directories around them."""
    pairs: dict[str, list[tuple[str, str | None]]] = {}
    problems: list[Problem] = []
    with_null = (it.split("/") for it in directories if HIVE_NULL in it)
    of_nulls = {path for it in with_null for path in accumulate(it, "{}/{}".format)}
    for directory in directories:
        parts = directory.split("/") if directory else []
        keyed = [index for index, part in enumerate(parts) if "=" in part]
        found: list[tuple[str, str | None]] = []
        for index in keyed:
            name, _, value = parts[index].partition("=")
            if not name:
                problems.append((directory, None, f"{parts[index]!r} has no column name"))
            elif not value:
                problems.append((directory, None, _explain_empty(parts[: index + 1], of_nulls)))
            found.append((hive_unescape(name), hive_value(value)))
        if keyed and keyed[-1] - keyed[0] + 1 != len(keyed):
            problems.append(
                (directory, None, "plain directories are between its partition directories")
            )
        pairs[directory] = found
    return pairs, problems


def _explain_empty(parts: Sequence[str], known: Container[str]) -> str:
    """Return the problem of a directory without a value, the last of ``parts``, and the repair.

    DuckDB writes such a directory for ``''`` beside that for null, with files of the same names.
    ``known``: directories that contain files.
    """
    last, null = parts[-1], f"{parts[-1]}{HIVE_NULL}"
    if "/".join([*parts[:-1], null]) in known:
        repair = f"move its files to {null!r}, which has files too, under names that are not there"
    else:
        repair = f"rename it to {null!r}, as Spark names it"
    return f"{last!r} has no value: {repair}. Then '' becomes null"


def _infer_columns(
    pairs: Mapping[str, Sequence[tuple[str, str | None]]],
) -> tuple[PartitionColumn, ...]:
    # A directory with a column twice is a separate problem; compare the others without it.
    valid = [found for found in pairs.values() if len({n.lower() for n, _ in found}) == len(found)]
    most = max(valid, key=len, default=[])
    return tuple(PartitionColumn(name) for name, _ in most)


def _mismatches(
    pairs: Mapping[str, Sequence[tuple[str, str | None]]],
    columns: Sequence[PartitionColumn],
    *,
    is_inferred: bool,
) -> list[Problem]:
    """Return the directories of other columns; columns that are asked for have any case."""
    spelled = [column.name for column in columns]
    wanted = [name.lower() for name in spelled]
    shown = "/".join(f"{name}=..." for name in spelled) or "no partition directories"
    problems: list[Problem] = []
    for directory, found in pairs.items():
        names = [name.lower() for name, _ in found]
        is_other_case = is_inferred and [name for name, _ in found] != spelled
        if len(set(names)) < len(names):
            problems.append((directory, None, "a partition column occurs twice in its path"))
        elif names != wanted:
            what = (
                f"its partition directories are not {shown}"
                if columns
                else "it is in partition directories, but the table has no partition columns"
            )
            problems.append((directory, None, what))
        elif is_other_case:
            what = (
                f"its partition directories differ from {shown} in case: rename them, or give "
                f"{option('partition_by')}"
            )
            problems.append((directory, None, what))
    return problems


def _guess_type(texts: Mapping[str, str | None], in_files: DeltaType | None) -> DeltaType:
    """Return a column's type: that in the files if all texts fit it, else the guessed one."""
    found = {text for text in texts.values() if text is not None}
    if not found:
        return _STRING
    if isinstance(in_files, PrimitiveType) and not _unparsable(texts, "", in_files):
        return in_files
    if all(_WHOLE_NUMBER.fullmatch(text) for text in found):
        bits = max(int(text).bit_length() for text in found)
        return PrimitiveType("integer" if bits < 32 else "long" if bits < 64 else "string")
    if all(_DATE.fullmatch(text) and _is_date(text) for text in found):
        return PrimitiveType("date")
    return _STRING


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _unparsable(texts: Mapping[str, str | None], column: str, kind: DeltaType) -> list[Problem]:
    """Return the directories whose text is no value of the type, or would lose a part as one.

    These include years that some readers refuse.
    """
    target = arrow_type(kind)
    distinct = pa.array(list(dict.fromkeys(texts.values())), pa.string())
    unsigned = set(find_unsigned_years(distinct, target))
    unfit = {*find_inexact(distinct, target), *unsigned}
    if not unfit and not _find_error(distinct, target, column):
        return []
    problems: list[Problem] = []
    for directory, text in texts.items():
        why = _find_error(pa.array([text], pa.string()), target, column)
        if why is None and text in unfit:
            valid = render_type(kind)
            why = f"partition value {text!r} of column {column!r} is not a valid {valid}"
            if text in unsigned:
                why += ": a year above 9999 needs a sign, as in '+10000-01-01'"
        if why is not None:
            problems.append((directory, column, why))
    return problems


def _find_error(texts: pa.Array, target: pa.DataType, column: str) -> str | None:
    try:
        parse_partition_column(texts, target, column=column)
    except CorruptLogError as error:
        return error.message
    return None
