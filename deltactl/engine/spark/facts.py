"""Find a configured cluster, and missing requirements of Spark, without starting Spark."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from deltactl.engine.choose import SparkFacts

INSTALL_JAVA = (
    "Install Java 17 or newer (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`) or set "
    "JAVA_HOME, or rerun with --engine local."
)
INSTALL_PYSPARK = "Run `pip install 'deltactl[spark]'`, or rerun with --engine local."
INSTALL_CONNECT = "Run `pip install 'deltactl[connect]'`, or rerun with --engine local."

_CONNECT_MODULES = ("grpc", "grpc_status", "google.rpc", "zstandard")


def load_spark_facts(
    environ: Mapping[str, str], *, master: str | None = None, remote: str | None = None
) -> SparkFacts:
    """Read options, environment variables and configuration files, in this order."""
    return SparkFacts(
        cluster=_find_cluster(environ, master, remote),
        missing=find_missing(environ, remote or environ.get("SPARK_REMOTE")),
    )


def find_missing(environ: Mapping[str, str], remote: str | None) -> str | None:
    """Return the missing requirement of a session, or ``None``.

    This is a package, or Java if no server provides Java.
    """
    for module in ("pyspark", "pandas"):
        if not _has_module(module):
            return f"the Python package {module} is not installed"
    if remote is not None:
        for module in _CONNECT_MODULES:
            if not _has_module(module):
                return f"Spark Connect needs the Python package {module}, which is not installed"
        if remote.startswith("sc://"):
            return None
    return None if has_java(environ) or is_submitted(environ) else "there is no Java"


def remedy_for(missing: str) -> str:
    """Return the remedy for the requirement that ``find_missing`` returned."""
    if "Java" in missing:
        return INSTALL_JAVA
    return INSTALL_CONNECT if "Connect" in missing else INSTALL_PYSPARK


def has_java(environ: Mapping[str, str]) -> bool:
    """Return whether Java is found, in the same way as in the scripts of Spark."""
    home = environ.get("JAVA_HOME")
    if home:
        return os.access(Path(home, "bin", "java"), os.X_OK)
    return shutil.which("java", path=environ.get("PATH")) is not None


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Return whether spark-submit started this process; then its Java waits for the process."""
    return "PYSPARK_GATEWAY_PORT" in environ


def _has_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _find_cluster(environ: Mapping[str, str], master: str | None, remote: str | None) -> str | None:
    if master is not None:
        return f"--master {master}"
    if remote is not None:
        return "--spark-remote"  # without the address, which may contain a token
    if environ.get("SPARK_REMOTE"):
        return "SPARK_REMOTE is set"
    if is_submitted(environ):
        return "started by spark-submit"
    for name in ("spark.master", "MASTER"):
        if environ.get(name):
            return f"{name} is set"
    if _master_of_arguments(environ.get("PYSPARK_SUBMIT_ARGS", "")):
        return "PYSPARK_SUBMIT_ARGS has a master"
    defaults = find_defaults(environ, "spark.master")
    return f"{defaults} has a master" if defaults else None


def _master_of_arguments(text: str) -> bool:
    try:
        words = shlex.split(text)
    except ValueError:
        return False
    return any(
        word == "--master" or word.startswith(("--master=", "spark.master=")) for word in words
    )


def find_defaults(environ: Mapping[str, str], setting: str) -> Path | None:
    """Return the configuration file of Spark if it has a setting."""
    directory = environ.get("SPARK_CONF_DIR") or (
        f"{environ['SPARK_HOME']}/conf" if environ.get("SPARK_HOME") else None
    )
    if directory is None:
        return None
    defaults = Path(directory, "spark-defaults.conf")
    try:
        lines = defaults.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    named = any(line.replace("=", " ").split()[:1] == [setting] for line in lines)
    return defaults if named else None
