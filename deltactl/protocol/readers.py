"""Which engines can read a table: a table of facts, one row an engine.

To correct a fact, change the row, its version and its source. What no source says is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from deltactl.errors import CorruptLogError
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.features import REGISTRY, list_features
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.schema import is_void, leaf_types

_MEASURED: Final = "measured: a table with each feature was read"
_ROWS_OF_FABRIC: Final = (
    "https://learn.microsoft.com/en-us/fabric/get-started/delta-lake-interoperability"
)


@dataclass(frozen=True, slots=True)
class Engine:
    """A row: the reader features that an engine supports (``reads``) and does not (``refuses``).

    ``knows_all``: the source says that it supports no other features. ``misreads``: what it does
    not support in tables whose features it supports. ``via_iceberg``: it reads Iceberg metadata.
    """

    name: str
    version: str
    source: str
    reads: frozenset[str]
    refuses: frozenset[str] = frozenset()
    knows_all: bool = False
    misreads: frozenset[str] = frozenset()
    via_iceberg: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an engine can read a table: ``yes``, ``no`` or ``unknown``, and what stops it."""

    engine: str
    version: str
    answer: str
    reasons: tuple[str, ...]
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "engine": self.engine,
            "version": self.version,
            "answer": self.answer,
            "reasons": list(self.reasons),
            "source": self.source,
        }


_BY_ID: Final = "columnMapping by id"
_MAPPED_PARTITIONS: Final = "columnMapping of the data column before a partition column"
_VOID: Final = "columns of type void"
_COMMON: Final = frozenset({"columnMapping", "deletionVectors"})
_KERNEL: Final = _COMMON | {"timestampNtz", "v2Checkpoint", "variantType", "variantType-preview"}
_WIDENING: Final = frozenset({"typeWidening", "typeWidening-preview"})
_SPARK_3: Final = _COMMON | {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}

ENGINES: Final = (
    Engine(
        "Delta on Spark 3.x",
        "3.3",
        "https://docs.delta.io/3.2.1/versioning.html, "
        "https://docs.delta.io/3.3.0/delta-drop-feature.html",
        _SPARK_3 | {"typeWidening-preview"},
    ),
    Engine(
        "Delta on Spark 4.x",
        "4.4",
        _MEASURED,
        _SPARK_3 | _KERNEL | _WIDENING | {"variantShredding-preview"},
        refuses=frozenset(
            {
                "catalogOwned-preview",
                "redirectReaderWriter-preview",
                "timestampNanos",
                "timestampWithoutTimezone",
            }
        ),
    ),
    Engine(
        "delta-rs",
        "1.6, with SQL",
        _MEASURED,
        _KERNEL | {"timestampWithoutTimezone"},
        knows_all=True,
    ),
    # It refuses columnMapping as a reader feature only, and misreads it in an older protocol.
    Engine(
        "delta-rs datasets",
        "1.6, to_pandas",
        _MEASURED,
        frozenset(
            {"timestampNtz", "timestampWithoutTimezone", "variantType", "variantType-preview"}
        ),
        knows_all=True,
    ),
    Engine(
        "DuckDB",
        "1.5",
        _MEASURED,
        _KERNEL | _WIDENING | {"vacuumProtocolCheck", "variantShredding-preview"},
        knows_all=True,
        misreads=frozenset({_MAPPED_PARTITIONS, _VOID}),
    ),
    Engine(
        "Trino",
        "documentation",
        "https://github.com/trinodb/trino/blob/00eb4ff2febed6362a2e2448d6b6ab2e4ee7aeaa/"
        "docs/src/main/sphinx/connector/delta-lake.md",
        _SPARK_3 | {"typeWidening"},
        knows_all=True,
    ),
    Engine(
        "Athena",
        "engine version 3",
        "https://docs.amazonaws.cn/en_us/athena/latest/ug/delta-lake-tables.html",
        frozenset({"columnMapping", "timestampNtz"}),
    ),
    Engine(
        "Fabric",
        "SQL analytics endpoint",
        _ROWS_OF_FABRIC,
        _COMMON,
        refuses=frozenset({"timestampNtz"}),
        misreads=frozenset({_BY_ID}),
    ),
    Engine(
        "Snowflake",
        "2026-03",
        "https://docs.snowflake.com/en/release-notes/2026/other/"
        "2026-03-02-iceberg-delta-deletion-vectors",
        frozenset({"deletionVectors"}),
    ),
    Engine("BigQuery", "BigLake", "https://docs.delta.io/bigquery-integration", _COMMON),
    Engine("Power BI", "Direct Lake", _ROWS_OF_FABRIC, frozenset()),
    Engine(
        "Flink",
        "connector 3.0",
        "https://github.com/delta-io/delta/issues/2254, "
        "https://github.com/delta-io/delta/issues/2874",
        frozenset(),
        knows_all=True,
    ),
    Engine(
        "Iceberg clients",
        "UniForm",
        "PROTOCOL.md, Iceberg Compatibility V1 and V2",
        frozenset(),
        via_iceberg=True,
    ),
)


def judge_readers(protocol: Protocol, metadata: Metadata) -> list[Verdict]:
    """Return whether each engine can read a table."""
    needed = _needed(protocol)
    return [_judge(engine, needed, metadata) for engine in ENGINES]


def _needed(protocol: Protocol) -> frozenset[str]:
    """Return the features that a reader must support."""
    implied = {
        name for name in list_features(protocol) if name in REGISTRY and REGISTRY[name].reader
    }
    return (protocol.reader_features or frozenset()) | implied


def _judge(engine: Engine, needed: frozenset[str], metadata: Metadata) -> Verdict:
    if engine.via_iceberg:
        return _judge_iceberg(engine, metadata)
    others = needed - engine.reads
    stops = others if engine.knows_all else others & engine.refuses
    reasons = [*sorted(stops), *sorted(engine.misreads & set(_traits(needed - stops, metadata)))]
    answer = "no" if reasons else "unknown" if others else "yes"
    return _answer(engine, answer, reasons or sorted(others))


def _traits(needed: frozenset[str], metadata: Metadata) -> Iterator[str]:
    """Yield what no feature says of a table, but some engines do not support."""
    is_mapped = "columnMapping" in needed
    if is_mapped and metadata.column_mapping_mode == "id":
        yield _BY_ID
    with suppress(CorruptLogError):  # no engine reads such a schema; `check` says why
        if is_mapped and _follows_mapped(metadata):
            yield _MAPPED_PARTITIONS
        if any(map(is_void, leaf_types(metadata.schema))):
            yield _VOID


def _follows_mapped(metadata: Metadata) -> bool:
    """Return whether a partition column follows a data column whose physical name differs.

    DuckDB reads such a partition column as null. Only the last data column before it counts.
    """
    is_renamed = False
    for field in metadata.schema.fields:
        if field.name not in metadata.partition_columns:
            is_renamed = field.physical_name != field.name
        elif is_renamed:
            return True
    return False


def _judge_iceberg(engine: Engine, metadata: Metadata) -> Verdict:
    formats = TableProperties(metadata.configuration).uniform_formats
    if "iceberg" in formats:
        return _answer(engine, "yes", [])
    return _answer(engine, "no", ["the table has no Iceberg metadata"])


def _answer(engine: Engine, answer: str, reasons: list[str]) -> Verdict:
    return Verdict(engine.name, engine.version, answer, tuple(reasons), engine.source)
