"""Describe a table, and its manifests, as a catalog should."""

from __future__ import annotations

import json
import re
from typing import Final

from deltactl.catalog.base import Column, Partitions, TableAddress
from deltactl.catalog.kinds import KINDS, CatalogKind
from deltactl.catalog.names import TableName
from deltactl.errors import SafetyError, UnsupportedFeatureError, UsageError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.manifest.ddl import partition_values
from deltactl.operations.manifest.engine_types import catalog_types, engine_type
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.place import find_schemes, render_command
from deltactl.operations.manifest.plan import NEW, STALE
from deltactl.operations.manifest.run import generate_manifests
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.paths import HIVE_NULL
from deltactl.protocol.schema import (
    DeltaType,
    Field,
    StructType,
    encode_schema,
    is_void,
    render_type,
)
from deltactl.storage.names import is_local_uri
from deltactl.units import format_count

# For Spark and Trino, for Athena, and for what crawlers make.
_MARKS: Final = {
    "spark.sql.sources.provider": "delta",
    "table_type": "DELTA",
    "classification": "delta",
}
_EXTERNAL: Final = {"EXTERNAL": "TRUE"}
_MEMBER: Final = re.compile(r"[A-Za-z0-9_.]+")


def describe_table(
    snapshot: Snapshot, name: TableName, catalog: str, *, is_symlink: bool
) -> TableAddress:
    """Return what the catalog with a title should say.

    Raises:
        UsageError: the catalog has no symlink tables.
        UnsupportedFeatureError: it lacks a type, or its engines cannot read where the table is.
    """
    kind, metadata = KINDS[name.scheme], snapshot.metadata
    if is_symlink and not kind.is_like_hive:
        raise UsageError(
            f"{kind.title} has no tables of manifests", hint=f"Omit {option('manifest', True)}."
        )
    if kind.is_of_cloud and is_local_uri(snapshot.store.uri):
        raise UnsupportedFeatureError(
            f"engines that use {kind.title} cannot read a table on this machine: "
            f"{snapshot.store.uri}",
            hint="Copy the table to S3, and register the copy; or use a Hive metastore.",
        )
    # Athena and Unity Catalog do not know s3a; Hadoop needs it.
    location = snapshot.store.engine_uri.rstrip("/")
    if name.scheme != "hive":
        location = re.sub(r"^s3[an]://", "s3://", location)
    fields = [each for each in metadata.schema.fields if not is_void(each.type)]
    marks = {} if is_symlink else _MARKS
    return TableAddress(
        str(name),
        catalog,
        None,
        "EXTERNAL_TABLE" if kind.is_like_hive else "EXTERNAL",
        "DELTA",
        location,
        columns=tuple(_describe_column(each, kind) for each in fields),
        partition_columns=tuple(
            each.name.lower() for each in (metadata.partition_fields if is_symlink else ())
        ),
        comment=metadata.description or "",
        properties={**marks, **_EXTERNAL} if kind.is_like_hive else {},
        is_symlink=is_symlink,
    )


def _describe_column(column: Field, kind: CatalogKind) -> Column:
    comment = str(column.metadata.get("comment") or "")
    [encoded] = json.loads(encode_schema(StructType((column,))))["fields"]
    return Column(
        column.name.lower() if kind.is_like_hive else column.name,
        engine_type(column.type, column.name, catalog_types(kind), _member, _no_type),
        kind.cut_comment(comment),
        json.dumps(encoded["type"]),
        column.nullable,
    )


def _member(name: str, column: str) -> str:
    if not _MEMBER.fullmatch(name):
        raise UnsupportedFeatureError(
            f"a type in a catalog cannot have a member with the name {name!r}, as in column "
            f"{column!r}",
            hint="Add the table to the catalog manually, without this column.",
        )
    return name


def _no_type(column: str, kind: DeltaType) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"column {column!r} has a type that the catalog does not have: {render_type(kind)}",
        hint="Add the table to the catalog manually, without this column.",
    )


def list_partitions(
    log: DeltaLog, snapshot: Snapshot, wanted: TableAddress, context: RunContext
) -> tuple[Partitions, SafetyError | None]:
    """Return the directories of the live partitions, and the error if some have no manifests.

    Raises:
        DeltactlError: see ``generate_manifests``.
    """
    schemes = find_schemes(log) or {}
    report = generate_manifests(log, ManifestOptions(schemes=schemes), context, dry_run=True)
    plan, fields = report.plan, snapshot.metadata.partition_fields
    command = f"Run {render_command('TABLE', schemes)}, then rerun."
    refusal = None
    if missing := plan.count(NEW):
        count = format_count(missing, "manifest does", "manifests do")
        refusal = SafetyError(f"{count} not exist: engines would find no rows", hint=command)
    elif not plan.is_empty:
        context.warn(f"the manifests are not up to date. {command}")
    found: dict[tuple[str, ...], str] = {}
    for partition in plan.partitions if fields else ():
        values = partition_values(partition.folder, fields)
        if partition.state != STALE and values is not None:
            found[tuple(value or HIVE_NULL for value in values)] = (
                f"{wanted.place}/{partition.folder}"
            )
    return found, refusal
