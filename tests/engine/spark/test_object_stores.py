"""Spark's executors read and write tables on object stores by themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import Table
from deltactl.engine.spark.engine import SparkEngine
from deltactl.storage.open import open_store
from tests.support.object_servers import S3_ENVIRON, ObjectServer
from tests.support.object_store_fixtures import ALL_SERVERS
from tests.support.spark_cluster import ON_CLUSTER
from tests.support.spark_servers import worker_environ
from tests.support.table_builder import multiset
from tests.support.table_samples import build_sample
from tests.support.unity_stub import TOKEN, unity_stub, vend_keys_of_minio

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build(server: ObjectServer, root: str, folder: Path) -> tuple[Table, str]:
    """A table with small files, and a directory of Parquet files beside it."""
    build_sample(open_store(root, server.options), layout="partitioned")
    directory = f"{root} of files"
    store = open_store(directory, server.options)
    for number in range(6):
        file = folder / f"{number}.parquet"
        pq.write_table(pa.table({"id": [number, number + 10]}), file)
        store.put(f"p={number % 2}/{file.name}", file.read_bytes())
    return Table(root, server.options), directory


def ids_of(table: Table) -> list[int]:
    return sorted(row["id"] for row in table.scan().read_all().to_pylist())


CONVERTED = sorted(number + more for number in range(6) for more in (0, 10))


@pytest.mark.parametrize("server", ["minio"], indirect=True)
@pytest.mark.parametrize("mark", [pytest.param("", marks=ON_CLUSTER)])
def test_workers_get_credentials_of_a_catalog(
    mark: str,
    server: ObjectServer,
    root: str,
    cluster: SparkSession,
    cluster_folder: Path,
    tmp_path: Path,
) -> None:
    """The workers know neither the token nor the keys, and ask the catalog for nothing."""
    build(server, root, tmp_path)
    with unity_stub(vend=vend_keys_of_minio) as unity:
        unity.add("main.sales.orders", root)
        settings = {"databricks_host": unity.address, "databricks_token": TOKEN}
        table = Table("uc://main.sales.orders", {**settings, "endpoint_url": server.endpoint})
        before = multiset(table.scan().read_all().to_pylist())
        report = table.optimize(engine=SparkEngine(cluster))
        assert (report.engine, report.failures) == ("spark", ())
        assert report.files_added < report.files_removed
        assert multiset(table.scan().read_all().to_pylist()) == before
        assert [body["operation"] for body in unity.bodies] == ["READ", "READ_WRITE", "READ"]
    records = [path.read_bytes() for path in cluster_folder.rglob("*") if path.is_file()]
    assert any(b"MapInArrow" in record for record in records)
    for secret in (TOKEN, S3_ENVIRON["AWS_SECRET_ACCESS_KEY"]):
        assert not any(secret.encode() in record for record in records)


@pytest.mark.slow
@pytest.mark.parametrize("server", ALL_SERVERS, indirect=True)
@pytest.mark.parametrize("mark", [pytest.param("", marks=ON_CLUSTER)])
def test_executors_of_a_command(mark: str, server: ObjectServer, root: str, tmp_path: Path) -> None:
    table, directory = build(server, root, tmp_path)
    before = multiset(table.scan().read_all().to_pylist())
    for arguments in (["optimize", root], ["convert", directory]):
        given = [f"{name}={value}" for name, value in server.options.items()]
        options = [word for text in given for word in ("--storage-option", text)]
        engine = ["--engine", "spark", "--master", "local-cluster[2,1,1024]"]
        done = subprocess.run(
            [sys.executable, "-m", "deltactl", *arguments, "-o", "json", *engine, *options],
            env=worker_environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["engine"] == "spark"
    assert multiset(table.scan().read_all().to_pylist()) == before
    assert table.snapshot().num_files < len(before)
    assert ids_of(Table(directory, server.options)) == CONVERTED
