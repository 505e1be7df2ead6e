"""Tables that Delta on Spark wrote and then restored, kept in ``restored.zip`` beside this file.

``python -m tests.interop.restored`` writes them again, after a change of Delta's version or of
``SCENES``: Spark takes minutes for what a test unpacks at once.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORED: Final = Path(__file__).with_suffix(".zip")
_EXPECTED: Final = "expected.json"
_DATE: Final = (2024, 1, 1, 0, 0, 0)
_ROWS: Final = "SELECT /*+ REPARTITION(1) */ cast(id as int) AS id FROM range(5)"


@dataclass(frozen=True, slots=True)
class Scene:
    """Statements that write a table, ``{}`` in them, and the version to restore."""

    target: int
    statements: tuple[str, ...]


SCENES: Final = {
    "deletion vectors": Scene(
        1,
        (
            "CREATE TABLE {} (id INT) USING DELTA "
            "TBLPROPERTIES('delta.enableDeletionVectors'='true')",
            f"INSERT INTO {{}} {_ROWS}",
            "DELETE FROM {} WHERE id = 1",
            "INSERT INTO {} VALUES (9)",
            "ALTER TABLE {} ADD COLUMN b STRING",
        ),
    ),
    "clustering": Scene(
        1,
        (
            "CREATE TABLE {} (id INT, b INT) USING DELTA CLUSTER BY (id)",
            "INSERT INTO {} VALUES (1, 1)",
            "ALTER TABLE {} CLUSTER BY (b)",
            "INSERT INTO {} VALUES (2, 2)",
        ),
    ),
    "clustered since": Scene(
        1,
        (
            "CREATE TABLE {} (id INT, b INT) USING DELTA",
            "INSERT INTO {} VALUES (1, 1)",
            "ALTER TABLE {} CLUSTER BY (b)",
            "INSERT INTO {} VALUES (2, 2)",
        ),
    ),
    "timestamps since": Scene(
        1,
        (
            "CREATE TABLE {} (id INT) USING DELTA",
            "INSERT INTO {} VALUES (1)",
            "ALTER TABLE {} SET TBLPROPERTIES('delta.enableInCommitTimestamps'='true')",
            "INSERT INTO {} VALUES (2)",
        ),
    ),
    "timestamps before": Scene(
        3,
        (
            "CREATE TABLE {} (id INT) USING DELTA",
            "INSERT INTO {} VALUES (1)",
            "ALTER TABLE {} SET TBLPROPERTIES('delta.enableInCommitTimestamps'='true')",
            "INSERT INTO {} VALUES (2)",
            "DELETE FROM {} WHERE id = 1",
        ),
    ),
    "row tracking": Scene(
        1,
        (
            "CREATE TABLE {} (id INT) USING DELTA TBLPROPERTIES('delta.enableRowTracking'='true')",
            f"INSERT INTO {{}} {_ROWS}",
            "DELETE FROM {} WHERE id = 1",
            "INSERT INTO {} VALUES (9)",
        ),
    ),
    "row tracking since": Scene(
        1,
        (
            "CREATE TABLE {} (id INT) USING DELTA",
            f"INSERT INTO {{}} {_ROWS}",
            "DELETE FROM {} WHERE id = 1",
            "ALTER TABLE {} SET TBLPROPERTIES('delta.enableRowTracking'='true')",
            "INSERT INTO {} VALUES (9)",
        ),
    ),
    "column mapping": Scene(
        1,
        (
            "CREATE TABLE {} (id INT, p STRING) USING DELTA PARTITIONED BY (p) "
            "TBLPROPERTIES('delta.columnMapping.mode'='name')",
            "INSERT INTO {} VALUES (1, 'a b'), (2, null)",
            "ALTER TABLE {} RENAME COLUMN id TO x",
            "INSERT INTO {} VALUES (3, 'ü%')",
        ),
    ),
    "partitions and change data": Scene(
        1,
        (
            "CREATE TABLE {} (id INT, p STRING, d DATE) USING DELTA PARTITIONED BY (p, d) "
            "TBLPROPERTIES('delta.enableChangeDataFeed'='true')",
            "INSERT INTO {} SELECT /*+ REPARTITION(1) */ * FROM VALUES "
            "(1, 'a b', DATE'2024-01-01'), (4, 'a b', DATE'2024-01-01'), (2, null, null)",
            "DELETE FROM {} WHERE id = 1",  # rewrites a file: the removed row is change data
            "INSERT INTO {} VALUES (3, 'ü%', null)",
        ),
    ),
}


def build(spark: SparkSession, root: Path, scene: Scene) -> None:
    """Let Spark write the table of a scene, and restore it; no checkpoint is left."""
    for statement in scene.statements:
        spark.sql(statement.format(f"delta.`{root}`"))
    spark.sql(f"RESTORE TABLE delta.`{root}` TO VERSION AS OF {scene.target}")
    # Spark writes one after a RESTORE. A copy without that commit has none.
    for file in (root / "_delta_log").glob("*checkpoint*"):
        file.unlink()


def read_all(spark: SparkSession, roots: dict[str, Path]) -> dict[str, list[str]]:
    """Return the rows of each table as sorted JSON texts, read by one query."""
    frame = None
    for name, root in roots.items():
        rows = spark.read.format("delta").load(str(root))
        text = "to_json(struct(*), map('ignoreNullFields', 'false')) AS text"
        one = rows.selectExpr(f"'{name}' AS name", text)
        frame = one if frame is None else frame.unionAll(one)
    found: dict[str, list[str]] = {name: [] for name in roots}
    for row in frame.collect() if frame is not None else ():
        found[row["name"]].append(row["text"])
    return {name: sorted(texts) for name, texts in found.items()}


def unpack(name: str, root: Path) -> None:
    """Write the stored table of a scene, restored by Spark, into a new directory."""
    with zipfile.ZipFile(STORED) as archive:
        for path in archive.namelist():
            folder, _, inner = path.partition("/")
            if folder == name:
                target = root / inner
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(path))


def expected_rows() -> dict[str, list[str]]:
    """Return what Spark read from each stored table, as ``read_all`` gives it."""
    with zipfile.ZipFile(STORED) as archive:
        found: dict[str, list[str]] = json.loads(archive.read(_EXPECTED))
    return found


def main() -> None:
    """Write the tables of all scenes with Delta on Spark into ``restored.zip``."""
    from tests.support.delta_spark import delta_session

    with (
        tempfile.TemporaryDirectory() as scratch,
        delta_session(Path(scratch, "spark")) as spark,
        zipfile.ZipFile(STORED, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        roots = {name: Path(scratch, name) for name in SCENES}
        for name, root in roots.items():
            build(spark, root, SCENES[name])
            for file in sorted(root.rglob("*")):
                # Hadoop's checksums are for its local file system only.
                if file.is_file() and not file.name.startswith("."):
                    _add(archive, str(file.relative_to(root.parent)), file.read_bytes())
        texts = json.dumps(read_all(spark, roots), ensure_ascii=False, indent=1)
        _add(archive, _EXPECTED, texts.encode())


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


if __name__ == "__main__":
    main()
