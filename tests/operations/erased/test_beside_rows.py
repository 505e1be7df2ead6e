"""Values in live files that are in no row: in dictionaries, and in key-value metadata."""

import io
import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from deltactl import Table, convert
from deltactl.cli.app import run
from deltactl.operations.erased.report import ErasedReport
from deltactl.parquet.dictionaries import read_suspects
from deltactl.parquet.footer import index_leaves
from deltactl.parquet.format import ColumnChunk, ColumnMetaData
from deltactl.parquet.thrift import Kind, ThriftList, ThriftStruct
from deltactl.storage.local.store import LocalStore
from tests.operations.erased.test_places import search
from tests.parquet.splice.files import change_footer, chunk_of
from tests.support.checkpoints import new_table
from tests.support.table_builder import Column, TableBuilder, struct_of

VALUE = "mary quux"
BY_NAME = f"name = '{VALUE}'"
NAMES = ["anna", VALUE, "zoe"]


def categories(*names: str | None) -> pa.DictionaryArray:
    indices = [None if name is None else NAMES.index(name) for name in names]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(NAMES))


def by_pyarrow(**options: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        rows = pa.table({"id": [1, 2, 3], "name": categories("anna", "zoe", None)})
        pq.write_table(rows, path, compression="none", **options)

    return write


def by_pandas(path: Path) -> None:
    names = pd.Categorical(["anna", "zoe"], categories=NAMES)
    pd.DataFrame({"id": [1, 2], "name": names}).to_parquet(path, compression=None, row_group_size=1)


def by_duckdb(path: Path) -> None:
    rows = "(VALUES (1, 'anna'), (2, 'zoe')) AS t(id, name)"
    names = f"name::ENUM {tuple(NAMES)!r} AS name"
    duckdb.sql(f"COPY (SELECT id, {names} FROM {rows}) TO '{path}' (COMPRESSION uncompressed)")


def with_attributes(path: Path) -> None:
    rows = pd.DataFrame({"id": [1, 2], "name": ["anna", "zoe"]})
    rows.attrs = {"of": {"name": VALUE}}
    rows.to_parquet(path)


def with_metadata_of_a_field(path: Path) -> None:
    """Only the Arrow schema has it, in base64."""
    field = pa.field("name", pa.string(), metadata={"_PL_ENUM_VALUES2": f"4;anna9;{VALUE}"})
    pq.write_table(pa.table([[1], ["zoe"]], pa.schema([pa.field("id", pa.int64()), field])), path)


def with_metadata_of_a_chunk(path: Path) -> None:
    pair = ThriftStruct([(1, Kind.BINARY, b"of"), (2, Kind.BINARY, VALUE.encode())])
    pq.write_table(pa.table({"id": [1, 2], "name": ["anna", "zoe"]}), path)

    def change(footer: ThriftStruct) -> None:
        column = chunk_of(footer, 0, 1).struct(ColumnChunk.META_DATA)
        pairs = ThriftList(Kind.STRUCT, [pair])
        column.set(ColumnMetaData.KEY_VALUE_METADATA, Kind.LIST, pairs)
        column.fields.sort(key=lambda it: it[0])

    change_footer(path, change)


WRITERS = {
    "pyarrow": by_pyarrow(),
    "pyarrow without statistics": by_pyarrow(write_statistics=False),
    "pyarrow without its schema": by_pyarrow(store_schema=False),
    "pyarrow with pages of version 2": by_pyarrow(data_page_version="2.0"),
    "pandas": by_pandas,
    "DuckDB": by_duckdb,
}
METADATA = {
    "attributes of pandas": with_attributes,
    "metadata of a field": with_metadata_of_a_field,
    "metadata of a chunk": with_metadata_of_a_chunk,
}


def live_bytes(folder: Path) -> bytes:
    """The bytes of all live files, with what their footers encode."""
    data = b""
    for name in DeltaTable(folder).file_uris():
        footer = pq.read_metadata(name)
        data += Path(name).read_bytes() + repr(footer.metadata).encode()
        data += footer.schema.to_arrow_schema().to_string(show_field_metadata=True).encode()
    return data


def shown(report: ErasedReport) -> list[tuple[str, int, tuple[str, ...]]]:
    assert not report.unread
    return [(str(it.name), it.entries or 0, it.parts) for it in report.places]


def run_commands(report: ErasedReport) -> None:
    """Run what the report prints, as a user does after the retention."""
    for command in report.commands:
        words = shlex.split(command.replace("COLUMN", "id"))[1:]
        if words[0] == "vacuum":
            words += ["--retain", "0s", "--force-retention", "--yes"]
        assert run(words) == 0, command


@pytest.mark.parametrize("writer", [*WRITERS, *METADATA])
def test_the_printed_commands_remove_it(tmp_path: Path, writer: str) -> None:
    (WRITERS | METADATA)[writer](tmp_path / "1.parquet")
    convert(str(tmp_path))
    report = Table(str(tmp_path)).check_erased(BY_NAME)
    ((place, _, parts),) = shown(report)
    part = "dictionaries" if writer in WRITERS else "key-value metadata"
    assert (place, parts) == ("live files, not in rows", (part,))
    assert VALUE.encode() in live_bytes(tmp_path)
    run_commands(report)
    assert VALUE.encode() not in live_bytes(tmp_path)
    assert Table(str(tmp_path)).check_erased(BY_NAME).is_erased


@pytest.mark.parametrize("key", ["pandas", "of.schema"])
@pytest.mark.parametrize("names", [["anna", VALUE], ["anna", "zoe"]])
def test_metadata_that_is_no_json_is_a_text(tmp_path: Path, key: str, names: list[str]) -> None:
    """And does not hide a row."""
    rows = pa.table({"id": [1, 2], "name": names})
    pq.write_table(rows.replace_schema_metadata({key: f"{{{VALUE}"}), tmp_path / "1.parquet")
    convert(str(tmp_path))
    report = Table(str(tmp_path)).check_erased(BY_NAME)
    where = "live rows" if VALUE in names else "live files, not in rows"
    assert where in [str(it.name) for it in report.places]
    assert not report.unread


def hide_row(builder: TableBuilder, content: bytes) -> None:
    builder.store.put("1.parquet", content)
    builder.commit(builder.adopt("1.parquet"))
    builder.delete_rows("1.parquet", [0])


@pytest.mark.parametrize("options", [{"rewrite": "copy"}, {"min_row_group_bytes": 1}])
def test_a_purge_copies_no_dictionary_of_categories(tmp_path: Path, options: Any) -> None:
    """Its value was in a row of another row group."""
    builder = TableBuilder(LocalStore(str(tmp_path)), COLUMNS, features=["deletionVectors"])
    hide_row(builder, parquet(id=[1, 2, 3, 4], name=categories(VALUE, "anna", "zoe", None)))
    table = Table(str(tmp_path))
    report = table.check_erased(BY_NAME)
    assert shown(report) == [("rows that deletion vectors hide", 0, ())]
    done = table.optimize(purge=True, **options)
    assert done.to_dict()["rewrite"]["encoded_because"]["dictionary of categories"] == 1
    assert done.to_dict()["rewrite"]["row_groups_copied"] == 1  # its other column
    assert VALUE.encode() not in live_bytes(tmp_path)
    table.vacuum(retain="0s", force_retention=True)
    assert table.check_erased(BY_NAME).is_erased


def test_a_delete_does_not_rewrite_the_other_files(tmp_path: Path) -> None:
    """Also of a table of which it rewrites one: the report has the command for the rest."""
    rows = pa.table({"id": [1, 2], "name": categories(VALUE, "zoe")})
    pq.write_table(rows.slice(0, 1), tmp_path / "1.parquet")
    pq.write_table(rows.slice(1, 1), tmp_path / "2.parquet")
    convert(str(tmp_path), statistics=False)
    report = Table(str(tmp_path)).check_erased(BY_NAME)
    assert [it.name for it in report.places] == ["live rows", BESIDE]
    ends = (BY_NAME, "--purge", "--full", "--mode full")
    assert all(map(str.endswith, report.commands, ends))
    assert len(report.commands) == len(ends)
    DeltaTable(tmp_path).delete("id = 1")
    run_commands(replace(report, places=report.places[1:]))
    assert Table(str(tmp_path)).check_erased(BY_NAME).is_erased


def test_the_printed_commands_for_a_clustered_table(tmp_path: Path) -> None:
    """It refuses --zorder-by."""
    features = ["clustering", "domainMetadata"]
    builder = TableBuilder(LocalStore(str(tmp_path)), COLUMNS[:2], features=features)
    columns = json.dumps({"clusteringColumns": [["id"]], "domainName": "delta.clustering"})
    domain = {"domain": "delta.clustering", "configuration": columns, "removed": False}
    builder.store.put("1.parquet", parquet(id=[1, 2], name=categories("anna", "zoe")))
    builder.commit({"domainMetadata": domain}, builder.adopt("1.parquet"))
    report = Table(str(tmp_path)).check_erased(BY_NAME)
    assert shown(report) == [(BESIDE, 1, ("dictionaries",))]
    run_commands(report)
    assert VALUE.encode() not in live_bytes(tmp_path)
    assert Table(str(tmp_path)).check_erased(BY_NAME).is_erased


def test_no_metadata_of_a_chunk_are_copied(tmp_path: Path) -> None:
    with_metadata_of_a_chunk(tmp_path / "1.parquet")
    with_metadata_of_a_chunk(tmp_path / "2.parquet")
    convert(str(tmp_path))
    done = Table(str(tmp_path)).optimize(rewrite="copy")
    assert done.to_dict()["rewrite"]["row_groups_copied"] == 2
    assert VALUE.encode() not in live_bytes(tmp_path)


def test_dictionaries_without_categories_are_copied(tmp_path: Path) -> None:
    for name in ("1.parquet", "2.parquet"):
        pq.write_table(pa.table({"id": [1, 2], "name": ["anna", "zoe"]}), tmp_path / name)
    convert(str(tmp_path))
    done = Table(str(tmp_path)).optimize(rewrite="copy")
    counts = done.to_dict()["rewrite"]
    assert (counts["row_groups_copied"], counts["encoded_because"]) == (2, {})


COLUMNS = [Column("id", "long"), Column("name", "string"), Column("p", "string")]
BESIDE = "live files, not in rows"


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="none", row_group_size=2)
    return sink.getvalue()


def table_of(content: bytes, *columns: Column) -> TableBuilder:
    builder = new_table(*(columns or COLUMNS), partition_by=() if columns else ["p"])
    builder.store.put("1.parquet", content)
    values = {} if columns else {"p": "q"}
    builder.commit(builder.adopt("1.parquet", partitionValues=values))
    return builder


@pytest.mark.parametrize(
    ("predicate", "entries"),
    [
        (BY_NAME, 1),
        (f"name IN ('{VALUE}', 'other')", 1),
        (f"name <=> '{VALUE}'", 1),
        ("name LIKE '%quux'", 1),
        ("upper(name) = 'MARY QUUX'", 1),
        ("name > 'b' AND name < 'n'", 1),
        ("name <> 'anna' AND name <> 'zoe'", 1),
        (f"id = 7 OR {BY_NAME}", 1),
        (f"id = 7 AND {BY_NAME}", 1),  # one column is enough
        (f"p = 'q' AND {BY_NAME}", 1),
        (f"p = 'other' AND {BY_NAME}", 0),
        ("id = 7 AND name = 'zoe'", 0),  # rows have it
        ("name = 'nobody'", 0),
        ("name IS NULL AND id = 1", 0),
        ("id = 7", 0),
    ],
)
def test_the_predicate_is_asked_of_each_dictionary(predicate: str, entries: int) -> None:
    builder = table_of(parquet(id=[1, 2], name=categories("anna", "zoe")))
    expected = [(BESIDE, entries, ("dictionaries",))] if entries else []
    assert shown(search(builder.store, predicate)) == expected


def test_each_row_group_has_its_own_dictionary() -> None:
    builder = table_of(
        parquet(id=[1, 2, 3, 4, 5], name=categories("anna", "zoe", None, None, None))
    )
    report = search(builder.store, BY_NAME)
    assert shown(report) == [(BESIDE, 3, ("dictionaries",))]
    assert report.counts["dictionaries"] == 3


def test_the_field_of_a_struct() -> None:
    names = pa.StructArray.from_arrays([categories("anna", "zoe")], ["name"])
    who = Column("who", struct_of(Column("name", "string")))
    builder = table_of(parquet(id=[1, 2], who=names), Column("id", "long"), who)
    assert shown(search(builder.store, f"who.name = '{VALUE}'")) == [(BESIDE, 1, ("dictionaries",))]


@pytest.mark.parametrize("where", ["old", "unknown.parquet"])
def test_files_that_are_not_live(where: str) -> None:
    content = parquet(id=[1, 2], name=categories("anna", "zoe"), p=["q", "q"])
    builder = table_of(content)
    builder.remove("1.parquet")
    if where != "old":
        builder.store.delete_many(["1.parquet"])
        builder.store.put(where, content)
    (found,) = search(builder.store, BY_NAME).places
    assert found.name == ("files of older versions" if where == "old" else "unknown files")


def test_dictionaries_of_numbers_by_fastparquet_are_not_readable() -> None:
    """It writes all numbers of a category, and the others without dictionaries."""
    content = parquet(id=[1, 2], name=["anna", "zoe"])
    created = b"parquet-cpp-arrow version " + pa.__version__.encode()
    assert created in content
    content = content.replace(created, b"fastparquet-python".ljust(len(created)))
    content = content.replace(b"ARROW:schema", b"other:schema")
    report = search(table_of(content).store, "id = 7")
    assert [(it.name, it.reason) for it in report.unread] == [
        ("1.parquet", "dictionaries of numbers, by fastparquet")
    ]


def test_names_and_types_in_metadata_are_no_values(tmp_path: Path) -> None:
    fields = [{"name": "zebra", "type": "long", "nullable": True, "metadata": {"comment": VALUE}}]
    rows = pa.Table.from_pandas(pd.DataFrame({"id": [1], "name": ["anna"]}))
    spark = json.dumps({"type": "struct", "fields": fields})
    keys = {"org.apache.spark.sql.parquet.row.metadata": spark, "about": "a zebu of 4242"}
    pq.write_table(
        rows.replace_schema_metadata({**rows.schema.metadata, **keys}), tmp_path / "1.parquet"
    )
    convert(str(tmp_path))
    table = Table(str(tmp_path))
    for name in ("struct", "long", "zebra", "fields", "unicode", "object", "range", "pyarrow"):
        assert table.check_erased(f"name = '{name}'").is_erased, name
    assert table.check_erased("id = 4242").is_erased
    for name in (VALUE, "zebu"):
        report = table.check_erased(f"name = '{name}'")
        assert shown(report) == [(BESIDE, 1, ("key-value metadata",))]
    assert "texts in footers" in table.check_erased("name LIKE 'zebu'").unsearchable


class CountedFile(io.BytesIO):
    """Counts the bytes that are read, and in how many calls."""

    calls = size_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.calls, self.size_bytes = self.calls + 1, self.size_bytes + len(data)
        return data


def test_few_bytes_of_a_category_are_read() -> None:
    """One request for each row group, with the dictionary and the first page."""
    count = 4 << 20
    pages = pa.array(np.arange(count) * 7919 % 30_000, pa.int32())
    texts = pa.array([f"{number:09}" for number in range(30_000)])
    file = CountedFile()
    rows = pa.table({"name": pa.DictionaryArray.from_arrays(pages, texts)})
    pq.write_table(rows, file, compression="none", row_group_size=count // 2)
    with pq.ParquetFile(pa.PythonFile(file, "r")) as parquet:
        leaf = index_leaves(parquet.schema_arrow)[("name",)]
        file.calls = file.size_bytes = 0
        found = dict(read_suspects(parquet, pa.PythonFile(file, "r"), leaf, ("name",)))
    assert [*found] == [0, 1]
    assert all(it.equals(texts) for it in found.values())
    assert file.calls <= 4
    assert file.size_bytes <= 2 << 20 < file.seek(0, 2) / 4


def test_no_dictionary_is_read_of_files_without_categories() -> None:
    builder = table_of(parquet(id=[1, 2], name=["anna", "zoe"]))
    report = search(builder.store, "name = 'zz'")
    assert (report.counts["dictionaries"], report.counts["files_skipped"]) == (0, 1)
