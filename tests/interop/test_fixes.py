"""Delta on Spark and delta-rs read tables after ``check --fix``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltactl import Table
from tests.interop.judges import rows_with_delta_rs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark")]

PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.dataSkippingNumIndexedCols": "1",
}


def test_all_fixes_of_files(delta_spark: SparkSession, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path}`"
    properties = ", ".join(f"'{key}'='{value}'" for key, value in PROPERTIES.items())
    delta_spark.sql(
        f"CREATE TABLE {name} (id LONG, v DOUBLE, s STRING) USING delta "
        f"TBLPROPERTIES ({properties})"
    )
    rows = delta_spark.range(0, 40, 1, 4).selectExpr("id", "id / 2 AS v", "'s' AS s")
    rows.write.format("delta").mode("append").save(str(tmp_path))
    delta_spark.sql(f"DELETE FROM {name} WHERE id = 7")
    Table(tmp_path).alter(properties={"delta.dataSkippingNumIndexedCols": "32"})

    def read(where: str = "true") -> list[tuple[int, int]]:
        found = delta_spark.sql(f"SELECT id, _metadata.row_id FROM {name} WHERE {where}").collect()
        return sorted((row[0], row[1]) for row in found)

    before = read()
    report = Table(tmp_path).fix(kind="stats")
    assert report.to_dict()["reasons"]["too_short"] == 4
    assert read() == before
    assert read("v >= 19") == [row for row in before if row[0] >= 38]
    assert Table(tmp_path).check(depth="footers").is_sound
    files = Table(tmp_path).snapshot().files
    lost = files.filter(files["deletion_vector"].is_null())["path"][0].as_py()
    gone = set(range(int(lost.split("-")[1]) * 10, int(lost.split("-")[1]) * 10 + 10))
    (tmp_path / lost).unlink()
    (vector,) = tmp_path.glob("deletion_vector_*.bin")
    vector.unlink()
    Table(tmp_path).fix(kind="missing-vectors", keep_deleted_rows=True, expect_files=1)
    Table(tmp_path).fix(kind="missing-files", expect_files=1)
    found = read()
    assert [number for number, _ in found] == [n for n in range(40) if n not in gone]
    assert set(before) - set(found) == {row for row in before if row[0] in gone}
    assert sorted(row["id"] for row in rows_with_delta_rs(tmp_path)) == [n for n, _ in found]
