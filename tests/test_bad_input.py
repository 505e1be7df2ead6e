"""What is no table, is broken, or is hostile: through the command line, with an exit status.

Each is an error of ours without a traceback, or right behaviour; and nothing is written outside
the table's folder.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.faults.test_machine import Cli, deltactl
from tests.support.folders import contents
from tests.support.table_builder import (
    Column,
    TableBuilder,
    bitmap_bytes,
    commit_path,
    multiset,
    z85,
)

__all__ = ["deltactl"]

COMMANDS = (
    "check", "checkpoint", "describe-detail", "describe-history", "generate-manifest", "optimize",
    "vacuum",
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder for tables; what lies around it must be the same afterwards."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.parquet").write_bytes(b"precious")
    before = contents(outside)
    inside = tmp_path / "inside"
    inside.mkdir()
    yield inside
    assert contents(outside) == before
    assert names_in(tmp_path) == ["inside", "outside"]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def ensure_kept(place: Path, before: dict[str, bytes], path: str) -> None:
    """No file was changed or deleted, and the table still has the one that cannot be read."""
    assert before.items() <= contents(place).items()
    snapshot = Table(str(place / "t"), warn=lambda message: None).snapshot()
    assert unquote(path) in snapshot.files["path"].to_pylist()


def build(root: Path, *columns: Column, files: int = 3, **options: Any) -> TableBuilder:
    builder = TableBuilder(root, [Column("id"), Column("v", "string"), *columns], **options)
    rows = [[{"id": 10 * i + j, "v": f"{j}"} for j in range(4)] for i in range(files)]
    builder.append(*rows)
    return builder


def rows_of(root: Path) -> Any:
    table = Table(str(root), warn=lambda message: None)
    return multiset(table.scan().read_all().to_pylist())


# -- no table -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_a_place_without_a_table_is_told(place: Path, deltactl: Cli, command: str) -> None:
    (place / "empty").mkdir()
    (place / "file").write_text("x")
    (place / "data").mkdir()
    (place / "data" / "x.parquet").write_bytes(b"x")
    (place / "hollow" / "_delta_log").mkdir(parents=True)
    for name in ("nothing", "empty", "file", "data", "hollow", "file/below"):
        ran = deltactl(command, place / name)
        assert (ran.code, ran.out) == (1, ""), name
        assert name in ran.err
        assert "hint: " in ran.err
    for name in ("", "nope://x/y", "s4://b/t"):
        assert deltactl(command, name).code == 2, name


def test_a_store_that_refuses(place: Path, deltactl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root sees no permissions, the refusal is the operating system's by proxy."""
    build(place / "t")
    real = os.open

    def refuse(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and "/t/" in os.fsdecode(path):
            raise PermissionError(13, "Permission denied", os.fsdecode(path))
        return real(path, flags, *rest, **options)

    before = contents(place)
    monkeypatch.setattr(os, "open", refuse)
    ran = deltactl("optimize", place / "t")
    monkeypatch.undo()
    assert ran.code == 8, ran.err
    assert "ermission" in ran.err
    assert contents(place) == before


# -- a broken log -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"", b"\n\n", b'{"add":{"path":"x.parq', b"\x00\x01\x02", b"\xff\xfe{}", b"[]\n",
        b'"add"\n', b"7\n", b'{"add":7}\n', b'{"add":{"size":1}}\n',
        b'{"add":{"path":7,"size":"big"}}\n',
        b'{"add":{"path":"x","size":1e30,"partitionValues":{}}}\n',
        b'{"add":{"path":"x","size":99999999999999999999,"partitionValues":{}}}\n',
        b'{"add":{"path":"%ff","size":1,"partitionValues":{}}}\n',
        b'{"add":{"path":"x","size":1,"partitionValues":{"p":"\\ud800"}}}\n',
        b'{"add":{"path":"\\udc00","size":1,"partitionValues":{}}}\n',
        b'{"metaData":{}}\n', b'{"metaData":{"schemaString":"{"}}\n',
        b'{"metaData":{"schemaString":"7","partitionColumns":[]}}\n',
        b'{"metaData":{"id":"x","schemaString":"{}","configuration":[1]}}\n',
        b'{"protocol":{}}\n',
        b'{"protocol":{"minReaderVersion":"x","minWriterVersion":1}}\n',
        b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2,"readerFeatures":7}}\n',
        b'{"txn":{"version":"x"}}\n',
        b'{"txn":{"appId":"x","version":99999999999999999999}}\n',
        b'{"metaData":{"id":"x","createdTime":99999999999999999999}}\n',
        b'{"domainMetadata":{}}\n', b'{"domainMetadata":[]}\n',
        b'{"add":{"path":"x","partitionValues":[],"size":1}}\n',
        b'{"add":{"path":"x","partitionValues":{"p":{"q":1}},"tags":7,"size":1}}\n',
        b'{"txn":' + b"[" * 5000 + b"]" * 5000 + b"}\n",
        b'{"metaData":{"configuration":' + b"[" * 5000 + b"]" * 5000 + b"}}\n",
    ],
    ids=range(32),
)  # fmt: skip
def test_a_broken_commit_is_named(place: Path, deltactl: Cli, text: bytes) -> None:
    builder = build(place / "t")
    builder.store.put(commit_path(2), text)
    before = contents(place)
    ran = deltactl("optimize", place / "t")
    assert ran.code in (1, 6, 7), ran.err
    assert "00000000000000000002.json" in ran.err or "schema" in ran.err, ran.err
    assert contents(place) == before
    assert deltactl("describe-history", place / "t").code == 0
    deltactl("describe-detail", place / "t")


@pytest.mark.parametrize("damage", ["empty", "cut", "zeros", "text", "gone"])
@pytest.mark.parametrize("kind", ["classic", "multipart", "v2-json", "v2-parquet"])
def test_a_broken_checkpoint_is_left_aside_or_named(
    place: Path, deltactl: Cli, kind: str, damage: str
) -> None:
    builder = build(place / "t")
    builder.checkpoint(kind=kind)
    builder.hint(1)
    (victim, *_) = sorted((place / "t" / "_delta_log").glob("*.checkpoint*"))
    harm(victim, damage)
    ran = deltactl("optimize", place / "t", "-o", "json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["result"]["files_removed"] == 3
    assert rows_of(place / "t") == multiset(builder.rows())
    builder.forget_commits(1)
    assert deltactl("optimize", place / "t", "-o", "json").code in (0, 1)


def harm(victim: Path, damage: str) -> None:
    data = victim.read_bytes()
    match damage:
        case "empty":
            victim.write_bytes(b"")
        case "cut":
            victim.write_bytes(data[: len(data) // 2])
        case "zeros":
            victim.write_bytes(bytes(len(data)))
        case "text":
            victim.write_text("not what you think")
        case _:
            victim.unlink()


def test_a_table_deleted_under_us(
    place: Path, deltactl: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltactl.log.writing import transaction
    from deltactl.log.writing.actions import encode_commit

    build(place / "t")
    real: Callable[..., Any] = encode_commit

    def vanish(*arguments: Any) -> Any:
        shutil.rmtree(place / "t")
        return real(*arguments)

    monkeypatch.setattr(transaction, "encode_commit", vanish)
    ran = deltactl("optimize", place / "t")
    assert ran.code == 8, ran.err
    assert "deleted during the run" in ran.err
    assert names_in(place) == [], "a commit without a table is no table"


# -- broken data --------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["empty", "cut", "zeros", "text", "gone"])
def test_a_broken_data_file_is_named_and_nothing_lost(
    place: Path, deltactl: Cli, damage: str
) -> None:
    builder = build(place / "t")
    victim = next(iter(builder.data))
    harm(place / "t" / victim, damage)
    before = contents(place)
    ran = deltactl("optimize", place / "t")
    assert ran.code == 1, ran.err
    assert victim in ran.err
    ensure_kept(place, before, victim)


@pytest.mark.parametrize(
    "stats",
    [
        '{"numRecords":-5}', '{"numRecords":99999999999999999999999}', '{"numRecords":"many"}',
        '{"numRecords":1e308,"minValues":7,"maxValues":[],"nullCount":"x"}',
        '{"numRecords":null}', "[1,2", "", "\x00",
        "[" * 20000,
        '{"numRecords":3,"minValues":{"id":"\\ud800"}}',
    ],
)  # fmt: skip
def test_absurd_statistics_change_nothing(place: Path, deltactl: Cli, stats: str) -> None:
    builder = TableBuilder(place / "t", [Column("id")], features=["deletionVectors"])
    adds = [builder.write_file([{"id": i}, {"id": -i}]) for i in range(3)]
    for add in adds:
        add["add"]["stats"] = stats
    builder.commit(*adds)
    builder.commit(
        *[
            {**action, "add": {**action["add"], "stats": stats}} if "add" in action else action
            for action in _delete_first(builder)
        ]
    )
    ran = deltactl("optimize", place / "t", "--verify", "full")
    assert ran.code == 0, ran.err
    assert rows_of(place / "t") == multiset(builder.rows())


def _delete_first(builder: TableBuilder) -> list[dict[str, Any]]:
    add = builder.find(next(iter(builder.data)))
    payload = bitmap_bytes([0])
    vector = {
        "storageType": "i",
        "pathOrInlineDv": z85(payload + bytes(-len(payload) % 4)),
        "sizeInBytes": len(payload),
        "cardinality": 1,
    }
    builder.deleted[f"i{vector['pathOrInlineDv']}"] = frozenset([0])
    return [builder.remove_action(add["path"]), {"add": {**add, "deletionVector": vector}}]


@pytest.mark.parametrize(
    "change",
    [
        {"sizeInBytes": -1},
        {"sizeInBytes": 2**31 - 1},
        {"cardinality": -1},
        {"cardinality": 2**62},
        {"offset": -7, "storageType": "u"},
        {"pathOrInlineDv": "short"},
        {"pathOrInlineDv": "\u00e9" * 20},
        {"storageType": "u", "pathOrInlineDv": "../../outside/" + "0" * 20, "offset": 1},
        {"storageType": "p", "pathOrInlineDv": "https://example.invalid/x.bin"},
        {"storageType": "z"},
        {"storageType": 1, "pathOrInlineDv": None},
    ],
    ids=range(11),
)
def test_an_absurd_deletion_vector_is_an_error(
    place: Path, deltactl: Cli, change: dict[str, Any]
) -> None:
    builder = build(place / "t", features=["deletionVectors"])
    remove, add = _delete_first(builder)
    add["add"]["deletionVector"].update(change)
    builder.commit(remove, add)
    before = contents(place)
    ran = deltactl("optimize", place / "t")
    assert ran.code in (1, 7, 8), ran.err
    ensure_kept(place, before, add["add"]["path"])


@pytest.mark.parametrize("size", [-1, 0, 2**62])
def test_absurd_sizes_change_nothing(place: Path, deltactl: Cli, size: int) -> None:
    builder = TableBuilder(place / "t", [Column("id")])
    adds = [builder.write_file([{"id": i}]) for i in range(3)]
    for add in adds:
        add["add"]["size"] = size
    builder.commit(*adds)
    assert deltactl("optimize", place / "t", "--max-bytes", "1GiB").code == 0
    assert deltactl("optimize", place / "t", "--purge").code == 0
    assert rows_of(place / "t") == multiset(builder.rows())


@pytest.mark.parametrize("member", ["size", "modificationTime", "partitionValues"])
def test_a_file_without_a_member_that_readers_need(place: Path, deltactl: Cli, member: str) -> None:
    builder = build(place / "t", files=0)
    adds = [builder.write_file([{"id": i, "v": "x"}]) for i in range(6)]
    for add in adds:
        del add["add"][member]
    builder.commit(*adds)
    before = contents(place)
    for command in (["optimize", "--dry-run"], ["optimize"], ["maintain", "--dry-run"]):
        ran = deltactl(command[0], place / "t", *command[1:])
        assert ran.code == 1, command
        assert f".parquet: its {member} in the log is missing" in ran.err
    assert contents(place) == before
    ran = deltactl("clone", "--deep", place / "t", place / "clone")
    assert ran.code == 0, ran.err
    assert "vectors" not in ran.out


@pytest.mark.parametrize("value", [-1, True, 1.5])
@pytest.mark.parametrize("member", ["name", "description"])
def test_a_name_that_is_no_text(place: Path, deltactl: Cli, member: str, value: Any) -> None:
    build(place / "t").change_metadata(**{member: value})
    ran = deltactl("describe-detail", place / "t")
    assert ran.code == 0, ran.err
    assert json.dumps(value) in ran.out


def test_a_version_of_which_only_the_checkpoint_is_left(place: Path, deltactl: Cli) -> None:
    """All commands treat it as a version like others."""
    root = place / "t"
    builder = build(root)
    builder.append([{"id": 7, "v": "x"}])
    builder.checkpoint()
    builder.store.delete_many([commit_path(version) for version in range(3)])
    ran = deltactl("optimize", root)
    assert "version 2 can still be read" in ran.out
    history = deltactl("describe-history", root, "--restorable", "-o", "json")
    rows = json.loads(history.out)["result"]
    assert [(row["version"], row["restorable"]) for row in rows] == [
        (3, "readable"),
        (2, "readable"),
    ]
    assert deltactl("vacuum", root, "--dry-run").code == 0
    assert deltactl("clone", "--deep", root, place / "clone", "--version", "2").code == 0
    assert rows_of(place / "clone") == multiset(builder.rows())
    ran = deltactl("restore", root, "--to-version", "1")
    assert "it has versions 2 to 3" in ran.err
    assert deltactl("restore", root, "--to-version", "2").code == 0
    assert rows_of(root) == multiset(builder.rows())


def test_printed_commands_are_quoted_for_the_shell(place: Path, deltactl: Cli) -> None:
    root = place / "a b;$(x)"
    builder = build(root, features=["deletionVectors"])
    builder.delete_rows(next(iter(builder.data)), [0])
    ran = deltactl("generate-manifest", root)
    assert f"optimize '{LocalStore(str(root)).uri}' --purge" in ran.err


# -- names --------------------------------------------------------------------------------------

ODD_NAMES = (
    "with space",
    "per%20cent%", "ha#sh?x=1",
    "üñí 日本語 🎉",
    "new\nline",
    "tab\tand \x1b[31mred",
    "quote'\"`$(x)", "-dash", "a+b&c", "[markup]", "back\\slash", "colon:in",
)  # fmt: skip


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_of_tables(place: Path, deltactl: Cli, name: str) -> None:
    root = place / name
    builder = build(root)
    ran = deltactl("optimize", root, "--dry-run")
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    assert deltactl("optimize", root).code == 0
    assert rows_of(root) == multiset(builder.rows())
    uri = "file://" + quote(str(root))
    assert deltactl("optimize", uri, "--check").code == 0
    assert names_in(place) == [name]


@pytest.mark.parametrize("value", [*ODD_NAMES, "../../x", "..", ".", "a/b", "/etc", "~", "%2e%2e"])
def test_odd_partition_values(place: Path, deltactl: Cli, value: str) -> None:
    """Folders are Hive-escaped: whatever the value, outputs lie inside the root."""
    root = place / "t"
    builder = TableBuilder(root, [Column("id"), Column("p", "string")], partition_by=["p"])
    adds = [builder.write_file([{"id": i, "p": "plain"}]) for i in range(3)]
    for add in adds:
        add["add"]["partitionValues"]["p"] = value
    builder.commit(*adds)
    ran = deltactl("optimize", root)
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    rows = Table(str(root)).scan().read_all().to_pylist()
    assert {row["p"] for row in rows} == {value}
    assert len(rows) == 3
    (path,) = Table(str(root)).snapshot().files["path"].to_pylist()
    assert (root / path).resolve().is_relative_to(root.resolve())
    assert names_in(place) == ["t"]


@pytest.mark.parametrize(
    "path",
    [
        "../../outside/precious.parquet", "%2E%2E/%2E%2E/outside/precious.parquet",
        "a/../../../outside/precious.parquet", "..", "", "/", "x/\x00y",
    ],
)  # fmt: skip
def test_paths_out_of_the_root_are_refused(place: Path, deltactl: Cli, path: str) -> None:
    builder = build(place / "t")
    add = builder.find(next(iter(builder.data)))
    builder.commit({"add": {**add, "path": path}})
    before = contents(place)
    ran = deltactl("optimize", place / "t")
    assert ran.code in (1, 6, 8), ran.err
    ensure_kept(place, before, path)


def test_an_absolute_path_is_read_and_never_written(place: Path, deltactl: Cli) -> None:
    """As in a shallow clone: files lie elsewhere, new ones come here, the others stay."""
    source = build(place / "source")
    clone = TableBuilder(place / "t", source.columns)
    adds = []
    for path in source.data:
        absolute = f"file://{place}/source/{path}"
        adds.append({"add": {**source.find(path), "path": absolute}})
        clone.data[absolute] = source.data[path]
    clone.commit(*adds)
    before = contents(place / "source")
    ran = deltactl("optimize", place / "t", "-o", "json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["result"]["files_removed"] == 3
    assert rows_of(place / "t") == multiset(source.rows())
    assert contents(place / "source") == before
    removes = [
        json.loads(line)["remove"]["path"]
        for line in (place / "t" / commit_path(2)).read_text().splitlines()
        if '"remove"' in line
    ]
    assert sorted(removes) == sorted(clone.data)


def test_user_names_are_data(place: Path, deltactl: Cli) -> None:
    builder = build(place / "t")
    hostile = "[bold red]x[/]\x1b]0;title\x07\x1b[2J\u202e\r\n\u2028end"
    builder.commit(operation=hostile, userName=hostile, userMetadata=hostile, engineInfo=hostile)
    builder.change_metadata(name=hostile, description=hostile)
    for command in COMMANDS:
        ran = deltactl(command, place / "t")
        assert ran.code == 0, ran.err
        for text in (ran.out, ran.err):
            assert not set(text) & {"\x1b", "\x07", "\r", "\u202e", "\u2028"}, command
        if command == "describe-detail":
            assert "[bold red]x[/]" in ran.out


@pytest.mark.parametrize(
    "columns",
    [
        [{"name": "id", "type": "long", "nullable": True, "metadata": {}}] * 2,
        [{"name": "x", "type": "geometry", "nullable": True, "metadata": {}}],
        [{"name": "x", "type": "decimal(99,3)", "nullable": True, "metadata": {}}],
        [{"name": "x", "type": {"type": "wat"}, "nullable": True, "metadata": {}}],
        [{"name": "x", "type": {"type": "array"}, "nullable": True, "metadata": {}}],
        [{"name": None, "type": "long"}],
        [{"name": "\ud800", "type": "long"}],
        [],
    ],
    ids=["twice", "geometry", "decimal", "unknown", "array", "no name", "no text", "none"],
)
def test_an_absurd_schema_is_reported_and_changes_nothing(
    place: Path, deltactl: Cli, columns: list[Any]
) -> None:
    builder = build(place / "t")
    text = json.dumps({"type": "struct", "fields": columns})
    builder.change_metadata(schemaString=text)
    before = contents(place)
    ran = deltactl("optimize", place / "t")
    assert ran.code in (1, 6, 7) or (ran.code == 0 and not columns), ran.err
    assert "bug" not in ran.err
    assert contents(place) == before or ran.code == 0
    assert deltactl("describe-history", place / "t").code == 0
