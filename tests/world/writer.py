"""A plain writer of Delta tables, and of the files that producers land."""

from __future__ import annotations

import io
import json
import struct
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.table_builder import bitmap_bytes, z85
from tests.world.reader import LOG, Action, State, value_of
from tests.world.upkeep import write_checkpoint

if TYPE_CHECKING:
    from tests.world.world import World

VALUES = ("DE", "de", "fr")
TIMES = "delta.enableInCommitTimestamps"
WITH_MANIFESTS = "delta.compatibility.symlinkFormatManifest.enabled"
MANIFESTS = "_symlink_format_manifest"


@dataclass(frozen=True)
class Traits:
    """What a table is created with."""

    partitioned: bool
    vectors: bool
    properties: Mapping[str, str]


def encode_rows(ids: Sequence[int]) -> bytes:
    """A data file: ``id`` and a column that follows from it. As many ids, as many bytes."""
    columns = {"id": pa.array(ids, pa.int64()), "v": pa.array([value_of(n) for n in ids])}
    target = io.BytesIO()
    pq.write_table(pa.table(columns), target, use_dictionary=False, compression="none")
    return target.getvalue()


def properties_of(actions: Sequence[Action], properties: Mapping[str, str]) -> Mapping[str, str]:
    """The properties of a table after a commit; ``properties`` are those before."""
    for action in actions:
        properties = action.get("metaData", {}).get("configuration", properties)
    return properties


def folder_of(value: str | None) -> str:
    return "" if value is None else f"p={quote(value)}/"


class Writer:
    """Commits to one place at the time of the world, as one step: nobody sees a half of it."""

    def __init__(self, world: World, place: str, *, is_old: bool = False) -> None:
        """An old one writes no in-commit timestamps, and no manifests."""
        self._world, self.place, self._is_old = world, place, is_old
        self._space, self._ids = world.space, world.ids
        # Every other writer gives one name to the files of a task in all partitions, as Spark does.
        self._job = self._new_id() if world.ids.getrandbits(1) else ""
        self._tasks: Counter[str] = Counter()
        self.state = State()
        if world.reader.commits(place):
            self.state = world.reader.latest(place)

    def create(self, traits: Traits) -> None:
        """Version 0: a table without rows."""
        fields: list[Any] = [("id", "long"), ("v", "string")]
        fields += [("p", "string")] if traits.partitioned else []
        schema = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields]
        features = ["deletionVectors"] if traits.vectors else []
        times = ["inCommitTimestamp"] if TIMES in traits.properties else []
        writers = [*features, *times, "changeDataFeed", "appendOnly", "invariants"]
        protocol: Action = {"minReaderVersion": 1, "minWriterVersion": 4}
        if features or times:
            protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": writers}
        if features:
            protocol |= {"minReaderVersion": 3, "readerFeatures": features}
        metadata = {
            "id": self._new_id(),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": schema}),
            "partitionColumns": ["p"] if traits.partitioned else [],
            "configuration": dict(traits.properties),
            "createdTime": self._world.now_ms,
        }
        self.commit("CREATE TABLE", [{"protocol": protocol}, {"metaData": metadata}], [])

    @property
    def is_partitioned(self) -> bool:
        return bool(self.state.metadata["partitionColumns"])

    def add(self, ids: Sequence[int], value: str | None) -> Action:
        """Write a data file; gives its action."""
        name = self._name_file(folder_of(value), "part-{}-c000.snappy.parquet")
        data = encode_rows(ids)
        self._space.write(f"{self.place}/{name}", data, self._world.now_ms)
        return self.name_file(name, ids, value, len(data))

    def name_file(self, name: str, ids: Sequence[int], value: str | None, size: int) -> Action:
        """The action for a file that is there."""
        stats = {
            "numRecords": len(ids),
            "minValues": {"id": min(ids)},
            "maxValues": {"id": max(ids)},
            "nullCount": {"id": 0},
        }
        return {
            "add": {
                "path": quote(name, safe="/=-._"),
                "partitionValues": {"p": value} if self.is_partitioned else {},
                "size": size,
                "modificationTime": self._world.now_ms,
                "dataChange": True,
                "stats": json.dumps(stats),
            }
        }

    def remove(self, add: Action) -> Action:
        """The tombstone of a live file."""
        kept = ("path", "partitionValues", "size", "deletionVector")
        body = {name: add[name] for name in kept if add.get(name) is not None}
        extended = {"extendedFileMetadata": True, "dataChange": True}
        return {"remove": {**body, **extended, "deletionTimestamp": self._world.now_ms}}

    def change_data(self, ids: Sequence[int], value: str | None) -> list[Action]:
        """A file of change data, if the table has a feed."""
        if self.state.properties.get("delta.enableChangeDataFeed") != "true":
            return []
        name = self._name_file(f"_change_data/{folder_of(value)}", "cdc-{}.c000.snappy.parquet")
        table = pa.table({"id": pa.array(ids, pa.int64()), "_change_type": ["delete"] * len(ids)})
        target = io.BytesIO()
        pq.write_table(table, target)
        self._space.write(f"{self.place}/{name}", target.getvalue(), self._world.now_ms)
        values = {"p": value} if self.is_partitioned else {}
        size = len(target.getvalue())
        body = {"path": quote(name, safe="/=-._"), "partitionValues": values, "size": size}
        return [{"cdc": {**body, "dataChange": False}}]

    def delete_rows(self, add: Action, ids: Iterable[int], *, by_vector: bool) -> list[Action]:
        """Delete rows of a live file: by a deletion vector, or by writing the others again."""
        path = self._world.reader.file_path(self.place, add["path"])
        found = self._world.reader.rows_of(path)
        gone = set(ids) & set(found)
        value = (add.get("partitionValues") or {}).get("p")
        rest = [n for n in found if n not in gone]
        feed = self.change_data(sorted(gone), value)
        if not by_vector or not rest:
            written = [self.add(rest, value)] if rest else []
            return [self.remove(add), *written, *feed]
        vector = self._write_vector([at for at, n in enumerate(found) if n in gone])
        kept = {k: v for k, v in add.items() if v is not None and k != "deletionVector"}
        stats = json.loads(add["stats"]) | {"tightBounds": False}
        changed = {**kept, "deletionVector": vector, "stats": json.dumps(stats), "dataChange": True}
        return [self.remove(add), {"add": changed}, *feed]

    def _write_vector(self, positions: Sequence[int]) -> Action:
        number = uuid.UUID(self._new_id())
        bitmap = bitmap_bytes(positions)
        frame = struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
        name = f"{self.place}/deletion_vector_{number}.bin"
        self._space.write(name, b"\x01" + frame, self._world.now_ms)
        return {
            "storageType": "u",
            "pathOrInlineDv": z85(number.bytes),
            "offset": 1,
            "sizeInBytes": len(bitmap),
            "cardinality": len(positions),
        }

    def commit(self, operation: str, actions: list[Action], rows: list[Any]) -> int:
        """Write the next version, and tell the model which rows it has."""
        version, now_ms = self.state.version + 1, self._world.now_ms
        info = {"timestamp": now_ms, "operation": operation, "operationParameters": {}}
        body = {**self._time(version, actions), **info, "engineInfo": "a plain writer"}
        lines = [{"commitInfo": body}, *actions]
        data = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        self._space.write(f"{self.place}/{LOG}/{version:020d}.json", data, now_ms)
        self.state.apply(lines)
        self.state.version = version
        self._world.model.announce(self.place, version, rows)
        has_manifests = self.state.properties.get(WITH_MANIFESTS) == "true"
        if has_manifests and not self._is_old:
            self._refresh_manifests(actions)
        is_due = version % int(self.state.properties.get("delta.checkpointInterval", "10")) == 0
        if self._job and is_due and version:
            write_checkpoint(self._world, self.place, self.state)
        return version

    def _time(self, version: int, actions: list[Action]) -> Action:
        """The in-commit timestamp, if the table requires one."""
        properties = properties_of(actions, self.state.properties)
        if properties.get(TIMES) != "true" or self._is_old:
            return {}
        before = self._world.reader.time(self.place, version - 1) or 0
        return {"inCommitTimestamp": max(self._world.now_ms, before + 1)}

    def _refresh_manifests(self, actions: list[Action]) -> None:
        """Of the partitions that a commit touched, as Delta on Spark does."""
        bodies = [b for a in actions for name, b in a.items() if name in ("add", "remove")]
        for value in {(body.get("partitionValues") or {}).get("p") for body in bodies}:
            live = [
                self._space.address(f"{self.place}/{add['path']}") + "\n"
                for add in self.state.files.values()
                if (add.get("partitionValues") or {}).get("p") == value
            ]
            name = f"{self.place}/{MANIFESTS}/{folder_of(value)}manifest"
            if live or value is None:
                self._space.write(name, "".join(live).encode(), self._world.now_ms)
            elif self._space.entry(name):
                self._space.delete(name)

    def _name_file(self, folder: str, form: str) -> str:
        """Gives the path of a new file; its name is not used in this folder."""
        folded = folder.casefold() if self._space.folds else folder
        number = self._tasks[folded] if self._job else 0
        self._tasks[folded] += 1
        return folder + form.format(f"{number:05d}-{self._job or self._new_id()}")

    def _new_id(self) -> str:
        return new_id(self._ids)


def new_id(ids: Any) -> str:
    """A random UUID (version 4), from the source of the world."""
    return str(uuid.UUID(int=ids.getrandbits(128), version=4))
