"""`deltactl optimize` on Spark from the shell: real Java, whole processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from deltactl import Table
from deltactl.storage.local.store import LocalStore
from tests.support.spark_cluster import ON_CLUSTER, ON_SPARK
from tests.support.spark_servers import JAVA_OPTIONS, worker_environ
from tests.support.spark_ui import read_ui
from tests.support.table_builder import multiset
from tests.support.table_samples import build_sample

SECRET = "hush-hush-4711"

QUICK_JAVA = [
    *("--spark-conf", f"spark.driver.extraJavaOptions={JAVA_OPTIONS}"),
    *("--spark-conf", f"spark.executor.extraJavaOptions={JAVA_OPTIONS}"),
    *("--spark-conf", "spark.sql.codegen.wholeStage=false"),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    build_sample(LocalStore(str(tmp_path / "events")), layout="partitioned")
    return tmp_path / "events"


def start(table: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "deltactl", "optimize", str(table), "-o", "json", *arguments],
        env=worker_environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rows_of(table: Path) -> Counter[Any]:
    return multiset(Table(str(table)).scan().read_all().to_pylist())


def texts_below(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return "".join(path.read_bytes().decode(errors="replace") for path in files)


def ensure_done(table: Path, arguments: list[str]) -> str:
    """Run to a good end; gives stderr."""
    before = rows_of(table)
    process = start(table, *arguments, "--storage-option", f"secret={SECRET}")
    out, err = process.communicate(timeout=280)
    assert process.returncode == 0, err
    node = json.loads(out)  # stdout has the result, and no word of Spark's
    assert node["engine"] == "spark"
    assert node["result"]["files_added"] == node["result"]["plan"]["bins"] > 1
    assert node["result"]["failures"] == node["result"]["strays"] == []
    assert rows_of(table) == before
    assert SECRET not in out + err
    return err


@pytest.mark.parametrize(
    "master",
    [
        pytest.param("local[1]", marks=ON_CLUSTER),
        # An executor in a process of its own, as those of a Spark Connect server are.
        pytest.param("local-cluster[1,1,1024]", marks=ON_CLUSTER),
    ],
)
def test_on_a_session_of_its_own(table: Path, tmp_path: Path, master: str) -> None:
    """Neither logs nor Spark's own records of plans and jobs hold a storage option."""
    events = tmp_path / "events-log"
    events.mkdir()
    err = ensure_done(
        table,
        [
            *("--master", master, "-vv"),
            *QUICK_JAVA,
            *("--spark-conf", "spark.eventLog.enabled=true"),
            *("--spark-conf", f"spark.eventLog.dir={events.as_uri()}"),
            *("--spark-conf", "spark.eventLog.compress=false"),
        ],
    )
    assert "WARN" in err or "INFO" in err
    told = texts_below(events)
    assert "MapInArrow" in told
    assert SECRET not in told


@pytest.mark.slow
@pytest.mark.parametrize("mark", [pytest.param("", marks=ON_SPARK)])
def test_spark_on_this_machine_prints_no_warnings(table: Path, mark: str) -> None:
    err = ensure_done(table, ["--engine", "spark", "--master", "local[2]", *QUICK_JAVA])
    assert "WARN" not in err, "without -v Spark keeps silent"


@pytest.mark.slow
@pytest.mark.parametrize("mark", [pytest.param("", marks=ON_CLUSTER)])
def test_in_a_packed_environment(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    """Executors unpack the archive and take its Python: here one that says so, then is ours."""
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    used = tmp_path / "used"
    python.write_text(f'#!/bin/sh\npwd >> {used}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    archive = shutil.make_archive(str(tmp_path / "env"), "gztar", tmp_path / "env")
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    ensure_done(
        table,
        [
            *("--master", "local-cluster[1,1,1024]"),
            *("--spark-conf", f"spark.archives={archive}#environment"),
        ],
    )
    assert used.read_text("utf-8").splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("mark", [pytest.param("", marks=ON_CLUSTER)])
def test_on_a_spark_connect_server(
    table: Path, cluster_address: str, cluster_folder: Path, cluster_ui: str, mark: str
) -> None:
    ensure_done(table, ["--spark-remote", cluster_address])
    shown = read_ui(cluster_ui)
    assert "MapInArrow" in shown
    assert SECRET not in texts_below(cluster_folder) + shown


@pytest.mark.slow  # `make explore-spark` runs it
@pytest.mark.parametrize("mark", [pytest.param("", marks=ON_SPARK)])
def test_a_signal_while_spark_starts(table: Path, mark: str) -> None:
    """PySpark's handler would end the process with a traceback."""
    versions = len(list((table / "_delta_log").glob("*.json")))
    process = start(table, "--master", "local[1]", *QUICK_JAVA)
    assert process.stderr is not None
    assert "starting Spark" in process.stderr.readline()
    time.sleep(1)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=280)
    assert process.returncode == 130, err
    assert json.loads(out)["result"]["interrupted"]
    assert "Traceback" not in err
    assert "WARN" not in err, "without -v Spark keeps silent"
    assert len(list((table / "_delta_log").glob("*.json"))) == versions
