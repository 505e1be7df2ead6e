"""List the versions of the program and its libraries, for ``--version -v`` and bug reports."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from deltactl.engine.spark.facts import find_missing

_LIBRARIES: Final = (
    "pyarrow",
    "numpy",
    "fsspec",
    "s3fs",
    "botocore",
    "gcsfs",
    "adlfs",
    "pyroaring",
    "sqlglot",
    "typer",
    "rich",
    "pyspark",
    "pandas",
)


def describe_versions(environ: Mapping[str, str]) -> Iterator[str]:
    """Return one line each for Python, the engines and the libraries, without importing them."""
    yield f"python     {platform.python_version()} on {platform.platform()}"
    yield "engine     local: always available"
    missing = find_missing(environ, environ.get("SPARK_REMOTE"))
    yield f"engine     spark: {'available' if missing is None else f'unavailable: {missing}'}"
    for name in _LIBRARIES:
        yield f"{name:<10} {_installed(name)}"


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
