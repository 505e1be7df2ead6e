"""The rule of ``auto``, and the facts it looks at."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from deltactl.engine.choose import EngineName, SparkFacts, choose_engine
from deltactl.engine.spark.facts import (
    INSTALL_CONNECT,
    INSTALL_JAVA,
    INSTALL_PYSPARK,
    find_missing,
    load_spark_facts,
    remedy_for,
)

GIB = 1 << 30
NOWHERE = {"PATH": "/nonexistent"}


@pytest.mark.parametrize(
    ("wish", "facts", "size", "name", "reason"),
    [
        ("local", SparkFacts("--master yarn"), 9 * GIB, "local", "requested"),
        ("spark", SparkFacts(), 0, "spark", "requested"),
        ("spark", SparkFacts("--master yarn", "no Java"), 0, "spark", "requested, --master yarn"),
        ("auto", SparkFacts(), GIB - 1, "local", "input below 1 GiB, no cluster configured"),
        ("auto", SparkFacts(), GIB, "spark", "input of 1 GiB reaches the threshold of 1 GiB"),
        ("auto", SparkFacts("started by spark-submit"), 0, "spark", "started by spark-submit"),
        ("auto", SparkFacts(None, "no Java"), 0, "local",
            "input below 1 GiB, no cluster configured"),
        ("auto", SparkFacts(None, "no Java"), GIB, "local", "Spark cannot run: no Java"),
        ("auto", SparkFacts("--master yarn", "no Java"), 0, "local", "Spark cannot run: no Java"),
    ],
)  # fmt: skip
def test_the_engine_is_chosen_by_wish_size_and_what_can_run(
    wish: str, facts: SparkFacts, size: int, name: str, reason: str
) -> None:
    choice = choose_engine(EngineName(wish), facts, size, GIB)
    assert (choice.name, choice.reason) == (name, reason)
    fell_back = reason.startswith("Spark cannot run")
    assert (choice.warning is not None) is fell_back
    assert not fell_back or "no Java" in (choice.warning or "")


@pytest.mark.parametrize(
    ("environ", "cluster"),
    [
        ({}, None),
        ({"SPARK_REMOTE": "sc://user:token@host"}, "SPARK_REMOTE is set"),
        ({"PYSPARK_GATEWAY_PORT": "1"}, "started by spark-submit"),
        ({"spark.master": "yarn"}, "spark.master is set"),
        ({"MASTER": "yarn"}, "MASTER is set"),
        (
            {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"},
            "PYSPARK_SUBMIT_ARGS has a master",
        ),
        (
            {"PYSPARK_SUBMIT_ARGS": "--conf spark.master=yarn pyspark-shell"},
            "PYSPARK_SUBMIT_ARGS has a master",
        ),
        ({"PYSPARK_SUBMIT_ARGS": "--conf a=b 'torn"}, None),
        ({"SPARK_HOME": "/nonexistent"}, None),
    ],
)
def test_what_names_a_cluster(environ: Mapping[str, str], cluster: str | None) -> None:
    assert load_spark_facts(environ).cluster == cluster


def test_a_flag_names_a_cluster_before_the_environment() -> None:
    environ = {"SPARK_REMOTE": "sc://host"}
    assert load_spark_facts(environ, master="yarn").cluster == "--master yarn"
    assert load_spark_facts({}, remote="sc://h/;token=secret").cluster == "--spark-remote"


def test_a_file_of_defaults_names_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text("# spark.master local\nspark.master.rest.enabled  true\n")
    assert load_spark_facts({"SPARK_CONF_DIR": str(tmp_path)}).cluster is None
    file.write_text("spark.ui.enabled false\nspark.master=spark://h:7077\n")
    found = load_spark_facts({"SPARK_CONF_DIR": str(tmp_path)}).cluster
    assert found == f"{file} has a master"


@pytest.mark.pyspark
def test_java_is_looked_for_as_spark_does(tmp_path: Path) -> None:
    assert find_missing(NOWHERE, None) == "there is no Java"
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    assert find_missing({"PATH": str(java.parent)}, None) is None
    assert find_missing({**NOWHERE, "JAVA_HOME": str(tmp_path)}, None) is None
    assert find_missing({"PATH": str(java.parent), "JAVA_HOME": "/nonexistent"}, None)
    assert find_missing({**NOWHERE, "PYSPARK_GATEWAY_PORT": "1"}, None) is None


@pytest.mark.pyspark
def test_a_server_has_java_for_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltactl.engine.spark.facts._CONNECT_MODULES", ("json",))
    assert find_missing(NOWHERE, "sc://host") is None
    assert find_missing(NOWHERE, "local[2]") == "there is no Java"
    monkeypatch.setattr("deltactl.engine.spark.facts._CONNECT_MODULES", ("no.such",))
    missing = find_missing(NOWHERE, "sc://host")
    assert missing is not None
    assert "no.such" in missing
    assert remedy_for(missing) == INSTALL_CONNECT


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    missing = find_missing(NOWHERE, None)
    assert missing == "the Python package pyspark is not installed"
    assert remedy_for(missing) == INSTALL_PYSPARK
    assert remedy_for("there is no Java") == INSTALL_JAVA
