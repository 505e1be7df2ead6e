"""Values in the manifests of Iceberg metadata: bounds, truncated or not, and partition values."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from tests.operations.erased.test_places import BY_ID, BY_NAME, ID, NAME, base, search
from tests.support.checkpoints import new_table
from tests.support.table_builder import Column

pytest.importorskip("pyiceberg", reason="pyiceberg is not installed")
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

catalogs = pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg is not installed")


def write_iceberg(
    folder: Path, rows: pa.Table, partition_by: str, properties: Mapping[str, str] = {}
) -> None:
    """Write an Iceberg table to the directory ``t``."""
    catalog = catalogs.SqlCatalog("c", uri="sqlite:///:memory:", warehouse=f"file://{folder}")
    catalog.create_namespace("n")
    table = catalog.create_table(
        "n.t", rows.schema, location=f"file://{folder}/t", properties=properties
    )
    with table.update_spec() as update:
        update.add_identity(partition_by)
    table.append(rows)
    catalog.engine.dispose()


def test_manifests_are_searched(tmp_path: Path) -> None:
    write_iceberg(tmp_path, pa.table({"id": [1, ID], "name": ["a", NAME], "p": ["q", "q"]}), "p")
    builder = base()
    for path in (tmp_path / "t" / "metadata").glob("*.avro"):
        builder.store.put(f"metadata/{path.name}", path.read_bytes())
    assert NAME[:18].encode() not in b"".join(
        path.read_bytes() for path in tmp_path.rglob("*.avro")
    )  # both bounds are truncated
    for predicate in (BY_ID, BY_NAME):
        (place,) = search(builder.store, predicate).places
        assert (place.name, place.files) == ("Iceberg metadata", 1)
    assert search(builder.store, "id = 4243").is_erased
    assert search(builder.store, "name = 'zebra.jan'").is_erased
    found = {str(it.name): it.files for it in search(builder.store, "p = 'q'").places}
    assert found["Iceberg metadata"] == 2  # the list of manifests has bounds of partitions
    builder.store.put("metadata/cut.avro", b"Obj\1")
    report = search(builder.store, "id = 4243")
    assert [it.name for it in report.unread] == ["metadata/cut.avro"]


def test_a_day_among_the_partitions_of_a_manifest(tmp_path: Path) -> None:
    days = [date(2024, 1, day) for day in (1, 2, 3)]
    no_bounds = {"write.metadata.metrics.default": "none"}
    write_iceberg(tmp_path, pa.table({"d": days}), "d", no_bounds)
    builder = new_table(Column("id"), Column("d", "date"))
    (manifest,) = (tmp_path / "t" / "metadata").glob("*-m0.avro")
    builder.store.put("metadata/m0.avro", manifest.read_bytes())
    (place,) = search(builder.store, "d = '2024-01-02'").places
    assert place.name == "Iceberg metadata"
    assert search(builder.store, "d = '2024-01-04'").is_erased


def test_numbers_in_rows_of_a_user_are_values(tmp_path: Path) -> None:
    """Only below the name of the column, which the fields of a manifest may have too."""
    fields = (NestedField(1, "ID", LongType(), required=True), NestedField(2, "n", LongType()))
    output = PyArrowFileIO().new_output(f"{tmp_path}/x.avro")
    with AvroOutputFile[Record](output, Schema(*fields), "row") as writer:
        writer.write_block([Record(ID, 4243)])
    content = (tmp_path / "x.avro").read_bytes()
    builder = base()
    builder.store.put("x.avro", content)
    (place,) = search(builder.store, BY_ID).places
    assert place.name == "other files"
    assert search(builder.store, "id = 4243").is_erased
    builder.store.delete_many(["x.avro"])
    builder.store.put("metadata/x.avro", content)
    assert search(builder.store, BY_ID).is_erased
