"""The names that Delta writers give to their files."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake

from deltactl.protocol.vacuum_names import writer_mask
from deltactl.storage.local.files import temp_path
from deltactl.table import Table

ID = "6a09e667-f3bc-4908-8b2f-3bcc908bc8a1"
WRITTEN = (
    # deltactl
    f"part-00000-{ID}-0.c000.zstd.parquet",
    f"p=a/part-00012-{ID}-2.c001.parquet",
    f"part-00000-{ID}-0.c012-1.zstd.parquet",
    "clone-0123456789abcdef0123456789abcdef.parquet",
    temp_path("p=a"),
    # Delta on Spark; with random prefixes; change data
    f"part-00000-{ID}-c000.snappy.parquet",
    f"p=a b/q=é%2F/part-00199-{ID}.c000.zstd.parquet",
    f"p=__HIVE_DEFAULT_PARTITION__/part-100000-{ID}.c000.lz4hadoop.parquet",
    f"2Z/part-00000-{ID}-c000.snappy.parquet",
    f"_change_data/p=a/cdc-00000-{ID}.c000.snappy.parquet",
    # Databricks
    f"part-00000-tid-7597930103898538622-{ID}-528-1-c000.snappy.parquet",
    f"p=a/part-00003-tid-7308584894429175766-{ID}-44-2.c000.snappy.parquet",
    # delta-rs, now and with PyArrow as writer
    f"p=a/part-00000-{ID}-c000.snappy.parquet",
    f"id=1/0-{ID}-0.parquet",
    # Delta Kernel for Rust and for Java
    f"{ID}.parquet",
    f"p=a/{ID}-000.parquet",
    # Trino
    f"20230119_132534_00035_wnvht_{ID}",
    f"p=a/20220614_222125_00009_8i7jx-{ID}",
    # Flink
    f"p=a/part-{ID}-0.snappy.parquet",
    # deletion vectors
    f"deletion_vector_{ID}.bin",
    f"ab/deletion_vector_{ID}.bin",
)
LANDED = (
    "x.parquet",
    "part-0.parquet",
    "part-00000.snappy.parquet",
    "events-2024-01-01.parquet",
    "data_0.parquet",
    "deletion_vector_0.bin",
    "README.md",
    ".deltactl-1.tmp",
    temp_path("export"),
    f"{ID}.csv",
    f"{ID.upper()}.parquet",
    f"part-00000-{ID}-c000.snappy.parquet.tmp",
    f"part-00000-{ID}-c000.csv",
    f"copy of part-00000-{ID}-c000.snappy.parquet",
    f"part-00000-{ID}_00001.c000.snappy.parquet",  # buckets: no table of Delta has them
    f"00000-0-{ID}-00001.parquet",  # Iceberg
    f"{ID}-0_0-12-34_20240101000000000.parquet",  # Hudi
    f"export/part-00000-{ID}-c000.snappy.parquet",
    f"export/day=1/part-00000-{ID}-c000.snappy.parquet",
    f"2024/01/part-00000-{ID}-c000.snappy.parquet",
    f"a=1\nx/y/part-00000-{ID}-c000.snappy.parquet",
    f"part-00000-{ID}-c000.snappy.parquet\n",
)


def are_written(*names: str) -> list[bool]:
    return list(writer_mask(pa.chunked_array([pa.array(names, pa.string())])).to_pylist())


@pytest.mark.parametrize("name", WRITTEN, ids=range(len(WRITTEN)))
def test_names_of_each_writer(name: str) -> None:
    assert are_written(name) == [True]


@pytest.mark.parametrize("name", LANDED, ids=range(len(LANDED)))
def test_names_of_other_programs(name: str) -> None:
    assert are_written(name) == [False]


def names_below(root: Path) -> list[str]:
    names = [path.relative_to(root).as_posix() for path in root.rglob("*.parquet")]
    return [name for name in names if not name.startswith("_delta_log/")]


@pytest.mark.parametrize("codec", ["SNAPPY", "ZSTD", "GZIP", "UNCOMPRESSED", "BROTLI", "LZ4_RAW"])
def test_files_of_delta_rs_and_deltactl(tmp_path: Path, codec: str) -> None:
    rows = pa.table({"id": [1, 2, 3], "p": ["a b", "a b", None]})
    properties = WriterProperties(compression=codec)  # type: ignore[arg-type]
    feed = {"delta.enableChangeDataFeed": "true"}
    for _ in range(3):
        write_deltalake(
            tmp_path,
            rows,
            mode="append",
            partition_by=["p"],
            writer_properties=properties,
            configuration=feed,
        )
    DeltaTable(tmp_path).update(predicate="id = 1", updates={"id": "4"})
    before = names_below(tmp_path)
    assert any(name.startswith("_change_data/") for name in before)
    Table(str(tmp_path)).optimize()
    after = names_below(tmp_path)
    assert len(after) > len(before) > 6
    assert all(are_written(*after)), after


@pytest.mark.parametrize(
    "options", [{"rewrite": "encode"}, {"cluster_by": "id"}, {"zorder_by": "id"}]
)
def test_files_of_each_way_to_rewrite(tmp_path: Path, options: dict[str, Any]) -> None:
    for start in range(3):
        rows = pa.table(
            {"id": range(start, 100, 3), "p": ["a", "b", "c"] * 11 + ["a"] * (not start)}
        )
        write_deltalake(tmp_path, rows, mode="append", partition_by=["p"])
    before = names_below(tmp_path)
    Table(str(tmp_path)).optimize(**options)
    after = names_below(tmp_path)
    assert len(after) > len(before)
    assert all(are_written(*after)), after
