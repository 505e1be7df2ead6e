"""The worker of ``convert``: read the footers of a batch of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from deltactl.errors import DataFileError
from deltactl.operations.convert.directory import NOT_PARQUET_INSIDE, LeftOut, has_parquet_name
from deltactl.operations.convert.hidden_columns import CHANGE_TYPE
from deltactl.operations.convert.partitions import Problem
from deltactl.parquet.broken_footers import find_broken_footers, group_by_schema
from deltactl.parquet.file_schema import FileSchema, read_file_schema
from deltactl.parquet.footer_bytes import (
    TAIL_BYTES,
    Footer,
    parse_footer_bytes,
    read_footer_bytes,
)
from deltactl.parquet.footer_columns import read_leaf_columns
from deltactl.protocol.stats import Path
from deltactl.protocol.stats_columns import StatsColumns, list_leaves
from deltactl.protocol.stats_encoding import LeafColumns
from deltactl.storage.open import open_store
from deltactl.storage.parallel import map_requests
from deltactl.storage.store import FileInfo, Store

FILE_SCHEMA: Final = pa.schema(
    [
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("modified_ms", pa.int64()),
        ("num_rows", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class FooterSpec:
    """The values that all batches share.

    ``skip``: leaves whose statistics are not needed.
    """

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    statistics: bool = True
    string_prefix: int = 32
    skip: Set[Path] = frozenset()


@dataclass(frozen=True, slots=True)
class FooterGroup:
    """Files of one schema: ``files`` has columns of ``FILE_SCHEMA``, ``leaves`` the same rows."""

    schema: FileSchema
    files: pa.Table
    leaves: Mapping[Path, LeafColumns]


@dataclass(frozen=True, slots=True)
class FooterBatch:
    """The contents of the footers of a batch."""

    groups: tuple[FooterGroup, ...]
    problems: tuple[Problem, ...]
    left_out: tuple[LeftOut, ...]


def read_footers(spec: FooterSpec, names: Sequence[str], attempt: int) -> FooterBatch:
    """Read the footer of each named file, once.

    Raises:
        StorageError: the store failed.
    """
    store = open_store(spec.uri, spec.storage_options)
    problems: list[Problem] = []
    left_out: list[LeftOut] = []
    found: list[tuple[FileInfo, bytes]] = []
    for name, (info, data) in zip(names, _read_all(store, names), strict=True):
        if isinstance(data, bytes) and info is not None:
            found.append((info, data))
        elif has_parquet_name(name):
            problems.append((name, None, str(data)))
        else:
            left_out.append(LeftOut(name, NOT_PARQUET_INSIDE))
    groups = _read_groups(spec, found, problems, left_out)
    return FooterBatch(tuple(groups), tuple(problems), tuple(left_out))


def _read_all(store: Store, names: Sequence[str]) -> Iterator[tuple[FileInfo | None, bytes | str]]:
    """Return each file's facts and stored footer, or the reason why there is none."""

    def read(name: str) -> tuple[FileInfo | None, bytes | str]:
        found = store.read_tail(name, TAIL_BYTES)
        if found is None:
            return None, "disappeared while the directory was read"
        info, tail = found
        try:
            return info, read_footer_bytes(store, name, info.size_bytes, tail)
        except DataFileError as error:
            return info, error.message

    return map_requests(store, read, names)


def _read_groups(
    spec: FooterSpec,
    stored: Sequence[tuple[FileInfo, bytes]],
    problems: list[Problem],
    left_out: list[LeftOut],
) -> Iterator[FooterGroup]:
    """Yield the files of each schema."""
    found: list[tuple[FileInfo, Footer]] = []
    for info, data in stored:
        try:
            found.append((info, parse_footer_bytes(data, info.size_bytes)))
        except DataFileError as error:
            if has_parquet_name(info.name):
                problems.append((info.name, None, error.message))
            else:
                left_out.append(LeftOut(info.name, NOT_PARQUET_INSIDE))
    for alike in group_by_schema([footer for _, footer in found]):
        members = _only_valid([found[index] for index in alike], problems)
        if not members:
            continue
        try:
            yield _describe(spec, members)
        except DataFileError as error:
            problems += [(info.name, None, error.message) for info, _ in members]


def _only_valid(
    members: Sequence[tuple[FileInfo, Footer]], problems: list[Problem]
) -> list[tuple[FileInfo, Footer]]:
    """Return the valid footers; report the others as problems."""
    broken = find_broken_footers([footer for _, footer in members])
    problems += [(members[index][0].name, None, broken[index].message) for index in broken]
    return [member for index, member in enumerate(members) if index not in broken]


def _describe(spec: FooterSpec, members: Sequence[tuple[FileInfo, Footer]]) -> FooterGroup:
    footers = [footer.metadata for _, footer in members]
    schema = read_file_schema(footers[0])
    files = _describe_files([info for info, _ in members], [footer.num_rows for footer in footers])
    return FooterGroup(schema, files, read_leaf_columns(footers, _wanted_columns(spec, schema)))


def _describe_files(infos: Sequence[FileInfo], num_rows: Sequence[int]) -> pa.Table:
    return pa.table(
        [
            [info.name for info in infos],
            [info.size_bytes for info in infos],
            [info.modified_ms for info in infos],
            num_rows,
        ],
        schema=FILE_SCHEMA,
    )


def _wanted_columns(spec: FooterSpec, schema: FileSchema) -> StatsColumns:
    wanted = tuple(
        leaf
        for leaf in list_leaves(schema.struct)
        if leaf.path == (CHANGE_TYPE,) or (spec.statistics and leaf.path not in spec.skip)
    )
    return StatsColumns(wanted, spec.string_prefix)
