"""Members of actions that are absent, null or of another JSON type, judged by delta-rs and DuckDB.

python -m tests.fuzz.members              every member with every value, all commands; an hour
python -m tests.fuzz.members 7            each seventh of them
python -m tests.fuzz.members add.stats    only members whose name contains the text
"""

import copy
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.cli.app import run
from deltactl.errors import DeltactlError, ignore_warning
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.table_builder import (
    LOG,
    START_MS,
    Action,
    bitmap_bytes,
    checkpoint_parquet,
    commit_path,
    encode_lines,
    multiset,
    z85,
)

Form = Literal["commits", "classic", "v2"]
"""Where the bent action is: in a JSON commit, a classic checkpoint, or a V2 checkpoint."""

ABSENT: Final = object()
VALUES: Final[Mapping[str, Any]] = {
    "absent": ABSENT,
    "null": None,
    "text": "x",
    "number": 7,
    "negative": -1,
    "fraction": 1.5,
    "flag": True,
    "list": [],
    "object": {},
    "huge": 10**20,
}
_IN_PARQUET: Final = ("absent", "null")  # Parquet columns have a type

COMMANDS: Final[Sequence[Sequence[str]]] = (
    ("describe-detail",),
    ("describe-history", "--all", "--restorable"),
    ("vacuum", "--dry-run"),
    ("optimize", "--dry-run"),
    ("optimize", "--dry-run", "--zorder-by", "id"),
    ("checkpoint", "--dry-run", "--cleanup"),
    ("maintain", "--dry-run"),
    ("generate-manifest", "--dry-run", "--ddl", "hive"),
    ("restore", "--to-version", "2", "--dry-run"),
    ("check", "--all-versions", "--files", "data", "--checkpoints"),
    ("clone", "--shallow", "--dry-run"),
    ("checkpoint",),
    ("optimize",),  # last: it changes the table
)

_VERSION: Final = 3
_CHECKPOINT: Final = f"{LOG}/{_VERSION - 1:020d}.checkpoint"
_IDENTIFIER: Final = "80a083e8-7026-4e79-81be-64bd76c43a11"
_SIDECAR: Final = f"{_VERSION - 1:020d}.checkpoint.{1:010d}.{1:010d}.{_IDENTIFIER}.parquet"
_TYPES: Final = {
    "id": "long",
    "p": "string",
    "a": {"type": "array", "elementType": "long", "containsNull": True},
    "m": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
    "s": {
        "type": "struct",
        "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}],
    },
}


def _parquet(*ids: int) -> bytes:
    rows = [{"id": number, "a": [1], "m": [("k", 1)], "s": {"x": 1}} for number in ids]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("a", pa.list_(pa.int64())),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("s", pa.struct([("x", pa.int64())])),
        ]
    )
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink)
    return sink.getvalue()


_DATA: Final = {f"p=a/f{n}.parquet": _parquet(*range(2 * n, 2 * n + 2)) for n in range(4)}


def _add(number: int, **more: Any) -> Action:
    path = f"p=a/f{number}.parquet"
    bound = {"id": 2 * number}
    stats = {"numRecords": 2, "minValues": bound, "maxValues": {"id": 2 * number + 1}}
    return {
        "add": {
            "path": path,
            "partitionValues": {"p": "a"},
            "size": len(_DATA[path]),
            "modificationTime": START_MS,
            "dataChange": True,
            "stats": json.dumps({**stats, "nullCount": {"id": 0}}),
            "tags": {"t": "u"},
            **more,
        }
    }


def _vector() -> Action:
    payload = bitmap_bytes([0])
    text = z85(payload + bytes(-len(payload) % 4))
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(payload),
        "cardinality": 1,
    }


def _heads(form: Form) -> list[Action]:
    readers = ["deletionVectors", *(["v2Checkpoint"] if form == "v2" else [])]
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in _TYPES.items()]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": readers,
        "writerFeatures": [*readers, "domainMetadata", "appendOnly"],
    }
    metadata = {
        "id": "11111111-0000-4000-8000-000000000007",
        "name": "n",
        "description": "d",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": {"type": "struct", "fields": fields},
        "partitionColumns": ["p"],
        "configuration": {"delta.appendOnly": "false"},
        "createdTime": START_MS,
    }
    return [{"protocol": protocol}, {"metaData": metadata}]


def _base(form: Form) -> dict[str, list[Action]]:
    """The log files with actions that can be bent, by name."""
    info = {
        "timestamp": START_MS,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "operationMetrics": {"numFiles": "1"},
        "isBlindAppend": True,
        "readVersion": 0,
        "engineInfo": "e",
        "txnId": "t",
        "tags": {"a": "b"},
    }
    others = [
        {"txn": {"appId": "app", "version": 1, "lastUpdated": START_MS}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    ]
    remove = {
        "path": "p=a/f3.parquet",
        "deletionTimestamp": START_MS,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {"p": "a"},
        "size": len(_DATA["p=a/f3.parquet"]),
        "stats": '{"numRecords":2}',
        "tags": {"t": "u"},
        "baseRowId": 3,
        "defaultRowCommitVersion": 0,
    }
    change = {"path": "_change_data/c", "partitionValues": {"p": "a"}, "size": 5}
    kept = [
        _add(0, baseRowId=0, defaultRowCommitVersion=0, clusteringProvider="liquid"),
        _add(1, deletionVector=_vector()),
    ]
    if form == "commits":
        return {
            commit_path(0): [{"commitInfo": info}, *_heads(form), kept[0], _add(3)],
            commit_path(1): [kept[1], *others],
            commit_path(2): [
                {"remove": remove},
                {"cdc": {**change, "dataChange": False, "tags": {"a": "b"}}},
            ],
        }
    files = [*kept, {"remove": remove}]
    if form == "classic":
        return {f"{_CHECKPOINT}.parquet": [*_heads(form), *others, *files]}
    body = {"path": _SIDECAR, "sizeInBytes": 0, "modificationTime": START_MS, "tags": {"a": "b"}}
    marker = {"checkpointMetadata": {"version": _VERSION - 1, "tags": {"a": "b"}}}
    return {
        f"{LOG}/_sidecars/{_SIDECAR}": files,
        f"{_CHECKPOINT}.{_IDENTIFIER}.json": [marker, *_heads(form), *others, {"sidecar": body}],
    }


Path_ = tuple[str | int, ...]


def _members(node: Any, path: Path_ = ()) -> Iterator[Path_]:
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in pairs:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from _members(value, (*path, key))


@dataclass(frozen=True, slots=True)
class Case:
    """One member of one action of a log file with another value."""

    form: Form
    file: str
    place: int
    path: Path_
    value: str

    @property
    def name(self) -> str:
        """A name for messages and for ``--only``."""
        return f"{self.form} {'.'.join(map(str, self.path))} {self.value}"

    def write(self, root: Path) -> None:
        base = copy.deepcopy(_base(self.form))
        node: Any = base[self.file][self.place]
        for key in self.path[:-1]:
            node = node[key]
        if VALUES[self.value] is ABSENT:
            del node[self.path[-1]]
        else:
            node[self.path[-1]] = VALUES[self.value]
        write(root, base)


def write(root: Path, base: Mapping[str, list[Action]]) -> None:
    """Write a table with these log files, and one commit after them."""
    sizes: dict[str, int] = {}
    last = {commit_path(_VERSION): [_add(2)]}
    written: dict[str, bytes | list[Action]] = {**_DATA, **base, **last}
    for name, actions in written.items():
        data = actions if isinstance(actions, bytes) else _encode(name, actions, sizes)
        sizes[name.rpartition("/")[2]] = len(data)
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _encode(name: str, actions: list[Action], sizes: Mapping[str, int]) -> bytes:
    actions = copy.deepcopy(actions)
    for action in actions:
        metadata, sidecar = action.get("metaData"), action.get("sidecar")
        if isinstance(metadata, dict) and isinstance(metadata.get("schemaString"), dict):
            metadata["schemaString"] = json.dumps(metadata["schemaString"])
        if isinstance(sidecar, dict) and sidecar.get("sizeInBytes") == 0:
            sidecar["sizeInBytes"] = sizes[_SIDECAR]
    return encode_lines(actions) if name.endswith(".json") else checkpoint_parquet(actions)


def list_cases() -> Iterator[Case]:
    """Every member with every value."""
    for form in ("commits", "classic", "v2"):
        for file, actions in _base(form).items():
            for place, action in enumerate(actions):
                for path in _members(action):
                    is_typed = file.endswith(".parquet") and "schemaString" not in path[:-1]
                    for value in _IN_PARQUET if is_typed else VALUES:
                        if not (isinstance(path[-1], int) and value == "absent"):
                            yield Case(form, file, place, path, value)


def _call(*words: str) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = run(list(words))
    return code, out.getvalue()


def _rows(read: Any, root: Path) -> Any:
    """The rows as comparable values, or ``None`` for a refusal."""
    try:
        return multiset({"id": row["id"], "p": row["p"]} for row in read(root))
    except KeyError:
        return "another schema"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # panics of Rust are no Exceptions
        return None


def _read(root: Path) -> list[dict[str, Any]]:
    return list(Table(str(root), warn=ignore_warning).scan().read_all().to_pylist())


def _read_ours(root: Path) -> Any:
    try:
        return multiset({"id": row["id"], "p": row["p"]} for row in _read(root))
    except KeyError:
        return "another schema"
    except DeltactlError:
        return None


def find_faults(case: Case, root: Path, commands: Sequence[Sequence[str]]) -> Iterator[str]:
    """Write the table of a case, and yield what must not be."""
    case.write(root)
    judged = [_rows(read, root) for read in (rows_with_delta_rs, rows_with_duckdb)]
    known = [rows for rows in judged if rows is not None]
    ours = _read_ours(root)
    if ours is not None and known and ours not in known:
        yield f"read as {ours}, not as {known}"
    code, said = _call("check", str(root))
    if not known and code == 0:  # a vector in the log is decoded with the files
        code, said = _call("check", str(root), "--files", "data", "--checkpoints")
    if "this is a bug" in said:
        yield f"check: {said}"
    if not known and code == 0:
        yield "check finds nothing, but delta-rs and DuckDB refuse the table"
    for command in commands:
        target = [str(root.parent / "clone")] if command[0] == "clone" else []
        code, said = _call(command[0], str(root), *target, *command[1:])
        if "this is a bug" in said:
            yield f"{' '.join(command)}: {said}"
        after = _read_ours(root)
        if code == 0 and after != ours:
            yield f"{' '.join(command)} changed {ours} to {after}"
        if code == 0 and command == ("optimize",):
            later = [_rows(read, root) for read in (rows_with_delta_rs, rows_with_duckdb)]
            if any(rows not in (None, ours) for rows in later):
                yield f"after {' '.join(command)}, the judges read {later}, not {ours}"


def main() -> int:
    """Try all cases; return 1 if there is a fault."""
    wanted = sys.argv[1:]
    step = int(wanted.pop(0)) if wanted and wanted[0].isdigit() else 1
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(list_cases()):
            if number % step or (wanted and not any(text in case.name for text in wanted)):
                continue
            root = Path(folder) / str(number) / "t"
            for fault in find_faults(case, root, COMMANDS):
                faults += 1
                print(f"{case.name}: {fault}", flush=True)
            shutil.rmtree(root.parent, ignore_errors=True)
    print(f"{faults} faults", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
