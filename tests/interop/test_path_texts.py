"""Two texts of one path: what Delta on Spark, delta-rs and DuckDB take for live, and so do we."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltactl import ConvertOptions, Table, VacuumOptions, convert
from deltactl.operations.convert.options import parse_partition_by
from deltactl.protocol.path_columns import normalize_paths
from deltactl.protocol.paths import encode_path, partition_directory
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.path_texts import TextTable
from tests.support.spark_matrix import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

GONE, ONCE, TWICE = 0, 1, 2

# The first text is added; "-" before a text removes it, "+" adds it. Then how often Delta on
# Spark returns the rows, and readers on the Delta kernel. None: the reader refuses the table.
CASES: dict[str, tuple[Sequence[str], int | None, int]] = {
    "same": (["p=%C3%A9/f.parquet", "-p=%C3%A9/f.parquet"], GONE, GONE),
    "encoded, raw": (["p=%C3%A9/f.parquet", "-p=é/f.parquet"], ONCE, ONCE),
    "raw, encoded": (["p=é/f.parquet", "-p=%C3%A9/f.parquet"], ONCE, ONCE),
    "needless escape": (["p=é/f.parquet", "-p=é/%66.parquet"], ONCE, ONCE),
    "space": (["p=a%20b/f.parquet", "-p=a b/f.parquet"], None, ONCE),
    "dot segment": (["p=é/f.parquet", "-./p=é/f.parquet"], GONE, ONCE),
    "doubled slash": (["p=é/f.parquet", "-p=é//f.parquet"], GONE, ONCE),
    "segments between": (["p=é/f.parquet", "-p=é/./f.parquet"], GONE, ONCE),
    "segment up": (["p=é/f.parquet", "-q/../p=é/f.parquet"], GONE, ONCE),
    "added again": (
        ["p=%C3%A9/f.parquet", "-p=é/f.parquet", "+p=é/f.parquet", "-p=%C3%A9/f.parquet"],
        ONCE,
        ONCE,
    ),
    "relative, absolute": (["p=é/f.parquet", "-file:{root}/p=é/f.parquet"], ONCE, ONCE),
    "two adds": (["p=é/f.parquet", "+p=%C3%A9/f.parquet"], TWICE, TWICE),
}
IDS = (1, 2, 3)


def make(case: str, root: Path) -> TextTable:
    table = TextTable(root)
    for step in CASES[case][0]:
        text = step.lstrip("+-").format(root=root)
        if step.startswith("-"):
            table.remove(text)
        else:
            table.add(text, IDS)
    return table


def read_with_spark(spark: SparkSession, root: Path) -> Counter[int]:
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    rows = spark.read.format("delta").load(str(root)).collect()
    return Counter(row["id"] for row in rows)


def times(count: int) -> Counter[int]:
    """Each of the rows so often."""
    return Counter(dict.fromkeys(IDS, count)) - Counter()


@dataclass(frozen=True)
class Case:
    """A table, and what Spark returned of it: rows and the names of their files.

    One query reads all tables.
    """

    table: TextTable
    on_spark: Counter[int]
    files: set[str]


@pytest.fixture(scope="module")
def cases(delta_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    root = tmp_path_factory.mktemp("cases")
    tables = {case: make(case, root / f"{number}") for number, case in enumerate(CASES)}
    scans = [
        delta_spark.read.format("delta")
        .load(str(it.root))
        .selectExpr(f"'{case}' AS case", "id", "_metadata.file_path AS file")
        for case, it in tables.items()
        if CASES[case][1] is not None
    ]
    rows = reduce(type(scans[0]).unionAll, scans).collect()
    return {
        case: Case(
            table,
            Counter(row["id"] for row in rows if row["case"] == case),
            {table.name_of(row["file"]) for row in rows if row["case"] == case},
        )
        for case, table in tables.items()
    }


@pytest.mark.parametrize("case", CASES)
def test_readers_agree_with_the_table_in_the_decision_record(
    cases: dict[str, Case], case: str
) -> None:
    _, on_spark, on_kernel = CASES[case]
    found = cases[case]
    for read in (rows_with_duckdb, rows_with_delta_rs):
        assert Counter(it["id"] for it in read(found.table.root)) == times(on_kernel), read.__name__
    expected = times(on_kernel if on_spark is None else on_spark)
    if on_spark is not None:
        assert found.on_spark == expected
    ours = Table(str(found.table.root)).scan().read_all()["id"].to_pylist()
    assert Counter(ours) == expected


@pytest.mark.parametrize("case", CASES)
def test_vacuum_keeps_what_any_reader_returns(
    cases: dict[str, Case], tmp_path: Path, case: str
) -> None:
    """Spark is not asked again: all files that it read are there."""
    _, on_spark, on_kernel = CASES[case]
    table = make(case, tmp_path / "vacuumed")
    options = VacuumOptions(mode="full", retain_ms=0, force_retention=True, max_orphan_fraction=1.0)
    Table(str(table.root)).vacuum(options)
    stored = table.stored()
    assert bool(stored) == bool(on_kernel or on_spark)
    for read in (rows_with_duckdb, rows_with_delta_rs):
        assert Counter(it["id"] for it in read(table.root)) == times(on_kernel), read.__name__
    assert bool(cases[case].files) == bool(on_spark)
    assert cases[case].files <= stored


def test_texts_are_normalised_as_java_does(delta_spark: SparkSession) -> None:
    """What ``org.apache.hadoop.fs.Path`` makes of a URI, with which Delta on Spark compares."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    jvm: Any = delta_spark._jvm
    choose = random.Random(23).choice
    heads = ["", "", "/", "./", "../", "//h/", "file:/", "file:///", "file:////", "s3://b/", "x:"]
    parts = ["a", "é", "%2E", ".", "..", "", "p=%C3%A9", "a:b", ".c", "d.", "...", "a+b"]
    tails = ["", "", "", "/", "?q/./r", "#f//g"]
    texts = {
        choose(heads) + "/".join(choose(parts) for _ in range(count)) + choose(tails)
        for count in (1, 2, 3, 4, 5)
        for _ in range(60)
    }
    found = {}
    for text in sorted(texts):
        with suppress(Py4JJavaError):  # no URI: Delta on Spark refuses the table
            found[text] = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(text)).toUri().toString()
    assert len(found) > 150
    ours = normalize_paths(pa.array(list(found))).to_pylist()
    assert dict(zip(found, ours, strict=True)) == found


def vacuum_with_spark(spark: SparkSession, root: Path) -> None:
    with settings(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        spark.sql(f"VACUUM delta.`{root}` FULL RETAIN 0 HOURS")


# Hadoop's local file system takes no colon in a name.
CHARACTERS = [chr(c) for c in range(1, 128) if chr(c) not in "/:"] + list(
    "é日\xa0\x85\u3000😀\u200b"
)
# Each character is escaped by itself, wherever it is: some together take fewer commits.
TEXTS = ["".join(CHARACTERS[start : start + 14]) for start in range(0, len(CHARACTERS), 14)]


@pytest.mark.slow
def test_vacuum_of_delta_on_spark_deletes_what_has_other_escapes(
    delta_spark: SparkSession, tmp_path: Path
) -> None:
    """A defect of Delta on Spark 4.4.0, which decides the texts that deltactl writes."""
    table = TextTable(tmp_path)
    names = {f"p=é/a{c}b.parquet": encode_path(f"p=é/a{c}b.parquet") for c in TEXTS}
    other = {"%C3%A9/f.parquet": (1,), "a%2Ab.parquet": (2,), "%61.parquet": (3,)}
    for text in names.values():
        table.add(text, (4,))
    for text, ids in other.items():
        table.add(text, ids)
    (note,) = (it for it in Table(str(tmp_path)).check().notes if "VACUUM" in it)
    assert "3 live files" in note
    assert len(read_with_spark(delta_spark, tmp_path)) == 4
    vacuum_with_spark(delta_spark, tmp_path)
    assert table.stored() == names.keys()


@pytest.mark.slow  # `make explore-spark` runs it
def test_vacuum_of_delta_on_spark_keeps_what_optimize_and_convert_wrote(
    delta_spark: SparkSession, tmp_path: Path
) -> None:
    table = TextTable(tmp_path / "optimized")
    for value in TEXTS:
        folder = partition_directory([("p", value)])
        for name, number in (("a", 1), ("b", 2)):
            table.add(encode_path(f"{folder}/{name}.parquet"), (number,), p=value)
    Table(str(table.root)).optimize()
    bare = tmp_path / "converted"
    for path in table.root.rglob("p=*/*.parquet"):
        target = bare / path.relative_to(table.root).parent / f"é*{path.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    convert(str(bare), ConvertOptions(partition_by=parse_partition_by("p string")))
    # The directory that was converted has the files from before the optimize as well.
    for root, copies in ((table.root, 1), (bare, 2)):
        expected = Counter({number: copies * len(TEXTS) for number in (1, 2)})
        assert not [it for it in Table(str(root)).check().notes if "VACUUM" in it]
        vacuum_with_spark(delta_spark, root)
        assert read_with_spark(delta_spark, root) == expected
        for read in (rows_with_duckdb, rows_with_delta_rs):
            assert Counter(row["id"] for row in read(root)) == expected


def test_all_readers_return_the_rows_once_after_the_fix(
    delta_spark: SparkSession, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    table = TextTable(tmp_path)
    table.add("p=é/f.parquet", IDS)
    DeltaTable(str(tmp_path)).delete("id = 1")
    assert read_with_spark(delta_spark, tmp_path) == Counter([1, 2, 3, 2, 3])
    Table(str(tmp_path)).fix(kind="path-encoding")
    assert read_with_spark(delta_spark, tmp_path) == Counter([2, 3])
    for read in (rows_with_duckdb, rows_with_delta_rs):
        assert Counter(row["id"] for row in read(tmp_path)) == Counter([2, 3])
    history = delta_spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path}`").collect()
    assert history[0]["operation"] == "FSCK"
