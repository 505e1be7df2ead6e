"""Logs written by hand, a commit a dictionary of actions, with file times of our choice."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

START_MS = 1_700_000_000_000
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "p", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
)

Action = Mapping[str, Any]


def metadata(*partition_columns: str, **configuration: str) -> Action:
    properties = {key.replace("_", "."): value for key, value in configuration.items()}
    return {
        "metaData": {
            "id": "table-id",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": SCHEMA,
            "partitionColumns": list(partition_columns),
            "configuration": properties,
            "createdTime": START_MS,
        }
    }


def ict_properties(enabled: str = "true", version: int | None = None) -> dict[str, str]:
    properties = {"delta_enableInCommitTimestamps": enabled}
    if version is not None:
        properties["delta_inCommitTimestampEnablementVersion"] = str(version)
        properties["delta_inCommitTimestampEnablementTimestamp"] = str(START_MS)
    return properties


PROTOCOL: Action = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def info(operation: str = "WRITE", **fields: Any) -> Action:
    return {"commitInfo": {"timestamp": 1, "operation": operation, **fields}}


def add(path: str, size: int = 100, rows: int | None = 10, **fields: Any) -> Action:
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    action = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1}
    return {"add": {**action, "dataChange": True, **stats, **fields}}


def remove(path: str, size: int = 100, rows: int | None = None, **fields: Any) -> Action:
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    action = {"path": path, "deletionTimestamp": 1, "dataChange": True, "size": size}
    return {"remove": {**action, **stats, **fields}}


def log_path(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020d}.json"


def write_commit(
    root: Path, version: int, *actions: Action, ms: int | None = None, text: str | None = None
) -> Path:
    """Write one commit; by default each is a second after the one before."""
    path = log_path(root, version)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(action) + "\n" for action in actions) if text is None else text
    path.write_text(lines, "utf-8", errors="surrogatepass")
    set_time(path, START_MS + version * 1000 if ms is None else ms)
    return path


def set_time(path: Path, ms: int) -> None:
    os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))


def write_log(root: Path, commits: int, **properties: str) -> Path:
    """A table of so many commits, an append each."""
    write_commit(root, 0, info("CREATE TABLE"), PROTOCOL, metadata(**properties))
    for version in range(1, commits):
        write_commit(root, version, info(readVersion=version - 1), add(f"f{version}.parquet"))
    return root


def write_checkpoint(root: Path, version: int, actions: Sequence[Action] = ()) -> Path:
    """A V2 checkpoint in JSON: complete and readable, whatever else is gone."""
    name = f"{version:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    path = root / "_delta_log" / name
    lines = [{"checkpointMetadata": {"version": version}}, PROTOCOL, metadata(), *actions]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
