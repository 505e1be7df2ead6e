"""Delta on Spark, with the tables of a Unity Catalog by their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.java_jars import compile_jar
from tests.support.maven import Artifact, ensure_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VERSION: Final = "0.6.0"
_ARTIFACTS: Final = tuple(
    Artifact("io.unitycatalog", name, _VERSION)
    for name in ("unitycatalog-client", "unitycatalog-hadoop")
)
_SOURCE: Final = Path(__file__).with_name("UCSingleCatalog.java")


def find_unity_jars(delta_jars: Sequence[Path]) -> list[Path]:
    """Return the jars that a session needs beside those of Delta.

    Raises:
        UnreachableError: they cannot be fetched, or there is no Java compiler.
    """
    found = ensure_jars(f"unitycatalog-{_VERSION}", _ARTIFACTS)
    return [*found, compile_jar(_SOURCE, [*delta_jars, *found])]


def with_catalog(spark: SparkSession, catalog: str, address: str) -> SparkSession:
    """Return a session of the same Spark that finds the tables of a catalog at an address."""
    session = spark.newSession()
    key = f"spark.sql.catalog.{catalog}"
    session.conf.set(key, "io.unitycatalog.spark.UCSingleCatalog")
    session.conf.set(f"{key}.uri", address)
    session.conf.set(f"{key}.token", "not-checked")
    return session
