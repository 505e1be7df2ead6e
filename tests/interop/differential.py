"""What two OPTIMIZEs of the same table wrote, compared: ours and Spark's.

Both leave one file in a small partition, so their statistics and schemas compare.
"""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from deltactl.log.writing.commit_info import RUN_TAG

Action = dict[str, Any]


def read_commit(table: Path, version: int) -> list[tuple[str, Action]]:
    """The actions of a commit, by kind, in order."""
    text = (table / "_delta_log" / f"{version:020}.json").read_text("utf-8")
    return [next(iter(json.loads(line).items())) for line in text.splitlines()]


def latest_version(table: Path) -> int:
    """The newest version that has a commit file."""
    log = table / "_delta_log"
    return max(int(file.stem) for file in log.glob("*.json") if file.stem.isdigit())


def compare_commits(ours: Path, theirs: Path, version: int) -> Iterator[str]:
    """What is different, one text each, in the commits of the same version of two tables."""
    own, other = read_commit(ours, version), read_commit(theirs, version)
    yield from _compare_info(_only(own, "commitInfo"), _only(other, "commitInfo"))
    own_kinds, other_kinds = ({kind for kind, _ in commit} for commit in (own, other))
    if own_kinds != other_kinds:
        yield f"actions: ours {sorted(own_kinds)}, Spark's {sorted(other_kinds)}"
    yield from _compare_fields("remove", own, other)
    yield from _compare_fields("add", own, other)
    expected = _single_adds(other)
    for partition, add in _single_adds(own).items():
        if partition in expected:
            yield from _compare_adds(ours, add, theirs, expected[partition])


def _only(commit: list[tuple[str, Action]], kind: str) -> Action:
    return next(action for found, action in commit if found == kind)


def _compare_info(own: Action, other: Action) -> Iterator[str]:
    tags = {key: value for key, value in own.get("tags", {}).items() if key != RUN_TAG}
    own = {**own, "tags": tags or None}
    for name in ("operation", "isBlindAppend", "isolationLevel", "readVersion", "tags"):
        if own.get(name) != other.get(name):
            yield f"commitInfo.{name}: ours {own.get(name)!r}, Spark's {other.get(name)!r}"
    for name in ("operationParameters", "operationMetrics"):
        lacking = set(other.get(name, {})) - set(own.get(name, {}))
        if lacking:
            yield f"commitInfo.{name}: ours lacks {sorted(lacking)}"
    if ("inCommitTimestamp" in own) != ("inCommitTimestamp" in other):
        yield "commitInfo.inCommitTimestamp: only one has it"


def _compare_fields(
    kind: str, own: list[tuple[str, Action]], other: list[tuple[str, Action]]
) -> Iterator[str]:
    """Fields that Spark gives to every action of a kind, and ours lacks."""
    given = [set(action) for found, action in other if found == kind]
    lacking = set.intersection(*given) if given else set()
    for found, action in own:
        if found == kind and lacking - set(action):
            yield f"{kind}: ours lacks {sorted(lacking - set(action))}"
            return


def _single_adds(commit: list[tuple[str, Action]]) -> dict[str, Action]:
    """The adds that are the only ones of their partition."""
    found: dict[str, list[Action]] = {}
    for kind, action in commit:
        if kind == "add":
            found.setdefault(json.dumps(action["partitionValues"], sort_keys=True), []).append(
                action
            )
    return {key: adds[0] for key, adds in found.items() if len(adds) == 1}


def _compare_adds(ours: Path, own: Action, theirs: Path, other: Action) -> Iterator[str]:
    if own.get("dataChange") is not False:
        yield f"add: dataChange is {own.get('dataChange')!r}"
    own_stats, other_stats = _stats(own), _stats(other)
    if own_stats.get("numRecords") == other_stats.get("numRecords"):
        for name in sorted(own_stats.keys() | other_stats.keys()):
            values = own_stats.get(name), other_stats.get(name)
            if not _is_as_good(name, *values, other_stats):
                yield f"stats {name}: ours {values[0]!r}, Spark's {values[1]!r}"
    # Spark writes partition columns into data files, too: allowed, and not asked for.
    own_columns, other_columns = _columns(ours, own), _columns(theirs, other)
    if own_columns != other_columns:
        lacking = [c for c in other_columns if c not in own_columns]
        extra = [c for c in own_columns if c not in other_columns]
        yield f"Parquet columns: ours lacks {lacking}, has {extra}"
        if not lacking and not extra:
            yield f"Parquet columns: ours in order {own_columns}, Spark's {other_columns}"


def _stats(add: Action) -> dict[str, object]:
    """Statistics by dotted path, ``minValues.s.a`` for one."""
    text = add.get("stats") or "{}"
    return dict(_flatten("", json.loads(text, parse_float=Decimal, parse_int=Decimal)))


def _flatten(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flatten(f"{path}.{name}" if path else name, item)
    else:
        yield path, value


def _is_as_good(name: str, own: object, other: object, spark: Mapping[str, object]) -> bool:
    if own == other:
        return True
    kind, _, column = name.partition(".")
    if kind not in ("minValues", "maxValues"):
        return False
    if isinstance(own, bool) and other is None:
        return True  # as delta-rs writes them; see `list_leaves`
    if own is None:
        # Where there are NaNs we give no bounds at all, which no reader can get wrong.
        return "NaN" in (spark.get(f"minValues.{column}"), spark.get(f"maxValues.{column}"))
    # Spark cuts timestamps to milliseconds, ours keep all there is.
    texts = isinstance(own, str) and isinstance(other, str)
    cut = str(other).removesuffix("Z")
    return texts and len(cut) == len("2024-01-01T10:00:00.123") and str(own).startswith(cut)


def _columns(table: Path, add: Action) -> list[str]:
    """Leaves of a data file with what they are, then the field ids of its columns."""
    file = pq.ParquetFile(table / unquote(add["path"]))
    leaves = []
    for index in range(len(file.schema.names)):
        column = file.schema.column(index)
        # Spark writes INT96 unless told otherwise; we always write microseconds.
        stamp = column.physical_type == "INT96" or "Timestamp" in str(column.logical_type)
        kind = "timestamp" if stamp else f"{column.physical_type} {column.logical_type}"
        if column.path.split(".")[0] not in add["partitionValues"]:
            leaves.append(f"{column.path} {column.max_definition_level} {kind}")
    ids = {f.name: (f.metadata or {}).get(b"PARQUET:field_id") for f in file.schema_arrow}
    return leaves + [
        f"{n} has field id {i}" for n, i in ids.items() if n not in add["partitionValues"]
    ]
