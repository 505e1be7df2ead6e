"""Replay against a model of dictionaries, on random logs in every shape."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltactl.log.commit_json import CommitParser, LogFile
from deltactl.log.snapshot import Snapshot, load_snapshot
from tests.support.stores import CountingStore, MemoryStore
from tests.support.table_builder import (
    LOG,
    Action,
    Column,
    State,
    TableBuilder,
    commit_path,
    dv_id,
    encode_lines,
)

_NUMBERS = itertools.count()
_PATHS = ("a.parquet", "b%20c.parquet", "p=%C3%BC/d.parquet", "p=%2525/e.parquet", "f+g.parquet")
_KINDS = ("classic", "multipart", "v2-json", "v2-parquet", "v2-inline", "v2-classic")
_FIELDS = {
    "size": "size_bytes",
    "stats": "stats",
    "baseRowId": "base_row_id",
    "defaultRowCommitVersion": "default_row_commit_version",
    "modificationTime": "modification_time_ms",
    "clusteringProvider": "clustering_provider",
    "deletionTimestamp": "deletion_timestamp_ms",
}
_OF_ADDS = {"modificationTime", "clusteringProvider"}
# What a checkpoint need not carry of a tombstone.
_NOT_IN_CHECKPOINTS = {"stats", "tags"}

_VECTORS: list[Action] = [
    {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1},
    {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 43},
    {"storageType": "p", "pathOrInlineDv": "file:///x/dv%20.bin"},
    {"storageType": "i", "pathOrInlineDv": "wi5b="},
]
_vectors = st.sampled_from(_VECTORS).map(lambda v: {**v, "sizeInBytes": 40, "cardinality": 2})


@st.composite
def _file_actions(draw: st.DrawFn, state: State, path: str, style: str) -> list[Action]:
    """What one commit may say about one path: at most one add and one remove."""
    live = [add for (name, _), add in state.files.items() if name == path]
    values = {"p": draw(st.sampled_from([None, "x", "y z", ""]))}
    add: Action = {
        "path": path,
        "partitionValues": values,
        "size": draw(st.integers(0, 2**53 + 1)),
        "modificationTime": draw(st.integers(0, 10**13)),
        "dataChange": True,
    }
    # Logs by one writer have the same members in each line, which readers make use of.
    if style != "mixed" or draw(st.booleans()):
        add["stats"] = json.dumps({"numRecords": draw(st.integers(0, 9))})
    if style == "mixed" and draw(st.booleans()):
        add |= {"baseRowId": draw(st.integers(0, 2**62)), "defaultRowCommitVersion": 3}
    if style == "tagged":
        add["tags"] = {"T": draw(st.sampled_from(["1", "é"])), "a.b": "x"}
    elif style == "mixed" and draw(st.sampled_from([True, False, False, False])):
        add["tags"] = {"T": draw(st.sampled_from(["1", None, "é"]))}
    if style == "mixed" and draw(st.booleans()):
        add["clusteringProvider"] = "liquid"
    if not live:
        if draw(st.booleans()):
            add["deletionVector"] = draw(_vectors)
        return [{"add": add}]
    old = live[0]
    remove: Action = {
        "path": path,
        "deletionTimestamp": draw(st.integers(0, 10**13)),
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": old["partitionValues"],
        "size": old["size"],
    }
    if "deletionVector" in old:
        remove["deletionVector"] = old["deletionVector"]
    match draw(st.sampled_from(["remove", "vector", "again"])):
        case "remove":
            return [{"remove": remove}]
        case "again":
            vector = {"deletionVector": old["deletionVector"]} if "deletionVector" in old else {}
            return [{"add": {**add, **vector, "dataChange": False}}]
        case _:
            vector = draw(_vectors)
            if dv_id(vector) == dv_id(old.get("deletionVector")):
                return []
            both: list[Action] = [{"remove": remove}, {"add": {**add, "deletionVector": vector}}]
            return both if draw(st.booleans()) else both[::-1]


@st.composite
def _other_actions(draw: st.DrawFn, builder: TableBuilder) -> list[Action]:
    found: list[Action] = []
    for app in draw(st.sets(st.sampled_from(["app", 'a"b', "ü"]), max_size=2)):
        body: Action = {"appId": app, "version": draw(st.integers(0, 99))}
        if draw(st.booleans()):
            body["lastUpdated"] = draw(st.integers(0, 10**13))
        found.append({"txn": body})
    for domain in draw(st.sets(st.sampled_from(["delta.x", "y"]), max_size=2)):
        body = {"domain": domain, "configuration": draw(st.sampled_from(["{}", '{"a":"\\n"}']))}
        found.append({"domainMetadata": {**body, "removed": draw(st.booleans())}})
    if draw(st.sampled_from([True, False, False])):
        found.append(builder.metadata_action(properties={"k": draw(st.text(max_size=4))}))
    if draw(st.sampled_from([True, False, False])):
        features = draw(st.sets(st.sampled_from(["deletionVectors", "v2Checkpoint", "other"])))
        found.append(builder.protocol_action(features))
    return found


@st.composite
def logs(draw: st.DrawFn) -> TableBuilder:
    """A log of up to a dozen commits; nothing but commits yet."""
    store = MemoryStore(f"memory://replay/{next(_NUMBERS)}")
    columns = [Column("id"), Column("p", "string")]
    builder = TableBuilder(store, columns, partition_by=["p"], features=["deletionVectors"])
    style = draw(st.sampled_from(["mixed", "tagged", "bare"]))
    for _ in range(draw(st.integers(0, 11))):
        actions = draw(_other_actions(builder))
        for path in sorted(draw(st.sets(st.sampled_from(_PATHS), max_size=4))):
            actions += draw(_file_actions(builder.state, path, style))
        builder.commit(*draw(st.permutations(actions)))
    return builder


def assert_equals_model(snapshot: Snapshot, state: State, *, checkpointed: bool) -> None:
    assert snapshot.version == state.version
    assert _as_dict(snapshot.files) == {
        (unquote(path), vector): _fields(add) for (path, vector), add in state.files.items()
    }
    assert snapshot.num_files == len(state.files)
    assert snapshot.size_bytes == sum(add["size"] for add in state.files.values())
    batches = list(snapshot.tombstone_batches())
    left_out = _NOT_IN_CHECKPOINTS if checkpointed else set()
    tombstones = _as_dict(pa.concat_tables(batches)) if batches else {}
    assert {k: _without(v, left_out) for k, v in tombstones.items()} == {
        (unquote(path), vector): _without(_fields(remove), left_out)
        for (path, vector), remove in state.tombstones.items()
    }
    assert {name: (t.version, t.last_updated_ms) for name, t in snapshot.txns.items()} == {
        name: (txn["version"], txn.get("lastUpdated")) for name, txn in state.txns.items()
    }
    assert {name: d.configuration for name, d in snapshot.domains.items()} == {
        name: domain["configuration"] for name, domain in state.domains.items()
    }
    assert state.protocol is not None
    assert state.metadata is not None
    writer = state.protocol.get("writerFeatures")
    assert snapshot.protocol.writer_features == (None if writer is None else frozenset(writer))
    assert snapshot.protocol.min_reader_version == state.protocol["minReaderVersion"]
    assert dict(snapshot.metadata.configuration) == state.metadata["configuration"]


def _as_dict(files: pa.Table) -> dict[tuple[str, str | None], Mapping[str, Any]]:
    found: dict[tuple[str, str | None], Mapping[str, Any]] = {}
    for row in files.to_pylist():
        vector = row["deletion_vector"]
        if vector is not None:
            offset = "" if vector["offset"] is None else f"@{vector['offset']}"
            vector = f"{vector['storage_type']}{vector['path_or_inline_dv']}{offset}"
        fields = {ours: row[ours] for ours in _FIELDS.values() if ours in row}
        partition = dict(row["partition_values"] or ()).get("p")
        tags = dict(row["tags"]) if row["tags"] else None
        key = row["path"], vector
        assert key not in found
        assert row["encoded_path"] in (key[0], *_PATHS)
        found[key] = {**fields, "p": partition, "tags": tags}
    return found


def _fields(action: Action) -> dict[str, Any]:
    alone = {"deletionTimestamp"} if "modificationTime" in action else _OF_ADDS
    fields = {ours: action.get(name) for name, ours in _FIELDS.items() if name not in alone}
    return {**fields, "p": action["partitionValues"].get("p"), "tags": action.get("tags")}


def _without(fields: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _check_replay(data: st.DataObject) -> None:
    builder = data.draw(logs())
    checkpointed = data.draw(st.booleans())
    if checkpointed:
        for version in data.draw(st.sets(st.integers(0, builder.version), max_size=2)):
            builder.checkpoint(version, data.draw(st.sampled_from(_KINDS)), parts=3)
    if builder.version >= 2 and data.draw(st.booleans()):
        for _ in range(data.draw(st.integers(1, 3))):
            first = data.draw(st.integers(0, builder.version - 1))
            builder.compact(first, data.draw(st.integers(first + 1, builder.version)))
    if data.draw(st.booleans()):
        builder.hint(data.draw(st.integers(0, builder.version + 2)))
    wanted = data.draw(st.none() | st.integers(0, builder.version))
    snapshot = load_snapshot(builder.store, wanted, warn=lambda message: None)
    assert_equals_model(snapshot, builder.state_at(wanted), checkpointed=checkpointed)


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_replay_equals_the_model(data: st.DataObject) -> None:
    _check_replay(data)


@pytest.mark.slow
@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_replay_equals_the_model_at_length(data: st.DataObject) -> None:
    _check_replay(data)


def _quirky(action: Action, quirk: str) -> bytes:
    """The same action in another valid spelling, such as takes the slow way through the parser."""
    ((name, body),) = action.items()
    plain = json.dumps(action)
    match quirk:
        case "fraction" if "size" in body and body["size"] < 2**50:
            plain = plain.replace(f'"size": {body["size"]}', f'"size": {body["size"]}.0')
        case "unknown field":
            plain = json.dumps({name: {**body, "neverHeardOf": {"x": [1, {"y": None}]}}})
        case "unknown action":
            plain += '\n{"neverHeardOf": {"path": "zzz", "size": "big"}}'
        case "blank line":
            plain += "\n\n  "
        case "windows":
            plain += "\r"
        case "null members":
            plain = json.dumps({**dict.fromkeys(("add", "remove", "txn")), **action})
        case "ascii":
            plain = json.dumps(action, ensure_ascii=False)
        case "spaces":
            plain = f"  {json.dumps(action, indent=None, separators=(' , ', ' : '))} "
        case "order":
            plain = json.dumps({name: dict(reversed(body.items()))})
        case "duplicate" if "size" in body:
            plain = plain.replace('"size"', '"size": 7, "size"')
    return plain.encode() + b"\n"


_QUIRKS = (
    "fraction",
    "unknown field",
    "unknown action",
    "blank line",
    "windows",
    "null members",
    "ascii",
    "spaces",
    "order",
    "duplicate",
    "none",
)


def _check_spelling(data: st.DataObject) -> None:
    builder = data.draw(logs())
    for version, actions in enumerate(builder.commits):
        text = b"".join(
            _quirky(action, data.draw(st.sampled_from(_QUIRKS)))
            for action in actions
            if "commitInfo" not in action
        )
        text = text if data.draw(st.booleans()) else text.rstrip(b"\n")
        builder.store.put(commit_path(version), text or b'{"commitInfo":{}}')
    snapshot = load_snapshot(builder.store, warn=lambda message: None)
    assert_equals_model(snapshot, builder.state, checkpointed=False)


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_way_through_the_parser_changes_nothing(data: st.DataObject) -> None:
    _check_spelling(data)


@pytest.mark.slow
@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_way_through_the_parser_changes_nothing_at_length(data: st.DataObject) -> None:
    _check_spelling(data)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_parsing_in_any_number_of_calls_gives_the_same(data: st.DataObject) -> None:
    builder = data.draw(logs())
    files = [
        LogFile(commit_path(v), encode_lines(actions)) for v, actions in enumerate(builder.commits)
    ]
    cut = data.draw(st.integers(0, len(files)))
    parser = CommitParser()
    parts = [*parser.parse(files[:cut]), *parser.parse(files[cut:])]
    together = list(CommitParser().parse(files))
    for name in ("adds", "removes"):
        apart = pa.concat_tables([getattr(part, name) for part in parts])
        whole = pa.concat_tables([getattr(part, name) for part in together])
        assert apart.column("path").to_pylist() == whole.column("path").to_pylist()
        assert apart.column("stats").to_pylist() == whole.column("stats").to_pylist()


def test_each_file_of_the_log_is_read_once() -> None:
    """One listing; the hint, the checkpoint and each commit after it once."""
    store = MemoryStore(f"memory://replay/{next(_NUMBERS)}")
    builder = TableBuilder(store, [Column("id")])
    for number in range(6):
        builder.append([{"id": number}])
    builder.checkpoint(3)
    builder.hint(3)
    counting = CountingStore(store)
    snapshot = load_snapshot(counting, warn=lambda message: pytest.fail(message))
    assert counting.calls == {"list_from": 1, "read": 1, "read_many": 1, "open_input": 1}
    assert counting.names["read"] == [f"{LOG}/_last_checkpoint"]
    assert counting.names["read_many"] == [commit_path(v) for v in (4, 5, 6)]
    assert snapshot.num_files == 6
    assert counting.calls["open_input"] == 2
    assert snapshot.files.num_rows == 6
    assert counting.calls["open_input"] == 3
    assert counting.calls.total() == 6


def test_two_lines_in_one_are_not_silently_one() -> None:
    store = MemoryStore(f"memory://replay/{next(_NUMBERS)}")
    builder = TableBuilder(store, [Column("id")])
    text = store.read(commit_path(0)).replace(b"\n", b"", 1)
    store.put(commit_path(0), text)
    with pytest.raises(Exception, match="line 1"):
        load_snapshot(store, warn=lambda message: None)
    assert builder.version == 0
