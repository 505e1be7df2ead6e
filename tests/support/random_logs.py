"""Random logs, and the model of dictionaries that a snapshot of them has to equal."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from hypothesis import strategies as st

from deltactl.log.snapshot import Snapshot
from tests.support.stores import fresh_store
from tests.support.table_builder import Action, Column, State, TableBuilder, dv_id

_PATHS = ("a.parquet", "b%20c.parquet", "p=%C3%BC/d.parquet", "p=%2525/e.parquet", "f+g.parquet")
KINDS = ("classic", "multipart", "v2-json", "v2-parquet", "v2-inline", "v2-classic")
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
def _adds(draw: st.DrawFn, path: str, style: str) -> Action:
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
    return add


@st.composite
def _file_actions(draw: st.DrawFn, state: State, path: str, style: str) -> list[Action]:
    """What one commit may say about one path: at most one add and one remove."""
    live = [add for (name, _), add in state.files.items() if name == path]
    add = draw(_adds(path, style))
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
def logs(draw: st.DrawFn, properties: Mapping[str, str] | None = None) -> TableBuilder:
    """A log of up to a dozen commits; nothing but commits yet."""
    store = fresh_store()
    columns = [Column("id"), Column("p", "string")]
    builder = TableBuilder(
        store, columns, partition_by=["p"], features=["deletionVectors"], properties=properties
    )
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
