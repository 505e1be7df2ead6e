"""Nested columns and members that files lack, because they were added later, are null."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltactl.errors import VerificationError
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.parquet.projection import Matcher
from deltactl.parquet.reader import RowReader
from deltactl.table import Table
from tests.support.table_builder import Column, Row, TableBuilder, multiset
from tests.support.table_values import array_of, map_of, members, struct_of

PAIR = struct_of(Column("a"), Column("b", "string"))
TYPES: dict[str, tuple[Any, list[Any]]] = {
    "struct": (PAIR, [{"a": 1, "b": None}, None]),
    "map": (map_of("string", "long"), [[("k", 1), ("l", None)], [], None]),
    "array": (array_of(PAIR), [[{"a": 1, "b": "x"}, None], [], None]),
    "deep": (
        struct_of(Column("c"), Column("inner", PAIR), Column("m", map_of("string", PAIR))),
        [{"c": 1, "inner": {"a": None, "b": "y"}, "m": [("k", {"a": 2, "b": None})]}, None],
    ),
}
OPTIONS = {
    "merge": OptimizeOptions(),
    "encode": OptimizeOptions(rewrite="encode", verify="full"),
    "copy": OptimizeOptions(rewrite="copy"),
    "cluster": OptimizeOptions(cluster_by="k"),
    "zorder": OptimizeOptions(zorder_by="k"),
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())


def table_of(root: Path) -> Table:
    return Table(str(root), warn=lambda message: None)


def append(builder: TableBuilder, files: int, values: list[Any]) -> None:
    for _ in range(files):
        first = 10 * builder.version
        rows: list[Row] = [{"k": first + n, "s": value} for n, value in enumerate(values)]
        builder.append(rows)


def rewrite(root: Path, builder: TableBuilder, options: OptimizeOptions) -> None:
    """Rewrite all files into one, and compare the rows."""
    table_of(root).optimize(options)
    assert len(table_of(root).snapshot().files) == 1
    assert multiset(table_of(root).scan().read_all().to_pylist()) == multiset(builder.rows())


@every_option
@pytest.mark.parametrize("mapping", ["none", "id"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("newer", [0, 1])
def test_files_that_lack_a_nested_column_are_rewritten(
    tmp_path: Path, kind: str, mapping: str, newer: int, options: OptimizeOptions
) -> None:
    type_, values = TYPES[kind]
    builder = TableBuilder(tmp_path, [Column("k")], mapping=mapping)
    append(builder, 2, [None, None])
    builder.change_metadata(columns=[*builder.columns, Column("s", type_)])
    append(builder, newer, values)
    rewrite(tmp_path, builder, options)


@every_option
@pytest.mark.parametrize("deleted", [[], [1]])
def test_files_that_lack_a_variant_are_rewritten(
    tmp_path: Path, deleted: list[int], options: OptimizeOptions
) -> None:
    """Value and metadata of a variant are required members of a struct in the file."""
    builder = TableBuilder(tmp_path, [Column("k")], features=["variantType", "deletionVectors"])
    first, _ = builder.append([{"k": 1}, {"k": 2}], [{"k": 3}, {"k": 4}])
    if deleted:
        builder.delete_rows(first, deleted)
    added = [Column("s", "variant"), Column("t", struct_of(Column("v", "variant"), Column("a")))]
    builder.change_metadata(columns=[*builder.columns, *added])
    rewrite(tmp_path, builder, options)


@every_option
@pytest.mark.parametrize("mapping", ["none", "name"])
@pytest.mark.parametrize("depth", [1, 2])
def test_files_that_lack_a_member_are_rewritten(
    tmp_path: Path, mapping: str, depth: int, options: OptimizeOptions
) -> None:
    type_, values = TYPES["struct" if depth == 1 else "deep"]
    builder = TableBuilder(tmp_path, [Column("k"), Column("s", type_)], mapping=mapping)
    append(builder, 2, values)
    key, column = builder.columns
    new = Column("new", PAIR) if mapping == "none" else builder._map(Column("new", PAIR))
    inner = members(column.type)
    if depth == 1:
        inner.append(new)
    else:
        last = inner[1]
        inner[1] = Column("inner", struct_of(*members(last.type), new), metadata=last.metadata)
    column = Column("s", struct_of(*inner), metadata=column.metadata)
    builder.change_metadata(columns=[key, column])
    append(builder, 1, [None])
    rewrite(tmp_path, builder, options)


@pytest.mark.parametrize("name", ["merge", "cluster"])
@pytest.mark.parametrize("member", ["a", "b"])
def test_a_reader_that_adds_values_to_a_lacking_column_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, member: str
) -> None:
    builder = TableBuilder(tmp_path, [Column("k")])
    append(builder, 3, [None, None])
    builder.change_metadata(columns=[*builder.columns, Column("s", PAIR)])
    column = RowReader._column

    def invent(self: RowReader, batch: Any, name: Any, index: int, matcher: Matcher) -> pa.Array:
        found = column(self, batch, name, index, matcher)
        if name is not None:
            return found
        value = {"a": 1} if member == "a" else {"b": "x"}
        return pa.array([value, *[None] * (len(found) - 1)], found.type)

    monkeypatch.setattr(RowReader, "_column", invent)
    commits = builder.version
    with pytest.raises(VerificationError, match=r"column 's' has \d+ nulls"):
        table_of(tmp_path).optimize(OPTIONS[name])
    assert table_of(tmp_path).snapshot().version == commits
