import pytest

from deltactl.catalog.base import Column, TableAddress
from deltactl.catalog.locations import (
    choose_location,
    ensure_usable,
    is_delta,
    read_table,
    write_table,
)
from deltactl.errors import UnsupportedFeatureError


@pytest.mark.parametrize(
    ("marks", "expected"),
    [(("delta",), True), (("DELTA",), True), ((None, "Delta"), True), (("parquet", None), False),
     ((), False), (("delta_sharing",), False)],
)  # fmt: skip
def test_marks_have_no_case(marks: tuple[str | None, ...], expected: bool) -> None:
    assert is_delta(*marks) is expected


def test_the_path_of_the_serde_comes_first() -> None:
    assert choose_location("s3a://b/t", "s3://b/x", "s3://b/y-__PLACEHOLDER__") == "s3a://b/t"
    assert choose_location(None, " ", "s3://b/y") == "s3://b/y"
    assert choose_location(None) == ""


@pytest.mark.parametrize(
    "location", ["s3a://b/t", "file:/x", "/data/t", "abfss://c@a.dfs.core.windows.net/t"]
)
def test_addresses(location: str) -> None:
    ensure_usable("glue://db.t", location)


@pytest.mark.parametrize(
    "location",
    ["s3://b/db/t-__PLACEHOLDER__", "s3://b/db/t-__placeholder__/", "dbfs:/mnt/t", "t", ""],
)
def test_what_is_no_directory_is_refused(location: str) -> None:
    with pytest.raises(UnsupportedFeatureError):
        ensure_usable("glue://db.t", location)


def test_keys_that_an_entry_keeps_are_no_columns_too() -> None:
    columns = tuple(Column(name, "string") for name in ("id", "day", "more"))
    wanted = TableAddress(
        "glue://db.t", "Glue", None, "EXTERNAL_TABLE", "DELTA", "s3://b/t", columns=columns
    )
    before = {
        "StorageDescriptor": {"Columns": [{"Name": "id", "Type": "string"}]},
        "PartitionKeys": [{"Name": "day", "Type": "string"}],
    }
    synced = write_table(wanted, before, replace=False)
    assert [it["Name"] for it in synced["StorageDescriptor"]["Columns"]] == ["id", "more"]
    assert read_table("glue://db.t", "Glue", synced).repeated_columns == []
    replaced = write_table(wanted, before, replace=True)
    assert [it["Name"] for it in replaced["StorageDescriptor"]["Columns"]] == ["id", "day", "more"]
    assert replaced["PartitionKeys"] == []
