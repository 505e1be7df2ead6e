"""Names of columns that differ in case between the schema and a file."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from deltactl.table import Table
from tests.support.table_builder import Column, TableBuilder

X = {
    "type": "struct",
    "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}],
}
NESTED: dict[str, Any] = {
    "struct": X,
    "array": {"type": "array", "elementType": X, "containsNull": True},
    "key": {"type": "map", "keyType": X, "valueType": "long", "valueContainsNull": True},
    "value": {"type": "map", "keyType": "long", "valueType": X, "valueContainsNull": True},
}


def nested_values(name: str) -> dict[str, pa.Array]:
    """A row for each of ``NESTED``, whose innermost column has a name."""
    inner = pa.struct([(name, pa.int64())])
    return {
        "struct": pa.array([{name: 1}], inner),
        "array": pa.array([[{name: 1}]], pa.list_(inner)),
        "key": pa.array([[({name: 1}, 1)]], pa.map_(inner, pa.int64())),
        "value": pa.array([[(1, {name: 1})]], pa.map_(pa.int64(), inner)),
    }


def check(root: Path) -> list[tuple[str, str]]:
    found = Table(str(root)).check(depth="footers").findings.to_pylist()
    return [(row["code"], row["problem"]) for row in found]


@pytest.mark.parametrize("place", NESTED)
def test_a_field_of_a_nested_column(tmp_path: Path, place: str) -> None:
    builder = TableBuilder(tmp_path, [Column(place, NESTED[place])])
    for name in ("x", "X"):
        pq.write_table(pa.table({place: nested_values(name)[place]}), tmp_path / f"{name}.parquet")
        builder.commit(builder.adopt(f"{name}.parquet", stats='{"numRecords":1}'))
        problem = "it has the column 'X', which is 'x' in the schema"
        assert check(tmp_path) == ([] if name == "x" else [("COLUMN_CASE", problem)])


def test_a_rewrite_gives_readers_the_values(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id"), Column("k")])
    for number in range(6):
        data = pa.table({"ID": [number], "k": [number]})
        pq.write_table(data, tmp_path / f"{number}.parquet")
        builder.commit(builder.adopt(f"{number}.parquet", stats='{"numRecords":1}'))
    assert DeltaTable(tmp_path).to_pyarrow_table()["id"].null_count == 6
    assert [code for code, _ in check(tmp_path)] == ["COLUMN_CASE"] * 6
    Table(str(tmp_path)).optimize()
    assert check(tmp_path) == []
    assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist()) == [*range(6)]


def test_a_partition_column_in_a_file_is_not_read(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id"), Column("p")], partition_by=["p"])
    pq.write_table(pa.table({"id": [1], "P": [2]}), tmp_path / "f.parquet")
    builder.commit(builder.adopt("f.parquet", partitionValues={"p": "1"}))
    assert check(tmp_path) == []


@pytest.mark.parametrize("name", ["id", "ID"])
def test_an_equal_name_goes_before_one_of_another_case(tmp_path: Path, name: str) -> None:
    builder = TableBuilder(tmp_path, [Column(name)])
    pq.write_table(pa.table({"ID": [1], "id": [2]}), tmp_path / "f.parquet")
    builder.commit(builder.adopt("f.parquet", stats='{"numRecords":1}'))
    assert check(tmp_path) == []
