"""Partition columns out of folder names: which there are, of what type, and each file's values.

Source: Hive's layout, ``name=value`` folders, both escaped. Types are guessed only where every
text says so and is written the one way that the type itself would be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.operations.convert.options import PartitionColumn
from deltactl.protocol.partitions import parse_partition_column
from deltactl.protocol.paths import hive_unescape, hive_value
from deltactl.protocol.schema import DeltaType, Field, PrimitiveType, arrow_type

Problem = tuple[str, str | None, str]
"""Path, column or ``None``, and why: what keeps a file out of a table; no path: not one file's."""

Values = Mapping[str, str | None]

# No leading zeros, no plus: "01" and "1" are two folders, and a number would make them one value.
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_STRING: Final = PrimitiveType("string")
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The partition columns in order, and the values of each folder that holds files.

    ``guessed`` names the columns whose type was guessed.
    """

    fields: tuple[Field, ...]
    values: Mapping[str, Values]
    guessed: tuple[str, ...]

    def of(self, name: str) -> Values:
        """The values of a file."""
        return self.values[name.rpartition("/")[0]]


def plan_partitions(
    names: Sequence[str],
    asked: Sequence[PartitionColumn] | None,
    file_types: Mapping[str, DeltaType],
) -> tuple[Partitioning, list[Problem]]:
    """The partitioning of files, and what stands in its way, file by file.

    Args:
        names: decoded names of the data files.
        asked: the columns as the user gave them; ``None``: what the folders say.
        file_types: types of columns that are in the files too, by lower-case name.
    """
    folders = dict.fromkeys(name.rpartition("/")[0] for name in names)
    pairs, problems = _parse_folders(list(folders))
    columns = tuple(asked) if asked is not None else _infer_columns(pairs)
    problems += _mismatches(pairs, columns)
    if problems:
        return Partitioning((), {}, ()), _of_each_file(names, problems)
    values = {
        folder: {c.name: value for c, (_, value) in zip(columns, found, strict=True)}
        for folder, found in pairs.items()
    }
    fields: list[Field] = []
    for column in columns:
        by_folder = {folder: found[column.name] for folder, found in values.items()}
        kind = column.type or _guess_type(by_folder, file_types.get(column.name.lower()))
        fields.append(Field(column.name, kind))
        bad = _unparsable(by_folder, column.name, kind)
        problems += bad
        if kind == PrimitiveType("timestamp") and not bad:
            instants = _normalise_instants(by_folder)
            values = {f: {**found, column.name: instants[f]} for f, found in values.items()}
    guessed = tuple(column.name for column in columns if column.type is None)
    return Partitioning(tuple(fields), values, guessed), _of_each_file(names, problems)


def _of_each_file(names: Sequence[str], problems: Sequence[Problem]) -> list[Problem]:
    """The problems of folders as those of the files there, which have to be mended or moved."""
    if not problems:
        return []
    files: dict[str, list[str]] = {}
    for name in names:
        files.setdefault(name.rpartition("/")[0], []).append(name)
    return [(name, column, why) for folder, column, why in problems for name in files[folder]]


def find_partition_names(name: str, asked: Sequence[PartitionColumn] | None) -> frozenset[str]:
    """The partition columns, in lower case, as far as the place of one file tells them."""
    pairs, _ = _parse_folders([name.rpartition("/")[0]])
    columns = asked if asked is not None else _infer_columns(pairs)
    return frozenset(column.name.lower() for column in columns)


def _parse_folders(
    folders: Sequence[str],
) -> tuple[dict[str, list[tuple[str, str | None]]], list[Problem]]:
    """Names and values in each folder's path; plain folders around them are stepped over."""
    pairs: dict[str, list[tuple[str, str | None]]] = {}
    problems: list[Problem] = []
    for folder in folders:
        parts = folder.split("/") if folder else []
        keyed = [index for index, part in enumerate(parts) if "=" in part]
        found: list[tuple[str, str | None]] = []
        for index in keyed:
            name, _, value = parts[index].partition("=")
            if not name or not value:
                problems.append((folder, None, f"{parts[index]!r} lacks a name or a value"))
            found.append((hive_unescape(name), hive_value(value)))
        if keyed and keyed[-1] - keyed[0] + 1 != len(keyed):
            problems.append((folder, None, "plain folders lie between its partition folders"))
        pairs[folder] = found
    return pairs, problems


def _infer_columns(
    pairs: Mapping[str, Sequence[tuple[str, str | None]]],
) -> tuple[PartitionColumn, ...]:
    # A folder that names a column twice is told of itself, and is no measure for the others.
    sound = [found for found in pairs.values() if len({n.lower() for n, _ in found}) == len(found)]
    most = max(sound, key=len, default=[])
    return tuple(PartitionColumn(name) for name, _ in most)


def _mismatches(
    pairs: Mapping[str, Sequence[tuple[str, str | None]]], columns: Sequence[PartitionColumn]
) -> list[Problem]:
    wanted = [column.name.lower() for column in columns]
    shown = "/".join(f"{column.name}=..." for column in columns) or "no partition folders"
    problems: list[Problem] = []
    for folder, found in pairs.items():
        names = [name.lower() for name, _ in found]
        if len(set(names)) < len(names):
            problems.append((folder, None, "a partition column occurs twice in its folders"))
        elif names != wanted:
            what = f"its folders are not {shown}" if columns else "partition folders, none expected"
            problems.append((folder, None, what))
    return problems


def _guess_type(texts: Mapping[str, str | None], in_files: DeltaType | None) -> DeltaType:
    """The type of a column: that in the files where all texts fit it, else what they look like."""
    found = {text for text in texts.values() if text is not None}
    if not found:
        return _STRING
    if isinstance(in_files, PrimitiveType) and not _unparsable(texts, "", in_files):
        return in_files
    if all(_WHOLE.fullmatch(text) for text in found):
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
    target = arrow_type(kind)
    distinct = list(dict.fromkeys(texts.values()))
    try:
        parse_partition_column(pa.array(distinct, pa.string()), target, column=column)
    except CorruptLogError:
        pass
    else:
        return []
    problems: list[Problem] = []
    for folder, text in texts.items():
        try:
            parse_partition_column(pa.array([text], pa.string()), target, column=column)
        except CorruptLogError as error:
            problems.append((folder, column, error.message))
    return problems


def _normalise_instants(texts: Mapping[str, str | None]) -> dict[str, str | None]:
    """Instants in the form that names UTC: other texts mean another time in another session."""
    typed = parse_partition_column(
        pa.array(list(texts.values()), pa.string()), pa.timestamp("us", "UTC")
    )
    local = pc.replace_substring(typed.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
    moments = pc.binary_join_element_wise(local, "Z", "").to_pylist()
    return dict(zip(texts, moments, strict=True))
