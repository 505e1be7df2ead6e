"""Tables written by hand: every byte of the log comes from here, none from the code under test.

Five axes: the shape of the log (`SHAPES`), features (`FEATURES`), layout (`LAYOUTS`), properties,
and the version looked at. A builder remembers all actions and all rows, so that it can also say
what a table holds: `state` replays actions with dictionaries, `rows` gives the live rows.
"""

from __future__ import annotations

import copy
import datetime as dt
import io
import json
import math
import struct
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from deltactl.storage.store import Store
from tests.support.stores import MemoryStore

Action = dict[str, Any]
Row = dict[str, Any]
Key = tuple[str, str | None]

START_MS = 1_700_000_000_000
LOG = "_delta_log"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

_ARROW = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


@dataclass(frozen=True)
class Column:
    """A column as `schemaString` has it; `type` is Delta's JSON, column mapping is added later."""

    name: str
    type: Any = "long"
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def physical(self) -> str:
        return str(self.metadata.get("delta.columnMapping.physicalName", self.name))

    @property
    def field_id(self) -> int | None:
        return self.metadata.get("delta.columnMapping.id")

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "nullable": self.nullable,
            "metadata": dict(self.metadata),
        }

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> Column:
        return cls(node["name"], node["type"], node["nullable"], node.get("metadata", {}))


def struct_of(*columns: Column) -> dict[str, Any]:
    return {"type": "struct", "fields": [column.to_json() for column in columns]}


def array_of(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def members(type_: Any) -> list[Column]:
    return [Column.of(node) for node in type_["fields"]]


def arrow_of(type_: Any) -> pa.DataType:
    """The Arrow type that files have: physical names, field ids."""
    if isinstance(type_, str):
        if type_.startswith("decimal"):
            precision, scale = type_[8:-1].split(",")
            return pa.decimal128(int(precision), int(scale))
        return _ARROW[type_]
    if type_["type"] == "struct":
        return pa.struct([field_of(member) for member in members(type_)])
    if type_["type"] == "array":
        return pa.list_(pa.field("element", arrow_of(type_["elementType"])))
    return pa.map_(arrow_of(type_["keyType"]), arrow_of(type_["valueType"]))


def field_of(column: Column) -> pa.Field:
    metadata = None if column.field_id is None else {"PARQUET:field_id": str(column.field_id)}
    return pa.field(column.physical, arrow_of(column.type), True, metadata)


def to_physical(value: Any, type_: Any) -> Any:
    """A value with logical member names as files have it."""
    if value is None or isinstance(type_, str):
        return value
    if type_["type"] == "struct":
        return {m.physical: to_physical(value.get(m.name), m.type) for m in members(type_)}
    if type_["type"] == "array":
        return [to_physical(item, type_["elementType"]) for item in value]
    pairs = value.items() if isinstance(value, dict) else value
    return [
        (to_physical(k, type_["keyType"]), to_physical(v, type_["valueType"])) for k, v in pairs
    ]


def to_logical(value: Any, type_: Any) -> Any:
    """A stored value under the names and types of a later schema; missing members are null."""
    if value is None:
        return None
    if isinstance(type_, str):
        return _widen(value, type_)
    if type_["type"] == "struct":
        return {m.name: to_logical(value.get(m.physical), m.type) for m in members(type_)}
    if type_["type"] == "array":
        return [to_logical(item, type_["elementType"]) for item in value]
    return [(to_logical(k, type_["keyType"]), to_logical(v, type_["valueType"])) for k, v in value]


def _widen(value: Any, type_: str) -> Any:
    if type_ == "double":
        return float(value)
    if type_ == "float":
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if type_.startswith("decimal"):
        return Decimal(value)
    if type_ == "timestamp_ntz" and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    return value


def canonical(value: Any) -> Any:
    """A value that can be hashed; NaN equals NaN, -0.0 is not 0.0, null is not zero."""
    match value:
        case float():
            return ("float", "nan" if math.isnan(value) else value.hex())
        case bool() | None | str() | bytes():
            return (type(value).__name__, value)
        case Decimal():
            return ("number", str(value.normalize()))
        case dict():
            return tuple((name, canonical(member)) for name, member in sorted(value.items()))
        case list() | tuple():
            return tuple(canonical(item) for item in value)
        case dt.datetime():
            return ("time", value.replace(tzinfo=None).isoformat())
        case _:
            return (type(value).__name__, value)


def multiset(rows: Iterable[Row]) -> Counter[Any]:
    return Counter(canonical(row) for row in rows)


def z85(data: bytes) -> str:
    text = ""
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        text += "".join(_Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def from_z85(text: str) -> bytes:
    data = b""
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            number = number * 85 + _Z85.index(character)
        data += number.to_bytes(4, "big")
    return data


def bitmap_bytes(positions: Iterable[int]) -> bytes:
    return struct.pack("<I", 1681511377) + BitMap64(sorted(positions)).serialize()


def dv_id(vector: Mapping[str, Any] | None) -> str | None:
    if vector is None:
        return None
    offset = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


@dataclass
class State:
    """A version, by the naive rules: one dictionary a kind of action."""

    version: int = -1
    protocol: Action | None = None
    metadata: Action | None = None
    files: dict[Key, Action] = field(default_factory=dict)
    tombstones: dict[Key, Action] = field(default_factory=dict)
    txns: dict[str, Action] = field(default_factory=dict)
    domains: dict[str, Action] = field(default_factory=dict)

    def apply(self, actions: Iterable[Action]) -> None:
        self.version += 1
        for action in actions:
            ((name, body),) = action.items()
            match name:
                case "protocol":
                    self.protocol = body
                case "metaData":
                    self.metadata = body
                case "txn":
                    self.txns[body["appId"]] = body
                case "domainMetadata" if body.get("removed"):
                    self.domains.pop(body["domain"], None)
                case "domainMetadata":
                    self.domains[body["domain"]] = body
                case "add":
                    key = body["path"], dv_id(body.get("deletionVector"))
                    self.tombstones.pop(key, None)
                    self.files[key] = body
                case "remove":
                    key = body["path"], dv_id(body.get("deletionVector"))
                    self.files.pop(key, None)
                    self.tombstones[key] = body

    @property
    def columns(self) -> list[Column]:
        assert self.metadata is not None
        return members(json.loads(self.metadata["schemaString"]))


@dataclass
class Stored:
    """What a data file holds, by physical name, and which columns it was written with."""

    rows: list[Row]
    row_ids: list[tuple[int, int]] | None = None


class TableBuilder:
    """Writes a table version by version into a store."""

    def __init__(
        self,
        store: Store,
        columns: Sequence[Column],
        *,
        partition_by: Sequence[str] = (),
        mapping: str = "none",
        features: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        domains: Mapping[str, str] | None = None,
        created_ms: int = START_MS,
    ) -> None:
        self.store = store
        self.commits: list[list[Action]] = []
        self.data: dict[str, Stored] = {}
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
            for position, stored in enumerate(self.data[add["path"]].rows):
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
        found: dict[Any, tuple[int, int]] = {}
        for add in self.state.files.values():
            deleted, stored = self._deleted(add), self.data[add["path"]]
            for position, row in enumerate(stored.rows):
                if position not in deleted:
                    ids = (add["baseRowId"] + position, add["defaultRowCommitVersion"])
                    found[canonical(row)] = stored.row_ids[position] if stored.row_ids else ids
        return found

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
        self.data[encoded] = Stored(
            [dict(zip(schema.names, (r[n] for n in schema.names), strict=True)) for r in physical]
        )
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
        return {
            "remove": {
                **body,
                "deletionTimestamp": self._now_ms,
                "dataChange": data_change,
                "extendedFileMetadata": True,
            }
        }

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
            identifier = uuid.UUID(
                int=0xABCDEF << 64 | zlib.crc32(f"{path}{sorted(gone)}".encode())
            )
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
        if kind == "classic":
            self.store.put(f"{base}.parquet", checkpoint_parquet([*heads, *files]))
        elif kind == "multipart":
            everything = [*heads, *files]
            for part in range(parts):
                name = f"{base}.{part + 1:010d}.{parts:010d}.parquet"
                self.store.put(name, checkpoint_parquet(everything[part::parts]))
        elif kind == "v2-inline":
            self.store.put(f"{base}.{identifier}.json", encode_lines([marker, *heads, *files]))
        else:
            sidecars = []
            for part in range(parts):
                name = (
                    f"{version:020d}.checkpoint.{part + 1:010d}.{parts:010d}.{identifier}.parquet"
                )
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
        self.store.put(
            f"{LOG}/_last_checkpoint", json.dumps({"version": version, "size": 1}).encode()
        )

    def forget_commits(self, before: int) -> None:
        """Delete the commits below a version, as log cleanup does."""
        self.store.delete_many([commit_path(version) for version in range(before)])


READER_FEATURES = frozenset(
    {
        "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "v2Checkpoint",
        "vacuumProtocolCheck", "variantType", "catalogManaged", "notYetInvented",
    }
)  # fmt: skip


def commit_path(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def encode_lines(actions: Iterable[Action]) -> bytes:
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


def _pad(data: bytes, size: int) -> bytes:
    """A Parquet file with so many idle bytes before its footer: sizes without rows."""
    footer = struct.unpack("<I", data[-8:-4])[0] + 8
    return data[:-footer] + bytes(size) + data[-footer:]


def format_partition(value: Any) -> str | None:
    match value:
        case None | "":
            return None
        case bool():
            return "true" if value else "false"
        case dt.datetime() if value.tzinfo:
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case dt.datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S.%f")
        case _:
            return str(value)


def parse_partition(text: str | None, type_: str) -> Any:
    if text is None or text == "":
        return None
    if type_ in ("long", "integer", "short", "byte"):
        return int(text)
    if type_ in ("double", "float"):
        return float(text)
    if type_ == "boolean":
        return text == "true"
    if type_ == "date":
        return dt.date.fromisoformat(text)
    if type_.startswith("timestamp"):
        return dt.datetime.fromisoformat(text)
    if type_.startswith("decimal"):
        return Decimal(text)
    return text


_MAP = pa.map_(pa.string(), pa.string())


def _struct(text: str, **types: pa.DataType) -> pa.StructType:
    """The type of a struct with these members, each a name and an alias of Arrow or of ours."""
    pairs = (member.split() for member in text.split(", "))
    known = {"map": _MAP, "texts": pa.list_(pa.string()), **types}
    return pa.struct(
        [(name, known.get(alias) or pa.type_for_alias(alias)) for name, alias in pairs]
    )


_VECTOR = _struct(
    "storageType string, pathOrInlineDv string, offset int32, sizeInBytes int32, "
    "cardinality int64, maxRowIndex int64"
)
CHECKPOINT_SCHEMA = pa.schema(
    {
        "txn": _struct("appId string, version int64, lastUpdated int64"),
        "add": _struct(
            "path string, partitionValues map, size int64, modificationTime int64, "
            "dataChange bool, tags map, deletionVector vector, baseRowId int64, "
            "defaultRowCommitVersion int64, clusteringProvider string, stats string",
            vector=_VECTOR,
        ),
        "remove": _struct(
            "path string, deletionTimestamp int64, dataChange bool, extendedFileMetadata bool, "
            "partitionValues map, size int64, deletionVector vector, baseRowId int64, "
            "defaultRowCommitVersion int64",
            vector=_VECTOR,
        ),
        "metaData": _struct(
            "id string, name string, description string, format format, schemaString string, "
            "partitionColumns texts, configuration map, createdTime int64",
            format=_struct("provider string, options map"),
        ),
        "protocol": _struct(
            "minReaderVersion int32, minWriterVersion int32, readerFeatures texts, "
            "writerFeatures texts"
        ),
        "domainMetadata": _struct("domain string, configuration string, removed bool"),
        "checkpointMetadata": _struct("version int64, tags map"),
        "sidecar": _struct("path string, sizeInBytes int64, modificationTime int64, tags map"),
    }
)


def checkpoint_parquet(actions: Sequence[Action], columns: Sequence[str] = ()) -> bytes:
    """Actions as Parquet, one action a row."""
    names = columns or CHECKPOINT_SCHEMA.names
    schema = pa.schema([CHECKPOINT_SCHEMA.field(name) for name in names])
    rows = [{name: body and _pairs(body) for name, body in action.items()} for action in actions]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink)
    return sink.getvalue()


def _pairs(body: Action) -> Action:
    """Maps as lists of pairs, as Arrow wants them."""
    maps = ("partitionValues", "tags", "configuration", "options")
    return {
        key: list(value.items())
        if key in maps and isinstance(value, dict)
        else (_pairs(value) if isinstance(value, dict) else value)
        for key, value in body.items()
    }


# -- axes ------------------------------------------------------------------------------------

Shape = Callable[[TableBuilder], None]


def _half(builder: TableBuilder) -> int:
    return builder.version // 2


def _compacted(builder: TableBuilder) -> None:
    last = builder.version
    builder.compact(1, last // 2)
    builder.compact(last // 2 + 1, last)


def _misleading_hint(builder: TableBuilder) -> None:
    builder.checkpoint(_half(builder))
    builder.hint(builder.version + 7)


def _forgotten(builder: TableBuilder) -> None:
    builder.checkpoint(_half(builder))
    builder.forget_commits(_half(builder))
    builder.hint(_half(builder))


def _with_tail_compacted(builder: TableBuilder) -> None:
    builder.checkpoint(1)
    builder.compact(2, builder.version)


SHAPES: dict[str, Shape] = {
    "commits": lambda builder: None,
    "classic": lambda b: b.checkpoint(_half(b)),
    "classic-at-end": lambda b: b.checkpoint(),
    "multipart": lambda b: b.checkpoint(_half(b), "multipart", 3),
    "v2-json": lambda b: b.checkpoint(_half(b), "v2-json"),
    "v2-parquet": lambda b: b.checkpoint(_half(b), "v2-parquet"),
    "v2-inline": lambda b: b.checkpoint(_half(b), "v2-inline"),
    "v2-classic": lambda b: b.checkpoint(_half(b), "v2-classic"),
    "compacted": _compacted,
    "checkpoint-and-compacted": _with_tail_compacted,
    "misleading-hint": _misleading_hint,
    "cleaned-up": _forgotten,
}

FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "deletion-vectors": {"features": ["deletionVectors"]},
    "mapped-by-name": {"mapping": "name"},
    "mapped-by-id": {"mapping": "id", "features": ["deletionVectors"]},
    "row-tracking": {"features": ["rowTracking", "deletionVectors"]},
    "in-commit-timestamps": {"features": ["inCommitTimestamp"]},
    "type-widening": {"features": ["typeWidening"]},
    "v2-checkpoint": {"features": ["v2Checkpoint"]},
}

LAYOUTS: dict[str, tuple[str, ...]] = {
    "unpartitioned": (),
    "partitioned": ("p",),
    "partitioned-twice": ("p", "d"),
}

COLUMNS = (
    Column("id", "long"),
    Column("name", "string"),
    Column("x", "double"),
    Column("p", "string"),
    Column("d", "date"),
    Column("s", struct_of(Column("a", "integer"), Column("b", array_of("string")))),
    Column("m", map_of("string", "long")),
)
_PARTITIONS = ("a", None, "x/y =%", "ü ")


def sample_row(number: int, p: str | None = "a", day: int = 1) -> Row:
    """A row of `COLUMNS`; nulls come and go."""
    return {
        "id": number,
        "name": None if number % 5 == 0 else f"name {number}",
        "x": (None, math.nan, -0.0, number / 3)[number % 4],
        "p": p,
        "d": dt.date(2024, 1, day),
        "s": None if number % 7 == 0 else {"a": number, "b": [None, "b"][: number % 3]},
        "m": None if number % 6 == 0 else [(f"k{i}", i or None) for i in range(number % 4)],
    }


def build_sample(
    store: Store,
    *,
    shape: str = "commits",
    features: str = "plain",
    layout: str = "unpartitioned",
    properties: Mapping[str, str] | None = None,
) -> TableBuilder:
    """A small table of a dozen files with what the axes say, in nine versions or more."""
    key = features, layout, tuple(sorted((properties or {}).items()))
    if key not in _built:
        template = MemoryStore(f"memory://templates/{len(_built)}")
        _built[key] = _build_commits(template, features, layout, properties)
    builder = _built[key].copy_to(store)
    SHAPES[shape](builder)
    return builder


_built: dict[tuple[Any, ...], TableBuilder] = {}


def _build_commits(
    store: Store, features: str, layout: str, properties: Mapping[str, str] | None
) -> TableBuilder:
    options = FEATURES[features]
    builder = TableBuilder(
        store, COLUMNS, partition_by=LAYOUTS[layout], properties=properties, **options
    )
    paths: list[str] = []
    for batch in range(4):
        files = []
        for index, p in enumerate(_PARTITIONS[: 3 if batch % 2 else 4]):
            first = 100 * batch + 10 * index
            files.append([sample_row(first + i, p, 1 + index % 2) for i in range(8)])
        paths += builder.append(*files)
    if "deletionVectors" in options.get("features", ()):
        for path, kind in zip(paths, "upiu", strict=False):
            builder.delete_rows(path, [0, 3], kind)
        builder.delete_rows(paths[1], [5], "i")
    builder.remove(paths[4])
    columns = [*builder.columns, Column("added", "string")]
    if features == "type-widening":
        changes = {"delta.typeChanges": [{"fromType": "long", "toType": "decimal(20,0)"}]}
        columns[0] = replace(columns[0], type="decimal(20,0)", metadata=changes)
    if options.get("mapping"):
        columns = [replace(c, name="renamed") if c.name == "name" else c for c in columns]
        columns = [c for c in columns if c.name != "x"]
    builder.change_metadata(columns=columns)
    for index, p in enumerate(_PARTITIONS):
        row = {**sample_row(1000 + index, p), "added": "new", "renamed": "r"}
        builder.append([row, {**row, "id": 2000 + index, "added": None}])
    return builder
