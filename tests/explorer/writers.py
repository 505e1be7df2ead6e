"""Other writers, which keep to the protocol: scripts of a few lines.

Read the log, check, write, put if absent; who loses a race starts from the beginning, who gets an
error reads back. They share no code with what is tested.
"""

import io
import json
import struct
import uuid
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.clock import Clock
from deltactl.errors import ObjectNotFoundError, StorageError
from deltactl.storage.store import Store
from tests.explorer import naive
from tests.explorer.invariants import UNKNOWN_FEATURE
from tests.explorer.programs import Outcome, Program
from tests.explorer.scenes import Scene
from tests.explorer.sim_catalog import CatalogStore
from tests.explorer.world import LOG
from tests.support.table_builder import Action, State, bitmap_bytes, commit_path, encode_lines, z85

Rows = tuple[Any, ...]
_TRIES = 3


Plan = Callable[["_Attempt"], list[Action] | None]


class _Attempt:
    """One try of a foreign transaction: the version it read, and what it wrote for it."""

    def __init__(self, store: Store, clock: Clock, state: State) -> None:
        self.store, self.state = store, state
        self.txn_id = clock.new_id()
        self.now_ms = clock.now_ms()
        self.written: list[str] = []

    def write_rows(self, rows: Sequence[dict[str, Any]], p: str = "a") -> Action:
        """A new data file, as an add."""
        sink = io.BytesIO()
        schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
        pq.write_table(pa.Table.from_pylist(list(rows), schema), sink)
        path = f"p={p}/part-{self.txn_id}.parquet"
        self._write(path, sink.getvalue())
        return {
            "add": {
                "path": path,
                "partitionValues": {"p": p},
                "size": len(sink.getvalue()),
                "modificationTime": self.now_ms,
                "dataChange": True,
                "stats": json.dumps({"numRecords": len(rows)}),
            }
        }

    def remove(self, add: Action) -> Action:
        kept = ("path", "partitionValues", "size", "deletionVector", "baseRowId")
        body = {key: add[key] for key in kept if key in add}
        times = {"deletionTimestamp": self.now_ms, "dataChange": True, "extendedFileMetadata": True}
        return {"remove": {**body, **times}}

    def delete_positions(self, add: Action, positions: Sequence[int]) -> list[Action]:
        """Mark rows of a file as deleted, on top of those that are."""
        old = add.get("deletionVector")
        gone = set(positions) | (naive.deleted_positions(old, self.store.read) if old else set())
        payload = bitmap_bytes(gone)
        identifier = uuid.UUID(self.txn_id)
        framed = struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
        self._write(f"deletion_vector_{identifier}.bin", b"\1" + framed)
        vector = {
            "storageType": "u",
            "pathOrInlineDv": z85(identifier.bytes),
            "offset": 1,
            "sizeInBytes": len(payload),
            "cardinality": len(gone),
        }
        return [self.remove(add), {"add": {**add, "deletionVector": vector, "dataChange": True}}]

    def find(self, path: str) -> Action | None:
        """The live add of a path."""
        return next((add for (live, _), add in self.state.files.items() if live == path), None)

    def _write(self, name: str, data: bytes) -> None:
        self.written.append(name)
        with self.store.open_output(name) as sink:
            sink.write(data)

    def discard(self) -> None:
        self.store.delete_many(self.written)


def _foreign(name: str, plan: Plan, effect: Callable[[Rows], Rows] = lambda rows: rows) -> Program:
    """A writer that starts again when it lost a race."""

    def run(store: Store, clock: Clock) -> Outcome:
        for _ in range(_TRIES):
            attempt = _Attempt(store, clock, _load(store))
            outcome = _try(attempt, plan)
            if outcome is not None:
                return outcome
            attempt.discard()
        return Outcome("conflict")

    return Program(name, run, effect)


def _rebasing(name: str, plan: Plan, effect: Callable[[Rows], Rows]) -> Program:
    """A writer that looks at nothing: it puts what it wrote on top of whoever won."""

    def run(store: Store, clock: Clock) -> Outcome:
        attempt = _Attempt(store, clock, _load(store))
        actions: list[Action] = []

        def once(attempt: _Attempt) -> list[Action]:
            if not actions:
                actions.extend(plan(attempt) or ())
            return actions

        for _ in range(_TRIES):
            outcome = _try(attempt, once)
            if outcome is not None:
                return outcome
            try:
                attempt.state, attempt.txn_id = _load(store), clock.new_id()
            except StorageError:
                attempt.discard()
                raise
        attempt.discard()
        return Outcome("conflict")

    return Program(name, run, effect)


def _try(attempt: _Attempt, plan: Plan) -> Outcome | None:
    try:
        outcome = _commit(attempt, plan)
    except StorageError:
        attempt.discard()
        raise
    if outcome is not None and outcome.kind == "refused":
        attempt.discard()
    return outcome


def _load(store: Store) -> State:
    """The latest version; read again if files of the log were cleaned up meanwhile."""
    for _ in range(_TRIES):
        try:
            return naive.load([info.name for info in store.list_from(LOG)], store.read)
        except (ObjectNotFoundError, ValueError):
            continue
    raise StorageError("the log changes faster than it is read")


def _commit(attempt: _Attempt, plan: Plan) -> Outcome | None:
    """Put the next version; ``None`` says that somebody else won it."""
    state = attempt.state
    protocol = state.protocol or {}
    if UNKNOWN_FEATURE in protocol.get("writerFeatures", ()):
        return Outcome("refused", value=f"UNSUPPORTED_FEATURE: {UNKNOWN_FEATURE}")
    actions = plan(attempt)
    if actions is None:
        return Outcome("done")
    version = state.version + 1
    info: Action = {"timestamp": attempt.now_ms, "operation": "WRITE", "txnId": attempt.txn_id}
    if "inCommitTimestamp" in protocol.get("writerFeatures", ()):
        info = {"inCommitTimestamp": _next_time(attempt, state.version), **info}
    if "rowTracking" in protocol.get("writerFeatures", ()):
        actions = _with_row_ids(state, actions)
    content = encode_lines([{"commitInfo": info}, *actions])
    try:
        attempt.store.put_if_absent(commit_path(version), content)
    except StorageError:
        return _settle(attempt, version)
    return Outcome("done", (version,))


def _with_row_ids(state: State, actions: Sequence[Action]) -> list[Action]:
    """New files get the next ids, and the table's mark moves behind them."""
    domain = state.domains.get("delta.rowTracking")
    start = mark = json.loads(domain["configuration"])["rowIdHighWaterMark"] if domain else -1
    found: list[Action] = []
    for action in actions:
        add = action.get("add")
        if add is not None and "baseRowId" not in add:
            ids = {"baseRowId": mark + 1, "defaultRowCommitVersion": state.version + 1}
            mark += json.loads(add["stats"])["numRecords"]
            found.append({"add": {**add, **ids}})
        else:
            found.append(action)
    if mark > start:
        text = json.dumps({"rowIdHighWaterMark": mark})
        named = {"domain": "delta.rowTracking", "configuration": text, "removed": False}
        found.append({"domainMetadata": named})
    return found


def _next_time(attempt: _Attempt, version: int) -> int:
    (info,) = (
        action["commitInfo"]
        for action in naive.parse_lines(attempt.store.read(commit_path(version)))
        if "commitInfo" in action
    )
    return max(attempt.now_ms, int(info["inCommitTimestamp"]) + 1)


def _settle(attempt: _Attempt, version: int) -> Outcome | None:
    try:
        stored = attempt.store.read(commit_path(version))
    except StorageError:
        return Outcome("unknown")
    (info,) = (a["commitInfo"] for a in naive.parse_lines(stored) if "commitInfo" in a)
    return Outcome("done", (version,)) if info.get("txnId") == attempt.txn_id else None


def _new_rows(number: int) -> list[dict[str, Any]]:
    return [{"id": 100 * number + n, "v": n} for n in range(2)]


def append(number: int = 1, p: str = "a") -> Program:
    rows = _new_rows(number)
    added = [(("id", row["id"]), ("v", row["v"]), ("p", p)) for row in rows]
    return _rebasing(
        f"append {number}",
        lambda attempt: [attempt.write_rows(rows, p)],
        lambda before: tuple(sorted([*before, *added])),
    )


def _ids_of(scene: Scene, add: Action) -> list[int]:
    data, _ = scene.files[naive.file_names(add)[0]]
    return [row["id"] for row in naive.stored_rows(data)]


def publish() -> Program:
    """Publishes what the catalog has, and removes the staged commits."""

    def run(store: Store, clock: Clock) -> Outcome:
        assert isinstance(store, CatalogStore)
        store.publish(removes=True)
        return Outcome("done")

    return Program("publication", run, counted=False, max_commits=0)


def lazily(program: Program) -> Program:
    """The same writer, that publishes only what the catalog wants to be published."""

    def run(store: Store, clock: Clock) -> Outcome:
        assert isinstance(store, CatalogStore)
        store.lazy = True
        return program.run(store, clock)

    return replace(program, name=f"{program.name}, lazily", run=run)


def _without(ids: Sequence[int]) -> Callable[[Rows], Rows]:
    return lambda rows: tuple(row for row in rows if dict(row)["id"] not in ids)


def _where_ids(attempt: _Attempt, ids: set[int]) -> list[tuple[Action, list[int]]]:
    """Live files with rows of these ids, and at which places."""
    found = []
    for add in attempt.state.files.values():
        name = naive.file_names(add)[0]
        stored = naive.stored_rows(attempt.store.read(name))
        places = [at for at, row in enumerate(stored) if row["id"] in ids]
        if places:
            found.append((add, places))
    return found


def delete(scene: Scene, which: str) -> Program:
    """Delete all rows of a file, wherever they are now: whole files where it is possible."""
    ids = _ids_of(scene, scene.adds[which])

    def plan(attempt: _Attempt) -> list[Action] | None:
        actions: list[Action] = []
        for add, places in _where_ids(attempt, set(ids)):
            if len(places) == json.loads(add["stats"])["numRecords"]:
                actions.append(attempt.remove(add))
            else:
                actions += attempt.delete_positions(add, places)
        return actions or None

    return _foreign(f"delete the {which} file", plan, _without(ids))


def delete_row(scene: Scene, which: str) -> Program:
    """Delete the last row of a file by a deletion vector, wherever the row is now."""
    ids = _ids_of(scene, scene.adds[which])[-1:]

    def plan(attempt: _Attempt) -> list[Action] | None:
        if "deletionVectors" not in (attempt.state.protocol or {}).get("readerFeatures", ()):
            return None  # dropped meanwhile
        actions: list[Action] = []
        for add, places in _where_ids(attempt, set(ids)):
            actions += attempt.delete_positions(add, places)
        return actions or None

    return _foreign(f"delete a row of the {which} file", plan, _without(ids))


def update(scene: Scene, which: str) -> Program:
    """Change the last row of a file: deleted by a deletion vector, written to a new file."""
    (changed,) = _ids_of(scene, scene.adds[which])[-1:]
    new = {"id": changed, "v": -changed}

    def plan(attempt: _Attempt) -> list[Action] | None:
        actions: list[Action] = []
        for add, places in _where_ids(attempt, {changed}):
            actions += attempt.delete_positions(add, places)
        return [*actions, attempt.write_rows([new])] if actions else None

    row = (("id", changed), ("v", new["v"]), ("p", "a"))
    rest = _without([changed])
    name = f"update a row of the {which} file"
    return _foreign(name, plan, lambda before: tuple(sorted([*rest(before), row])))


def restore(scene: Scene) -> Program:
    """Make live what once was: the files of the scene, none of their rows deleted."""
    wanted = {
        add["path"]: {key: value for key, value in add.items() if key != "deletionVector"}
        for add in scene.adds.values()
    }
    rows = tuple(
        sorted(
            (*sorted(row.items()), *sorted(add["partitionValues"].items()))
            for add in wanted.values()
            for row in naive.stored_rows(scene.files[naive.file_names(add)[0]][0])
        )
    )

    def plan(attempt: _Attempt) -> list[Action]:
        live = {(add["path"], "deletionVector" in add): add for add in attempt.state.files.values()}
        kept = {(path, False) for path in wanted}
        removes = [attempt.remove(add) for key, add in live.items() if key not in kept]
        adds = [add for path, add in wanted.items() if (path, False) not in live]
        return [*removes, *({"add": {**add, "dataChange": True}} for add in adds)]

    return _foreign("restore", plan, lambda before: rows)


def overwrite(number: int = 7) -> Program:
    rows = _new_rows(number)

    def plan(attempt: _Attempt) -> list[Action]:
        removes = [attempt.remove(add) for add in attempt.state.files.values()]
        return [*removes, attempt.write_rows(rows, "z")]

    added = sorted((("id", row["id"]), ("v", row["v"]), ("p", "z")) for row in rows)
    return _foreign("overwrite", plan, lambda before: tuple(added))


def change_metadata(**changes: Any) -> Program:
    """Change fields of the metadata; ``configuration`` is added to what is there."""

    def plan(attempt: _Attempt) -> list[Action]:
        body = dict(attempt.state.metadata or {})
        settings = {**body["configuration"], **changes.get("configuration", {})}
        return [{"metaData": {**body, **changes, "configuration": settings}}]

    return _foreign("metadata change", plan)


def add_column() -> Program:
    def plan(attempt: _Attempt) -> list[Action]:
        body = dict(attempt.state.metadata or {})
        schema = json.loads(body["schemaString"])
        new = {"name": "extra", "type": "string", "nullable": True, "metadata": {}}
        schema["fields"].append(new)
        return [{"metaData": {**body, "schemaString": json.dumps(schema)}}]

    return _foreign("add column", plan)


def upgrade_protocol(feature: str = UNKNOWN_FEATURE) -> Program:
    def plan(attempt: _Attempt) -> list[Action] | None:
        body = dict(attempt.state.protocol or {})
        features = set(body.get("writerFeatures", ()))
        if feature in features:
            return None
        return [{"protocol": {**body, "writerFeatures": sorted({*features, feature})}}]

    return _foreign(f"protocol upgrade to {feature}", plan)
