"""Tables written by hand: every byte of the log comes from here, none from the code under test.

A builder remembers all actions and all rows, so that it can also say what a table holds: `state`
replays actions with dictionaries, `rows` gives the live rows.
"""

from __future__ import annotations

import copy
import io
import json
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from tests.support.table_checkpoints import CHECKPOINT_SCHEMA, checkpoint_parquet
from tests.support.table_values import (
    Action,
    Column,
    Row,
    State,
    array_of,
    bitmap_bytes,
    canonical,
    dv_id,
    field_of,
    format_partition,
    from_z85,
    map_of,
    members,
    multiset,
    parse_partition,
    struct_of,
    to_logical,
    to_physical,
    z85,
)

__all__ = [
    "Action", "CHECKPOINT_SCHEMA", "Column", "LOG", "Row", "START_MS", "State", "TableBuilder",
    "array_of", "bitmap_bytes", "canonical", "checkpoint_parquet",
    "commit_path", "dv_id", "encode_lines", "from_z85", "map_of", "multiset", "struct_of", "z85",
]  # fmt: skip

START_MS = 1_700_000_000_000
LOG = "_delta_log"


class TableBuilder:
    """Writes a table version by version into a store, or a folder."""

    def __init__(
        self,
        store: Store | Path,
        columns: Sequence[Column],
        *,
        partition_by: Sequence[str] = (),
        mapping: str = "none",
        features: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        domains: Mapping[str, str] | None = None,
        created_ms: int = START_MS,
    ) -> None:
        self.store = LocalStore(str(store)) if isinstance(store, Path) else store
        self.commits: list[list[Action]] = []
        self.data: dict[str, list[Row]] = {}  # rows by physical name
        self.deleted: dict[str, frozenset[int]] = {}
        self.state = State()
        self._next_id = 1
        self._names = 0
        self._now_ms = START_MS
        self._next_row_id = 0
        self.mapping = mapping
        self.partition_by = tuple(partition_by)
        self.features = frozenset(features)
        if mapping != "none":
            columns = [self._map(column) for column in columns]
        configuration = dict(properties or {})
        if mapping != "none":
            configuration["delta.columnMapping.mode"] = mapping
            configuration["delta.columnMapping.maxColumnId"] = str(self._next_id - 1)
        if "rowTracking" in self.features:
            configuration |= {
                "delta.enableRowTracking": "true",
                "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
                "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version-col-1",
            }
        if "inCommitTimestamp" in self.features:
            configuration["delta.enableInCommitTimestamps"] = "true"
        self.commit(
            self.protocol_action(self.features, mapping),
            {
                "metaData": {
                    "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps(struct_of(*columns)),
                    "partitionColumns": list(partition_by),
                    "configuration": configuration,
                    "createdTime": created_ms,
                }
            },
            *(
                {"domainMetadata": {"domain": name, "configuration": text, "removed": False}}
                for name, text in (domains or {}).items()
            ),
            operation="CREATE TABLE",
        )

    @staticmethod
    def protocol_action(features: Iterable[str], mapping: str = "none") -> Action:
        names = set(features)
        if mapping != "none":
            names.add("columnMapping")
        if "rowTracking" in names or "clustering" in names:
            names.add("domainMetadata")
        if not names:
            return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
        readers = sorted(names & READER_FEATURES)
        return {
            "protocol": {
                "minReaderVersion": 3 if readers else 1,
                "minWriterVersion": 7,
                **({"readerFeatures": readers} if readers else {}),
                "writerFeatures": sorted(names),
            }
        }

    def copy_to(self, store: Store) -> TableBuilder:
        """The same table in another store; both may go on from here.

        Deletion vectors named by absolute path stay where they are.
        """
        for batch in self.store.walk():
            for name in batch:
                store.put(name, self.store.read(name))
        twin = copy.copy(self)
        twin.store = store
        twin.commits, twin.state = list(self.commits), copy.deepcopy(self.state)
        twin.data, twin.deleted = dict(self.data), dict(self.deleted)
        return twin

    # -- what a table holds ------------------------------------------------------------------

    @property
    def version(self) -> int:
        return self.state.version

    @property
    def columns(self) -> list[Column]:
        return self.state.columns

    def state_at(self, version: int | None = None) -> State:
        state = State()
        for actions in self.commits[: None if version is None else version + 1]:
            state.apply(actions)
        return state

    def rows(self, version: int | None = None) -> list[Row]:
        """The live rows of a version, under its schema."""
        state = self.state_at(version)
        assert state.metadata is not None
        partitions = set(state.metadata["partitionColumns"])
        found = []
        for add in state.files.values():
            deleted = self._deleted(add)
            values = add["partitionValues"]
            for position, stored in enumerate(self.data[add["path"]]):
                if position in deleted:
                    continue
                found.append(
                    {
                        column.name: parse_partition(values.get(column.physical), column.type)
                        if column.name in partitions
                        else to_logical(stored.get(column.physical), column.type)
                        for column in state.columns
                    }
                )
        return found

    def row_ids(self) -> dict[Any, tuple[int, int]]:
        """Row id and commit version of each live row, by the row; rows must be distinct."""
        return {
            canonical(row): (add["baseRowId"] + position, add["defaultRowCommitVersion"])
            for add in self.state.files.values()
            for position, row in enumerate(self.data[add["path"]])
            if position not in self._deleted(add)
        }

    def _deleted(self, add: Action) -> frozenset[int]:
        vector = add.get("deletionVector")
        return frozenset() if vector is None else self.deleted[dv_id(vector) or ""]

    # -- commits -----------------------------------------------------------------------------

    def commit(self, *actions: Action, operation: str = "WRITE", **info: Any) -> int:
        """Write the next version."""
        version = len(self.commits)
        self._now_ms += 1000
        commit_info: Action = {"timestamp": self._now_ms, "operation": operation, **info}
        if "inCommitTimestamp" in self.features:
            commit_info = {"inCommitTimestamp": self._now_ms, **commit_info}
        ordered = [{"commitInfo": commit_info}, *actions]
        ids = [a["add"] for a in actions if "baseRowId" in a.get("add", {})]
        if ids:
            mark = json.dumps({"rowIdHighWaterMark": self._next_row_id - 1})
            body = {"domain": "delta.rowTracking", "configuration": mark, "removed": False}
            ordered.append({"domainMetadata": body})
        self.store.put_if_absent(commit_path(version), encode_lines(ordered))
        self.note(ordered)
        return version

    def note(self, actions: Sequence[Action]) -> None:
        """Take over a commit that somebody wrote."""
        self.commits.append(list(actions))
        self.state.apply(actions)

    def append(self, *files: Sequence[Row], operation: str = "WRITE", **options: Any) -> list[str]:
        """One commit with so many new files; rows of one file share their partition."""
        adds = [self.write_file(rows, **options) for rows in files]
        self.commit(*adds, operation=operation)
        return [add["add"]["path"] for add in adds]

    def write_file(
        self,
        rows: Sequence[Row],
        *,
        codec: str = "snappy",
        row_group_rows: int = 1 << 20,
        name: str | None = None,
        stats: str | None = "",
        pad: int = 0,
        modified_ms: int | None = None,
        tags: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> Action:
        """Write a data file, and give its add. `pad` makes it so many bytes larger."""
        self._names += 1
        partition = {
            c.physical: format_partition(rows[0][c.name] if rows else None)
            for c in self.columns
            if c.name in self.partition_by
        }
        stored = [c for c in self.columns if c.name not in self.partition_by]
        physical = [
            {c.physical: to_physical(row.get(c.name), c.type) for c in stored} for row in rows
        ]
        folder = "".join(
            f"{name}={quote(value or '__HIVE_DEFAULT_PARTITION__', safe=' ')}/"
            for name, value in partition.items()
            if self.mapping == "none"
        )
        path = f"{folder}{name or f'f{self._names:05d}.parquet'}"
        schema = pa.schema([field_of(column) for column in stored])
        sink = io.BytesIO()
        pq.write_table(
            pa.Table.from_pylist(physical, schema),
            sink,
            compression=codec,
            row_group_size=row_group_rows,
        )
        data = sink.getvalue()
        if pad:
            data = _pad(data, pad)
        self.store.put(path, data)
        encoded = quote(path, safe="/=!$&'()*+,;:@~")
        self.data[encoded] = physical
        self._now_ms += 1
        add: Action = {
            "path": encoded,
            "partitionValues": partition,
            "size": len(data),
            "modificationTime": self._now_ms if modified_ms is None else modified_ms,
            "dataChange": True,
        }
        if stats is not None:
            add["stats"] = stats or json.dumps({"numRecords": len(rows)})
        if tags:
            add["tags"] = dict(tags)
        if "rowTracking" in self.features:
            add["baseRowId"] = self._next_row_id
            add["defaultRowCommitVersion"] = len(self.commits)
            self._next_row_id += len(rows)
        return {"add": {**add, **extra}}

    def adopt(self, name: str, **members: Any) -> Action:
        """The add of a file that somebody else wrote; ``members`` replace its own."""
        (info,) = self.store.stat_many([name])
        assert info is not None
        facts = {"path": name, "partitionValues": {}, "size": info.size_bytes}
        return {"add": {**facts, "modificationTime": START_MS, "dataChange": True, **members}}

    def remove(self, *paths: str, data_change: bool = True) -> int:
        removes = [self.remove_action(path, data_change) for path in paths]
        return self.commit(*removes, operation="DELETE")

    def remove_action(self, path: str, data_change: bool = True) -> Action:
        add = self.find(path)
        kept = ("path", "partitionValues", "size", "tags", "deletionVector", "baseRowId")
        body = {key: add[key] for key in (*kept, "defaultRowCommitVersion") if key in add}
        facts = {"deletionTimestamp": self._now_ms, "dataChange": data_change}
        return {"remove": {**body, **facts, "extendedFileMetadata": True}}

    def find(self, path: str) -> Action:
        """The live add of a path."""
        (add,) = (add for (live, _), add in self.state.files.items() if live == path)
        return add

    def delete_rows(self, path: str, positions: Iterable[int], kind: str = "u") -> int:
        return self.commit(*self.delete_actions(path, positions, kind), operation="DELETE")

    def delete_actions(self, path: str, positions: Iterable[int], kind: str = "u") -> list[Action]:
        """Mark rows of a file as deleted, on top of those that are."""
        add = self.find(path)
        gone = frozenset(positions) | self._deleted(add)
        payload = bitmap_bytes(gone)
        vector: Action = {
            "storageType": kind,
            "sizeInBytes": len(payload),
            "cardinality": len(gone),
        }
        if kind == "i":
            vector["pathOrInlineDv"] = z85(payload + bytes(-len(payload) % 4))
        else:
            digest = zlib.crc32(f"{path}{sorted(gone)}".encode())
            identifier = uuid.UUID(int=0xABCDEF << 64 | digest)
            name = f"deletion_vector_{identifier}.bin"
            framed = struct.pack(">i", len(payload)) + payload
            self.store.put(name, b"\1" + framed + struct.pack(">I", zlib.crc32(payload)))
            vector["offset"] = 1
            vector["pathOrInlineDv"] = (
                z85(identifier.bytes) if kind == "u" else f"{self.store.uri}/{name}"
            )
        self.deleted[dv_id(vector) or ""] = gone
        renewed = {**add, "deletionVector": vector, "dataChange": True}
        if "stats" in add:
            renewed["stats"] = json.dumps({**json.loads(add["stats"]), "tightBounds": False})
        return [self.remove_action(path), {"add": renewed}]

    def change_metadata(self, *, protocol: Action | None = None, **changes: Any) -> int:
        return self.commit(
            *([protocol] if protocol else []),
            self.metadata_action(**changes),
            operation="SET TBLPROPERTIES",
        )

    def metadata_action(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        columns: Sequence[Column] | None = None,
        **changes: Any,
    ) -> Action:
        body = copy.deepcopy(self.state.metadata)
        assert body is not None
        body["configuration"] |= properties or {}
        if columns is not None:
            if self.mapping != "none":
                columns = [c if c.field_id else self._map(c) for c in columns]
                body["configuration"]["delta.columnMapping.maxColumnId"] = str(self._next_id - 1)
            body["schemaString"] = json.dumps(struct_of(*columns))
        return {"metaData": {**body, **changes}}

    def _map(self, column: Column) -> Column:
        """A column with id and physical name, and so its members."""
        number, self._next_id = self._next_id, self._next_id + 1
        metadata = {
            **column.metadata,
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": f"col-{number:04d}",
        }
        return replace(column, type=self._map_type(column.type), metadata=metadata)

    def _map_type(self, type_: Any) -> Any:
        if isinstance(type_, str):
            return type_
        if type_["type"] == "struct":
            return struct_of(*(self._map(member) for member in members(type_)))
        inner = ("elementType",) if type_["type"] == "array" else ("keyType", "valueType")
        return {**type_, **{name: self._map_type(type_[name]) for name in inner}}

    # -- checkpoints -------------------------------------------------------------------------

    def checkpoint(
        self, version: int | None = None, kind: str = "classic", parts: int = 2, *, mixed: int = 0
    ) -> None:
        """Write a checkpoint: classic, multipart, v2-json, v2-parquet, v2-inline or v2-classic.

        ``mixed`` is how many file actions lie beside the sidecars, against the rules.
        """
        version = self.version if version is None else version
        state = self.state_at(version)
        files = [
            *({"add": {**add, "dataChange": False}} for add in state.files.values()),
            *({"remove": {**r, "dataChange": False}} for r in state.tombstones.values()),
        ]
        heads: list[Action] = [
            {"protocol": state.protocol},
            {"metaData": state.metadata},
            *({"txn": txn} for txn in state.txns.values()),
            *({"domainMetadata": domain} for domain in state.domains.values()),
        ]
        base = f"{LOG}/{version:020d}.checkpoint"
        identifier = uuid.UUID(int=version + 1, version=4)
        marker = {"checkpointMetadata": {"version": version, "tags": {}}}
        everything = [*heads, *files]
        if kind == "classic":
            self.store.put(f"{base}.parquet", checkpoint_parquet(everything))
        elif kind == "multipart":
            for part in range(parts):
                name = f"{base}.{part + 1:010d}.{parts:010d}.parquet"
                self.store.put(name, checkpoint_parquet(everything[part::parts]))
        elif kind == "v2-inline":
            self.store.put(f"{base}.{identifier}.json", encode_lines([marker, *everything]))
        else:
            sidecars = []
            for part in range(parts):
                place = f"{part + 1:010d}.{parts:010d}.{identifier}"
                name = f"{version:020d}.checkpoint.{place}.parquet"
                data = checkpoint_parquet(files[mixed + part :: parts], ("add", "remove"))
                self.store.put(f"{LOG}/_sidecars/{name}", data)
                body = {"path": name, "sizeInBytes": len(data), "modificationTime": START_MS}
                sidecars.append({"sidecar": {**body, "tags": {}}})
            top = [marker, *heads, *sidecars, *files[:mixed]]
            if kind == "v2-json":
                self.store.put(f"{base}.{identifier}.json", encode_lines(top))
            elif kind == "v2-parquet":
                self.store.put(f"{base}.{identifier}.parquet", checkpoint_parquet(top))
            elif kind == "v2-classic":
                self.store.put(f"{base}.parquet", checkpoint_parquet(top))
            else:
                raise ValueError(kind)

    def compact(self, first: int, last: int) -> None:
        """Write `first.last.compacted.json`: what the commits say, reconciled."""
        state = State()
        removed: dict[str, Action] = {}
        for actions in self.commits[first : last + 1]:
            state.apply(actions)
            for action in actions:
                if (body := action.get("domainMetadata")) is not None:
                    removed.pop(body["domain"], None)
                    if body.get("removed"):
                        removed[body["domain"]] = body
        actions = [
            *([{"protocol": state.protocol}] if state.protocol else []),
            *([{"metaData": state.metadata}] if state.metadata else []),
            *({"txn": txn} for txn in state.txns.values()),
            *({"domainMetadata": d} for d in [*state.domains.values(), *removed.values()]),
            *({"add": add} for add in state.files.values()),
            *({"remove": remove} for remove in state.tombstones.values()),
        ]
        # A range of bare commitInfos has no reconciled actions, and needs no compacted file.
        if actions:
            self.store.put(f"{LOG}/{first:020d}.{last:020d}.compacted.json", encode_lines(actions))

    def hint(self, version: int) -> None:
        data = json.dumps({"version": version, "size": 1})
        self.store.put(f"{LOG}/_last_checkpoint", data.encode())

    def forget_commits(self, before: int) -> None:
        """Delete the commits below a version, as log cleanup does."""
        self.store.delete_many([commit_path(version) for version in range(before)])


READER_FEATURES = frozenset({
    "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview",
    "v2Checkpoint", "vacuumProtocolCheck", "variantType", "variantShredding", "catalogManaged",
    "notYetInvented", "geospatial", "geospatial-dev", "timestampNanos",
})  # fmt: skip


def commit_path(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def encode_lines(actions: Iterable[Action]) -> bytes:
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


def _pad(data: bytes, size: int) -> bytes:
    """A Parquet file with so many idle bytes before its footer: sizes without rows."""
    footer = struct.unpack("<I", data[-8:-4])[0] + 8
    return data[:-footer] + bytes(size) + data[-footer:]
