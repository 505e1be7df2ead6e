"""Choosing an engine from the shell, on machines with and without what Spark needs."""

import shutil
from pathlib import Path

import pytest

from deltactl.storage.local.store import LocalStore
from tests.cli.conftest import RunCli
from tests.support.table_samples import build_sample


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    build_sample(LocalStore(str(tmp_path / "events")))
    return tmp_path / "events"


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.spark
def test_without_java_spark_is_one_clear_error(cli: RunCli, table: Path, no_java: None) -> None:
    ran = cli("optimize", "events", "--engine", "spark")
    assert (ran.code, ran.out) == (9, "")
    errors = [line for line in ran.err.splitlines() if not line.startswith("note: ")]
    assert errors == [
        "error: Spark cannot run: there is no Java",
        "hint: Install Java 17 or newer (Debian, Ubuntu: "
        "`apt-get install openjdk-17-jre-headless`) or set JAVA_HOME, "
        "or rerun with --engine local.",
    ]
    node = cli("optimize", "events", "--engine", "spark", "-o", "json").document
    assert node["error"]["code"] == "ENGINE_UNAVAILABLE"
    assert len(list((table / "_delta_log").glob("*.json"))) == len(versions(table))


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the Spark session of other tests of this process, which a command would use."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    for name in ("_gateway", "_jvm", "_active_spark_context"):
        monkeypatch.setattr(SparkContext, name, None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)


def versions(table: Path) -> list[Path]:
    return sorted((table / "_delta_log").glob("0*.json"))


@pytest.mark.spark
def test_without_java_auto_warns_and_works_here(cli: RunCli, table: Path, no_java: None) -> None:
    """A nightly job must not fail in the night its input passes the threshold."""
    ran = cli("optimize", "events", "--spark-threshold", "1B", "-o", "json")
    assert ran.code == 0
    node = ran.document
    assert node["engine"] == "local"
    assert node["engine_reason"] == "Spark cannot run: there is no Java"
    assert len(node["warnings"]) == 1
    assert "threshold of 1 B), but it cannot run: there is no Java" in node["warnings"][0]
    assert node["version_after"] > node["version_before"]


WITHOUT_THE_EXTRA = """
import sys
class Blocker:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker)
sys.argv[0] = "deltactl"
from deltactl.cli.app import main
main()
"""


def test_spark_without_the_extra_ends_with_the_line_to_type(process: RunCli, table: Path) -> None:
    ran = process("-c", WITHOUT_THE_EXTRA, "optimize", "events", "--engine", "spark")
    assert (ran.code, ran.out) == (9, "")
    errors = [line for line in ran.err.splitlines() if not line.startswith("note: ")]
    assert errors == [
        "error: Spark cannot run: the Python package pyspark is not installed",
        "hint: Run `pip install 'deltactl[spark]'`, or rerun with --engine local.",
    ]


@pytest.mark.parametrize(
    ("threshold", "warnings"),
    [("1B", ["the Python package pyspark is not installed"]), ("1GiB", [])],
)
def test_auto_without_the_extra_warns_once_above_the_threshold(
    process: RunCli, table: Path, threshold: str, warnings: list[str]
) -> None:
    words = ("optimize", "events", "--spark-threshold", threshold, "-o", "json")
    ran = process("-c", WITHOUT_THE_EXTRA, *words)
    assert ran.code == 0
    node = ran.document
    assert node["engine"] == "local"
    assert len(node["warnings"]) == len(warnings)
    assert all(said in told for said, told in zip(warnings, node["warnings"], strict=True))
    assert ("pyspark" in ran.err) == bool(warnings)
    assert node["version_after"] > node["version_before"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("arguments", "environ", "engine", "reason"),
    [
        (["--engine", "local"], {"SPARK_REMOTE": "sc://h"}, "local", "requested"),
        ([], {"DELTACTL_ENGINE": "local"}, "local", "requested"),
        (["--engine", "auto"], {"DELTACTL_ENGINE": "local"}, "local", "input below 1 GiB"),
        (["--engine", "spark"], {}, "spark", "requested"),
        (["--master", "local[2]"], {}, "spark", "--master local[2]"),
        ([], {"DELTACTL_MASTER": "yarn"}, "spark", "--master yarn"),
        (["--spark-remote", "local"], {"DELTACTL_MASTER": "yarn"}, "spark", "--spark-remote"),
        (["--spark-threshold", "1B"], {}, "spark", "reaches the threshold of 1 B"),
        ([], {"DELTACTL_SPARK_THRESHOLD": "1B"}, "spark", "reaches the threshold of 1 B"),
    ],
)
def test_a_dry_run_says_where(
    cli: RunCli,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    environ: dict[str, str],
    engine: str,
    reason: str,
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("deltactl.engine.spark.facts._CONNECT_MODULES", ())
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    ran = cli("optimize", "events", "--dry-run", "-o", "json", *arguments)
    node = ran.document
    assert node["engine"] == engine
    assert reason in node["engine_reason"]
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--master", "a", "--spark-remote", "b"], "give --master or --spark-remote, not both"),
        (["--engine", "local", "--master", "a"], "--master has no effect with --engine local"),
        (
            ["--engine", "local", "--spark-remote", "a"],
            "--spark-remote has no effect with --engine local",
        ),
        (["--spark-conf", "hush"], "--spark-conf: a key and a value are needed"),
    ],
)
def test_options_that_make_no_sense(
    cli: RunCli, table: Path, arguments: list[str], message: str
) -> None:
    ran = cli("optimize", "events", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "hush" not in ran.err


def test_variables_for_two_clusters(
    cli: RunCli, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTACTL_MASTER", "yarn")
    monkeypatch.setenv("DELTACTL_SPARK_REMOTE", "sc://h")
    ran = cli("optimize", "events")
    assert ran.code == 2
    assert "DELTACTL_MASTER and DELTACTL_SPARK_REMOTE are both set" in ran.err


def test_a_dry_run_repeats_no_secret(cli: RunCli, table: Path) -> None:
    ran = cli(
        *("optimize", "events", "--dry-run", "--engine", "spark"),
        *("--spark-conf", "spark.hadoop.fs.s3a.secret.key=hush", "--spark-conf=a=hush"),
        *("--storage-option=key=hush", "--spark-remote", "sc://host/;token=hush"),
    )
    assert "hush" not in ran.out + ran.err
    command = ran.out.splitlines()[-1].strip()
    assert "--spark-conf spark.hadoop.fs.s3a.secret.key=... --spark-conf=a=..." in command
    assert "--storage-option=key=... --spark-remote" in command


def test_commands_without_tasks_know_no_engine(cli: RunCli, table: Path) -> None:
    ran = cli("describe-detail", "events", "--engine", "spark")
    assert ran.code == 2
    assert "--engine" not in cli("describe-detail", "--help-all").out
    helped = cli("optimize", "--help-all").out
    for option in ("--engine", "--spark-threshold", "--master", "--spark-remote", "--spark-conf"):
        assert option in helped


@pytest.mark.spark
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # PySpark leaves a pipe
def test_java_that_does_not_start(
    cli: RunCli, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_session: None
) -> None:
    """What it says on its way out reaches the user, and stdout stays clean."""
    if shutil.which("bash") is None:
        pytest.fail("Spark's own scripts need bash")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        "#!/bin/sh\necho noise\necho 'Error: UnsupportedClassVersionError: old' >&2\nexit 1\n"
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    ran = cli("optimize", "events", "--engine", "spark")
    assert (ran.code, ran.out) == (9, "")
    assert "UnsupportedClassVersionError" in ran.err
    assert "Java is 17 or newer" in ran.err
    ran = cli("optimize", "events", "--spark-threshold", "1B", "-o", "json")
    assert ran.code == 0
    assert ran.document["engine_reason"].startswith("Spark cannot run: Spark (local[*,4])")
