"""Shredded variants of Delta on Spark are kept as they are, or written unshredded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq
import pytest

from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.report import OptimizeReport
from deltactl.protocol.variants import split_object
from deltactl.protocol.z85 import z85_decode
from deltactl.table import Table
from tests.support.duckdb_delta import connect_duckdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

_SHREDDING: Final = "spark.sql.variant.forceShreddingSchemaForTest"
_WRITING: Final = "spark.sql.variant.writeShredding.enabled"
_ROWS_OF_A_FILE: Final = "spark.sql.files.maxRecordsPerFile"
_ONE: Final = "a int, b struct<c string, d array<bigint>>"
_OTHER: Final = "a string"
# Fields that are missing, null, nested, or of another type than the shredding has.
_VALUES: Final = (
    '{"a": 1, "b": {"c": "x", "d": [1, 2]}}', '{"a": "no number", "rest": [null, true]}', "null",
    '{"b": null}', '{"a": 2.5, "b": {"c": 7, "d": [1, "two"], "e": {}}}', "[1, 2]", None,
)  # fmt: skip


@pytest.fixture(scope="module")
def template(delta_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files with one shredding, and one with another."""
    path = tmp_path_factory.mktemp("shredded") / "t"
    delta_spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, v VARIANT) USING DELTA TBLPROPERTIES ("
        "'delta.enableVariantShredding'='true', 'delta.enableDeletionVectors'='true')"
    )
    try:
        delta_spark.conf.set(_WRITING, "true")
        delta_spark.conf.set(_ROWS_OF_A_FILE, len(_VALUES))
        for shredding, numbers in ((_ONE, (0, 1, 2)), (_OTHER, (3,))):
            delta_spark.conf.set(_SHREDDING, shredding)
            rows = [(10 * k + n, text) for k in numbers for n, text in enumerate(_VALUES)]
            frame = delta_spark.createDataFrame(rows, "id INT, text STRING").coalesce(1)
            frame.selectExpr("id", "parse_json(text) AS v").write.format("delta").mode(
                "append"
            ).save(str(path))
    finally:
        delta_spark.conf.unset(_SHREDDING)
        delta_spark.conf.unset(_WRITING)
        delta_spark.conf.unset(_ROWS_OF_A_FILE)
    return path


@pytest.fixture(params=["true", "false"])
def table(
    request: pytest.FixtureRequest, delta_spark: SparkSession, template: Path, tmp_path: Path
) -> tuple[Path, bool]:
    """A copy, for which shredding is switched off or not."""
    path = tmp_path / "t"
    shutil.copytree(template, path)
    if request.param == "false":
        delta_spark.sql(
            f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableVariantShredding'='false')"
        )
    return path, request.param == "true"


def _read(spark: SparkSession, path: Path) -> tuple[list[str], list[str]]:
    """Return what Spark and DuckDB read."""
    spark.catalog.clearCache()
    frame = spark.read.format("delta").load(str(path))
    chosen = frame.selectExpr("id", "to_json(v) AS v")
    duck = connect_duckdb().sql(f"SELECT id, v::VARCHAR FROM delta_scan('{path}')")
    return sorted(map(str, chosen.collect())), sorted(map(str, duck.fetchall()))


def _shapes(path: Path) -> list[bool]:
    """Return for each live file whether it is shredded."""
    files = Table(str(path)).snapshot().files["path"].to_pylist()
    return sorted("typed_value" in str(pq.read_metadata(path / name).schema) for name in files)


def _optimize(path: Path, **options: object) -> OptimizeReport:
    chosen = OptimizeOptions(**{"verify": "full", **options})  # type: ignore[arg-type]
    planned = Table(str(path)).optimize(chosen, dry_run=True)
    done = Table(str(path)).optimize(chosen)
    assert planned.rewritten is not None
    assert done.rewritten is not None
    assert planned.rewritten.copied_because == done.rewritten.copied_because
    assert Table(str(path)).optimize(chosen, dry_run=True).plan.is_empty
    return done


def test_variants_with_the_same_shredding_stay_shredded(
    delta_spark: SparkSession, table: tuple[Path, bool]
) -> None:
    path, may_shred = table
    before = _read(delta_spark, path)
    assert _shapes(path) == [True] * 4
    report = _optimize(path)
    assert _read(delta_spark, path) == before
    assert report.rewritten is not None
    if may_shred:  # the file with another shredding has no partner
        assert report.rewritten.copied_because == {"variants are shredded: 'v'": 3}
        assert _shapes(path) == [True, True]
    else:
        assert not report.rewritten.copied_because
        assert _shapes(path) == [False]


@pytest.mark.slow  # `make explore-spark` runs it
def test_deleted_rows_and_encoding_write_variants_unshredded(
    delta_spark: SparkSession, template: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copytree(template, tmp_path / "t"))
    delta_spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    before = _read(delta_spark, path)
    _optimize(path, max_deleted_rows_ratio=0)
    assert _read(delta_spark, path) == before
    assert _shapes(path) == [False, True]
    _optimize(path, rewrite="encode", target_bytes=10**6)
    assert _read(delta_spark, path) == before
    assert _shapes(path) == [False]


def _bounds(path: Path) -> list[dict[bytes, bytes]]:
    """Return the bounds of variants in the only file."""
    (text,) = Table(str(path)).snapshot().files["stats"].to_pylist()
    stats = json.loads(text)
    texts = (stats[name]["v"] for name in ("minValues", "maxValues"))
    return [split_object(z85_decode(text)) for text in texts]


@pytest.mark.slow
def test_bounds_of_variants_are_those_that_spark_computes(
    delta_spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "ours"
    settings = {
        _WRITING: "true",
        _SHREDDING: "a bigint, s string, c decimal(9,2), t timestamp, f double, "
        "n struct<d date, m bigint>",
        "spark.databricks.delta.variantShredding.parseFooterForStats": "true",
        "spark.databricks.delta.stats.limitPerVariant": "100",
    }
    try:
        for name, value in settings.items():
            delta_spark.conf.set(name, value)
        delta_spark.sql(
            f"CREATE TABLE delta.`{path}` (id INT, v VARIANT) USING DELTA "
            "TBLPROPERTIES ('delta.enableVariantShredding'='true')"
        )
        for number in (7, -3, 20):
            member = f"'m', {'id' if number != 7 else 'string(id)'}"
            delta_spark.range(number, number + 5).coalesce(1).selectExpr(
                "int(id) AS id",
                "to_variant_object(named_struct('a', id, 's', concat('\u00fc', repeat(id, 20)), "
                "'c', cast(id / 4 AS decimal(9,2)), 't', timestamp_seconds(id * 86400.5), "
                "'f', double(id), 'n', named_struct('d', date_add(date'1970-01-01', int(id)), "
                f"{member}))) AS v",
            ).write.format("delta").mode("append").save(str(path))
        other = Path(shutil.copytree(path, tmp_path / "theirs"))
        delta_spark.sql(f"OPTIMIZE delta.`{other}`")
    finally:
        for name in settings:
            delta_spark.conf.unset(name)
    filters = [
        "v:a::int = 22",
        "v:s::string < '\u00fc1'",
        "v:n.d::date < '1970-01-01'",
        "v IS NULL",
    ]

    def select() -> list[list[int]]:
        table = delta_spark.read.format("delta").load(str(path))
        return [sorted(r.id for r in table.where(text).collect()) for text in filters]

    before = select()
    _optimize(path)
    assert select() == before
    assert _bounds(path) == [
        {name: value for name, value in bounds.items() if name != b"$['f']"}
        for bounds in _bounds(other)
    ]
    assert {b"$['a']", b"$['s']", b"$['c']", b"$['t']", b"$['n']['d']"} == _bounds(path)[0].keys()
